/* Replays the saved inputs of the fuzz target through it. SLUICE_CORPUS names the folder
 * test/corpus. */
#include "text/template_fuzz.c"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void saved_inputs_of_the_fuzz_target_pass(void **state) {
    const char *corpus = getenv("SLUICE_CORPUS");
    char path[1000];
    size_t files = 0;
    (void)state;
    if (corpus == NULL) {
        print_message("SLUICE_CORPUS (the folder test/corpus) is not set\n");
        skip();
    }
    snprintf(path, sizeof path, "%s/template", corpus);
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        static uint8_t text[1 << 16];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/template/%s", corpus, entry->d_name);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        size_t len = fread(text, 1, sizeof text, file);
        fclose(file);
        uint8_t *exact = malloc(len + 1); /* of its exact size but for one, so that ASan sees */
        assert_non_null(exact);
        memcpy(exact + 1, text, len);
        assert_int_equal(LLVMFuzzerTestOneInput(exact + 1, len), 0);
        free(exact);
        files++;
    }
    closedir(folder);
    assert_true(files > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saved_inputs_of_the_fuzz_target_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
