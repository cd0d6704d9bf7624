/* What the tests of whole jobs share: a scripted model, runs of jobs and their results. The model
 * has layers that add nothing, embeddings that are unit vectors, and a head that makes token 3
 * follow 2... by construction, so that every answer is known by hand:
 *
 *   d e f g <end>      a b a b a b ...        (token n is the letter 'a' + n; c, token 2, ends)
 *
 * To be included after cmocka.h. */
#ifndef SLUICE_JOB_JOB_FOR_TEST_H
#define SLUICE_JOB_JOB_FOR_TEST_H

#include "job/job.h"
#include "job/sqlite_for_test.h"
#include "model/tiny_model.h"

#define FOLDED "\"normalizer\": null, \"post_processor\": null, "

static const char tokenizer_json[] =
    "{\"added_tokens\": [], " FOLDED "\"pre_tokenizer\": {\"type\": \"ByteLevel\", "
    "\"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": true}, \"decoder\": "
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": "
    "true}, \"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, "
    "\"continuing_subword_prefix\": null, \"end_of_word_suffix\": null, \"fuse_unk\": false, "
    "\"byte_fallback\": false, \"vocab\": {\"a\": 0, \"b\": 1, \"c\": 2, \"d\": 3, \"e\": 4, "
    "\"f\": 5, \"g\": 6, \"h\": 7, \"i\": 8, \"j\": 9, \"k\": 10, \"l\": 11}, \"merges\": []}}";

static const uint32_t followers[TINY_HIDDEN] = {1, 0, 0, 4, 5, 6, 2, 0};

static struct tiny tiny;
static char rows_path[160], out_path[160], journal_path[160];
static size_t pages_given; /* in place of what the plan has; 0: as planned */
static size_t stops_after; /* should_stop says yes after so many questions; 0: never */

static inline bool should_stop(void) {
    return stops_after > 0 && --stops_after == 0 ? (stops_after = 1) : false;
}

static inline int make_model(void **state) {
    (void)state;
    test_sqlite_begin();
    tiny_begin(&tiny);
    tiny_add_llama(&tiny, 0);
    float *embed = tiny_find(&tiny, "model.embed_tokens.weight")->values;
    float *head = tiny_add(&tiny, "lm_head.weight", TINY_VOCABULARY, TINY_HIDDEN, 0, 0);
    memset(embed, 0, TINY_VOCABULARY * TINY_HIDDEN * sizeof *embed);
    for (size_t token = 0; token < TINY_HIDDEN; token++) {
        embed[token * TINY_HIDDEN + token] = 1;
        head[followers[token] * TINY_HIDDEN + token] = 1;
    }
    tiny_write_safetensors(&tiny);
    tiny_write_config(&tiny, "llama", ",\"eos_token_id\":2");
    tiny_write_text(&tiny, "tokenizer.json", tokenizer_json);
    tiny_path(&tiny, "rows.jsonl", rows_path, sizeof rows_path);
    tiny_path(&tiny, "out.jsonl", out_path, sizeof out_path);
    tiny_path(&tiny, "out.jsonl.sluice", journal_path, sizeof journal_path);
    return 0;
}

static inline void remove_output(void) {
    unlink(out_path);
    journal_remove(journal_path);
}

static inline int remove_model(void **state) {
    (void)state;
    unlink(rows_path);
    remove_output();
    tiny_end(&tiny);
    return 0;
}

static inline struct settings defaults(void) {
    return (struct settings){
        .model = tiny.folder,
        .rows = rows_path,
        .output = out_path,
        .overwrites = true,
        .max_tokens = 20,
        .top_p = 1,
        .engine = "auto",
        .precision = "auto",
        .kernels = "auto",
        .kv = "bf16",
        .reader = "auto",
        .content_specials = "allow",
        .order = "input",
        .progress = "none",
        .memory_bytes = (uint64_t)16 << 30, /* an emulator counts too, and takes a gigabyte */
        .threads = 1,
        .logprobs = -1,
    };
}

static inline enum status run_job(const struct settings *settings, struct job_outcome *outcome,
                                  struct error *err) {
    struct sink_options options = {settings->output, settings->overwrites, true, {NULL}};
    struct output *output;
    struct job job;
    struct plan plan;
    *outcome = (struct job_outcome){0};
    TRY(output_open(&options, &output, err));
    enum status status = job_open(settings, should_stop, &job, err);
    if (status == SL_OK) {
        status = job_go_on(&job, output, err);
        if (status == SL_OK && output_is_complete(output)) {
            job_close(&job);
            output_close(output);
            outcome->is_complete = true;
            return SL_OK;
        }
        if (status == SL_OK)
            status = job_look(&job, err);
        bool has_work = job.totals.count > 0;
        if (status == SL_OK && has_work)
            status = job_plan(&job, &plan, err);
        if (pages_given > 0 && has_work)
            plan.page_count = pages_given;
        if (status == SL_OK)
            status = job_run(&job, has_work ? &plan : NULL, output, outcome, err);
        job_close(&job);
    }
    output_close(output);
    return status;
}

static inline struct job_outcome must_run(const struct settings *settings) {
    struct job_outcome outcome;
    struct error err = {0};
    if (run_job(settings, &outcome, &err) != SL_OK)
        fail_msg("%s", err.text);
    assert_true(outcome.is_complete);
    return outcome;
}

static inline void assert_results(const char *expected) {
    struct buf text;
    buf_init(&text);
    assert_int_equal(file_read_all(out_path, (size_t)1 << 20, &text, NULL), SL_OK);
    assert_string_equal(text.len == 0 ? "" : text.data, expected);
    buf_release(&text);
}

struct ending {
    const char *row;                  /* members after the id */
    const char *text, *finish, *more; /* of the result */
    unsigned count;
};

/* In each the prompt is one token. */
static const struct ending endings[] = {
    {"\"prompt_ids\": [3]", "efg", "stop", "", 3},
    {"\"prompt_ids\": [0], \"max_tokens\": 5", "babab", "length", "", 5},
    {"\"prompt\": \"d\"", "efg", "stop", "", 3},
    {"\"prompt_ids\": [3], \"max_tokens\": 4", "efg", "stop", "", 3}, /* the end comes last */
    {"\"prompt_ids\": [3], \"max_tokens\": 3", "efg", "length", "", 3},
    {"\"prompt_ids\": [6], \"logprobs\": true", "", "stop", ", \"logprobs\": {\"content\": []}", 0},
    {"\"prompt_ids\": [3], \"stop\": [\"\", \"fg\"], \"return_token_ids\": true", "e", "stop",
     ", \"token_ids\": [4]", 1},
    {"\"prompt_ids\": [3], \"stop\": \"fg\", \"max_tokens\": 3", "e", "stop", "", 1},
    {"\"prompt_ids\": [4], \"ignore_eos\": true, \"max_tokens\": 4", "fgca", "length", "", 4},
};
#define ENDING_COUNT (sizeof endings / sizeof endings[0])

static inline void add_result(struct buf *out, unsigned id, const struct ending *ending) {
    buf_printf(out,
               "{\"id\": %u, \"text\": \"%s\", \"finish_reason\": \"%s\", \"usage\": "
               "{\"prompt_tokens\": 1, \"completion_tokens\": %u}%s}\n",
               id, ending->text, ending->finish, ending->count, ending->more);
}

/* Writes the rows of all endings; the results that they should have are in endings_results. */
static char endings_results[4096];

static inline void write_endings(void) {
    struct buf rows, results;
    buf_init(&rows);
    buf_init(&results);
    for (unsigned i = 0; i < ENDING_COUNT; i++) {
        buf_printf(&rows, "{\"id\": %u, %s}\n", 100 + i, endings[i].row);
        add_result(&results, 100 + i, &endings[i]);
    }
    assert_true(results.len < sizeof endings_results);
    snprintf(endings_results, sizeof endings_results, "%s", results.data);
    tiny_write_text(&tiny, "rows.jsonl", rows.data);
    buf_release(&rows);
    buf_release(&results);
}

#endif
