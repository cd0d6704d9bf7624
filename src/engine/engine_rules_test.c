/* How rows end, on a model that the test makes so that its greedy output is a fixed chain:
 *
 *   3 -> 7 -> 4 -> 9 -> 3 ..., every other id to itself; ids 1 and 4 are declared to end a row.
 *
 * Its layers add nothing, its embeddings have length one, and row next(i) of the head is embedding
 * i, so the logit of next(i) is the largest by Cauchy and Schwarz. Cases 01, 05 and 40 of what
 * users of comparable tools reported. */
#include "engine/engine.h"

#include "base/fault.h"

#include <malloc.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "model/tiny_model.h"

struct heard {
    uint32_t ids[16], told[16];
    size_t count, told_count, done;
    enum finish finish;
    uint32_t stop_text_at; /* this id completes a stop text */
    bool has_logprobs;
    float logprob;
    struct logprob picked[16], tops[16][2]; /* of a row that asks for two */
};

struct bench {
    struct tiny tiny;
    struct model *model;
    struct layout_item *items;
    struct layout layout;
    struct provider *provider;
    struct team *team;
    struct backend *backend;
    struct engine *engine;
    struct heard heard;
};

static bool is_stopping;
static bool should_stop(void) {
    return is_stopping;
}

static bool on_token(void *ctx, struct seq *seq, uint32_t id) {
    struct heard *heard = ctx;
    (void)seq;
    assert_true(heard->told_count < 16);
    heard->told[heard->told_count++] = id;
    return id == heard->stop_text_at;
}

static enum status on_done(void *ctx, struct seq *seq, struct error *err) {
    struct heard *heard = ctx;
    (void)err;
    heard->done++;
    heard->finish = seq->finish;
    heard->count = seq_answer_count(seq);
    for (size_t i = 0; i < heard->count; i++)
        heard->ids[i] = seq_answer(seq)[i];
    heard->has_logprobs = seq->logprobs != NULL;
    if (heard->has_logprobs && heard->count > 0) {
        assert_int_equal(seq->logprobs[0].id, heard->ids[0]);
        if (seq->sampling.temperature <= 0)
            assert_int_equal(seq->logprobs[0].top[0].id, heard->ids[0]);
        heard->logprob = seq->logprobs[0].logprob;
    }
    for (size_t i = 0; seq->logprobs_count == 2 && i < heard->count; i++) {
        heard->picked[i] = (struct logprob){seq->logprobs[i].id, seq->logprobs[i].logprob};
        memcpy(heard->tops[i], seq->logprobs[i].top, sizeof heard->tops[i]);
    }
    return SL_OK;
}

static uint32_t next_of(uint32_t id) {
    return id == 3 ? 7 : id == 7 ? 4 : id == 4 ? 9 : id == 9 ? 3 : id;
}

static void write_chain(struct tiny *tiny) {
    tiny_begin(tiny);
    tiny_add_llama(tiny, 0.0f);
    float *embed = tiny->tensors[0].values;
    float *head = tiny_add(tiny, "lm_head.weight", TINY_VOCABULARY, TINY_HIDDEN, 0.0f, 0.0f);
    for (uint32_t id = 0; id < TINY_VOCABULARY; id++) {
        double squares = 0;
        for (size_t k = 0; k < TINY_HIDDEN; k++)
            squares += (double)embed[id * TINY_HIDDEN + k] * (double)embed[id * TINY_HIDDEN + k];
        for (size_t k = 0; k < TINY_HIDDEN; k++) {
            embed[id * TINY_HIDDEN + k] /= (float)sqrt(squares);
            head[next_of(id) * TINY_HIDDEN + k] = embed[id * TINY_HIDDEN + k];
        }
    }
    tiny_write_config(tiny, "llama", ",\"eos_token_id\":1,\"tie_word_embeddings\":false");
    tiny_write_text(tiny, "generation_config.json", "{\"eos_token_id\":[1,4]}");
    tiny_write_safetensors(tiny);
}

static void bench_begin_with(struct bench *bench, bool is_streamed, struct sched_limits limits) {
    struct error err = {0};
    size_t count;
    *bench = (struct bench){.heard = {.stop_text_at = UINT32_MAX}};
    is_stopping = false;
    write_chain(&bench->tiny);
    bench->model = tiny_open(bench->tiny.folder);
    assert_int_equal(model_layout_items(bench->model, &bench->items, &count, &err), SL_OK);
    assert_int_equal(
        layout_init(&bench->layout, &bench->model->index, bench->items, count, 16384, &err), SL_OK);
    struct provider_options options = {.slab_count = 2, .should_stop = should_stop};
    assert_int_equal((is_streamed ? provider_stream_new : provider_resident_new)(
                         &bench->layout, &options, &bench->provider, &err),
                     SL_OK);
    assert_int_equal(team_new(1, &bench->team, &err), SL_OK);
    struct backend_options backend = {.kernels = "portable", .team = bench->team};
    assert_int_equal(backend_cpu_new(&backend, &bench->backend, &err), SL_OK);
    struct engine_options engine = {
        .model = bench->model,
        .backend = bench->backend,
        .provider = bench->provider,
        .kv_dtype = KV_F32,
        .limits = limits,
        .listener = {&bench->heard, on_token, on_done, NULL},
    };
    assert_int_equal(engine_new(&engine, &bench->engine, &err), SL_OK);
}

static void bench_begin(struct bench *bench, bool is_streamed) {
    struct sched_limits limits = {.batch_max = 2, .pass_tokens = 4, .page_count = 2};
    bench_begin_with(bench, is_streamed, limits);
}

static void bench_end(struct bench *bench) {
    engine_free(bench->engine);
    provider_free(bench->provider);
    layout_release(&bench->layout);
    mem_free(bench->items);
    backend_free(bench->backend);
    team_free(bench->team);
    model_close(bench->model);
    tiny_end(&bench->tiny);
}

/* Runs one row alone to its end. */
static void run_row(struct bench *bench, const struct seq_request *request) {
    struct error err = {0};
    struct pass_report report;
    uint32_t stop_text_at = bench->heard.stop_text_at;
    bench->heard = (struct heard){.stop_text_at = stop_text_at};
    struct sched_ask ask = {.prompt_count = request->prompt_count,
                            .max_tokens = request->max_tokens};
    assert_true(engine_fits(bench->engine, &ask));
    assert_int_equal(engine_admit(bench->engine, request, &err), SL_OK);
    while (engine_live(bench->engine) > 0)
        assert_int_equal(engine_pass(bench->engine, false, &report, &err), SL_OK);
    assert_int_equal(bench->heard.done, 1);
    assert_int_equal(kv_pages_used(engine_kv(bench->engine)), 0);
}

/* The row answers ids and ends as said. */
static void assert_answer(struct bench *bench, const struct seq_request *request,
                          const uint32_t *ids, size_t count, enum finish finish) {
    run_row(bench, request);
    const struct heard *heard = &bench->heard;
    assert_int_equal(heard->finish, finish);
    assert_int_equal(heard->count, count);
    assert_memory_equal(heard->ids, ids, count * sizeof *ids);
    /* Every kept token is told, a stop id is not. */
    assert_int_equal(heard->told_count, count);
    assert_memory_equal(heard->told, ids, count * sizeof *ids);
}

static void a_row_stops_at_any_declared_id_and_leaves_it_out(void **state) {
    static const uint32_t prompt[] = {3}, right[] = {7};
    struct bench bench;
    (void)state;
    for (int is_streamed = 0; is_streamed < 2; is_streamed++) {
        bench_begin(&bench, is_streamed);
        struct seq_request request = {.prompt = prompt, .prompt_count = 1, .max_tokens = 5};
        assert_answer(&bench, &request, right, 1, FINISH_STOP);
        bench_end(&bench);
    }
}

static void a_stop_id_as_the_last_allowed_token_is_a_stop(void **state) {
    static const uint32_t prompt[] = {3}, at_end[] = {7}, right[] = {7};
    struct bench bench;
    (void)state;
    bench_begin(&bench, false);
    struct seq_request request = {.prompt = prompt, .prompt_count = 1, .max_tokens = 2};
    assert_answer(&bench, &request, right, 1, FINISH_STOP);
    request.max_tokens = 1;
    assert_answer(&bench, &request, right, 1, FINISH_LENGTH);
    request.prompt = at_end; /* its first token is a stop id: an empty answer */
    assert_answer(&bench, &request, right, 0, FINISH_STOP);
    bench_end(&bench);
}

static void a_stop_text_completed_by_the_last_token_is_a_stop(void **state) {
    static const uint32_t prompt[] = {9}, right[] = {3, 7};
    struct bench bench;
    (void)state;
    bench_begin(&bench, false);
    bench.heard.stop_text_at = 7;
    struct seq_request request = {.prompt = prompt, .prompt_count = 1, .max_tokens = 2};
    assert_answer(&bench, &request, right, 2, FINISH_STOP);
    request.max_tokens = 5;
    assert_answer(&bench, &request, right, 2, FINISH_STOP);
    bench_end(&bench);
}

static void stop_ids_are_kept_when_the_row_ignores_them(void **state) {
    static const uint32_t prompt[] = {3}, right[] = {7, 4, 9, 3, 7};
    struct bench bench;
    (void)state;
    bench_begin(&bench, false);
    struct seq_request request = {
        .prompt = prompt, .prompt_count = 1, .max_tokens = 5, .ignores_eos = true};
    assert_answer(&bench, &request, right, 5, FINISH_LENGTH);
    bench_end(&bench);
}

static void stop_ids_inside_a_prompt_mean_nothing(void **state) {
    static const uint32_t prompt[] = {4, 3, 1, 4, 4, 1, 4}, right[] = {9, 3, 7};
    struct bench bench;
    (void)state;
    bench_begin(&bench, false);
    struct seq_request request = {.prompt = prompt, .prompt_count = 7, .max_tokens = 8};
    assert_answer(&bench, &request, right, 3, FINISH_STOP);
    bench_end(&bench);
}

static void logprobs_follow_the_softmax_of_the_logits(void **state) {
    static const uint32_t prompt[] = {3}, right[] = {7};
    struct bench bench;
    (void)state;
    bench_begin(&bench, false);
    struct seq_request request = {.prompt = prompt,
                                  .prompt_count = 1,
                                  .max_tokens = 5,
                                  .wants_logprobs = true,
                                  .logprobs_count = 3};
    assert_answer(&bench, &request, right, 1, FINISH_STOP);
    assert_true(bench.heard.has_logprobs);
    /* logits: head row x embedding x sqrt(hidden) / sqrt(1 + eps x hidden). */
    const float *embed = bench.tiny.tensors[0].values + 3 * TINY_HIDDEN;
    const float *head = bench.tiny.tensors[bench.tiny.count - 1].values;
    double sum = 0, best = 0;
    for (uint32_t n = 0; n < TINY_VOCABULARY; n++) {
        double logit = 0;
        for (size_t k = 0; k < TINY_HIDDEN; k++)
            logit += (double)head[n * TINY_HIDDEN + k] * (double)embed[k];
        logit *= sqrt(TINY_HIDDEN) / sqrt(1 + 1e-5 * TINY_HIDDEN);
        sum += exp(logit);
        if (n == 7)
            best = logit;
    }
    assert_true(fabs((double)bench.heard.logprob - (best - log(sum))) < 1e-5);
    bench_end(&bench);
}

/* An answer that was begun before goes on with the same tokens and the same bits, wherever it was
 * cut; what was given counts as a prompt. */
static void a_row_goes_on_behind_a_begun_answer(void **state) {
    static const uint32_t prompt[] = {3, 5, 2};
    enum { COUNT = 12 };
    struct bench bench;
    (void)state;
    bench_begin(&bench, true);
    struct seq_request request = {.prompt = prompt,
                                  .prompt_count = 3,
                                  .key = 99,
                                  .max_tokens = COUNT,
                                  .sampling = {.temperature = 3, .top_p = 1, .seed = 5},
                                  .wants_logprobs = true,
                                  .logprobs_count = 2,
                                  .ignores_eos = true};
    run_row(&bench, &request);
    struct heard whole = bench.heard;
    assert_int_equal(whole.count, COUNT);
    struct token_logprobs entries[COUNT];
    for (size_t given = 1; given < COUNT; given++) {
        for (size_t i = 0; i < given; i++)
            entries[i] =
                (struct token_logprobs){whole.picked[i].id, whole.picked[i].logprob, whole.tops[i]};
        request.answer = whole.ids;
        request.answer_logprobs = entries;
        request.answer_count = given;
        run_row(&bench, &request);
        assert_int_equal(bench.heard.told_count, COUNT - given);
        assert_int_equal(bench.heard.count, COUNT);
        assert_int_equal(bench.heard.finish, FINISH_LENGTH);
        assert_memory_equal(bench.heard.ids, whole.ids, COUNT * sizeof whole.ids[0]);
        assert_memory_equal(bench.heard.picked, whole.picked, COUNT * sizeof whole.picked[0]);
        assert_memory_equal(bench.heard.tops, whole.tops, COUNT * sizeof whole.tops[0]);
    }
    struct pass_report report;
    request.answer_count = 3; /* with the prompt six tokens, of which a pass takes four */
    assert_int_equal(engine_admit(bench.engine, &request, NULL), SL_OK);
    for (size_t i = 0; i < 3; i++) {
        static const size_t prefill[] = {4, 2, 0}, decode[] = {0, 0, 1};
        assert_int_equal(engine_pass(bench.engine, false, &report, NULL), SL_OK);
        assert_int_equal(report.prefill_tokens, prefill[i]);
        assert_int_equal(report.decode_tokens, decode[i]);
    }
    bench_end(&bench);
}

static void a_signal_ends_the_pass_at_the_next_block(void **state) {
    static const uint32_t prompt[] = {3, 9};
    (void)state;
    for (int is_streamed = 0; is_streamed < 2; is_streamed++) {
        struct bench bench;
        struct error err = {0};
        struct pass_report report;
        bench_begin(&bench, is_streamed);
        struct seq_request request = {
            .prompt = prompt, .prompt_count = 2, .max_tokens = 8, .ignores_eos = true};
        assert_int_equal(engine_admit(bench.engine, &request, &err), SL_OK);
        assert_int_equal(engine_pass(bench.engine, true, &report, &err), SL_OK);
        is_stopping = true;
        assert_int_equal(engine_pass(bench.engine, true, &report, &err), SL_ERR_STOPPED);
        assert_int_equal(bench.heard.done, 0);
        bench_end(&bench); /* drops the live row; nothing leaks */
    }
}

static void rows_that_never_fit_are_told_apart_from_rows_that_wait(void **state) {
    static const uint32_t prompt[] = {3};
    struct bench bench;
    struct error err = {0};
    (void)state;
    bench_begin(&bench, false);
    struct sched_ask longest = {.prompt_count = 20, .max_tokens = 12}; /* two pages of two */
    assert_false(engine_can_ever_fit(bench.engine, 20, 13));
    assert_true(engine_can_ever_fit(bench.engine, 20, 12));
    assert_true(engine_fits(bench.engine, &longest));
    struct seq_request request = {.prompt = prompt, .prompt_count = 1, .max_tokens = 5};
    assert_int_equal(engine_admit(bench.engine, &request, &err), SL_OK);
    assert_false(engine_fits(bench.engine, &longest));
    assert_true(engine_can_ever_fit(bench.engine, 20, 12));
    bench_end(&bench);
}

static void the_engine_takes_the_memory_that_it_says(void **state) {
    struct bench bench;
    struct error err = {0};
    struct engine *engine;
    (void)state;
    bench_begin(&bench, false);
    struct engine_options options = {
        .model = bench.model,
        .backend = bench.backend,
        .provider = bench.provider,
        .kv_dtype = KV_F32,
        .limits = {.batch_max = 40, .pass_tokens = 33, .page_count = 2},
        .listener = {&bench.heard, on_token, on_done, NULL},
    };
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    assert_int_equal(engine_new(&options, &engine, &err), SL_OK);
    size_t taken = mallinfo2().uordblks + mallinfo2().hblkhd - before;
    size_t said =
        (size_t)(engine_bytes(bench.model, &options.limits, team_threads(bench.backend->team)) +
                 step_bytes(bench.model, options.limits.pass_tokens, options.limits.pass_tokens));
    engine_free(engine);
    bench_end(&bench);
    if (taken == 0) { /* a sanitizer's allocator does not count */
        print_message("skipped: the allocator does not count\n");
        skip();
    }
    /* The allocator rounds some 60 blocks up by 24 bytes at most. */
    assert_in_range(taken, said, said + 64 * 24);
}

/* Promise 3: from a row's entry to its last token no memory is asked for, whatever the pass does.
 */
static void a_pass_allocates_nothing(void **state) {
    static const uint32_t prompt[] = {3, 8, 8, 8, 8, 8, 8, 8, 8, 3};
    struct bench bench;
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        bool is_streamed = kind % 2 == 1, is_sampled = kind / 2 == 1;
        struct error err = {0};
        struct pass_report report;
        struct seq_request request = {.prompt = prompt,
                                      .prompt_count = 10,
                                      .max_tokens = 12,
                                      .sampling = {.temperature = is_sampled, .top_p = 0.9},
                                      .wants_logprobs = !is_sampled,
                                      .logprobs_count = is_sampled ? 0 : 3,
                                      .ignores_eos = true};
        bench_begin(&bench, is_streamed);
        assert_int_equal(engine_admit(bench.engine, &request, &err), SL_OK);
        fault_arm(SL_FAULT_ALLOC, UINT64_MAX, false); /* counts from here */
        size_t passes = 0;
        while (engine_live(bench.engine) > 0) {
            assert_int_equal(engine_pass(bench.engine, false, &report, &err), SL_OK);
            passes++;
        }
        assert_true(passes > 12); /* ten prompt tokens, four a pass */
        assert_int_equal(fault_count(SL_FAULT_ALLOC), 0);
        fault_arm(SL_FAULT_ALLOC, 0, false);
        bench_end(&bench);
    }
}

/* A pass of 2 s in which the processor waited for 0.3: the drive's doing where it read for 1.9,
 * the way to the first block where it read for 1. */
static void a_pass_waits_for_a_drive_that_is_busy(void **state) {
    (void)state;
    struct pass_report report = {.seconds = 2, .reads = {.read_seconds = 1.9, .wait_seconds = 0.3}};
    assert_true(engine_waited(&report) == 0.3);
    report.reads.read_seconds = 1;
    assert_true(engine_waited(&report) == 0);
    report.reads = (struct ring_counters){0}; /* all is in memory */
    assert_true(engine_waited(&report) == 0);
}

/* The first pass waits for weights; those that follow have as many tokens as there is room for,
 * though they may last longer. */
static void the_load_of_weights_that_stay_makes_no_later_pass_smaller(void **state) {
    static const uint32_t prompt[150] = {3};
    struct bench bench;
    struct error err = {0};
    struct pass_report report;
    struct sched_limits limits = {.batch_max = 2, .pass_tokens = 128, .page_count = 20};
    (void)state;
    bench_begin_with(&bench, false, limits);
    struct seq_request request = {
        .prompt = prompt, .prompt_count = 1, .max_tokens = 8, .ignores_eos = true};
    run_row(&bench, &request);
    request.prompt_count = 150;
    assert_int_equal(engine_admit(bench.engine, &request, &err), SL_OK);
    assert_int_equal(engine_pass(bench.engine, false, &report, &err), SL_OK);
    assert_int_equal(report.prefill_tokens, 128);
    bench_end(&bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_stops_at_any_declared_id_and_leaves_it_out),
        cmocka_unit_test(a_stop_id_as_the_last_allowed_token_is_a_stop),
        cmocka_unit_test(a_stop_text_completed_by_the_last_token_is_a_stop),
        cmocka_unit_test(stop_ids_are_kept_when_the_row_ignores_them),
        cmocka_unit_test(stop_ids_inside_a_prompt_mean_nothing),
        cmocka_unit_test(logprobs_follow_the_softmax_of_the_logits),
        cmocka_unit_test(a_row_goes_on_behind_a_begun_answer),
        cmocka_unit_test(a_signal_ends_the_pass_at_the_next_block),
        cmocka_unit_test(rows_that_never_fit_are_told_apart_from_rows_that_wait),
        cmocka_unit_test(the_engine_takes_the_memory_that_it_says),
        cmocka_unit_test(a_pass_allocates_nothing),
        cmocka_unit_test(a_pass_waits_for_a_drive_that_is_busy),
        cmocka_unit_test(the_load_of_weights_that_stay_makes_no_later_pass_smaller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
