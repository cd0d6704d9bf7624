/* What a plan believes of the processor: the user's word, real runs, a measurement, nothing; and
 * what a run teaches. */
#include "plan/compute.h"

#include "base/clock.h"
#include "plan/folder_for_test.h"
#include "plan/hollow_for_test.h"
#include "plan/record.h"

#include <math.h>
#include <stdlib.h>

static char folder[] = "/tmp/sluice-plan-XXXXXX", home[] = "/tmp/sluice-home-XXXXXX";
static struct model *small;

static int begin(void **state) {
    (void)state;
    static const struct shape tiny = {8, 256, 1024, 4, 2, 8000, 0};
    if (mkdtemp(folder) == NULL || mkdtemp(home) == NULL)
        return -1;
    small = make_model(folder, &tiny);
    return 0;
}

static int end(void **state) {
    (void)state;
    model_close(small);
    return rmdir(folder) + folder_remove(home);
}

static struct plan plan_of(const struct settings *settings) {
    struct plan plan = {.kernels = "portable", .precision = "bf16", .threads = 2};
    plan.weights_bytes = 1000;
    plan.cost.token_flops = 2e9;
    compute_decide(small, settings, &plan);
    return plan;
}

static void the_best_that_is_known_counts(void **state) {
    (void)state;
    struct settings settings = settings_for("auto", 0);
    struct cost_observed observed = {0};
    settings.home = home;
    struct plan plan = plan_of(&settings);
    assert_non_null(strstr(plan.compute_source, "assumed"));
    assert_false(plan.knows_compute);
    settings.measured_flops = 5e10;
    settings.measured_fixed_seconds = 1e-10;
    plan = plan_of(&settings);
    assert_true(fabs(plan.cost.flops_per_second / (SL_PRODUCTS_SHARE * 5e10) - 1) < 1e-9);
    assert_true(fabs(plan.cost.fixed_seconds - 0.1 / SL_PRODUCTS_SHARE) < 1e-9); /* 1e9 values */
    assert_non_null(strstr(plan.compute_source, "products of bf16 measured"));
    /* 20 passes of 2e11 to 8e11 operations at 1e11 a second, and 0.25 s more. */
    for (int i = 0; i < 20; i++)
        cost_observe(&observed, &plan.cost, 100 + 100 * (i % 4), 0, 0.25 + 2 + 2 * (i % 4));
    compute_learn(small, &settings, &plan, &observed);
    plan = plan_of(&settings);
    assert_true(fabs(plan.cost.flops_per_second / 1e11 - 1) < 1e-6);
    assert_true(fabs(plan.cost.fixed_seconds - 0.25) < 1e-6);
    assert_string_equal(plan.compute_source, "measured in 1 run of this model");
    /* A second run, three times as slow, weighs as much as what was known. */
    observed = (struct cost_observed){0};
    for (int i = 0; i < 20; i++)
        cost_observe(&observed, &plan.cost, 100 + 100 * (i % 4), 0, 6 + 6 * (i % 4));
    compute_learn(small, &settings, &plan, &observed);
    plan = plan_of(&settings);
    assert_true(fabs(plan.cost.flops_per_second / 5e10 - 1) < 1e-6);
    assert_string_equal(plan.compute_source, "measured in 2 runs of this model");
    /* Another precision is another model. */
    snprintf(plan.precision, sizeof plan.precision, "q8_0");
    compute_decide(small, &settings, &plan);
    assert_non_null(strstr(plan.compute_source, "products"));
    settings.flops = 2e12;
    plan = plan_of(&settings);
    assert_true(plan.cost.flops_per_second == 2e12);
    assert_true(plan.cost.fixed_seconds == 0);
    assert_string_equal(plan.compute_source, "--flops");
}

static void only_long_jobs_of_unknown_processors_are_measured_first(void **state) {
    (void)state;
    struct settings settings = settings_for("auto", 0);
    struct plan plan = plan_of(&settings);
    plan.rows = equal_rows(2, 10, 10);
    assert_false(compute_wants_measure(&settings, &plan));
    plan.rows = equal_rows(2000, 100, 100);
    assert_true(compute_wants_measure(&settings, &plan));
    settings.memory_bytes = machine_rss_bytes() + SL_COMPUTE_BYTES;
    assert_false(compute_wants_measure(&settings, &plan));
    settings.memory_bytes = 0;
    plan.knows_compute = true;
    assert_false(compute_wants_measure(&settings, &plan));
}

/* A processor does a million to a hundred million million operations a second. */
static void a_measurement_is_quick_and_kept(void **state) {
    (void)state;
    struct settings settings = settings_for("auto", 0);
    struct error err;
    settings.home = home;
    struct plan plan = plan_of(&settings);
    plan.precision[0] = 'x'; /* no run is known of it */
    double start = clock_seconds();
    assert_int_equal(compute_measure(small, &settings, &plan, NULL, &err), SL_OK);
    assert_true(clock_seconds() - start < 20); /* 0.3 s; sanitizers on a loaded machine */
    assert_true(settings.measured_flops > 1e6 && settings.measured_flops < 1e14);
    double found = settings.measured_flops;
    settings.measured_flops = 0;
    compute_decide(small, &settings, &plan);
    assert_true(fabs(plan.cost.flops_per_second / (SL_PRODUCTS_SHARE * found) - 1) <
                1e-9); /* from the record */
    assert_true(plan.knows_compute);
}

static bool stop_at_once(void) {
    return true;
}

static void a_measurement_stops_when_asked(void **state) {
    (void)state;
    struct settings settings = settings_for("auto", 0);
    struct error err;
    struct plan plan = plan_of(&settings);
    assert_int_equal(compute_measure(small, &settings, &plan, stop_at_once, &err), SL_ERR_STOPPED);
    assert_true(settings.measured_flops == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_that_is_known_counts),
        cmocka_unit_test(only_long_jobs_of_unknown_processors_are_measured_first),
        cmocka_unit_test(a_measurement_is_quick_and_kept),
        cmocka_unit_test(a_measurement_stops_when_asked),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
