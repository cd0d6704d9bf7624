/* Replays the saved inputs of the fuzz target through it. SLUICE_CORPUS names the folder
 * test/corpus. The target itself decides what is right: names say only what an input is about. */
#include "model/config_fuzz.c" /* the target, as it is */

#include "text/corpus_for_test.h"

static void saved_configs_are_read_without_harm(void **state) {
    (void)state;
    if (!replay_corpus("config", LLVMFuzzerTestOneInput)) {
        print_message("SLUICE_CORPUS (the folder test/corpus) is not set\n");
        skip();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saved_configs_are_read_without_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
