/* Replays the saved inputs of the fuzz target `encode` through it. */
#include "text/corpus_for_test.h"
#include "text/encode_fuzz.c"

static void saved_corpus_of_texts_is_replayed(void **state) {
    (void)state;
    if (!replay_corpus("encode", LLVMFuzzerTestOneInput))
        skip();
    for (unsigned kind = 0; kind < FUZZ_KINDS; kind++)
        tokenizer_free(kinds[kind]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(saved_corpus_of_texts_is_replayed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
