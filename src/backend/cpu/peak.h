/* What the processor can do at most: loops over registers alone, and reading memory in order. To
 * judge products against; the measuring is in backend/measure.h. Any thread, nothing is allocated.
 */
#ifndef SLUICE_BACKEND_CPU_PEAK_H
#define SLUICE_BACKEND_CPU_PEAK_H

#include "base/status.h"

struct peak {
    const char *name;    /* of the instruction: "fma", "bf16", "amx" */
    const char *kernels; /* whose products it bounds, as struct backend names them */
    const char *isa;     /* likewise */
    double step_flops;
    /* So many steps on the calling thread; the result says nothing. The processor must have what
     * the kernels need. */
    float (*run)(size_t steps);
};

/* The one for a backend of that name: of the widest vectors that it uses. Never NULL. */
const struct peak *peak_of(const char *kernels, const char *isa);
/* Reads bytes (a multiple of 64) in order; the result says nothing. */
uint64_t peak_read(const uint8_t *data, size_t bytes);

#endif
