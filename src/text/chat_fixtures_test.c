/* Every conversation of the fixtures through chat_render, against renderings by jinja2 (their
 * README files say how those were made). SLUICE_SHARED names the folder they lie in. */
#include "text/chat.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

struct tally {
    size_t agreed, asked;
};

/* All of a file, or what a command prints. */
static bool read_all(FILE *stream, bool is_pipe, struct buf *buf) {
    char block[65536];
    size_t count;
    if (stream == NULL)
        return false;
    while ((count = fread(block, 1, sizeof block, stream)) > 0)
        buf_add(buf, (struct str){block, count});
    int rc = is_pipe ? pclose(stream) : fclose(stream);
    return rc == 0 && !buf->has_failed;
}

static bool read_file(const char *path, struct buf *buf) {
    return read_all(fopen(path, "rb"), false, buf);
}

static bool read_gz(const char *path, struct buf *buf) {
    char command[1200];
    snprintf(command, sizeof command, "zcat '%s'", path);
    return read_all(popen(command, "r"), true, buf);
}

static int64_t clock_of(const struct json *line) {
    struct str text;
    struct tm time = {0};
    char copy[64];
    if (!json_string(json_get(line, "now"), &text))
        return 1741529107; /* 2025-03-09 14:05:07 UTC */
    snprintf(copy, sizeof copy, "%.*s", STR_ARG(text));
    assert_non_null(strptime(copy, "%Y-%m-%dT%H:%M:%S", &time));
    return (int64_t)timegm(&time);
}

/* Whether a rendering, or an error, is what the line says; prints the difference. */
static bool check_answer(const struct json *line, enum status status, const struct buf *out,
                         const struct error *err) {
    struct str id = STR("?"), wanted, type = STR("");
    json_string(json_get(line, "id"), &id);
    if (json_string(json_get(line, "error"), &wanted)) {
        json_string(json_get(line, "error_type"), &type);
        bool fails = status == SL_ERR_ROW;
        if (fails && (!str_is(type, "TemplateError") || str_is(wanted, err->text)))
            return true;
        print_message("  %.*s: %s, wanted the error %.*s\n", STR_ARG(id),
                      fails ? err->text : "a rendering", STR_ARG(wanted));
        return false;
    }
    assert_true(json_string(json_get(line, "rendered"), &wanted));
    if (status == SL_OK && str_equal(wanted, buf_str(out)))
        return true;
    if (status != SL_OK) {
        print_message("  %.*s: refused: %s\n", STR_ARG(id), err->text);
        return false;
    }
    size_t at = 0;
    while (at < wanted.len && at < out->len && wanted.data[at] == out->data[at])
        at++;
    print_message("  %.*s: differs at byte %zu: got '%.*s', wanted '%.*s'\n", STR_ARG(id), at,
                  STR_ARG(str_cut(buf_str(out), at, at + 60)),
                  STR_ARG(str_cut(wanted, at, at + 60)));
    return false;
}

static void check_line(const struct template *template, const struct chat_tokens *tokens,
                       struct str text, struct tally *tally) {
    struct arena arena;
    const struct json *line;
    struct json_options options = {.depth_max = 0};
    struct error err = {0};
    struct buf out;
    bool adds = false;
    arena_init(&arena);
    buf_init(&out);
    assert_int_equal(json_parse(&arena, text, &options, &line, &err), SL_OK);
    json_bool(json_get(line, "add_generation_prompt"), &adds);
    struct chat_request request = {.messages = json_get(line, "messages"),
                                   .tools = json_get(line, "tools"),
                                   .kwargs = json_get(line, "kwargs"),
                                   .adds_generation_prompt = adds,
                                   .now = clock_of(line),
                                   .is_utc = true};
    enum status status = chat_render(template, tokens, &request, false, &out, &err);
    tally->asked++;
    tally->agreed += check_answer(line, status, &out, &err);
    buf_release(&out);
    arena_release(&arena);
}

/* The lines of one .jsonl.gz through one template. */
static void check_file(const char *template_path, const char *lines_path,
                       const struct chat_tokens *tokens, struct tally *total) {
    struct buf source, lines;
    struct template *template = NULL;
    struct error err = {0};
    struct tally tally = {0, 0};
    buf_init(&source);
    buf_init(&lines);
    assert_true(read_file(template_path, &source));
    assert_true(read_gz(lines_path, &lines));
    enum status status = template_parse(buf_str(&source), "chat_template.jinja", &template, &err);
    if (status != SL_OK)
        print_message("  %s: %s\n", template_path, err.text);
    for (size_t at = 0; at < lines.len;) {
        size_t end = str_find(buf_str(&lines), STR("\n"), at);
        if (end == SIZE_MAX)
            end = lines.len;
        if (status == SL_OK)
            check_line(template, tokens, str_cut(buf_str(&lines), at, end), &tally);
        else
            tally.asked++;
        at = end + 1;
    }
    if (tally.agreed < tally.asked)
        print_message("%s: %zu of %zu\n", lines_path, tally.agreed, tally.asked);
    total->agreed += tally.agreed;
    total->asked += tally.asked;
    template_free(template);
    buf_release(&source);
    buf_release(&lines);
}

static const char *shared(void) {
    const char *folder = getenv("SLUICE_SHARED");
    if (folder == NULL)
        skip(); /* no fixtures named */
    return folder;
}

static void published_templates_render_as_jinja_does(void **state) {
    static const struct json texts[] = {
        {.kind = JSON_STRING, .text = {"<BOS>", 5}},
        {.kind = JSON_STRING, .text = {"<EOS>", 5}},
        {.kind = JSON_STRING, .text = {"<PAD>", 5}},
        {.kind = JSON_STRING, .text = {"<UNK>", 5}},
    };
    const struct template_variable items[] = {
        {STR("bos_token"), &texts[0]},
        {STR("eos_token"), &texts[1]},
        {STR("pad_token"), &texts[2]},
        {STR("unk_token"), &texts[3]},
    };
    const struct chat_tokens tokens = {items, 4};
    struct tally total = {0, 0};
    char folder[512], source[1024], lines[1024];
    (void)state;
    snprintf(folder, sizeof folder, "%s/fixtures/templates", shared());
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        size_t len = strlen(entry->d_name);
        if (len < 7 || strcmp(entry->d_name + len - 6, ".jinja") != 0)
            continue;
        snprintf(source, sizeof source, "%s/%s", folder, entry->d_name);
        snprintf(lines, sizeof lines, "%s/%.*s.jsonl.gz", folder, (int)len - 6, entry->d_name);
        check_file(source, lines, &tokens, &total);
    }
    closedir(dir);
    print_message("%zu of %zu renderings agree\n", total.agreed, total.asked);
    assert_true(total.asked >= 4876);
    assert_int_equal(total.agreed, total.asked);
}

#define TOKENS_MAX 32

/* The special tokens of a tokenizer_config.json: its members that end in "_token". */
static size_t special_tokens(const struct json *config, struct template_variable *items) {
    size_t count = 0;
    for (uint32_t i = 0; i < config->count && count < TOKENS_MAX; i++) {
        const struct json_member *member = &config->members[i];
        if (str_ends(member->name, STR("_token")))
            items[count++] = (struct template_variable){member->name, &member->value};
    }
    return count;
}

static void families_render_as_hugging_face_does(void **state) {
    static const char *const families[] = {"deepseek_v3", "gemma3", "llama3_1",     "llama3_2",
                                           "qwen2_5",     "qwen3",  "mistral_nemo", "synth_smollm"};
    struct tally total = {0, 0};
    const char *root = shared();
    char path[512], source[512], lines[512];
    (void)state;
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        struct arena arena;
        struct buf text;
        const struct json *config;
        struct json_options options = {.depth_max = 0};
        struct template_variable items[TOKENS_MAX];
        arena_init(&arena);
        buf_init(&text);
        snprintf(path, sizeof path, "%s/fixtures/text/tokenizer_config-%s.json.gz", root,
                 families[i]);
        snprintf(source, sizeof source, "%s/fixtures/text/chat_template-%s.jinja", root,
                 families[i]);
        snprintf(lines, sizeof lines, "%s/fixtures/text/chat-%s.jsonl.gz", root, families[i]);
        assert_true(read_gz(path, &text));
        assert_int_equal(json_parse(&arena, buf_str(&text), &options, &config, NULL), SL_OK);
        struct chat_tokens tokens = {items, special_tokens(config, items)};
        check_file(source, lines, &tokens, &total);
        buf_release(&text);
        arena_release(&arena);
    }
    print_message("%zu of %zu conversations agree\n", total.agreed, total.asked);
    assert_true(total.asked >= 676);
    assert_int_equal(total.agreed, total.asked);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_templates_render_as_jinja_does),
        cmocka_unit_test(families_render_as_hugging_face_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
