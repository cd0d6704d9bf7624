/* Owns the copies that outlive a row's line, and the way from tokens to the text of an answer. */
#include "job/live.h"

#include <string.h>

void live_free(struct live *live) {
    if (live == NULL)
        return;
    stop_release(&live->stop);
    row_release(&live->row);
    mem_free(live);
}

static bool copy_str(struct arena *arena, struct str from, struct str *to) {
    char *copy = arena_take(arena, from.len);
    if (copy == NULL)
        return false;
    memcpy(copy, from.data, from.len);
    *to = (struct str){copy, from.len};
    return true;
}

/* The choices of a row that is scored, as far as its result shows them. */
static bool copy_choices(struct live *live, const struct row *row) {
    if (row->choice_count == 0)
        return true;
    struct str *copies = arena_array(&live->row.arena, row->choice_count, sizeof *copies);
    live->choices = arena_array(&live->row.arena, row->choice_count, sizeof *live->choices);
    if (copies == NULL || live->choices == NULL)
        return false;
    for (size_t i = 0; i < row->choice_count; i++) {
        live->choices[i] = (struct live_choice){.live = live};
        copies[i] = (struct str){0};
        if (row->form == ROW_CHOICES && !copy_str(&live->row.arena, row->choices[i], &copies[i]))
            return false;
    }
    live->row.choices = copies;
    return true;
}

struct live *live_new(const struct job_slot *slot, const struct tokenizer *tokenizer,
                      size_t index) {
    const struct row *row = &slot->row;
    struct live *live = mem_new(1, sizeof *live);
    if (live == NULL)
        return NULL;
    live->index = index;
    live->prompt_tokens = slot->look.row_tokens;
    live->max_tokens = slot->look.max_tokens;
    live->choices_left = row->choice_count;
    live->row = *row;
    arena_init(&live->row.arena);
    live->row.prompt = (struct str){0};
    live->row.prompt_ids = NULL;
    live->row.choices = NULL;
    live->row.messages = live->row.tools = live->row.kwargs = NULL;
    bool has_copied = copy_str(&live->row.arena, row->id_json, &live->row.id_json);
    for (size_t i = 0; i < row->stop_count; i++)
        has_copied = has_copied && copy_str(&live->row.arena, row->stops[i], &live->row.stops[i]);
    has_copied = has_copied && copy_choices(live, row);
    size_t stops = tokenizer != NULL ? row->stop_count : 0;
    stop_init(&live->stop, tokenizer, live->row.stops, stops, row->skips_special);
    if (has_copied)
        return live;
    live_free(live);
    return NULL;
}

/* How many tokens of an answer begin before the cut of its stop text: into *count. */
static enum status count_before_cut(const struct stop *stop, const uint32_t *ids, size_t *count,
                                    struct error *err) {
    struct buf bytes;
    enum status status = SL_OK;
    buf_init(&bytes);
    size_t begin = 0, kept = 0;
    while (status == SL_OK && kept < *count && begin < stop->cut) {
        bool is_silent = stop->skips_special && tokenizer_is_special(stop->tokenizer, ids[kept]);
        buf_clear(&bytes);
        if (!is_silent)
            tokenizer_token_bytes(stop->tokenizer, ids[kept], &bytes);
        status = buf_status(&bytes, "an answer", err);
        begin += bytes.len;
        kept++;
    }
    buf_release(&bytes);
    *count = kept;
    return status;
}

enum status live_text(const struct live *live, const struct tokenizer *tokenizer,
                      struct result *result, struct buf *text, struct error *err) {
    if (live->stop.cut != SIZE_MAX) {
        TRY(buf_status(&live->stop.bytes, "an answer", err));
        TRY(count_before_cut(&live->stop, result->ids, &result->count, err));
        utf8_add_lossy(text, str_cut(buf_str(&live->stop.bytes), 0, live->stop.cut));
    } else if (tokenizer != NULL) {
        enum status status = tokenizer_decode(tokenizer, result->ids, result->count,
                                              live->row.skips_special, text, err);
        if (status == SL_ERR_ROW) /* a limit, and no fault of the row's */
            return error_set(err, SL_ERR_ENV, "an answer of %zu tokens cannot be decoded",
                             result->count);
        TRY(status);
    }
    TRY(buf_status(text, "an answer", err));
    result->text = buf_str(text);
    return SL_OK;
}
