/* Private to the template interpreter (template_*.c): values and the state of one rendering.
 *
 * Values behave as Python's do under Jinja's sandbox: nothing that a template can reach is changed
 * in place but the attributes of a namespace. They live in the rendering's arena, which has a limit
 * (SL_TEMPLATE_MEMORY_MAX); input is wrapped and converted one level at a time when looked at. A
 * file template_X.c owns the functions X_*. One thread a rendering. */
#ifndef SLUICE_TEXT_TEMPLATE_VALUE_H
#define SLUICE_TEXT_TEMPLATE_VALUE_H

#include "text/template.h"

#define SL_TEMPLATE_NEST_MAX 600u    /* levels of lists and dicts looked into */
#define SL_TEMPLATE_FRAMES_MAX 1500u /* evaluator calls inside one another */
#define SL_TEMPLATE_ARGS_MAX 6u      /* named parameters of a built-in */

enum value_kind {
    VALUE_MISSING, /* an argument that was not given; templates never see it */
    VALUE_UNDEFINED,
    VALUE_NONE,
    VALUE_BOOL,
    VALUE_INT,
    VALUE_BIG, /* an integer outside 64 bits: its decimal digits, for printing and comparing */
    VALUE_FLOAT,
    VALUE_TEXT,
    VALUE_LIST,
    VALUE_TUPLE,
    VALUE_DICT,
    VALUE_VIEW, /* d.keys(), d.values(), d.items() */
    VALUE_RANGE,
    VALUE_STREAM, /* a generator or iterator: gives its items once */
    VALUE_SPACE,  /* namespace(..) */
    VALUE_LOOP,
    VALUE_MACRO,
    VALUE_METHOD, /* bound to its value */
    VALUE_FUNCTION,
    VALUE_CYCLER,
    VALUE_JOINER,
};

/* Memory behind text that grew by concatenation: what lies past `used` is free, so that adding to
 * the newest text needs no copy and building a text piece by piece costs its length once. */
struct text_room {
    char *data;
    size_t used, cap;
};

struct value {
    enum value_kind kind;
    bool is_markup; /* VALUE_TEXT made by `safe` or `escape`: other text is escaped when joined */
    union {
        bool boolean;
        int64_t integer;
        double real;
        struct {
            struct str text; /* VALUE_TEXT: valid UTF-8; VALUE_BIG: [-]digits */
            struct text_room *room;
        };
        struct list *list; /* VALUE_LIST, VALUE_TUPLE */
        struct dict *dict; /* VALUE_DICT, VALUE_SPACE */
        struct view *view;
        struct range *range;
        struct stream *stream;
        struct undefined *undefined; /* NULL: 'it is undefined' without more words */
        struct loop *loop;
        struct macro *macro;
        struct method *method;
        const struct builtin *function;
        struct cycler *cycler;
        struct joiner *joiner;
    };
};

struct list {
    struct value *items; /* NULL while json stands for them */
    size_t count;
    const struct json *json;
    bool is_group; /* of groupby: a pair whose fields are also .grouper and .list */
};

struct entry {
    struct value key, value;
    uint64_t hash;
};
struct dict { /* in order of insertion */
    struct entry *entries;
    size_t count, cap;
    uint32_t *index; /* open addressing over entries, slot = entry + 1; NULL while small */
    size_t index_cap;
    const struct json *json; /* stands for the entries until looked at */
};

enum view_kind { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS };
struct view {
    struct dict *dict;
    enum view_kind kind;
};

struct range {
    int64_t start, stop, step;
    size_t count;
};

struct stream {
    struct list *list;
    size_t at;
    const char *type; /* "generator", "list_reverseiterator" */
};

struct undefined {
    const char *hint;  /* the whole message; NULL: made of what follows */
    const char *owner; /* "dict object"; NULL: a name alone */
    struct value name; /* what was looked up */
    bool is_unsafe;    /* reached for something that the sandbox forbids */
};

struct loop {
    struct list items;
    size_t at;
    struct value changed; /* what changed() saw last; VALUE_MISSING at first */
    const struct node *node;
    struct scope *scope; /* around it */
    int64_t depth;       /* calls of itself around it */
};

struct macro {
    const struct node *node; /* NODE_MACRO or NODE_CALL_BLOCK */
    struct scope *scope;     /* where it was defined */
};

struct method {
    struct value self;
    const struct builtin *builtin;
};

struct cycler {
    struct list items;
    size_t at;
};

struct joiner {
    struct value separator;
    bool is_used;
};

struct named_value {
    struct str name;
    struct value value;
};
struct arguments {
    struct value *items;
    size_t count;
    struct named_value *named;
    size_t named_count;
};

struct render;
struct call {
    struct value self;                       /* the filter's or test's input, the method's owner */
    struct value args[SL_TEMPLATE_ARGS_MAX]; /* in the order of params; VALUE_MISSING if absent */
    const struct arguments *raw;
};
typedef enum status builtin_run(struct render *render, const struct call *call, struct value *out);
/* A filter, test, method or function. params: names separated by spaces, the first `required` of
 * them must be given; "*" leaves call.raw to it. run NULL: known to Jinja and not supported. */
struct builtin {
    const char *name;
    builtin_run *run;
    const char *params;
    unsigned required;
};

struct binding {
    uint32_t symbol;
    struct value value;
};
/* Names of one block. The root scope has no parent and keeps its values in render.root. */
struct scope {
    struct scope *parent;
    struct binding *items;
    uint32_t count, cap;
    bool is_captured; /* a macro holds it: never used again for another block */
};

enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE };

struct render {
    const struct template *template;
    const struct template_input *input;
    struct arena arena;
    struct buf *out;
    size_t out_start; /* length of *out before this rendering */
    struct buf scratch;
    struct value *root;                       /* by symbol; VALUE_MISSING: not looked up yet */
    struct scope *scope, *root_scope, *spare; /* spare: scopes to use again, by parent */
    struct value block;                       /* input of a filter or set block's filters */
    uint64_t steps_left;
    uint32_t frames, macros, line;
    enum flow flow;
    struct error *err;
};

/* template_value.c: making, looking at and comparing values. */

/* "NAME line N: ..." as SL_ERR_ROW. */
enum status value_fail(struct render *render, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
#define value_fail(...) error_is_set(value_fail(__VA_ARGS__)) /* never SL_OK */
/* Counts `steps` of work; SL_ERR_ROW when the limit is reached. Bulk work counts bytes / 64. */
enum status value_charge(struct render *render, size_t steps);
/* Zeroed memory of the rendering. */
enum status value_take(struct render *render, size_t bytes, void **out);

struct value value_none(void);
struct value value_bool(bool boolean);
struct value value_int(int64_t integer);
struct value value_float(double real);
struct value value_text(struct str text); /* borrowed: from the tree, the input or the arena */
struct value value_words(const char *constant);
/* name is what was looked for in owner ("dict object", NULL for a variable). */
enum status value_undefined(struct render *render, const char *owner, const struct value *name,
                            struct value *out);
enum status value_hint(struct render *render, const char *hint, struct value *out);
enum status value_unsafe(struct render *render, const char *owner, const struct value *name,
                         struct value *out);
/* The error of using an undefined value. */
enum status value_use_undefined(struct render *render, const struct value *value);

enum status value_from_json(struct render *render, const struct json *json, struct value *out);
enum status value_new_list(struct render *render, enum value_kind kind, size_t count,
                           struct value *out); /* count items of VALUE_NONE to fill */
enum status value_new_stream(struct render *render, const struct value *list, const char *type,
                             struct value *out);
/* The items of a list or tuple, converted from JSON if need be. */
enum status value_items(struct render *render, struct list *list);
/* What iterating gives; the items of *out may be shared: read only. Uses up a stream. */
enum status value_iterate(struct render *render, const struct value *value, struct list *out);
bool value_is_iterable(const struct value *value);
/* len(value). False: it has none. */
enum status value_length(struct render *render, const struct value *value, bool *has,
                         size_t *length);
enum status value_length_or_fail(struct render *render, const struct value *value, size_t *length);

enum status value_truth(struct render *render, const struct value *value, bool *out);
bool value_is_number(const struct value *value);    /* bool, int, big or float */
const char *value_type(const struct value *value);  /* Python's name: "str", "NoneType" */
const char *value_owner(const struct value *value); /* "str object", "None" */
enum status value_equal(struct render *render, const struct value *a, const struct value *b,
                        bool *out);
/* -1, 0, 1; 2 when one is NaN. sign ("<") is for the message when they have no order. */
enum status value_order(struct render *render, const struct value *a, const struct value *b,
                        const char *sign, int *out);
enum status value_contains(struct render *render, const struct value *container,
                           const struct value *value, bool *out);
enum status value_hash(struct render *render, const struct value *value, uint64_t *out);
bool value_is_same(const struct value *a, const struct value *b); /* Python's `is` */

/* template_dict.c */
enum status dict_new(struct render *render, enum value_kind kind, struct value *out);
enum status dict_entries(struct render *render, struct dict *dict); /* converts from JSON */
enum status dict_put(struct render *render, struct dict *dict, const struct value *key,
                     const struct value *value);
/* NULL when absent. A key that cannot be hashed is an error. */
enum status dict_find(struct render *render, struct dict *dict, const struct value *key,
                      struct entry **out);
enum status dict_find_str(struct render *render, struct dict *dict, struct str key,
                          struct entry **out);
enum status dict_put_str(struct render *render, struct dict *dict, struct str key,
                         const struct value *value);
/* dict(pairs or mapping, **named). */
enum status dict_make(struct render *render, const struct arguments *arguments,
                      enum value_kind kind, struct value *out);

/* template_repr.c: values as text. */

/* str(value) as a text value (plain, or markup as it is). */
enum status repr_str(struct render *render, const struct value *value, struct str *out);
enum status repr_add_str(struct render *render, struct buf *buf, const struct value *value);
enum status repr_add(struct render *render, struct buf *buf, const struct value *value);
struct json_style {
    struct str indent; /* data NULL: all on one line */
    struct str item_separator, key_separator;
    bool is_ascii, sorts_keys;
};
enum status repr_add_json(struct render *render, struct buf *buf, const struct value *value,
                          const struct json_style *style);
void repr_add_float(struct buf *buf, double real);

/* template_number.c */
enum status number_binary(struct render *render, int op, const struct value *a,
                          const struct value *b, struct value *out);
enum status number_negate(struct render *render, const struct value *value, bool is_minus,
                          struct value *out);
/* A bool or int as int64. */
bool number_as_int(const struct value *value, int64_t *out);
bool number_as_double(const struct value *value, double *out); /* bool, int, big, float */
/* An int argument; `what` names it in the error. */
enum status number_need_int(struct render *render, const struct value *value, const char *what,
                            int64_t *out);
/* int(text, base) and float(text) as Python reads them; false when it does not. */
bool number_read_int(struct str text, int base, struct value *out); /* a big one borrows text */
bool number_read_float(struct str text, double *out);
enum status number_round(struct render *render, const struct value *value, int64_t digits,
                         struct value *out);

/* template_text.c: text as Python's str does it, by code points. */
enum status text_new(struct render *render, size_t len, char **data, struct value *out);
enum status text_copy(struct render *render, struct str text, struct value *out);
/* Takes what scratch holds from `mark` on as text, and cuts scratch back. */
enum status text_from_scratch(struct render *render, size_t mark, struct value *out);
enum status text_concat(struct render *render, const struct value *a, struct str b,
                        struct value *out);
enum status text_repeat(struct render *render, const struct value *text, int64_t count,
                        struct value *out);
size_t text_length(struct str text);               /* code points */
size_t text_offset(struct str text, size_t index); /* bytes before code point `index` */
bool text_is_ascii(struct str text);
size_t text_find(struct str text, struct str needle, size_t from); /* SIZE_MAX; linear time */
enum status text_rfind(struct render *render, struct str text, struct str needle, size_t *out);
/* Which ends strip takes off. chars: data NULL for white space. */
enum text_ends { TEXT_LEFT = 1, TEXT_RIGHT = 2, TEXT_BOTH = 3 };
struct str text_strip(struct str text, enum text_ends ends, struct str chars);
enum status text_replace(struct render *render, struct str text, struct str old, struct str new,
                         int64_t count, struct value *out);
/* separator: data NULL for runs of white space. max < 0: no limit. */
enum status text_split(struct render *render, struct str text, struct str separator, int64_t max,
                       bool from_right, struct value *out);
enum status text_lines(struct render *render, struct str text, bool keeps_ends, struct value *out);
enum text_case { CASE_UPPER, CASE_LOWER, CASE_TITLE, CASE_CAPITAL, CASE_SWAP };
enum status text_case(struct render *render, struct str text, enum text_case how,
                      struct value *out);
/* isupper() or islower(): has a letter with case, and none of the other one. */
bool text_has_case(struct str text, bool is_upper);
enum status text_escape(struct render *render, struct str text, struct value *out); /* markup */
enum status text_reverse(struct render *render, struct str text, struct value *out);
enum status text_need(struct render *render, const struct value *value, const char *what,
                      struct str *out); /* the text of a VALUE_TEXT, else an error */
enum status text_pad(struct render *render, const struct value *text, int64_t width, char align,
                     struct str fill, struct value *out); /* align: '<', '>', '^' */

/* template_format.c: "%s" % x and "{}".format(x). Into markup, text goes escaped. */
enum status format_percent(struct render *render, const struct value *format,
                           const struct value *args, struct value *out);
enum status format_braces(struct render *render, const struct value *format,
                          const struct arguments *args, struct value *out);

/* template_get.c: attributes, items, slices, calls. */
enum status get_attribute(struct render *render, const struct value *object, struct str name,
                          struct value *out);
enum status get_item(struct render *render, const struct value *object, const struct value *index,
                     struct value *out);
/* Bounds are VALUE_MISSING or none when left out. */
enum status get_slice(struct render *render, const struct value *object,
                      const struct value bounds[3], struct value *out);
/* An attribute path as filters take it: "a.b.0" or an integer. */
enum status get_path(struct render *render, const struct value *object, const struct value *path,
                     struct value *out);
/* Binds arguments to builtin's parameters and runs it. */
enum status get_run(struct render *render, const struct builtin *builtin, const char *what,
                    const struct value *self, const struct arguments *arguments, struct value *out);
enum status get_call(struct render *render, const struct value *callee,
                     const struct arguments *arguments, struct value *out);

/* Tables, each ended by a NULL name. */
const struct builtin *filter_find(struct str name);
const struct builtin *check_find(struct str name);
const struct builtin *method_find(const struct value *value, struct str name);
const struct builtin *global_find(struct str name);
const struct builtin *builtin_find(const struct builtin *table, struct str name);
extern const struct builtin filter_text_table[], filter_list_table[], method_text_table[],
    global_loop_methods[], global_cycler_methods[];
bool method_is_unsafe(const struct value *value, struct str name); /* changes a list or dict */
enum status global_loop_attribute(struct render *render, const struct value *loop, struct str name,
                                  struct value *out);

/* template_exec.c */
enum status exec_macro(struct render *render, const struct macro *macro,
                       const struct arguments *arguments, struct value *out);
/* loop(items) in a recursive loop: the text of its body over them. */
enum status exec_loop_again(struct render *render, const struct loop *loop,
                            const struct arguments *arguments, struct value *out);
/* Filter or test by name, for map, select and the like. */
enum status eval_filter_named(struct render *render, struct str name, const struct value *input,
                              const struct arguments *arguments, struct value *out);
enum status eval_test_named(struct render *render, struct str name, const struct value *input,
                            const struct arguments *arguments, bool *out);

#endif
