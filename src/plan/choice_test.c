/* What the plan does with memory that could hold rows or weights: against all that it could have
 * done instead, and by hand. */
#include "plan/choice.h"

#include "plan/hollow_for_test.h"

#include <stdlib.h>

static char folder[] = "/tmp/sluice-plan-XXXXXX";
static struct model *large; /* 13 GB of bf16 */

static int make_models(void **state) {
    (void)state;
    static const struct shape seven = {32, 4096, 11008, 32, 8, 128000, 0};
    if (mkdtemp(folder) == NULL)
        return -1;
    large = make_model(folder, &seven);
    return 0;
}

static int remove_models(void **state) {
    (void)state;
    model_close(large);
    return rmdir(folder);
}

/* About 11 GiB for 13 GB of weights, or nearly enough for all of them: whatever number of rows the
 * user might ask for, with what they leave keeping blocks in memory, the plan's own choice is as
 * fast, give or take the 1 % that it does not go after. Slow and fast drives and processors, short
 * and long rows. */
static void no_other_split_of_rows_and_pins_is_faster(void **state) {
    (void)state;
    static const struct {
        uint64_t rate, budget;
        double flops;
        size_t count, prompt, answer;
    } jobs[] = {
        {1000000000, 11 * GIB, 1e12, 3000, 100, 100}, {1000000000, 11 * GIB, 1e14, 3000, 100, 100},
        {4000000000, 13 * GIB, 1e14, 900, 900, 300},  {500000000, 6 * GIB, 2e11, 400, 40, 200},
        {2000000000, 12 * GIB, 1e13, 60, 2000, 500},  {3000000000, 8 * GIB, 5e13, 5000, 10, 10},
        {2000000000, 13 * GIB, 1e13, 60, 2000, 500},
    };
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        struct plan_rows rows = equal_rows(jobs[i].count, jobs[i].prompt, jobs[i].answer);
        struct settings settings = settings_for("stream", jobs[i].budget);
        struct plan plan, other;
        settings.rate = jobs[i].rate;
        settings.flops = jobs[i].flops;
        must_plan(large, &settings, &rows, &plan);
        for (settings.batch = 1; settings.batch <= 1024; settings.batch *= 2) {
            must_plan(large, &settings, &rows, &other);
            assert_true(plan.seconds <= other.seconds * 1.021);
        }
    }
}

/* Keys and values of a row take 131072 x 200 bytes. With 1 GB/s and a processor that is never the
 * bound, a row more saves 1 / rows of the time, a pinned byte 1 / (bytes read) of it: while rows
 * take fewer bytes than a pass reads, rows are worth more, and nothing is pinned but what they
 * leave. */
static void rows_come_before_pins_while_they_take_less_than_a_pass_reads(void **state) {
    (void)state;
    struct plan_rows rows = equal_rows(3000, 100, 100);
    struct settings settings = settings_for("stream", 8 * GIB);
    struct plan plan;
    settings.rate = 1000000000;
    settings.flops = 1e15;
    must_plan(large, &settings, &rows, &plan);
    assert_true(plan.kv_bytes < plan.pass_bytes);
    assert_true(plan.kv_bytes > 8 * GIB / 100 * 70);
    assert_true(plan.pinned_bytes < GIB / 4);
    /* A batch that the user has bound leaves the rest to pins. */
    settings.batch = 50;
    must_plan(large, &settings, &rows, &plan);
    assert_true(plan.pinned_bytes > 5 * GIB);
}

/* At 1 GB/s a pass of 13 GB reads for 13 s: a processor of 1 TFLOP/s has 13 GFLOP a token, and so a
 * thousand tokens in that time. */
static void prompts_get_what_the_processor_does_while_the_drive_reads(void **state) {
    (void)state;
    struct plan_rows rows = equal_rows(3000, 1000, 100);
    struct settings settings = settings_for("stream", 10 * GIB);
    struct plan plan;
    settings.rate = 1000000000;
    settings.flops = 1e12;
    must_plan(large, &settings, &rows, &plan);
    assert_in_range(plan.pass_tokens, 700, 1100);
    settings.flops = 1e11; /* a hundred; but kernels like more */
    must_plan(large, &settings, &rows, &plan);
    assert_in_range(plan.pass_tokens, 512, 700);
}

/* Prompts of 1000 tokens and answers of 10: of 60 rows that are in, 6 end in each pass and 6 enter,
 * with 6000 tokens. A pass costs the processor 2 s besides its tokens, so reads of 6.5 s leave time
 * for 350 of them. Answers of 300 make it 260 tokens, which fit beside the reads. */
static void passes_are_longer_than_the_reads_where_prompts_decide(void **state) {
    (void)state;
    struct plan_rows rows = equal_rows(1000, 1000, 10);
    struct settings settings = settings_for("stream", 10 * GIB);
    struct plan plan, held;
    settings.rate = 2000000000;
    settings.measured_flops = 1.25e12;
    settings.measured_fixed_seconds = 1.6 / 6.5e9;
    must_plan(large, &settings, &rows, &plan);
    assert_in_range(plan.pass_tokens, 2000, 4096);
    settings.pass_tokens = 512;
    must_plan(large, &settings, &rows, &held);
    assert_true(plan.seconds < 0.8 * held.seconds);
    assert_true(plan.passes < held.passes / 3);
    settings.pass_tokens = 0;
    rows = equal_rows(1000, 1000, 300);
    must_plan(large, &settings, &rows, &plan);
    assert_int_equal(plan.pass_tokens, 512);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_other_split_of_rows_and_pins_is_faster),
        cmocka_unit_test(rows_come_before_pins_while_they_take_less_than_a_pass_reads),
        cmocka_unit_test(prompts_get_what_the_processor_does_while_the_drive_reads),
        cmocka_unit_test(passes_are_longer_than_the_reads_where_prompts_decide),
    };
    return cmocka_run_group_tests(tests, make_models, remove_models);
}
