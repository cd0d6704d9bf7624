/* Tests of what an emulated processor does otherwise. tools/check.py sets SLUICE_MEMCHECK where it
 * runs unit tests under valgrind. */
#ifndef SLUICE_BASE_MEMCHECK_FOR_TEST_H
#define SLUICE_BASE_MEMCHECK_FOR_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>

static inline void skip_under_memcheck(const char *why) {
    if (getenv("SLUICE_MEMCHECK") == NULL)
        return;
    print_message("skipped: %s\n", why);
    skip();
}

#endif
