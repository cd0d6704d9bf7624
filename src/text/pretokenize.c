/* Owns the cutting of text into words. Goes depth first, a piece through all steps before the next
 * piece, so that no list of pieces is held; the order is the same. Refuses nothing but what regexes
 * refuse. */
#include "text/pretokenize.h"

#include "text/spelling.h"
#include "text/unicode.h"

struct walk {
    const struct pretokenizer *pretokenizer;
    struct pretokenizer_scratch *scratch;
    const struct word_sink *sink;
    struct error *err;
};

/* The pieces of one text, as matches and what lies between them come in order. */
struct cutter {
    const struct walk *walk;
    const struct pretokenizer_step *step;
    size_t next_step;
    struct str text;
    bool is_first;
    size_t from, to; /* the piece that may yet grow */
    bool has_piece, piece_is_match, last_was_match;
};

static enum status run_from(const struct walk *walk, size_t index, struct str text, bool is_first);

static enum status give(struct cutter *cutter, size_t from, size_t to) {
    if (from >= to)
        return SL_OK;
    return run_from(cutter->walk, cutter->next_step, str_cut(cutter->text, from, to),
                    cutter->is_first && from == 0);
}

static enum status flush(struct cutter *cutter) {
    if (!cutter->has_piece)
        return SL_OK;
    cutter->has_piece = false;
    return give(cutter, cutter->from, cutter->to);
}

/* Whether this stretch goes on the piece before it. */
static bool joins(const struct cutter *cutter, bool is_match) {
    if (!cutter->has_piece)
        return false;
    switch (cutter->step->behavior) {
    case SPLIT_CONTIGUOUS:
        return is_match == cutter->piece_is_match;
    case SPLIT_MERGED_WITH_PREVIOUS:
        return is_match && !cutter->last_was_match;
    case SPLIT_MERGED_WITH_NEXT:
        return cutter->piece_is_match && !is_match;
    case SPLIT_REMOVED:
    case SPLIT_ISOLATED:
        break;
    }
    return false;
}

static enum status stretch(struct cutter *cutter, size_t from, size_t to, bool is_match) {
    is_match = is_match != cutter->step->is_inverted;
    switch (cutter->step->behavior) {
    case SPLIT_ISOLATED:
        return give(cutter, from, to);
    case SPLIT_REMOVED:
        return is_match ? SL_OK : give(cutter, from, to);
    case SPLIT_CONTIGUOUS:
    case SPLIT_MERGED_WITH_PREVIOUS:
    case SPLIT_MERGED_WITH_NEXT:
        break;
    }
    if (joins(cutter, is_match)) {
        cutter->to = to;
    } else {
        TRY(flush(cutter));
        cutter->from = from;
        cutter->to = to;
        cutter->has_piece = true;
    }
    cutter->piece_is_match = is_match;
    cutter->last_was_match = is_match;
    return SL_OK;
}

static enum status cut_by_regex(struct cutter *cutter, struct regex_scan *scan) {
    struct error *err = cutter->walk->err;
    size_t done = 0;
    TRY(regex_scan_begin(scan, cutter->text, err));
    for (;;) {
        bool is_found;
        size_t from, to;
        TRY(regex_scan_next(scan, &is_found, &from, &to, err));
        if (!is_found)
            break;
        if (from > done)
            TRY(stretch(cutter, done, from, false));
        TRY(stretch(cutter, from, to, true));
        done = to;
    }
    return done < cutter->text.len ? stretch(cutter, done, cutter->text.len, false) : SL_OK;
}

static enum status cut_by_literal(struct cutter *cutter) {
    struct str literal = cutter->step->literal;
    size_t done = 0;
    size_t found = literal.len ? str_find(cutter->text, literal, 0) : SIZE_MAX;
    while (found != SIZE_MAX) {
        if (found > done)
            TRY(stretch(cutter, done, found, false));
        done = found + literal.len;
        TRY(stretch(cutter, found, done, true));
        found = str_find(cutter->text, literal, done);
    }
    return done < cutter->text.len ? stretch(cutter, done, cutter->text.len, false) : SL_OK;
}

static enum status cut_by_test(struct cutter *cutter) {
    size_t done = 0;
    for (size_t at = 0; at < cutter->text.len;) {
        size_t from = at;
        if (!cutter->step->test(utf8_next(cutter->text, &at)))
            continue;
        if (from > done)
            TRY(stretch(cutter, done, from, false));
        TRY(stretch(cutter, from, at, true));
        done = at;
    }
    return done < cutter->text.len ? stretch(cutter, done, cutter->text.len, false) : SL_OK;
}

static void write_metaspace(const struct pretokenizer_step *step, struct str text, bool is_first,
                            struct buf *out) {
    struct str space = STR(" ");
    bool begins = str_starts(text, space) || str_starts(text, step->literal);
    bool prepends = step->scheme == PREPEND_ALWAYS || (step->scheme == PREPEND_FIRST && is_first);
    if (prepends && !begins)
        buf_add(out, step->literal);
    for (size_t at = 0; at < text.len;) {
        size_t found = str_find(text, space, at);
        size_t end = found == SIZE_MAX ? text.len : found;
        buf_add(out, str_cut(text, at, end));
        if (found != SIZE_MAX)
            buf_add(out, step->literal);
        at = found == SIZE_MAX ? text.len : found + 1;
    }
}

static enum status give_word(const struct walk *walk, struct str text) {
    struct buf *bytes = &walk->scratch->bytes;
    if (walk->pretokenizer->is_spelled) {
        buf_clear(bytes);
        must(spelling_to_bytes(text, bytes));
        if (bytes->has_failed)
            return error_memory(walk->err, text.len, "a word");
        text = buf_str(bytes);
    }
    return walk->sink->word(walk->sink->context, text, walk->err);
}

/* Recursion goes over the steps, of which there are SL_COMPONENT_STEPS_MAX at most. */
static enum status run_from(const struct walk *walk, size_t index, struct str text, bool is_first) {
    if (text.len == 0)
        return SL_OK;
    if (index == walk->pretokenizer->count)
        return give_word(walk, text);
    const struct pretokenizer_step *step = &walk->pretokenizer->steps[index];
    struct buf *out = &walk->scratch->bufs[index];
    buf_clear(out);
    if (step->kind == PRETOKENIZER_SPACE_FIRST) {
        if (str_starts(text, STR(" ")))
            return run_from(walk, index + 1, text, is_first);
        buf_add_char(out, ' ');
        buf_add(out, text);
    } else if (step->kind == PRETOKENIZER_METASPACE) {
        write_metaspace(step, text, is_first, out);
    } else if (step->kind == PRETOKENIZER_SPELL) {
        spelling_add(text, out);
    }
    if (out->has_failed)
        return error_memory(walk->err, text.len, "the words of a text");
    if (step->kind == PRETOKENIZER_SPACE_FIRST || step->kind == PRETOKENIZER_SPELL ||
        (step->kind == PRETOKENIZER_METASPACE && !step->cuts))
        return run_from(walk, index + 1, buf_str(out), is_first);
    struct cutter cutter = {
        .walk = walk, .step = step, .next_step = index + 1, .text = text, .is_first = is_first};
    switch (step->kind) {
    case PRETOKENIZER_REGEX:
        TRY(cut_by_regex(&cutter, &walk->scratch->scans[index]));
        break;
    case PRETOKENIZER_METASPACE:
        cutter.text = buf_str(out);
        TRY(cut_by_literal(&cutter));
        break;
    case PRETOKENIZER_LITERAL:
        TRY(cut_by_literal(&cutter));
        break;
    case PRETOKENIZER_TEST:
        TRY(cut_by_test(&cutter));
        break;
    case PRETOKENIZER_SPACE_FIRST:
    case PRETOKENIZER_SPELL:
        break;
    }
    return flush(&cutter);
}

enum status pretokenizer_run(const struct pretokenizer *pretokenizer,
                             struct pretokenizer_scratch *scratch, struct str text, bool is_first,
                             const struct word_sink *sink, struct error *err) {
    struct walk walk = {pretokenizer, scratch, sink, err};
    return run_from(&walk, 0, text, is_first);
}

void pretokenizer_scratch_init(struct pretokenizer_scratch *scratch,
                               const struct pretokenizer *pretokenizer) {
    buf_init(&scratch->bytes);
    for (size_t i = 0; i < SL_COMPONENT_STEPS_MAX; i++) {
        buf_init(&scratch->bufs[i]);
        regex_scan_init(&scratch->scans[i],
                        i < pretokenizer->count ? pretokenizer->steps[i].regex : NULL);
    }
}

void pretokenizer_scratch_release(struct pretokenizer_scratch *scratch) {
    buf_release(&scratch->bytes);
    for (size_t i = 0; i < SL_COMPONENT_STEPS_MAX; i++) {
        buf_release(&scratch->bufs[i]);
        regex_scan_release(&scratch->scans[i]);
    }
}
