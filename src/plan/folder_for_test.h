/* For tests: a folder of their own, removed with all that is in it. */
#ifndef SLUICE_PLAN_FOLDER_FOR_TEST_H
#define SLUICE_PLAN_FOLDER_FOR_TEST_H

#include <ftw.h>
#include <stdio.h>

static inline int folder_remove_one(const char *path, const struct stat *info, int kind,
                                    struct FTW *place) {
    (void)info;
    (void)kind;
    (void)place;
    return remove(path);
}

static inline int folder_remove(const char *path) {
    return nftw(path, folder_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

#endif
