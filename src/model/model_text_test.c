/* The text layer and the stop ids of models that the test makes itself: what is declared where,
 * which of several templates wins, and what is kept as an error (cases 01, 02 and 07 of what users
 * of comparable tools reported). */
#include "model/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "model/tiny_model.h"

static void stop_ids_are_the_union_of_all_declarations(void **state) {
    struct tiny tiny;
    (void)state;
    tiny_begin(&tiny);
    tiny_add_llama(&tiny, 1.0f);
    tiny_write_safetensors(&tiny);
    tiny_write_config(&tiny, "llama", ",\"eos_token_id\":1");
    struct model *model = tiny_open(tiny.folder);
    assert_int_equal(model->eos_count, 1); /* no generation_config.json */
    assert_true(model_is_eos(model, 1));
    model_close(model);
    tiny_write_text(&tiny, "generation_config.json", "{\"eos_token_id\":[1,4,12,-1]}");
    model = tiny_open(tiny.folder);
    assert_int_equal(model->eos_count, 2); /* 12 and -1 are outside the vocabulary */
    assert_true(model_is_eos(model, 1) && model_is_eos(model, 4));
    assert_false(model_is_eos(model, 12) || model_is_eos(model, 0));
    assert_string_equal(model->eos[0].source, "generation_config.json, config.json");
    assert_string_equal(model->eos[1].source, "generation_config.json");
    model_close(model);
    static const char *const nothing[] = {"{\"eos_token_id\":null}", "{\"eos_token_id\":[]}", "{}"};
    for (size_t i = 0; i < 3; i++) {
        tiny_write_text(&tiny, "generation_config.json", nothing[i]);
        model = tiny_open(tiny.folder);
        assert_int_equal(model->eos_count, 1);
        model_close(model);
    }
    tiny_write_text(&tiny, "generation_config.json", "{\"eos_token_id\":\"<end>\"}");
    tiny_refuses(tiny.folder, "generation_config.json", "eos_token_id");
    tiny_end(&tiny);
}

static const char tokenizer_text[] =
    "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\"added_tokens\":["
    "{\"id\":5,\"content\":\"<|im_end|>\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
    "\"normalized\":false,\"special\":true},"
    "{\"id\":6,\"content\":\"<|eot_id|>\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
    "\"normalized\":false,\"special\":true}],"
    "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
    "\"trim_offsets\":true,\"use_regex\":true},\"post_processor\":null,"
    "\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,"
    "\"use_regex\":true},\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,"
    "\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":false,"
    "\"byte_fallback\":false,\"ignore_merges\":false,\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"D\":3,"
    "\"T\":4},\"merges\":[]}}";

static void a_chat_marker_ends_a_row_when_tokenizer_or_template_say_so(void **state) {
    struct tiny tiny;
    (void)state;
    tiny_begin(&tiny);
    tiny_add_llama(&tiny, 1.0f);
    tiny_write_safetensors(&tiny);
    tiny_write_config(&tiny, "llama", "");
    tiny_write_text(&tiny, "generation_config.json", "{\"eos_token_id\":0}");
    tiny_write_text(&tiny, "tokenizer.json", tokenizer_text);
    tiny_write_text(&tiny, "tokenizer_config.json", "{\"eos_token\":\"<|im_end|>\"}");
    struct model *model = tiny_open(tiny.folder);
    assert_non_null(model->tokenizer);
    assert_int_equal(model->eos_count, 2);
    assert_true(model_is_eos(model, 0) && model_is_eos(model, 5));
    assert_int_equal(model->chat_tokens.count, 1);
    model_close(model);
    /* The template's end of turn, and markers that it does not write. */
    tiny_write_text(&tiny, "tokenizer_config.json",
                    "{\"eos_token\":{\"content\":\"a\"},\"add_bos_token\":true,"
                    "\"chat_template\":\"{{ messages[0].content }}<|eot_id|>\"}");
    model = tiny_open(tiny.folder);
    assert_int_equal(model->eos_count, 2);
    assert_true(model_is_eos(model, 0) && model_is_eos(model, 6));
    assert_string_equal(model->eos[1].source, "chat template");
    assert_string_equal(model->template_source, "tokenizer_config.json");
    model_close(model);
    tiny_end(&tiny);
}

/* Renders with the template of the model: which of several was chosen. */
static void assert_template(const char *folder, const char *source, const char *plain,
                            const char *tools) {
    struct model *model = NULL;
    struct error err = {0};
    if (model_open(folder, MODEL_TEXT, &model, &err) != SL_OK)
        fail_msg("%s", err.text);
    assert_string_equal(model->template_source, source);
    const struct template *const templates[2] = {model->template, model->tool_template};
    const char *const right[2] = {plain, tools};
    for (size_t i = 0; i < 2; i++) {
        struct buf text;
        buf_init(&text);
        if (right[i] == NULL) {
            assert_null(templates[i]);
            continue;
        }
        assert_non_null(templates[i]);
        struct template_input input = {0};
        assert_int_equal(template_render(templates[i], &input, &text, &err), SL_OK);
        assert_string_equal(text.data, right[i]);
        buf_release(&text);
    }
    model_close(model);
}

static void templates_are_found_where_models_keep_them(void **state) {
    struct tiny tiny;
    char path[160];
    (void)state;
    tiny_begin(&tiny);
    tiny_write_text(&tiny, "tokenizer.json", tokenizer_text);
    assert_template(tiny.folder, "none", NULL, NULL);
    tiny_write_text(&tiny, "chat_template.json", "{\"chat_template\":\"P\"}");
    assert_template(tiny.folder, "chat_template.json", "P", NULL);
    tiny_write_text(&tiny, "tokenizer_config.json",
                    "{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"T\"},"
                    "{\"name\":\"default\",\"template\":\"D\"}]}");
    assert_template(tiny.folder, "tokenizer_config.json", "D", "T");
    tiny_write_text(&tiny, "tokenizer_config.json", "{\"chat_template\":\"OLD\"}");
    assert_template(tiny.folder, "tokenizer_config.json", "OLD", NULL);
    tiny_write_text(&tiny, "chat_template.jinja", "NEW\n");
    assert_template(tiny.folder, "chat_template.jinja", "NEW", NULL);
    tiny_path(&tiny, "additional_chat_templates", path, sizeof path);
    assert_int_equal(mkdir(path, 0700), 0);
    tiny_write_text(&tiny, "additional_chat_templates/tool_use.jinja", "TOOLS");
    assert_template(tiny.folder, "chat_template.jinja", "NEW", "TOOLS");
    tiny_end(&tiny);
}

static void a_template_that_cannot_be_used_is_kept_as_an_error(void **state) {
    static const char *const configs[] = {
        "{\"chat_template\":\"{% for %}\"}",
        "{\"chat_template\":[{\"name\":\"tool_use\",\"template\":\"T\"}]}"};
    static const char *const words[] = {"tokenizer_config.json", "tool_use"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct tiny tiny;
        struct model *model = NULL;
        struct error err = {0};
        tiny_begin(&tiny);
        tiny_write_text(&tiny, "tokenizer.json", tokenizer_text);
        tiny_write_text(&tiny, "tokenizer_config.json", configs[i]);
        assert_int_equal(model_open(tiny.folder, MODEL_TEXT, &model, &err), SL_OK);
        assert_null(model->template);
        assert_null(model->tool_template);
        assert_int_equal(model->template_error.status, SL_ERR_ENV);
        if (strstr(model->template_error.text, words[i]) == NULL)
            fail_msg("%s", model->template_error.text);
        model_close(model);
        tiny_end(&tiny);
    }
}

static void a_missing_tokenizer_is_said_and_leaves_ids_usable(void **state) {
    struct tiny tiny;
    struct model *model = NULL;
    struct error err = {0};
    (void)state;
    tiny_begin(&tiny);
    tiny_add_llama(&tiny, 1.0f);
    tiny_write_safetensors(&tiny);
    tiny_write_config(&tiny, "llama", "");
    model = tiny_open(tiny.folder);
    assert_null(model->tokenizer);
    assert_non_null(strstr(model->tokenizer_error.text, "tokenizer.json"));
    model_close(model);
    assert_int_equal(model_open(tiny.folder, MODEL_TEXT, &model, &err), SL_ERR_ENV);
    assert_non_null(strstr(err.text, "tokenizer.json"));
    tiny_end(&tiny);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stop_ids_are_the_union_of_all_declarations),
        cmocka_unit_test(a_chat_marker_ends_a_row_when_tokenizer_or_template_say_so),
        cmocka_unit_test(templates_are_found_where_models_keep_them),
        cmocka_unit_test(a_template_that_cannot_be_used_is_kept_as_an_error),
        cmocka_unit_test(a_missing_tokenizer_is_said_and_leaves_ids_usable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
