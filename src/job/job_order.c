/* Owns the order in which rows are offered to the engine: those that an earlier run has begun, then
 * the few shortest, so that answers come early; then file order, but rows that begin alike come
 * together, so that what they share is computed once. Works from what the first look noted of each
 * row. Refuses nothing: rows that are errors or have their result are passed over. The plan plays
 * the rows in this order too, or what it foretells would be another job's. */
#include "job/job.h"

#include <string.h>

static uint64_t length_of(const struct job_row *looked) {
    return (uint64_t)looked->prompt_tokens + looked->max_tokens;
}

static bool is_new(const struct job *job, size_t index) {
    return job->looked[index].prompt_tokens > 0 &&
           (job->output == NULL || output_find_begun(job->output, index) == NULL);
}

/* The few shortest rows, shortest first and by line where equal, into chosen; returns how many. */
static size_t choose_short(const struct job *job, uint32_t chosen[SL_FIRST_ROWS]) {
    size_t count = 0;
    for (size_t i = 0; i < job->rows.count; i++) {
        const struct job_row *looked = job->looked;
        if (!is_new(job, i))
            continue;
        size_t at = count;
        while (at > 0 && length_of(&looked[i]) < length_of(&looked[chosen[at - 1]]))
            at--;
        if (at == SL_FIRST_ROWS)
            continue;
        count += count < SL_FIRST_ROWS ? 1 : 0;
        for (size_t to = count - 1; to > at; to--)
            chosen[to] = chosen[to - 1];
        chosen[at] = (uint32_t)i;
    }
    return count;
}

/* Rows of the same prefix, one behind the other from where the first of them stands. The last row
 * of each is known by a table that forgets: a group may come apart, and nothing else. */
#define PREFIX_SLOTS 65536u

struct groups {
    uint32_t *next;  /* [rows] of the same prefix; itself: none */
    uint32_t *first; /* [rows] of the file with the same prefix, or itself */
    struct {
        uint32_t prefix, last;
    } slots[PREFIX_SLOTS];
};

static void groups_free(struct groups *groups) {
    if (groups == NULL)
        return;
    mem_free(groups->next);
    mem_free(groups->first);
    mem_free(groups);
}

static struct groups *groups_make(const struct job *job) {
    size_t count = job->rows.count;
    struct groups *groups = mem_new(1, sizeof *groups);
    if (groups != NULL) {
        groups->next = mem_new(count, sizeof *groups->next);
        groups->first = mem_new(count, sizeof *groups->first);
    }
    if (groups == NULL || groups->next == NULL || groups->first == NULL) {
        groups_free(groups);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t prefix = job->looked[i].prefix;
        groups->next[i] = groups->first[i] = (uint32_t)i;
        if (prefix == 0)
            continue;
        uint32_t slot = prefix % PREFIX_SLOTS;
        if (groups->slots[slot].prefix == prefix) {
            groups->next[groups->slots[slot].last] = (uint32_t)i;
            groups->first[i] = groups->first[groups->slots[slot].last];
        }
        groups->slots[slot].prefix = prefix;
        groups->slots[slot].last = (uint32_t)i;
    }
    return groups;
}

/* Appends the row and those of its group. */
static void add_group(const struct groups *groups, uint32_t row, bool *is_in, struct queue *queue) {
    for (;; row = groups->next[row]) {
        if (!is_in[row])
            queue->rows[queue->count++] = row;
        if (groups->next[row] == row)
            return;
    }
}

/* The first look has a group's first row of the file compute what the group shares; the row that is
 * offered first will. The two swap what they share, where the other one is long enough for it.
 * is_met: [rows], all false. */
static void turn_shares(struct job *job, const struct groups *groups, const struct queue *queue,
                        bool *is_met) {
    for (size_t i = 0; i < queue->count; i++) {
        uint32_t row = queue->rows[i], first = groups->first[row];
        struct job_row *ahead = &job->looked[row], *behind = &job->looked[first];
        bool is_ahead = !is_met[first] && ahead->shared_tokens > behind->shared_tokens;
        is_met[first] = true;
        if (!is_ahead || behind->prompt_tokens <= ahead->shared_tokens)
            continue;
        uint32_t tokens = ahead->shared_tokens, mark = ahead->shared_mark;
        ahead->shared_tokens = behind->shared_tokens;
        ahead->shared_mark = behind->shared_mark;
        behind->shared_tokens = tokens;
        behind->shared_mark = mark;
    }
}

static enum status fill(struct job *job, struct queue *queue, struct error *err) {
    uint32_t chosen[SL_FIRST_ROWS];
    size_t count = choose_short(job, chosen), rows = job->rows.count;
    size_t begun_count = job->output != NULL ? output_counts(job->output).rows_begun : 0;
    for (size_t i = 0; i < begun_count; i++) {
        size_t row = output_begun_at(job->output, i)->row;
        if (job->looked[row].prompt_tokens > 0)
            queue->rows[queue->count++] = (uint32_t)row;
    }
    queue->strict_count = queue->count;
    for (size_t i = 0; i < count; i++)
        queue->rows[queue->count++] = chosen[i];
    bool *is_in = mem_new(rows, sizeof *is_in); /* afterwards: whose group is met */
    struct groups *groups = groups_make(job);
    if (is_in != NULL && groups != NULL) {
        for (size_t i = 0; i < rows; i++)
            is_in[i] = !is_new(job, i);
        for (size_t i = 0; i < count; i++)
            is_in[chosen[i]] = true;
        for (size_t i = 0; i < rows; i++)
            if (groups->first[i] == i)
                add_group(groups, (uint32_t)i, is_in, queue);
        memset(is_in, 0, rows * sizeof *is_in);
        turn_shares(job, groups, queue, is_in);
    }
    bool has_failed = is_in == NULL || groups == NULL;
    groups_free(groups);
    mem_free(is_in);
    return has_failed ? error_memory(err, rows, "the order of the rows") : SL_OK;
}

enum status job_order_make(struct job *job, struct error *err) {
    struct queue queue = {.rows = mem_new(job->rows.count, sizeof *queue.rows)};
    if (queue.rows == NULL)
        return error_memory(err, job->rows.count * sizeof *queue.rows, "the order of the rows");
    enum status status = fill(job, &queue, err);
    if (status != SL_OK) {
        mem_free(queue.rows);
        return status;
    }
    mem_free(job->order.rows);
    job->order = queue;
    return SL_OK;
}
