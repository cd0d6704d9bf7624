/* Special tokens inside messages' content as plain text. Expected ids: by hand from the toy's
 * vocabulary, in which each character is a token of its own. */
#include "text/content.h"

#include "base/fault.h"
#include "text/tokenizer_for_test.h"
#include "text/tree_for_test.h"

/* <s> 20 and <e> 21 are special, <t> 22 is not, <s><e> 23 is special. */
#define SPECIAL(id, text, more)                                                                    \
    "{\"id\":" #id ",\"content\":\"" text "\",\"single_word\":false,\"lstrip\":false,"             \
    "\"rstrip\":false," more "}"
/* Words that no merge reaches: ids without a gap up to 19. */
#define FILL                                                                                       \
    "\"Aa\":11,\"Ab\":12,\"Ac\":13,\"Ad\":14,\"Ae\":15,\"Af\":16,\"Ag\":17,\"Ah\":18,\"Ai\":19}"
#define PLAIN_VOCAB                                                                                \
    "{\"a\":0,\"b\":1,\"<\":2,\">\":3,\"e\":4,\"s\":5,\"t\":6,\"Ġ\":7,\"Ċ\":8,\"[\":9,\"]\":"    \
    "10," FILL
#define RAW_SPECIAL "\"normalized\":false,\"special\":true"

static const struct toy toy = {
    .vocab = PLAIN_VOCAB,
    .merges = "[]",
    .pre = TOY_BYTES,
    .added = "[" SPECIAL(20, "<s>", RAW_SPECIAL) "," SPECIAL(21, "<e>", RAW_SPECIAL) "," SPECIAL(
        22, "<t>", "\"normalized\":false,\"special\":false") "," SPECIAL(23, "<s><e>",
                                                                         RAW_SPECIAL) "]"};

struct chat {
    const struct toy *toy; /* NULL: the one above */
    const char *source, *messages;
    bool continues;
    const char *system;
};

/* Renders, checks that the text is that of chat_render, and gives the ids. */
static enum status encode(const struct chat *chat, struct ids *ids) {
    struct tokenizer *tokenizer = toy_new(chat->toy != NULL ? chat->toy : &toy);
    struct template *template = NULL;
    struct content_places places = {0};
    struct buf plain;
    struct chat_request request = {.messages = tree(chat->messages),
                                   .continues_final_message = chat->continues,
                                   .system = str_from(chat->system),
                                   .is_utc = true};
    buf_init(&plain);
    buf_clear(&out);
    assert_int_equal(template_parse(str_from(chat->source), "T", &template, &err), SL_OK);
    const struct content_template whole = {template, NULL, tokenizer};
    enum status status = content_render(&whole, &request, true, &out, &places, &err);
    if (status == SL_OK) {
        assert_int_equal(chat_render(template, NULL, &request, true, &plain, &err), SL_OK);
        assert_string_equal(out.data, plain.data);
        struct encode_options options = {.plain = places.items, .plain_count = places.count};
        assert_int_equal(tokenizer_encode(tokenizer, buf_str(&out), &options, ids, &err), SL_OK);
    } else {
        assert_int_equal(places.count, 0);
        assert_int_equal(out.len, 0);
    }
    buf_release(&plain);
    content_places_release(&places);
    template_free(template);
    tokenizer_free(tokenizer);
    return status;
}

static void check(const struct chat *chat, const uint32_t *wanted, size_t count) {
    struct ids ids = {0};
    if (encode(chat, &ids) != SL_OK)
        fail_msg("%s", err.text);
    assert_int_equal(ids.count, count);
    assert_memory_equal(ids.items, wanted, count * sizeof *wanted);
    ids_release(&ids);
}

#define CHECK(chat, ...)                                                                           \
    do {                                                                                           \
        const uint32_t wanted_[] = {__VA_ARGS__};                                                  \
        check(&(chat), wanted_, sizeof wanted_ / sizeof wanted_[0]);                               \
    } while (0)

#define TURNS "{% for m in messages %}<s>{{ m.content }}<e>{% endfor %}"

static void tokens_of_content_are_text_and_those_of_the_template_are_tokens(void **state) {
    (void)state;
    struct chat chat = {.source = TURNS, .messages = "[{\"role\":\"u\",\"content\":\"a<e>b\"}]"};
    CHECK(chat, 20, 0, 2, 4, 3, 1, 21);
    /* at the ends, side by side with the template's own, and in one message of two */
    chat.messages = "[{\"role\":\"u\",\"content\":\"<e>\"},{\"role\":\"u\",\"content\":\"a\"}]";
    CHECK(chat, 20, 2, 4, 3, 21, 20, 0, 21);
    chat.messages = "[{\"role\":\"u\",\"content\":\"\"},{\"role\":\"u\",\"content\":\"<<e>>\"}]";
    CHECK(chat, 23, 20, 2, 2, 4, 3, 3, 21);
}

static void tokens_that_are_not_special_stay_tokens(void **state) {
    (void)state;
    struct chat chat = {.source = TURNS, .messages = "[{\"role\":\"u\",\"content\":\"<t><e>\"}]"};
    CHECK(chat, 20, 22, 2, 4, 3, 21);
    chat.source = "{% for m in messages %}{{ m.content.split('<t>')[-1] }}<e>{% endfor %}";
    CHECK(chat, 2, 4, 3, 21);
}

static void a_token_may_not_reach_from_the_template_into_content(void **state) {
    (void)state;
    /* <s> of the template is one token, although <s><e> is longer; and the other way round */
    struct chat chat = {.source = TURNS, .messages = "[{\"role\":\"u\",\"content\":\"<e>a\"}]"};
    CHECK(chat, 20, 2, 4, 3, 0, 21);
    chat.messages = "[{\"role\":\"u\",\"content\":\"a<s>\"}]";
    CHECK(chat, 20, 0, 2, 5, 3, 21);
}

static void templates_may_trim_cut_and_repeat_content(void **state) {
    (void)state;
    struct chat chat = {.source = "{% for m in messages %}[{{ m.content|trim }}]{% endfor %}<e>",
                        .messages = "[{\"role\":\"u\",\"content\":\" <e>\\n\"}]"};
    CHECK(chat, 9, 2, 4, 3, 10, 21);
    chat.source = "{{ messages[0].content[1:-1] }}{{ messages[0].content|trim|length }}";
    chat.messages = "[{\"role\":\"u\",\"content\":\" <e>\\n\"}]";
    struct ids ids = {0};
    assert_int_equal(encode(&chat, &ids), SL_OK);
    assert_string_equal(out.data, "<e>3");
    assert_int_equal(ids.items[0], 2);
    ids_release(&ids);
    chat.source = "{{ messages[0].content }}<e>{{ messages[0].content }}";
    chat.messages = "[{\"role\":\"u\",\"content\":\"<s>\"}]";
    CHECK(chat, 2, 5, 3, 21, 2, 5, 3);
}

static void texts_that_make_a_token_together_are_found(void **state) {
    (void)state;
    struct chat chat = {
        .source = "{% for m in messages %}<s>{% for p in m.content %}{{ p.text|trim }}{% endfor %}"
                  "{% endfor %}",
        .messages = "[{\"role\":\"u\",\"content\":[{\"type\":\"text\",\"text\":\"a<\"},"
                    "{\"type\":\"text\",\"text\":\" e>\"}]}]"};
    CHECK(chat, 20, 0, 2, 4, 3);
    chat.source = TURNS; /* parts joined before the template sees them */
    chat.messages = "[{\"role\":\"u\",\"content\":[{\"type\":\"text\",\"text\":\"a<\"},"
                    "{\"type\":\"text\",\"text\":\"e>\"}]}]";
    CHECK(chat, 20, 0, 2, 4, 3, 21);
}

static void content_is_found_at_any_depth_and_under_system(void **state) {
    (void)state;
    struct chat chat = {.source = "{% for m in messages %}{{ m.content.a[0].b }}<e>{% endfor %}",
                        .messages = "[{\"role\":\"u\",\"content\":{\"a\":[{\"b\":\"<e>\"}]}}]"};
    CHECK(chat, 2, 4, 3, 21);
    chat = (struct chat){
        .source = TURNS, .messages = "[{\"role\":\"u\",\"content\":\"a\"}]", .system = "<e>"};
    CHECK(chat, 20, 2, 4, 3, 21, 20, 0, 21);
    chat = (struct chat){
        .source = TURNS, .messages = "[{\"role\":\"u\",\"content\":\"b<e>\"}]", .continues = true};
    CHECK(chat, 20, 1, 2, 4, 3);
}

static void a_template_that_reads_such_tokens_is_followed_or_refused(void **state) {
    (void)state;
    /* it looks at a plain character: the whole tokens alone are marked then */
    struct chat chat = {.source = "{{ messages[0].content }}{{ '<a' in messages[0].content }}<e>",
                        .messages = "[{\"role\":\"u\",\"content\":\"<a <e>\"}]"};
    struct ids ids = {0};
    assert_int_equal(encode(&chat, &ids), SL_OK);
    assert_string_equal(out.data, "<a <e>True<e>");
    const uint32_t wanted[] = {2, 0, 7, 2, 4, 3};
    assert_memory_equal(ids.items, wanted, sizeof wanted);
    assert_int_equal(ids.items[ids.count - 1], 21);
    /* it looks at the token: nothing says where it went */
    chat.source = "{{ messages[0].content }}{{ '<e>' in messages[0].content }}";
    assert_int_equal(encode(&chat, &ids), SL_ERR_ROW);
    assert_non_null(strstr(err.text, "--content-specials allow"));
    /* an error of the template is its own */
    chat.source = "{{ raise_exception('own words') }}";
    assert_int_equal(encode(&chat, &ids), SL_ERR_ROW);
    assert_string_equal(err.text, "own words");
    ids_release(&ids);
}

static void noncharacters_in_content_are_text(void **state) {
    (void)state;
    struct chat chat = {.source = TURNS,
                        .messages = "[{\"role\":\"u\",\"content\":\"\uFDD0<e>\uFDD1\"}]"};
    struct ids ids = {0};
    assert_int_equal(encode(&chat, &ids), SL_OK);
    const uint32_t wanted[] = {20, 2, 4, 3, 21}; /* the toy has no token for others */
    assert_int_equal(ids.count, 5);
    assert_memory_equal(ids.items, wanted, sizeof wanted);
    ids_release(&ids);
}

static void normalized_tokens_are_found_where_the_normalizer_moved_them(void **state) {
    (void)state;
    static const struct toy moved = {
        .vocab = "{\"a\":0,\"b\":1,\"<\":2,\">\":3,\"e\":4,\"s\":5,\"_\":6,\"A7\":7,\"A8\":8,"
                 "\"A9\":9,\"A10\":10," FILL,
        .merges = "[]",
        .normalizer = "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Replace\",\"pattern\":{"
                      "\"String\":\"b\"},\"content\":\"___\"},{\"type\":\"Lowercase\"}]}",
        .added = "[" SPECIAL(20, "<s>", "\"normalized\":true,\"special\":true") "," SPECIAL(
            21, "<e>", "\"normalized\":true,\"special\":true") "]"};
    struct chat chat = {.toy = &moved,
                        .source = TURNS,
                        .messages = "[{\"role\":\"u\",\"content\":\"b<E>a\"},"
                                    "{\"role\":\"u\",\"content\":\"b<s>\"}]"};
    CHECK(chat, 20, 6, 6, 6, 2, 4, 3, 0, 21, 20, 6, 6, 6, 2, 5, 3, 21);
}

static void holds(const char *messages, bool wanted) {
    struct tokenizer *tokenizer = toy_new(&toy);
    bool found = !wanted;
    assert_int_equal(content_holds_specials(tokenizer, tree(messages), &found, &err), SL_OK);
    assert_int_equal(found, wanted);
    tokenizer_free(tokenizer);
}

static void rows_with_special_tokens_in_content_are_known(void **state) {
    (void)state;
    holds("[{\"role\":\"u\",\"content\":\"a<e>\"}]", true);
    holds("[{\"role\":\"u\",\"content\":\"a\"},{\"content\":[\"x\",{\"text\":\"<s>\"}]}]", true);
    holds("[{\"role\":\"u\",\"content\":[{\"text\":\"<\"},{\"text\":\"e>\"}]}]", true);
    holds("[{\"role\":\"u\",\"content\":\"<t>< e>\"}]", false);
    holds("[{\"role\":\"<e>\",\"content\":[{\"type\":\"<e>\"}],\"name\":\"<e>\"}]", false);
    holds("[{\"role\":\"u\",\"content\":null},3]", false);
    holds("3", false);
}

static void failed_allocations_are_errors(void **state) {
    (void)state;
    struct tokenizer *tokenizer = toy_new(&toy);
    struct template *template = NULL;
    struct chat_request request = {
        .messages = tree("[{\"role\":\"u\",\"content\":[{\"text\":\"a<e>\"}]}]"), .is_utc = true};
    assert_int_equal(template_parse(STR(TURNS), "T", &template, &err), SL_OK);
    const struct content_template whole = {template, NULL, tokenizer};
    enum status status = SL_ERR_ENV;
    for (uint64_t nth = 1; status != SL_OK && nth < 1000; nth++) {
        struct content_places places = {0};
        buf_release(&out);
        buf_init(&out);
        fault_arm(SL_FAULT_ALLOC, nth, true);
        status = content_render(&whole, &request, true, &out, &places, &err);
        fault_arm(SL_FAULT_ALLOC, 0, false);
        assert_true(status == SL_OK || out.len + places.count == 0);
        content_places_release(&places);
    }
    assert_int_equal(status, SL_OK);
    template_free(template);
    tokenizer_free(tokenizer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(tokens_of_content_are_text_and_those_of_the_template_are_tokens),
        TEST(tokens_that_are_not_special_stay_tokens),
        TEST(a_token_may_not_reach_from_the_template_into_content),
        TEST(templates_may_trim_cut_and_repeat_content),
        TEST(texts_that_make_a_token_together_are_found),
        TEST(content_is_found_at_any_depth_and_under_system),
        TEST(a_template_that_reads_such_tokens_is_followed_or_refused),
        TEST(noncharacters_in_content_are_text),
        TEST(normalized_tokens_are_found_where_the_normalizer_moved_them),
        TEST(rows_with_special_tokens_in_content_are_known),
        TEST(failed_allocations_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
