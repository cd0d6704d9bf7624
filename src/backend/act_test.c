/* Layout and limits of activations. */
#include "backend/act.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* act.h: element (feature f, token t) = data[((t / 16) * features + f) * 16 + t % 16]. */
static void elements_lie_in_tiles_of_16_tokens(void **state) {
    (void)state;
    struct act act;
    struct error err;
    assert_int_equal(act_init(&act, 5, 33, &err), SL_OK);
    assert_int_equal((uintptr_t)act.data % 64, 0);
    assert_int_equal(act.cap, 3 * 5 * 16);
    assert_ptr_equal(act_at(&act, 0, 0), act.data);
    assert_ptr_equal(act_at(&act, 2, 3), act.data + 35);
    assert_ptr_equal(act_at(&act, 4, 32), act.data + (2 * 5 + 4) * 16);
    assert_ptr_equal(act_tile(&act, 1), act.data + 80);
    for (size_t i = 0; i < act.cap; i++)
        assert_true(act.data[i] == 0.0f);
    act_shape(&act, 15, 16);
    assert_ptr_equal(act_at(&act, 14, 15), act.data + 239);
    act_release(&act);
    assert_null(act.data);
    act_release(&act);
}

static void shapes_beyond_memory_are_refused(void **state) {
    (void)state;
    struct act act = {.features = 7};
    struct error err;
    assert_int_equal(act_init(&act, SIZE_MAX / 8, 17, &err), SL_ERR_ENV);
    assert_int_equal(act_init(&act, 3, SIZE_MAX, &err), SL_ERR_ENV);
    assert_int_equal(act.features, 7); /* results are written only on success */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_lie_in_tiles_of_16_tokens),
        cmocka_unit_test(shapes_beyond_memory_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
