/* Time. Any thread. */
#ifndef SLUICE_BASE_CLOCK_H
#define SLUICE_BASE_CLOCK_H

#include <stdint.h>

double clock_seconds(void);       /* monotonic, from an arbitrary start */
int64_t clock_wall_seconds(void); /* since 1970-01-01 UTC */
void clock_sleep(double seconds);

#endif
