/* Replays the saved models of the fuzz target through it: tiny ones in FP8, MLX, MXFP4 and GGUF
 * formats, whole and damaged. SLUICE_CORPUS names the folder test/corpus. */
#include "model/model_fuzz.c" /* the target, as it is */

#include "text/corpus_for_test.h"

static void saved_models_are_read_without_harm(void **state) {
    (void)state;
    if (!replay_corpus("model", LLVMFuzzerTestOneInput)) {
        print_message("SLUICE_CORPUS (the folder test/corpus) is not set\n");
        skip();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saved_models_are_read_without_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
