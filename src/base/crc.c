/* Owns CRC-32C. Both ways give the same numbers; refuses nothing.
 *
 * The instruction takes eight bytes a cycle but has its result after three, so three lanes of the
 * bytes run side by side. The checksums of the lanes join as polynomials do: that of A followed by
 * B is that of A times x^(8 |B|) modulo P, plus that of B. Multiplying by that power is linear, so
 * that a table for each byte of the checksum does it. */
#include "base/crc.h"

#include "base/cpu.h"

#include <pthread.h>
#include <string.h>
#if defined(__x86_64__)
#include <nmmintrin.h>
#define CRC_TARGET __attribute__((target("sse4.2")))
#define CRC_WORD(crc, word) ((uint32_t)_mm_crc32_u64(crc, word))
#define CRC_BYTE(crc, byte) _mm_crc32_u8(crc, byte)
#elif defined(__aarch64__)
#pragma GCC push_options
#pragma GCC target("+crc")
#include <arm_acle.h>
#pragma GCC pop_options
#define CRC_TARGET __attribute__((target("+crc")))
#define CRC_WORD(crc, word) __crc32cd(crc, word)
#define CRC_BYTE(crc, byte) __crc32cb(crc, byte)
#else /* cpu_get knows of none, so these are never reached */
#define CRC_TARGET
#define CRC_WORD(crc, word) ((void)(word), (crc))
#define CRC_BYTE(crc, byte) ((void)(byte), (crc))
#endif

#define CRC_POLYNOMIAL 0x82F63B78u
#define CRC_LANE_BYTES ((size_t)4096)

/* [k][b]: what byte b does to the checksum when k more bytes follow in the same word. */
static uint32_t crc_steps[8][256];
/* [k][b]: byte b at place k of a checksum, CRC_LANE_BYTES later. */
static uint32_t crc_lane[4][256];
static pthread_once_t crc_once = PTHREAD_ONCE_INIT;

static uint32_t skip_zeros(uint32_t crc, size_t count) {
    for (size_t i = 0; i < count; i++)
        crc = (crc >> 8) ^ crc_steps[0][crc & 0xFF];
    return crc;
}

static void make_tables(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? CRC_POLYNOMIAL : 0);
        crc_steps[0][byte] = crc;
    }
    for (uint32_t byte = 0; byte < 256; byte++)
        for (size_t k = 1; k < 8; k++)
            crc_steps[k][byte] = skip_zeros(crc_steps[0][byte], k);
    /* Of single bits, then of all bytes as their sums. */
    for (size_t k = 0; k < 4; k++)
        for (uint32_t byte = 1; byte < 256; byte++) {
            uint32_t low = byte & (0u - byte);
            crc_lane[k][byte] = byte == low ? skip_zeros(byte << (8 * k), CRC_LANE_BYTES)
                                            : crc_lane[k][low] ^ crc_lane[k][byte ^ low];
        }
}

/* The state runs inverted between calls of the next two, as RFC 3720 begins and ends it. */
static uint32_t run_tables(uint32_t state, const uint8_t *at, size_t count) {
    for (; count >= 8; count -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        word ^= state; /* the machine is little-endian */
        state = 0;
        for (size_t k = 0; k < 8; k++)
            state ^= crc_steps[7 - k][(word >> (8 * k)) & 0xFF];
    }
    for (; count > 0; count--, at++)
        state = (state >> 8) ^ crc_steps[0][(state ^ *at) & 0xFF];
    return state;
}

uint32_t crc32c_tables(uint32_t crc, const void *bytes, size_t count) {
    (void)pthread_once(&crc_once, make_tables);
    return ~run_tables(~crc, bytes, count);
}

static uint32_t skip_lane(uint32_t state) {
    return crc_lane[0][state & 0xFF] ^ crc_lane[1][(state >> 8) & 0xFF] ^
           crc_lane[2][(state >> 16) & 0xFF] ^ crc_lane[3][state >> 24];
}

static uint64_t word_at(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, 8);
    return word;
}

CRC_TARGET static uint32_t run_instruction(uint32_t state, const uint8_t *at, size_t count) {
    for (; count >= 3 * CRC_LANE_BYTES; count -= 3 * CRC_LANE_BYTES, at += 3 * CRC_LANE_BYTES) {
        uint32_t second = 0, third = 0;
        for (size_t i = 0; i < CRC_LANE_BYTES; i += 8) {
            state = CRC_WORD(state, word_at(at + i));
            second = CRC_WORD(second, word_at(at + CRC_LANE_BYTES + i));
            third = CRC_WORD(third, word_at(at + 2 * CRC_LANE_BYTES + i));
        }
        state = skip_lane(skip_lane(state) ^ second) ^ third;
    }
    for (; count >= 8; count -= 8, at += 8)
        state = CRC_WORD(state, word_at(at));
    for (; count > 0; count--, at++)
        state = CRC_BYTE(state, *at);
    return state;
}

uint32_t crc32c(uint32_t crc, const void *bytes, size_t count) {
    if (!cpu_get()->has_crc32c)
        return crc32c_tables(crc, bytes, count);
    (void)pthread_once(&crc_once, make_tables);
    return ~run_instruction(~crc, bytes, count);
}
