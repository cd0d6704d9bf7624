#include "hub/flow.h"

#include "base/clock.h"
#include "io/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PIECE SL_FLOW_PIECE_BYTES

/* The byte at a place of the stream. */
static uint8_t byte_at(uint64_t at) {
    return (uint8_t)(at * 2654435761u >> 13);
}

/* A stage that compares what it gets with the stream. */
struct reader {
    uint64_t at;
    size_t pieces, last_bytes;
    bool is_right;
    bool is_slow;
    size_t fails_at; /* piece; SIZE_MAX: none */
    _Atomic uint64_t done;
};

static bool compare(void *ctx, const void *data, size_t bytes) {
    struct reader *reader = ctx;
    const uint8_t *from = data;
    if (reader->is_slow)
        clock_sleep(0.001);
    reader->is_right = reader->is_right && (uintptr_t)data % SL_IO_ALIGN == 0;
    for (size_t i = 0; i < bytes; i += i + 997 < bytes ? 997 : 1)
        reader->is_right = reader->is_right && from[i] == byte_at(reader->at + i);
    reader->at += bytes;
    reader->last_bytes = bytes;
    atomic_store(&reader->done, reader->at);
    return reader->pieces++ != reader->fails_at;
}

struct world {
    struct reader readers[2];
    struct flow *flow;
    uint64_t at; /* added */
};

static void begin(struct world *world, uint64_t offset) {
    struct error err = {0};
    struct flow_stage stages[2];
    *world = (struct world){.at = offset};
    for (size_t i = 0; i < 2; i++) {
        world->readers[i] = (struct reader){.at = offset, .is_right = true, .fails_at = SIZE_MAX};
        stages[i] = (struct flow_stage){compare, &world->readers[i]};
    }
    assert_int_equal(flow_new(stages, 2, &world->flow, &err), SL_OK);
    flow_begin(world->flow, offset);
}

static bool add(struct world *world, size_t bytes) {
    uint8_t *data = malloc(bytes);
    assert_non_null(data);
    for (size_t i = 0; i < bytes; i++)
        data[i] = byte_at(world->at + i);
    bool is_taken = flow_add(world->flow, data, bytes);
    world->at += bytes;
    free(data);
    return is_taken;
}

static void all_have_seen(const struct world *world) {
    for (size_t i = 0; i < 2; i++) {
        assert_true(world->readers[i].is_right);
        assert_int_equal(world->readers[i].at, world->at);
    }
}

static void every_stage_sees_all_bytes_in_order(void **state) {
    (void)state;
    struct world world;
    begin(&world, 0);
    world.readers[1].is_slow = true;
    for (size_t bytes = 1; bytes < 3 * PIECE; bytes = bytes * 3 + 1)
        assert_true(add(&world, bytes));
    assert_true(flow_drain(world.flow));
    all_have_seen(&world);
    assert_true(flow_drain(world.flow));
    all_have_seen(&world);
    flow_free(world.flow);
}

static void pieces_end_at_multiples_of_their_size_wherever_they_begin(void **state) {
    (void)state;
    struct world world;
    begin(&world, PIECE + 12345);
    assert_true(add(&world, PIECE));
    assert_true(flow_drain(world.flow));
    all_have_seen(&world);
    assert_int_equal(world.readers[0].pieces, 2);
    assert_int_equal(world.readers[0].last_bytes, 12345);
    /* What was drained early does not move the ends. */
    assert_true(add(&world, PIECE - 12345));
    assert_true(flow_drain(world.flow));
    all_have_seen(&world);
    assert_int_equal(world.readers[0].pieces, 3);
    assert_int_equal(world.readers[0].last_bytes, PIECE - 12345);
    flow_free(world.flow);
}

static void who_adds_waits_for_the_slowest_stage(void **state) {
    (void)state;
    struct world world;
    begin(&world, 0);
    world.readers[0].is_slow = true;
    for (size_t i = 0; i < 12; i++) {
        assert_true(add(&world, PIECE));
        uint64_t waiting = world.at - atomic_load(&world.readers[0].done);
        assert_true(waiting <= SL_FLOW_PIECES * PIECE);
    }
    flow_free(world.flow);
    all_have_seen(&world); /* to free it waits, too */
}

static void a_stage_that_fails_is_told_once_and_not_called_again(void **state) {
    (void)state;
    struct world world;
    begin(&world, 0);
    world.readers[1].fails_at = 2;
    bool is_taken = true;
    for (size_t i = 0; i < 20 && is_taken; i++)
        is_taken = add(&world, PIECE);
    assert_false(is_taken);
    assert_false(flow_drain(world.flow));
    assert_int_equal(world.readers[1].pieces, 3);
    assert_true(flow_drain(world.flow));
    /* A new beginning. */
    world.at = world.readers[0].at = world.readers[1].at = 5;
    flow_begin(world.flow, 5);
    assert_true(add(&world, 2 * PIECE));
    assert_true(flow_drain(world.flow));
    all_have_seen(&world);
    flow_free(world.flow);
    flow_free(NULL);
}

static void a_failure_at_the_last_bytes_is_told_by_the_drain(void **state) {
    (void)state;
    struct world world;
    begin(&world, 0);
    world.readers[0].fails_at = 0;
    assert_true(add(&world, 10));
    assert_int_equal(world.readers[0].pieces, 0);
    assert_false(flow_drain(world.flow));
    flow_free(world.flow);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_stage_sees_all_bytes_in_order),
        cmocka_unit_test(pieces_end_at_multiples_of_their_size_wherever_they_begin),
        cmocka_unit_test(who_adds_waits_for_the_slowest_stage),
        cmocka_unit_test(a_stage_that_fails_is_told_once_and_not_called_again),
        cmocka_unit_test(a_failure_at_the_last_bytes_is_told_by_the_drain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
