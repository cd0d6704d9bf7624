/* The machine under us: memory that may be used, and this process's share of it. Linux; any thread.
 */
#ifndef SLUICE_PLAN_MACHINE_H
#define SLUICE_PLAN_MACHINE_H

#include "base/status.h"

struct machine {
    uint64_t free_bytes; /* least of MemAvailable and what every memory cgroup above us has left (v1
                            and v2) */
    char limit_source[80]; /* "MemAvailable", "cgroup /path", for the plan */
};
void machine_get(struct machine *out);
/* The same below another root than "/", for tests. */
void machine_read(const char *root, struct machine *out);

/* Memory that the process may have: what the user says, or else the most of what is free. */
struct machine_budget {
    uint64_t bytes;
    char source[120]; /* where it comes from, in words */
};
void machine_get_budget(uint64_t asked_bytes, struct machine_budget *out); /* 0: nothing is said */

uint64_t machine_rss_bytes(void);      /* VmRSS */
uint64_t machine_peak_rss_bytes(void); /* VmHWM */

#endif
