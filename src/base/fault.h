/* Fault points: places where the outside world can fail, so that a test can make it fail.
 *
 * Off unless armed by a test: then the call number `nth` (from 1) of that point, and all after it
 * if `is_lasting`, report a fault. fault_count tells how often a point was passed, so that a sweep
 * ends when a run meets no fault. Atomic; any thread. */
#ifndef SLUICE_BASE_FAULT_H
#define SLUICE_BASE_FAULT_H

#include "base/status.h"

enum fault_point {
    SL_FAULT_ALLOC,
    SL_FAULT_OPEN,
    SL_FAULT_READ,
    SL_FAULT_SHORT_READ, /* the read gives half of what was asked */
    SL_FAULT_WRITE,
    SL_FAULT_SYNC,
    SL_FAULT_THREAD,
    SL_FAULT_SQL,    /* a statement of the journal */
    SL_FAULT_POINTS, /* how many there are */
};

bool fault_hit(enum fault_point point);
void fault_arm(enum fault_point point, uint64_t nth, bool is_lasting); /* nth 0 disarms */
uint64_t fault_count(enum fault_point point); /* since the last fault_arm of that point */

#endif
