/* Owns the fault points: a counter and a trigger each. Never fires unless a test has armed it. */
#include "base/fault.h"

#include <stdatomic.h>

struct fault_state {
    _Atomic uint64_t count; /* calls since the last fault_arm */
    _Atomic uint64_t nth;   /* 0: disarmed */
    _Atomic bool is_lasting;
};

static struct fault_state fault_states[SL_FAULT_POINTS];

bool fault_hit(enum fault_point point) {
    struct fault_state *state = &fault_states[point];
    uint64_t call = atomic_fetch_add_explicit(&state->count, 1, memory_order_relaxed) + 1;
    uint64_t nth = atomic_load_explicit(&state->nth, memory_order_relaxed);
    if (nth == 0 || call < nth)
        return false;
    return call == nth || atomic_load_explicit(&state->is_lasting, memory_order_relaxed);
}

void fault_arm(enum fault_point point, uint64_t nth, bool is_lasting) {
    struct fault_state *state = &fault_states[point];
    atomic_store(&state->nth, 0);
    atomic_store(&state->is_lasting, is_lasting);
    atomic_store(&state->count, 0);
    atomic_store(&state->nth, nth);
}

uint64_t fault_count(enum fault_point point) {
    return atomic_load(&fault_states[point].count);
}
