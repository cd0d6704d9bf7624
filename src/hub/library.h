/* Shared libraries that are loaded when they are first needed. Any thread; the caller sees to it
 * that each is loaded once. */
#ifndef SLUICE_HUB_LIBRARY_H
#define SLUICE_HUB_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

struct library_function {
    const char *name;
    void *place; /* a pointer to a function of the type that its header declares */
};

/* Fills all places. False: the library is not there, or lacks one of them. It stays loaded. */
bool library_load(const char *name, const struct library_function *functions, size_t count);

#endif
