/* Where rows part, and who waits for whom: rows by hand. */
#include "engine/fork.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define ROWS 4

static struct seq *rows[ROWS];

/* A row of `alike` tokens that all have, and others that only it has. */
static void add(size_t at, size_t alike, size_t count, uint32_t own) {
    uint32_t prompt[256];
    struct error err;
    for (size_t i = 0; i < count; i++)
        prompt[i] = i < alike ? (uint32_t)i : 1000 * own + (uint32_t)i;
    struct seq_request request = {.prompt = prompt, .prompt_count = count, .max_tokens = 5};
    assert_int_equal(seq_new(&request, &rows[at], &err), SL_OK);
}

static int four_rows(void **state) {
    (void)state;
    add(0, 120, 140, 1);
    add(1, 70, 150, 2);  /* 64 in full blocks */
    add(2, 100, 130, 3); /* 96 */
    add(3, 120, 121, 4); /* 112 */
    return 0;
}

static int free_rows(void **state) {
    (void)state;
    for (size_t i = 0; i < ROWS; i++)
        seq_free(rows[i], NULL);
    return 0;
}

/* As chosen by the scheduler up to `end`, or up to a fork that comes before it. */
static void choose(size_t at, size_t end) {
    rows[at]->fork = fork_next(rows, ROWS, at);
    if (rows[at]->fork > 0 && rows[at]->fork < end)
        end = rows[at]->fork;
    rows[at]->chosen = end - rows[at]->computed;
}

static void compute(size_t at) {
    rows[at]->computed += rows[at]->chosen;
    rows[at]->chosen = rows[at]->fork = 0;
}

static void the_nearest_fork_comes_first(void **state) {
    (void)state;
    static const size_t forks[] = {64, 96, 112};
    for (size_t i = 0; i < 3; i++) {
        choose(0, 140);
        assert_int_equal(rows[0]->fork, forks[i]);
        for (size_t other = i + 1; other < ROWS; other++) {
            assert_int_equal(fork_awaited(rows, other, true), forks[i]);
            assert_int_equal(fork_awaited(rows, other, false), forks[other - 1]);
        }
        compute(0);
        assert_int_equal(rows[0]->computed, forks[i]);
        rows[i + 1]->computed = forks[i]; /* it has joined, and waits no more */
        assert_int_equal(fork_awaited(rows, i + 1, true), 0);
    }
    assert_int_equal(fork_next(rows, ROWS, 0), 0);
    assert_int_equal(fork_next(rows, ROWS, 3), 0); /* nobody is behind it */
}

static void nobody_waits_for_a_row_without_tokens_in_the_pass(void **state) {
    (void)state;
    rows[0]->fork = fork_next(rows, ROWS, 0);
    for (size_t i = 1; i < ROWS; i++)
        assert_int_equal(fork_awaited(rows, i, true), 0);
    choose(0, 10); /* it does not come as far as the fork, but nearer */
    assert_int_equal(fork_awaited(rows, 1, true), 64);
    rows[0]->fork = 0; /* there is no page for its state */
    assert_int_equal(fork_awaited(rows, 1, true), 0);
}

static void what_is_behind_a_row_is_no_fork_of_it(void **state) {
    (void)state;
    rows[0]->computed = 65;
    assert_int_equal(fork_next(rows, ROWS, 0), 96);
    assert_int_equal(fork_awaited(rows, 1, false), 0);
    rows[0]->computed = 139; /* one token left: it decodes */
    assert_int_equal(fork_next(rows, ROWS, 0), 0);
    assert_int_equal(fork_awaited(rows, 3, false), 96); /* by the third */
}

static void forks_save_32_tokens_at_least(void **state) {
    (void)state;
    rows[1]->computed = 33;
    assert_int_equal(fork_next(rows, ROWS, 0), 96);
    rows[1]->computed = 32;
    assert_int_equal(fork_next(rows, ROWS, 0), 64);
    choose(0, 140);
    rows[1]->computed = 33;
    assert_int_equal(fork_awaited(rows, 1, true), 0);
}

static void rows_that_turn_otherwise_or_give_logits_early_have_no_fork(void **state) {
    (void)state;
    rows[1]->chain.kind = rows[2]->chain.kind = 1;
    assert_int_equal(fork_next(rows, ROWS, 0), 112);
    assert_int_equal(fork_next(rows, ROWS, 1), 64); /* those two */
    rows[3]->score_next = 81;                       /* the logits of 80 tokens are not wanted */
    assert_int_equal(fork_next(rows, ROWS, 0), 80);
}

static void forks_that_are_told_count_without_a_row(void **state) {
    (void)state;
    rows[3]->fork_tokens = 96;
    assert_int_equal(fork_next(rows, ROWS, 3), 96);
    rows[3]->fork_known = 48;
    assert_int_equal(fork_next(rows, ROWS, 3), 48);
    rows[3]->computed = 48;
    assert_int_equal(fork_next(rows, ROWS, 3), 96);
    rows[3]->computed = 96;
    assert_int_equal(fork_next(rows, ROWS, 3), 0);
    rows[0]->fork_tokens = 80;
    assert_int_equal(fork_next(rows, ROWS, 0), 64);
    rows[0]->fork_tokens = 32;
    assert_int_equal(fork_next(rows, ROWS, 0), 32);
}

#define FORK_TEST(name) cmocka_unit_test_setup_teardown(name, four_rows, free_rows)

int main(void) {
    const struct CMUnitTest tests[] = {
        FORK_TEST(the_nearest_fork_comes_first),
        FORK_TEST(nobody_waits_for_a_row_without_tokens_in_the_pass),
        FORK_TEST(what_is_behind_a_row_is_no_fork_of_it),
        FORK_TEST(forks_save_32_tokens_at_least),
        FORK_TEST(rows_that_turn_otherwise_or_give_logits_early_have_no_fork),
        FORK_TEST(forks_that_are_told_count_without_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
