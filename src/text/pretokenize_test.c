/* Cutting text into words. The values of the five behaviours are those of the library's
 * documentation of Split ("the-final--countdown"); the others follow by hand from its rules. */
#include "text/pretokenize.h"

#include "text/fixtures_for_test.h"

struct words {
    struct buf text; /* with | behind each word */
};

static enum status add_word(void *context, struct str word, struct error *err) {
    struct words *words = context;
    (void)err;
    assert_true(word.len > 0);
    buf_add(&words->text, word);
    buf_add_char(&words->text, '|');
    return SL_OK;
}

static void load(struct pretokenizer *pretokenizer, const char *text, enum status wanted,
                 const char *word) {
    struct arena arena;
    struct error err = {0};
    const struct json *json = NULL;
    struct json_options options = {0};
    arena_init(&arena);
    pretokenizer_init(pretokenizer);
    assert_int_equal(json_parse(&arena, str_from(text), &options, &json, &err), SL_OK);
    enum status status = pretokenizer_load(pretokenizer, json, &err);
    if (status != wanted || (word && !strstr(err.text, word)))
        fail_msg("%s: %d, \"%s\"", text, (int)status, err.text);
    arena_release(&arena);
}

static void check_at(const char *json, bool is_first, const char *text, const char *wanted) {
    struct pretokenizer pretokenizer;
    struct pretokenizer_scratch scratch;
    struct words words;
    struct word_sink sink = {add_word, &words};
    struct error err = {0};
    load(&pretokenizer, json, SL_OK, NULL);
    buf_init(&words.text);
    pretokenizer_scratch_init(&scratch, &pretokenizer);
    assert_int_equal(
        pretokenizer_run(&pretokenizer, &scratch, str_from(text), is_first, &sink, &err), SL_OK);
    assert_string_equal(words.text.data ? words.text.data : "", wanted);
    buf_release(&words.text);
    pretokenizer_scratch_release(&scratch);
    pretokenizer_release(&pretokenizer);
}

static void check(const char *json, const char *text, const char *wanted) {
    check_at(json, true, text, wanted);
}

static void refused(const char *json, const char *word) {
    struct pretokenizer pretokenizer;
    load(&pretokenizer, json, SL_ERR_ENV, word);
    pretokenizer_release(&pretokenizer);
}

#define SPLIT(pattern, behavior, invert)                                                           \
    "{\"type\":\"Split\",\"pattern\":{" pattern "},\"behavior\":\"" behavior                       \
    "\",\"invert\":" invert "}"
#define DASH "\"String\":\"-\""

static void split_has_five_behaviors(void **state) {
    (void)state;
    const char *text = "the-final--countdown";
    check(SPLIT(DASH, "Removed", "false"), text, "the|final|countdown|");
    check(SPLIT(DASH, "Isolated", "false"), text, "the|-|final|-|-|countdown|");
    check(SPLIT(DASH, "Contiguous", "false"), text, "the|-|final|--|countdown|");
    check(SPLIT(DASH, "MergedWithPrevious", "false"), text, "the-|final-|-|countdown|");
    check(SPLIT(DASH, "MergedWithNext", "false"), text, "the|-final|-|-countdown|");
}

static void split_works_at_the_ends_of_a_text(void **state) {
    (void)state;
    check(SPLIT(DASH, "MergedWithPrevious", "false"), "-a-", "-|a-|");
    check(SPLIT(DASH, "MergedWithNext", "false"), "-a-", "-a|-|");
    check(SPLIT(DASH, "Contiguous", "false"), "--", "--|");
    check(SPLIT(DASH, "Removed", "false"), "--", "");
    check(SPLIT(DASH, "Isolated", "false"), "", "");
}

static void inverted_split_keeps_what_matches(void **state) {
    (void)state;
    check(SPLIT("\"Regex\":\"[a-z]+\"", "Removed", "true"), "ab 12 cd", "ab|cd|");
    check(SPLIT("\"Regex\":\"\\\\d+\"", "Isolated", "true"), "ab12cd", "ab|12|cd|");
    check(SPLIT("\"Regex\":\"\\\\d+\"", "MergedWithPrevious", "true"), "12ab3", "12ab|3|");
}

static void empty_pattern_cuts_between_characters(void **state) {
    (void)state;
    check(SPLIT("\"String\":\"\"", "Isolated", "false"), "aé世", "a|é|世|");
}

static void digits_stand_alone_or_together(void **state) {
    (void)state;
    check("{\"type\":\"Digits\",\"individual_digits\":true}", "a12²b", "a|1|2|²|b|");
    check("{\"type\":\"Digits\",\"individual_digits\":false}", "a12²b٣", "a|12²|b|٣|");
}

static void punctuation_is_isolated_unless_told(void **state) {
    (void)state;
    check("{\"type\":\"Punctuation\"}", "a!!，b€", "a|!|!|，|b€|");
    check("{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"}", "a!!，b", "a|!!，|b|");
}

static void white_space_falls_away(void **state) {
    (void)state;
    check("{\"type\":\"Whitespace\"}", "Hey  man!? a_b \u00b2", "Hey|man|!?|a_b|\u00b2|");
    check("{\"type\":\"WhitespaceSplit\"}", " Hey  man!?\n", "Hey|man!?|");
    check("{\"type\":\"BertPreTokenizer\"}", "Hey man!?", "Hey|man|!|?|");
    check("{\"type\":\"CharDelimiterSplit\",\"delimiter\":\"x\"}", "axxbx", "a|b|");
}

#define METASPACE(scheme, split)                                                                   \
    "{\"type\":\"Metaspace\",\"replacement\":\"▁\",\"prepend_scheme\":\"" scheme                   \
    "\",\"split\":" split "}"

static void metaspace_has_three_schemes(void **state) {
    (void)state;
    check(METASPACE("always", "true"), "Hey my  friend", "▁Hey|▁my|▁|▁friend|");
    check(METASPACE("always", "false"), "Hey my", "▁Hey▁my|");
    check(METASPACE("never", "true"), "Hey my", "Hey|▁my|");
    check(METASPACE("first", "true"), "Hey my", "▁Hey|▁my|");
    check(METASPACE("always", "true"), " Hey", "▁Hey|"); /* one is there already */
    check(METASPACE("always", "false"), "▁Hey", "▁Hey|");
    check_at(METASPACE("first", "true"), false, "Hey my", "Hey|▁my|");
    check_at(METASPACE("always", "true"), false, "Hey my", "▁Hey|▁my|");
    check("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"add_prefix_space\":false}", "a b",
          "a|_b|");
}

static void byte_level_has_the_gpt2_regex(void **state) {
    (void)state;
    check("{\"type\":\"ByteLevel\",\"add_prefix_space\":false}", "Hello  world's 12 x\n",
          "Hello| | world|'s| 12| x|\n|");
    check("{\"type\":\"ByteLevel\",\"add_prefix_space\":true}", "Hello my", " Hello| my|");
    check("{\"type\":\"ByteLevel\",\"add_prefix_space\":true}", " Hello", " Hello|");
    check("{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}", "a b", "a b|");
}

/* Values: the tokenizers library 0.22.2, the patterns of Llama 3 and of Qwen 2. */
static void numbers_newlines_and_spaces_are_cut_as_the_pattern_says_of_case_17(void **state) {
    (void)state;
#define PATTERN(numbers)                                                                           \
    SPLIT("\"Regex\":\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|"      \
          "\\\\p{N}" numbers "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|"      \
          "\\\\s+(?!\\\\S)|\\\\s+\"",                                                              \
          "Isolated", "false")
    static const char *const patterns[] = {PATTERN("{1,3}"), PATTERN("")};
    check(patterns[0], "12345678", "123|456|78|");
    check(patterns[1], "12345678", "1|2|3|4|5|6|7|8|");
    check(patterns[0], "١٢٣٤", "١٢٣|٤|");
    check(patterns[1], "١٢٣٤", "١|٢|٣|٤|");
    for (size_t i = 0; i < 2; i++) {
        check(patterns[i], "a\n\n\n b", "a|\n\n\n| b|");
        check(patterns[i], "   \n  x", "   \n| | x|");
        check(patterns[i], "a  \n\n  b   ", "a|  \n\n| | b|   |");
        check(patterns[i], "x!\n\ny", "x|!\n\n|y|");
        check(patterns[i], "IT'S", "IT|'S|");
        check(patterns[i], "don’t", "don|’t|");
    }
#undef PATTERN
}

static void sequence_cuts_piece_by_piece(void **state) {
    (void)state;
    check("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\",\"individual_digits\":"
          "true},{\"type\":\"ByteLevel\",\"add_prefix_space\":false}]}",
          "a 12 b", "a| |1|2| b|");
    check("{\"type\":\"Sequence\",\"pretokenizers\":[]}", "a 12 b", "a 12 b|");
    check_at("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"WhitespaceSplit\"}," METASPACE(
                 "first", "true") "]}",
             true, "a b", "▁a|b|");
}

static void steps_behind_byte_level_see_spelled_bytes(void **state) {
    (void)state;
    /* 木 is E6 9C A8, ² is C2 B2: the byte B2 is spelled ², a digit. */
    check("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\",\"add_prefix_space\":"
          "false,\"use_regex\":false},{\"type\":\"Digits\",\"individual_digits\":true}]}",
          "木²1", "木\xc2|\xb2|1|");
    check("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\",\"add_prefix_space\":"
          "false,\"use_regex\":false}," SPLIT("\"String\":\"Ġ\"", "MergedWithNext", "false") "]}",
          "a b", "a| b|");
}

static void null_leaves_texts_whole(void **state) {
    (void)state;
    check("null", "a b", "a b|");
}

static void wrong_members_are_refused(void **state) {
    (void)state;
    refused("{\"type\":\"Split\",\"behavior\":\"Isolated\"}", "pattern");
    refused("{\"type\":\"Digits\",\"individual_digits\":1}", "individual_digits");
    refused("{\"type\":\"Metaspace\",\"replacement\":\"ab\"}", "replacement");
    refused(METASPACE("second", "true"), "second");
    refused("{\"type\":\"FixedLength\",\"length\":3}", "FixedLength");
    refused("{\"type\":\"Sequence\"}", "pretokenizers");
    refused("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},"
            "{\"type\":\"ByteLevel\"}]}",
            "second ByteLevel");
    refused("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Sequence\",\"pretokenizers\":"
            "[{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Sequence\",\"pretokenizers\":"
            "[{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Sequence\",\"pretokenizers\":"
            "[{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Sequence\",\"pretokenizers\":"
            "[{\"type\":\"Sequence\",\"pretokenizers\":[]}]}]}]}]}]}]}]}]}",
            "nested");
}

static void too_many_steps_are_refused(void **state) {
    (void)state;
    struct buf json;
    buf_init(&json);
    buf_printf(&json, "{\"type\":\"Sequence\",\"pretokenizers\":[");
    for (unsigned i = 0; i <= SL_COMPONENT_STEPS_MAX; i++)
        buf_printf(&json, "%s{\"type\":\"Digits\"}", i ? "," : "");
    buf_printf(&json, "]}");
    refused(json.data, "steps");
    buf_release(&json);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split_has_five_behaviors),
        cmocka_unit_test(split_works_at_the_ends_of_a_text),
        cmocka_unit_test(inverted_split_keeps_what_matches),
        cmocka_unit_test(empty_pattern_cuts_between_characters),
        cmocka_unit_test(digits_stand_alone_or_together),
        cmocka_unit_test(punctuation_is_isolated_unless_told),
        cmocka_unit_test(white_space_falls_away),
        cmocka_unit_test(metaspace_has_three_schemes),
        cmocka_unit_test(byte_level_has_the_gpt2_regex),
        cmocka_unit_test(numbers_newlines_and_spaces_are_cut_as_the_pattern_says_of_case_17),
        cmocka_unit_test(sequence_cuts_piece_by_piece),
        cmocka_unit_test(steps_behind_byte_level_see_spelled_bytes),
        cmocka_unit_test(null_leaves_texts_whole),
        cmocka_unit_test(wrong_members_are_refused),
        cmocka_unit_test(too_many_steps_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
