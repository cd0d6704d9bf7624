#include "hub/sum.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define ZEROS64 "0000000000000000000000000000000000000000000000000000000000000000"
#define ZEROS40 "0000000000000000000000000000000000000000"

static void check(const char *key, const char *text, const char *wanted) {
    struct sum *sum;
    struct error err = {0};
    char found[SL_SUM_TEXT_BYTES];
    assert_int_equal(sum_new(key, strlen(text), &sum, &err), SL_OK);
    sum_add(sum, text, strlen(text) / 2);
    sum_add(sum, text + strlen(text) / 2, strlen(text) - strlen(text) / 2);
    sum_end(sum, found);
    assert_string_equal(found, wanted);
    sum_free(sum);
}

/* "abc": FIPS 180-2, appendix B.1; the others by `sha256sum` and `git hash-object`. */
static void sums_are_those_of_other_programs(void **state) {
    (void)state;
    check(ZEROS64, "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check(ZEROS64, "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check(ZEROS40, "", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
    check(ZEROS40, "abc\n", "8baef1b4abc478178b004d62031cf7fe6db6f903");
}

static void keys_are_hex_digits_of_the_two_lengths(void **state) {
    (void)state;
    assert_true(sum_is_key(STR(ZEROS64)));
    assert_true(sum_is_key(STR(ZEROS40)));
    assert_false(sum_is_key(STR("")));
    assert_false(sum_is_key(STR(ZEROS40 "0")));
    assert_false(sum_is_key(STR("A000000000000000000000000000000000000000")));
    assert_false(sum_is_key(STR("../0000000000000000000000000000000000000")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_of_other_programs),
        cmocka_unit_test(keys_are_hex_digits_of_the_two_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
