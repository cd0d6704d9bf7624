/* Tokenizers from the vocabularies of GGUF files: toys, with values worked out by hand. */
#include "text/tokenizer_for_test.h"
#include "text/vocab_pre.h"

/* Byte-level: 0 to 7, a control token, a user-defined one, a normal one that looks special. */
static const struct str tokens[] = {
    STR("a"),  STR("b"),  STR("c"),   STR("Ġ"),   STR("1"),  STR("2"),
    STR("ab"), STR("Ġa"), STR("<s>"), STR("<t>"), STR("12"),
};
static const int64_t types[] = {1, 1, 1, 1, 1, 1, 1, 1, 3, 4, 1};
static const struct str merges[] = {STR("a b"), STR("Ġ a"), STR("1 2")};

static struct vocab_source make_source(const char *pre) {
    return (struct vocab_source){.name = "toy.gguf",
                                 .model = STR("gpt2"),
                                 .pre = str_from(pre),
                                 .tokens = tokens,
                                 .token_count = sizeof tokens / sizeof tokens[0],
                                 .types = types,
                                 .merges = merges,
                                 .merge_count = sizeof merges / sizeof merges[0],
                                 .bos = 8,
                                 .eos = 9,
                                 .unknown = -1,
                                 .padding = -1};
}

static struct tokenizer *make(const struct vocab_source *source) {
    struct tokenizer *tokenizer = NULL;
    struct error err = {0};
    if (tokenizer_from_vocab(source, &tokenizer, &err) != SL_OK)
        fail_msg("%s", err.text);
    return tokenizer;
}

static void refused(const struct vocab_source *source, const char *word) {
    struct tokenizer *tokenizer = NULL;
    struct error err = {0};
    assert_int_equal(tokenizer_from_vocab(source, &tokenizer, &err), SL_ERR_ENV);
    assert_null(tokenizer);
    if (!strstr(err.text, word) || !strstr(err.text, "toy.gguf"))
        fail_msg("\"%s\" does not name %s", err.text, word);
}

static void control_tokens_are_special_and_user_ones_added(void **state) {
    (void)state;
    struct vocab_source source = make_source("gpt-2");
    struct tokenizer *tokenizer = make(&source);
    CHECK_IDS(tokenizer, "ab a<s><t>", 6, 7, 8, 9);
    CHECK_TEXT(tokenizer, true, "ab a<t>", 6, 7, 8, 9);
    assert_true(tokenizer_is_special(tokenizer, 8));
    assert_false(tokenizer_is_special(tokenizer, 9));
    tokenizer_free(tokenizer);
}

static void names_choose_the_pre_tokenizer(void **state) {
    (void)state;
    struct vocab_source source = make_source("gpt-2");
    struct tokenizer *tokenizer = make(&source);
    CHECK_IDS(tokenizer, "12", 10);
    tokenizer_free(tokenizer);
    source = make_source("smollm"); /* every digit alone */
    tokenizer = make(&source);
    CHECK_IDS(tokenizer, "12", 4, 5);
    CHECK_IDS(tokenizer, "ab 12", 6, 3, 4, 5);
    tokenizer_free(tokenizer);
}

static void whole_words_are_looked_up_for_llama_bpe(void **state) {
    (void)state;
    struct vocab_source source = make_source("llama-bpe");
    source.merge_count = 1; /* 1 and 2 no longer merge */
    struct tokenizer *tokenizer = make(&source);
    CHECK_IDS(tokenizer, "12", 10);
    tokenizer_free(tokenizer);
    source.pre = STR("gpt-2");
    tokenizer = make(&source);
    CHECK_IDS(tokenizer, "12", 4, 5);
    tokenizer_free(tokenizer);
}

static void bos_and_eos_are_added_when_the_file_says_so(void **state) {
    (void)state;
    struct vocab_source source = make_source("gpt-2");
    source.adds_bos = source.adds_eos = true;
    struct tokenizer *tokenizer = make(&source);
    CHECK_SPECIAL_IDS(tokenizer, "ab", 8, 6, 9);
    CHECK_IDS(tokenizer, "ab", 6);
    tokenizer_free(tokenizer);
    source.bos = -1;
    refused(&source, "add_bos_token");
}

static void every_name_of_the_table_works(void **state) {
    (void)state;
    static const char *const names[] = {
        "gpt-2",          "phi-2",       "smollm",      "starcoder",  "refact",    "command-r",
        "llama-bpe",      "llama3",      "falcon3",     "dbrx",       "smaug-bpe", "glm4",
        "chatglm-bpe",    "qwen2",       "qwen35",      "stablelm2",  "grok-2",    "deepseek-llm",
        "deepseek-coder", "deepseek-v3", "falcon",      "tekken",     "gpt-4o",    "llama4",
        "tiny_aya",       "kimi-k2",     "bailingmoe",  "seed-coder", "exaone",    "exaone4",
        "exaone-moe",     "bloom",       "viking",      "jais-2",     "minicpm5",  "youtu",
        "laguna",         "spark2_5",    "chameleon",   "default",    "olmo",      "minerva-7b",
        "ufakzeka",       "mpt",         "modern-bert", "trillion",   "hunyuan",   "poro-chat"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct vocab_source source = make_source(names[i]);
        struct tokenizer *tokenizer = make(&source);
        CHECK_IDS(tokenizer, "ab", 6);
        tokenizer_free(tokenizer);
    }
    assert_null(vocab_pre_find(STR("gpt")));
    assert_null(vocab_pre_find(STR("gpt-2 phi-2")));
    assert_null(vocab_pre_find(STR("")));
}

/* SentencePiece: scores in place of merges. */
static const struct str pieces[] = {
    STR("<unk>"), STR("<s>"), STR("<0x41>"), STR("▁"),  STR("a"),   STR("b"),
    STR("c"),     STR("ab"),  STR("bc"),     STR("▁a"), STR("abc"),
};
static const int64_t piece_types[] = {2, 3, 6, 1, 1, 1, 1, 1, 1, 1, 1};
static const double scores[] = {0, 0, 0, -9, -9, -9, -9, -2, -1, -2, -3};

static struct vocab_source make_pieces(void) {
    return (struct vocab_source){.name = "toy.gguf",
                                 .model = STR("llama"),
                                 .tokens = pieces,
                                 .token_count = sizeof pieces / sizeof pieces[0],
                                 .types = piece_types,
                                 .scores = scores,
                                 .bos = 1,
                                 .eos = -1,
                                 .unknown = 0,
                                 .padding = -1,
                                 .adds_space_prefix = true};
}

static void best_score_merges_first_then_leftmost(void **state) {
    (void)state;
    struct vocab_source source = make_pieces();
    struct tokenizer *tokenizer = make(&source);
    CHECK_IDS(tokenizer, "abc", 9, 8);      /* ▁abc: bc, then ▁a (abc is worse) */
    CHECK_IDS(tokenizer, "babc", 3, 5, 10); /* bc, then a + bc */
    CHECK_IDS(tokenizer, "ab", 9, 5);       /* ▁a and ab have one score: the left one */
    CHECK_IDS(tokenizer, "cab A", 3, 6, 7, 3, 2);
    CHECK_IDS(tokenizer, "éé", 3, 0);
    tokenizer_free(tokenizer);
}

static void space_prefix_is_put_and_taken_as_the_file_says(void **state) {
    (void)state;
    struct vocab_source source = make_pieces();
    struct tokenizer *tokenizer = make(&source);
    CHECK_IDS(tokenizer, "a<s>a", 9, 1, 9);
    CHECK_TEXT(tokenizer, true, "ab a", 9, 5, 9);
    tokenizer_free(tokenizer);
    source.adds_space_prefix = false;
    tokenizer = make(&source);
    CHECK_IDS(tokenizer, "ab a", 7, 9);
    CHECK_TEXT(tokenizer, true, " ab a", 9, 5, 9);
    tokenizer_free(tokenizer);
}

static void defaults_of_bos_follow_the_kind(void **state) {
    (void)state;
    assert_true(tokenizer_vocab_adds_bos(STR("llama"), STR("default")));
    assert_true(tokenizer_vocab_adds_bos(STR("gpt2"), STR("llama-bpe")));
    assert_false(tokenizer_vocab_adds_bos(STR("gpt2"), STR("qwen2")));
    assert_false(tokenizer_vocab_adds_bos(STR("gpt2"), STR("nothing")));
}

static void wrong_vocabularies_are_refused_by_name(void **state) {
    (void)state;
    struct vocab_source source = make_source("unheard-of");
    refused(&source, "unheard-of");
    source = make_source("");
    refused(&source, "tokenizer.ggml.pre");
    source = make_source("gpt-2");
    source.model = STR("t5");
    refused(&source, "t5");
    source = make_source("gpt-2");
    source.merge_count = 0;
    refused(&source, "merges");
    source = make_source("gpt-2");
    source.bos = 11;
    refused(&source, "11");
    source = make_source("gpt-2");
    source.token_count = 0;
    refused(&source, "tokens");
    static const struct str bad_merge[] = {STR("ab")}, unknown_merge[] = {STR("a x")};
    source = make_source("gpt-2");
    source.merges = bad_merge;
    source.merge_count = 1;
    refused(&source, "merge 0");
    source.merges = unknown_merge;
    refused(&source, "\"x\"");
    source = make_pieces();
    source.scores = NULL;
    refused(&source, "scores");
    static const double not_numbers[11] = {[4] = __builtin_nan("")};
    source.scores = not_numbers;
    refused(&source, "token 4");
    static const struct str no_utf8[] = {STR("\xff")};
    source = make_source("gpt-2");
    source.tokens = no_utf8;
    source.token_count = 1;
    source.bos = source.eos = -1;
    refused(&source, "UTF-8");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_tokens_are_special_and_user_ones_added),
        cmocka_unit_test(names_choose_the_pre_tokenizer),
        cmocka_unit_test(whole_words_are_looked_up_for_llama_bpe),
        cmocka_unit_test(bos_and_eos_are_added_when_the_file_says_so),
        cmocka_unit_test(every_name_of_the_table_works),
        cmocka_unit_test(best_score_merges_first_then_leftmost),
        cmocka_unit_test(space_prefix_is_put_and_taken_as_the_file_says),
        cmocka_unit_test(defaults_of_bos_follow_the_kind),
        cmocka_unit_test(wrong_vocabularies_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
