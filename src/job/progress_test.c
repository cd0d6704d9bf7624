/* The metrics file: members of INTERFACE.md "metrics", one object a pass, and the summary. */
#include "job/progress.h"

#include "base/clock.h"
#include "base/json.h"
#include "io/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/sluice-metrics-XXXXXX";

static const struct plan plan = {.engine = "stream",
                                 .precision = "bf16",
                                 .kernels = "portable",
                                 .seconds = 100,
                                 .passes = 50,
                                 .batch = 8,
                                 .pass_tokens = 64,
                                 /* a pass takes as long whatever its tokens */
                                 .cost = {.flops_per_second = 1e30,
                                          .fixed_seconds = 1,
                                          .token_flops = 1,
                                          .logits_flops = 1,
                                          .read_bytes = 1000,
                                          .read_bytes_per_second = 700},
                                 .rows.answer_tokens = 300,
                                 .read_bytes_per_second = 700,
                                 .predicted_peak_bytes = 1 << 20};

static int make_path(void **state) {
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state) {
    (void)state;
    return unlink(path);
}

static double number(const struct json *object, const char *name) {
    double value = -1;
    const struct json *member = json_get(object, name);
    if (member == NULL || !json_double(member, &value))
        fail_msg("no number %s", name);
    return value;
}

/* The number-th line of the metrics, as JSON. */
static const struct json *line_of(struct arena *arena, const struct buf *text, size_t number_of) {
    const struct json *json;
    size_t from = 0, to = 0;
    for (size_t i = 0; i <= number_of; i++) {
        from = i == 0 ? 0 : to + 1;
        to = str_find(buf_str(text), STR("\n"), from);
        assert_true(to != SIZE_MAX);
    }
    struct str line = str_cut(buf_str(text), from, to);
    assert_int_equal(json_parse(arena, line, NULL, &json, NULL), SL_OK);
    return json;
}

static struct progress *open_progress(void) {
    struct progress_options options = {"none", path, &plan, 10};
    struct progress *progress;
    assert_int_equal(progress_open(&options, &progress, NULL), SL_OK);
    return progress;
}

/* A scheduler with so many rows that have computed their prompts and have so many tokens to come;
 * nobody waits outside. */
static void fill_sched(struct sched *sched, size_t rows, size_t tokens) {
    static const struct sched_limits limits = {
        .batch_max = 8, .pass_tokens = 64, .page_count = 1000};
    static const uint32_t prompt[5];
    const struct seq_request request = {
        .prompt = prompt, .prompt_count = 5, .max_tokens = tokens + 1};
    assert_int_equal(sched_init(sched, &limits, NULL), SL_OK);
    for (size_t i = 0; i < rows; i++) {
        struct seq *seq;
        assert_int_equal(seq_new(&request, &seq, NULL), SL_OK);
        sched_admit(sched, seq);
        seq->computed = seq->token_count++;
        sched_grow(sched, seq);
    }
}

static void clear_sched(struct sched *sched) {
    struct kv kv = {0};
    while (sched->inside_count > 0) {
        struct seq *seq = sched->rows[0];
        sched_remove(sched, seq);
        seq_free(seq, &kv);
    }
    sched_release(sched);
}

static void every_pass_has_its_line_at_once(void **state) {
    (void)state;
    struct progress *progress = open_progress();
    /* A row with 11 tokens to come: as many passes of 2 s. */
    struct sched sched;
    const struct row_lengths waiting = {0};
    const struct estimate_job left = {&sched, &waiting};
    struct progress_state now = {
        .rows_done = 3, .rows_live = 4, .kv_bytes_used = 50, .kv_bytes = 100, .left = &left};
    fill_sched(&sched, 1, 11);
    struct pass_report report = {
        .decode_tokens = 8,
        .prefill_tokens = 5,
        .new_tokens = 8,
        .rows_done = 1,
        .seconds = 2,
        .reads = {.read_bytes = 1000, .read_seconds = 1.5, .wait_seconds = 0.5}};
    struct arena arena;
    struct buf text;
    arena_init(&arena);
    buf_init(&text);
    assert_int_equal(progress_pass(progress, &report, &now, NULL), SL_OK);
    assert_int_equal(file_read_all(path, 1 << 20, &text, NULL), SL_OK); /* flushed already */
    const struct json *line = line_of(&arena, &text, 0);
    static const struct {
        const char *name;
        double value;
    } expected[] = {{"pass", 1},           {"seconds", 2},        {"read_bytes", 1000},
                    {"read_seconds", 1.5}, {"wait_seconds", 0.5}, {"compute_seconds", 1.5},
                    {"decode_tokens", 8},  {"prefill_tokens", 5}, {"draft_tokens", 0},
                    {"rows_live", 4},      {"rows_done", 3},      {"rows_total", 10},
                    {"kv_bytes_used", 50}, {"kv_bytes", 100}};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        assert_true(number(line, expected[i].name) == expected[i].value);
    double eta = number(line, "eta_seconds");
    if (eta <= 21 || eta > 22.0001)
        fail_msg("%g s left instead of 22", eta);
    assert_true(number(line, "rss_bytes") > 4096);
    assert_null(json_get(line, "summary"));
    progress_close(progress);
    clear_sched(&sched);
    buf_release(&text);
    arena_release(&arena);
}

static void summary_has_the_median_pass(void **state) {
    (void)state;
    static const double seconds[] = {5, 1, 2, 40, 3}; /* in the middle: 3 s with 3000 bytes */
    struct progress *progress = open_progress();
    struct progress_state end = {
        .rows_done = 9, .rows_failed = 1, .prompt_tokens = 70, .completion_tokens = 55};
    struct arena arena;
    struct buf text;
    arena_init(&arena);
    buf_init(&text);
    for (size_t i = 0; i < 5; i++) {
        struct pass_report report = {.seconds = seconds[i],
                                     .new_tokens = 4,
                                     .rows_done = i,
                                     .reads.read_bytes = (uint64_t)(1000 * seconds[i])};
        struct progress_state now = {.rows_live = 7};
        assert_int_equal(progress_pass(progress, &report, &now, NULL), SL_OK);
    }
    assert_int_equal(progress_finish(progress, &end, NULL), SL_OK);
    progress_close(progress);
    assert_int_equal(file_read_all(path, 1 << 20, &text, NULL), SL_OK);
    const struct json *line = line_of(&arena, &text, 5); /* the file starts anew with each run */
    struct str word;
    bool is_summary = false;
    assert_true(json_bool(json_get(line, "summary"), &is_summary) && is_summary);
    assert_true(number(line, "rows_done") == 9);
    assert_true(number(line, "rows_failed") == 1);
    assert_true(number(line, "passes") == 5);
    assert_true(number(line, "median_pass_seconds") == 3);
    assert_true(number(line, "read_bytes_per_second") == 1000);
    assert_true(number(line, "prompt_tokens") == 70);
    assert_true(number(line, "completion_tokens") == 55);
    assert_true(number(line, "batch_max") == 11); /* 7 live after a pass in which 4 ended */
    assert_true(number(line, "peak_rss_bytes") > 4096);
    assert_true(number(line, "tokens_per_second") > 0);
    /* What was planned, beside what came of it. */
    assert_true(number(line, "predicted_passes") == 50);
    assert_true(number(line, "predicted_seconds") == 100);
    assert_true(number(line, "predicted_peak_bytes") == 1 << 20);
    assert_true(number(line, "predicted_read_bytes_per_second") == 700);
    assert_true(number(line, "predicted_tokens_per_second") == 3);
    assert_true(json_string(json_get(line, "engine"), &word) && str_is(word, "stream"));
    assert_true(json_string(json_get(line, "kernels"), &word) && str_is(word, "portable"));
    assert_true(json_string(json_get(line, "precision"), &word) && str_is(word, "bf16"));
    buf_release(&text);
    arena_release(&arena);
}

static void metrics_that_cannot_be_written_are_an_error(void **state) {
    (void)state;
    struct progress_options options = {"none", "/no-such/metrics", &plan, 1};
    struct progress *progress;
    struct error err = {0};
    assert_int_equal(progress_open(&options, &progress, &err), SL_ERR_ENV);
    assert_non_null(strstr(err.text, "/no-such/metrics"));
    options.metrics = "/dev/full";
    assert_int_equal(progress_open(&options, &progress, &err), SL_OK);
    struct pass_report report = {.seconds = 1};
    struct progress_state now = {0};
    assert_int_equal(progress_pass(progress, &report, &now, &err), SL_ERR_ENV);
    assert_non_null(strstr(err.text, "/dev/full"));
    progress_close(progress);
}

static void read_stderr_of(void (*act)(struct progress *), const char *mode, struct buf *text) {
    char name[] = "/tmp/sluice-stderr-XXXXXX";
    struct progress_options options = {mode, NULL, &plan, 500};
    struct progress *progress;
    int fd = mkstemp(name), kept = dup(STDERR_FILENO);
    assert_true(fd >= 0 && kept >= 0);
    assert_int_equal(progress_open(&options, &progress, NULL), SL_OK);
    assert_true(dup2(fd, STDERR_FILENO) >= 0);
    act(progress);
    progress_close(progress);
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    assert_int_equal(file_read_all(name, 1 << 20, text, NULL), SL_OK);
    close(fd);
    close(kept);
    unlink(name);
}

static void show_a_long_pass(struct progress *progress) {
    struct sched sched;
    const struct row_lengths waiting = {0};
    const struct estimate_job left = {&sched, &waiting};
    struct progress_state now = {.rows_done = 11, .rows_failed = 1, .rows_live = 3, .left = &left};
    struct pass_report report = {.decode_tokens = 3,
                                 .new_tokens = 36,
                                 .seconds = 10,
                                 .reads = {.read_bytes = 4000, .read_seconds = 9.6}};
    fill_sched(&sched, 3, 1768);
    clock_sleep(0.25); /* a line at most every 0.2 s */
    assert_int_equal(progress_pass(progress, &report, &now, NULL), SL_OK);
    struct progress_layer layer = {30, 80, 167};
    progress_layer(progress, &now, &layer); /* the pass has just begun: nothing */
    clock_sleep(1.05);
    progress_layer(progress, &now, &layer);
    assert_int_equal(progress_finish(progress, &now, NULL), SL_OK);
    clear_sched(&sched);
}

/* The form of the issue; three rows with 1768 tokens to come, 10 s each. */
static void the_line_has_its_form_and_moves_within_a_long_pass(void **state) {
    (void)state;
    struct buf text;
    buf_init(&text);
    read_stderr_of(show_a_long_pass, "line", &text);
    static const char *const parts[] = {
        "rows 12/500 · pass 1 (10.0 s) · 3.6 tok/s · ETA 4h 54m · bf16 · batch 3 · ",
        "disk 96% · peak ",
        " MB",
        "rows 12/500 · pass 2 (1.",
        " s, layer 31 of 80, 167 tokens) · 3.6 tok/s · ETA 4h 54m",
        "11 of 500 rows answered, 1 is an error; 0 tokens in ",
        "s (planned 1m 40s), ",
        " tok/s (3.0), 1 pass (50), disk 400/s (700/s), peak memory ",
        " (planned 1.00M)"};
    size_t at = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        size_t found = str_find(buf_str(&text), str_from(parts[i]), at);
        if (found == SIZE_MAX)
            fail_msg("no \"%s\" from %zu in: %s", parts[i], at, text.data);
        at = found + strlen(parts[i]);
    }
    buf_release(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pass_has_its_line_at_once),
        cmocka_unit_test(summary_has_the_median_pass),
        cmocka_unit_test(the_line_has_its_form_and_moves_within_a_long_pass),
        cmocka_unit_test(metrics_that_cannot_be_written_are_an_error),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
