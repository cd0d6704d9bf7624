/* Plans for made-up models and rows: what they accept, that the sums add up, that more memory is
 * never worse. The models are folders whose weights are holes in a file: plans read headers alone.
 */
#include "plan/plan.h"

#include "base/cpu.h"
#include "base/json.h"
#include "plan/hollow_for_test.h"

#include <stdlib.h>

static char folder[] = "/tmp/sluice-plan-XXXXXX";
static struct model *small, *large; /* 20 MB, and 13 GB of bf16 */
static struct model *windowed;      /* as small; all layers have a window of 100 */

static int make_models(void **state) {
    (void)state;
    static const struct shape tiny = {8, 256, 1024, 4, 2, 8000, 0};
    static const struct shape eyes = {8, 256, 1024, 4, 2, 8000, 100};
    static const struct shape seven = {32, 4096, 11008, 32, 8, 128000, 0};
    if (mkdtemp(folder) == NULL)
        return -1;
    small = make_model(folder, &tiny);
    large = make_model(folder, &seven);
    windowed = make_model(folder, &eyes);
    return 0;
}

static int remove_models(void **state) {
    (void)state;
    model_close(small);
    model_close(large);
    model_close(windowed);
    return rmdir(folder);
}

/* ---- tests */

static void resident_where_everything_fits_else_stream(void **state) {
    (void)state;
    struct plan_rows rows = equal_rows(100, 100, 100);
    struct settings settings = settings_for("auto", 2 * GIB);
    struct plan plan;
    must_plan(small, &settings, &rows, &plan);
    assert_string_equal(plan.engine, "resident");
    assert_int_equal(plan.batch, 100);
    assert_int_equal(plan.slab_count, 0);
    assert_int_equal(plan.pass_bytes, 0);
    assert_true(plan.resident_bytes >= 18 * MIB);
    must_plan(large, &settings, &rows, &plan);
    assert_string_equal(plan.engine, "stream");
    assert_int_equal(plan.resident_bytes, 0);
    assert_true(plan.slab_count >= 3 && plan.slab_count <= 8);
    assert_true(plan.block_bytes_max <= 256 * MIB);
    settings.memory_bytes = 20 * GIB;
    must_plan(large, &settings, &rows, &plan);
    assert_string_equal(plan.engine, "resident");
}

/* 2 (keys and values) x 32 layers x 8 heads x 128 features x 2 bytes, by hand. */
static void sums_add_up_and_stay_within_the_budget(void **state) {
    (void)state;
    static const uint64_t budgets[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 48};
    struct plan_rows rows = equal_rows(2000, 300, 128);
    struct plan plan;
    for (size_t i = 0; i < sizeof budgets / sizeof budgets[0]; i++) {
        struct settings settings = settings_for("auto", budgets[i] * GIB);
        must_plan(large, &settings, &rows, &plan);
        assert_int_equal(plan.kv_bytes_per_token, 131072);
        assert_int_equal(plan.kv_bytes, plan.page_count * 16 * 131072);
        assert_true(sum_of(&plan) + plan.margin_bytes <= plan.budget_bytes);
        assert_true(plan.predicted_peak_bytes <= plan.budget_bytes);
        assert_true(plan.page_count >= kv_pages_for(rows.longest));
        assert_true(plan.batch >= 1 && plan.batch <= rows.count);
        assert_true(plan.needed_bytes <= plan.budget_bytes);
        /* The budget is used while rows wait. */
        if (plan.batch < rows.count && plan.slab_count > 0 && plan.batch < 1000)
            assert_true(sum_of(&plan) > plan.budget_bytes / 100 * 95);
    }
}

static void more_memory_is_never_fewer_rows(void **state) {
    (void)state;
    struct plan_rows rows = equal_rows(500, 300, 128);
    struct settings settings = settings_for("stream", 600 * MIB);
    size_t before = 0;
    for (; settings.memory_bytes < 40 * GIB; settings.memory_bytes += settings.memory_bytes / 2) {
        struct plan plan;
        must_plan(large, &settings, &rows, &plan);
        assert_true(plan.batch >= before);
        before = plan.batch;
    }
    assert_true(before > 100);
}

/* From the least that is accepted on, everything is; and what the refusal names is accepted. */
static void refusals_name_what_is_enough(void **state) {
    (void)state;
    static const char *const engines[] = {"stream", "resident", "auto"};
    struct plan_rows rows = equal_rows(50, 200, 100);
    for (size_t i = 0; i < 3; i++) {
        struct settings settings = settings_for(engines[i], MIB);
        struct error err = {0};
        struct plan plan;
        unsigned long long amount;
        char unit;
        assert_int_equal(plan_make(small, &settings, &rows, &plan, &err), SL_ERR_ENV);
        const char *at = strstr(err.text, "--memory ");
        assert_non_null(at);
        assert_int_equal(sscanf(at, "--memory %llu%c", &amount, &unit), 2);
        assert_true(unit == 'K' || unit == 'M');
        uint64_t enough = amount << (unit == 'K' ? 10 : 20);
        settings.memory_bytes = enough;
        must_plan(small, &settings, &rows, &plan);
        /* And not much more than needed: one part in 64, half a MiB, and the rounding. */
        assert_true(enough <= plan.needed_bytes + plan.needed_bytes / 64 + MIB / 2 +
                                  (unit == 'K' ? 1024 : MIB));
        /* The sum begins with the process as it is, which may grow while we try (sanitizers). */
        uint64_t before = machine_peak_rss_bytes();
        bool was_accepted = false;
        for (settings.memory_bytes = MIB; settings.memory_bytes < 4 * enough;
             settings.memory_bytes += settings.memory_bytes / 16) {
            bool is_accepted = plan_make(small, &settings, &rows, &plan, NULL) == SL_OK;
            uint64_t grown = 2 * (machine_peak_rss_bytes() - before);
            assert_true(is_accepted || !was_accepted || settings.memory_bytes < enough + grown);
            assert_true(is_accepted || settings.memory_bytes < enough + grown);
            was_accepted = is_accepted;
        }
        assert_true(was_accepted);
    }
}

static void limits_of_the_user_are_kept(void **state) {
    (void)state;
    struct plan_rows rows = equal_rows(100, 100, 100);
    struct settings settings = settings_for("stream", 4 * GIB);
    struct plan plan;
    settings.batch = 7;
    settings.pass_tokens = 5; /* fewer than rows: they take turns */
    must_plan(large, &settings, &rows, &plan);
    assert_int_equal(plan.batch, 7);
    assert_int_equal(plan.pass_tokens, 5);
    assert_string_equal(plan.batch_reason, "--batch");
    settings.batch = 0;
    settings.pass_tokens = 0;
    must_plan(large, &settings, &rows, &plan);
    assert_true(plan.pass_tokens >= plan.batch);
    rows = equal_rows(1, 10, 10);
    must_plan(large, &settings, &rows, &plan);
    assert_int_equal(plan.batch, 1);
}

static void longest_row_has_its_pages_even_alone(void **state) {
    (void)state;
    struct plan_rows rows = equal_rows(50, 20, 20);
    struct settings settings = settings_for("stream", 2 * GIB);
    struct plan plan;
    rows.longest = 8000; /* one row of many tokens among short ones */
    rows.pages += kv_pages_for(8000) - kv_pages_for(40);
    rows.sequence_tokens += 7960;
    must_plan(large, &settings, &rows, &plan);
    assert_true(plan.page_count >= 500);
    assert_true(plan.needed_bytes > 500 * 16 * 131072u);
}

/* 49 rows of 40 tokens and one of 8000, whose pages alone take 1 GB: budgets between what the short
 * ones and the long one need hold rows up to a length that grows with the budget. */
static void a_budget_too_small_for_the_longest_row_holds_shorter_ones(void **state) {
    (void)state;
    struct plan_rows shorts = equal_rows(49, 20, 20), rows = equal_rows(50, 20, 20);
    struct settings settings = settings_for("stream", 0);
    size_t before = 0;
    rows.longest = 8000;
    rows.longest_answer = 7980;
    rows.pages += kv_pages_for(8000) - kv_pages_for(40);
    rows.sequence_tokens += 7960;
    rows.answer_tokens += 7960;
    for (uint64_t budget = 200 * MIB; budget < 1400 * MIB; budget += 100 * MIB) {
        struct plan_fit fit;
        struct plan plan;
        struct error err = {0};
        settings.memory_bytes = budget;
        bool is_accepted = plan_make(large, &settings, &rows, &plan, &err) == SL_OK;
        if (is_accepted)
            break;
        assert_int_equal(plan_fit_rows(large, &settings, &rows, &fit, &err), SL_OK);
        assert_true(fit.tokens_max < 8000 && fit.tokens_max >= before);
        assert_int_equal(fit.tokens_max % 16, 0);
        assert_int_equal(fit.budget_bytes, budget);
        assert_true(fit.needed_bytes > 8000u * 131072u);
        before = fit.tokens_max;
        /* What it says of shorter rows holds, and their need differs by the pages. */
        assert_true((plan_make(large, &settings, &shorts, &plan, &err) == SL_OK) ==
                    (fit.tokens_max >= 40));
        assert_int_equal(fit.needed_bytes - plan_fit_bytes(&fit, 4000), 4000u * 131072u);
    }
    assert_true(before > 4000);
}

static void budget_options_are_rounded_up(void **state) {
    (void)state;
    char option[SL_BUDGET_OPTION_BYTES];
    plan_budget_option(64 * 1024, option); /* one part in 64 and half a MiB more */
    assert_string_equal(option, "--memory 577K");
    plan_budget_option(640 * MIB + 1, option);
    assert_string_equal(option, "--memory 651M");
}

static void numbers_of_one_have_no_plural(void **state) {
    (void)state;
    struct plan_rows rows = equal_rows(1, 1, 1), none = {0};
    struct settings settings = settings_for("auto", GIB);
    struct plan plan;
    struct buf text;
    settings.threads = 1;
    must_plan(small, &settings, &rows, &plan);
    buf_init(&text);
    plan_explain(&plan, small, &text);
    assert_non_null(
        strstr(text.data, ", 1 thread. 1 row, 1 prompt token, at most 1 answer token. "));
    settings.memory_bytes = 1; /* nothing to run needs nothing */
    must_plan(small, &settings, &none, &plan);
    buf_clear(&text);
    plan_explain(&plan, small, &text);
    assert_non_null(strstr(text.data, "No row can run: there is nothing to plan.\n"));
    buf_release(&text);
}

/* 100 positions touch 8 pages at most. A page is 2 (keys and values) x 8 layers x 2 heads x 64
 * features x 16 positions x 2 bytes. */
static void windowed_layers_count_their_window_alone(void **state) {
    (void)state;
    const uint64_t page = 65536;
    struct plan_rows rows = equal_rows(100, 1000, 200);
    struct settings settings = settings_for("resident", 1 * GIB);
    struct plan plan;
    rows.window_pages = 100 * 8;
    settings.pass_tokens = 33; /* 2 pages are set aside for them */
    must_plan(windowed, &settings, &rows, &plan);
    assert_int_equal(plan.batch, 100);
    assert_int_equal(plan.page_count, 0);
    assert_int_equal(plan.window_page_count, 802);
    assert_int_equal(plan.kv_bytes, 802 * page);
    assert_int_equal(plan.kv_bytes_per_row, 8 * page);
    assert_int_equal(plan.kv_bytes_per_token, page / 16);
    must_plan(small, &settings, &rows, &plan);
    assert_int_equal(plan.window_page_count, 0);
    assert_int_equal(plan.kv_bytes, 7500 * page);
    /* Rows shorter than the window need nothing set aside. */
    rows = equal_rows(100, 40, 20);
    rows.window_pages = rows.pages;
    must_plan(windowed, &settings, &rows, &plan);
    assert_int_equal(plan.window_page_count, 400);
    /* With little memory, one row of any length still fits. */
    rows = equal_rows(100, 4000, 4000);
    rows.window_pages = 100 * 8;
    must_plan(windowed, &settings, &rows, &plan);
    settings.memory_bytes = plan.needed_bytes + plan.needed_bytes / 64;
    must_plan(windowed, &settings, &rows, &plan);
    assert_true(plan.batch < 100);
    assert_true(plan.window_page_count >= 10);
    assert_true(sum_of(&plan) + plan.margin_bytes <= plan.budget_bytes);
}

static void what_is_not_in_this_version_is_refused_by_name(void **state) {
    (void)state;
    struct plan_rows rows = equal_rows(2, 10, 10);
    struct settings settings;
    struct plan plan;
    struct error err;
    settings = settings_for("auto", GIB);
    settings.precision = "4";
    assert_int_equal(plan_make(small, &settings, &rows, &plan, &err), SL_ERR_ENV);
    assert_non_null(strstr(err.text, "--precision 4"));
    settings.precision = "bf16"; /* it is published so */
    must_plan(small, &settings, &rows, &plan);
}

static void checksums_are_part_of_the_memory(void **state) {
    (void)state;
    struct plan_rows rows = equal_rows(1, 1, 1);
    struct settings settings = settings_for("auto", GIB);
    struct plan plan, checked;
    must_plan(small, &settings, &rows, &plan);
    settings.has_checksum = true;
    must_plan(small, &settings, &rows, &checked);
    /* Four bytes for 4 KiB of weights at least, besides the thread that looks at them. */
    assert_true(checked.base_bytes >= plan.base_bytes + plan.weights_bytes / 1024);
}

/* The small model is all bf16. What the kernels keep of the activations of a pass is in the sum. */
static void kernel_set_is_chosen_with_a_reason_and_counted(void **state) {
    (void)state;
    struct plan_rows rows = equal_rows(2, 10, 10);
    struct settings settings = settings_for("resident", GIB);
    struct plan plan, portable;
    struct error err;
    settings.pass_tokens = 512;
    must_plan(small, &settings, &rows, &plan);
    settings.kernels = "portable";
    must_plan(small, &settings, &rows, &portable);
    assert_string_equal(portable.kernels, "portable");
    assert_string_equal(portable.kernels_reason, "--kernels");
    assert_string_equal(plan.precision_reason, "as published, used without rounding");
    bool has_bf16 = cpu_get()->has_avx512bf16;
    assert_int_equal(strcmp(plan.kernels, "portable") != 0, has_bf16);
    assert_string_equal(plan.kernels_reason,
                        has_bf16 ? "all weights are bf16" : "no bf16 products on this processor");
    /* 512 tokens of 1024 features, the widest input, two bytes each */
    assert_int_equal(plan.product_features, 1024);
    assert_int_equal(plan.activation_bytes - portable.activation_bytes,
                     has_bf16 ? 512 * 1024 * 2 : 0);
    settings.kernels = "fast";
    assert_int_equal(plan_make(small, &settings, &rows, &plan, &err), SL_ERR_USAGE);
    assert_non_null(strstr(err.text, "'fast'"));
}

static void amounts_are_short_and_in_powers_of_1024(void **state) {
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } amounts[] = {{0, "0"},           {1023, "1023"},        {1024, "1.00K"},
                   {1536, "1.50K"},    {10240, "10.0K"},      {3 * GIB, "3.00G"},
                   {GIB - 1, "1.00G"}, {1000 * MIB, "0.98G"}, {512 * MIB, "512.0M"}};
    for (size_t i = 0; i < sizeof amounts / sizeof amounts[0]; i++) {
        struct buf text;
        buf_init(&text);
        plan_amount(amounts[i].bytes, &text);
        assert_string_equal(text.data, amounts[i].text);
        buf_release(&text);
    }
}

/* By hand: 12 answers of 200 tokens, 5 at once, are three waves of 200; a pass of one token
 * computes 4 x (3 + 5) tokens, the last of each answer without need. Never fewer are promised. */
static void passes_count_the_waves_of_rows(void **state) {
    (void)state;
    struct plan_rows waves = equal_rows(12, 1, 200), single = equal_rows(4, 3, 5);
    struct settings settings = settings_for("resident", GIB);
    struct plan plan;
    settings.batch = 5;
    must_plan(small, &settings, &waves, &plan);
    assert_int_equal(plan.batch, 5);
    assert_in_range(plan.passes, 600, 660);
    settings.batch = 12;
    must_plan(small, &settings, &waves, &plan);
    assert_in_range(plan.passes, 200, 201);
    settings.batch = 0;
    settings.pass_tokens = 1;
    must_plan(small, &settings, &single, &plan);
    assert_in_range(plan.passes, 28, 36);
}

static void json_has_every_member_of_the_interface(void **state) {
    (void)state;
    static const char *const names[] = {"model",
                                        "family",
                                        "engine",
                                        "engine_reason",
                                        "precision",
                                        "precision_reason",
                                        "kernels",
                                        "kernels_reason",
                                        "rows",
                                        "prompt_tokens",
                                        "budget_bytes",
                                        "weights_bytes",
                                        "resident_bytes",
                                        "ring_bytes",
                                        "activation_bytes",
                                        "kv_bytes_per_token",
                                        "kv_bytes",
                                        "pinned_bytes",
                                        "batch",
                                        "pass_tokens",
                                        "passes",
                                        "pass_bytes",
                                        "pass_seconds",
                                        "seconds",
                                        "read_bytes_per_second",
                                        "rate_source",
                                        "predicted_peak_bytes"};
    struct plan_rows rows = equal_rows(100, 100, 100);
    struct settings settings = settings_for("stream", 2 * GIB);
    struct plan plan;
    struct buf text;
    struct arena arena;
    const struct json *json;
    must_plan(large, &settings, &rows, &plan);
    buf_init(&text);
    arena_init(&arena);
    plan_json(&plan, large, &text);
    assert_int_equal(json_parse(&arena, buf_str(&text), NULL, &json, NULL), SL_OK);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (json_get(json, names[i]) == NULL)
            fail_msg("no member %s", names[i]);
    }
    int64_t rows_told;
    assert_true(json_i64(json_get(json, "rows"), &rows_told) && rows_told == 100);
    buf_clear(&text);
    plan_explain(&plan, large, &text);
    assert_non_null(strstr(text.data, "(2.00G budget - "));
    assert_non_null(strstr(text.data, " KV a row (prompt + 100, 200 tokens on average)"));
    buf_release(&text);
    arena_release(&arena);
}

/* 2,000 rows of 100 + 128 tokens at 300 tokens a second. */
static struct plan slow_plan(void) {
    return (struct plan){
        .rows = {.count = 2000,
                 .prompt_tokens = 200000,
                 .answer_tokens = 256000,
                 .sequence_tokens = 456000},
        .batch = 256,
        .pass_tokens = 512,
        .page_count = 4000,
        .weights_bytes = 1000000000,
        .read_bytes_per_second = 2000000000,
        .cost = {.flops_per_second = 3e11, .token_flops = 1e9},
    };
}

static void first_answers_do_not_wait_for_the_prompts_of_others(void **state) {
    (void)state;
    struct error err;
    struct plan usual = slow_plan(), plan = slow_plan();
    usual.rows.answered = 8; /* the first are there: an earlier run was stopped */
    assert_int_equal(plan_time(&usual, &err), SL_OK);
    assert_int_equal(usual.opening_tokens, 0);
    assert_true(usual.likely.first_rows_seconds > 60);
    assert_int_equal(plan_time(&plan, &err), SL_OK);
    assert_in_range(plan.opening_tokens, 32, 256);
    assert_int_equal(plan.opening_rows, 8);
    assert_true(plan.likely.first_rows_seconds < usual.likely.first_rows_seconds / 2);
    assert_true(plan.seconds < 1.02 * usual.seconds);
    plan = slow_plan();
    plan.cost.flops_per_second = 3e13; /* they come soon enough by themselves */
    assert_int_equal(plan_time(&plan, &err), SL_OK);
    assert_int_equal(plan.opening_tokens, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resident_where_everything_fits_else_stream),
        cmocka_unit_test(sums_add_up_and_stay_within_the_budget),
        cmocka_unit_test(more_memory_is_never_fewer_rows),
        cmocka_unit_test(refusals_name_what_is_enough),
        cmocka_unit_test(limits_of_the_user_are_kept),
        cmocka_unit_test(longest_row_has_its_pages_even_alone),
        cmocka_unit_test(a_budget_too_small_for_the_longest_row_holds_shorter_ones),
        cmocka_unit_test(budget_options_are_rounded_up),
        cmocka_unit_test(numbers_of_one_have_no_plural),
        cmocka_unit_test(windowed_layers_count_their_window_alone),
        cmocka_unit_test(what_is_not_in_this_version_is_refused_by_name),
        cmocka_unit_test(checksums_are_part_of_the_memory),
        cmocka_unit_test(kernel_set_is_chosen_with_a_reason_and_counted),
        cmocka_unit_test(amounts_are_short_and_in_powers_of_1024),
        cmocka_unit_test(passes_count_the_waves_of_rows),
        cmocka_unit_test(json_has_every_member_of_the_interface),
        cmocka_unit_test(first_answers_do_not_wait_for_the_prompts_of_others),
    };
    return cmocka_run_group_tests(tests, make_models, remove_models);
}
