/* End to end over the small published models of the fixtures (SLUICE_SHARED): tokens, logits and
 * endings as an independent program has them, and the same bits however a job is run. */
#include "engine/engine.h"

#include "base/clock.h"
#include "base/fault.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/expected_for_test.h"

#define LIMIT 24
#define STREAMED_LIMIT 6 /* every pass reads the model again */
#define TOP 20
#define RECENT "../models-recent/"
/* Of the standard deviation of the logits. Two programs in float32 differ by 3e-5 of it; a single
 * rounding to bf16 costs 4e-3 or more. */
#define LOGIT_SHARE 1e-3

static const char *const folders[] = {
    "llama-gqa",      "llama-tied-mha", "llama-rope31", "llama-rope-linear", "llama-bias-mqa",
    "llama-shards",   "llama-fp16",     "llama-fp32",   "llama-config5",     "mistral-headdim",
    "mistral-window", "qwen2",          "qwen3",
};
static const char *const files[] = {
    "llama-bf16", "llama-f16",  "llama-f32",  "llama-q8_0", "llama-q4_0",
    "llama-q4_1", "llama-q6_k", "qwen2-bf16", "qwen2-q6_k", "qwen3-bf16",
};

/* How a job is run. */
struct setup {
    bool is_streamed;
    size_t threads, batch, pass_tokens, block_bytes;
    enum kv_dtype kv_dtype;
    bool ignores_eos;
    size_t max_tokens;
    double temperature;
    size_t window_pages; /* 0: plenty */
    size_t pages;        /* 0: plenty */
    bool keeps_rows_apart;
};
static const double *prior; /* what is expected of answers; NULL: nothing */
static const struct setup plain = {.threads = 1,
                                   .batch = PROMPTS_MAX,
                                   .pass_tokens = 256,
                                   .block_bytes = SL_BLOCK_BYTES_MAX,
                                   .kv_dtype = KV_F32,
                                   .ignores_eos = true,
                                   .max_tokens = LIMIT};

/* What a run gave. */
struct answer {
    uint32_t ids[LIMIT];
    size_t count;
    enum finish finish;
    float logprobs[LIMIT];
    struct logprob top[TOP]; /* of the first token */
};
struct run {
    struct answer answers[PROMPTS_MAX];
    size_t done, tokens_told;
    size_t read_bytes_min; /* over the passes */
    size_t suspended_passes;
    size_t whole_pages_max, window_pages_max;
    size_t prefill_tokens, shared_tokens;
};

struct rig {
    struct model *model;
    struct layout_item *items;
    struct layout layout;
    struct provider *provider;
    struct team *team;
    struct backend *backend;
};

static const char *shared(void) {
    const char *folder = getenv("SLUICE_SHARED");
    if (folder == NULL) {
        print_message("skipped: SLUICE_SHARED is not set\n");
        skip();
    }
    return folder;
}

static void find_folder(const char *name, char path[512], char expected[600]) {
    const char *root = shared();
    must(root != NULL);
    snprintf(path, 512, "%s/fixtures/models/%s", root, name);
    snprintf(expected, 600, "%s/expected.json", path);
}

static void rig_open(struct rig *rig, const char *path, const struct setup *setup) {
    size_t count;
    *rig = (struct rig){0};
    MUST_OK(model_open(path, MODEL_ALL, &rig->model, &err));
    MUST_OK(model_layout_items(rig->model, &rig->items, &count, &err));
    MUST_OK(
        layout_init(&rig->layout, &rig->model->index, rig->items, count, setup->block_bytes, &err));
    struct provider_options options = {.slab_count = 3};
    if (setup->is_streamed)
        MUST_OK(provider_stream_new(&rig->layout, &options, &rig->provider, &err));
    else
        MUST_OK(provider_resident_new(&rig->layout, &options, &rig->provider, &err));
    MUST_OK(team_new(setup->threads, &rig->team, &err));
    struct backend_options backend = {.kernels = "portable", .team = rig->team};
    MUST_OK(backend_cpu_new(&backend, &rig->backend, &err));
}

static void rig_close(struct rig *rig) {
    provider_free(rig->provider);
    layout_release(&rig->layout);
    mem_free(rig->items);
    backend_free(rig->backend);
    team_free(rig->team);
    model_close(rig->model);
}

/* Runs all prompts of expected through an engine. */

static bool on_token(void *ctx, struct seq *seq, uint32_t id) {
    struct run *run = ctx;
    assert_int_equal(seq_answer(seq)[seq_answer_count(seq) - 1], id);
    run->tokens_told++;
    return false;
}

static enum status on_done(void *ctx, struct seq *seq, struct error *err) {
    struct run *run = ctx;
    struct answer *answer = &run->answers[(size_t)(uintptr_t)seq->user];
    (void)err;
    run->done++;
    answer->count = seq_answer_count(seq);
    answer->finish = seq->finish;
    memcpy(answer->ids, seq_answer(seq), answer->count * sizeof *answer->ids);
    for (size_t i = 0; i < answer->count; i++)
        answer->logprobs[i] = seq->logprobs[i].logprob;
    if (answer->count > 0)
        memcpy(answer->top, seq->logprobs[0].top, sizeof answer->top);
    return SL_OK;
}

static size_t pages_of(const struct expected *expected, const struct setup *setup) {
    size_t pages = sched_pages_set_aside(setup->pass_tokens);
    for (size_t i = 0; i < expected->prompts->count; i++)
        pages +=
            kv_pages_for(json_get(&expected->prompts->items[i], "ids")->count + setup->max_tokens);
    return pages;
}

static void run_job(const char *path, const struct expected *expected, const struct setup *setup,
                    struct run *run) {
    struct rig rig;
    struct engine *engine;
    rig_open(&rig, path, setup);
    *run = (struct run){.read_bytes_min = SIZE_MAX};
    struct engine_options options = {
        .model = rig.model,
        .backend = rig.backend,
        .provider = rig.provider,
        .kv_dtype = setup->kv_dtype,
        .limits = {.batch_max = setup->batch,
                   .pass_tokens = setup->pass_tokens,
                   .page_count = setup->pages > 0 ? setup->pages : pages_of(expected, setup),
                   .window_page_count =
                       setup->window_pages > 0 ? setup->window_pages : pages_of(expected, setup),
                   .kept_states = 1,
                   .prior = prior},
        .listener = {run, on_token, on_done, NULL},
        .keeps_rows_apart = setup->keeps_rows_apart,
    };
    MUST_OK(engine_new(&options, &engine, &err));
    size_t next = 0, count = expected->prompts->count;
    while (next < count || engine_live(engine) > 0) {
        uint32_t ids[512];
        for (; next < count; next++) {
            size_t len = prompt_ids(&expected->prompts->items[next], ids, 512);
            struct sched_ask ask = {.prompt_count = len,
                                    .max_tokens = setup->max_tokens,
                                    .is_certain = setup->ignores_eos};
            assert_true(engine_can_ever_fit(engine, len, setup->max_tokens));
            if (!engine_fits(engine, &ask))
                break;
            struct seq_request request = {
                .user = (void *)(uintptr_t)next,
                .key = next,
                .prompt = ids,
                .prompt_count = len,
                .max_tokens = setup->max_tokens,
                .sampling = {.temperature = setup->temperature, .top_p = 1, .seed = 7},
                .logprobs_count = TOP,
                .wants_logprobs = true,
                .ignores_eos = setup->ignores_eos,
            };
            MUST_OK(engine_admit(engine, &request, &err));
        }
        struct pass_report report;
        uint64_t allocations = fault_count(SL_FAULT_ALLOC);
        MUST_OK(engine_pass(engine, next < count, &report, &err));
        assert_int_equal(fault_count(SL_FAULT_ALLOC), allocations); /* none during a pass */
        assert_true(report.decode_tokens + report.prefill_tokens > 0);
        run->prefill_tokens += report.prefill_tokens;
        run->shared_tokens += report.shared_tokens;
        run->suspended_passes += report.rows_suspended > 0;
        if (report.reads.read_bytes < run->read_bytes_min)
            run->read_bytes_min = report.reads.read_bytes;
        /* The head is left out of a pass that gives no row a token. */
        size_t head = (size_t)matrix_bytes(model_matrix(rig.model, 0, ROLE_HEAD));
        if (setup->is_streamed && rig.model->config.mixture.count == 0)
            assert_int_equal(report.reads.read_bytes,
                             rig.layout.read_bytes - (report.new_tokens > 0 ? 0 : head));
    }
    run->whole_pages_max = engine_kv(engine)->pools[KV_WHOLE].pages_used_max;
    run->window_pages_max = engine_kv(engine)->pools[KV_WINDOW].pages_used_max;
    assert_int_equal(run->done, count);
    assert_int_equal(kv_pages_used(engine_kv(engine)), 0);
    engine_free(engine);
    rig_close(&rig);
}

/* Greedy tokens up to the first close call, and the logprobs of the first step. */
static void check_answer(const char *name, const struct json *prompt, const struct answer *answer) {
    const struct json *greedy = json_get(prompt, "greedy"), *margins = json_get(prompt, "margins");
    const struct json *logits = json_get(prompt, "logits_last");
    double tolerance = LOGIT_SHARE * deviation(logits), norm = 0;
    assert_int_equal(answer->count, LIMIT);
    assert_int_equal(answer->finish, FINISH_LENGTH);
    for (size_t i = 0; i < LIMIT && number(margins, i) >= 2 * tolerance; i++)
        if (answer->ids[i] != (uint32_t)number(greedy, i))
            fail_msg("%s: token %zu is %u, expected %.0f", name, i, answer->ids[i],
                     number(greedy, i));
    for (size_t i = 0; i < logits->count; i++)
        norm += exp(number(logits, i));
    for (size_t i = 0; i < TOP; i++) {
        double right = number(logits, answer->top[i].id) - log(norm);
        if (!(fabs((double)answer->top[i].logprob - right) <= tolerance))
            fail_msg("%s: logprob of %u is %g, expected %g", name, answer->top[i].id,
                     (double)answer->top[i].logprob, right);
    }
}

/* The same bits, as far as the shorter one goes. */
static void same_runs(const char *name, const struct run *a, const struct run *b, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const struct answer *x = &a->answers[i], *y = &b->answers[i];
        size_t tokens = x->count < y->count ? x->count : y->count;
        assert_true(tokens >= STREAMED_LIMIT);
        if (memcmp(x->ids, y->ids, tokens * sizeof *x->ids) != 0 ||
            memcmp(x->logprobs, y->logprobs, tokens * sizeof *x->logprobs) != 0 ||
            memcmp(x->top, y->top, sizeof x->top) != 0)
            fail_msg("%s: prompt %zu differs between two ways to run it", name, i);
    }
}

static void check_model(const char *path, const char *expected_path) {
    struct expected expected;
    struct run first, other;
    expected_read(&expected, expected_path);
    size_t count = expected.prompts->count;
    run_job(path, &expected, &plain, &first);
    for (size_t i = 0; i < count; i++)
        check_answer(path, &expected.prompts->items[i], &first.answers[i]);
    assert_int_equal(first.tokens_told, count * LIMIT);
    assert_int_equal(first.read_bytes_min, 0); /* resident: read once */
    struct setup setup = plain;
    setup.is_streamed = true;
    setup.threads = 2;
    setup.batch = 3;
    setup.pass_tokens = 29;
    setup.max_tokens = STREAMED_LIMIT;
    setup.block_bytes = 32768;
    run_job(path, &expected, &setup, &other);
    same_runs(path, &first, &other, count);
    expected_release(&expected);
}

static void folders_answer_as_the_reference_streamed_and_resident(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        char path[512], expected[600];
        find_folder(folders[i], path, expected);
        check_model(path, expected);
    }
}

static void gguf_files_answer_as_the_reference_streamed_and_resident(void **state) {
    const char *root = shared();
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[512], expected[600];
        snprintf(path, sizeof path, "%s/fixtures/gguf/%s.gguf", root, files[i]);
        snprintf(expected, sizeof expected, "%s/fixtures/gguf/%s.expected.json", root, files[i]);
        check_model(path, expected);
    }
}

static const struct setup ways[] = {
    {false, 1, 1, 1, SL_BLOCK_BYTES_MAX, KV_BF16, true, LIMIT, 0.9, 0, 0, false},
    {false, 2, 3, 7, SL_BLOCK_BYTES_MAX, KV_BF16, true, LIMIT, 0.9, 0, 0, false},
    {true, 3, PROMPTS_MAX, 17, 65536, KV_BF16, true, LIMIT, 0.9, 0, 0, false},
};

static void sampled_rows_do_not_depend_on_batch_chunks_or_threads(void **state) {
    char path[512], expected_path[600];
    struct expected expected;
    struct run first, other;
    (void)state;
    find_folder("llama-gqa", path, expected_path);
    expected_read(&expected, expected_path);
    run_job(path, &expected, &ways[0], &first);
    for (size_t i = 1; i < sizeof ways / sizeof ways[0]; i++) {
        run_job(path, &expected, &ways[i], &other);
        same_runs(path, &first, &other, expected.prompts->count);
    }
    expected_release(&expected);
}

/* EOS ids are those that the fixtures declare: 2 and 5 for folders, 2 for GGUF files. */
static void check_endings(const char *path, const char *expected_path, uint32_t eos, uint32_t too) {
    struct expected expected;
    struct run run;
    struct setup setup = plain;
    setup.ignores_eos = false;
    expected_read(&expected, expected_path);
    run_job(path, &expected, &setup, &run);
    for (size_t i = 0; i < expected.prompts->count; i++) {
        const struct json *prompt = &expected.prompts->items[i];
        const struct json *greedy = json_get(prompt, "greedy");
        const struct answer *answer = &run.answers[i];
        double close_call = 2 * LOGIT_SHARE * deviation(json_get(prompt, "logits_last"));
        size_t end = 0;
        bool is_sure = true;
        for (; end < LIMIT; end++) {
            uint32_t id = (uint32_t)number(greedy, end);
            is_sure &= number(json_get(prompt, "margins"), end) >= close_call;
            if (id == eos || id == too)
                break;
        }
        if (!is_sure)
            continue;
        assert_int_equal(answer->count, end);
        assert_int_equal(answer->finish, end < LIMIT ? FINISH_STOP : FINISH_LENGTH);
        /* A limit at the stop id: still a stop. One token less: the limit. None fits at 0. */
        if (end < LIMIT) {
            struct run cut;
            setup.max_tokens = end + 1;
            run_job(path, &expected, &setup, &cut);
            assert_int_equal(cut.answers[i].count, end);
            assert_int_equal(cut.answers[i].finish, FINISH_STOP);
            if (end > 0) {
                setup.max_tokens = end;
                run_job(path, &expected, &setup, &cut);
                assert_int_equal(cut.answers[i].count, end);
                assert_int_equal(cut.answers[i].finish, FINISH_LENGTH);
            }
            setup.max_tokens = LIMIT;
        }
    }
    expected_release(&expected);
}

static void rows_end_at_declared_ids_and_say_so(void **state) {
    const char *root = shared();
    static const char *const names[] = {"llama-gqa", "qwen3", "mistral-window"};
    char path[512], expected_path[600];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        find_folder(names[i], path, expected_path);
        check_endings(path, expected_path, 2, 5);
    }
    snprintf(path, sizeof path, "%s/fixtures/gguf/llama-bf16.gguf", root);
    snprintf(expected_path, sizeof expected_path, "%s/fixtures/gguf/llama-bf16.expected.json",
             root);
    check_endings(path, expected_path, 2, 2);
}

/* Windows of 16 positions touch 2 pages, and 5 tokens of a pass 1 more: with 2 rows, 5 pages do. */
static void windowed_rows_keep_few_pages_and_the_same_bits(void **state) {
    static const char *const names[] = {"mistral-window", "gemma2", "gemma3", "gpt-oss"};
    static const struct setup tight[] = {
        {false, 2, 2, 5, SL_BLOCK_BYTES_MAX, KV_F32, true, LIMIT, 0, 5, 0, false},
        {true, 1, 1, 1, 65536, KV_F32, true, LIMIT, 0, 2, 0, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[512], expected_path[600];
        struct expected expected;
        struct run first, other;
        find_folder(names[i], path, expected_path);
        expected_read(&expected, expected_path);
        run_job(path, &expected, &plain, &first);
        for (size_t j = 0; j < expected.prompts->count; j++)
            check_answer(path, &expected.prompts->items[j], &first.answers[j]);
        for (size_t j = 0; j < sizeof tight / sizeof tight[0]; j++) {
            run_job(path, &expected, &tight[j], &other);
            same_runs(path, &first, &other, expected.prompts->count);
            assert_in_range(other.window_pages_max, 2, tight[j].window_pages);
            assert_true(other.window_pages_max < first.window_pages_max);
            if (i > 0) /* the longest row has more than that */
                assert_true(other.whole_pages_max > other.window_pages_max);
            else
                assert_int_equal(other.whole_pages_max, 0);
        }
        expected_release(&expected);
    }
}

/* ---- suspended rows */

/* More rows than the pages hold enter, since their answers are expected to be short; all are as
 * long as they may be. So rows give their pages up and go on later, with the bits of rows that
 * never did.
 */
static void check_suspended(const char *path, const char *expected_path, bool keeps_rows_apart) {
    struct expected expected;
    struct run first, other;
    static const double short_ones[SL_EXPECT_BINS + 1] = {1000};
    struct setup setup = plain;
    setup.ignores_eos = false; /* nothing is certain then */
    setup.temperature = 0.9;
    setup.kv_dtype = KV_BF16;
    expected_read(&expected, expected_path);
    run_job(path, &expected, &setup, &first);
    size_t longest = 0;
    for (size_t i = 0; i < expected.prompts->count; i++) {
        size_t count = json_get(&expected.prompts->items[i], "ids")->count;
        longest = count > longest ? count : longest;
    }
    prior = short_ones;
    setup.keeps_rows_apart = keeps_rows_apart;
    setup.pages = kv_pages_for(longest + setup.max_tokens);
    setup.pass_tokens = 40;
    run_job(path, &expected, &setup, &other);
    prior = NULL;
    if (other.whole_pages_max > 0) /* windows alone grow too little for that */
        assert_true(other.suspended_passes > 0);
    for (size_t i = 0; i < expected.prompts->count; i++) {
        const struct answer *x = &first.answers[i], *y = &other.answers[i];
        assert_int_equal(x->count, y->count);
        assert_int_equal(x->finish, y->finish);
        assert_memory_equal(x->ids, y->ids, x->count * sizeof *x->ids);
        assert_memory_equal(x->logprobs, y->logprobs, x->count * sizeof *x->logprobs);
        assert_memory_equal(x->top, y->top, sizeof x->top);
    }
    expected_release(&expected);
}

static void suspended_rows_go_on_with_the_same_bits(void **state) {
    static const char *const names[] = {"llama-gqa",         "mistral-window", "gemma3",
                                        "gpt-oss",           "deepseek-v3",    "qwen3-moe",
                                        RECENT "qwen3-next", RECENT "qwen3_5"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[512], expected_path[600];
        find_folder(names[i], path, expected_path);
        check_suspended(path, expected_path, i % 2 == 0);
    }
}

/* ---- shared prefixes */

#define ALIKE_ROWS 10u

/* Rows that all begin with the first `head` tokens of the longest prompt and go on with 1 to 19
 * tokens of their own; two are the same. In place of the prompts of the fixture. */
static void make_alike(struct expected *expected, size_t head) {
    const struct json *prompts = expected->prompts;
    const struct json *ids = json_get(&prompts->items[prompts->count - 1], "ids");
    buf_clear(&expected->text);
    buf_add(&expected->text, STR("{\"prompts\":["));
    for (size_t row = 0; row < ALIKE_ROWS; row++) {
        size_t own = row % (ALIKE_ROWS - 1), count = head + 1 + own * 7 % 19;
        buf_add(&expected->text, row > 0 ? STR(",{\"ids\":[") : STR("{\"ids\":["));
        for (size_t i = 0; i < count; i++)
            buf_printf(&expected->text, "%s%.0f", i > 0 ? "," : "",
                       number(ids, i < head ? i : (own * 11 + i) % ids->count));
        buf_add(&expected->text, STR("]}"));
    }
    buf_add(&expected->text, STR("]}"));
    arena_release(&expected->arena);
    expected_parse(expected);
}

/* Plenty of room (for states only one more than there are rows); few rows at a time, so that most
 * join those that have gone; and pools so small that what is kept is lost again. 6 and 5 pages: of
 * one row of 75 tokens and 6 new ones. */
static const struct setup alike_ways[] = {
    {false, 1, ALIKE_ROWS, 256, SL_BLOCK_BYTES_MAX, KV_BF16, true, STREAMED_LIMIT, 0.9, 0, 0,
     false},
    {true, 2, 3, 29, 65536, KV_BF16, true, STREAMED_LIMIT, 0.9, 0, 0, false},
    {false, 2, 2, 13, SL_BLOCK_BYTES_MAX, KV_BF16, true, STREAMED_LIMIT, 0.9, 5, 6, false},
};

static void check_alike(const char *path, const char *expected_path, size_t head) {
    struct expected expected;
    struct run apart, shared_run;
    struct setup setup = alike_ways[0];
    setup.keeps_rows_apart = true;
    expected_read(&expected, expected_path);
    make_alike(&expected, head);
    run_job(path, &expected, &setup, &apart);
    assert_int_equal(apart.shared_tokens, 0);
    for (size_t i = 0; i < sizeof alike_ways / sizeof alike_ways[0]; i++) {
        run_job(path, &expected, &alike_ways[i], &shared_run);
        same_runs(path, &apart, &shared_run, ALIKE_ROWS);
        assert_int_equal(shared_run.prefill_tokens + shared_run.shared_tokens,
                         apart.prefill_tokens);
        /* One computes the full pages of what all share, and of kinds of rows there are two. */
        size_t least = head / 16 * 16 * (ALIKE_ROWS - 2);
        if (i == 0)
            assert_true(shared_run.shared_tokens >= least);
        else
            assert_true(shared_run.shared_tokens >= head);
    }
    expected_release(&expected);
}

static void rows_that_share_prefixes_have_the_bits_of_rows_apart(void **state) {
    static const char *const names[] = {
        "llama-gqa",         "mistral-window",    "gemma2",    "gemma3",
        "gpt-oss",           "deepseek-v3",       "qwen3-moe", "phi3-longrope",
        RECENT "qwen3-next", RECENT "qwen3_5-moe"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[512], expected_path[600];
        find_folder(names[i], path, expected_path);
        /* longrope: of 20 tokens and up to 19 + 6 more some rows stay within 32 and others not */
        check_alike(path, expected_path, strcmp(names[i], "phi3-longrope") == 0 ? 20 : 56);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_answer_as_the_reference_streamed_and_resident),
        cmocka_unit_test(gguf_files_answer_as_the_reference_streamed_and_resident),
        cmocka_unit_test(sampled_rows_do_not_depend_on_batch_chunks_or_threads),
        cmocka_unit_test(windowed_rows_keep_few_pages_and_the_same_bits),
        cmocka_unit_test(rows_end_at_declared_ids_and_say_so),
        cmocka_unit_test(suspended_rows_go_on_with_the_same_bits),
        cmocka_unit_test(rows_that_share_prefixes_have_the_bits_of_rows_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
