/* A team of threads that shares out whole work items.
 *
 * team_run hands the items 0 .. count-1 to the workers in that order, one at a time (an atomic
 * counter), and returns when all are done; the caller works too. No result may depend on who did an
 * item. One team_run at a time, from the thread that made the team. */
#ifndef SLUICE_BASE_TEAM_H
#define SLUICE_BASE_TEAM_H

#include "base/status.h"

#define SL_TEAM_THREADS_MAX 256

struct team;

/* threads includes the caller: 1 starts none. 1 to SL_TEAM_THREADS_MAX. */
enum status team_new(size_t threads, struct team **out, struct error *err);
void team_free(struct team *team);
size_t team_threads(const struct team *team);

/* work(ctx, item, worker): worker is 0 .. threads-1, for scratch memory of one's own. */
typedef void team_work(void *ctx, size_t item, size_t worker);
void team_run(struct team *team, team_work *work, void *ctx, size_t count);

#endif
