/* The choice of kernels, refusals by name, and allocations that fail. */
#include "backend/backend.h"

#include "backend/cpu/parity.h"
#include "base/fault.h"

#include <string.h>

static enum status make(struct team *team, const char *kernels, const char *isa,
                        struct backend **out, struct error *err) {
    struct backend_options options = {.kernels = kernels, .isa = isa, .team = team};
    return backend_cpu_new(&options, out, err);
}

static void the_best_instruction_set_is_chosen(void **test) {
    (void)test;
    struct error err;
    struct team *team = NULL;
    struct backend *backend = NULL;
    assert_int_equal(team_new(2, &team, &err), SL_OK);
    assert_int_equal(make(team, "portable", NULL, &backend, &err), SL_OK);
    assert_string_equal(backend->ops->name, "cpu");
    assert_string_equal(backend->kernels, "portable");
    assert_string_equal(backend->isa, cpu_get()->has_neon       ? "neon"
                                      : cpu_get()->has_avx512   ? "avx512"
                                      : cpu_get()->has_avx2_fma ? "avx2"
                                                                : "scalar");
    backend_free(backend);
    assert_int_equal(make(team, "portable", "scalar", &backend, &err), SL_OK);
    assert_string_equal(backend->isa, "scalar");
    backend_free(backend);
    backend_free(NULL);
    team_free(team);
}

static void unknown_and_missing_kernels_are_refused_by_name(void **test) {
    (void)test;
    struct error err;
    struct team *team = NULL;
    struct backend *backend = NULL;
    assert_int_equal(team_new(1, &team, &err), SL_OK);
    assert_int_equal(make(team, "fast", NULL, &backend, &err), SL_ERR_USAGE);
    assert_non_null(strstr(err.text, "'fast'"));
    if (!cpu_get()->has_amx_bf16) {
        assert_int_equal(make(team, "amx", NULL, &backend, &err), SL_ERR_ENV);
        assert_non_null(strstr(err.text, "--kernels amx: "));
    }
    if (!cpu_get()->has_avx512bf16) {
        assert_int_equal(make(team, "avx512bf16", NULL, &backend, &err), SL_ERR_ENV);
        assert_non_null(strstr(err.text, "--kernels avx512bf16: "));
    }
    assert_int_equal(make(team, "portable", "sse9", &backend, &err), SL_ERR_USAGE);
    assert_non_null(strstr(err.text, "--isa sse9: it must be one of"));
    const struct cpu_kernels *set; /* of this build, but beyond this processor */
    for (size_t i = 0; (set = cpu_kernels_at(i)) != NULL; i++)
        if (!set->is_available())
            assert_int_equal(make(team, "portable", set->isa, &backend, &err), SL_ERR_ENV);
    assert_null(backend);
    team_free(team);
}

/* What the list says of a set is what asking for it by name says. */
static void the_list_of_sets_tells_which_can_be_had(void **test) {
    (void)test;
    struct error err;
    struct team *team = NULL;
    size_t count = 0;
    const struct backend_set *sets = backend_cpu_sets(&count);
    assert_int_equal(team_new(1, &team, &err), SL_OK);
    assert_true(count >= 1);
    assert_string_equal(sets[0].name, "portable");
    assert_true(backend_set_is_usable(&sets[0]));
    for (size_t i = 0; i < count; i++) {
        struct backend *backend = NULL;
        enum status status = make(team, sets[i].name, NULL, &backend, &err);
        assert_int_equal(status, backend_set_is_usable(&sets[i]) ? SL_OK : SL_ERR_ENV);
        assert_true(status == SL_OK || strstr(err.text, sets[i].name) != NULL);
        if (backend)
            assert_string_equal(backend->kernels, sets[i].name);
        backend_free(backend);
    }
    team_free(team);
}

static void an_instruction_set_goes_with_portable_alone(void **test) {
    (void)test;
    static const char *const settings[] = {"auto", "portable"};
    struct backend_choice choice;
    struct error err;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(backend_cpu_choose(settings[i], "scalar", true, &choice, &err), SL_OK);
        assert_string_equal(choice.kernels, "portable");
    }
    assert_int_equal(backend_cpu_choose("amx", "scalar", true, &choice, &err), SL_ERR_USAGE);
    assert_non_null(strstr(err.text, "amx"));
    assert_int_equal(backend_cpu_choose("auto", "sse9", true, &choice, &err), SL_ERR_USAGE);
    assert_non_null(strstr(err.text, "sse9"));
}

/* A megabyte a thread would be a surprise in the plan; a panel of 48 x 272 floats is 51 KiB, and
 * activations of a product for few tokens, once for all threads, 448 KiB. */
static void scratch_grows_with_threads(void **test) {
    (void)test;
    size_t one = backend_cpu_scratch_bytes(1), two = backend_cpu_scratch_bytes(2);
    assert_true(one >= 48 * 272 * 4 && one < 1 << 20);
    assert_int_equal(backend_cpu_scratch_bytes(64), one + 63 * (two - one));
    assert_true(two - one >= 48 * 272 * 4 && two - one < 1 << 20);
}

static void failed_allocations_are_errors(void **test) {
    (void)test;
    struct error err;
    struct team *team = NULL;
    struct backend *backend = NULL;
    struct act act;
    assert_int_equal(team_new(1, &team, &err), SL_OK);
    for (uint64_t nth = 1; nth <= 2; nth++) {
        fault_arm(SL_FAULT_ALLOC, nth, false);
        assert_int_equal(make(team, "portable", NULL, &backend, &err), SL_ERR_ENV);
        assert_null(backend);
    }
    fault_arm(SL_FAULT_ALLOC, 1, false);
    assert_int_equal(act_init(&act, 4, 4, &err), SL_ERR_ENV);
    fault_arm(SL_FAULT_ALLOC, 0, false);
    team_free(team);
}

static void a_bf16_set_fails_cleanly_without_memory(void **test) {
    (void)test;
    struct error err;
    struct team *team = NULL;
    struct backend *backend = NULL;
    if (!cpu_get()->has_avx512bf16) {
        print_message("skipped: this processor has no AVX512-BF16\n");
        skip();
    }
    assert_int_equal(team_new(1, &team, &err), SL_OK);
    struct backend_options options = {
        .kernels = "avx512bf16", .team = team, .features = 4096, .tokens = 512};
    for (uint64_t nth = 1; nth <= 2; nth++) {
        fault_arm(SL_FAULT_ALLOC, nth, false);
        assert_int_equal(backend_cpu_new(&options, &backend, &err), SL_ERR_ENV);
        assert_null(backend);
    }
    fault_arm(SL_FAULT_ALLOC, 0, false);
    assert_int_equal(backend_cpu_new(&options, &backend, &err), SL_OK);
    assert_string_equal(backend->kernels, "avx512bf16");
    backend_free(backend);
    team_free(team);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_instruction_set_is_chosen),
        cmocka_unit_test(unknown_and_missing_kernels_are_refused_by_name),
        cmocka_unit_test(the_list_of_sets_tells_which_can_be_had),
        cmocka_unit_test(an_instruction_set_goes_with_portable_alone),
        cmocka_unit_test(scratch_grows_with_threads),
        cmocka_unit_test(failed_allocations_are_errors),
        cmocka_unit_test(a_bf16_set_fails_cleanly_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
