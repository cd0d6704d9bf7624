/* Owns the first look of a job: every row without a result read, parsed, rendered and counted once,
 * in memory that is constant but for a few bytes a row. Refuses duplicate ids; a row that cannot be
 * used is counted and gets its line when the job runs.
 *
 * Rows are looked at by a team, a round of some thousands at a time, and what was seen is taken up
 * in their order by the caller alone. So what is counted, refused and warned of does not depend on
 * who looked. Long lines are the caller's, one after the other: their memory is needed once. */
#include "base/cpu.h"
#include "base/log.h"
#include "base/team.h"
#include "engine/fork.h"
#include "job/alike.h"
#include "job/job.h"
#include "job/notes.h"
#include "job/prompt.h"

#include <malloc.h>
#include <string.h>

#define ITEM_ROWS ((size_t)64)
#define ROUND_ROWS (64 * ITEM_ROWS)
#define TEAM_ROWS_LEAST ROUND_ROWS             /* fewer rows are not worth threads */
#define LOAD_BYTES_LEAST ((uint64_t)256 << 10) /* the process's own allowance has room for less */
#define LONG_LINE_BYTES ((uint64_t)1 << 20)

/* What was seen of a row. */
struct seen {
    enum status status; /* SL_ERR_ROW: an error row */
    struct job_row look;
    enum lack lack;
    struct str id;    /* in the looker's arena, as the next */
    uint32_t *blocks; /* [alike_blocks(prompt_tokens)] of alike_hash */
    uint32_t top_logprobs;
    uint64_t load_bytes;
    bool was_passed_over; /* done, or a long line */
    bool has_news;        /* a member that its looker did not know */
    bool has_specials, has_lone_surrogates, wants_logprobs, is_cut;
};

/* Who looks: one a thread. */
struct looker {
    struct job_slot slot;
    struct buf unknown;
    struct arena ids;
    struct error error; /* of a row that could not be looked at at all */
};

struct look {
    struct job *job;
    struct notes *notes;
    struct alike alike;
    struct team *team; /* NULL: the caller alone */
    struct looker *lookers;
    size_t looker_count;
    struct seen *seen;   /* [ROUND_ROWS] */
    size_t first, count; /* rows of this round */
};

/* Of so many tokens that another row begins with too, those that need not be computed again. */
static uint32_t saved(const struct job *job, uint32_t shared) {
    const struct config *config = &job->model->config;
    bool is_enough = !kv_has_states(config) || shared >= SL_FORK_TOKENS;
    return kv_can_share(config) && is_enough ? shared : 0;
}

/* Tokens of a row that its second and later parts share with the first: full pages. */
static size_t shared_by_parts(const struct job *job, const struct job_row *looked) {
    return looked->parts < 2 ? 0
                             : (looked->parts - 1) * (size_t)saved(job, job_shared_tokens(looked));
}

uint32_t job_shared_tokens(const struct job_row *looked) {
    return (looked->common_tokens - 1) / SL_PAGE_TOKENS * SL_PAGE_TOKENS;
}

void job_count(struct job *job) {
    struct plan_rows totals = job->totals; /* with what only the rows themselves tell */
    totals.count = totals.certain_rows = 0;
    totals.lines = job->rows.count;
    totals.answered = job->output != NULL ? output_counts(job->output).rows_done : 0;
    totals.prompt_tokens = totals.shared_tokens = totals.answer_tokens = totals.sequence_tokens = 0;
    totals.pages = totals.window_pages = totals.scored_tokens = 0;
    totals.longest = totals.longest_prompt = totals.longest_answer = totals.head_tokens = 0;
    size_t window_pages = kv_window_pages(kv_window(&job->model->config)); /* the most of a row */
    size_t rows = 0, sharing = 0;
    for (size_t i = 0; i < job->rows.count; i++) {
        const struct job_row *looked = &job->looked[i];
        size_t prompt = looked->prompt_tokens, answer = looked->max_tokens, parts = looked->parts;
        if (prompt == 0)
            continue;
        totals.count += parts;
        totals.certain_rows += parts * looked->ignores_eos;
        totals.prompt_tokens += looked->row_tokens;
        totals.shared_tokens += looked->shared_tokens + shared_by_parts(job, looked);
        rows++;
        if (looked->shared_tokens > 0 &&
            (sharing++ == 0 || looked->shared_tokens < totals.head_tokens))
            totals.head_tokens = looked->shared_tokens;
        totals.answer_tokens += parts * answer;
        totals.scored_tokens += looked->scored_tokens;
        totals.sequence_tokens += looked->row_tokens + parts * answer;
        size_t pages = kv_pages_for(prompt + answer);
        totals.pages += parts * pages;
        totals.window_pages += parts * (pages < window_pages ? pages : window_pages);
        if (prompt + answer > totals.longest)
            totals.longest = prompt + answer;
        if (prompt > totals.longest_prompt)
            totals.longest_prompt = prompt;
        if (answer > totals.longest_answer)
            totals.longest_answer = answer;
    }
    if (!kv_has_states(&job->model->config) || sharing + 1 != rows)
        totals.head_tokens = 0;
    job->totals = totals;
}

/* ---- one row */

static enum status keep_seen(struct look *look, struct looker *looker, struct seen *seen,
                             struct error *err) {
    const struct row *row = &looker->slot.row;
    char *copy = arena_take(&looker->ids, row->id_json.len);
    if (copy == NULL)
        return error_memory(err, row->id_json.len, "the ids of the rows");
    memcpy(copy, row->id_json.data, row->id_json.len);
    seen->id = (struct str){copy, row->id_json.len};
    seen->look = looker->slot.look;
    seen->lack = looker->slot.lack;
    seen->load_bytes = looker->slot.load_bytes;
    seen->has_lone_surrogates = row->has_lone_surrogates;
    if (seen->status == SL_ERR_ROW) {
        seen->look.prompt_tokens = seen->look.max_tokens = seen->look.common_tokens = 0;
        return SL_OK;
    }
    size_t blocks = alike_blocks(seen->look.common_tokens);
    seen->blocks = arena_take(&looker->ids, blocks * sizeof *seen->blocks);
    if (seen->blocks == NULL)
        return error_memory(err, blocks * sizeof *seen->blocks, "what rows share");
    alike_hash(looker->slot.ids.items, blocks, seen->blocks);
    seen->is_cut = looker->slot.is_cut;
    seen->wants_logprobs = row->wants_logprobs;
    seen->top_logprobs = row->wants_logprobs ? (uint32_t)row->top_logprobs : 0;
    return prompt_holds_specials(look->job->model, row, &seen->has_specials, err);
}

/* Fills seen; a status other than SL_OK and SL_ERR_ROW ends the look. */
static void see(struct look *look, struct looker *looker, size_t index, struct buf *unknown,
                struct seen *seen) {
    struct error why = {0};
    size_t known = unknown->len;
    *seen = (struct seen){.status = SL_OK};
    seen->status = job_load(look->job, index, &looker->slot, unknown, &why);
    seen->has_news = unknown->len > known;
    if (seen->status == SL_OK || seen->status == SL_ERR_ROW) {
        enum status status = keep_seen(look, looker, seen, &why);
        seen->status = status != SL_OK ? status : seen->status;
    }
    if (seen->status != SL_OK && seen->status != SL_ERR_ROW)
        looker->error = why;
}

static bool is_done(const struct look *look, size_t index) {
    return look->job->output != NULL && output_has_line(look->job->output, index);
}

static void look_at_item(void *ctx, size_t item, size_t worker) {
    struct look *look = ctx;
    struct looker *looker = &look->lookers[worker];
    for (size_t i = item * ITEM_ROWS; i < (item + 1) * ITEM_ROWS && i < look->count; i++) {
        struct seen *seen = &look->seen[i];
        size_t index = look->first + i;
        *seen = (struct seen){.was_passed_over = true};
        if (looker->error.status == SL_OK && !is_done(look, index) &&
            look->job->rows.lines[index].bytes <= LONG_LINE_BYTES)
            see(look, looker, index, &looker->unknown, seen);
    }
}

/* What the row shares with those before it, and its own parts. */
static void take_up_shared(struct look *look, struct seen *seen) {
    const struct job *job = look->job;
    struct job_row *looked = &seen->look;
    size_t blocks = alike_blocks(looked->common_tokens);
    looked->shared_tokens = saved(job, alike_add(&look->alike, seen->blocks, blocks));
    size_t shared = looked->shared_tokens / SL_PAGE_TOKENS;
    if (shared > 0) {
        looked->shared_mark = seen->blocks[shared - 1];
        alike_fork(&look->alike, seen->blocks, shared);
    }
    if (shared_by_parts(job, looked) > 0 && blocks > 0)
        alike_fork(&look->alike, seen->blocks, blocks);
}

/* ---- all rows */

static enum status take_up(struct look *look, size_t index, struct seen *seen, struct error *err) {
    struct job *job = look->job;
    struct looker *own = &look->lookers[0];
    struct plan_rows *totals = &job->totals;
    if (is_done(look, index))
        return SL_OK;
    /* A long line, or one whose unknown members are to be noted in their order. */
    if (seen->was_passed_over || seen->has_news) {
        see(look, own, index, &look->notes->unknown, seen);
        if (seen->status != SL_OK && seen->status != SL_ERR_ROW) {
            if (err != NULL)
                *err = own->error;
            return seen->status;
        }
    }
    TRY(notes_add(look->notes, index, seen->id, seen->has_lone_surrogates, err));
    job->lacks[seen->lack]++;
    take_up_shared(look, seen);
    job->looked[index] = seen->look;
    totals->special_rows += seen->has_specials;
    totals->cut_rows += seen->is_cut;
    totals->wants_logprobs = totals->wants_logprobs || seen->wants_logprobs;
    if (seen->load_bytes > LOAD_BYTES_LEAST && seen->load_bytes > totals->load_bytes)
        totals->load_bytes = seen->load_bytes;
    if (seen->top_logprobs > totals->top_logprobs)
        totals->top_logprobs = seen->top_logprobs;
    return SL_OK;
}

static enum status look_at_round(struct look *look, struct error *err) {
    size_t items = size_divide_up(look->count, ITEM_ROWS);
    if (look->team != NULL)
        team_run(look->team, look_at_item, look, items);
    for (size_t i = 0; i < look->looker_count; i++) {
        if (look->lookers[i].error.status == SL_OK)
            continue;
        if (err != NULL)
            *err = look->lookers[i].error;
        return look->lookers[i].error.status;
    }
    for (size_t i = 0; i < look->count; i++) {
        if (look->team == NULL)
            look->seen[i] = (struct seen){.was_passed_over = true};
        TRY(take_up(look, look->first + i, &look->seen[i], err));
    }
    for (size_t i = 0; i < look->looker_count; i++)
        arena_release(&look->lookers[i].ids);
    return SL_OK;
}

static enum status look_at_rows(struct look *look, struct error *err) {
    struct job *job = look->job;
    size_t round_rows = look->team != NULL ? ROUND_ROWS : 1; /* alone: stops at once when asked */
    for (look->first = 0; look->first < job->rows.count; look->first += look->count) {
        size_t left = job->rows.count - look->first;
        look->count = left < round_rows ? left : round_rows;
        if (job->should_stop != NULL && job->should_stop())
            return error_set(err, SL_ERR_STOPPED, "stopped while looking at the rows");
        TRY(look_at_round(look, err));
    }
    TRY(notes_check(look->notes, &job->rows, &job->settings, err));
    notes_warn(look->notes);
    job->totals.forks = look->alike.forks;
    job_count(job);
    return SL_OK;
}

static enum status make_look(struct look *look, struct error *err) {
    const struct job *job = look->job;
    int64_t threads = job->settings.threads;
    size_t count = threads > 0 ? (size_t)threads : cpu_get()->threads_max;
    count = job->rows.count < TEAM_ROWS_LEAST ? 1 : count;
    count = count > SL_TEAM_THREADS_MAX ? SL_TEAM_THREADS_MAX : count;
    look->seen = mem_new(ROUND_ROWS, sizeof *look->seen);
    look->lookers = mem_new(count, sizeof *look->lookers);
    if (look->seen == NULL || look->lookers == NULL)
        return error_memory(err, ROUND_ROWS * sizeof *look->seen, "the look at the rows");
    look->looker_count = count;
    for (size_t i = 0; i < count; i++) {
        job_slot_init(&look->lookers[i].slot);
        buf_init(&look->lookers[i].unknown);
        arena_init(&look->lookers[i].ids);
    }
    TRY(alike_init(&look->alike, err));
    return count > 1 ? team_new(count, &look->team, err) : SL_OK;
}

static void clear_look(struct look *look) {
    team_free(look->team);
    for (size_t i = 0; i < look->looker_count; i++) {
        job_slot_release(&look->lookers[i].slot);
        buf_release(&look->lookers[i].unknown);
        arena_release(&look->lookers[i].ids);
    }
    alike_release(&look->alike);
    mem_free(look->lookers);
    mem_free(look->seen);
}

static enum status first_look(struct job *job, struct error *err) {
    struct notes notes;
    struct look look = {.job = job, .notes = &notes};
    job->looked = mem_new(job->rows.count, sizeof *job->looked);
    if (job->looked == NULL)
        return error_memory(err, job->rows.count * sizeof *job->looked, "the rows");
    notes_init(&notes);
    enum status status = make_look(&look, err);
    if (status == SL_OK)
        status = look_at_rows(&look, err);
    clear_look(&look);
    notes_release(&notes);
    malloc_trim(0); /* what the look took is free again; the plan counts what the process has */
    return status;
}

/* Rows that the model cannot take: told once, and the others run. A job of such rows alone is
 * refused, except where the model was published without a template: then its rows say so. */
static enum status check_lacks(const struct job *job, struct error *err) {
    const struct model *model = job->model;
    const char *const why[LACK_COUNT] = {
        [LACK_TOKENIZER] = model->tokenizer_error.text,
        [LACK_TEMPLATE] = model->template_error.status != SL_OK ? model->template_error.text
                                                                : "the model has no chat template",
    };
    static const char *const what[LACK_COUNT] = {
        [LACK_TOKENIZER] = "text", [LACK_TEMPLATE] = "messages"};
    bool has_answers = job->output != NULL && output_counts(job->output).rows_done > 0;
    for (enum lack lack = LACK_TOKENIZER; lack < LACK_COUNT; lack++) {
        size_t count = job->lacks[lack];
        bool is_plain = lack == LACK_TEMPLATE && model->template_error.status == SL_OK;
        if (count == 0)
            continue;
        if (job->totals.count == 0 && !is_plain && !has_answers)
            return error_set(err, SL_ERR_ENV, "%s: no row can run", why[lack]);
        log_warning("%s: %zu row%s of %s %s", why[lack], count, count == 1 ? "" : "s", what[lack],
                    count == 1 ? "is an error" : "are errors");
    }
    return SL_OK;
}

enum status job_look(struct job *job, struct error *err) {
    must(job->looked == NULL);
    TRY(first_look(job, err));
    return check_lacks(job, err);
}
