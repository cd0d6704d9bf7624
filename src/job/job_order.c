/* Owns the order in which rows are admitted: those that an earlier run has begun, then the few
 * shortest, so that answers come early; then file order. Refuses nothing: rows that are errors or
 * have their result are passed over. */
#include "job/job.h"

#define FIRST_SHORT_ROWS 8u

static uint64_t length_of(const struct job_row *looked) {
    return (uint64_t)looked->prompt_tokens + looked->max_tokens;
}

static bool is_new(const struct job *job, const struct output *output, size_t index) {
    return job->looked[index].prompt_tokens > 0 && output_find_begun(output, index) == NULL;
}

/* The few shortest rows, shortest first and by line where equal, into chosen; returns how many. */
static size_t choose_short(const struct job *job, const struct output *output,
                           uint32_t chosen[FIRST_SHORT_ROWS]) {
    size_t count = 0;
    for (size_t i = 0; i < job->rows.count; i++) {
        const struct job_row *looked = job->looked;
        if (!is_new(job, output, i))
            continue;
        size_t at = count;
        while (at > 0 && length_of(&looked[i]) < length_of(&looked[chosen[at - 1]]))
            at--;
        if (at == FIRST_SHORT_ROWS)
            continue;
        count += count < FIRST_SHORT_ROWS ? 1 : 0;
        for (size_t to = count - 1; to > at; to--)
            chosen[to] = chosen[to - 1];
        chosen[at] = (uint32_t)i;
    }
    return count;
}

enum status job_order_make(const struct job *job, const struct output *output,
                           struct job_order *out, struct error *err) {
    uint32_t chosen[FIRST_SHORT_ROWS];
    size_t count = choose_short(job, output, chosen),
           begun_count = output_counts(output).rows_begun;
    struct job_order order = {.rows = mem_new(job->rows.count, sizeof *order.rows)};
    if (order.rows == NULL)
        return error_memory(err, job->rows.count * sizeof *order.rows, "the order of the rows");
    for (size_t i = 0; i < begun_count; i++) {
        size_t row = output_begun_at(output, i)->row;
        if (job->looked[row].prompt_tokens > 0)
            order.rows[order.count++] = (uint32_t)row;
    }
    order.begun_count = order.count;
    for (size_t i = 0; i < count; i++)
        order.rows[order.count++] = chosen[i];
    for (size_t i = 0; i < job->rows.count; i++) {
        bool is_in = !is_new(job, output, i);
        for (size_t c = 0; c < count && !is_in; c++)
            is_in = chosen[c] == i;
        if (!is_in)
            order.rows[order.count++] = (uint32_t)i;
    }
    *out = order;
    return SL_OK;
}
