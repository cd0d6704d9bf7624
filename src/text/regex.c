/* Owns compiled regexes and walks over texts: the table from characters to kinds, and PCRE2
 * matching the kinds. Refuses to run without limits: PCRE2's own limit of steps, a stack of bounded
 * size. */
#include "text/regex.h"

#include "base/mem.h"
#include "text/regex_parse.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#define KINDS_MAX 256u
#define BLOCK 256u
#define BLOCKS (SL_UNICODE_END / BLOCK)
#define MATCH_STEPS_MAX 10000000u
#define JIT_STACK_BYTES_MAX ((size_t)8 << 20)
#define MASK_WORDS 4

struct regex {
    pcre2_code *code;
    bool has_jit;
    uint16_t block_of[BLOCKS]; /* of a code point >> 8 */
    unsigned char *kind_of;    /* [blocks, 256] */
    size_t block_count;
};

/* ---- Kinds: characters that the same sets hold */

struct mask {
    uint64_t words[MASK_WORDS]; /* bit i: set i holds these characters */
};
struct kinds {
    struct mask masks[KINDS_MAX];
    size_t count;
};

static int by_value(const void *a, const void *b) {
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return left < right ? -1 : left > right;
}

/* The places where some set begins or ends, sorted, 0 and the end of Unicode among them. */
static uint32_t *collect_edges(const struct regex_parsed *parsed, size_t *count) {
    size_t ranges = 1;
    for (size_t i = 0; i < parsed->set_count; i++)
        ranges += parsed->sets[i].count;
    uint32_t *edges = mem_new(2 * ranges, sizeof *edges);
    if (!edges)
        return NULL;
    size_t filled = 0;
    edges[filled++] = 0;
    edges[filled++] = SL_UNICODE_END;
    for (size_t i = 0; i < parsed->set_count; i++) {
        for (size_t j = 0; j < parsed->sets[i].count; j++) {
            edges[filled++] = parsed->sets[i].ranges[j].from;
            edges[filled++] = parsed->sets[i].ranges[j].to + 1;
        }
    }
    qsort(edges, filled, sizeof *edges, by_value);
    size_t kept = 1;
    for (size_t i = 1; i < filled; i++) {
        if (edges[i] != edges[kept - 1])
            edges[kept++] = edges[i];
    }
    *count = kept;
    return edges;
}

/* The number of the kind with that mask, a new one if need be; KINDS_MAX when there are too many.
 */
static size_t find_kind(struct kinds *kinds, const struct mask *mask) {
    size_t i = 0;
    while (i < kinds->count && memcmp(&kinds->masks[i], mask, sizeof *mask) != 0)
        i++;
    if (i == kinds->count && i < KINDS_MAX)
        kinds->masks[kinds->count++] = *mask;
    return i;
}

/* Fills all[code point] with kinds. SL_ERR_ENV when there are more than bytes can number. */
static enum status number_kinds(const struct regex_parsed *parsed, struct kinds *kinds,
                                unsigned char *all, struct error *err) {
    size_t edge_count = 0;
    uint32_t *edges = collect_edges(parsed, &edge_count);
    if (!edges)
        return error_memory(err, sizeof *edges, "a regex");
    size_t next_range[SL_REGEX_SETS_MAX] = {0};
    enum status status = SL_OK;
    for (size_t e = 0; e + 1 < edge_count; e++) {
        struct mask mask = {{0}};
        for (size_t i = 0; i < parsed->set_count; i++) {
            const struct charset *set = &parsed->sets[i];
            while (next_range[i] < set->count && set->ranges[next_range[i]].to < edges[e])
                next_range[i]++;
            if (next_range[i] < set->count && set->ranges[next_range[i]].from <= edges[e])
                mask.words[i / 64] |= (uint64_t)1 << (i % 64);
        }
        size_t kind = find_kind(kinds, &mask);
        if (kind == KINDS_MAX) {
            status = error_set(err, SL_ERR_ENV,
                               "a regex tells more than %u kinds of characters apart", KINDS_MAX);
            break;
        }
        memset(all + edges[e], (int)kind, edges[e + 1] - edges[e]);
    }
    mem_free(edges);
    return status;
}

/* Keeps each different block of 256 once. */
static enum status fold_blocks(struct regex *regex, const unsigned char *all, struct error *err) {
    size_t cap = 0;
    for (size_t block = 0; block < BLOCKS; block++) {
        const unsigned char *from = all + block * BLOCK;
        size_t same = 0;
        while (same < regex->block_count && memcmp(regex->kind_of + same * BLOCK, from, BLOCK) != 0)
            same++;
        if (same == regex->block_count) {
            if (!mem_grow((void **)&regex->kind_of, &cap, (same + 1) * BLOCK, 1))
                return error_memory(err, (same + 1) * BLOCK, "a regex");
            memcpy(regex->kind_of + same * BLOCK, from, BLOCK);
            regex->block_count++;
        }
        regex->block_of[block] = (uint16_t)same;
    }
    return SL_OK;
}

/* ---- Compiling */

/* The syntax with every set written as the class of its kinds. */
static void write_pattern(const struct regex_parsed *parsed, const struct kinds *kinds,
                          struct buf *out) {
    struct str syntax = buf_str(&parsed->syntax);
    for (size_t at = 0; at < syntax.len; at++) {
        if (syntax.data[at] != SL_REGEX_SET) {
            buf_add_char(out, syntax.data[at]);
            continue;
        }
        size_t set = (size_t)(unsigned char)syntax.data[++at] - 1;
        size_t members = 0;
        for (size_t kind = 0; kind < kinds->count; kind++) {
            if (!(kinds->masks[kind].words[set / 64] >> (set % 64) & 1))
                continue;
            buf_printf(out, "%s\\x%02x", members ? "" : "[", (unsigned)kind);
            members++;
        }
        buf_add(out, members ? STR("]") : STR("(?!)"));
    }
}

static enum status compile(struct regex *regex, struct str pattern, struct str written,
                           struct error *err) {
    int code = 0;
    PCRE2_SIZE offset = 0;
    regex->code = pcre2_compile((PCRE2_SPTR)written.data, written.len,
                                PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | PCRE2_DOLLAR_ENDONLY, &code,
                                &offset, NULL);
    if (!regex->code) {
        char text[160] = "";
        pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text);
        return error_set(err, SL_ERR_ENV, "PCRE2 refuses the regex %.*s: %s", STR_ARG(pattern),
                         text);
    }
    /* Without JIT (some machines forbid it) the interpreter gives the same matches. */
    regex->has_jit = pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE) == 0;
    return SL_OK;
}

static enum status build(struct regex *regex, struct str pattern, struct regex_parsed *parsed,
                         struct error *err) {
    TRY(regex_parse(pattern, parsed, err));
    struct kinds *kinds = mem_new(1, sizeof *kinds);
    unsigned char *all = mem_new(SL_UNICODE_END, 1);
    struct buf written;
    buf_init(&written);
    enum status status = SL_OK;
    if (!kinds || !all)
        status = error_memory(err, SL_UNICODE_END, "a regex");
    if (status == SL_OK)
        status = number_kinds(parsed, kinds, all, err);
    if (status == SL_OK)
        status = fold_blocks(regex, all, err);
    if (status == SL_OK) {
        write_pattern(parsed, kinds, &written);
        status = buf_status(&written, "a regex", err);
    }
    if (status == SL_OK)
        status = compile(regex, pattern, buf_str(&written), err);
    buf_release(&written);
    mem_free(all);
    mem_free(kinds);
    return status;
}

enum status regex_new(struct str pattern, struct regex **out, struct error *err) {
    struct regex *regex = mem_new(1, sizeof *regex);
    struct regex_parsed *parsed = mem_new(1, sizeof *parsed);
    enum status status = SL_OK;
    if (!regex || !parsed)
        status = error_memory(err, sizeof *regex, "a regex");
    else
        status = build(regex, pattern, parsed, err);
    if (parsed)
        regex_parsed_release(parsed);
    mem_free(parsed);
    if (status == SL_OK)
        *out = regex;
    else
        regex_free(regex);
    return status;
}

void regex_free(struct regex *regex) {
    if (!regex)
        return;
    pcre2_code_free(regex->code);
    mem_free(regex->kind_of);
    mem_free(regex);
}

/* ---- Matching */

void regex_scan_init(struct regex_scan *scan, const struct regex *regex) {
    *scan = (struct regex_scan){.regex = regex};
}

void regex_scan_release(struct regex_scan *scan) {
    mem_free(scan->kinds);
    pcre2_match_data_free(scan->match_data);
    pcre2_match_context_free(scan->match_context);
    pcre2_jit_stack_free(scan->jit_stack);
    *scan = (struct regex_scan){0};
}

static bool prepare(struct regex_scan *scan) {
    if (!scan->match_data)
        scan->match_data = pcre2_match_data_create(1, NULL);
    if (!scan->match_context) {
        scan->match_context = pcre2_match_context_create(NULL);
        if (scan->match_context)
            pcre2_set_match_limit(scan->match_context, MATCH_STEPS_MAX);
    }
    return scan->match_data && scan->match_context;
}

enum status regex_scan_begin(struct regex_scan *scan, struct str text, struct error *err) {
    const struct regex *regex = scan->regex;
    if (!prepare(scan) || !mem_grow((void **)&scan->kinds, &scan->kinds_cap, text.len + 1, 1)) {
        return error_memory(err, text.len, "a regex over a text");
    }
    scan->text = text;
    scan->at_char = scan->at_byte = scan->search_from = 0;
    scan->has_matched = false;
    const unsigned char *ascii = regex->kind_of + (size_t)regex->block_of[0] * BLOCK;
    size_t count = 0, at = 0;
    while (at < text.len) {
        unsigned char byte = (unsigned char)text.data[at];
        if (byte < 0x80) {
            scan->kinds[count++] = ascii[byte];
            at++;
        } else {
            uint32_t c = utf8_next(text, &at);
            must(c < SL_UNICODE_END);
            scan->kinds[count++] =
                regex->kind_of[(size_t)regex->block_of[c >> 8] * BLOCK + (c & 255)];
        }
    }
    scan->kinds_count = count;
    scan->is_ascii = count == text.len;
    return SL_OK;
}

/* Bytes of the `count` characters from at_byte on. */
static size_t bytes_of(const struct regex_scan *scan, size_t at_byte, size_t count) {
    if (scan->is_ascii)
        return count;
    size_t at = at_byte;
    for (; count; count--) {
        unsigned char lead = (unsigned char)scan->text.data[at];
        at += lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    }
    return at - at_byte;
}

static int match_once(struct regex_scan *scan, size_t from) {
    const struct regex *regex = scan->regex;
    if (regex->has_jit)
        return pcre2_jit_match(regex->code, scan->kinds, scan->kinds_count, from, 0,
                               scan->match_data, scan->match_context);
    return pcre2_match(regex->code, scan->kinds, scan->kinds_count, from, 0, scan->match_data,
                       scan->match_context);
}

enum status regex_scan_next(struct regex_scan *scan, bool *found, size_t *from, size_t *to,
                            struct error *err) {
    *found = false;
    while (scan->search_from <= scan->kinds_count) {
        int code = match_once(scan, scan->search_from);
        if (code == PCRE2_ERROR_JIT_STACKLIMIT && !scan->jit_stack) {
            scan->jit_stack = pcre2_jit_stack_create(32 << 10, JIT_STACK_BYTES_MAX, NULL);
            if (!scan->jit_stack)
                return error_memory(err, JIT_STACK_BYTES_MAX, "a regex over a text");
            pcre2_jit_stack_assign(scan->match_context, NULL, scan->jit_stack);
            continue;
        }
        if (code == PCRE2_ERROR_NOMATCH)
            return SL_OK;
        if (code < 0) {
            char text[160] = "";
            pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text);
            return error_set(err, SL_ERR_ROW,
                             "the text is too much for the tokenizer's regex near byte %zu: %s",
                             scan->at_byte, text);
        }
        const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(scan->match_data);
        must(ends[0] <= ends[1] && ends[0] >= scan->at_char);
        if (ends[0] == ends[1] && scan->has_matched && ends[1] == scan->at_char) {
            scan->search_from = scan->at_char + 1;
            continue;
        }
        *from = scan->at_byte + bytes_of(scan, scan->at_byte, ends[0] - scan->at_char);
        *to = *from + bytes_of(scan, *from, ends[1] - ends[0]);
        scan->at_char = scan->search_from = ends[1];
        scan->at_byte = *to;
        scan->has_matched = *found = true;
        return SL_OK;
    }
    return SL_OK;
}
