/* Teams: every item once, by whoever. Meant to be run under TSan too. */
#include "base/team.h"

#include "base/clock.h"
#include "base/fault_for_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include <cmocka.h>

#define ITEMS 1000u

struct tally {
    unsigned done[ITEMS]; /* plain on purpose: TSan sees two threads at one item */
    size_t threads;
    _Atomic unsigned is_out_of_range;
    double seconds;
};

static void count_item(void *ctx, size_t item, size_t worker) {
    struct tally *tally = ctx;
    if (item >= ITEMS || worker >= tally->threads)
        atomic_store(&tally->is_out_of_range, 1);
    else
        tally->done[item]++;
    if (tally->seconds > 0)
        clock_sleep(tally->seconds);
}

static struct team *new_team(size_t threads) {
    struct team *team = NULL;
    struct error err;
    assert_int_equal(team_new(threads, &team, &err), SL_OK);
    assert_int_equal(team_threads(team), threads);
    return team;
}

static void every_item_is_done_once(void **state) {
    (void)state;
    static const size_t teams[] = {1, 2, 3, 8};
    for (size_t t = 0; t < sizeof teams / sizeof *teams; t++) {
        struct team *team = new_team(teams[t]);
        static const size_t counts[] = {0, 1, 2, 7, ITEMS};
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            struct tally tally = {.threads = teams[t]};
            team_run(team, count_item, &tally, counts[c]);
            assert_false(atomic_load(&tally.is_out_of_range));
            for (size_t i = 0; i < ITEMS; i++)
                assert_int_equal(tally.done[i], i < counts[c] ? 1 : 0);
        }
        team_free(team);
    }
}

/* Runs that follow each other at once, so that workers wake late and meet the next run. */
static void many_short_runs_follow_each_other(void **state) {
    (void)state;
    struct team *team = new_team(4);
    struct tally tally = {.threads = 4};
    for (unsigned run = 0; run < 5000; run++)
        team_run(team, count_item, &tally, 2 + run % 9);
    assert_false(atomic_load(&tally.is_out_of_range));
    assert_int_equal(tally.done[0], 5000);
    assert_int_equal(tally.done[1], 5000);
    for (size_t i = 2; i < 10; i++) /* run % 9 > i - 2: by hand, 5000 = 555 x 9 + 5 */
        assert_int_equal(tally.done[i], 555 * (10 - i) + (i < 6 ? 6 - i : 0));
    team_free(team);
}

/* Pauses long enough that workers sleep, and items long enough that the caller does. */
static void sleepers_wake_for_work_and_at_its_end(void **state) {
    (void)state;
    struct team *team = new_team(3);
    struct tally tally = {.threads = 3, .seconds = 0.003};
    for (int run = 0; run < 20; run++) {
        clock_sleep(0.001);
        team_run(team, count_item, &tally, 3);
    }
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(tally.done[i], 20);
    team_free(team);
}

static void items_are_shared_among_threads(void **state) {
    (void)state;
    struct team *team = new_team(4);
    struct tally tally = {.threads = 4, .seconds = 0.01};
    double start = clock_seconds();
    team_run(team, count_item, &tally, 16);
    double seconds = clock_seconds() - start;
    /* 0.16 s one after the other, 0.04 s when shared; sleeping needs no core. */
    assert_true(seconds < 0.15);
    assert_true(seconds >= 0.039);
    team_free(team);
}

struct order {
    _Atomic size_t next;
    size_t given[ITEMS];
};

static void note_order(void *ctx, size_t item, size_t worker) {
    struct order *order = ctx;
    (void)worker;
    order->given[atomic_fetch_add(&order->next, 1)] = item;
}

static void one_thread_takes_items_in_order(void **state) {
    (void)state;
    struct team *team = new_team(1);
    struct order order = {0};
    team_run(team, note_order, &order, ITEMS);
    for (size_t i = 0; i < ITEMS; i++)
        assert_int_equal(order.given[i], i);
    team_free(team);
}

static void idle_team_ends_at_once(void **state) {
    (void)state;
    team_free(NULL);
    for (int i = 0; i < 50; i++)
        team_free(new_team(4));
}

static void thread_that_does_not_start_is_an_error(void **state) {
    (void)state;
    struct team *team = NULL;
    struct error err;
    for (uint64_t nth = 1; nth <= 3; nth++) {
        fault_arm(SL_FAULT_THREAD, nth, false);
        assert_int_equal(team_new(4, &team, &err), SL_ERR_ENV);
        assert_null(team);
        assert_non_null(strstr(err.text, "thread"));
    }
    fault_arm(SL_FAULT_THREAD, 0, false);
    for (uint64_t nth = 1; nth <= 2; nth++) {
        fault_arm(SL_FAULT_ALLOC, nth, false);
        assert_int_equal(team_new(4, &team, &err), SL_ERR_ENV);
        assert_null(team);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_is_done_once),
        cmocka_unit_test(many_short_runs_follow_each_other),
        cmocka_unit_test(sleepers_wake_for_work_and_at_its_end),
        cmocka_unit_test(items_are_shared_among_threads),
        cmocka_unit_test(one_thread_takes_items_in_order),
        cmocka_unit_test(idle_team_ends_at_once),
        cmocka_unit_test_teardown(thread_that_does_not_start_is_an_error, fault_disarm_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
