/* JSON (RFC 8259) as a tree in an arena, and writing it.
 *
 * Our own reader rather than a library because rows and tokenizers need what the libraries at hand
 * refuse: integers of any size kept as written, lone surrogates that spoil one string and not the
 * line, NUL in names, members in their order, and a 33 MB tokenizer.json in a fraction of a second
 * and few bytes. Bounded: depth by the option, memory by the text's length (strings without escapes
 * are slices of the text). No recursion on input depth.
 *
 * Lifetime: nodes live in the arena, strings borrow from text; both must outlive the tree. */
#ifndef SLUICE_BASE_JSON_H
#define SLUICE_BASE_JSON_H

#include "base/mem.h"
#include "base/str.h"

enum json_kind {
    JSON_NULL,
    JSON_FALSE,
    JSON_TRUE,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT,
};

struct json_member;
struct json {
    enum json_kind kind;
    uint32_t count; /* items or members */
    union {
        struct str text;             /* JSON_STRING: decoded UTF-8; JSON_NUMBER: as written */
        struct json *items;          /* JSON_ARRAY */
        struct json_member *members; /* JSON_OBJECT, in the order of the text, duplicates kept */
    };
};
struct json_member {
    struct str name;
    struct json value;
};

struct json_options {
    uint32_t depth_max;      /* levels of arrays and objects; 0 means 512 */
    bool refuses_duplicates; /* a name twice in one object is an error */
    uint32_t
        *lone_surrogates; /* counts escapes such as \ud800 alone; each became U+FFFD. May be NULL */
    /* Most values of the tree, so that `[1,1,1,` cannot ask for thirty times the text; 0: as many
     * as there are. A value takes up to 150 bytes while it is read. */
    size_t values_max;
    bool *is_too_large; /* set when values_max refused the text; may be NULL */
};

/* Parses text as one JSON value with nothing but white space after it. Invalid UTF-8 is an error.
 * Errors name the byte offset. SL_ERR_INPUT, or SL_ERR_ENV when memory is out. */
enum status json_parse(struct arena *arena, struct str text, const struct json_options *options,
                       const struct json **out, struct error *err);

/* For an object too large to keep: as json_parse, but each member of the outermost object is given
 * to `member` as soon as it ends, in the order of the text, and gone with all of the arena when
 * that returns. values_max then holds for one member, and two of one name are not seen as such. */
struct json_each {
    enum status (*member)(void *ctx, const struct json_member *member, struct error *err);
    void *ctx;
};
enum status json_parse_each(struct arena *arena, struct str text,
                            const struct json_options *options, const struct json_each *each,
                            struct error *err);

/* The last member of that name; NULL when absent or when json is NULL or no object. */
const struct json *json_get(const struct json *json, const char *name);
const struct json *json_get_str(const struct json *json, struct str name);
bool json_is(const struct json *json, enum json_kind kind); /* false for NULL */
bool json_bool(const struct json *json, bool *out);         /* false unless true or false */
bool json_string(const struct json *json, struct str *out);
bool json_is_integer(const struct json *json); /* a number written without '.', 'e', 'E' */
/* Only numbers that json_is_integer calls so, and that fit. */
bool json_i64(const struct json *json, int64_t *out);
bool json_u64(const struct json *json, uint64_t *out);
bool json_double(const struct json *json, double *out); /* any number; overflow gives infinity */

/* Writing. Text must be UTF-8; invalid parts become U+FFFD. Control characters below 0x20, '"' and
 * '\\' are escaped as Python's json.dumps(ensure_ascii=False) does; 0x7f and U+2028 stay raw. */
void json_add_string(struct buf *buf, struct str text);
/* The shortest decimal that reads back as the same double, in Python's repr form (1e-07, 1.0,
 * 1e+16); NaN and infinities become null. */
void json_add_double(struct buf *buf, double value);
/* As json_add_double for the shortest decimal that reads back as the same float. */
void json_add_float(struct buf *buf, float value);
/* A member of an object that is being written: its name and value, behind ", " unless it is the
 * first one. */
void json_member_text(struct buf *buf, const char *name, struct str value);
void json_member_count(struct buf *buf, const char *name, uint64_t value);
void json_member_real(struct buf *buf, const char *name, double value); /* as json_add_double */
/* The tree again, compact or as json.dumps does by default (", " and ": "). Numbers as written. */
void json_add(struct buf *buf, const struct json *json, bool has_spaces);

#endif
