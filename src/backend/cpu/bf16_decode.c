/* Weights of ggml's formats straight to bf16, for the bf16 kernel sets: no float32 of them reaches
 * memory. Layouts and meaning are those of tensor/fmt_ggml.c, fmt_short.c and fmt_long.c.
 *
 * Few bits and a scale that many weights share give few different values. These are computed, each
 * as the reference does, and rounded to bf16 once for all weights that have them: a table in a
 * register, in which vpermw (vpermi2w where it fills two) looks up 32 weights at once. It looks at
 * five bits of an index, so that a table of 16 values is there twice and one of 4 eight times, and
 * bits above those of a number need not be cleared. Formats of six bits and more are computed one
 * by one. Nothing past the last block is read. */
#include "backend/cpu/bf16_decode.h"

#ifdef __x86_64__

BF16 static void decode_bf16(const struct bf16_row *row, const uint8_t *from) {
    uint8_t *out = row->out;
    for (size_t k = 0; k < row->count; k += BF16_STEP, out += row->stride)
        _mm512_store_si512(out, _mm512_maskz_loadu_epi16(lanes_left(row->count, k), from + 2 * k));
}

BF16 static void decode_f32(const struct bf16_row *row, const uint8_t *from) {
    uint8_t *out = row->out;
    for (size_t k = 0; k < row->count; k += BF16_STEP, out += row->stride) {
        __mmask32 lanes = lanes_left(row->count, k);
        __m512 low = _mm512_maskz_loadu_ps((__mmask16)lanes, from + 4 * k);
        __m512 high = _mm512_maskz_loadu_ps((__mmask16)(lanes >> 16), from + 4 * k + 64);
        store_line(out, low, high);
    }
}

BF16 static void decode_f16(const struct bf16_row *row, const uint8_t *from) {
    uint8_t *out = row->out;
    for (size_t k = 0; k < row->count; k += BF16_STEP, out += row->stride) {
        __m512i halves = _mm512_maskz_loadu_epi16(lanes_left(row->count, k), from + 2 * k);
        store_line(out, _mm512_cvtph_ps(_mm512_castsi512_si256(halves)),
                   _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1)));
    }
}

/* ---- blocks of 32 weights */

BF16 static void decode_q8_0(const struct bf16_row *row, const uint8_t *block) {
    uint8_t *out = row->out;
    for (size_t at = 0; at < row->count; at += 32, block += 34, out += row->stride) {
        __m512 scale = half_at(block);
        store_line(out, _mm512_mul_ps(sixteen_signed(block + 2), scale),
                   _mm512_mul_ps(sixteen_signed(block + 18), scale));
    }
}

/* The numbers 0 to 15 and more, as floats. */
BF16_INLINE __m512 counting_from(float first) {
    __m512 count = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_add_ps(count, _mm512_set1_ps(first));
}

/* Sixteen bytes as indices: first their low nibbles, then the high ones. */
BF16_INLINE __m512i nibbles_of(const uint8_t *packed) {
    __m256i words = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)packed));
    return join(words, _mm256_srli_epi16(words, 4));
}

BF16 static void decode_q4_0(const struct bf16_row *row, const uint8_t *block) {
    uint8_t *out = row->out;
    for (size_t at = 0; at < row->count; at += 32, block += 18, out += row->stride) {
        __m512i table = table_of_16(_mm512_mul_ps(half_at(block), counting_from(-8)));
        store_looked_up(out, nibbles_of(block + 2), table);
    }
}

BF16 static void decode_q4_1(const struct bf16_row *row, const uint8_t *block) {
    uint8_t *out = row->out;
    for (size_t at = 0; at < row->count; at += 32, block += 20, out += row->stride) {
        __m512 scale, minimum;
        two_halves_at(block, &scale, &minimum);
        __m512 values = _mm512_fmadd_ps(scale, counting_from(0), minimum);
        store_looked_up(out, nibbles_of(block + 4), table_of_16(values));
    }
}

/* Nibbles, and a fifth bit for each. */
BF16_INLINE __m512i five_bits_of(const uint8_t *packed, const uint8_t *bits) {
    uint32_t fifth;
    memcpy(&fifth, bits, sizeof fifth);
    __m512i nibbles = _mm512_and_si512(nibbles_of(packed), _mm512_set1_epi16(15));
    return _mm512_mask_add_epi16(nibbles, fifth, nibbles, _mm512_set1_epi16(16));
}

BF16 static void decode_q5_0(const struct bf16_row *row, const uint8_t *block) {
    uint8_t *out = row->out;
    for (size_t at = 0; at < row->count; at += 32, block += 22, out += row->stride) {
        __m512 scale = half_at(block);
        __m512i table = table_of_32(_mm512_mul_ps(scale, counting_from(-16)),
                                    _mm512_mul_ps(scale, counting_from(0)));
        store_looked_up(out, five_bits_of(block + 6, block + 2), table);
    }
}

BF16 static void decode_q5_1(const struct bf16_row *row, const uint8_t *block) {
    uint8_t *out = row->out;
    for (size_t at = 0; at < row->count; at += 32, block += 24, out += row->stride) {
        __m512 scale, minimum;
        two_halves_at(block, &scale, &minimum);
        __m512i table = table_of_32(_mm512_fmadd_ps(scale, counting_from(0), minimum),
                                    _mm512_fmadd_ps(scale, counting_from(16), minimum));
        store_looked_up(out, five_bits_of(block + 8, block + 4), table);
    }
}

BF16_INLINE __m512 iq4_levels(void) {
    return _mm512_setr_ps(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
}

BF16 static void decode_iq4_nl(const struct bf16_row *row, const uint8_t *block) {
    uint8_t *out = row->out;
    for (size_t at = 0; at < row->count; at += 32, block += 18, out += row->stride) {
        __m512i table = table_of_16(_mm512_mul_ps(half_at(block), iq4_levels()));
        store_looked_up(out, nibbles_of(block + 2), table);
    }
}

BF16 static void decode_mxfp4(const struct bf16_row *row, const uint8_t *block) {
    const __m512 doubles = _mm512_setr_ps(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    uint8_t *out = row->out;
    for (size_t at = 0; at < row->count; at += 32, block += 17, out += row->stride) {
        uint32_t exponent = block[0];
        uint32_t bits = exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23;
        __m512 scale = _mm512_castsi512_ps(_mm512_set1_epi32((int)bits));
        store_looked_up(out, nibbles_of(block + 1), table_of_16(_mm512_mul_ps(scale, doubles)));
    }
}

/* ---- blocks of 256 weights */

/* 32 bytes as words. */
BF16_INLINE __m512i words_of(const uint8_t *bytes) {
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const void *)bytes));
}

/* Bits of `mask` from a, the others from b. */
BF16_INLINE __m512i select_bits(int mask, __m512i a, __m512i b) {
    return _mm512_ternarylogic_epi32(_mm512_set1_epi16((short)mask), a, b, 0xCA);
}

BF16 static void decode_iq4_xs(const struct bf16_row *row, const uint8_t *block) {
    const __m256i run = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    uint8_t *out = row->out;
    for (size_t at = 0; at < row->count; at += 256, block += 136) {
        uint32_t low, high = (uint32_t)block[2] | (uint32_t)block[3] << 8;
        float factors[8];
        memcpy(&low, block + 4, sizeof low);
        __m256i numbers = _mm256_srlv_epi32(_mm256_set1_epi32((int)low), _mm256_slli_epi32(run, 2));
        __m256i upper = _mm256_srlv_epi32(_mm256_set1_epi32((int)high), _mm256_slli_epi32(run, 1));
        numbers = _mm256_and_si256(numbers, _mm256_set1_epi32(15));
        upper = _mm256_slli_epi32(_mm256_and_si256(upper, _mm256_set1_epi32(3)), 4);
        numbers = _mm256_sub_epi32(_mm256_or_si256(numbers, upper), _mm256_set1_epi32(32));
        __m256 scale = _mm512_castps512_ps256(half_at(block));
        _mm256_storeu_ps(factors, _mm256_mul_ps(scale, _mm256_cvtepi32_ps(numbers)));
        for (size_t r = 0; r < 8; r++, out += row->stride) {
            __m512 values = _mm512_mul_ps(_mm512_set1_ps(factors[r]), iq4_levels());
            store_looked_up(out, nibbles_of(block + 8 + 16 * r), table_of_16(values));
        }
    }
}

BF16 static void decode_q4_k(const struct bf16_row *row, const uint8_t *block) {
    uint8_t *out = row->out;
    float factors[8], offsets[8];
    for (size_t at = 0; at < row->count; at += 256, block += 144) {
        unpack_k_scales(block, factors, offsets);
        for (size_t run = 0; run < 8; run += 2) {
            __m512i words = words_of(block + 16 + 16 * run);
            for (size_t i = run; i < run + 2; i++, out += row->stride) {
                __m512 values = _mm512_fmadd_ps(_mm512_set1_ps(factors[i]), counting_from(0),
                                                _mm512_set1_ps(offsets[i]));
                store_looked_up(out, words, table_of_16(values));
                words = _mm512_srli_epi16(words, 4);
            }
        }
    }
}

BF16 static void decode_q5_k(const struct bf16_row *row, const uint8_t *block) {
    uint8_t *out = row->out;
    float factors[8], offsets[8];
    for (size_t at = 0; at < row->count; at += 256, block += 176) {
        unpack_k_scales(block, factors, offsets);
        __m512i fifth = _mm512_slli_epi16(words_of(block + 16), 4); /* that of run 0 is bit 4 */
        for (size_t run = 0; run < 8; run += 2) {
            __m512i words = words_of(block + 48 + 16 * run);
            for (size_t i = run; i < run + 2; i++, out += row->stride) {
                __m512 factor = _mm512_set1_ps(factors[i]), offset = _mm512_set1_ps(offsets[i]);
                __m512i table = table_of_32(_mm512_fmadd_ps(factor, counting_from(0), offset),
                                            _mm512_fmadd_ps(factor, counting_from(16), offset));
                store_looked_up(out, select_bits(15, words, fifth), table);
                words = _mm512_srli_epi16(words, 4);
                fifth = _mm512_srli_epi16(fifth, 1);
            }
        }
    }
}

/* Halves of a run: the two lines of 16 weights of half block `half`, run `run`. */
BF16_INLINE __m512i halves_of(size_t half, size_t run) {
    __m256i first = _mm256_set1_epi16((short)(8 * half + 2 * run));
    return join(first, _mm256_add_epi16(first, _mm256_set1_epi16(1)));
}

/* Indices of 32 weights into tables [number][half]: bits 4 and 5 of words, and where they are. */
BF16_INLINE __m512i two_bits_at(__m512i words, size_t half, size_t run) {
    return select_bits(0x30, words, halves_of(half, run));
}

/* The values that two numbers have in each of the sixteen halves of runs. */
BF16_INLINE __m512i two_of_16(__m512 factors, __m512 offsets, float number) {
    return table_of_32(_mm512_fmadd_ps(factors, _mm512_set1_ps(number), offsets),
                       _mm512_fmadd_ps(factors, _mm512_set1_ps(number + 1), offsets));
}

BF16 static void decode_q2_k(const struct bf16_row *row, const uint8_t *block) {
    uint8_t *out = row->out;
    for (size_t at = 0; at < row->count; at += 256, block += 84) {
        __m128i low, high;
        split_nibbles(block, &low, &high);
        __m512 factors = _mm512_mul_ps(half_at(block + 80), sixteen_bytes(low));
        __m512 offsets = _mm512_mul_ps(negative_of(half_at(block + 82)), sixteen_bytes(high));
        __m512i tables[2] = {two_of_16(factors, offsets, 0), two_of_16(factors, offsets, 2)};
        for (size_t half = 0; half < 2; half++) {
            __m512i words = _mm512_slli_epi16(words_of(block + 16 + 32 * half), 4);
            BF16_UNROLL
            for (size_t run = 0; run < 4; run++, out += row->stride) {
                __m512i index = two_bits_at(words, half, run);
                _mm512_store_si512(out, _mm512_permutex2var_epi16(tables[0], index, tables[1]));
                words = _mm512_srli_epi16(words, 2);
            }
        }
    }
}

/* Two lines of 32 weights each, of runs `run` and run + 1 of a half block: three bits of each, and
 * a fourth that tells the half of the run, in bytes; a table of sixteen for each line. */
BF16_INLINE void store_q3_k(uint8_t *out[2], __m256i numbers[2], __m512 factors, size_t first) {
    const __m512 levels = _mm512_setr_ps(-4, -3, -2, -1, 0, 1, 2, 3, -4, -3, -2, -1, 0, 1, 2, 3);
    const __m512i half = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    __m512i which = _mm512_add_epi32(half, _mm512_set1_epi32((int)first));
    __m512i after = _mm512_add_epi32(half, _mm512_set1_epi32((int)first + 2));
    __m512i table = table_of_32(_mm512_mul_ps(levels, _mm512_permutexvar_ps(which, factors)),
                                _mm512_mul_ps(levels, _mm512_permutexvar_ps(after, factors)));
    store_looked_up(out[0], _mm512_cvtepu8_epi16(numbers[0]), table);
    store_looked_up(out[1], _mm512_cvtepu8_epi16(numbers[1]), table);
}

/* Bits of `mask` of each byte from a, the others from b. */
BF16_INLINE __m256i select_bytes(int mask, __m256i a, __m256i b) {
    return _mm256_ternarylogic_epi32(_mm256_set1_epi8((char)mask), a, b, 0xCA);
}

BF16 static void decode_q3_k(const struct bf16_row *row, const uint8_t *block) {
    const __m256i halves = _mm256_setr_epi64x(0, 0, 0x0808080808080808, 0x0808080808080808);
    const __m256i other = _mm256_or_si256(halves, _mm256_set1_epi8(16));
    uint8_t *out[2] = {row->out, row->out + row->stride};
    float scales[16];
    for (size_t at = 0; at < row->count; at += 256, block += 110) {
        unpack_q3_k_scales(block + 96, block + 108, scales);
        __m512 factors = _mm512_loadu_ps(scales);
        __m256i third = _mm256_loadu_si256((const void *)block);
        BF16_UNROLL
        for (size_t half = 0; half < 2; half++) {
            __m256i bytes = _mm256_loadu_si256((const void *)(block + 32 + 32 * half));
            BF16_UNROLL
            for (size_t run = 0; run < 4; run += 2) {
                /* Bit 4 x half + run of each byte of third belongs to bit 2. */
                __m256i bit = half == 0 && run == 0 ? _mm256_slli_epi16(third, 2)
                              : half == 0           ? third
                              : run == 0            ? _mm256_srli_epi16(third, 2)
                                                    : _mm256_srli_epi16(third, 4);
                __m256i next = _mm256_srli_epi16(bit, 1);
                __m256i numbers[2] = {select_bytes(3, bytes, bit),
                                      select_bytes(3, _mm256_srli_epi16(bytes, 2), next)};
                numbers[0] = select_bytes(7, numbers[0], halves);
                numbers[1] = select_bytes(7, numbers[1], other);
                store_q3_k(out, numbers, factors, 8 * half + 2 * run);
                bytes = _mm256_srli_epi16(bytes, 4);
                out[0] += 2 * row->stride;
                out[1] += 2 * row->stride;
            }
        }
    }
}

/* The numbers of 0 to 63 less 32, as bf16, which they are exactly. */
BF16_INLINE __m512i less_32(size_t first) {
    return table_of_32(counting_from((float)first - 32), counting_from((float)first - 16));
}

/* 32 numbers of two runs of sixteen, whose scales are number `first` and the next. */
BF16_INLINE void store_q6_k(uint8_t *out, __m512i numbers, __m512 factors, size_t first) {
    const __m512i run = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    __m512i which = _mm512_add_epi32(run, _mm512_set1_epi32((int)first));
    __m512 factor = _mm512_permutexvar_ps(which, factors);
    __m512i exact = _mm512_permutex2var_epi16(less_32(0), numbers, less_32(32));
    __m512 even = _mm512_castsi512_ps(_mm512_slli_epi32(exact, 16));
    __m512 odd = _mm512_castsi512_ps(_mm512_and_si512(exact, _mm512_set1_epi32((int)0xFFFF0000)));
    store_pairs(out, _mm512_mul_ps(even, factor), _mm512_mul_ps(odd, factor));
}

BF16 static void decode_q6_k(const struct bf16_row *row, const uint8_t *block) {
    uint8_t *out = row->out;
    for (size_t at = 0; at < row->count; at += 256, block += 210) {
        __m512 factors = _mm512_mul_ps(half_at(block + 208), sixteen_signed(block + 192));
        BF16_UNROLL
        for (size_t half = 0; half < 2; half++, out += 4 * row->stride) {
            __m512i a = words_of(block + 64 * half), b = words_of(block + 64 * half + 32);
            __m512i top = words_of(block + 128 + 32 * half);
            __m512i numbers[4] = {
                select_bits(15, a, _mm512_slli_epi16(top, 4)),
                select_bits(15, b, _mm512_slli_epi16(top, 2)),
                select_bits(15, _mm512_srli_epi16(a, 4), top),
                select_bits(15, _mm512_srli_epi16(b, 4), _mm512_srli_epi16(top, 2)),
            };
            BF16_UNROLL
            for (size_t i = 0; i < 4; i++)
                store_q6_k(out + i * row->stride, numbers[i], factors, 8 * half + 2 * i);
        }
    }
}

/* -1, 0, 1 times scale, and again. */
BF16_INLINE __m512i table_of_trits(const uint8_t *half) {
    const __m512 trits = _mm512_setr_ps(-1, 0, 1, 2, -1, 0, 1, 2, -1, 0, 1, 2, -1, 0, 1, 2);
    return table_of_16(_mm512_mul_ps(half_at(half), trits));
}

BF16 static void decode_tq2_0(const struct bf16_row *row, const uint8_t *block) {
    uint8_t *out = row->out;
    for (size_t at = 0; at < row->count; at += 256, block += 66) {
        __m512i table = table_of_trits(block + 64);
        for (size_t half = 0; half < 2; half++) {
            __m512i words = words_of(block + 32 * half);
            for (size_t run = 0; run < 4; run++, out += row->stride) {
                store_looked_up(out, words, table);
                words = _mm512_srli_epi16(words, 2);
            }
        }
    }
}

/* The next digit of bytes, see fmt_long.c; words keeps what follows it. */
BF16_INLINE __m512i next_trit(__m512i *words) {
    __m512i tripled = _mm512_mullo_epi16(*words, _mm512_set1_epi16(3));
    *words = _mm512_and_si512(tripled, _mm512_set1_epi16(255));
    return _mm512_srli_epi16(tripled, 8);
}

/* 32 bytes with five digits each; sixteen bytes with five, twice (the second time a digit later),
 * so that two digits make a line; and four bytes with four. */
BF16 static void decode_tq1_0(const struct bf16_row *row, const uint8_t *block) {
    const __m128i powers = _mm_setr_epi8(1, 1, 1, 1, 3, 3, 3, 3, 9, 9, 9, 9, 27, 27, 27, 27);
    uint8_t *out = row->out;
    for (size_t at = 0; at < row->count; at += 256, block += 54) {
        __m512i table = table_of_trits(block + 52), words = words_of(block);
        for (size_t digit = 0; digit < 5; digit++, out += row->stride)
            store_looked_up(out, next_trit(&words), table);
        __m256i byte = _mm256_set1_epi16(255), three = _mm256_set1_epi16(3), digits[5];
        __m256i rest = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)(block + 32)));
        for (size_t digit = 0; digit < 5; digit++) {
            __m256i tripled = _mm256_mullo_epi16(rest, three);
            digits[digit] = _mm256_srli_epi16(tripled, 8);
            rest = _mm256_and_si256(tripled, byte);
        }
        uint32_t four;
        memcpy(&four, block + 48, sizeof four);
        __m256i last = _mm256_cvtepu8_epi16(_mm_set1_epi32((int)four));
        last = _mm256_and_si256(_mm256_mullo_epi16(last, _mm256_cvtepu8_epi16(powers)), byte);
        last = _mm256_srli_epi16(_mm256_mullo_epi16(last, three), 8);
        store_looked_up(out, join(digits[0], digits[1]), table);
        store_looked_up(out + row->stride, join(digits[2], digits[3]), table);
        store_looked_up(out + 2 * row->stride, join(digits[4], last), table);
        out += 3 * row->stride;
    }
}

bf16_decode *const bf16_decoders[DTYPE_COUNT] = {
    [DTYPE_F32] = decode_f32,
    [DTYPE_F16] = decode_f16,
    [DTYPE_BF16] = decode_bf16,
    [DTYPE_Q8_0] = decode_q8_0,
    [DTYPE_Q4_0] = decode_q4_0,
    [DTYPE_Q4_1] = decode_q4_1,
    [DTYPE_Q5_0] = decode_q5_0,
    [DTYPE_Q5_1] = decode_q5_1,
    [DTYPE_Q2_K] = decode_q2_k,
    [DTYPE_Q3_K] = decode_q3_k,
    [DTYPE_Q4_K] = decode_q4_k,
    [DTYPE_Q5_K] = decode_q5_k,
    [DTYPE_Q6_K] = decode_q6_k,
    [DTYPE_IQ4_NL] = decode_iq4_nl,
    [DTYPE_IQ4_XS] = decode_iq4_xs,
    [DTYPE_TQ1_0] = decode_tq1_0,
    [DTYPE_TQ2_0] = decode_tq2_0,
    [DTYPE_MXFP4] = decode_mxfp4,
    /* bf16_decode_rows.c */
    [DTYPE_F8_E4M3] = bf16_fp8,
    [DTYPE_MLX_2] = bf16_mlx_2,
    [DTYPE_MLX_3] = bf16_mlx_3,
    [DTYPE_MLX_4] = bf16_mlx_4,
    [DTYPE_MLX_5] = bf16_mlx_5,
    [DTYPE_MLX_6] = bf16_mlx_6,
    [DTYPE_MLX_7] = bf16_mlx_7,
    [DTYPE_MLX_8] = bf16_mlx_8,
    [DTYPE_MXFP4_SPLIT] = bf16_mxfp4,
};

#endif
