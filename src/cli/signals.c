/* Owns the wish to stop: SIGINT, SIGTERM and the time box set a flag that the job asks for between
 * blocks. The second signal ends the process at once: what is on disk is whole at any instant. */
#include "cli/cmd.h"

#include "base/clock.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "a signal handler takes no lock");

/* Threads that download ask for it while the handler sets it. */
static atomic_int signal_seen;
static double deadline; /* on clock_seconds(); 0: none */

static void on_signal(int number) {
    if (atomic_exchange(&signal_seen, number) != 0)
        _exit(128 + number);
}

void signals_install(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = on_signal;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

void signals_ignore(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL); /* a write says EPIPE */
    sigaction(SIGXFSZ, &action, NULL); /* a write says EFBIG */
}

void signals_time_box(double seconds) {
    deadline = clock_seconds() + seconds;
}

bool signals_should_stop(void) {
    return atomic_load(&signal_seen) != 0 || (deadline > 0 && clock_seconds() >= deadline);
}

int signals_exit_code(void) {
    return atomic_load(&signal_seen) == SIGTERM ? 143 : 130;
}
