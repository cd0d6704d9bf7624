/* The loops of registers. Twelve independent chains of multiply-adds hide the latency of two units
 * of 4 to 6 cycles; six tiles that of AMX. Results of a chain are inputs of its next step, and the
 * last ones are returned, so that no compiler can leave a step out. Owns no measuring and no choice
 * of processors: whoever has a backend of that name may run its loop. */
#include "backend/cpu/peak.h"

#include "base/num.h"

#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* Chains grow slowly: no infinity, no subnormal. */
#define FACTOR 1e-3f
#define TIMES 1e-3f

enum { CHAINS = 12, ANY_LANES = 4 };

/* Whatever the compiler makes of it: on aarch64 vectors of four, elsewhere one by one. */
static float run_any(size_t steps) {
    float chain[CHAINS * ANY_LANES], sum = 0.0f;
    for (size_t i = 0; i < CHAINS * ANY_LANES; i++)
        chain[i] = (float)i;
    for (size_t step = 0; step < steps; step++)
        for (size_t i = 0; i < CHAINS * ANY_LANES; i++)
            chain[i] = num_fma(FACTOR, TIMES, chain[i]);
    for (size_t i = 0; i < CHAINS * ANY_LANES; i++)
        sum += chain[i];
    return sum;
}

#ifdef __x86_64__

#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

__attribute__((target("avx2,fma"))) static float run_avx2(size_t steps) {
    __m256 x = _mm256_set1_ps(FACTOR), y = _mm256_set1_ps(TIMES), sum = y;
#define BEGIN(I) __m256 chain##I = _mm256_set1_ps((float)I);
#define STEP(I) chain##I = _mm256_fmadd_ps(x, y, chain##I);
#define END(I) sum = _mm256_add_ps(sum, chain##I);
    EACH(BEGIN)
    for (size_t step = 0; step < steps; step++) {
        EACH(STEP)
    }
    EACH(END)
#undef BEGIN
#undef STEP
#undef END
    return _mm256_cvtss_f32(sum);
}

#define BEGIN(I) __m512 chain##I = _mm512_set1_ps((float)I);
#define END(I) sum = _mm512_add_ps(sum, chain##I);

__attribute__((target("avx512f"))) static float run_avx512(size_t steps) {
    __m512 x = _mm512_set1_ps(FACTOR), y = _mm512_set1_ps(TIMES), sum = y;
#define STEP(I) chain##I = _mm512_fmadd_ps(x, y, chain##I);
    EACH(BEGIN)
    for (size_t step = 0; step < steps; step++) {
        EACH(STEP)
    }
    EACH(END)
#undef STEP
    return _mm512_cvtss_f32(sum);
}

#define BF16_ONE 0x3F80

__attribute__((target("avx512f,avx512bf16"))) static float run_bf16(size_t steps) {
    __m512 sum = _mm512_setzero_ps();
    __m512bh x = (__m512bh)_mm512_set1_epi32(BF16_ONE | BF16_ONE << 16), y = x;
#define STEP(I) chain##I = _mm512_dpbf16_ps(chain##I, x, y);
    EACH(BEGIN)
    for (size_t step = 0; step < steps; step++) {
        EACH(STEP)
    }
    EACH(END)
#undef STEP
    return _mm512_cvtss_f32(sum);
}

#undef BEGIN
#undef END

/* Intel's architecture instruction set extensions, chapter 3: tiles of 16 rows of 64 bytes. Linux
 * lends their state to a process that asks (arch_prctl, ARCH_REQ_XCOMP_PERM of XTILEDATA); asking
 * again is harmless. */
enum { TILES = 6, TILE_ROWS = 16, TILE_BYTES = 64, REQUEST = 0x1023, TILE_DATA = 18 };

__attribute__((target("amx-tile,amx-bf16"))) static float run_amx(size_t steps) {
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    uint8_t tile[TILE_ROWS * TILE_BYTES];
    float sum;
    if (syscall(SYS_arch_prctl, REQUEST, TILE_DATA) != 0)
        return 0.0f;
    for (size_t i = 0; i < TILES + 2; i++) {
        config.row_bytes[i] = TILE_BYTES;
        config.rows[i] = TILE_ROWS;
    }
    for (size_t i = 0; i < sizeof tile; i += 2)
        memcpy(tile + i, &(uint16_t){BF16_ONE}, 2);
    _tile_loadconfig(&config);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_loadd(6, tile, TILE_BYTES);
    _tile_loadd(7, tile, TILE_BYTES);
    for (size_t step = 0; step < steps; step++) {
        _tile_dpbf16ps(0, 6, 7);
        _tile_dpbf16ps(1, 6, 7);
        _tile_dpbf16ps(2, 6, 7);
        _tile_dpbf16ps(3, 6, 7);
        _tile_dpbf16ps(4, 6, 7);
        _tile_dpbf16ps(5, 6, 7);
    }
    _tile_stored(5, tile, TILE_BYTES);
    _tile_release();
    memcpy(&sum, tile, sizeof sum);
    return sum;
}

#endif

/* The last one is for whatever is not named before, and runs anywhere. */
static const struct peak peaks[] = {
#ifdef __x86_64__
    {"amx", "amx", "amx", 2.0 * TILES * 16 * 16 * 32, run_amx},
    {"bf16", "avx512bf16", "avx512bf16", 4.0 * CHAINS * 16, run_bf16},
    {"fma", "portable", "avx512", 2.0 * CHAINS * 16, run_avx512},
    {"fma", "portable", "avx2", 2.0 * CHAINS * 8, run_avx2},
#endif
    {"fma", "portable", NULL, 2.0 * CHAINS *ANY_LANES, run_any},
};

const struct peak *peak_of(const char *kernels, const char *isa) {
    size_t count = sizeof peaks / sizeof *peaks, i = 0;
    while (i + 1 < count &&
           (strcmp(peaks[i].kernels, kernels) != 0 || strcmp(peaks[i].isa, isa) != 0))
        i++;
    return &peaks[i];
}

/* Sixteen bytes at any address: what every compiler makes one load of. */
typedef uint64_t pair __attribute__((vector_size(16), aligned(1), may_alias));

uint64_t peak_read(const uint8_t *data, size_t bytes) {
    pair sum[4] = {{0}};
    for (size_t at = 0; at + sizeof sum <= bytes; at += sizeof sum) {
        const pair *line = (const pair *)(const void *)(data + at);
        sum[0] += line[0];
        sum[1] += line[1];
        sum[2] += line[2];
        sum[3] += line[3];
    }
    pair all = sum[0] + sum[1] + sum[2] + sum[3];
    return all[0] + all[1];
}
