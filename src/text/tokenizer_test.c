/* Whole tokenizers made of toys. The values are those of the Hugging Face tokenizers library (cases
 * 10, 16, 20, 23, 25 and 26 of the cases that users of such tools reported), or follow by hand from
 * the toy's few merges. */
#include "base/fault.h"
#include "text/corpus_for_test.h"
#include "text/tokenizer_for_test.h"
#include "text/tokenizer_fuzz.c"

#include <pthread.h>

static void whole_words_are_looked_up_when_merges_are_ignored(void **state) {
    (void)state;
    struct toy toy = {.vocab = "{\"a\":0,\"b\":1,\"c\":2,\"abc\":3}",
                      .merges = "[]",
                      .pre = TOY_BYTES,
                      .model = "\"ignore_merges\":true,"};
    struct tokenizer *tokenizer = toy_new(&toy);
    CHECK_IDS(tokenizer, "abc", 3);
    CHECK_IDS(tokenizer, "abca", 0, 1, 2, 0);
    tokenizer_free(tokenizer);
    toy.model = "\"ignore_merges\":false,";
    tokenizer = toy_new(&toy);
    CHECK_IDS(tokenizer, "abc", 0, 1, 2);
    CHECK_IDS(tokenizer, "abc", 0, 1, 2); /* and the same again, now that it is remembered */
    tokenizer_free(tokenizer);
}

static void merges_are_read_as_strings_and_as_pairs(void **state) {
    (void)state;
    static const char *const forms[] = {"[\"a b\",\"Ġ a\"]", "[[\"a\",\"b\"],[\"Ġ\",\"a\"]]"};
    for (size_t i = 0; i < 2; i++) {
        struct toy toy = {.pre = TOY_BYTES, .merges = forms[i]};
        struct tokenizer *tokenizer = toy_new(&toy);
        CHECK_IDS(tokenizer, "ab a", 5, 6);
        tokenizer_free(tokenizer);
    }
}

#define SPACE_VOCAB "{\"a\":0,\" \":1,\"b\":2,\" a\":3,\" ab\":4}"

static void pairs_may_hold_spaces_and_strings_may_not(void **state) {
    (void)state;
    struct toy toy = {.vocab = SPACE_VOCAB, .merges = "[[\" \",\"a\"],[\" a\",\"b\"]]"};
    struct tokenizer *tokenizer = toy_new(&toy);
    CHECK_IDS(tokenizer, " ab", 4);
    CHECK_IDS(tokenizer, "a b", 0, 1, 2);
    tokenizer_free(tokenizer);
    toy.merges = "[\"  a\",\" a b\"]";
    check_refused(&toy, "merge 0", "two parts");
}

static void merge_into_a_token_that_is_missing_is_refused(void **state) {
    (void)state;
    struct toy toy = {.merges = "[[\"a\",\"c\"]]"};
    check_refused(&toy, "\"ac\"", "not in the vocabulary");
    toy.merges = "[[\"a\",\"zz\"]]";
    check_refused(&toy, "\"zz\"", "not in the vocabulary");
    toy.merges = "[[\"a\"]]";
    check_refused(&toy, "merge 0", "neither");
}

static void lowest_rank_merges_first_then_leftmost(void **state) {
    (void)state;
    struct toy toy = {.vocab = "{\"a\":0,\"b\":1,\"c\":2,\"bc\":3,\"ab\":4,\"abc\":5}",
                      .merges = "[\"b c\",\"a b\",\"a bc\"]"};
    struct tokenizer *tokenizer = toy_new(&toy);
    CHECK_IDS(tokenizer, "aabc", 0, 5);
    tokenizer_free(tokenizer);
    toy = (struct toy){.vocab = "{\"a\":0,\"aa\":1,\"aaa\":2}", .merges = "[\"a a\",\"aa a\"]"};
    tokenizer = toy_new(&toy);
    CHECK_IDS(tokenizer, "aaaa", 1, 1);
    CHECK_IDS(tokenizer, "aaaaa", 1, 2);
    tokenizer_free(tokenizer);
}

#define TOKEN(id, content, flags) "{\"id\":" #id ",\"content\":\"" content "\"" flags "}"
#define RAW ",\"normalized\":false,\"special\":false"

static void added_tokens_that_are_not_special_stay_in_the_text(void **state) {
    (void)state;
    struct toy toy = {.pre = TOY_BYTES,
                      .decoder = TOY_BYTES,
                      .added = "[" TOKEN(7, "<t>", RAW) "," TOKEN(
                          8, "<e>", ",\"normalized\":false,\"special\":true") "]"};
    struct tokenizer *tokenizer = toy_new(&toy);
    CHECK_IDS(tokenizer, "a<t>b<e>", 0, 7, 1, 8);
    CHECK_TEXT(tokenizer, true, "a<t>b", 0, 7, 1, 8);
    CHECK_TEXT(tokenizer, false, "a<t>b<e>", 0, 7, 1, 8);
    assert_true(tokenizer_is_special(tokenizer, 8));
    assert_false(tokenizer_is_special(tokenizer, 7));
    assert_int_equal(tokenizer_vocab_size(tokenizer), 9);
    tokenizer_free(tokenizer);
}

static void special_tokens_can_be_plain_text(void **state) {
    (void)state;
    struct toy toy = {
        .vocab = "{\"a\":0,\"<\":1,\">\":2,\"e\":3}",
        .merges = "[]",
        .pre = TOY_BYTES,
        .added = "[" TOKEN(4, "<e>", ",\"normalized\":false,\"special\":true") "," TOKEN(5, "<a>",
                                                                                         RAW) "]"};
    struct tokenizer *tokenizer = toy_new(&toy);
    CHECK_IDS(tokenizer, "a<e><a>", 0, 4, 5);
    const uint32_t wanted[] = {0, 1, 3, 2, 5};
    const struct encode_options options = {.specials_as_text = true};
    check_ids_with(tokenizer, STR("a<e><a>"), &options, wanted, 5);
    tokenizer_free(tokenizer);
}

static void stripping_tokens_eat_the_spaces_beside_them(void **state) {
    (void)state;
    struct toy toy = {.pre = TOY_BYTES, .added = "[" TOKEN(7, "<u>", RAW ",\"rstrip\":true") "]"};
    struct tokenizer *tokenizer = toy_new(&toy);
    CHECK_IDS(tokenizer, "a <u> \n b", 0, 3, 7, 1);
    CHECK_IDS(tokenizer, "<u>a", 7, 0);
    tokenizer_free(tokenizer);
    toy.added = "[" TOKEN(7, "<u>", RAW ",\"lstrip\":true") "]";
    tokenizer = toy_new(&toy);
    CHECK_IDS(tokenizer, "a \n<u> b", 0, 7, 3, 1);
    tokenizer_free(tokenizer);
}

static void longest_added_token_wins_at_each_place(void **state) {
    (void)state;
    struct toy toy = {
        .pre = TOY_BYTES,
        .added = "[" TOKEN(7, "<a>", RAW) "," TOKEN(8, "<a><b>", RAW) "," TOKEN(9, "<b>", RAW) "]"};
    struct tokenizer *tokenizer = toy_new(&toy);
    CHECK_IDS(tokenizer, "<a><a><b>", 7, 8);
    CHECK_IDS(tokenizer, "<b><a>", 9, 7);
    tokenizer_free(tokenizer);
}

static void normalized_tokens_are_found_in_normalized_text(void **state) {
    (void)state;
    struct toy toy = {.pre = TOY_BYTES,
                      .normalizer = "{\"type\":\"Lowercase\"}",
                      .merges = "[]",
                      .added = "[" TOKEN(7, "abc", ",\"normalized\":true,\"special\":false") "]"};
    struct tokenizer *tokenizer = toy_new(&toy);
    CHECK_IDS(tokenizer, "ABC", 7);
    tokenizer_free(tokenizer);
    toy.added = "[" TOKEN(7, "abc", RAW) "]";
    tokenizer = toy_new(&toy);
    CHECK_IDS(tokenizer, "ABC", 0, 1, 2);
    CHECK_IDS(tokenizer, "abc", 7);
    tokenizer_free(tokenizer);
}

static void single_words_need_no_word_beside_them(void **state) {
    (void)state;
    struct toy toy = {.pre = TOY_BYTES,
                      .added = "[" TOKEN(7, "cc", RAW ",\"single_word\":true") "]"};
    struct tokenizer *tokenizer = toy_new(&toy);
    CHECK_IDS(tokenizer, "cc", 7);
    CHECK_IDS(tokenizer, "a cc\nb", 0, 3, 7, 4, 1);
    CHECK_IDS(tokenizer, "acc", 0, 2, 2);
    CHECK_IDS(tokenizer, "ccb", 2, 2, 1);
    tokenizer_free(tokenizer);
}

static void template_puts_its_tokens_around_the_text(void **state) {
    (void)state;
    struct toy toy = {
        .pre = TOY_BYTES,
        .added = "[" TOKEN(7, "<s>", ",\"special\":true") "]",
        .post = "{\"type\":\"Sequence\",\"processors\":[" TOY_BYTES
                ",{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\","
                "\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"SpecialToken\":"
                "{\"id\":\"end\",\"type_id\":0}}],\"pair\":[],\"special_tokens\":{\"<s>\":{\"id\":"
                "\"<s>\",\"ids\":[7],\"tokens\":[\"<s>\"]},\"end\":{\"id\":\"end\",\"ids\":[2,4],"
                "\"tokens\":[\"c\",\"Ċ\"]}}}]}"};
    struct tokenizer *tokenizer = toy_new(&toy);
    CHECK_SPECIAL_IDS(tokenizer, "ab", 7, 5, 2, 4);
    CHECK_SPECIAL_IDS(tokenizer, "", 7, 2, 4);
    CHECK_SPECIAL_IDS(tokenizer, "<s>ab", 7, 7, 5, 2, 4); /* as written, as in the library */
    CHECK_IDS(tokenizer, "ab", 5);
    tokenizer_free(tokenizer);
    toy.post = "{\"type\":\"RobertaProcessing\",\"sep\":[\"c\",2],\"cls\":[\"<s>\",7]}";
    tokenizer = toy_new(&toy);
    CHECK_SPECIAL_IDS(tokenizer, "ab", 7, 5, 2);
    tokenizer_free(tokenizer);
}

#define BYTES_VOCAB                                                                                \
    "{\"<unk>\":0,\"▁\":1,\"a\":2,\"b\":3,\"▁a\":4,\"<0xF0>\":5,\"<0x9F>\":6,\"<0x98>\":7,"    \
    "\"<0x80>\":8,\"<0xC3>\":9,\"<0xA9>\":10,\"<0x41>\":11,\"<0xFF>\":12,\"<0x42>\":13,"           \
    "\"<0x00>\":14}"
#define SPACE_TO_MARK "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"▁\"}"
#define MARK_TO_SPACE "{\"type\":\"Replace\",\"pattern\":{\"String\":\"▁\"},\"content\":\" \"}"

static const struct toy sentencepiece = {
    .vocab = BYTES_VOCAB,
    .merges = "[\"▁ a\"]",
    .normalizer = "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
                  "\"▁\"}," SPACE_TO_MARK "]}",
    .decoder = "{\"type\":\"Sequence\",\"decoders\":[" MARK_TO_SPACE
               ",{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":"
               "\" \",\"start\":1,\"stop\":0}]}",
    .model = "\"unk_token\":\"<unk>\",\"fuse_unk\":true,\"byte_fallback\":true,"};

static void unknown_characters_fall_back_to_bytes(void **state) {
    (void)state;
    struct tokenizer *tokenizer = toy_new(&sentencepiece);
    CHECK_IDS(tokenizer, "a ab", 4, 4, 3);
    CHECK_IDS(tokenizer, "😀", 1, 5, 6, 7, 8);
    CHECK_IDS(tokenizer, "\0", 1, 14);
    CHECK_IDS(tokenizer, "ñõb", 1, 0, 3); /* C3 B1, C3 B5: not all bytes are there, unknowns fuse */
    tokenizer_free(tokenizer);
}

static void unknown_characters_vanish_or_stay_apart(void **state) {
    (void)state;
    struct toy toy = sentencepiece;
    toy.model = "\"unk_token\":\"<unk>\",\"fuse_unk\":false,\"byte_fallback\":false,";
    struct tokenizer *tokenizer = toy_new(&toy);
    CHECK_IDS(tokenizer, "ñõb", 1, 0, 0, 3);
    tokenizer_free(tokenizer);
    toy.model = "";
    tokenizer = toy_new(&toy);
    CHECK_IDS(tokenizer, "ñõb", 1, 3);
    tokenizer_free(tokenizer);
    toy.model = "\"unk_token\":\"<none>\",";
    tokenizer = toy_new(&toy);
    struct ids ids = {0};
    struct error err = {0};
    const struct encode_options options = {0};
    CHECK_IDS(tokenizer, "ab", 4, 3);
    assert_int_equal(tokenizer_encode(tokenizer, STR("ñ"), &options, &ids, &err), SL_ERR_ROW);
    assert_non_null(strstr(err.text, "unk_token"));
    assert_int_equal(ids.count, 0);
    ids_release(&ids);
    tokenizer_free(tokenizer);
}

static void byte_tokens_decode_as_one_run(void **state) {
    (void)state;
    struct tokenizer *tokenizer = toy_new(&sentencepiece);
    CHECK_TEXT(tokenizer, false, "😀", 5, 6, 7, 8);
    CHECK_TEXT(tokenizer, false, "a é", 4, 1, 9, 10);
    CHECK_TEXT(tokenizer, false, "���", 9, 10, 9);   /* C3 A9 C3 */
    CHECK_TEXT(tokenizer, false, "���", 11, 12, 13); /* 41 FF 42 */
    CHECK_TEXT(tokenizer, false, "A", 11, 99);       /* an id past the end gives nothing */
    tokenizer_free(tokenizer);
}

static void byte_level_decoding_replaces_maximal_parts(void **state) {
    (void)state;
    struct toy toy = {.vocab = "{\"ð\":0,\"Ł\":1,\"ĺ\":2,\"Ģ\":3,\"a\":4,\"x日\":5}",
                      .merges = "[]",
                      .pre = TOY_BYTES,
                      .decoder = TOY_BYTES};
    struct tokenizer *tokenizer = toy_new(&toy);
    CHECK_TEXT(tokenizer, false, "😀", 0, 1, 2, 3);
    CHECK_TEXT(tokenizer, false, "�", 0, 1, 2);
    CHECK_TEXT(tokenizer, false, "�a�", 0, 1, 4, 3);
    CHECK_TEXT(tokenizer, false, "x日", 5); /* no spelling: the string itself */
    struct buf bytes;
    buf_init(&bytes);
    tokenizer_token_bytes(tokenizer, 1, &bytes);
    assert_int_equal(bytes.len, 1);
    assert_int_equal((unsigned char)bytes.data[0], 0x9F);
    buf_release(&bytes);
    tokenizer_free(tokenizer);
}

static void nul_and_invalid_utf8_are_text(void **state) {
    (void)state;
    struct toy toy = {.vocab = "{\"a\":0,\"b\":1,\"Ā\":2,\"ï\":3,\"¿\":4,\"½\":5}",
                      .merges = "[]",
                      .pre = TOY_BYTES};
    struct tokenizer *tokenizer = toy_new(&toy);
    CHECK_IDS(tokenizer, "a\0b", 0, 2, 1);
    CHECK_IDS(tokenizer,
              "a\xff"
              "b",
              0, 3, 4, 5, 1); /* U+FFFD */
    CHECK_IDS(tokenizer, "\xe2\x96", 3, 4, 5);
    tokenizer_free(tokenizer);
}

static void strings_are_joined_by_spaces_without_a_decoder(void **state) {
    (void)state;
    struct tokenizer *tokenizer = toy_new(&(struct toy){0});
    CHECK_TEXT(tokenizer, false, "a b ab", 0, 1, 5);
    tokenizer_free(tokenizer);
}

static void tokens_are_found_by_their_strings(void **state) {
    (void)state;
    struct toy toy = {.added = "[" TOKEN(7, "<e>", RAW) "]"};
    struct tokenizer *tokenizer = toy_new(&toy);
    uint32_t id = 0;
    assert_true(tokenizer_find(tokenizer, STR("ab"), &id));
    assert_int_equal(id, 5);
    assert_true(tokenizer_find(tokenizer, STR("<e>"), &id));
    assert_int_equal(id, 7);
    assert_false(tokenizer_find(tokenizer, STR("nothing"), &id));
    assert_true(str_is(tokenizer_token(tokenizer, 6), "Ġa"));
    assert_int_equal(tokenizer_token(tokenizer, 8).len, 0);
    tokenizer_free(tokenizer);
}

static void unsupported_components_are_refused_by_name(void **state) {
    (void)state;
    check_refused(&(struct toy){.normalizer = "{\"type\":\"Precompiled\"}"}, "normalizer",
                  "Precompiled");
    check_refused(&(struct toy){.pre = "{\"type\":\"UnicodeScripts\"}"}, "pre_tokenizer",
                  "UnicodeScripts");
    check_refused(&(struct toy){.post = "{\"type\":\"Other\"}"}, "post_processor", "Other");
    check_refused(&(struct toy){.decoder = "{\"type\":\"CTC\"}"}, "decoder", "CTC");
    check_refused(&(struct toy){.model = "\"dropout\":0.1,"}, "model", "dropout");
    check_refused(&(struct toy){.model = "\"end_of_word_suffix\":\"</w>\","}, "model",
                  "end_of_word_suffix");
    check_refused(&(struct toy){.model = "\"type\":\"Unigram\","}, "model", "Unigram");
    check_refused(&(struct toy){.pre = "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?<x>a)\"},"
                                       "\"behavior\":\"Isolated\"}"},
                  "named group", "(?<x>a)");
    check_refused(&(struct toy){.pre = "{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},"
                                       "\"behavior\":\"Other\"}"},
                  "behavior", "Other");
    check_refused(&(struct toy){.vocab = "{\"a\":99999999}", .merges = "[]"}, "99999999", "\"a\"");
    check_refused(&(struct toy){.vocab = "{\"a\":-1}", .merges = "[]"}, "\"a\"", "integer");
    check_refused(&(struct toy){.pre = "[]"}, "pre_tokenizer", "type");
}

static void members_left_out_have_their_defaults(void **state) {
    (void)state;
    static const char json[] = "{\"model\":{\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"Ġ\":3},"
                               "\"merges\":[\"#version: 0.2\",\"a b\"]},"
                               "\"pre_tokenizer\":{\"type\":\"ByteLevel\"}}";
    struct tokenizer *tokenizer = NULL;
    struct error err = {0};
    assert_int_equal(tokenizer_from_json(STR(json), "old.json", &tokenizer, &err), SL_OK);
    CHECK_IDS(tokenizer, "ab", 3, 2); /* ByteLevel puts a space first unless told otherwise */
    tokenizer_free(tokenizer);
}

static void texts_that_are_no_tokenizer_are_refused(void **state) {
    (void)state;
    static const char *const texts[] = {"",
                                        "[]",
                                        "{}",
                                        "{\"model\":{}}",
                                        "{\"model\":null}",
                                        "{\"model\":{\"vocab\":[],\"merges\":[]}}",
                                        "{\"a\":"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct tokenizer *tokenizer = NULL;
        struct error err = {0};
        assert_int_equal(tokenizer_from_json(str_from(texts[i]), "bad.json", &tokenizer, &err),
                         SL_ERR_ENV);
        assert_null(tokenizer);
        assert_non_null(strstr(err.text, "bad.json: "));
    }
}

/* A toy with every kind of part. */
static const struct toy everything = {
    .added = "[" TOKEN(7, "<s>", ",\"special\":true") "," TOKEN(
        8, "Tok", ",\"normalized\":true,\"special\":false") "]",
    .normalizer = "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":"
                  "\"Lowercase\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"x+\"},"
                  "\"content\":\"c\"}]}",
    .pre = "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"}," TOY_BYTES
           ",{\"type\":\"Split\",\"pattern\":{\"String\":\"c\"},\"behavior\":\"Isolated\"}]}",
    .post = "{\"type\":\"RobertaProcessing\",\"sep\":[\"c\",2],\"cls\":[\"<s>\",7]}",
    .decoder = "{\"type\":\"Sequence\",\"decoders\":[" TOY_BYTES
               ",{\"type\":\"Replace\",\"pattern\":{\"String\":\"b\"},\"content\":\"B\"}]}",
};

/* Loads, encodes and decodes; the status of the first step that fails. */
static enum status run_everything(void) {
    struct tokenizer *tokenizer = NULL;
    struct ids ids = {0};
    struct error err = {0};
    struct buf text;
    const struct encode_options options = {.adds_special = true};
    buf_init(&text);
    enum status status = toy_load(&everything, &tokenizer, &err);
    if (status == SL_OK)
        status = tokenizer_encode(tokenizer, STR("aXe\u0301 tok<s>a\xff"), &options, &ids, &err);
    if (status == SL_OK)
        status = tokenizer_decode(tokenizer, ids.items, ids.count, false, &text, &err);
    if (status == SL_OK)
        /* The vocabulary has no bytes of é and U+FFFD. */
        assert_string_equal(text.data, "<s>ac tok<s>ac");
    assert_true(status == SL_OK || err.text[0] != '\0');
    buf_release(&text);
    ids_release(&ids);
    tokenizer_free(tokenizer);
    return status;
}

static void every_failed_allocation_is_an_error(void **state) {
    (void)state;
    uint64_t nth = 0;
    enum status status = SL_ERR_ENV;
    while (status != SL_OK) {
        fault_arm(SL_FAULT_ALLOC, ++nth, true);
        status = run_everything();
        must(nth < 10000);
    }
    fault_arm(SL_FAULT_ALLOC, 0, false);
    assert_true(nth > 20);
}

static void *encode_often(void *tokenizer) {
    for (int i = 0; i < 200; i++) {
        CHECK_IDS(tokenizer, "ab a", 5, 6);
        CHECK_IDS(tokenizer, "a c ab", 0, 3, 2, 3, 5);
    }
    return NULL;
}

static void threads_share_a_tokenizer(void **state) {
    (void)state;
    struct tokenizer *tokenizer = toy_new(&(struct toy){.pre = TOY_BYTES});
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, encode_often, tokenizer), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    tokenizer_free(tokenizer);
}

static void saved_corpus_of_tokenizers_is_replayed(void **state) {
    (void)state;
    if (!replay_corpus("tokenizer", LLVMFuzzerTestOneInput))
        skip();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_words_are_looked_up_when_merges_are_ignored),
        cmocka_unit_test(merges_are_read_as_strings_and_as_pairs),
        cmocka_unit_test(pairs_may_hold_spaces_and_strings_may_not),
        cmocka_unit_test(merge_into_a_token_that_is_missing_is_refused),
        cmocka_unit_test(lowest_rank_merges_first_then_leftmost),
        cmocka_unit_test(added_tokens_that_are_not_special_stay_in_the_text),
        cmocka_unit_test(special_tokens_can_be_plain_text),
        cmocka_unit_test(stripping_tokens_eat_the_spaces_beside_them),
        cmocka_unit_test(longest_added_token_wins_at_each_place),
        cmocka_unit_test(normalized_tokens_are_found_in_normalized_text),
        cmocka_unit_test(single_words_need_no_word_beside_them),
        cmocka_unit_test(template_puts_its_tokens_around_the_text),
        cmocka_unit_test(unknown_characters_fall_back_to_bytes),
        cmocka_unit_test(unknown_characters_vanish_or_stay_apart),
        cmocka_unit_test(byte_tokens_decode_as_one_run),
        cmocka_unit_test(byte_level_decoding_replaces_maximal_parts),
        cmocka_unit_test(nul_and_invalid_utf8_are_text),
        cmocka_unit_test(strings_are_joined_by_spaces_without_a_decoder),
        cmocka_unit_test(tokens_are_found_by_their_strings),
        cmocka_unit_test(unsupported_components_are_refused_by_name),
        cmocka_unit_test(members_left_out_have_their_defaults),
        cmocka_unit_test(texts_that_are_no_tokenizer_are_refused),
        cmocka_unit_test(every_failed_allocation_is_an_error),
        cmocka_unit_test(threads_share_a_tokenizer),
        cmocka_unit_test(saved_corpus_of_tokenizers_is_replayed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
