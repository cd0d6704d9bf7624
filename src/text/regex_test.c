/* Patterns and texts with matches worked out by hand, in the order an Oniguruma engine finds them.
 */
#include "text/corpus_for_test.h"
#include "text/regex_fuzz.c"

/* All matches of the pattern in the text, with `|` between, must be `wanted`. */
static void check(const char *pattern, struct str text, const char *wanted) {
    struct regex *regex = NULL;
    struct regex_scan scan;
    struct error err = {0};
    struct buf found;
    buf_init(&found);
    if (regex_new(str_from(pattern), &regex, &err) != SL_OK)
        fail_msg("%s", err.text);
    regex_scan_init(&scan, regex);
    for (int round = 0; round < 2; round++) { /* the memory of a scan is used again */
        bool is_found = true;
        size_t from, to;
        buf_clear(&found);
        buf_add_char(&found, '|');
        assert_int_equal(regex_scan_begin(&scan, text, &err), SL_OK);
        for (;;) {
            assert_int_equal(regex_scan_next(&scan, &is_found, &from, &to, &err), SL_OK);
            if (!is_found)
                break;
            assert_true(from <= to && to <= text.len);
            buf_add(&found, str_cut(text, from, to));
            buf_add_char(&found, '|');
        }
        if (!str_is(buf_str(&found), wanted))
            fail_msg("%s in \"%.*s\": %s, not %s", pattern, STR_ARG(text), found.data, wanted);
    }
    regex_scan_release(&scan);
    regex_free(regex);
    buf_release(&found);
}

static void refused(const char *pattern, const char *word) {
    struct regex *regex = NULL;
    struct error err = {0};
    assert_int_equal(regex_new(str_from(pattern), &regex, &err), SL_ERR_ENV);
    assert_null(regex);
    if (!strstr(err.text, word))
        fail_msg("%s: \"%s\" does not name %s", pattern, err.text, word);
}

static void characters_and_classes_match(void **state) {
    (void)state;
    check("a", STR("abca"), "|a|a|");
    check("[a-c]+", STR("abcdcba"), "|abc|cba|");
    check("[^a-c]", STR("axby"), "|x|y|");
    check("[]a]+", STR("a]b]"), "|a]|]|");
    check("[a-]+", STR("a-b"), "|a-|");
    check(".", STR("a\nb"), "|a|b|");
    check("(?m:.)+", STR("a\nb"), "|a\nb|");
    check("\\x41\\u00e9\\x{1F600}", STR("Aé😀"), "|Aé😀|");
    check("[\\t\\n\\-\\]]+", STR("\t\n-]x"), "|\t\n-]|");
    check("世+", STR("世世界"), "|世世|");
}

static void nested_classes_unite_and_meet(void **state) {
    (void)state;
    check("[a[bc]]+", STR("abcd"), "|abc|");
    check("[a-e&&[^c]]+", STR("abcde"), "|ab|de|");
    check("[^a[bc]]", STR("abcd"), "|d|");
    check("[\\w&&[^\\d]]+", STR("ab1c"), "|ab|c|");
    check("[a-z&&b-y&&[^m]]+", STR("abmyz"), "|b|y|");
    check("[[:space:]x]+", STR("a x\nb"), "| x\n|");
}

static void properties_are_those_of_unicode_16(void **state) {
    (void)state;
    check("\\p{L}+", STR("aé世1"), "|aé世|");
    check("\\p{N}", STR("1²٣Ⅷ"), "|1|²|٣|Ⅷ|");
    check("\\p{^L}+|\\P{N}", STR("a1"), "|a|1|");
    check("\\p{Lu}\\p{Ll}+", STR("Ab AB"), "|Ab|");
    check("\\p{Han}+", STR("世界a"), "|世界|");
    /* U+10D50 GARAY CAPITAL LETTER A is new in 16, U+1C89 too. */
    check("\\p{Lu}", STR("\xf0\x90\xb5\x90\xe1\xb2\x89"), "|\xf0\x90\xb5\x90|\xe1\xb2\x89|");
    check("\\s", STR("a\u00a0\u3000\u200b"), "|\u00a0|\u3000|");
    check("\\S+",
          STR("a b\xc2\x85"
              "c"),
          "|a|b|c|");
    check("\\d", STR("1²٣"), "|1|٣|");
}

static void case_is_ignored_where_asked(void **state) {
    (void)state;
    check("(?i:'s|'re)", STR("'s'S'ſ'Re"), "|'s|'S|'ſ|'Re|");
    check("(?i:[a-c])x|a", STR("Bxa A"), "|Bx|a|");
    check("(?i)k", STR("k\u212aK"), "|k|\u212a|K|");
    check("(?i:a(?-i:b))", STR("AbAB"), "|Ab|");
    refused("(?i:é)", "case");
    refused("(?i:\\p{Lu})", "case");
    refused("a(?i)b", "options in the middle");
}

static void groups_and_alternatives_keep_their_order(void **state) {
    (void)state;
    check("a|ab", STR("ab"), "|a|");
    check("(ab|a)(b?)", STR("abb"), "|abb|");
    check("(?>a|ab)c", STR("abc ac"), "|ac|");
    check("(?:ab)+", STR("ababa"), "|abab|");
}

static void quantifiers_repeat_as_in_ruby(void **state) {
    (void)state;
    check("a{2}", STR("aaaaa"), "|aa|aa|");
    check("a{2,3}", STR("aaaaa"), "|aaa|aa|");
    check("a{,2}b", STR("aaab"), "|aab|");
    check("a{2,}", STR("aaaa"), "|aaaa|");
    check("a+?b", STR("aab"), "|aab|");
    check("a++a|b", STR("aab"), "|b|");         /* possessive */
    check("a{1,2}+b", STR("aaaab"), "|aaaab|"); /* in this syntax a repeated repetition */
    check("a{x}", STR("a{x}"), "|a{x}|");
    refused("*a", "nothing before");
    refused("a{3}?", "{n}?");
    refused("a{2,1}", "interval");
    refused("a{70000}", "interval");
}

static void lookaround_and_anchors_match_places(void **state) {
    (void)state;
    check("\\s+(?!\\S)|\\s+", STR("a   b "), "|  | | |");
    check("(?<=a)b", STR("abb"), "|b|");
    check("(?<!a)b", STR("abb"), "|b|");
    check("a(?=b)", STR("abac"), "|a|");
    check("^.", STR("ab\ncd"), "|a|c|");
    check(".$", STR("ab\ncd"), "|b|d|");
    check("\\A.", STR("ab\ncd"), "|a|");
    check(".\\z", STR("ab\n"), "|");
    check("\\d{1,3}(?=(?:\\d{3})*\\b)", STR("1234567"), "|1|234|567|");
    check("\\Bb", STR("b ab"), "|b|");
}

static void empty_matches_move_on(void **state) {
    (void)state;
    check("x*", STR("axb"), "||x||");
    check("", STR("ab"), "||||");
}

static void nul_is_a_character(void **state) {
    (void)state;
    struct regex *regex = NULL;
    struct regex_scan scan;
    bool is_found = false;
    size_t from, to;
    assert_int_equal(regex_new(STR("[^a]+"), &regex, NULL), SL_OK);
    regex_scan_init(&scan, regex);
    assert_int_equal(regex_scan_begin(&scan, STR("a\0b"), NULL), SL_OK);
    assert_int_equal(regex_scan_next(&scan, &is_found, &from, &to, NULL), SL_OK);
    assert_true(is_found && from == 1 && to == 3);
    regex_scan_release(&scan);
    regex_free(regex);
}

static void constructs_with_another_meaning_are_refused(void **state) {
    (void)state;
    refused("(a)\\1", "\\1");
    refused("(?<name>a)", "named group");
    refused("(?x: a)", "group");
    refused("\\p{Nope}", "Nope");
    refused("\\h", "\\h");
    refused("\\R", "\\R");
    refused("\\K", "\\K");
    refused("[a", "closing bracket");
    refused("(a", "closing");
    refused("a)", "opening");
    refused("[b-a]", "backwards");
    refused("[[:alpha:]]", "[:class:]");
    refused("a\\", "backslash");
    refused("\xff", "UTF-8");
    refused("(?<=a+)b", "PCRE2");
}

static void too_much_for_a_regex_is_refused(void **state) {
    (void)state;
    struct buf pattern;
    buf_init(&pattern);
    for (int i = 0; i < 100; i++)
        buf_add_char(&pattern, '(');
    refused(pattern.data, "nested");
    buf_clear(&pattern);
    for (int i = 0; i < 300; i++)
        buf_printf(&pattern, "\\x{%x}", 0x4e00 + 2 * i);
    refused(pattern.data, "255");
    buf_clear(&pattern);
    while (pattern.len <= SL_REGEX_PATTERN_MAX)
        buf_add(&pattern, STR("aaaaaaaa"));
    refused(pattern.data, "longer");
    buf_release(&pattern);
    refused("(?:(?:a{60000}){60000}){60000}", "PCRE2");
}

static void exploding_pattern_ends_with_an_error(void **state) {
    (void)state;
    struct regex *regex = NULL;
    struct regex_scan scan;
    struct error err = {0};
    struct buf text;
    bool is_found = true;
    size_t from, to;
    buf_init(&text);
    for (int i = 0; i < 60; i++)
        buf_add_char(&text, 'a');
    buf_add_char(&text, 'x');
    assert_int_equal(regex_new(STR("(?:a|aa)+\\z"), &regex, &err), SL_OK);
    regex_scan_init(&scan, regex);
    assert_int_equal(regex_scan_begin(&scan, buf_str(&text), &err), SL_OK);
    assert_int_equal(regex_scan_next(&scan, &is_found, &from, &to, &err), SL_ERR_ROW);
    assert_false(is_found);
    regex_scan_release(&scan);
    regex_free(regex);
    buf_release(&text);
}

static void deep_backtracking_gets_a_larger_stack(void **state) {
    (void)state;
    struct buf text, wanted;
    buf_init(&text);
    buf_init(&wanted);
    for (int i = 0; i < 20000; i++)
        buf_add(&text, i % 2 ? STR("b") : STR("a"));
    buf_printf(&wanted, "|%s|", text.data);
    check("(?:a|b)+", buf_str(&text), wanted.data);
    buf_release(&text);
    buf_release(&wanted);
}

static void saved_corpus_of_patterns_is_replayed(void **state) {
    (void)state;
    if (!replay_corpus("regex", LLVMFuzzerTestOneInput))
        skip();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_and_classes_match),
        cmocka_unit_test(nested_classes_unite_and_meet),
        cmocka_unit_test(properties_are_those_of_unicode_16),
        cmocka_unit_test(case_is_ignored_where_asked),
        cmocka_unit_test(groups_and_alternatives_keep_their_order),
        cmocka_unit_test(quantifiers_repeat_as_in_ruby),
        cmocka_unit_test(lookaround_and_anchors_match_places),
        cmocka_unit_test(empty_matches_move_on),
        cmocka_unit_test(nul_is_a_character),
        cmocka_unit_test(constructs_with_another_meaning_are_refused),
        cmocka_unit_test(too_much_for_a_regex_is_refused),
        cmocka_unit_test(exploding_pattern_ends_with_an_error),
        cmocka_unit_test(deep_backtracking_gets_a_larger_stack),
        cmocka_unit_test(saved_corpus_of_patterns_is_replayed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
