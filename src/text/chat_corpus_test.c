/* Replays the saved inputs of the fuzz target `chat` through it. */
#include "text/chat_fuzz.c"
#include "text/corpus_for_test.h"

static void saved_corpus_of_chats_is_replayed(void **state) {
    (void)state;
    if (!replay_corpus("chat", LLVMFuzzerTestOneInput))
        skip();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(saved_corpus_of_chats_is_replayed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
