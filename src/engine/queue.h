/* The queue of rows that wait outside: who enters next. The first one that fits among the next few,
 * so that a long row at the head does not leave pages unused; but a row is passed by at most
 * SL_QUEUE_PASSED_MAX later ones. One thread. */
#ifndef SLUICE_ENGINE_QUEUE_H
#define SLUICE_ENGINE_QUEUE_H

#include "base/status.h"

#define SL_QUEUE_LOOK 32u
#define SL_QUEUE_PASSED_MAX 64u

struct queue {
    uint32_t *rows; /* [count]; those from `next` on wait. The caller's */
    size_t count, next;
    size_t strict_count; /* of the first so many nobody is passed */
    size_t passed;       /* how many have passed the one at `next` */
};

/* Takes a row that fits; false when none of the next does. Rows keep their order otherwise. */
bool queue_take(struct queue *queue, bool (*fits)(void *ctx, uint32_t row), void *ctx,
                uint32_t *row);

#endif
