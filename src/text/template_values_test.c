/* Expressions: literals, operators, subscripts, Python's printed forms, undefined values. */
#include "text/template_for_test.h"

static const char variables[] =
    "{\"x\":5,\"y\":-3,\"f\":2.5,\"s\":\"Hello, World\",\"u\":\"Größe 😀\",\"l\":[3,1,2],"
    "\"d\":{\"b\":1,\"a\":2,\"items\":[9],\"c\":null},\"n\":null,\"e\":\"\","
    "\"ms\":[{\"role\":\"user\",\"n\":2},{\"role\":\"assistant\",\"n\":1},{\"role\":\"tool\",\"n\":"
    "3}],"
    "\"big\":123456789012345678901234567890,"
    "\"mixed\":[1,\"a\",null,2.5,true,[1],{\"k\":\"v\"}]}";

static void arithmetic_is_that_of_python(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ x+y }}", "2"),
        GIVES("{{ x-y }}", "8"),
        GIVES("{{ x*y }}", "-15"),
        GIVES("{{ x/y }}", "-1.6666666666666667"),
        GIVES("{{ x//y }}", "-2"),
        GIVES("{{ x%y }}", "-1"),
        GIVES("{{ -x//2 }}", "-3"),
        GIVES("{{ 7%-3 }}", "-2"),
        GIVES("{{ -7%3 }}", "2"),
        GIVES("{{ 7.5//2 }}", "3.0"),
        GIVES("{{ -7.5//2 }}", "-4.0"),
        GIVES("{{ 7.5%-2 }}", "-0.5"),
        GIVES("{{ 2**10 }}", "1024"),
        GIVES("{{ 2**-1 }}", "0.5"),
        GIVES("{{ 2**0.5 }}", "1.4142135623730951"),
        GIVES("{{ -2**2 }}", "4"),
        GIVES("{{ 2**3**2 }}", "64"),
        GIVES("{{ x+f }}", "7.5"),
        GIVES("{{ true+1 }}", "2"),
        GIVES("{{ 1_000 }}", "1000"),
        GIVES("{{ 0x1F }}", "31"),
        GIVES("{{ 0b101 }}", "5"),
        GIVES("{{ 0o17 }}", "15"),
        GIVES("{{ 1e3 }}", "1000.0"),
        GIVES("{{ 1.5e-3 }}", "0.0015"),
        GIVES("{{ +x }}", "5"),
        GIVES("{{ -f }}", "-2.5"),
        GIVES("{{ 10 - 2 - 3 }}", "5"),
        GIVES("{{ 2*3%4 }}", "2"),
        GIVES("{{ 10//3*3 }}", "9"),
        FAILS("{{ 1/0 }}", "division by zero"),
        FAILS("{{ 1//0 }}", "integer division or modulo by zero"),
        FAILS("{{ 1.0/0 }}", "float division by zero"),
        FAILS("{{ -'a' }}", "bad operand type for unary -: 'str'"),
        FAILS("{{ x+'a' }}", "unsupported operand type(s) for +: 'int' and 'str'"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void integers_beyond_64_bits_keep_their_digits(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ big }}", "123456789012345678901234567890"),
        GIVES("{{ [big] }}", "[123456789012345678901234567890]"),
        GIVES("{{ big == big }}", "True"),
        GIVES("{{ big > x }}", "True"),
        GIVES("{{ -1 < big }}", "True"),
        GIVES("{{ big|tojson }}", "123456789012345678901234567890"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void integer_overflow_is_an_error(void **state) {
    static const struct expectation table[] = {
        FAILS("{{ 9223372036854775807 + 1 }}", "an integer does not fit in 64 bits"),
        FAILS("{{ -9223372036854775807 - 2 }}", "an integer does not fit in 64 bits"),
        FAILS("{{ 4294967296 * 4294967296 }}", "an integer does not fit in 64 bits"),
        FAILS("{{ 2 ** 64 }}", "an integer does not fit in 64 bits"),
        FAILS("{{ big + 1 }}", "an integer does not fit in 64 bits"),
        GIVES("{{ 9223372036854775806 + 1 }}", "9223372036854775807"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void floats_print_as_python_prints_them(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ 1e400 }}", "inf"),
        GIVES("{{ -1e400 }}", "-inf"),
        GIVES("{{ 1e16 }}", "1e+16"),
        GIVES("{{ 1e15 }}", "1000000000000000.0"),
        GIVES("{{ 123456789.123 }}", "123456789.123"),
        GIVES("{{ 0.1+0.2 }}", "0.30000000000000004"),
        GIVES("{{ 1e-5 }}", "1e-05"),
        GIVES("{{ 0.0001 }}", "0.0001"),
        GIVES("{{ 5.0 }}", "5.0"),
        GIVES("{{ -0.0 }}", "-0.0"),
        GIVES("{{ 100000000000000000000.0 }}", "1e+20"),
        GIVES("{{ [1.0, 2.50] }}", "[1.0, 2.5]"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void text_joins_and_repeats(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ 'a'+'b' }}", "ab"),
        GIVES("{{ 'ab'*3 }}", "ababab"),
        GIVES("{{ 3*'ab' }}", "ababab"),
        GIVES("{{ 'a'*-1 }}", ""),
        GIVES("{{ x~y~s }}", "5-3Hello, World"),
        GIVES("{{ n~1 }}", "None1"),
        FAILS("{{ 1 + 2 ~ 3 + 4 }}", "unsupported operand type(s) for +: 'int' and 'str'"),
        GIVES("{{ 'a' ~ 'b' * 2 }}", "abb"),
        GIVES("{{ 'a' 'b' }}", "ab"),
        FAILS("{{ 'a'+l }}", "can only concatenate str (not \"list\") to str"),
        FAILS("{{ l+'a' }}", "can only concatenate list (not \"str\") to list"),
        GIVES("{{ l+[1] }}", "[3, 1, 2, 1]"),
        GIVES("{{ (1,)+(2,) }}", "(1, 2)"),
        FAILS("{{ [1]+(2,) }}", "can only concatenate list (not \"tuple\") to list"),
        GIVES("{{ l*2 }}", "[3, 1, 2, 3, 1, 2]"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void comparisons_chain_and_mix_types(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ 1<2<3 }}", "True"),
        GIVES("{{ 1<3<2 }}", "False"),
        GIVES("{{ 3>2>1 }}", "True"),
        GIVES("{{ 1==1.0 }}", "True"),
        GIVES("{{ 1==true }}", "True"),
        GIVES("{{ 'a'<'b' }}", "True"),
        GIVES("{{ [1,2]<[1,3] }}", "True"),
        GIVES("{{ n==n }}", "True"),
        GIVES("{{ l==[3,1,2] }}", "True"),
        GIVES("{{ (1,2)==[1,2] }}", "False"),
        GIVES("{{ {}=={} }}", "True"),
        GIVES("{{ 1 == 1 == 1 }}", "True"),
        FAILS("{{ 1<'a' }}", "'<' not supported between instances of 'int' and 'str'"),
        FAILS("{{ n<1 }}", "'<' not supported between instances of 'NoneType' and 'int'"),
        GIVES("{{ 1 in l }}", "True"),
        GIVES("{{ 4 in l }}", "False"),
        GIVES("{{ 'b' in d }}", "True"),
        GIVES("{{ 'ell' in s }}", "True"),
        GIVES("{{ 1 not in l }}", "False"),
        GIVES("{{ x not in l and y }}", "-3"),
        FAILS("{{ 1 in s }}", "'in <string>' requires string as left operand, not int"),
        FAILS("{{ 'x' in n }}", "argument of type 'NoneType' is not iterable"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void logic_gives_the_value_that_decides(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ x and y }}", "-3"),
        GIVES("{{ e or 'z' }}", "z"),
        GIVES("{{ n or e }}", ""),
        GIVES("{{ not x }}", "False"),
        GIVES("{{ not not x }}", "True"),
        GIVES("{{ not 1 == 2 }}", "True"),
        GIVES("{{ x if e else y }}", "-3"),
        GIVES("{{ 'a' if x > 30 else 'b' if x > 3 else 'c' }}", "b"),
        GIVES("{{ x if e }}", ""),
        GIVES("{{ (x if e) is defined }}", "False"),
        GIVES("{{ - - x }}", "5"),
        GIVES("{{ +-x }}", "-5"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void subscripts_count_code_points(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ u|length }}", "7"),
        GIVES("{{ u[0] }}", "G"),
        GIVES("{{ u[1:4] }}", "röß"),
        GIVES("{{ u[::-1] }}", "😀 eßörG"),
        GIVES("{{ u[-1] }}", "😀"),
        GIVES("{{ s[::2] }}", "Hlo ol"),
        GIVES("{{ s[-3:] }}", "rld"),
        GIVES("{{ s[10:2:-3] }}", "lWo"),
        GIVES("{{ s[100] }}", ""),
        GIVES("{{ l[::-1] }}", "[2, 1, 3]"),
        GIVES("{{ l[5] }}", ""),
        GIVES("{{ l[-1] }}", "2"),
        GIVES("{{ l[true] }}", "1"),
        GIVES("{{ l[1.5] }}", ""),
        GIVES("{{ l[1:] }}", "[1, 2]"),
        GIVES("{{ l[-10:10] }}", "[3, 1, 2]"),
        GIVES("{{ l[2:0:-1] }}", "[2, 1]"),
        GIVES("{{ (1,2,3)[1:] }}", "(2, 3)"),
        GIVES("{{ ms[-2:]|length }}", "2"),
        GIVES("{{ ms.0.role }}", "user"),
        GIVES("{{ range(10)[2:5]|list }}", "[2, 3, 4]"),
        GIVES("{{ range(10)[::-3]|list }}", "[9, 6, 3, 0]"),
        GIVES("{{ range(4)[5:1:-2] }}", "range(3, 1, -2)"),
        FAILS("{{ l[::0] }}", "slice step cannot be zero"),
        FAILS("{{ l['a':] }}", "slice indices must be integers or None"),
        FAILS("{{ n[1:] }}", "'NoneType' object is not subscriptable"),
        FAILS("{{ x[1:] }}", "'int' object is not subscriptable"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void attributes_come_before_items_and_items_before_attributes(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ d.b }}", "1"),
        GIVES("{{ d['b'] }}", "1"),
        GIVES("{{ d.zz }}", ""),
        GIVES("{{ d.items()|list }}", "[('b', 1), ('a', 2), ('items', [9]), ('c', None)]"),
        GIVES("{{ d['items'] }}", "[9]"),
        GIVES("{{ d.get('b') }}", "1"),
        GIVES("{{ d.get('z') }}", "None"),
        GIVES("{{ d.get('z', 4) }}", "4"),
        GIVES("{{ s['upper']() }}", "HELLO, WORLD"),
        GIVES("{{ ms[0].role.upper() }}", "USER"),
        GIVES("{{ {(1,2):3}[1,2] }}", "3"),
        GIVES("{{ {none:1}[none] }}", "1"),
        GIVES("{{ {1:2}[1.0] }}", "2"),
        GIVES("{{ d[l] }}", ""),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void python_internals_are_out_of_reach(void **state) {
    static const struct expectation table[] = {
        FAILS("{{ l.append(1) }}", "access to attribute 'append' of list object is unsafe"),
        FAILS("{{ d.update({}) }}", "access to attribute 'update' of dict object is unsafe"),
        FAILS("{{ d.pop('b') }}", "access to attribute 'pop' of dict object is unsafe"),
        GIVES("{{ l.append }}", ""),
        FAILS("{{ s.__class__.mro() }}", "__class__"),
        GIVES("{{ s.__class__ }}", ""),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void undefined_prints_nothing_and_fails_when_used(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ undef }}", ""),
        FAILS("{{ undef.a }}", "'undef' is undefined"),
        FAILS("{{ undef[0] }}", "'undef' is undefined"),
        FAILS("{{ undef() }}", "'undef' is undefined"),
        FAILS("{{ undef+1 }}", "'undef' is undefined"),
        FAILS("{{ 1+undef }}", "'undef' is undefined"),
        GIVES("{{ undef~'a' }}", "a"),
        GIVES("{{ undef is defined }}", "False"),
        GIVES("{{ undef|length }}", "0"),
        GIVES("{{ undef in [1] }}", "False"),
        GIVES("{{ 1 in undef }}", "False"),
        GIVES("{{ undef or 3 }}", "3"),
        FAILS("{{ -undef }}", "'undef' is undefined"),
        FAILS("{{ undef<1 }}", "'undef' is undefined"),
        GIVES("{{ [undef] }}", "[Undefined]"),
        GIVES("{{ undef|string }}", ""),
        FAILS("{{ d.zz.y }}", "'dict object' has no attribute 'zz'"),
        GIVES("{{ n.foo }}", ""),
        FAILS("{{ x.foo.bar }}", "'int object' has no attribute 'foo'"),
        FAILS("{{ l[7].x }}", "list object has no element 7"),
        GIVES("{{ undef|upper }}", ""),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void containers_print_as_python_prints_them(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ mixed }}", "[1, 'a', None, 2.5, True, [1], {'k': 'v'}]"),
        GIVES("{{ d }}", "{'b': 1, 'a': 2, 'items': [9], 'c': None}"),
        GIVES("{{ {'a':1,2:'b',none:3,1.5:4} }}", "{'a': 1, 2: 'b', None: 3, 1.5: 4}"),
        GIVES("{{ {1:1,true:2} }}", "{1: 2}"),
        GIVES("{{ (1,2,) }}", "(1, 2)"),
        GIVES("{{ () }}", "()"),
        GIVES("{{ (1) }}", "1"),
        GIVES("{{ 1,2 }}", "(1, 2)"),
        GIVES("{{ [1,] }}", "[1]"),
        GIVES("{{ [\"it's\"] }}", "[\"it's\"]"),
        GIVES("{{ ['\"'] }}", "['\"']"),
        GIVES("{{ ['\"\\''] }}", "['\"\\'']"),
        GIVES("{{ ['\\n\\t\\\\'] }}", "['\\n\\t\\\\']"),
        GIVES("{{ ['\\x7f\\u200b\\u00e9\\U0001F600'] }}", "['\\x7f\\u200bé😀']"),
        GIVES("{{ d.keys() }}", "dict_keys(['b', 'a', 'items', 'c'])"),
        GIVES("{{ d.values() }}", "dict_values([1, 2, [9], None])"),
        GIVES("{{ d.items() }}", "dict_items([('b', 1), ('a', 2), ('items', [9]), ('c', None)])"),
        GIVES("{{ range(3) }}", "range(0, 3)"),
        GIVES("{{ range(1, 9, 2) }}", "range(1, 9, 2)"),
        GIVES("{{ namespace(a=1) }}", "<Namespace {'a': 1}>"),
        GIVES("{{ [none, true] }}", "[None, True]"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void strings_read_their_escapes(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ '\\d\\q' }}", "\\d\\q"), GIVES("{{ '\\101\\x41\\u0041' }}", "AAA"),
        GIVES("{{ '\\é' }}", "\\xe9"),     GIVES("{{ 'a\\\nb' }}", "ab"),
        GIVES("{{ \"x\\\"y\" }}", "x\"y"), GIVES("{{ 'it\\'s' }}", "it's"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void broken_expressions_name_their_line(void **state) {
    static const struct expectation table[] = {
        FAILS("a\n{{ }}", "T line 2: expected an expression, not }}"),
        FAILS("{{ x", "T line 1: expected }}, not the end of the template"),
        FAILS("{{ x y }}", "T line 1: expected }}, not 'y'"),
        FAILS("{{ (x }}", "T line 1: unexpected '}'"),
        FAILS("{{ 'abc }}", "T line 1: a string without its closing quote"),
        FAILS("{{ x. }}", "T line 1: expected a name, not }}"),
        FAILS("{{ f(a=1, 2) }}", "T line 1: invalid syntax for a call"),
        FAILS("{{ x @ y }}", "T line 1: unexpected character '@'"),
        FAILS("\n\n{{ '\\xZZ' }}", "T line 3: a string holds a \\x"),
        FAILS("{{ l[1:, 2] }}", "T line 1: a slice among several indexes is not supported"),
        FAILS("{{ x is odd is even }}", "T line 1: tests cannot be chained with 'is'"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic_is_that_of_python),
        cmocka_unit_test(integers_beyond_64_bits_keep_their_digits),
        cmocka_unit_test(integer_overflow_is_an_error),
        cmocka_unit_test(floats_print_as_python_prints_them),
        cmocka_unit_test(text_joins_and_repeats),
        cmocka_unit_test(comparisons_chain_and_mix_types),
        cmocka_unit_test(logic_gives_the_value_that_decides),
        cmocka_unit_test(subscripts_count_code_points),
        cmocka_unit_test(attributes_come_before_items_and_items_before_attributes),
        cmocka_unit_test(python_internals_are_out_of_reach),
        cmocka_unit_test(undefined_prints_nothing_and_fails_when_used),
        cmocka_unit_test(containers_print_as_python_prints_them),
        cmocka_unit_test(strings_read_their_escapes),
        cmocka_unit_test(broken_expressions_name_their_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
