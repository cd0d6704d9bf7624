/* Owns the order in which waiting rows enter. Refuses to know what fits. */
#include "engine/queue.h"

bool queue_take(struct queue *queue, bool (*fits)(void *ctx, uint32_t row), void *ctx,
                uint32_t *row) {
    size_t left = queue->count - queue->next, look = left < SL_QUEUE_LOOK ? left : SL_QUEUE_LOOK;
    must(queue->next <= queue->count);
    if (queue->next < queue->strict_count || queue->passed >= SL_QUEUE_PASSED_MAX)
        look = left > 0 ? 1 : 0;
    uint32_t *rows = queue->rows + queue->next;
    for (size_t i = 0; i < look; i++) {
        uint32_t chosen = rows[i];
        if (!fits(ctx, chosen))
            continue;
        for (size_t to = i; to > 0; to--) /* the others move up behind it */
            rows[to] = rows[to - 1];
        rows[0] = chosen;
        queue->next++;
        queue->passed = i > 0 ? queue->passed + 1 : 0;
        *row = chosen;
        return true;
    }
    return false;
}
