/* `verify`: the first rows answered twice, each time in another way, and compared token by token;
 * and beside the answers of another program, as far as these tell.
 *
 * The two ways: resident and streamed, where the budget holds the model; else, or where --engine
 * names one, that engine twice, with all threads and rows, and with one thread, a few rows and
 * another reader. Whatever can differ in how a job is run then differs, and the answers may not. */
#include "cli/cmd.h"

#include "base/log.h"
#include "base/mem.h"
#include "cli/child.h"
#include "cli/json_lines.h"
#include "cli/options.h"

#include <stdio.h>
#include <string.h>

#define ROWS_DEFAULT 20
#define DIFFERENCES_SHOWN 10

/* An answer as a results file tells it. */
struct answer {
    struct str id;        /* as JSON, so that 1 and "1" differ */
    struct str text;      /* data NULL: an error row */
    uint32_t *tokens;     /* [token_count] */
    uint32_t token_count; /* SIZE of usage when there are no ids */
    bool has_tokens;
};

struct answers {
    struct arena arena;
    struct answer *items;
    size_t count, cap;
};

static struct str keep(struct answers *answers, struct str text) {
    char *copy = arena_take(&answers->arena, text.len + 1);
    if (copy == NULL)
        return STR("");
    if (text.len > 0)
        memcpy(copy, text.data, text.len);
    return (struct str){copy, text.len};
}

/* The members of a plain line, or those in a Batch line's response. */
static void find_answer(const struct json *tree, const struct json **text,
                        const struct json **tokens) {
    const struct json *body = json_get(json_get(tree, "response"), "body");
    const struct json *choices = json_get(body, "choices");
    *text = json_get(tree, "text");
    *tokens = json_get(tree, "token_ids");
    if (!json_is(choices, JSON_ARRAY) || choices->count == 0)
        return;
    const struct json *choice = &choices->items[0], *message = json_get(choice, "message");
    *text = message != NULL ? json_get(message, "content") : json_get(choice, "text");
    *tokens = json_get(choice, "token_ids");
}

static enum status add_answer(void *ctx, const struct json *tree, struct error *err) {
    struct answers *answers = ctx;
    struct answer answer = {0};
    const struct json *id = json_get(tree, "custom_id"), *text, *tokens;
    struct buf name;
    if (id == NULL)
        id = json_get(tree, "id");
    if (id == NULL)
        return error_set(err, SL_ERR_INPUT, "an answer without an id");
    buf_init(&name);
    json_add(&name, id, false);
    answer.id = keep(answers, buf_str(&name));
    buf_release(&name);
    find_answer(tree, &text, &tokens);
    struct str found;
    if (json_string(text, &found))
        answer.text = keep(answers, found);
    if (json_is(tokens, JSON_ARRAY)) {
        answer.tokens = arena_array(&answers->arena, tokens->count, sizeof *answer.tokens);
        answer.has_tokens = answer.tokens != NULL;
        for (uint32_t i = 0; answer.has_tokens && i < tokens->count; i++) {
            uint64_t value = 0;
            if (!json_u64(&tokens->items[i], &value) || value > UINT32_MAX)
                return error_set(err, SL_ERR_INPUT, "token_ids hold what is no token");
            answer.tokens[i] = (uint32_t)value;
        }
        answer.token_count = tokens->count;
    }
    if (!mem_grow((void **)&answers->items, &answers->cap, answers->count + 1,
                  sizeof *answers->items))
        return error_memory(err, sizeof answer, "an answer");
    answers->items[answers->count++] = answer;
    return SL_OK;
}

static void answers_release(struct answers *answers) {
    arena_release(&answers->arena);
    mem_free(answers->items);
}

static const struct answer *find_id(const struct answers *answers, struct str id) {
    for (size_t i = 0; i < answers->count; i++) {
        if (str_equal(answers->items[i].id, id))
            return &answers->items[i];
    }
    return NULL;
}

/* ---- comparing */

static size_t first_difference(const struct answer *a, const struct answer *b) {
    size_t at = 0;
    while (at < a->token_count && at < b->token_count && a->tokens[at] == b->tokens[at])
        at++;
    return at;
}

static bool is_same_text(const struct answer *a, const struct answer *b) {
    return (a->text.data == NULL) == (b->text.data == NULL) && str_equal(a->text, b->text);
}

static bool is_same(const struct answer *a, const struct answer *b) {
    bool has_tokens = a->has_tokens && b->has_tokens;
    return is_same_text(a, b) && (!has_tokens || (a->token_count == b->token_count &&
                                                  first_difference(a, b) == a->token_count));
}

static void print_quoted(const char *before, struct str text, size_t from) {
    struct buf out;
    buf_init(&out);
    while (from > 0 && from < text.len && ((unsigned char)text.data[from] & 0xc0) == 0x80)
        from--; /* to the beginning of a character */
    size_t to = from + 40 < text.len ? from + 40 : text.len;
    while (to < text.len && ((unsigned char)text.data[to] & 0xc0) == 0x80)
        to++;
    json_add_string(&out, str_cut(text, from, to));
    printf("%s%.*s%s", before, (int)out.len, out.data != NULL ? out.data : "",
           to < text.len ? ".." : "");
    buf_release(&out);
}

static void show_difference(const struct answer *a, const struct answer *b, const char *first,
                            const char *second) {
    printf("row %.*s: ", STR_ARG(a->id));
    size_t token = a->has_tokens && b->has_tokens ? first_difference(a, b) : SIZE_MAX;
    size_t at = 0;
    while (at < a->text.len && at < b->text.len && a->text.data[at] == b->text.data[at])
        at++;
    if (token != SIZE_MAX)
        printf("token %zu, ", token);
    printf("character %zu: %s", at, first);
    print_quoted(" ", a->text, at);
    printf(", %s", second);
    print_quoted(" ", b->text, at);
    printf("\n");
}

/* ---- the two runs */

struct verify {
    struct child_words words;
    struct settings settings;
    const char *operands[2];
    char folder[PATH_MAX];
    struct answers ours, other, theirs;
    const struct way *ways[2];
};

/* How a run is made; its options win over the user's. */
struct way {
    const char *name;
    const char *options[12]; /* NULL ends them */
};
static const struct way resident = {"resident", {"--engine", "resident"}};
static const struct way resident_alone = {
    "resident with one thread", {"--engine", "resident", "--batch", "3", "--threads", "1"}};
static const struct way streamed = {"streamed", {"--engine", "stream"}};
static const struct way streamed_few = {"streamed", {"--engine", "stream", "--batch", "3"}};
static const struct way streamed_alone = {
    "streamed with one thread",
    {"--engine", "stream", "--batch", "3", "--threads", "1", "--reader", "sync"}};

static const char *const own_options[] = {"against", NULL};

/* A run with the user's options, and then what this one is about: later options win. */
static enum status run_once(const struct verify *verify, const char *name, const struct way *way,
                            struct answers *answers, struct error *err) {
    struct child child;
    char path[PATH_MAX];
    int code = 0;
    child_path(verify->folder, name, path);
    child_init(&child, "run");
    child_add_options(&child, &verify->words);
    child_add(&child, "-o");
    child_add(&child, path);
    child_add(&child, "--token-ids");
    if (verify->settings.limit == 0)
        child_add_number(&child, "--limit", ROWS_DEFAULT);
    for (const char *const *option = way->options; *option != NULL; option++)
        child_add(&child, *option);
    child_add_operands(&child, verify->operands, 2);
    enum status status = child_run(&child, NULL, false, &code, err);
    child_release(&child);
    TRY(status);
    if (code > 1)
        return error_set(err, code == 2 ? SL_ERR_USAGE : SL_ERR_ENV,
                         "verify: a run ended with exit code %d, so there is nothing to compare",
                         code);
    return json_lines_read(path, add_answer, answers, err);
}

/* Whether the budget holds the model: `plan` says so by its exit code. */
static enum status is_resident(const struct verify *verify, bool *out, struct error *err) {
    struct child child;
    int code = 0;
    child_init(&child, "plan");
    child_add_options(&child, &verify->words);
    child_add(&child, "--engine");
    child_add(&child, "resident");
    child_add_operands(&child, verify->operands, 2);
    enum status status = child_run(&child, NULL, true, &code, err);
    child_release(&child);
    *out = code <= 1;
    return status;
}

static enum status choose_ways(struct verify *verify, struct error *err) {
    struct str engine = str_from(verify->settings.engine);
    bool is_auto = str_is(engine, "auto"), fits = str_is(engine, "resident");
    if (is_auto)
        TRY(is_resident(verify, &fits, err));
    if (is_auto && !fits)
        log_note("the budget does not hold the model: it is streamed twice, the second time with "
                 "other rows together, one thread and another reader");
    verify->ways[0] = fits ? &resident : &streamed;
    verify->ways[1] = !fits ? &streamed_alone : is_auto ? &streamed_few : &resident_alone;
    return SL_OK;
}

static enum status run_both(struct verify *verify, struct error *err) {
    TRY(choose_ways(verify, err));
    TRY(run_once(verify, "first.jsonl", verify->ways[0], &verify->ours, err));
    return run_once(verify, "second.jsonl", verify->ways[1], &verify->other, err);
}

/* Prints what differs and "identical N/M"; *is_same_all tells. */
static enum status compare_both(const struct verify *verify, bool *is_same_all, struct error *err) {
    size_t same = 0, shown = 0, count = verify->ours.count;
    if (count == 0)
        return error_set(err, SL_ERR_INPUT, "verify: there are no rows to compare");
    for (size_t i = 0; i < count; i++) {
        const struct answer *a = &verify->ours.items[i], *b = find_id(&verify->other, a->id);
        if (b != NULL && is_same(a, b))
            same++;
        else if (b == NULL)
            printf("row %.*s: no answer when %s\n", STR_ARG(a->id), verify->ways[1]->name);
        else if (shown++ < DIFFERENCES_SHOWN)
            show_difference(a, b, verify->ways[0]->name, verify->ways[1]->name);
    }
    printf("identical %zu/%zu\n", same, count);
    *is_same_all = same == count && verify->other.count == count;
    return SL_OK;
}

/* Beside another program: what of its answers is the same. Only rows that both have count. */
static enum status compare_against(const struct verify *verify, bool *is_same_all,
                                   struct error *err) {
    size_t both = 0, text = 0, first = 0, length = 0, with_tokens = 0, shown = 0;
    for (size_t i = 0; i < verify->ours.count; i++) {
        const struct answer *a = &verify->ours.items[i], *b = find_id(&verify->theirs, a->id);
        if (b == NULL)
            continue;
        both++;
        bool has_tokens = a->has_tokens && b->has_tokens;
        bool is_first =
            has_tokens ? a->token_count > 0 && b->token_count > 0 && a->tokens[0] == b->tokens[0]
                       : a->text.len > 0 && b->text.len > 0 && a->text.data[0] == b->text.data[0];
        with_tokens += has_tokens;
        text += is_same(a, b);
        first += is_first || (a->text.len == 0 && b->text.len == 0);
        length += has_tokens ? a->token_count == b->token_count : a->text.len == b->text.len;
        if (!is_same(a, b) && shown++ < DIFFERENCES_SHOWN)
            show_difference(a, b, "here", "there");
    }
    if (both == 0)
        return error_set(err, SL_ERR_INPUT, "verify: no row of these is in the file of --against");
    const char *what = with_tokens == both ? "token"
                       : with_tokens == 0  ? "character"
                                           : "token or "
                                             "character";
    printf("against: the same answer %zu/%zu, the same first %s %zu/%zu, the same length %zu/%zu\n",
           text, both, what, first, both, length, both);
    *is_same_all = *is_same_all && text == both;
    return SL_OK;
}

static enum status verify_all(struct verify *verify, bool *is_same_all, struct error *err) {
    size_t count;
    struct buf config_text;
    buf_init(&config_text);
    options_defaults(&verify->settings);
    enum status status =
        options_parse(verify->words.argc, verify->words.argv, FOR_VERIFY, &verify->settings,
                      verify->operands, 2, &count, &config_text, err);
    const char *against = verify->settings.against;
    if (status == SL_OK && count < 2)
        status = error_set(err, SL_ERR_USAGE, "verify needs a MODEL and a file of ROWS");
    if (status == SL_OK)
        status = child_keep_config(&verify->words, buf_str(&config_text), verify->folder, err);
    if (status == SL_OK && against != NULL)
        status = json_lines_read(against, add_answer, &verify->theirs, err);
    if (status == SL_OK)
        status = run_both(verify, err);
    if (status == SL_OK)
        status = compare_both(verify, is_same_all, err);
    if (status == SL_OK && against != NULL)
        status = compare_against(verify, is_same_all, err);
    buf_release(&config_text);
    return status;
}

int cmd_verify(int argc, char **argv) {
    if (cmd_help_wanted(argc, argv, "verify"))
        return cmd_end(0);
    struct verify verify = {.words = {argc, argv, FOR_VERIFY, own_options, ""}};
    struct error err = {0};
    bool is_same_all = false;
    arena_init(&verify.ours.arena);
    arena_init(&verify.other.arena);
    arena_init(&verify.theirs.arena);
    signals_install();
    enum status status = child_make_folder(verify.folder, &err);
    if (status == SL_OK) {
        status = verify_all(&verify, &is_same_all, &err);
        child_remove_folder(verify.folder);
    }
    answers_release(&verify.ours);
    answers_release(&verify.other);
    answers_release(&verify.theirs);
    if (status != SL_OK)
        return cmd_end(cmd_fail(status, &err));
    return cmd_end(is_same_all ? 0 : 1);
}
