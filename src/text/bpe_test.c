/* Merging words, against a plain implementation of the rule (lowest rank, then leftmost, again and
 * again over the whole word) in the test itself. */
#include "text/bpe.h"

#include "text/tokenizer_for_test.h"

#define LETTERS 4u

struct world { /* a random vocabulary over a few letters */
    struct vocab vocab;
    struct bpe bpe;
    uint32_t left[200], right[200], whole[200];
    size_t count;
    uint64_t seed;
};

static uint32_t draw(struct world *world, uint32_t below) {
    world->seed = world->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(world->seed >> 33) % below;
}

static void make_world(struct world *world, uint64_t seed, size_t merges, bool cuts_words) {
    struct error err = {0};
    *world = (struct world){.seed = seed};
    vocab_init(&world->vocab);
    for (uint32_t i = 0; i < LETTERS; i++) {
        char letter = (char)('a' + i);
        assert_int_equal(vocab_add(&world->vocab, (struct str){&letter, 1}, i, &err), SL_OK);
    }
    while (world->count < merges) {
        uint32_t left = draw(world, (uint32_t)world->vocab.size), whole;
        uint32_t right = draw(world, (uint32_t)world->vocab.size);
        struct buf joined;
        buf_init(&joined);
        buf_add(&joined, world->vocab.tokens[left]);
        buf_add(&joined, world->vocab.tokens[right]);
        if (!vocab_find(&world->vocab, buf_str(&joined), &whole)) {
            whole = (uint32_t)world->vocab.size;
            assert_int_equal(vocab_add(&world->vocab, buf_str(&joined), whole, &err), SL_OK);
            world->left[world->count] = left;
            world->right[world->count] = right;
            world->whole[world->count++] = whole;
        }
        buf_release(&joined);
    }
    struct bpe_options options = {.cuts_words = cuts_words};
    assert_int_equal(bpe_init(&world->bpe, &world->vocab, &options, merges, &err), SL_OK);
    for (size_t i = 0; i < world->count; i++)
        assert_int_equal(bpe_add_merge(&world->bpe, world->vocab.tokens[world->left[i]],
                                       world->vocab.tokens[world->right[i]], (uint32_t)i, &err),
                         SL_OK);
    assert_int_equal(bpe_finish(&world->bpe, &err), SL_OK);
}

static void free_world(struct world *world) {
    bpe_release(&world->bpe);
    vocab_release(&world->vocab);
}

/* The rule, word for word. */
static size_t merge_plainly(const struct world *world, uint32_t *symbols, size_t count) {
    for (;;) {
        size_t best_rank = world->count, best_at = 0;
        for (size_t at = 0; at + 1 < count; at++) {
            for (size_t rank = 0; rank < best_rank; rank++) {
                if (world->left[rank] == symbols[at] && world->right[rank] == symbols[at + 1]) {
                    best_rank = rank;
                    best_at = at;
                }
            }
        }
        if (best_rank == world->count)
            return count;
        symbols[best_at] = world->whole[best_rank];
        count--;
        memmove(symbols + best_at + 1, symbols + best_at + 2,
                (count - best_at - 1) * sizeof *symbols);
    }
}

static void check_words(struct world *world, size_t length, size_t words) {
    struct bpe_scratch scratch = {0};
    char *text = mem_new(length, 1);
    uint32_t *symbols = mem_new(length, sizeof *symbols);
    assert_non_null(text);
    assert_non_null(symbols);
    for (size_t word = 0; word < words; word++) {
        struct ids ids = {0};
        struct error err = {0};
        for (size_t i = 0; i < length; i++) {
            symbols[i] = draw(world, LETTERS);
            text[i] = (char)('a' + symbols[i]);
        }
        size_t count = merge_plainly(world, symbols, length);
        assert_int_equal(bpe_encode(&world->bpe, &scratch, (struct str){text, length}, &ids, &err),
                         SL_OK);
        assert_int_equal(ids.count, count);
        assert_memory_equal(ids.items, symbols, count * sizeof *symbols);
        ids_release(&ids);
    }
    bpe_scratch_release(&scratch);
    mem_free(text);
    mem_free(symbols);
}

static void short_words_merge_by_the_rule(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct world world;
        make_world(&world, seed, 5 * seed, false);
        for (size_t length = 1; length <= 12; length++)
            check_words(&world, length, 20);
        free_world(&world);
    }
}

static void long_words_merge_by_the_same_rule(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct world world;
        make_world(&world, seed, 8 * seed, false);
        check_words(&world, 48, 5); /* the last that is searched, the first that has a heap */
        check_words(&world, 49, 5);
        check_words(&world, 300, 2);
        free_world(&world);
    }
}

static void cutting_words_changes_no_ids(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct world world;
        make_world(&world, seed, 3 + seed % 4, true);
        for (size_t length = 1; length <= 200; length = length * 3 + 1)
            check_words(&world, length, 10);
        free_world(&world);
    }
}

static void long_word_of_one_letter_is_quick(void **state) {
    (void)state;
    enum { LENGTH = 1 << 18 };
    struct toy toy = {.vocab = "{\"a\":0,\"aa\":1,\"aaaa\":2}", .merges = "[\"a a\",\"aa aa\"]"};
    struct tokenizer *tokenizer = toy_new(&toy);
    struct encode_options options = {0};
    struct ids ids = {0};
    struct error err = {0};
    char *text = mem_new(LENGTH, 1);
    assert_non_null(text);
    memset(text, 'a', LENGTH);
    assert_int_equal(
        tokenizer_encode(tokenizer, (struct str){text, LENGTH - 1}, &options, &ids, &err), SL_OK);
    assert_int_equal(ids.count, LENGTH / 4 + 1); /* the last three are aa and a */
    assert_int_equal(ids.items[LENGTH / 4 - 2], 2);
    assert_int_equal(ids.items[LENGTH / 4 - 1], 1);
    assert_int_equal(ids.items[LENGTH / 4], 0);
    ids_release(&ids);
    mem_free(text);
    tokenizer_free(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_words_merge_by_the_rule),
        cmocka_unit_test(long_words_merge_by_the_same_rule),
        cmocka_unit_test(cutting_words_changes_no_ids),
        cmocka_unit_test(long_word_of_one_letter_is_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
