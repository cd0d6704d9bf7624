/* The metadata of a GGUF file: typed keys and values. Strings and arrays borrow from memory that
 * the meta owns. Constant once filled. */
#ifndef SLUICE_WEIGHTS_META_H
#define SLUICE_WEIGHTS_META_H

#include "base/map.h"
#include "base/mem.h"

enum meta_kind { META_INTEGER, META_REAL, META_BOOL, META_STRING, META_ARRAY };

struct meta_value {
    enum meta_kind kind;
    enum meta_kind item_kind; /* META_ARRAY: of its items; arrays of arrays are refused */
    union {
        int64_t integer; /* uint64 values above INT64_MAX are refused */
        double real;
        bool truth;
        struct str text;
        struct {
            size_t count;
            union {
                int64_t *integers;
                double *reals;
                bool *truths;
                struct str *texts;
            };
        } array;
    };
};

struct meta {
    struct arena arena;
    struct map keys; /* key to its number in values */
    struct str *names;
    struct meta_value *values;
    size_t count, cap;
};

void meta_init(struct meta *meta);
void meta_release(struct meta *meta);
/* Copies key and value; texts and arrays that value points to must live as long as meta: in its
 * arena. Refuses a key that is there already. */
enum status meta_add(struct meta *meta, struct str key, const struct meta_value *value,
                     struct error *err);
const struct meta_value *meta_find(const struct meta *meta, const char *key); /* NULL when absent */
/* Typed look-ups: false when absent or of another kind (integers serve as reals, not the reverse).
 */
bool meta_integer(const struct meta *meta, const char *key, int64_t *out);
bool meta_real(const struct meta *meta, const char *key, double *out);
bool meta_bool(const struct meta *meta, const char *key, bool *out);
bool meta_text(const struct meta *meta, const char *key, struct str *out);

#endif
