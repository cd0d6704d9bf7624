/* Owns the playing of a schedule. Refuses to know what a pass costs (cost.h) or where lengths come
 * from. What it leaves out: rows that outgrow what they were expected to need, prefixes that rows
 * share, and the time between passes.
 *
 * A decoding row is known by the step at which it ends. A step is a pass in which every decoding
 * row gets its token; where there are more rows than tokens a pass, a pass is a part of a step. So
 * the rows in need not be touched in each pass: a heap has the next to end. */
#include "plan/simulate.h"

#include "base/mem.h"
#include "engine/pace.h"
#include "engine/queue.h"

#include <math.h>

#define PAGE_TOKENS 16.0
/* A pass of fewer tokens than this share of the slack waits for the drive noticeably, see pace.c.
 */
#define WAIT_TOKENS 0.95

struct entrant {
    uint32_t prompt, answer, pages;
    uint32_t kept; /* tokens in pages before the prompt's; 0 but for rows of the beginning */
};

struct ending {
    double step;
    uint32_t tokens, pages;
};

struct play {
    const struct simulate_options *options;
    size_t stride; /* one row in so many is played */
    size_t places;
    /* rows that have not entered */
    size_t entered, index, passed;         /* index: of the file; passed: rows that run, up to it */
    struct entrant waiting[SL_QUEUE_LOOK]; /* the next ones, in order */
    size_t waiting_count, waiting_most, taken;
    size_t gone_by; /* rows that have entered before the first of them, one after the other */
    /* rows that are in */
    struct ending *heap; /* [places], the earliest first */
    size_t heap_count;
    struct entrant *queue; /* [places], a circle: those whose prompts are not computed */
    size_t queue_first, queue_count;
    double prompt_left; /* of the first in the queue */
    double head_left;   /* of head_tokens */
    size_t pages_promised;
    double credit;          /* of pages x passes, while rows enter evenly */
    double prompts_waiting; /* tokens of the queue */
    double kv_tokens, step;
    double end_pages;    /* of the rows that are in, when each has all its tokens */
    double pages_filled; /* by rows that have ended */
    double slack;        /* tokens that are computed in the time of the reads */
    bool has_waited;     /* for the drive, in a pass: only then is the slack known */
    /* what has passed */
    double passes, seconds, admitted_passes, admitted_seconds;
    size_t ended, first_count;
    double waiting_passes, waiting_fill, waiting_rows, row_passes, answer_tokens;
    struct simulated out;
};

/* ---- rows */

static uint32_t pages_for(const struct play *play, double tokens) {
    double pages = ceil(tokens / PAGE_TOKENS), most = (double)play->options->row_pages_max;
    return (uint32_t)(most > 0 && pages > most ? most : pages);
}

/* The next of the rows to be played; false at the end. */
static bool find_row(struct play *play, struct row_length *row) {
    const struct row_lengths *rows = play->options->rows;
    while (play->index < rows->count) {
        bool runs = rows->get(rows->ctx, play->index++, row) && row->prompt > 0 && row->answer > 0;
        if (!runs)
            continue;
        size_t number = play->passed++;
        if (number < SL_FIRST_ROWS || number % play->stride == 0)
            return true;
    }
    return false;
}

/* Prepares the rows that may enter next. */
static void take_next(struct play *play) {
    static const struct answers unknown;
    struct row_length row;
    while (play->waiting_count < play->waiting_most && find_row(play, &row)) {
        const struct answers *expected = play->options->expected;
        double quantile = answers_quantile(play->taken++), length = row.answer;
        expected = expected == NULL || row.is_certain ? &unknown : expected;
        length = ceil(answers_share(expected, quantile) * length);
        play->waiting[play->waiting_count++] = (struct entrant){
            .prompt = row.prompt,
            .answer = length > 1 ? (uint32_t)length : 1,
            .pages = pages_for(play, row.prompt + answers_life(expected) * row.answer),
        };
    }
}

/* The row has entered: who waits moves up. */
static void remove_waiting(struct play *play, size_t at) {
    play->gone_by = at > 0 ? play->gone_by + 1 : 0;
    play->waiting_count--;
    for (; at < play->waiting_count; at++)
        play->waiting[at] = play->waiting[at + 1];
    take_next(play);
}

/* Tokens that the next pass may have: prompts do not make a pass longer that waits for the drive,
 * or that the first answers are made in. */
static double room_of_pass(const struct play *play) {
    const struct simulate_options *options = play->options;
    double most = (double)options->pass_tokens, decoding = (double)play->heap_count;
    double least = decoding + floor(most / SL_PROMPT_SHARE_LEAST), room = most;
    if (play->has_waited && play->slack > decoding && play->slack < most)
        room = play->slack;
    if (options->opening_tokens > 0 && play->ended < options->opening_rows) {
        room = fmin(room, (double)options->opening_tokens);
        least = decoding;
    }
    return fmin(fmax(room, least), most);
}

/* ---- one after the other, as in sched.c */

/* Pages that the row has, summed over its passes. */
static double life_of(const struct entrant *row) {
    return row->answer * ((double)row->prompt + row->answer / 2.0 + PAGE_TOKENS / 2) / PAGE_TOKENS;
}

static bool must_wait(const struct play *play, const struct entrant *row) {
    const struct simulate_options *options = play->options;
    size_t in = play->heap_count + play->queue_count;
    bool is_known = options->start == NULL || play->step >= options->start->even_from;
    if (!is_known || !options->is_certain || options->page_count == 0 || play->credit > 0 ||
        in == 0)
        return false;
    double rows = row->answer * (double)options->page_count / life_of(row);
    double waiting = (double)options->row_count / (double)play->stride - (double)play->entered;
    return waiting > 2 * rows;
}

static void take_credit(struct play *play, const struct entrant *row) {
    double pages = (double)play->options->page_count;
    play->credit = (play->credit > -pages ? play->credit : -pages) - life_of(row);
}

static void give_credit(struct play *play, double passes) {
    double pages = (double)play->options->page_count, sum = play->credit + passes * pages;
    play->credit = sum < pages ? sum : pages;
}

/* ---- rows that are in */

static void heap_push(struct play *play, struct ending ending) {
    size_t at = play->heap_count++;
    while (at > 0 && ending.step < play->heap[(at - 1) / 2].step) {
        play->heap[at] = play->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    play->heap[at] = ending;
}

static void heap_pop(struct play *play) {
    struct ending last = play->heap[--play->heap_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= play->heap_count)
            break;
        if (child + 1 < play->heap_count && play->heap[child + 1].step < play->heap[child].step)
            child++;
        if (last.step <= play->heap[child].step)
            break;
        play->heap[at] = play->heap[child];
        at = child;
    }
    play->heap[at] = last;
}

/* Tokens that the row has in the end: its last one is not computed any more. */
static uint32_t tokens_of(const struct entrant *row) {
    return row->kept + row->prompt + row->answer - 1;
}

static void enqueue(struct play *play, const struct entrant *row) {
    if (play->queue_count == 0)
        play->prompt_left = row->prompt;
    play->queue[(play->queue_first + play->queue_count++) % play->places] = *row;
    play->pages_promised += row->pages;
    play->prompts_waiting += row->prompt;
    play->end_pages += ceil(tokens_of(row) / PAGE_TOKENS);
}

static bool has_pages(const struct play *play, const struct entrant *row) {
    size_t most = play->options->page_count;
    return most == 0 || play->heap_count + play->queue_count == 0 ||
           play->pages_promised + row->pages <= most;
}

/* The first that fits among the next few, as in engine/queue.h; waiting_count: none. */
static size_t find_entrant(const struct play *play) {
    size_t look = play->gone_by < SL_QUEUE_PASSED_MAX ? play->waiting_count
                                                      : size_min(play->waiting_count, 1);
    size_t at = 0;
    while (at < look &&
           (!has_pages(play, &play->waiting[at]) || must_wait(play, &play->waiting[at])))
        at++;
    return at < look ? at : play->waiting_count;
}

static void admit(struct play *play) {
    double room = room_of_pass(play) - (double)play->heap_count;
    while (play->heap_count + play->queue_count < play->places) {
        if (play->queue_count > 0 && play->prompts_waiting >= room)
            return;
        size_t at = find_entrant(play);
        if (at == play->waiting_count)
            return;
        struct entrant row = play->waiting[at];
        enqueue(play, &row);
        play->entered++;
        play->answer_tokens += row.answer;
        take_credit(play, &row);
        remove_waiting(play, at);
    }
}

static void end_row(struct play *play, uint32_t tokens, uint32_t pages) {
    play->kv_tokens -= tokens;
    play->end_pages -= ceil(tokens / PAGE_TOKENS);
    play->pages_filled += floor(tokens / PAGE_TOKENS);
    play->pages_promised -= pages;
    play->ended++;
    if (play->ended == 1)
        play->out.first_row_seconds = play->seconds;
    if (play->ended == play->first_count)
        play->out.first_rows_seconds = play->seconds;
}

/* Rows whose last token is computed. */
static void end_rows(struct play *play) {
    while (play->heap_count > 0 && play->heap[0].step <= play->step + 1e-9) {
        struct ending ending = play->heap[0];
        heap_pop(play);
        end_row(play, ending.tokens, ending.pages);
    }
}

/* ---- passes */

static void note_most(struct play *play, double rows, double tokens, double grown) {
    struct simulated *out = &play->out;
    double pages = (play->kv_tokens + grown) / PAGE_TOKENS + rows / 2;
    double most = (double)play->options->row_pages_max * rows;
    pages = most > 0 && pages > most ? most : pages;
    pages = pages < play->end_pages ? pages : play->end_pages;
    out->kv_pages_max = pages > out->kv_pages_max ? pages : out->kv_pages_max;
    pages += play->pages_filled * (double)play->stride;
    out->kv_pages_out = pages > out->kv_pages_out ? pages : out->kv_pages_out;
    if ((size_t)rows > out->rows_in_max)
        out->rows_in_max = (size_t)rows;
    if ((size_t)tokens > out->pass_tokens_max)
        out->pass_tokens_max = (size_t)tokens;
}

/* So many passes of the rows that are in, all alike, of so many tokens and logits. grown: tokens
 * that the KV gains meanwhile. */
static void count_passes(struct play *play, double passes, double tokens, double logits,
                         double grown) {
    const struct simulate_options *options = play->options;
    double rows = (double)(play->heap_count + play->queue_count);
    double seconds = cost_seconds(options->cost, tokens, logits);
    note_most(play, rows, tokens, grown);
    play->has_waited = play->has_waited || tokens < WAIT_TOKENS * play->slack;
    play->passes += passes;
    play->seconds += passes * seconds;
    play->row_passes += passes * rows;
    if (play->waiting_count > 0 && options->page_count > 0) {
        double used = play->kv_tokens + grown / 2 + rows * PAGE_TOKENS / 2;
        double fill = used / ((double)options->page_count * PAGE_TOKENS);
        play->waiting_fill += passes * (fill < 1 ? fill : 1);
    }
    if (play->waiting_count > 0) {
        play->waiting_passes += passes;
        play->waiting_rows += passes * rows;
        play->admitted_passes = play->passes;
        play->admitted_seconds = play->seconds;
    }
    play->kv_tokens += grown;
    give_credit(play, passes);
}

/* A pass with prompts in it: decoding rows first, then what has room. */
static void pass_with_prompts(struct play *play) {
    double room = room_of_pass(play), decoding = (double)play->heap_count;
    double decoded = decoding < room ? decoding : room, left = room - decoded, logits = decoded;
    double prompts = 0;
    if (play->head_left > 0)
        left = fmin(left, play->head_left);
    size_t finished = 0, first = play->queue_first;
    double prompt_left = play->prompt_left;
    while (finished < play->queue_count && prompt_left <= left) {
        left -= prompt_left;
        prompts += prompt_left;
        logits++;
        finished++;
        first = (first + 1) % play->places;
        prompt_left = finished < play->queue_count ? play->queue[first].prompt : 0;
    }
    if (finished < play->queue_count) {
        prompt_left -= left;
        prompts += left;
    }
    double step = decoding > 0 ? decoded / decoding : 1;
    count_passes(play, 1, decoded + prompts, logits, decoded + prompts);
    play->step += step;
    end_rows(play);
    for (; finished > 0; finished--) {
        struct entrant row = play->queue[play->queue_first];
        play->queue_first = (play->queue_first + 1) % play->places;
        play->queue_count--;
        if (row.answer == 1) /* its one token comes with the prompt */
            end_row(play, tokens_of(&row), row.pages);
        else
            heap_push(play,
                      (struct ending){play->step + row.answer - 1, tokens_of(&row), row.pages});
    }
    play->prompt_left = prompt_left;
    play->prompts_waiting -= prompts;
    play->head_left -= prompts;
}

static bool waits_for_credit(const struct play *play) {
    for (size_t i = 0; i < play->waiting_count; i++)
        if (has_pages(play, &play->waiting[i]) && must_wait(play, &play->waiting[i]))
            return true;
    return false;
}

/* Passes of decoding rows alone, until the first of them ends. */
static void passes_of_decoding(struct play *play) {
    const struct simulate_options *options = play->options;
    double rows = (double)play->heap_count, room = (double)options->pass_tokens;
    double tokens = rows < room ? rows : room;
    double steps = play->heap[0].step - play->step;
    double passes = ceil(steps * rows / tokens - 1e-9);
    passes = passes > 1 ? passes : 1;
    if (waits_for_credit(play)) { /* until one may enter */
        double wait = floor(-play->credit / (double)options->page_count) + 1;
        passes = wait < passes ? wait : passes;
    }
    steps = passes * tokens / rows < steps ? passes * tokens / rows : steps;
    count_passes(play, passes, tokens, tokens, steps * rows);
    play->step += steps;
    end_rows(play);
}

/* The rows of the beginning: of one that decodes the next token comes with the next step. */
static void begin(struct play *play) {
    const struct simulate_start *start = play->options->start;
    for (size_t i = 0; start != NULL && i < start->count; i++) {
        const struct simulate_row *in = &start->rows[i];
        struct entrant row = {in->prompt, in->answer, in->pages, in->kept};
        must(in->prompt > 0 && in->answer > 0);
        play->kv_tokens += in->kept;
        if (in->prompt > 1) {
            enqueue(play, &row);
            continue;
        }
        play->pages_promised += row.pages;
        play->end_pages += ceil(tokens_of(&row) / PAGE_TOKENS);
        heap_push(play, (struct ending){row.answer, tokens_of(&row), row.pages});
    }
}

static void play_all(struct play *play) {
    begin(play);
    take_next(play);
    for (;;) {
        admit(play);
        if (play->queue_count > 0)
            pass_with_prompts(play);
        else if (play->heap_count > 0)
            passes_of_decoding(play);
        else
            return;
    }
}

static double slack_of(const struct pass_cost *cost) {
    double each = cost_compute_seconds(cost, 1, 0) - cost->fixed_seconds;
    double seconds = cost_read_seconds(cost, 1e9) - cost->fixed_seconds;
    return each > 0 && seconds > 0 ? floor(seconds / each) : 0;
}

/* While rows wait, each played one stands for stride rows that pass one after the other. */
static void sum_up(struct play *play) {
    double more = (double)(play->stride - 1);
    struct simulated *out = &play->out;
    out->passes = (uint64_t)(play->passes + more * play->admitted_passes + 0.5);
    out->seconds = play->seconds + more * play->admitted_seconds;
    out->answer_tokens = play->answer_tokens * (double)play->options->row_count /
                         (double)(play->entered > 0 ? play->entered : 1);
    if (play->waiting_passes > 0) {
        out->kv_fill = play->waiting_fill / play->waiting_passes;
        out->rows_in = play->waiting_rows / play->waiting_passes;
    } else if (play->passes > 0) {
        out->rows_in = play->row_passes / play->passes;
    }
}

enum status simulate(const struct simulate_options *options, struct simulated *out,
                     struct error *err) {
    const struct simulate_start *start = options->start;
    size_t inside = start != NULL ? start->count : 0;
    must(options->row_count + inside > 0 && options->batch >= inside && options->batch > 0);
    must(options->pass_tokens > 0);
    struct play play = {.options = options};
    play.stride = size_divide_up(options->row_count, SL_SIMULATED_ROWS_MAX);
    play.stride = size_max(play.stride, 1);
    size_t played = size_divide_up(options->row_count, play.stride) + inside;
    play.waiting_most = size_max(SL_QUEUE_LOOK / play.stride, 1);
    play.places = options->batch < played ? options->batch : played;
    play.slack = options->ignores_drive ? 0 : slack_of(options->cost);
    play.head_left = (double)options->head_tokens;
    play.credit = start != NULL ? start->credit : (double)options->page_count;
    play.has_waited = start != NULL && start->has_waited;
    play.first_count = played < SL_FIRST_ROWS ? played : SL_FIRST_ROWS;
    play.heap = mem_new(play.places, sizeof *play.heap);
    play.queue = mem_new(play.places, sizeof *play.queue);
    enum status status = SL_OK;
    if (play.heap == NULL || play.queue == NULL) {
        status = error_memory(err, play.places * sizeof *play.heap, "the schedule");
    } else {
        play_all(&play);
        sum_up(&play);
        *out = play.out;
    }
    mem_free(play.queue);
    mem_free(play.heap);
    return status;
}
