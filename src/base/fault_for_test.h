/* For tests alone: the end of a test that armed faults. */
#ifndef SLUICE_BASE_FAULT_FOR_TEST_H
#define SLUICE_BASE_FAULT_FOR_TEST_H

#include "base/fault.h"

/* A teardown of cmocka. */
static inline int fault_disarm_all(void **state) {
    (void)state;
    for (int point = 0; point < SL_FAULT_POINTS; point++)
        fault_arm((enum fault_point)point, 0, false);
    return 0;
}

#endif
