/* The schedule of a job in numbers: which rows are in together, how many tokens each pass has, and
 * so how many passes and seconds all of it takes. Follows the rules of engine/sched.h and queue.h:
 * rows go in the order in which they are offered, but one that fits goes by the few before it that
 * do not; a row enters when a place is free, the pages that it holds on average while it is in, and
 * room for its prompt in the next pass; a pass computes one token of each decoding row, then
 * prompts, oldest first, as far as the drive's time allows. Begins with nobody in, or with the rows
 * of a job that has come so far.
 *
 * Passes that are alike are counted, not played: the work grows with the rows alone. Of a large job
 * every k-th row is played. Arithmetic only; any thread. */
#ifndef SLUICE_PLAN_SIMULATE_H
#define SLUICE_PLAN_SIMULATE_H

#include "plan/answers.h"
#include "plan/cost.h"

#define SL_SIMULATED_ROWS_MAX 65536u
#define SL_FIRST_ROWS 8u /* the shortest, which go first: job_order.c */

struct row_length {
    uint32_t prompt; /* tokens to be computed: without those that other rows have */
    uint32_t answer; /* at most */
    bool is_certain; /* the answer goes on to that length */
};

/* Lengths of rows in the order in which they are offered, from whoever has looked at them. */
struct row_lengths {
    const void *ctx;
    size_t count;
    /* False: the row does not run. */
    bool (*get)(const void *ctx, size_t index, struct row_length *out);
};

/* A row that is in at the beginning. */
struct simulate_row {
    uint32_t prompt; /* tokens to be computed for the next one of its answer; 1: it decodes */
    uint32_t kept;   /* that are in pages of its own */
    uint32_t answer; /* still to come, at least one */
    uint32_t pages;  /* that it holds on average while it is in */
};

struct simulate_start {
    const struct simulate_row *rows; /* in the order in which their prompts are computed */
    size_t count;
    double credit;    /* as sched.c has it */
    double even_from; /* steps before which rows do not enter evenly: it is not known yet */
    bool has_waited;  /* passes have waited for the drive */
};

struct simulate_options {
    const struct row_lengths *rows;
    size_t row_count;                   /* that run; at least one, or one is in */
    const struct simulate_start *start; /* NULL: nobody is in */
    const struct answers *expected;     /* NULL: every answer reaches its limit */
    size_t batch, pass_tokens;
    size_t opening_rows, opening_tokens; /* as in sched.h */
    size_t page_count;                   /* of the layers that bound the rows; 0: nothing does */
    size_t row_pages_max; /* a row takes no more, as where all layers have a window; 0: no bound */
    size_t head_tokens;   /* that one row computes while others wait for its state; 0: none wait */
    bool is_certain;      /* all rows go on to their limits: they enter evenly, see sched.c */
    bool ignores_drive;   /* prompts are not held back to the drive's time: the most at once */
    const struct pass_cost *cost;
};

struct simulated {
    uint64_t passes;
    double seconds;
    double first_row_seconds;  /* when the first answer is there */
    double first_rows_seconds; /* and the first SL_FIRST_ROWS, or all */
    double kv_fill;            /* of the pages, those in use while rows wait: mean; 0: none wait */
    double rows_in;            /* mean number while rows wait, or of all passes if none do */
    double answer_tokens;      /* of all rows that were not in, as expected */
    size_t rows_in_max, pass_tokens_max; /* of any pass */
    double kv_pages_max;                 /* in use at once */
    double kv_pages_out; /* likewise with those of rows that ended: full ones stay until needed */
};

/* SL_ERR_ENV when memory is out. */
enum status simulate(const struct simulate_options *options, struct simulated *out,
                     struct error *err);

#endif
