/* The table against hand-made blocks and against gguf-py's values (fixtures/gguf/blocks.json). */
#include "tensor/dtype.h"

#include "base/json.h"
#include "base/num.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

/* Halves by IEEE 754: 0x3C00 is 1, 0x3800 is 1/2, 0xC000 is -2, 0x0001 is 2^-24. */
static void plain_formats_decode_by_hand(void **state) {
    (void)state;
    const uint8_t f32[] = {0, 0, 0x80, 0x3F, 0, 0, 0x20, 0xC1}; /* 1, -10 */
    const uint8_t f16[] = {0x00, 0x3C, 0x00, 0x38, 0x00, 0xC0, 0x01, 0x00, 0x00, 0x7C, 0xFF, 0x7B};
    const uint8_t bf16[] = {0x80, 0x3F, 0x20, 0xC1, 0x01, 0x00}; /* 1, -10, 2^-133 */
    float out[6];
    dtype_get(DTYPE_F32)->decode(f32, 2, out);
    assert_true(out[0] == 1.0f && out[1] == -10.0f);
    dtype_get(DTYPE_F16)->decode(f16, 6, out);
    assert_true(out[0] == 1.0f && out[1] == 0.5f && out[2] == -2.0f && out[3] == 0x1p-24f);
    assert_true(num_float_bits(out[4]) == 0x7F800000u && out[5] == 65504.0f);
    dtype_get(DTYPE_BF16)->decode(bf16, 3, out);
    assert_true(out[0] == 1.0f && out[1] == -10.0f && out[2] == 0x1p-133f);
}

static void every_format_decodes_at_any_address(void **state) {
    (void)state;
    uint8_t source[256 * 4 + 8];
    float straight[256], shifted[256];
    for (size_t i = 0; i < sizeof source; i++)
        source[i] = (uint8_t)(i * 37 % 61); /* keeps every scale finite */
    for (unsigned i = 0; i < DTYPE_COUNT; i++) {
        const struct dtype_info *info = dtype_get((enum dtype)i);
        if (!info->decode)
            continue; /* view_test.c */
        size_t bytes = 256 / info->block_values * info->block_bytes;
        uint8_t copy[256 * 4 + 8];
        memcpy(copy + 3, source, bytes);
        info->decode(source, 256, straight);
        info->decode(copy + 3, 256, shifted);
        assert_memory_equal(straight, shifted, sizeof straight);
    }
}

static void four_bit_blocks_put_low_nibbles_first(void **state) {
    (void)state;
    uint8_t q4_0[18] = {0x00, 0x38}, q4_1[20] = {0x00, 0x38, 0x00, 0xC0}; /* 1/2; 1/2 and -2 */
    float out[32];
    for (unsigned i = 0; i < 16; i++)
        q4_0[2 + i] = q4_1[4 + i] = (uint8_t)(i | (15 - i) << 4);
    dtype_get(DTYPE_Q4_0)->decode(q4_0, 32, out);
    for (int i = 0; i < 16; i++)
        assert_true(out[i] == 0.5f * (float)(i - 8) && out[16 + i] == 0.5f * (float)(7 - i));
    dtype_get(DTYPE_Q4_1)->decode(q4_1, 32, out);
    for (int i = 0; i < 16; i++)
        assert_true(out[i] == 0.5f * (float)i - 2 && out[16 + i] == 0.5f * (float)(15 - i) - 2);
}

static void q4_1_rounds_its_sum_to_nearest(void **state) {
    (void)state;
    /* Scale 2047 * 2^-10 and minimum 2^15: 15 * scale = 30705 * 2^-10 is exact, the sum
     * 32768 + 29.9853515625 needs 26 bits and is rounded to 1/256: 29.98535 * 256 = 7676.25 ->
     * 7676 / 256 = 29.984375. */
    uint8_t block[20] = {0xFF, 0x3F, 0x00, 0x78, 0x0F};
    float out[32];
    dtype_get(DTYPE_Q4_1)->decode(block, 32, out);
    assert_true(out[0] == 32797.984375f);
    assert_true(out[1] == 32768.0f);
}

static void eight_bit_blocks_are_signed(void **state) {
    (void)state;
    uint8_t block[34] = {0x00, 0xC0, 0x80, 0x7F, 0xFF}; /* -2 times -128, 127, -1, 0 ... */
    float out[32];
    dtype_get(DTYPE_Q8_0)->decode(block, 32, out);
    assert_true(out[0] == 256.0f && out[1] == -254.0f && out[2] == 2.0f && out[3] == 0.0f);
}

static void six_bit_blocks_join_their_bits(void **state) {
    (void)state;
    uint8_t block[210] = {0};
    float out[256];
    block[209] = 0x3C; /* scale 1 */
    for (unsigned i = 0; i < 16; i++)
        block[192 + i] = (uint8_t)(i + 1);
    block[5] = 0xA3;            /* value 5 has low bits 3, value 69 has 10 */
    block[128 + 5] = 0xE1;      /* upper bits: value 5: 1, 37: 0, 69: 2, 101: 3 */
    block[64 + 40] = 0x70;      /* second half, run 1 and 3: value 128 + 40: 0, 128 + 104: 7 */
    block[128 + 32 + 8] = 0x40; /* values 136, 168, 200, 232: 0, 0, 0, 1 */
    dtype_get(DTYPE_Q6_K)->decode(block, 256, out);
    assert_true(out[5] == 1.0f * (3 + 16 - 32));
    assert_true(out[37] == 3.0f * (0 - 32));
    assert_true(out[69] == 5.0f * (10 + 32 - 32));
    assert_true(out[101] == 7.0f * (0 + 48 - 32));
    assert_true(out[168] == 11.0f * (0 - 32));
    assert_true(out[232] == 15.0f * (7 + 16 - 32));
    assert_true(out[255] == 16.0f * -32);
}

static void names_of_both_formats_are_known(void **state) {
    (void)state;
    enum dtype dtype;
    uint32_t values, bytes, bits;
    assert_true(dtype_from_safetensors(STR("BF16"), &dtype) && dtype == DTYPE_BF16);
    assert_false(dtype_from_safetensors(STR("bf16"), &dtype));
    assert_false(dtype_from_safetensors(STR("I64"), &dtype));
    assert_true(dtype_from_ggml(14, &dtype) && dtype == DTYPE_Q6_K);
    assert_true(dtype_from_ggml(39, &dtype) && dtype == DTYPE_MXFP4);
    assert_false(dtype_from_ggml(16, &dtype)); /* iq2_xxs: known by name only */
    assert_false(dtype_from_ggml(0xFFFFFFFFu, &dtype));
    assert_string_equal(dtype_ggml_name(16), "iq2_xxs");
    assert_string_equal(dtype_ggml_name(31), "q4_0_4_4");
    assert_null(dtype_ggml_name(77));
    assert_true(dtype_ggml_block(12, &values, &bytes) && values == 256 && bytes == 144);
    assert_false(dtype_ggml_block(4, &values, &bytes));
    assert_false(dtype_ggml_block(42, &values, &bytes));
    assert_true(dtype_safetensors_bits(STR("F4"), &bits) && bits == 4);
    assert_true(dtype_safetensors_bits(STR("C64"), &bits) && bits == 64);
    assert_false(dtype_safetensors_bits(STR("F128"), &bits));
}

static void tables_of_both_formats_agree_with_ours(void **state) {
    (void)state;
    for (unsigned i = 0; i < DTYPE_COUNT; i++) {
        const struct dtype_info *info = dtype_get((enum dtype)i);
        uint32_t values, bytes, bits;
        if (info->ggml_type < 0)
            continue;
        assert_true(dtype_ggml_block((uint32_t)info->ggml_type, &values, &bytes));
        assert_int_equal(values, info->block_values);
        assert_int_equal(bytes, info->block_bytes);
        assert_string_equal(dtype_ggml_name((uint32_t)info->ggml_type), info->name);
        if (info->safetensors) {
            assert_true(dtype_safetensors_bits(str_from(info->safetensors), &bits));
            assert_int_equal(bits, 8 * info->block_bytes);
        }
    }
}

/* A format has one of the two decoders, and whoever has none is a part of others. */
static void formats_decode_in_one_way(void **state) {
    (void)state;
    for (unsigned i = 0; i < DTYPE_COUNT; i++) {
        const struct dtype_info *info = dtype_get((enum dtype)i);
        bool is_part = i == DTYPE_F8_E8M0 || i == DTYPE_U8 || i == DTYPE_U32;
        assert_non_null(info->name);
        assert_int_equal((info->decode != NULL) + (info->decode_row != NULL), is_part ? 0 : 1);
        assert_true(info->ggml_type < 0 || info->decode != NULL);
        assert_true(info->block_values > 0 && 256 % info->block_values == 0);
    }
}

static void rows_are_whole_blocks(void **state) {
    (void)state;
    uint64_t bytes = 7;
    assert_true(dtype_row_bytes(DTYPE_BF16, 3, &bytes) && bytes == 6);
    assert_true(dtype_row_bytes(DTYPE_Q6_K, 512, &bytes) && bytes == 420);
    assert_true(dtype_row_bytes(DTYPE_Q4_0, 0, &bytes) && bytes == 0);
    bytes = 7;
    assert_false(dtype_row_bytes(DTYPE_Q4_0, 33, &bytes));
    assert_false(dtype_row_bytes(DTYPE_F32, UINT64_MAX / 2, &bytes));
    assert_int_equal(bytes, 7);
}

/* base64 by RFC 4648; returns the bytes. */
static uint8_t *base64(struct str text, size_t *len) {
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint8_t *bytes = mem_new(text.len, 1);
    uint32_t bits = 0;
    unsigned held = 0;
    *len = 0;
    for (size_t i = 0; i < text.len && text.data[i] != '='; i++) {
        bits = bits << 6 | (uint32_t)(strchr(letters, text.data[i]) - letters);
        held += 6;
        if (held >= 8)
            bytes[(*len)++] = (uint8_t)(bits >> (held -= 8));
    }
    return bytes;
}

static void check_blocks(const struct dtype_info *info, const struct json *entry) {
    struct str raw, wanted;
    uint64_t rows, columns;
    size_t raw_len, wanted_len;
    assert_true(json_string(json_get(entry, "raw"), &raw));
    assert_true(json_string(json_get(entry, "float32"), &wanted));
    assert_true(json_u64(json_get(entry, "rows"), &rows));
    assert_true(json_u64(json_get(entry, "columns"), &columns));
    uint8_t *bytes = base64(raw, &raw_len), *values = base64(wanted, &wanted_len);
    size_t count = (size_t)(rows * columns);
    assert_int_equal(wanted_len, count * sizeof(float));
    assert_int_equal(raw_len, count / info->block_values * info->block_bytes);
    float *out = mem_new(count, sizeof *out);
    info->decode(bytes, count, out);
    assert_memory_equal(out, values, wanted_len);
    mem_free(out);
    mem_free(values);
    mem_free(bytes);
}

static void decoders_agree_with_gguf_py(void **state) {
    (void)state;
    const char *shared = getenv("SLUICE_SHARED");
    if (!shared) {
        print_message("SLUICE_SHARED is not set\n");
        skip();
    }
    char path[4096];
    snprintf(path, sizeof path, "%s/fixtures/gguf/blocks.json", shared);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t room = 1 << 20;
    char *text = mem_new(room, 1);
    size_t len = fread(text, 1, room, file);
    fclose(file);
    struct arena arena;
    const struct json *root;
    struct error err;
    arena_init(&arena);
    assert_int_equal(json_parse(&arena, (struct str){text, len}, NULL, &root, &err), SL_OK);
    for (unsigned i = 0; i < DTYPE_COUNT; i++) {
        const struct dtype_info *info = dtype_get((enum dtype)i);
        char name[16] = {0};
        if (info->ggml_type < 0)
            continue;
        for (size_t k = 0; info->name[k]; k++)
            name[k] = info->name[k] >= 'a' ? (char)(info->name[k] - 'a' + 'A') : info->name[k];
        print_message("%s\n", name);
        check_blocks(info, json_get(root, name));
    }
    arena_release(&arena);
    mem_free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_formats_decode_by_hand),
        cmocka_unit_test(every_format_decodes_at_any_address),
        cmocka_unit_test(four_bit_blocks_put_low_nibbles_first),
        cmocka_unit_test(q4_1_rounds_its_sum_to_nearest),
        cmocka_unit_test(eight_bit_blocks_are_signed),
        cmocka_unit_test(six_bit_blocks_join_their_bits),
        cmocka_unit_test(names_of_both_formats_are_known),
        cmocka_unit_test(tables_of_both_formats_agree_with_ours),
        cmocka_unit_test(formats_decode_in_one_way),
        cmocka_unit_test(rows_are_whole_blocks),
        cmocka_unit_test(decoders_agree_with_gguf_py),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
