/* Owns the way from names to pointers. */
#include "hub/library.h"

#include <dlfcn.h>

bool library_load(const char *name, const struct library_function *functions, size_t count) {
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    bool has_all = library != NULL;
    for (size_t i = 0; has_all && i < count; i++) {
        *(void **)functions[i].place = dlsym(library, functions[i].name);
        has_all = *(void **)functions[i].place != NULL;
    }
    return has_all;
}
