/* Filters, tests, methods and formatting, against what Python and Jinja make of them. */
#include "text/template_for_test.h"

static const char variables[] =
    "{\"x\":5"
    ",\"s\":\"Hello, World\""
    ",\"u\":\"Größe 😀 ǆ straße ΑΣ\""
    ",\"l\":[3, 1, 2]"
    ",\"d\":{\"b\": 1, \"a\": 2}"
    ",\"n\":null"
    ",\"e\":\"\""
    ",\"nl\":\"a\\nb\\r\\nc\\n\\nd\""
    ",\"ms\":[{\"role\": \"user\", \"content\": \"hi\", \"n\": 2}, {\"role\": \"assistant\", "
    "\"content\": null, \"n\": 1}, {\"role\": \"tool\", \"content\": [{\"type\": \"text\", "
    "\"text\": \"p\"}], \"n\": 3}]"
    ",\"mixed\":[1, \"a\", null, 2.5, true]}";

static void case_filters_follow_unicode(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ u|upper }}", "GRÖSSE 😀 Ǆ STRASSE ΑΣ"),
        GIVES("{{ u|lower }}", "größe 😀 ǆ straße ας"),
        GIVES("{{ u|title }}", "Größe 😀 Ǆ Straße Ασ"),
        GIVES("{{ u|capitalize }}", "Größe 😀 ǆ straße ας"),
        GIVES("{{ 'foo-bar (baz) {x [y <z'|title }}", "Foo-Bar (Baz) {X [Y <Z"),
        GIVES("{{ 'hELLO wORLD'|capitalize }}", "Hello world"),
        GIVES("{{ u.title() }}", "Größe 😀 ǅ Straße Ας"),
        GIVES("{{ u.swapcase() }}", "gRÖSSE 😀 Ǆ STRASSE ας"),
        GIVES("{{ 'ΑΣ ΑΣΑ'.lower() }}", "ας ασα"),
        GIVES("{{ 'ﬁx'.capitalize() }}", "Fix"),
        GIVES("{{ 'İ'.lower()|length }}", "2"),
        GIVES("{{ 'aB'.swapcase() }}", "Ab"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void trim_and_strip_take_white_space_or_given_characters(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ '  a '|trim }}", "a"),
        GIVES("{{ 'xxaxx'|trim('x') }}", "a"),
        GIVES("{{ '\\u2003a\\xa0'|trim }}", "a"),
        GIVES("{{ 'xax'.lstrip('x') }}", "ax"),
        GIVES("{{ 'xax'.rstrip('x') }}", "xa"),
        GIVES("{{ 'abcba'.strip('ab') }}", "c"),
        GIVES("{{ 5|trim }}", "5"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void replace_counts_and_takes_the_empty_text(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ s|replace('l','L') }}", "HeLLo, WorLd"),
        GIVES("{{ s|replace('l','L',1) }}", "HeLlo, World"),
        GIVES("{{ s|replace('','-',2) }}", "-H-ello, World"),
        GIVES("{{ 'ab'|replace('','-') }}", "-a-b-"),
        GIVES("{{ 5|replace(5,6) }}", "6"),
        GIVES("{{ 'aaa'.replace('aa','b') }}", "ba"),
        GIVES("{{ s.replace('zz','') }}", "Hello, World"),
        FAILS("{{ s.replace('o') }}", "method 'replace' needs the argument 'new'"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void split_cuts_on_text_or_white_space(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ 'a b  c'.split() }}", "['a', 'b', 'c']"),
        GIVES("{{ 'a b  c'.split(' ') }}", "['a', 'b', '', 'c']"),
        GIVES("{{ 'a,b,c'.split(',',1) }}", "['a', 'b,c']"),
        GIVES("{{ 'a,b,c'.rsplit(',',1) }}", "['a,b', 'c']"),
        GIVES("{{ '  a  b '.split(none,1) }}", "['a', 'b ']"),
        GIVES("{{ '  a  b '.rsplit(none,1) }}", "['  a', 'b']"),
        GIVES("{{ 'a,b'.split(sep=',') }}", "['a', 'b']"),
        GIVES("{{ ''.split() }}", "[]"),
        GIVES("{{ ''.split(',') }}", "['']"),
        GIVES("{{ nl.splitlines() }}", "['a', 'b', 'c', '', 'd']"),
        GIVES("{{ nl.splitlines(true) }}", "['a\\n', 'b\\r\\n', 'c\\n', '\\n', 'd']"),
        GIVES("{{ 'a=b=c'.partition('=') }}", "('a', '=', 'b=c')"),
        GIVES("{{ 'a=b=c'.rpartition('=') }}", "('a=b', '=', 'c')"),
        FAILS("{{ 'a,b'.split('') }}", "empty separator"),
        GIVES("{{ 'aXXbXXc'.rsplit('XX',1) }}", "['aXXb', 'c']"),
        GIVES("{{ '</think>x</think>y'.split('</think>')[-1] }}", "y"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void find_counts_code_points(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ u.find('😀') }}", "6"),
        GIVES("{{ u.rfind('s') }}", "10"),
        GIVES("{{ s.find('o',5) }}", "8"),
        GIVES("{{ s.find('o',5,7) }}", "-1"),
        GIVES("{{ s.find('',3) }}", "3"),
        GIVES("{{ s.rfind('') }}", "12"),
        GIVES("{{ s.find('',20) }}", "-1"),
        GIVES("{{ s.count('l') }}", "3"),
        GIVES("{{ s.count('') }}", "13"),
        FAILS("{{ s.index('zz') }}", "substring not found"),
        GIVES("{{ 'ababab'.rfind('ab') }}", "4"),
        GIVES("{{ 'ababab'.rfind('ab',0,5) }}", "2"),
        GIVES("{{ s.startswith('He') }}", "True"),
        GIVES("{{ s.startswith(('x','H')) }}", "True"),
        GIVES("{{ s.endswith('d') }}", "True"),
        GIVES("{{ s.startswith('W',7) }}", "True"),
        FAILS("{{ s.startswith(1) }}", "startswith first arg must be str, not int"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void indent_leaves_first_and_blank_lines(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ nl|indent }}", "a\n    b\n    c\n\n    d"),
        GIVES("{{ nl|indent(2,true) }}", "  a\n  b\n  c\n\n  d"),
        GIVES("{{ nl|indent(2,true,true) }}", "  a\n  b\n  c\n  \n  d"),
        GIVES("{{ nl|indent('>>') }}", "a\n>>b\n>>c\n\n>>d"),
        GIVES("{{ ''|indent(first=true) }}", "    "),
        FAILS("{{ 5|indent }}", "indent's input must be str, not int"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void truncate_keeps_words_and_leeway(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ 'foo bar baz qux'|truncate(9) }}", "foo..."),
        GIVES("{{ 'foo bar baz qux'|truncate(9,True) }}", "foo ba..."),
        GIVES("{{ 'foo bar baz qux'|truncate(11) }}", "foo bar baz qux"),
        GIVES("{{ 'foo bar baz qux'|truncate(11,False,'...',0) }}", "foo bar..."),
        FAILS("{{ s|truncate(2) }}", "expected length >= 3, got 2"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void markup_escapes_what_joins_it(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ '<a>&\"\\''|e }}", "&lt;a&gt;&amp;&#34;&#39;"),
        GIVES("{{ '<a>'|escape|escape }}", "&lt;a&gt;"),
        GIVES("{{ '<a>'|forceescape }}", "&lt;a&gt;"),
        GIVES("{{ ('<b>'|safe)+'<c>' }}", "<b>&lt;c&gt;"),
        GIVES("{{ '<c>'+('<b>'|safe) }}", "&lt;c&gt;<b>"),
        GIVES("{{ ('<b>'|safe)~'<c>' }}", "<b><c>"),
        GIVES("{{ [('a'|safe)] }}", "[Markup('a')]"),
        GIVES("{{ ('<b>'|safe).replace('b','<') }}", "<&lt;>"),
        GIVES("{{ ('%s'|safe)|format('<') }}", "&lt;"),
        GIVES("{{ ('<b>'|safe)|replace('<','[') }}", "[b>"),
        GIVES("{{ ('<'|safe).join(['<']) }}", "&lt;"),
        GIVES("{{ '<b>x</b>  y'|striptags }}", "x y"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void numbers_are_read_as_python_reads_them(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ '42'|int }}", "42"),
        GIVES("{{ '42.7'|int }}", "42"),
        GIVES("{{ 'a'|int }}", "0"),
        GIVES("{{ 'a'|int(7) }}", "7"),
        GIVES("{{ '0x1F'|int(base=16) }}", "31"),
        GIVES("{{ '101'|int(base=2) }}", "5"),
        GIVES("{{ 3.9|int }}", "3"),
        GIVES("{{ (-3.9)|int }}", "-3"),
        GIVES("{{ n|int }}", "0"),
        GIVES("{{ ' 12 '|int }}", "12"),
        GIVES("{{ '1_000'|int }}", "1000"),
        GIVES("{{ 'inf'|int }}", "0"),
        GIVES("{{ '3.5'|float }}", "3.5"),
        GIVES("{{ 'a'|float(1.5) }}", "1.5"),
        GIVES("{{ 'nan'|float }}", "nan"),
        GIVES("{{ '1e3'|float }}", "1000.0"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void round_goes_half_to_even_on_the_exact_value(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ 2.5|round }}", "2.0"),
        GIVES("{{ 3.5|round }}", "4.0"),
        GIVES("{{ 2.675|round(2) }}", "2.67"),
        GIVES("{{ 42.55|round(1,'floor') }}", "42.5"),
        GIVES("{{ 42.55|round(1,'ceil') }}", "42.6"),
        GIVES("{{ 42|round }}", "42"),
        GIVES("{{ 45|round(-1) }}", "40"),
        GIVES("{{ 55|round(-1) }}", "60"),
        GIVES("{{ 1234.5|round(-2) }}", "1200.0"),
        GIVES("{{ (-2.5)|round }}", "-2.0"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void sort_is_stable_and_ignores_case(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ l|sort }}", "[1, 2, 3]"),
        GIVES("{{ ['b','A','c','a']|sort }}", "['A', 'a', 'b', 'c']"),
        GIVES("{{ ['b','A','c']|sort(case_sensitive=true) }}", "['A', 'b', 'c']"),
        GIVES("{{ l|sort(reverse=true) }}", "[3, 2, 1]"),
        GIVES("{{ ms|sort(attribute='n')|map(attribute='n')|list }}", "[1, 2, 3]"),
        GIVES("{{ ms|sort(attribute='role,n')|map(attribute='role')|list }}",
              "['assistant', 'tool', 'user']"),
        GIVES("{{ [['b',1],['a',1],['B',0]]|sort(reverse=true,attribute=1) }}",
              "[['b', 1], ['a', 1], ['B', 0]]"),
        GIVES("{{ d|dictsort }}", "[('a', 2), ('b', 1)]"),
        GIVES("{{ {'b':1,'A':3,'c':2}|dictsort }}", "[('A', 3), ('b', 1), ('c', 2)]"),
        GIVES("{{ {'b':1,'A':3,'c':2}|dictsort(true) }}", "[('A', 3), ('b', 1), ('c', 2)]"),
        GIVES("{{ {'b':1,'A':3,'c':2}|dictsort(by='value',reverse=true) }}",
              "[('A', 3), ('c', 2), ('b', 1)]"),
        FAILS("{{ [1,'a']|sort }}", "'<' not supported between instances of 'str' and 'int'"),
        FAILS("{{ l|dictsort }}", "'list object' has no attribute 'items'"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void selections_take_tests_by_name(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ [0,1,none,'']|select|list }}", "[1]"),
        GIVES("{{ [0,1,none,'']|reject|list }}", "[0, None, '']"),
        GIVES("{{ l|select('odd')|list }}", "[3, 1]"),
        GIVES("{{ l|select('>',1)|list }}", "[3, 2]"),
        GIVES("{{ ms|selectattr('role','equalto','user')|map(attribute='n')|list }}", "[2]"),
        GIVES("{{ ms|rejectattr('role','in',['user','tool'])|map(attribute='n')|list }}", "[1]"),
        GIVES("{{ ms|selectattr('zz','defined')|list }}", "[]"),
        GIVES("{{ ms|selectattr('content')|list|length }}", "2"),
        GIVES("{{ ms|map(attribute='zz',default='q')|list }}", "['q', 'q', 'q']"),
        FAILS("{{ ms|map(attribute='content.0.text')|list }}", "None has no element 0"),
        GIVES("{{ l|map('string')|map('upper')|join }}", "312"),
        GIVES("{{ ['b']|map('replace','b','z')|join }}", "z"),
        FAILS("{{ l|map('nosuch')|list }}", "there is no filter named 'nosuch'"),
        FAILS("{{ l|select('nosuch')|list }}", "there is no test named 'nosuch'"),
        FAILS("{{ ms|map()|list }}", "map requires a filter argument"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void generators_are_no_lists(void **state) {
    static const struct expectation table[] = {
        FAILS("{{ (l|map('string'))|length }}", "object of type 'generator' has no len()"),
        FAILS("{{ (l|select)|tojson }}", "Object of type generator is not JSON serializable"),
        GIVES("{{ (l|map('string'))[0] }}", ""),
        FAILS("{{ (l|map('string'))|last }}", "'generator' object is not reversible"),
        GIVES("{{ ([]|select) and 1 }}", "1"),
        GIVES("{{ l|reverse|list }}", "[2, 1, 3]"),
        GIVES("{{ l|map('string')|first }}", "3"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void folds_give_python_values(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ l|min }}", "1"),
        GIVES("{{ l|max }}", "3"),
        GIVES("{{ []|min }}", ""),
        GIVES("{{ ['b','A']|max }}", "b"),
        GIVES("{{ ms|max(attribute='n') }}",
              "{'role': 'tool', 'content': [{'type': 'text', 'text': 'p'}], 'n': 3}"),
        GIVES("{{ l|sum }}", "6"),
        GIVES("{{ ms|sum(attribute='n') }}", "6"),
        GIVES("{{ [[1],[2]]|sum(start=[]) }}", "[1, 2]"),
        GIVES("{{ l|join(',') }}", "3,1,2"),
        GIVES("{{ ms|join(',',attribute='role') }}", "user,assistant,tool"),
        GIVES("{{ d|join }}", "ba"),
        GIVES("{{ mixed|join('|') }}", "1|a|None|2.5|True"),
        GIVES("{{ ['a','A','b']|unique|list }}", "['a', 'b']"),
        GIVES("{{ [1,2,3,4,5]|batch(2,'x')|list }}", "[[1, 2], [3, 4], [5, 'x']]"),
        GIVES("{{ [1,2,3,4,5]|slice(3,'x')|list }}", "[[1, 2], [3, 4], [5, 'x']]"),
        GIVES("{{ ms|groupby('n')|map(attribute='grouper')|list }}", "[1, 2, 3]"),
        GIVES("{{ "
              "[{'c':'x'},{'c':'X'},{'c':'a'}]|groupby('c')|map(attribute='list')|map('length')|"
              "list }}",
              "[1, 2]"),
        FAILS("{{ x|length }}", "object of type 'int' has no len()"),
        GIVES("{{ l|first }}", "3"),
        GIVES("{{ d|last }}", "a"),
        GIVES("{{ d|items|list }}", "[('b', 1), ('a', 2)]"),
        GIVES("{{ 'a b'|wordcount }}", "2"),
        GIVES("{{ s|center(21) }}", "     Hello, World    "),
        GIVES("{{ 'ab'.center(5,'-') }}", "--ab-"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void default_replaces_the_undefined_and_on_request_the_empty(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ undef|default('a') }}", "a"),
        GIVES("{{ n|default('a') }}", "None"),
        GIVES("{{ n|default('a',true) }}", "a"),
        GIVES("{{ ''|d('a',true) }}", "a"),
        GIVES("{{ undef|d }}", ""),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void tests_tell_kinds(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ [x is number, true is number, true is integer, 2.5 is float, s is string] }}",
              "[True, True, False, True, True]"),
        GIVES("{{ [l is sequence, d is sequence, s is sequence, x is sequence, d.items() is "
              "sequence] }}",
              "[True, True, True, False, False]"),
        GIVES("{{ [l is iterable, s is iterable, x is iterable, n is iterable] }}",
              "[True, True, False, False]"),
        GIVES("{{ [d is mapping, l is mapping, n is none, true is true, 1 is true, false is "
              "boolean] }}",
              "[True, False, True, True, False, True]"),
        GIVES("{{ [s is lower, 'abc' is lower, 'ABC' is upper] }}", "[False, True, True]"),
        GIVES("{{ [x is odd, x is divisibleby 5, x is gt(3), x is in [5], x is sameas x] }}",
              "[True, True, True, True, True]"),
        GIVES("{{ [s.upper is callable, x is callable, ('a'|e) is escaped] }}",
              "[True, False, True]"),
        GIVES("{{ ['upper' is filter, 'zz' is filter, 'odd' is test] }}", "[True, False, True]"),
        GIVES("{{ x is not odd }}", "False"),
        GIVES("{{ not x is odd }}", "False"),
        FAILS("{{ x is nosuch }}", "there is no test named 'nosuch'"),
        GIVES("{{ s is string and s|length > 3 }}", "True"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void character_tests_are_those_of_python(void **state) {
    static const struct expectation table[] = {
        GIVES(
            "{{ ['12'.isdigit(), '²'.isdigit(), '²'.isdecimal(), '½'.isnumeric(), ''.isdigit()] }}",
            "[True, True, False, True, False]"),
        GIVES("{{ ['é'.isalpha(), 'a1'.isalnum(), ' \\t'.isspace(), 'AB'.isupper(), "
              "'ab1'.islower(), '12'.islower()] }}",
              "[True, True, True, True, True, False]"),
        GIVES("{{ ['\\n'.isprintable(), 'é'.isascii()] }}", "[False, False]"),
        GIVES("{{ ['5'.zfill(3), '-5'.zfill(4), 'a'.ljust(3), 'a'.rjust(3,'*')] }}",
              "['005', '-005', 'a  ', '**a']"),
        GIVES("{{ 'a\\tb'.expandtabs(4) }}", "a   b"),
        GIVES("{{ ['abc'.removeprefix('a'), 'abc'.removesuffix('c')] }}", "['bc', 'ab']"),
        GIVES("{{ ','.join(['a','b']) }}", "a,b"),
        FAILS("{{ ','.join([1]) }}", "sequence item 0: expected str instance, int found"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void percent_formatting_pads_and_converts(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ '%s is %d'|format('a',3) }}", "a is 3"),
        GIVES("{{ "
              "'%5.2f|%-5s|%05d|%x|%X|%o|%e|%g|%%'|format(3.14159,'ab',42,255,255,8,12345.678,0."
              "0001) }}",
              " 3.14|ab   |00042|ff|FF|10|1.234568e+04|0.0001|%"),
        GIVES("{{ '%(a)s'|format(a=1) }}", "1"),
        GIVES("{{ '%s %s' % (1,2) }}", "1 2"),
        GIVES("{{ '%r' % 'a' }}", "'a'"),
        GIVES("{{ '%+d % d' % (1,2) }}", "+1  2"),
        GIVES("{{ '%.3s' % 'abcdef' }}", "abc"),
        GIVES("{{ '%*d' % (5,3) }}", "    3"),
        GIVES("{{ '%s' % [1,2] }}", "[1, 2]"),
        FAILS("{{ '%d' % 'a' }}", "%d format: a real number is required, not str"),
        FAILS("{{ '%s %s' % 1 }}", "not enough arguments for format string"),
        FAILS("{{ '%s' % (1,2) }}", "not all arguments converted during string formatting"),
        FAILS("{{ '%' % 1 }}", "incomplete format"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void brace_formatting_pads_and_converts(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ '{0} {1} {0}'.format('a','b') }}", "a b a"),
        GIVES("{{ '{a}'.format(a=1) }}", "1"),
        GIVES("{{ '{:>5}|{:<5}|{:^5}'.format(1,'a','b') }}", "    1|a    |  b  "),
        GIVES("{{ '{:05d}'.format(42) }}", "00042"),
        GIVES("{{ '{:,}'.format(1234567) }}", "1,234,567"),
        GIVES("{{ '{:.2f}'.format(3.14159) }}", "3.14"),
        GIVES("{{ '{:x} {:b} {:#x}'.format(255,5,255) }}", "ff 101 0xff"),
        GIVES("{{ '{!r}'.format('a') }}", "'a'"),
        GIVES("{{ '{{}}'.format() }}", "{}"),
        GIVES("{{ '{:*^10}'.format('hi') }}", "****hi****"),
        GIVES("{{ '{0.b}'.format(d) }}", "1"),
        GIVES("{{ '{0[a]}'.format(d) }}", "2"),
        GIVES("{{ '{:.1%}'.format(0.256) }}", "25.6%"),
        GIVES("{{ '{:.3}'.format(2.0) }}", "2.0"),
        FAILS("{{ '{}'.format() }}", "Replacement index 0 out of range for positional args"),
        FAILS("{{ '{'.format() }}", "expected '}' before end of string"),
        FAILS("{{ '{:d}'.format('a') }}", "the format 'd' of a str is not supported"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void urlencode_quotes_texts_and_pairs(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ 'a b/ü?&='|urlencode }}", "a%20b/%C3%BC%3F%26%3D"),
        GIVES("{{ {'a b':'/ü','c':1}|urlencode }}", "a+b=%2F%C3%BC&c=1"),
        GIVES("{{ 1500|filesizeformat }}", "1.5 kB"),
        GIVES("{{ 1024|filesizeformat(true) }}", "1.0 KiB"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_filters_follow_unicode),
        cmocka_unit_test(trim_and_strip_take_white_space_or_given_characters),
        cmocka_unit_test(replace_counts_and_takes_the_empty_text),
        cmocka_unit_test(split_cuts_on_text_or_white_space),
        cmocka_unit_test(find_counts_code_points),
        cmocka_unit_test(indent_leaves_first_and_blank_lines),
        cmocka_unit_test(truncate_keeps_words_and_leeway),
        cmocka_unit_test(markup_escapes_what_joins_it),
        cmocka_unit_test(numbers_are_read_as_python_reads_them),
        cmocka_unit_test(round_goes_half_to_even_on_the_exact_value),
        cmocka_unit_test(sort_is_stable_and_ignores_case),
        cmocka_unit_test(selections_take_tests_by_name),
        cmocka_unit_test(generators_are_no_lists),
        cmocka_unit_test(folds_give_python_values),
        cmocka_unit_test(default_replaces_the_undefined_and_on_request_the_empty),
        cmocka_unit_test(tests_tell_kinds),
        cmocka_unit_test(character_tests_are_those_of_python),
        cmocka_unit_test(percent_formatting_pads_and_converts),
        cmocka_unit_test(brace_formatting_pads_and_converts),
        cmocka_unit_test(urlencode_quotes_texts_and_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
