/* Stop texts in what tokens say one by one. The tokens are a toy's; where a text begins and ends is
 * worked out by hand. */
#include "text/stop.h"

#include "text/tokenizer_for_test.h"

#define CHARACTERS                                                                                 \
    "{\"A\":0,\"Ġ\":1,\"E\":2,\"N\":3,\"D\":4,\"END\":5,\"NDB\":6,\"ð\":7,\"Ł\":8,\"ĺ\":9,"    \
    "\"Ģ\":10,\"ĠE\":11,\"B\":12}"

static struct tokenizer *make_tokenizer(void) {
    return toy_new(&(struct toy){
        .vocab = CHARACTERS,
        .merges = "[]",
        .pre = TOY_BYTES,
        .decoder = TOY_BYTES,
        .added = "[{\"id\":13,\"content\":\"<e>\",\"special\":true},{\"id\":14,\"content\":\"<t>\","
                 "\"special\":false}]"});
}

/* Pushes until a stop text is there; its place, or SIZE_MAX. *pushed: how many tokens that took. */
static size_t run(const struct str *texts, size_t text_count, const uint32_t *ids, size_t count,
                  size_t *pushed) {
    struct tokenizer *tokenizer = make_tokenizer();
    struct stop stop;
    size_t i = 0;
    stop_init(&stop, tokenizer, texts, text_count, true);
    while (i < count && !stop_push(&stop, ids[i++]))
        assert_true(stop.cut == SIZE_MAX);
    size_t cut = stop.cut;
    *pushed = i;
    assert_true(cut == SIZE_MAX || cut <= stop.bytes.len);
    stop_release(&stop);
    tokenizer_free(tokenizer);
    return cut;
}

static void stop_text_ends_a_row_inside_a_token(void **state) {
    (void)state;
    const struct str texts[] = {STR("END")};
    const uint32_t ids[] = {0, 11, 6, 0}; /* "A", " E", "NDB" */
    size_t pushed;
    assert_int_equal(run(texts, 1, ids, 4, &pushed), 2);
    assert_int_equal(pushed, 3);
}

static void stop_text_is_found_over_many_tokens(void **state) {
    (void)state;
    const struct str texts[] = {STR("A END")};
    const uint32_t ids[] = {0, 0, 1, 2, 3, 4, 12};
    size_t pushed;
    assert_int_equal(run(texts, 1, ids, 7, &pushed), 1);
    assert_int_equal(pushed, 6);
}

static void earliest_beginning_wins(void **state) {
    (void)state;
    const struct str texts[] = {STR("D"), STR("NDB"), STR("END")};
    const uint32_t ids[] = {2, 6}; /* "E", "NDB": all three complete at once */
    size_t pushed;
    assert_int_equal(run(texts, 3, ids, 2, &pushed), 0);
    assert_int_equal(pushed, 2);
}

static void stop_text_may_end_inside_a_character(void **state) {
    (void)state;
    const struct str texts[] = {STR("\xf0\x9f\x98\x80")};
    const uint32_t ids[] = {0, 7, 8, 9, 10};
    size_t pushed;
    assert_int_equal(run(texts, 1, ids, 5, &pushed), 1);
    assert_int_equal(pushed, 5);
}

static void without_stop_texts_nothing_stops(void **state) {
    (void)state;
    const uint32_t ids[] = {0, 5, 13, 99, 12};
    const struct str empty[] = {STR("")};
    size_t pushed;
    assert_true(run(NULL, 0, ids, 5, &pushed) == SIZE_MAX);
    assert_int_equal(pushed, 5);
    assert_true(run(empty, 1, ids, 5, &pushed) == SIZE_MAX);
}

static void special_tokens_are_no_text_when_skipped(void **state) {
    (void)state;
    const struct str texts[] = {STR("<e>"), STR("<t>"), STR("AB")};
    const uint32_t special[] = {0, 13, 12}, added[] = {0, 14};
    size_t pushed;
    assert_int_equal(run(texts, 3, special, 3, &pushed), 0); /* A and B stand side by side */
    assert_int_equal(pushed, 3);
    assert_int_equal(run(texts, 3, added, 2, &pushed), 1);
}

static void leading_space_falls_away_once(void **state) {
    (void)state;
    struct tokenizer *tokenizer = toy_new(&(struct toy){
        .vocab = "{\"▁a\":0,\"<0xC3>\":1,\"<0xA9>\":2,\"▁\":3,\"<s>\":4}",
        .merges = "[]",
        .added = "[{\"id\":4,\"content\":\"<s>\",\"special\":true}]",
        .decoder = "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":"
                   "{\"String\":\"▁\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},"
                   "{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,"
                   "\"stop\":0}]}"});
    const uint32_t ids[] = {4, 0, 1, 2, 3, 0};
    struct stop stop;
    stop_init(&stop, tokenizer, NULL, 0, true);
    for (size_t i = 0; i < 6; i++)
        stop_push(&stop, ids[i]);
    assert_string_equal(stop.bytes.data, "aé  a");
    stop_release(&stop);
    CHECK_TEXT(tokenizer, true, "aé  a", 4, 0, 1, 2, 3, 0);
    tokenizer_free(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stop_text_ends_a_row_inside_a_token),
        cmocka_unit_test(stop_text_is_found_over_many_tokens),
        cmocka_unit_test(earliest_beginning_wins),
        cmocka_unit_test(stop_text_may_end_inside_a_character),
        cmocka_unit_test(without_stop_texts_nothing_stops),
        cmocka_unit_test(special_tokens_are_no_text_when_skipped),
        cmocka_unit_test(leading_space_falls_away_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
