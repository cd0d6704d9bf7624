/* Preparing conversations: which template, which messages, what is refused. Expected texts: jinja2
 * and transformers 5.24 (apply_chat_template) by hand. */
#include "text/chat.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text/tree_for_test.h"

/* Renders a request into `out`, which is emptied first. */
static enum status render(const char *source, const struct chat_request *request, bool is_run) {
    struct template *template = NULL;
    buf_clear(&out);
    assert_int_equal(template_parse(str_from(source), "T", &template, &err), SL_OK);
    enum status status = chat_render(template, NULL, request, is_run, &out, &err);
    template_free(template);
    return status;
}

static void gives(const char *source, const char *messages, const char *wanted) {
    struct chat_request request = {.messages = tree(messages), .is_utc = true};
    if (render(source, &request, true) != SL_OK)
        fail_msg("%s", err.text);
    assert_string_equal(out.data, wanted);
}

static void refuses(const char *source, const char *messages, const char *words) {
    struct chat_request request = {.messages = tree(messages), .is_utc = true};
    assert_int_equal(render(source, &request, true), SL_ERR_ROW);
    if (strstr(err.text, words) == NULL)
        fail_msg("'%s' is not in '%s'", words, err.text);
}

static void null_members_are_left_out(void **state) {
    (void)state;
    gives("{% for m in messages %}{{ m }}{% endfor %}",
          "[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":null}]}]",
          "{'role': 'assistant', 'tool_calls': [{'id': None}]}");
}

static void a_name_given_twice_has_its_last_value(void **state) {
    (void)state;
    gives("{{ messages[0] }}", "[{\"a\":1,\"b\":2,\"a\":3}]", "{'a': 3, 'b': 2}");
    gives("{{ messages[0] }}", "[{\"a\":1,\"b\":2,\"a\":null}]", "{'b': 2}");
}

static void reasoning_is_filled_in_under_both_names(void **state) {
    (void)state;
    gives("{{ messages[0] }}", "[{\"role\":\"a\",\"reasoning\":\"r\"}]",
          "{'thinking': 'r', 'role': 'a', 'reasoning': 'r', 'reasoning_content': 'r'}");
    gives("{{ messages[0] }}", "[{\"role\":\"a\",\"thinking\":\"t\"}]",
          "{'thinking': 't', 'role': 'a', 'reasoning_content': 't'}");
    gives("{{ messages[0] }}", "[{\"role\":\"a\",\"reasoning_content\":\"c\",\"thinking\":\"t\"}]",
          "{'thinking': 't', 'role': 'a', 'reasoning_content': 'c'}");
}

static void what_is_no_conversation_is_refused(void **state) {
    (void)state;
    refuses("x", "[]", "the conversation is empty");
    refuses("x", "\"hi\"", "\"messages\" is not a list");
    refuses("x", "[\"hi\"]", "message 1: it is not an object");
    refuses("{{ raise_exception('roles must alternate') }}", "[{\"role\":\"user\"}]",
            "roles must alternate");
}

static void a_system_prompt_goes_first_unless_there_is_one(void **state) {
    const char *source = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}";
    struct chat_request request = {.messages = tree("[{\"role\":\"user\",\"content\":\"a\"}]"),
                                   .system = STR("S")};
    (void)state;
    assert_int_equal(render(source, &request, true), SL_OK);
    assert_string_equal(out.data, "system:S;user:a;");
    request.messages = tree("[{\"role\":\"user\",\"content\":\"a\"},"
                            "{\"role\":\"system\",\"content\":\"b\"}]");
    assert_int_equal(render(source, &request, true), SL_OK);
    assert_string_equal(out.data, "user:a;system:b;");
}

static void tools_absent_null_or_empty_of_case_13(void **state) {
    const char *source = "{% if tools is not none and tools is defined %}T{{ tools|length }}"
                         "{% endif %}{% if tools %}Y{% endif %};{{ documents }}";
    struct chat_request request = {.messages = tree("[{\"role\":\"user\"}]")};
    (void)state;
    assert_int_equal(render(source, &request, true), SL_OK);
    assert_string_equal(out.data, ";None");
    request.tools = tree("null");
    assert_int_equal(render(source, &request, true), SL_OK);
    assert_string_equal(out.data, ";None");
    request.tools = tree("[]");
    assert_int_equal(render(source, &request, true), SL_OK);
    assert_string_equal(out.data, "T0;None");
}

static void kwargs_are_variables_and_stronger_than_tokens(void **state) {
    const struct template_variable items[] = {
        {STR("bos_token"), tree("{\"content\":\"<s>\",\"lstrip\":false}")},
        {STR("eos_token"), tree("\"</s>\"")},
        {STR("pad_token"), tree("null")},
    };
    const struct chat_tokens tokens = {items, 3};
    struct chat_request request = {.messages = tree("[{\"role\":\"user\"}]"),
                                   .kwargs = tree("{\"think\":true,\"eos_token\":\"E\"}")};
    struct template *template;
    (void)state;
    assert_int_equal(template_parse(STR("{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}"
                                        "{{ think }}{{ add_generation_prompt }}"),
                                    "T", &template, &err),
                     SL_OK);
    assert_int_equal(chat_render(template, &tokens, &request, true, &out, &err), SL_OK);
    assert_string_equal(out.data, "<s>EFalseTrueFalse");
    request.kwargs = tree("{\"messages\":[]}");
    assert_int_equal(chat_render(template, &tokens, &request, true, &out, &err), SL_ERR_ROW);
    assert_non_null(strstr(err.text, "cannot replace the messages"));
    request.kwargs = tree("[1]");
    assert_int_equal(chat_render(template, &tokens, &request, true, &out, &err), SL_ERR_ROW);
    assert_string_equal(out.data, "<s>EFalseTrueFalse"); /* as it was before the errors */
    template_free(template);
}

static const char parts[] = "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
                            "{\"type\":\"text\",\"text\":\"b\"}]}]";

static void parts_of_text_are_joined_for_templates_that_take_none_of_case_14(void **state) {
    struct chat_request request = {.messages = tree(parts)};
    (void)state;
    gives("<{{ messages[0].content }}>", parts, "<ab>");
    gives("{% for m in messages %}{% if m.content is string %}S{{ m.content }}{% else %}"
          "{% for p in m.content %}{{ p.text }},{% endfor %}{% endif %}{% endfor %}",
          parts, "a,b,");
    /* `render` shows what the template makes of it, as Hugging Face does. */
    assert_int_equal(render("<{{ messages[0].content }}>", &request, false), SL_OK);
    assert_string_equal(out.data,
                        "<[{'type': 'text', 'text': 'a'}, {'type': 'text', 'text': 'b'}]>");
}

static void an_image_part_is_an_error_in_run_alone(void **state) {
    const char *image = "[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]";
    struct chat_request request = {.messages = tree(image)};
    (void)state;
    refuses("{{ messages[0].content }}", image, "message 1: a part of type 'image_url'");
    refuses("x", "[{\"content\":[1]}]", "is not an object");
    refuses("x", "[{\"content\":[{\"type\":\"text\"}]}]", "no member \"text\"");
    assert_int_equal(
        render("{% for p in messages[0].content %}{{ p.type }}{% endfor %}", &request, false),
        SL_OK);
    assert_string_equal(out.data, "image_url");
}

static enum status continue_final(const char *source, const char *messages) {
    struct chat_request request = {.messages = tree(messages), .continues_final_message = true};
    return render(source, &request, true);
}

static void continuing_ends_after_the_last_occurrence_of_case_08(void **state) {
    const char *trims = "{% for m in messages %}[{{ m.role }}]{{ m.content|trim }}[/]{% endfor %}";
    const char *keeps = "{% for m in messages %}[{{ m.role }}]{{ m.content }}[/]{% endfor %}";
    const char *plain = "[{\"role\":\"user\",\"content\":\"Hi\"},"
                        "{\"role\":\"assistant\",\"content\":\"The answer is \"}]";
    const char *same = "[{\"role\":\"user\",\"content\":\"Same\"},"
                       "{\"role\":\"assistant\",\"content\":\"Same\"}]";
    (void)state;
    assert_int_equal(continue_final(trims, plain), SL_OK);
    assert_string_equal(out.data, "[user]Hi[/][assistant]The answer is");
    assert_int_equal(continue_final(keeps, plain), SL_OK);
    assert_string_equal(out.data, "[user]Hi[/][assistant]The answer is ");
    assert_int_equal(continue_final(trims, same), SL_OK);
    assert_string_equal(out.data, "[user]Same[/][assistant]Same");
}

static void continuing_works_on_the_last_text_part(void **state) {
    const char *source = "{% for p in messages[0].content %}<{{ p.text }}>{% endfor %}";
    struct chat_request request = {.messages = tree(parts), .continues_final_message = true};
    (void)state;
    assert_int_equal(render(source, &request, true), SL_OK);
    assert_string_equal(out.data, "<a><b");
    assert_int_equal(render(source, &request, true), SL_OK); /* the caller's tree is as it was */
    assert_string_equal(out.data, "<a><b");
}

static void continuing_needs_text_that_the_template_shows(void **state) {
    struct chat_request both = {.messages = tree("[{\"role\":\"user\",\"content\":\"a\"}]"),
                                .continues_final_message = true,
                                .adds_generation_prompt = true};
    (void)state;
    assert_int_equal(continue_final("x", "[{\"content\":\"a\"}]"), SL_ERR_ROW);
    assert_non_null(strstr(err.text, "does not show the final message"));
    assert_int_equal(continue_final("x", "[{\"role\":\"a\"}]"), SL_ERR_ROW);
    assert_non_null(strstr(err.text, "no text to continue"));
    assert_int_equal(continue_final("x", "[{\"content\":[]}]"), SL_ERR_ROW);
    assert_int_equal(render("{{ messages }}", &both, true), SL_ERR_ROW);
    assert_non_null(strstr(err.text, "exclude one another"));
}

static void the_template_is_picked_by_name_of_case_07(void **state) {
    const struct json *list = tree("[{\"name\":\"tool_use\",\"template\":\"T\"},"
                                   "{\"name\":\"default\",\"template\":\"D\"}]");
    const struct json *lacking = tree("[{\"name\":\"tool_use\",\"template\":\"T\"},"
                                      "{\"name\":\"rag\",\"template\":\"R\"}]");
    const struct str no_file = {NULL, 0};
    struct str source;
    (void)state;
    assert_int_equal(chat_pick_template(list, no_file, false, &source, &err), SL_OK);
    assert_true(str_is(source, "D"));
    assert_int_equal(chat_pick_template(list, no_file, true, &source, &err), SL_OK);
    assert_true(str_is(source, "T"));
    assert_int_equal(chat_pick_template(lacking, no_file, true, &source, &err), SL_OK);
    assert_true(str_is(source, "T"));
    assert_int_equal(chat_pick_template(lacking, no_file, false, &source, &err), SL_ERR_ENV);
    assert_non_null(strstr(err.text, "there is: tool_use, rag"));
    assert_int_equal(chat_pick_template(tree("\"OLD\""), STR("NEW\n"), false, &source, &err),
                     SL_OK);
    assert_true(str_is(source, "NEW\n"));
    assert_int_equal(chat_pick_template(tree("{\"default\":\"D\"}"), no_file, false, &source, &err),
                     SL_OK);
    assert_true(str_is(source, "D"));
    assert_int_equal(chat_pick_template(NULL, no_file, false, &source, &err), SL_OK);
    assert_int_equal(source.len, 0);
    assert_int_equal(chat_pick_template(tree("5"), no_file, false, &source, &err), SL_ERR_ENV);
}

int main(void) {
#define EACH(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        EACH(null_members_are_left_out),
        EACH(a_name_given_twice_has_its_last_value),
        EACH(reasoning_is_filled_in_under_both_names),
        EACH(what_is_no_conversation_is_refused),
        EACH(a_system_prompt_goes_first_unless_there_is_one),
        EACH(tools_absent_null_or_empty_of_case_13),
        EACH(kwargs_are_variables_and_stronger_than_tokens),
        EACH(parts_of_text_are_joined_for_templates_that_take_none_of_case_14),
        EACH(an_image_part_is_an_error_in_run_alone),
        EACH(continuing_ends_after_the_last_occurrence_of_case_08),
        EACH(continuing_works_on_the_last_text_part),
        EACH(continuing_needs_text_that_the_template_shows),
        EACH(the_template_is_picked_by_name_of_case_07),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
