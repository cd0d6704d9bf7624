/* For tests alone: a method of reading that reads nothing, as a disk that hangs. */
#ifndef SLUICE_IO_RING_FOR_TEST_H
#define SLUICE_IO_RING_FOR_TEST_H

#include "io/ring_method.h"

static inline enum status stuck_start(struct ring *ring, size_t depth, void **method_state,
                                      struct error *err) {
    (void)ring;
    (void)depth;
    (void)err;
    *method_state = NULL;
    return SL_OK;
}
static inline void stuck_stop(void *method_state) {
    (void)method_state;
}
static const struct ring_method ring_method_stuck = {
    .name = "stuck", .start = stuck_start, .stop = stuck_stop};

#endif
