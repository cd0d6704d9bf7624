/* CRC-32C: published checksums, and the instruction against the tables. */
#include "base/crc.h"

#include "base/cpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef uint32_t crc_way(uint32_t crc, const void *bytes, size_t count);
static crc_way *const ways[] = {crc32c, crc32c_tables};

/* RFC 3720, B.4; the last one is the check value of the catalogue of CRC algorithms (CRC-32/ISCSI).
 */
static void checksums_are_those_of_rfc_3720(void **state) {
    (void)state;
    static const uint8_t command[48] = {
        0x01, 0xC0, [16] = 0x14, [22] = 0x04, [27] = 0x14, [31] = 0x18, [32] = 0x28, [40] = 0x02};
    uint8_t zeros[32] = {0}, ones[32], up[32], down[32];
    memset(ones, 0xFF, sizeof ones);
    for (size_t i = 0; i < 32; i++) {
        up[i] = (uint8_t)i;
        down[i] = (uint8_t)(31 - i);
    }
    for (size_t w = 0; w < 2; w++) {
        assert_int_equal(ways[w](0, zeros, 32), 0x8A9136AA);
        assert_int_equal(ways[w](0, ones, 32), 0x62A8AB43);
        assert_int_equal(ways[w](0, up, 32), 0x46DD794E);
        assert_int_equal(ways[w](0, down, 32), 0x113FDB5C);
        assert_int_equal(ways[w](0, command, 48), 0xD9963A56);
        assert_int_equal(ways[w](0, "123456789", 9), 0xE3069283);
        assert_int_equal(ways[w](0, "", 0), 0);
    }
}

/* Bit by bit, as the definition says. */
static uint32_t slow(const uint8_t *bytes, size_t count) {
    uint32_t crc = 0xFFFFFFFF;
    for (size_t i = 0; i < count; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? 0x82F63B78u : 0);
    }
    return ~crc;
}

static void every_length_and_place_gives_the_same_in_all_ways(void **state) {
    (void)state;
    static uint8_t bytes[40000];
    uint32_t seed = 7;
    for (size_t i = 0; i < sizeof bytes; i++) {
        seed = seed * 1664525 + 1013904223;
        bytes[i] = (uint8_t)(seed >> 24);
    }
    /* lanes are 3 x 4096 bytes */
    static const size_t counts[] = {1, 7, 8, 9, 23, 4096, 12287, 12288, 12289, 24583, 36877};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (size_t from = 0; from < 9; from += 4)
            for (size_t w = 0; w < 2; w++) {
                uint32_t expected = slow(bytes + from, counts[c]);
                size_t half = counts[c] / 3;
                assert_int_equal(ways[w](0, bytes + from, counts[c]), expected);
                uint32_t first = ways[w](0, bytes + from, half);
                assert_int_equal(ways[w](first, bytes + from + half, counts[c] - half), expected);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checksums_are_those_of_rfc_3720),
        cmocka_unit_test(every_length_and_place_gives_the_same_in_all_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
