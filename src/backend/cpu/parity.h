/* For tests of backend/cpu alone: backends by instruction set, random activations and weights, and
 * comparison bit by bit. Everything fails the running cmocka test when it cannot be had. */
#ifndef SLUICE_BACKEND_CPU_PARITY_H
#define SLUICE_BACKEND_CPU_PARITY_H

#include "backend/cpu/kernels.h"
#include "base/cpu.h"
#include "base/num.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* Marsaglia's xorshift64*. */
static inline uint64_t parity_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545F4914F6CDD1Dull;
}

/* 0 .. count - 1 */
static inline size_t parity_below(uint64_t *state, size_t count) {
    return (size_t)(parity_random(state) >> 33) % count;
}

/* [-1, 1) in steps of 2^-23 */
static inline float parity_number(uint64_t *state) {
    return (float)((int32_t)(parity_random(state) >> 40) - (1 << 23)) * 0x1p-23f;
}

/* Mostly ordinary numbers, now and then a subnormal, a zero of either sign or a huge one, rarely
 * NaN or an infinity, so that some results stay numbers. */
static inline float parity_special(uint64_t *state) {
    static const uint32_t special[] = {0x7FC00000u, 0x7F800000u, 0xFF800000u, 0x00000001u,
                                       0x807FFFFFu, 0x80000000u, 0x00000000u, 0x7B7FFFFFu};
    if (parity_below(state, 30) == 0)
        return num_bits_float(special[3 + parity_below(state, 5)]);
    if (parity_below(state, 1000) == 0)
        return num_bits_float(special[parity_below(state, 3)]);
    return parity_number(state);
}

/* Room to pack 600 features of 48 tokens: larger products go slice by slice. */
static inline struct backend *parity_backend_for(const char *kernels, const char *isa,
                                                 size_t threads, size_t features, size_t tokens) {
    struct team *team = NULL;
    struct backend *backend = NULL;
    struct error err;
    assert_int_equal(team_new(threads, &team, &err), SL_OK);
    struct backend_options options = {
        .kernels = kernels, .isa = isa, .team = team, .features = features, .tokens = tokens};
    assert_int_equal(backend_cpu_new(&options, &backend, &err), SL_OK);
    return backend;
}

static inline struct backend *parity_backend_of(const char *kernels, const char *isa,
                                                size_t threads) {
    return parity_backend_for(kernels, isa, threads, 600, 48);
}

static inline struct backend *parity_backend(const char *isa, size_t threads) {
    return parity_backend_of("portable", isa, threads);
}

static inline void parity_backend_free(struct backend *backend) {
    struct team *team = backend->team;
    backend_free(backend);
    team_free(team);
}

/* Calls check for every instruction set of this build that has what is tested and that the
 * processor has; names those that it lacks, and ends the test as skipped when it lacks all. */
static inline void parity_each_set_that(bool (*has)(const struct cpu_kernels *set),
                                        void (*check)(const struct cpu_kernels *set)) {
    const struct cpu_kernels *set;
    size_t checked = 0;
    for (size_t i = 0; (set = cpu_kernels_at(i)) != NULL; i++) {
        if (!has(set))
            continue;
        if (!set->is_available()) {
            print_message("skipped: this processor cannot run the '%s' kernels\n", set->isa);
            continue;
        }
        check(set);
        checked++;
    }
    if (checked == 0)
        skip();
}

static inline bool parity_is_fast(const struct cpu_kernels *set) {
    return set != &cpu_kernels_scalar;
}

/* Every set but the scalar reference. */
static inline void parity_each_set(void (*check)(const struct cpu_kernels *set)) {
    parity_each_set_that(parity_is_fast, check);
}

/* All lanes, those past the last token too. */
static inline void parity_fill(struct act *act, float (*number)(uint64_t *), uint64_t *state) {
    for (size_t i = 0; i < act_floats(act->features, act->tokens); i++)
        act->data[i] = number(state);
}

static inline struct act parity_act(size_t features, size_t tokens, uint64_t *state) {
    struct act act;
    struct error err;
    assert_int_equal(act_init(&act, features, tokens, &err), SL_OK);
    parity_fill(&act, parity_number, state);
    return act;
}

/* The same bits; one NaN is as good as another. */
static inline bool parity_same(float a, float b) {
    return num_float_bits(a) == num_float_bits(b) || (a != a && b != b);
}

static inline void parity_assert_acts(const struct act *a, const struct act *b, const char *what) {
    assert_int_equal(a->features, b->features);
    assert_int_equal(a->tokens, b->tokens);
    for (size_t t = 0; t < a->tokens; t++)
        for (size_t f = 0; f < a->features; f++) {
            float x = *act_at(a, f, t), y = *act_at(b, f, t);
            if (!parity_same(x, y))
                fail_msg("%s: feature %zu of token %zu: %a and %a", what, f, t, (double)x,
                         (double)y);
        }
}

/* The scale at `at`: an ordinary half (2^-9 to 2^-5), or any sixteen bits, infinities and NaN
 * included. */
static inline void parity_scale(uint8_t *at, bool is_special, uint64_t *state) {
    uint16_t half = (uint16_t)parity_random(state);
    if (!is_special || parity_below(state, 4) != 0)
        half = (uint16_t)((half & 0x83FFu) | (6 + parity_below(state, 4)) << 10);
    memcpy(at, &half, sizeof half);
}

/* Where the halves of a quantised block lie; -1: there is none. */
struct parity_halves {
    int first, second;
};

static inline struct parity_halves parity_halves_of(enum dtype dtype) {
    switch (dtype) {
    case DTYPE_Q4_1:
    case DTYPE_Q5_1:
    case DTYPE_Q4_K:
    case DTYPE_Q5_K:
        return (struct parity_halves){0, 2};
    case DTYPE_Q2_K:
        return (struct parity_halves){80, 82};
    case DTYPE_Q3_K:
        return (struct parity_halves){108, -1};
    case DTYPE_Q6_K:
        return (struct parity_halves){208, -1};
    case DTYPE_TQ1_0:
        return (struct parity_halves){52, -1};
    case DTYPE_TQ2_0:
        return (struct parity_halves){64, -1};
    case DTYPE_MXFP4:
        return (struct parity_halves){-1, -1};
    default:
        return (struct parity_halves){0, -1};
    }
}

/* Makes the random bytes of a block weights. */
static inline void parity_block(enum dtype dtype, uint8_t *block, bool is_special,
                                uint64_t *state) {
    float number = is_special ? parity_special(state) : parity_number(state);
    uint16_t bf16 = num_to_bf16(number);
    struct parity_halves halves =
        dtype_get(dtype)->decode ? parity_halves_of(dtype) : (struct parity_halves){-1, -1};
    if (dtype == DTYPE_F32)
        memcpy(block, &number, sizeof number);
    else if (dtype == DTYPE_BF16)
        memcpy(block, &bf16, sizeof bf16);
    else if (dtype == DTYPE_MXFP4 && !is_special)
        block[0] = (uint8_t)(118 + parity_below(state, 5)); /* 2^-9 to 2^-5 */
    else if (dtype == DTYPE_F8_E4M3 && !is_special && (block[0] & 0x7F) == 0x7F)
        block[0] = 0x38; /* 1, not NaN */
    else if (halves.first >= 0)
        parity_scale(block + halves.first, is_special, state);
    if (halves.second >= 0)
        parity_scale(block + halves.second, is_special, state);
}

/* A format of matrices, not one of their parts alone. */
static inline bool parity_is_format(enum dtype dtype) {
    return dtype_get(dtype)->decode || dtype_get(dtype)->decode_row;
}

/* Random scales of a view of numbers, as each format has them; the view begins inside a group of
 * rows where groups have several. All lie at `at`, which has room for 8 bytes a number. */
static inline void parity_scales(struct view *view, uint8_t *at, bool is_special, uint64_t *state) {
    static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16};
    struct view_scales *scales = &view->scales;
    bool is_fp8 = view->dtype == DTYPE_F8_E4M3, is_mxfp4 = view->dtype == DTYPE_MXFP4_SPLIT;
    scales->dtype = is_mxfp4 ? DTYPE_F8_E8M0 : types[parity_below(state, 3)];
    scales->group_rows = is_fp8 ? 1 + parity_below(state, 20) : 1;
    scales->group_columns = is_fp8 ? 128 : is_mxfp4 ? 32 : 16 * (1 + parity_below(state, 8));
    scales->rows_before = parity_below(state, scales->group_rows);
    size_t bytes = dtype_get(scales->dtype)->block_bytes;
    size_t groups = (view->columns + scales->group_columns - 1) / scales->group_columns;
    size_t rows = (scales->rows_before + view->rows - 1) / scales->group_rows + 1;
    scales->row_bytes = groups * bytes + 1;
    scales->data = at;
    scales->biases = is_fp8 || is_mxfp4 ? NULL : at + rows * scales->row_bytes;
    for (size_t i = 0; i < 2 * rows * groups; i++) {
        uint8_t *scale = at + i / groups * scales->row_bytes + i % groups * bytes;
        float number = is_special ? parity_special(state) : parity_number(state);
        uint16_t bf16 = num_to_bf16(number);
        if (is_mxfp4)
            *scale = (uint8_t)(is_special ? parity_random(state) >> 24 : 120 + i % 7);
        else if (scales->dtype == DTYPE_F32)
            memcpy(scale, &number, sizeof number);
        else if (scales->dtype == DTYPE_BF16)
            memcpy(scale, &bf16, sizeof bf16);
        else
            parity_scale(scale, is_special, state);
    }
}

/* Random weights at an odd address, rows apart by more than their bytes. Free view->data - 1. */
static inline struct view parity_weights(enum dtype dtype, size_t rows, size_t columns,
                                         bool is_special, uint64_t *state) {
    const struct dtype_info *format = dtype_get(dtype);
    size_t blocks = columns / format->block_values, row_bytes = blocks * format->block_bytes + 3;
    size_t room = format->decode_row ? 8 * (rows + 2) * (columns / 16 + 2) : 0;
    uint8_t *memory = test_malloc(rows * row_bytes + 1 + room), *data = memory + 1;
    for (size_t i = 0; i < rows * row_bytes; i++)
        data[i] = (uint8_t)(parity_random(state) >> 24);
    for (size_t i = 0; i < rows * blocks; i++) {
        uint8_t *block = data + i / blocks * row_bytes + i % blocks * format->block_bytes;
        parity_block(dtype, block, is_special, state);
    }
    struct view view = {
        .dtype = dtype, .rows = rows, .columns = columns, .row_bytes = row_bytes, .data = data};
    if (format->decode_row)
        parity_scales(&view, data + rows * row_bytes, is_special, state);
    return view;
}

static inline void parity_weights_free(const struct view *w) {
    test_free((void *)(uintptr_t)(w->data - 1));
}

static inline size_t parity_columns(enum dtype dtype, uint64_t *state) {
    size_t block = dtype_get(dtype)->block_values;
    return block * (1 + parity_below(state, block == 1 ? 600 : 600 / block + 1));
}

/* One random product of rows x columns by both backends. */
static inline void parity_product(enum dtype dtype, bool is_special, size_t rows, size_t tokens,
                                  struct backend *backends[2], uint64_t *state) {
    size_t columns = parity_columns(dtype, state);
    struct view w = parity_weights(dtype, rows, columns, is_special, state);
    struct act x = parity_act(columns, tokens, state);
    struct act one = parity_act(rows + 3, tokens, state), two = parity_act(rows + 3, tokens, state);
    if (is_special)
        parity_fill(&x, parity_special, state);
    memcpy(two.data, one.data, act_floats(rows + 3, tokens) * sizeof(float));
    /* Features 0, 1 and the last stay as they are. */
    backends[0]->ops->product(backends[0], &w, &x, &one, 2);
    backends[1]->ops->product(backends[1], &w, &x, &two, 2);
    parity_assert_acts(&one, &two, dtype_get(dtype)->name);
    act_release(&x);
    act_release(&one);
    act_release(&two);
    parity_weights_free(&w);
}

/* A token of `all` has the same bits in passes of other sizes, whatever its company and the lanes
 * past the last token hold. */
static inline void parity_in_company(struct backend *backend, const struct view *w,
                                     const struct act *x, const struct act *all, uint64_t *state) {
    for (size_t count = 1; count <= 70; count += count < 20 ? 1 : 9) {
        struct act some = parity_act(x->features, count, state);
        struct act y = parity_act(all->features, count, state);
        parity_fill(&some, parity_special, state);
        size_t token = parity_below(state, x->tokens), lane = parity_below(state, count);
        for (size_t k = 0; k < x->features; k++)
            *act_at(&some, k, lane) = *act_at(x, k, token);
        backend->ops->product(backend, w, &some, &y, 0);
        for (size_t row = 0; row < w->rows; row++)
            assert_true(parity_same(*act_at(&y, row, lane), *act_at(all, row, token)));
        act_release(&some);
        act_release(&y);
    }
}

#endif
