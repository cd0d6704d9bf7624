/* Providers on a real file: the bytes that arrive, over passes and borders, however far ahead they
 * were hinted; what is read how often; failures and stops. */
#include "weights/provider.h"

#include "base/fault_for_test.h"
#include "io/ring_for_test.h"
#include "io/ring_method.h"
#include "weights/matrix_for_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define DATA_BYTES ((size_t)2700000)
#define TENSORS 30
#define BLOCK_BYTES ((size_t)128 << 10)

static uint8_t *data; /* what the file holds */
static char path[64];
static struct file *file;
static struct index model;
static struct tensor tensors[TENSORS];
static struct layout layout;

static int make_model(void **state) {
    (void)state;
    data = malloc(DATA_BYTES);
    if (data == NULL)
        return -1;
    uint64_t seed = 9;
    for (size_t i = 0; i < DATA_BYTES; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        data[i] = (uint8_t)(seed >> 40);
    }
    snprintf(path, sizeof path, "/tmp/sluice-provider-XXXXXX");
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, data, DATA_BYTES) != (ssize_t)DATA_BYTES || close(fd) != 0)
        return -1;
    struct error err = {0};
    if (file_open(path, true, &file, &err) != SL_OK)
        return -1;
    model.files = &file;
    model.file_count = 1;
    struct layout_item items[TENSORS];
    for (size_t i = 0; i < TENSORS; i++) {
        /* 17 (i + 3) rows of 300 bytes, one behind the other, in backward order of the pass */
        uint64_t rows = 17 * (i + 3);
        uint64_t offset = i == 0 ? 1777 : tensors[i - 1].offset + tensors[i - 1].bytes;
        tensors[i] = (struct tensor){.name = STR("layer.weight"),
                                     .dtype = DTYPE_F16,
                                     .dims = 2,
                                     .shape = {rows, 150},
                                     .offset = offset,
                                     .bytes = rows * 300};
        items[TENSORS - 1 - i] = (struct layout_item){
            .matrix = plain_matrix(&tensors[i]), .key = (uint32_t)i, .starts_block = i % 3 == 0};
    }
    return layout_init(&layout, &model, items, TENSORS, BLOCK_BYTES, &err) != SL_OK;
}

static int remove_model(void **state) {
    (void)state;
    layout_release(&layout);
    file_close(file);
    free(data);
    return unlink(path);
}

typedef enum status provider_new(const struct layout *, const struct provider_options *,
                                 struct provider **, struct error *);

static struct provider *make(provider_new *new, const struct ring_method *method,
                             size_t slab_count) {
    struct provider_options options = {
        .method = method, .slab_count = slab_count, .chunk_bytes = 16384, .depth = 3};
    struct provider *provider = NULL;
    struct error err = {0};
    assert_int_equal(new (&layout, &options, &provider, &err), SL_OK);
    return provider;
}

static void assert_block(const struct lease *lease) {
    const struct block *block = &layout.blocks[lease->block];
    for (size_t i = 0; i < block->piece_count; i++) {
        const struct piece *piece = &layout.pieces[block->first_piece + i];
        struct view view = lease_view(lease, piece);
        const uint8_t *expected = data + tensors[piece->key].offset + 300 * piece->first_row;
        assert_int_equal(view.row_bytes, 300);
        assert_memory_equal(view.data, expected, view.rows * 300);
    }
}

/* Walks passes as the engine does: hints up to `ahead` blocks beyond the one in use. */
static void walk(struct provider *provider, size_t passes, size_t ahead) {
    size_t hinted = 0, blocks = passes * layout.block_count;
    struct error err = {0};
    for (size_t i = 0; i < blocks; i++) {
        hinted = hinted < i ? i : hinted;
        while (hinted < blocks && hinted <= i + ahead && ahead > 0 &&
               provider->ops->hint(provider, hinted % layout.block_count))
            hinted++;
        struct lease lease;
        size_t block = i % layout.block_count;
        assert_int_equal(provider->ops->acquire(provider, block, &lease, &err), SL_OK);
        assert_int_equal(lease.block, block);
        hinted = hinted < i + 1 ? i + 1 : hinted;
        assert_block(&lease);
        provider->ops->release(provider, &lease);
        assert_null(lease.slab);
    }
}

static uint64_t reads_bytes(void) {
    uint64_t sum = 0;
    for (size_t i = 0; i < layout.read_count; i++)
        sum += layout.reads[i].bytes;
    return sum;
}

static void providers_give_the_bytes_of_the_file(void **state) {
    (void)state;
    const struct ring_method *methods[] = {&ring_method_sync, &ring_method_pool};
    assert_true(layout.block_count > 10);
    assert_int_equal(reads_bytes(), layout.read_bytes); /* neighbours, no gaps */
    for (size_t m = 0; m < 2; m++)
        for (size_t ahead = 0; ahead < 7; ahead += 3) {
            struct ring_counters counters;
            for (size_t slabs = 2; slabs < 6; slabs += 3) {
                struct provider *stream = make(provider_stream_new, methods[m], slabs);
                assert_string_equal(stream->ops->name, "stream");
                walk(stream, 3, ahead);
                provider_counters(stream, &counters);
                assert_int_equal(counters.read_bytes, 3 * layout.read_bytes);
                provider_free(stream);
            }
            struct provider *resident = make(provider_resident_new, methods[m], 0);
            assert_string_equal(resident->ops->name, "resident");
            walk(resident, 3, ahead);
            provider_counters(resident, &counters);
            assert_int_equal(counters.read_bytes, layout.read_bytes);
            provider_free(resident);
        }
}

/* Every third block is kept: read once, whatever the hints, and the others once a pass. */
static void stream_reads_what_it_keeps_once(void **state) {
    (void)state;
    bool keeps[100] = {false};
    uint64_t kept = 0;
    assert_in_range(layout.block_count, 6, 100);
    for (size_t i = 1; i < layout.block_count; i += 3) {
        keeps[i] = true;
        kept += layout.blocks[i].read_bytes;
    }
    for (size_t m = 0; m < 2; m++)
        for (size_t ahead = 0; ahead <= 2 * layout.block_count; ahead += 3) {
            struct provider_options options = {.method =
                                                   m == 0 ? &ring_method_pool : &ring_method_sync,
                                               .slab_count = 2 + ahead % 2,
                                               .chunk_bytes = 16384,
                                               .keeps = keeps};
            struct provider *stream = NULL;
            struct error err = {0};
            struct ring_counters counters;
            assert_int_equal(provider_stream_new(&layout, &options, &stream, &err), SL_OK);
            walk(stream, 4, ahead);
            provider_counters(stream, &counters);
            assert_int_equal(counters.read_bytes, 4 * reads_bytes() - 3 * kept);
            for (size_t i = 0; i < layout.block_count; i++) {
                struct lease lease;
                assert_int_equal(stream->ops->acquire(stream, i, &lease, &err), SL_OK);
                assert_int_equal(lease.read_bytes, keeps[i] ? 0 : layout.blocks[i].read_bytes);
                stream->ops->release(stream, &lease);
            }
            provider_free(stream);
        }
}

static void stream_takes_hints_for_its_slabs_alone(void **state) {
    (void)state;
    struct provider *stream = make(provider_stream_new, &ring_method_pool, 3);
    struct lease first, second;
    struct error err = {0};
    for (size_t i = 0; i < 3; i++)
        assert_true(stream->ops->hint(stream, i));
    assert_false(stream->ops->hint(stream, 3));
    assert_int_equal(stream->ops->acquire(stream, 0, &first, &err), SL_OK);
    assert_false(stream->ops->hint(stream, 3));
    assert_int_equal(stream->ops->acquire(stream, 1, &second, &err), SL_OK);
    assert_ptr_not_equal(first.slab, second.slab);
    assert_block(&first); /* two leases at once */
    assert_block(&second);
    stream->ops->release(stream, &first);
    assert_true(stream->ops->hint(stream, 3));
    assert_block(&second);
    provider_free(stream); /* with a lease, a block on its way and one ready */
}

/* A block is hinted for the next pass while it is leased for this one. */
static void stream_reads_a_block_twice_over_the_border(void **state) {
    (void)state;
    struct provider *stream = make(provider_stream_new, &ring_method_pool, 2);
    struct lease lease, again;
    struct error err = {0};
    assert_int_equal(stream->ops->acquire(stream, 4, &lease, &err), SL_OK);
    assert_true(stream->ops->hint(stream, 4));
    assert_int_equal(stream->ops->acquire(stream, 4, &again, &err), SL_OK);
    assert_block(&lease);
    assert_block(&again);
    stream->ops->release(stream, &lease);
    stream->ops->release(stream, &again);
    provider_free(stream);
}

static void providers_tell_of_failed_reads(void **state) {
    (void)state;
    provider_new *news[] = {provider_stream_new, provider_resident_new};
    for (size_t n = 0; n < 2; n++)
        for (uint64_t nth = 1; nth < 12; nth += 5) {
            struct provider *provider = make(news[n], &ring_method_pool, 2);
            struct lease lease;
            struct error err = {0};
            enum status status = SL_OK;
            fault_arm(SL_FAULT_READ, nth, true);
            assert_true(provider->ops->hint(provider, 0));
            assert_true(provider->ops->hint(provider, 1));
            for (size_t i = 0; i < layout.block_count && status == SL_OK; i++) {
                status = provider->ops->acquire(provider, i, &lease, &err);
                if (status == SL_OK)
                    provider->ops->release(provider, &lease);
            }
            fault_arm(SL_FAULT_READ, 0, false);
            assert_int_equal(status, SL_ERR_ENV);
            assert_non_null(strstr(err.text, path));
            assert_non_null(strstr(err.text, "at offset "));
            provider_free(provider);
        }
}

static bool stop_now(void) {
    return true;
}

static void providers_stop_while_waiting(void **state) {
    (void)state;
    provider_new *news[] = {provider_stream_new, provider_resident_new};
    for (size_t n = 0; n < 2; n++) {
        struct provider_options options = {
            .method = &ring_method_stuck, .slab_count = 2, .should_stop = stop_now};
        struct provider *provider = NULL;
        struct lease lease;
        struct error err = {0};
        assert_int_equal(news[n](&layout, &options, &provider, &err), SL_OK);
        assert_true(provider->ops->hint(provider, 0));
        for (size_t i = 0; i < 2; i++) /* it can be waited for again */
            assert_int_equal(provider->ops->acquire(provider, 0, &lease, &err), SL_ERR_STOPPED);
        provider_free(provider);
    }
}

static void providers_survive_lack_of_everything(void **state) {
    (void)state;
    provider_new *news[] = {provider_stream_new, provider_resident_new};
    const enum fault_point points[] = {SL_FAULT_ALLOC, SL_FAULT_THREAD};
    for (size_t n = 0; n < 2; n++)
        for (size_t p = 0; p < 2; p++)
            for (uint64_t nth = 1;; nth++) {
                struct provider_options options = {.slab_count = 2};
                struct provider *provider = NULL;
                struct error err = {0};
                fault_arm(points[p], nth, false);
                enum status status = news[n](&layout, &options, &provider, &err);
                fault_arm(points[p], 0, false);
                if (status == SL_OK) {
                    assert_true(nth > 2);
                    provider_free(provider);
                    break;
                }
                assert_int_equal(status, SL_ERR_ENV);
                assert_null(provider);
            }
    provider_free(NULL);
}

/* More hints ahead than the ring has places for. */
static void resident_takes_hints_as_it_has_places(void **state) {
    (void)state;
    struct layout_item items[TENSORS];
    struct layout many;
    struct error err = {0};
    for (size_t i = 0; i < TENSORS; i++)
        items[i] = (struct layout_item){
            .matrix = plain_matrix(&tensors[i]), .key = (uint32_t)i, .starts_block = true};
    assert_int_equal(layout_init(&many, &model, items, TENSORS, 8192, &err), SL_OK);
    assert_true(many.block_count > 100);
    struct provider_options options = {.chunk_bytes = 4096};
    struct provider *resident = NULL;
    assert_int_equal(provider_resident_new(&many, &options, &resident, &err), SL_OK);
    size_t hinted = 0;
    for (size_t i = 0; i < many.block_count; i++) {
        while (hinted < many.block_count && resident->ops->hint(resident, hinted))
            hinted++;
        assert_true(hinted > i);
        assert_true(i > 0 || hinted == 64);
        struct lease lease;
        assert_int_equal(resident->ops->acquire(resident, i, &lease, &err), SL_OK);
        const struct piece *piece = &many.pieces[many.blocks[i].first_piece];
        assert_memory_equal(lease_view(&lease, piece).data,
                            data + tensors[piece->key].offset + 300 * piece->first_row,
                            300 * piece->view.rows);
        resident->ops->release(resident, &lease);
    }
    provider_free(resident);
    layout_release(&many);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(providers_give_the_bytes_of_the_file, fault_disarm_all),
        cmocka_unit_test_teardown(stream_reads_what_it_keeps_once, fault_disarm_all),
        cmocka_unit_test_teardown(stream_takes_hints_for_its_slabs_alone, fault_disarm_all),
        cmocka_unit_test_teardown(stream_reads_a_block_twice_over_the_border, fault_disarm_all),
        cmocka_unit_test_teardown(providers_tell_of_failed_reads, fault_disarm_all),
        cmocka_unit_test_teardown(providers_stop_while_waiting, fault_disarm_all),
        cmocka_unit_test_teardown(providers_survive_lack_of_everything, fault_disarm_all),
        cmocka_unit_test_teardown(resident_takes_hints_as_it_has_places, fault_disarm_all),
    };
    return cmocka_run_group_tests_name("provider", tests, make_model, remove_model);
}
