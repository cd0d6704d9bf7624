/* What the main loop of a job (job_run.c) shares with its two parts: who enters and what is kept of
 * them (job_admit.c), and the engine that it makes (job_engine.c). One thread. */
#ifndef SLUICE_JOB_JOB_RUN_H
#define SLUICE_JOB_JOB_RUN_H

#include "engine/engine.h"
#include "job/live.h"
#include "job/progress.h"
#include "plan/learn.h"

/* What the next commit makes done. */
struct ended {
    size_t rows_done, rows_failed;
    uint64_t prompt_tokens, completion_tokens;
};

struct run {
    struct job *job;
    const struct plan *plan;
    struct output *output;
    struct team *team;
    struct backend *backend;
    struct layout layout;
    struct checks *checks; /* NULL: none asked for */
    struct provider *provider;
    struct engine *engine;
    struct progress *progress;
    struct result_context context;
    struct progress_state state;
    struct lessons lessons;
    struct ended ended;
    struct error token_error; /* of a token that could not be kept */
    struct job_slot slot;
    struct queue *queue; /* the job's order: rows that wait outside */
    size_t parts_in;     /* of rows that have entered, or never will */
    struct live **live;  /* [plan.batch]; NULL: a free place */
    struct live *open;   /* of the row in `slot` parts wait to enter; NULL: of none */
    size_t open_next;    /* the first of them */
    struct buf text, line;
};

/* Rows that wait enter as far as they fit: part by part, a row after the other. */
enum status run_admit(struct run *run, struct error *err);
void run_leave(struct run *run, struct live *live); /* its place is free again */
/* Whether the line just loaded reads differently from the first look: its id, its answer or its
 * error would be another one. And the failure that this is. */
bool run_is_changed(const struct run *run, size_t index);
enum status run_changed(const struct run *run, size_t index, struct error *err);
enum status run_write_error(struct run *run, size_t index, const struct row *row,
                            const struct error *error, struct error *err);
/* Team, backend, layout, provider and engine, by the plan; whoever holds the run frees them. */
enum status run_make_engine(struct run *run, const struct engine_listener *listener,
                            struct error *err);

#endif
