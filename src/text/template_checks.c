/* The tests of `is`: Jinja2's, by name. */
#include "text/template_tree.h"

#include <math.h>

static enum status answer(struct value *out, bool is_so) {
    *out = value_bool(is_so);
    return SL_OK;
}

static enum status check_defined(struct render *render, const struct call *call,
                                 struct value *out) {
    (void)render;
    return answer(out, call->self.kind != VALUE_UNDEFINED);
}

static enum status check_undefined(struct render *render, const struct call *call,
                                   struct value *out) {
    (void)render;
    return answer(out, call->self.kind == VALUE_UNDEFINED);
}

static enum status check_none(struct render *render, const struct call *call, struct value *out) {
    (void)render;
    return answer(out, call->self.kind == VALUE_NONE);
}

static enum status check_boolean(struct render *render, const struct call *call,
                                 struct value *out) {
    (void)render;
    return answer(out, call->self.kind == VALUE_BOOL);
}

static enum status check_true(struct render *render, const struct call *call, struct value *out) {
    (void)render;
    return answer(out, call->self.kind == VALUE_BOOL && call->self.boolean);
}

static enum status check_false(struct render *render, const struct call *call, struct value *out) {
    (void)render;
    return answer(out, call->self.kind == VALUE_BOOL && !call->self.boolean);
}

static enum status check_integer(struct render *render, const struct call *call,
                                 struct value *out) {
    (void)render;
    return answer(out, call->self.kind == VALUE_INT || call->self.kind == VALUE_BIG);
}

static enum status check_float(struct render *render, const struct call *call, struct value *out) {
    (void)render;
    return answer(out, call->self.kind == VALUE_FLOAT);
}

static enum status check_number(struct render *render, const struct call *call, struct value *out) {
    (void)render;
    return answer(out, value_is_number(&call->self));
}

static enum status check_string(struct render *render, const struct call *call, struct value *out) {
    (void)render;
    return answer(out, call->self.kind == VALUE_TEXT);
}

static enum status check_mapping(struct render *render, const struct call *call,
                                 struct value *out) {
    (void)render;
    return answer(out, call->self.kind == VALUE_DICT);
}

static enum status check_iterable(struct render *render, const struct call *call,
                                  struct value *out) {
    (void)render;
    return answer(out, value_is_iterable(&call->self));
}

/* What has a length and items; an undefined value has both in Jinja. */
static enum status check_sequence(struct render *render, const struct call *call,
                                  struct value *out) {
    (void)render;
    switch (call->self.kind) {
    case VALUE_UNDEFINED:
    case VALUE_TEXT:
    case VALUE_LIST:
    case VALUE_TUPLE:
    case VALUE_DICT:
    case VALUE_RANGE:
        return answer(out, true);
    default:
        return answer(out, false);
    }
}

static enum status check_callable(struct render *render, const struct call *call,
                                  struct value *out) {
    (void)render;
    enum value_kind kind = call->self.kind;
    return answer(out, kind == VALUE_MACRO || kind == VALUE_METHOD || kind == VALUE_FUNCTION ||
                           kind == VALUE_JOINER || kind == VALUE_LOOP || kind == VALUE_UNDEFINED);
}

static enum status check_escaped(struct render *render, const struct call *call,
                                 struct value *out) {
    (void)render;
    return answer(out, call->self.kind == VALUE_TEXT && call->self.is_markup);
}

static enum status check_same(struct render *render, const struct call *call, struct value *out) {
    (void)render;
    return answer(out, value_is_same(&call->self, &call->args[0]));
}

static enum status check_filter(struct render *render, const struct call *call, struct value *out) {
    (void)render;
    return answer(out, call->self.kind == VALUE_TEXT && filter_find(call->self.text) != NULL);
}

static enum status check_test(struct render *render, const struct call *call, struct value *out) {
    (void)render;
    return answer(out, call->self.kind == VALUE_TEXT && check_find(call->self.text) != NULL);
}

static enum status check_upper(struct render *render, const struct call *call, struct value *out) {
    struct str text;
    TRY(repr_str(render, &call->self, &text));
    TRY(value_charge(render, text.len / 4));
    return answer(out, text_has_case(text, true));
}

static enum status check_lower(struct render *render, const struct call *call, struct value *out) {
    struct str text;
    TRY(repr_str(render, &call->self, &text));
    TRY(value_charge(render, text.len / 4));
    return answer(out, text_has_case(text, false));
}

/* self % divisor == rest. */
static enum status rest_is(struct render *render, const struct value *self,
                           const struct value *divisor, int64_t rest, struct value *out) {
    struct value result, wanted = value_int(rest);
    bool is_equal;
    TRY(number_binary(render, OP_MOD, self, divisor, &result));
    TRY(value_equal(render, &result, &wanted, &is_equal));
    return answer(out, is_equal);
}

static enum status check_even(struct render *render, const struct call *call, struct value *out) {
    struct value two = value_int(2);
    return rest_is(render, &call->self, &two, 0, out);
}

static enum status check_odd(struct render *render, const struct call *call, struct value *out) {
    struct value two = value_int(2);
    return rest_is(render, &call->self, &two, 1, out);
}

static enum status check_divisible(struct render *render, const struct call *call,
                                   struct value *out) {
    return rest_is(render, &call->self, &call->args[0], 0, out);
}

static enum status check_in(struct render *render, const struct call *call, struct value *out) {
    bool is_in;
    TRY(value_contains(render, &call->args[0], &call->self, &is_in));
    return answer(out, is_in);
}

static enum status check_eq(struct render *render, const struct call *call, struct value *out) {
    bool is_equal;
    TRY(value_equal(render, &call->self, &call->args[0], &is_equal));
    return answer(out, is_equal);
}

static enum status check_ne(struct render *render, const struct call *call, struct value *out) {
    TRY(check_eq(render, call, out));
    out->boolean = !out->boolean;
    return SL_OK;
}

static enum status check_lt(struct render *render, const struct call *call, struct value *out) {
    int order;
    TRY(value_order(render, &call->self, &call->args[0], "<", &order));
    return answer(out, order < 0);
}

static enum status check_le(struct render *render, const struct call *call, struct value *out) {
    int order;
    TRY(value_order(render, &call->self, &call->args[0], "<=", &order));
    return answer(out, order <= 0);
}

static enum status check_gt(struct render *render, const struct call *call, struct value *out) {
    int order;
    TRY(value_order(render, &call->self, &call->args[0], ">", &order));
    return answer(out, order == 1);
}

static enum status check_ge(struct render *render, const struct call *call, struct value *out) {
    int order;
    TRY(value_order(render, &call->self, &call->args[0], ">=", &order));
    return answer(out, order == 0 || order == 1);
}

static const struct builtin table[] = {
    {"defined", check_defined, "", 0},
    {"undefined", check_undefined, "", 0},
    {"none", check_none, "", 0},
    {"boolean", check_boolean, "", 0},
    {"true", check_true, "", 0},
    {"false", check_false, "", 0},
    {"integer", check_integer, "", 0},
    {"float", check_float, "", 0},
    {"number", check_number, "", 0},
    {"string", check_string, "", 0},
    {"mapping", check_mapping, "", 0},
    {"iterable", check_iterable, "", 0},
    {"sequence", check_sequence, "", 0},
    {"callable", check_callable, "", 0},
    {"escaped", check_escaped, "", 0},
    {"sameas", check_same, "other", 1},
    {"filter", check_filter, "", 0},
    {"test", check_test, "", 0},
    {"upper", check_upper, "", 0},
    {"lower", check_lower, "", 0},
    {"even", check_even, "", 0},
    {"odd", check_odd, "", 0},
    {"divisibleby", check_divisible, "num", 1},
    {"in", check_in, "seq", 1},
    {"eq", check_eq, "other", 1},
    {"equalto", check_eq, "other", 1},
    {"==", check_eq, "other", 1},
    {"ne", check_ne, "other", 1},
    {"!=", check_ne, "other", 1},
    {"lt", check_lt, "other", 1},
    {"lessthan", check_lt, "other", 1},
    {"<", check_lt, "other", 1},
    {"le", check_le, "other", 1},
    {"<=", check_le, "other", 1},
    {"gt", check_gt, "other", 1},
    {"greaterthan", check_gt, "other", 1},
    {">", check_gt, "other", 1},
    {"ge", check_ge, "other", 1},
    {">=", check_ge, "other", 1},
    {NULL, NULL, NULL, 0},
};

const struct builtin *check_find(struct str name) {
    return builtin_find(table, name);
}
