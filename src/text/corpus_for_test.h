/* Replaying the saved corpus of a fuzz target in an ordinary test. Used by *_test.c alone. */
#ifndef SLUICE_TEXT_CORPUS_FOR_TEST_H
#define SLUICE_TEXT_CORPUS_FOR_TEST_H

#include "base/str.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Calls target with each file of the folder `name` under SLUICE_CORPUS; false when that is not set
 * (it is by `make check`). An empty or missing folder fails the test. */
static inline bool replay_corpus(const char *name, int (*target)(const uint8_t *, size_t)) {
    const char *corpus = getenv("SLUICE_CORPUS");
    char folder[2000], path[4000], block[4096];
    size_t files = 0;
    if (!corpus)
        return false;
    snprintf(folder, sizeof folder, "%s/%s", corpus, name);
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        struct buf text;
        size_t count;
        if (entry->d_name[0] == '.')
            continue;
        buf_init(&text);
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        while ((count = fread(block, 1, sizeof block, file)) > 0)
            buf_add(&text, (struct str){block, count});
        fclose(file);
        assert_false(text.has_failed);
        assert_int_equal(target((const uint8_t *)text.data, text.len), 0);
        buf_release(&text);
        files++;
    }
    closedir(dir);
    assert_true(files > 0);
    return true;
}

#endif
