/* Owns the readings of time. Refuses time zones and calendars. */
#include "base/clock.h"

#include <errno.h>
#include <time.h>

double clock_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int64_t clock_wall_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec;
}

void clock_sleep(double seconds) {
    if (!(seconds > 0))
        return;
    seconds = seconds > 1e9 ? 1e9 : seconds;
    struct timespec left = {.tv_sec = (time_t)seconds};
    left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {
    }
}
