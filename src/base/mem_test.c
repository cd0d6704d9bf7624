/* Checked sizes, growing arrays, arenas, fault points and clocks. */
#include "base/mem.h"

#include "base/clock.h"
#include "base/fault_for_test.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void sizes_refuse_to_overflow(void **state) {
    (void)state;
    size_t out = 77;
    assert_false(size_add(SIZE_MAX, 1, &out));
    assert_false(size_mul(SIZE_MAX / 2 + 1, 2, &out));
    assert_int_equal(out, 77);
    assert_true(size_add(SIZE_MAX - 1, 1, &out));
    assert_true(out == SIZE_MAX);
    assert_true(size_mul((size_t)1 << 32, 1u << 31, &out));
    assert_true(out == (size_t)1 << 63);
    assert_true(size_mul(0, SIZE_MAX, &out));
    assert_int_equal(out, 0);
}

static void new_memory_is_zeroed_or_absent(void **state) {
    (void)state;
    unsigned char *bytes = mem_new(1000, 3);
    assert_non_null(bytes);
    for (size_t i = 0; i < 3000; i++)
        assert_int_equal(bytes[i], 0);
    mem_free(bytes);
    void *nothing = mem_new(0, 8);
    assert_non_null(nothing);
    mem_free(nothing);
    mem_free(NULL);
    assert_null(mem_new(SIZE_MAX / 4, 8));
}

static void array_grows_and_keeps_its_items(void **state) {
    (void)state;
    void *items = NULL;
    size_t cap = 0;
    for (size_t count = 0; count < 5000; count++) {
        assert_true(mem_grow(&items, &cap, count + 1, sizeof(size_t)));
        assert_true(cap >= count + 1);
        ((size_t *)items)[count] = count * 3;
    }
    for (size_t i = 0; i < 5000; i++)
        assert_int_equal(((size_t *)items)[i], i * 3);
    assert_true(cap <= 10000);
    size_t before = cap;
    assert_false(mem_grow(&items, &cap, SIZE_MAX, sizeof(size_t)));
    assert_false(mem_grow(&items, &cap, SIZE_MAX / 8, sizeof(size_t)));
    assert_int_equal(cap, before);
    assert_int_equal(((size_t *)items)[4999], 14997);
    mem_free(items);
}

static void array_that_cannot_grow_stays_as_it_was(void **state) {
    (void)state;
    void *items = NULL;
    size_t cap = 0;
    fault_arm(SL_FAULT_ALLOC, 1, false);
    assert_false(mem_grow(&items, &cap, 1, 1));
    assert_null(items);
    assert_int_equal(cap, 0);
    assert_true(mem_grow(&items, &cap, 1, 1));
    mem_free(items);
}

static void arena_gives_zeroed_aligned_pieces_apart(void **state) {
    (void)state;
    struct arena arena;
    unsigned char *taken[600];
    arena_init(&arena);
    for (size_t i = 0; i < 600; i++) {
        size_t bytes = i % 50 == 49 ? 30000 : i; /* now and then a big one among small ones */
        taken[i] = arena_take(&arena, bytes);
        assert_non_null(taken[i]);
        assert_int_equal((uintptr_t)taken[i] % 16, 0);
        for (size_t j = 0; j < bytes; j++)
            assert_int_equal(taken[i][j], 0);
        memset(taken[i], (int)(i % 251) + 1, bytes);
    }
    for (size_t i = 0; i < 600; i++) {
        size_t bytes = i % 50 == 49 ? 30000 : i;
        for (size_t j = 0; j < bytes; j++)
            assert_int_equal(taken[i][j], i % 251 + 1);
    }
    assert_true(arena.used_bytes >= 12 * 30000);
    arena_release(&arena);
    assert_int_equal(arena.used_bytes, 0);
    assert_non_null(arena_take(&arena, 10)); /* usable again */
    arena_release(&arena);
}

static void arena_refuses_sizes_that_overflow(void **state) {
    (void)state;
    struct arena arena;
    arena_init(&arena);
    assert_null(arena_take(&arena, SIZE_MAX));
    assert_null(arena_take(&arena, SIZE_MAX - 20));
    assert_null(arena_array(&arena, SIZE_MAX / 2, 3));
    assert_non_null(arena_array(&arena, 3, 5));
    arena_release(&arena);
}

static void arena_without_memory_gives_null_and_goes_on(void **state) {
    (void)state;
    struct arena arena;
    arena_init(&arena);
    fault_arm(SL_FAULT_ALLOC, 1, false);
    assert_null(arena_take(&arena, 100));
    assert_non_null(arena_take(&arena, 100));
    arena_release(&arena);
}

static void take_one(struct arena *arena) {
    arena_take(arena, 1);
}

static void round_up_the_largest(struct arena *arena) {
    (void)arena;
    assert_true(size_round_up(SIZE_MAX, 2) > 0);
}

static void aborts(void (*call)(struct arena *arena), struct arena *arena) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        close(STDERR_FILENO);
        call(arena);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
}

static void sealed_arena_aborts_on_a_take(void **state) {
    (void)state;
    struct arena arena;
    arena_init(&arena);
    assert_non_null(arena_take(&arena, 1));
    arena_seal(&arena);
    aborts(take_one, &arena);
    arena_release(&arena);
}

static void a_division_that_is_rounded_up_has_room_for_the_rest(void **state) {
    (void)state;
    assert_int_equal(size_divide_up(0, 16), 0);
    assert_int_equal(size_divide_up(1, 16), 1);
    assert_int_equal(size_divide_up(16, 16), 1);
    assert_int_equal(size_divide_up(17, 16), 2);
    assert_int_equal(size_divide_up(7, 1), 7);
    for (size_t value = 0; value < 100; value++) {
        for (size_t unit = 1; unit < 20; unit++) {
            size_t count = 0;
            while (count * unit < value)
                count++;
            assert_int_equal(size_divide_up(value, unit), count);
        }
    }
}

static void rounding_goes_up_to_a_multiple_and_never_round_the_end(void **state) {
    (void)state;
    assert_int_equal(size_round_up(0, 16), 0);
    assert_int_equal(size_round_up(1, 16), 16);
    assert_int_equal(size_round_up(16, 16), 16);
    assert_int_equal(size_round_up(17, 12), 24);
    assert_int_equal(size_round_up(7, 1), 7);
    assert_true(size_round_up(SIZE_MAX - 1, 2) == SIZE_MAX - 1);
    aborts(round_up_the_largest, NULL);
}

static void fault_fires_at_the_nth_call_alone(void **state) {
    (void)state;
    assert_false(fault_hit(SL_FAULT_READ));
    fault_arm(SL_FAULT_READ, 3, false);
    bool hits[5];
    for (size_t i = 0; i < 5; i++)
        hits[i] = fault_hit(SL_FAULT_READ);
    assert_memory_equal(hits, ((bool[]){false, false, true, false, false}), sizeof hits);
    assert_int_equal(fault_count(SL_FAULT_READ), 5);
    assert_false(fault_hit(SL_FAULT_WRITE));
}

static void lasting_fault_fires_from_the_nth_call_on(void **state) {
    (void)state;
    fault_arm(SL_FAULT_READ, 2, true);
    assert_false(fault_hit(SL_FAULT_READ));
    assert_true(fault_hit(SL_FAULT_READ));
    assert_true(fault_hit(SL_FAULT_READ));
    fault_arm(SL_FAULT_READ, 0, true);
    assert_int_equal(fault_count(SL_FAULT_READ), 0);
    assert_false(fault_hit(SL_FAULT_READ));
}

static void clock_moves_on_while_sleeping(void **state) {
    (void)state;
    double before = clock_seconds();
    clock_sleep(0.02);
    double slept = clock_seconds() - before;
    assert_true(slept >= 0.0199);
    clock_sleep(0);
    clock_sleep(-5);
    assert_true(clock_wall_seconds() > 1700000000); /* November 2023 */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_refuse_to_overflow),
        cmocka_unit_test(new_memory_is_zeroed_or_absent),
        cmocka_unit_test(array_grows_and_keeps_its_items),
        cmocka_unit_test_teardown(array_that_cannot_grow_stays_as_it_was, fault_disarm_all),
        cmocka_unit_test(arena_gives_zeroed_aligned_pieces_apart),
        cmocka_unit_test(arena_refuses_sizes_that_overflow),
        cmocka_unit_test_teardown(arena_without_memory_gives_null_and_goes_on, fault_disarm_all),
        cmocka_unit_test(sealed_arena_aborts_on_a_take),
        cmocka_unit_test(a_division_that_is_rounded_up_has_room_for_the_rest),
        cmocka_unit_test(rounding_goes_up_to_a_multiple_and_never_round_the_end),
        cmocka_unit_test_teardown(fault_fires_at_the_nth_call_alone, fault_disarm_all),
        cmocka_unit_test_teardown(lasting_fault_fires_from_the_nth_call_on, fault_disarm_all),
        cmocka_unit_test(clock_moves_on_while_sleeping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
