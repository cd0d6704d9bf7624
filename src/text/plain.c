/* Owns the way of places from raw to normalized text, which the normalizer itself does not keep:
 * the place of a point is where the normal form of the text before it ends. That is asked only for
 * special tokens that are found in the normalized text (few files have such), by bisection, since
 * places rise with points. Refuses texts with so many of them that this would take long. */
#include "text/plain.h"

#define WORK_MAX ((uint64_t)1 << 30) /* bytes normalized again for one text: seconds */

void plain_release(struct plain *plain) {
    mem_free(plain->items);
    buf_release(&plain->buffers[0]);
    buf_release(&plain->buffers[1]);
    *plain = (struct plain){0};
}

static enum status place_of(struct plain *plain, const struct tokenizer *tokenizer,
                            const struct plain_source *source, size_t index, size_t *place,
                            struct error *err) {
    size_t point = source->points[index] - source->offset;
    struct normalized form;
    *place = point;
    if (source->normalized.data == source->raw.data)
        return SL_OK;
    plain->work += point;
    if (plain->work > WORK_MAX)
        return error_set(err, SL_ERR_ROW,
                         "the text holds too many special tokens to encode them as plain text");
    TRY(normalizer_run(&tokenizer->normalizer, str_cut(source->raw, 0, point), plain->buffers,
                       &form, err));
    *place = form.text.len;
    return SL_OK;
}

/* The first of the points [from, to) whose place is not before `least`; `to` when none is. */
static enum status first_from(struct plain *plain, const struct tokenizer *tokenizer,
                              const struct plain_source *source, size_t range[2], size_t least,
                              struct error *err) {
    while (range[0] < range[1]) {
        size_t middle = range[0] + (range[1] - range[0]) / 2, place;
        TRY(place_of(plain, tokenizer, source, middle, &place, err));
        if (place < least)
            range[0] = middle + 1;
        else
            range[1] = middle;
    }
    return SL_OK;
}

enum status plain_map(struct plain *plain, const struct tokenizer *tokenizer,
                      const struct plain_source *source, struct error *err) {
    size_t first = 0, end = source->count, place;
    plain->count = 0;
    while (first < end && source->points[first] < source->offset)
        first++;
    while (end > first && source->points[end - 1] >= source->offset + source->raw.len)
        end--;
    for (size_t at = 0; at < source->normalized.len && first < end; at++) {
        size_t len = added_match_len(&tokenizer->added.normalized, source->normalized, at);
        size_t range[2] = {first, end};
        if (len == 0)
            continue;
        TRY(first_from(plain, tokenizer, source, range, at, err));
        first = range[0];
        if (first == end)
            break;
        TRY(place_of(plain, tokenizer, source, first, &place, err));
        if (place >= at + len || (plain->count > 0 && plain->items[plain->count - 1] == place))
            continue;
        if (plain->count == plain->cap &&
            !mem_grow((void **)&plain->items, &plain->cap, plain->count + 1, sizeof *plain->items))
            return error_memory(err, plain->count * sizeof *plain->items, "a prompt");
        plain->items[plain->count++] = place;
    }
    return SL_OK;
}
