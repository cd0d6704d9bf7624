/* Statements: white space around tags, loops, scopes, macros, blocks; the limits; what fails and
 * how. */
#include "text/template_for_test.h"

#include "base/fault.h"
#include "base/team.h"

static const char variables[] =
    "{\"x\":5"
    ",\"l\":[3, 1, 2]"
    ",\"d\":{\"b\": 1, \"a\": 2}"
    ",\"n\":null"
    ",\"e\":\"\""
    ",\"el\":[]"
    ",\"messages\":[{\"role\": \"user\"}, {\"role\": \"assistant\"}, {\"role\": \"tool\"}]"
    ",\"s\":\"abc\""
    ",\"t\":{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"Größe "
    "<b>&'\\\"\\n\", \"parameters\": {\"z\": 1, \"a\": 1.0, \"n\": null}}}}";

static void one_trailing_newline_of_the_source_is_dropped(void **state) {
    static const struct expectation table[] = {
        GIVES("a", "a"),
        GIVES("a\n", "a"),
        GIVES("a\n\n", "a\n"),
        GIVES("\n", ""),
        GIVES("", ""),
        GIVES("a\r\nb\rc\r\n", "a\nb\nc"),
        GIVES("{{ 'P:' + messages[0].role }}\n", "P:user"),
        GIVES("{{ 'P:' + messages[0].role }}\n\n", "P:user\n"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void blocks_take_their_line_with_them(void **state) {
    static const struct expectation table[] = {
        GIVES("{% if x %}\n  a\n{% endif %}\nb", "  a\nb"),
        GIVES("  {% if x %}\n  a\n  {% endif %}\nb", "  a\nb"),
        GIVES("x {% if x %}\ny {% endif %}\n", "x y "),
        GIVES("\t{% if x %}\t\n\t{% endif %}\t", "\t\n\t"),
        GIVES("a\n   {{ x }}\n b", "a\n   5\n b"),
        GIVES("{{x}}{% if x %}\n{{x}}{% endif %}", "55"),
        GIVES("a\n  {# c #}\n b", "a\n b"),
        GIVES(" {% if x %}y{% endif %}", "y"),
        GIVES("{% for m in messages %}\n   {{ m.role }}\n{% endfor %}\nend",
              "   user\n   assistant\n   tool\nend"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void signs_strip_or_keep_white_space(void **state) {
    static const struct expectation table[] = {
        GIVES("{%- if x -%}\n a \n{%- endif -%}\n b", "ab"),
        GIVES("   {%+ if x +%}\n a {% endif +%}\nb", "   \n a \nb"),
        GIVES("a \n {{- x -}} \n b", "a5b"),
        GIVES("a {#- c -#} b", "ab"),
        GIVES("a\n  {#+ c +#}\n b", "a\n  \n b"),
        GIVES("a  {%- if x %}y{% endif %}", "ay"),
        GIVES("{{-1}}", "1"),
        GIVES("{{ -1}}", "-1"),
        GIVES("{% if x -%}\n\n\na{%- endif %}", "a"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void raw_text_stays_as_it_is(void **state) {
    static const struct expectation table[] = {
        GIVES("{% raw %}{{ x }}{% endraw %}", "{{ x }}"),
        GIVES("  {% raw %}  {{ x }}\n  {% endraw %}\n y", "  {{ x }}\n y"),
        GIVES("{%- raw -%}  {{ x }}  {%- endraw -%}  y", "{{ x }}y"),
        GIVES("{% raw -%} \n x {%- endraw +%}\n y", "x\n y"),
        FAILS("{% raw %}x", "missing end of raw directive"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void tags_end_only_where_brackets_are_closed(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ '}}' }}", "}}"),
        GIVES("{% if '%}' %}1{% endif %}", "1"),
        GIVES("{{ {'a':{'b':1}}['a']['b'] }}", "1"),
        GIVES("{{ {'a':{'b':1}}}}", "{'a': {'b': 1}}"),
        GIVES("{# a {{ x }} {% if %} #}b", "b"),
        GIVES("{ { x } }", "{ { x } }"),
        GIVES("{", "{"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void loops_know_where_they_are(void **state) {
    static const struct expectation table[] = {
        GIVES(
            "{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 "
            "}}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }};{% endfor %}",
            "1032TrueFalse31;2121FalseFalse31;3210FalseTrue31;"),
        GIVES("{% for i in l %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }};{% endfor %}",
              "<3>1;3<1>2;1<2>;"),
        GIVES("{% for i in l %}{{ loop.cycle('a','b') }}{% endfor %}", "aba"),
        GIVES("{% for i in [1,1,2,2] %}{{ loop.changed(i) }} {% endfor %}",
              "True False True False "),
        GIVES("{% for i in l if i > 1 %}{{ i }}/{{ loop.length }} {% endfor %}", "3/2 2/2 "),
        GIVES("{% for i in l %}{% for j in l %}{{ loop.index }}{% endfor %}{{ loop.index }}{% "
              "endfor %}",
              "123112321233"),
        FAILS("{% for i in l %}{{ loop.foo.bar }}{% endfor %}",
              "'loop object' has no attribute 'foo'"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void loops_unpack_break_continue_and_have_an_else(void **state) {
    static const struct expectation table[] = {
        GIVES("{% for k,v in d.items() %}{{ k }}={{ v }};{% endfor %}", "b=1;a=2;"),
        GIVES("{% for a,(b,c) in [(1,(2,3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "123"),
        GIVES("{% for a,b in ['xy','zw'] %}{{ a }}-{{ b }};{% endfor %}", "x-y;z-w;"),
        FAILS("{% for a,b in [[1,2,3]] %}{% endfor %}", "too many values to unpack (expected 2)"),
        FAILS("{% for a,b in [[1]] %}{% endfor %}",
              "not enough values to unpack (expected 2, got 1)"),
        FAILS("{% for a,b in [1] %}{% endfor %}", "cannot unpack non-iterable int object"),
        GIVES("{% for i in l %}{% if i == 1 %}{% break %}{% endif %}{{ i }}{% endfor %}", "3"),
        GIVES("{% for i in l %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "32"),
        GIVES("{% for i in el %}{{ i }}{% else %}none{% endfor %}", "none"),
        GIVES("{% for i in undef %}{{ i }}{% else %}none{% endfor %}", "none"),
        GIVES("{% for i in l %}{% break %}{% else %}E{% endfor %}", "E"),
        FAILS("{% for i in n %}{% endfor %}", "'NoneType' object is not iterable"),
        FAILS("{% for i in x %}{% endfor %}", "'int' object is not iterable"),
        GIVES("{% for i in 1,2,3 %}{{ i }}{% endfor %}", "123"),
        GIVES("{% for ch in 'Gö😀' %}{{ ch }}.{% endfor %}", "G.ö.😀."),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void recursive_loops_call_themselves(void **state) {
    static const struct expectation table[] = {
        GIVES("{% for i in [1,[2,[3]],4] recursive %}{% if i is iterable %}({{ loop(i) }}){% else "
              "%}{{ i }}@{{ loop.depth }}{% endif %}{% endfor %}",
              "1@1(2@2(3@3))4@1"),
        FAILS("{% for i in l %}{{ loop([1]) }}{% endfor %}",
              "the loop must have the 'recursive' marker to be called"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void set_in_a_loop_ends_with_its_pass(void **state) {
    static const struct expectation table[] = {
        GIVES("{% set n = 0 %}{% for i in l %}{% set n = n + i %}{{ n }};{% endfor %}{{ n }}",
              "3;1;2;0"),
        GIVES("{% if x %}{% set q1 = 2 %}{% endif %}{{ q1 }}", "2"),
        GIVES("{% for i in l %}{{ z is defined }} {% set z = i %}{% endfor %}{{ z is defined }}",
              "False False False False"),
        GIVES("{% set a, b = 1, 2 %}{{ a }}{{ b }}", "12"),
        GIVES("{% set a = 1, 2 %}{{ a }}", "(1, 2)"),
        GIVES("{% set a %}x{{ x }}{% endset %}[{{ a }}]", "[x5]"),
        GIVES("{% set a | upper %}x{{ s }}{% endset %}[{{ a }}]", "[XABC]"),
        GIVES("{% with a=1 %}{{ a }}{% endwith %}{{ a }}", "1"),
        GIVES("{% generation %}a{% set w = 1 %}{% endgeneration %}{{ w }}", "a"),
        GIVES("{% filter upper|replace('A','B') %}abc{% endfilter %}", "BBC"),
        GIVES("{{ x }}{% set x = 9 %}{{ x }}", "59"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void namespaces_outlive_loops(void **state) {
    static const struct expectation table[] = {
        GIVES("{% set ns = namespace(a=0) %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor "
              "%}{{ ns.a }}",
              "6"),
        GIVES("{% set ns = namespace() %}{% set ns.b = 1 %}{{ ns.b }}{{ ns.c }}", "1"),
        GIVES("{% set ns = namespace(a=[]) %}{% set ns.a = ns.a + [1] %}{{ ns.a }}", "[1]"),
        GIVES("{% set ns = namespace(x=1) %}{% macro m() %}{% set ns.x = 2 %}{% endmacro %}{{ m() "
              "}}{{ ns.x }}",
              "2"),
        FAILS("{% set d.a = 1 %}", "cannot assign attribute on non-namespace object"),
        FAILS("{% set ns = namespace() %}{% set ns._a = 1 %}",
              "a namespace cannot hold '_a': it begins with '_'"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void reversed_slices_namespace_and_loop_scope_of_case_11(void **state) {
    static const struct expectation table[] = {
        GIVES("{% set box = namespace(hit=-1) %}{% set n = 0 %}{% for m in messages[::-1] %}{% set "
              "n = n + 1 %}{% if box.hit < 0 and m.role == 'user' %}{% set box.hit = "
              "messages|length - 1 - loop.index0 %}{% endif %}{% endfor %}{{ box.hit }}/{{ n }}/{{ "
              "messages[-2:]|map(attribute='role')|join('+') }}/{{ 'abcdef'[1:-1:2] }}",
              "0/0/assistant+tool/bd"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void macros_take_defaults_and_keywords(void **state) {
    static const struct expectation table[] = {
        GIVES("{% macro m(a, b=2) %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1,3) }}{{ "
              "m(b=4,a=5) }}{{ m() }}",
              "[12][13][54][2]"),
        GIVES("{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}", "11"),
        GIVES("{% macro m(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1,2,3,z=4) }}",
              "(2, 3){'z': 4}"),
        FAILS("{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1,2) }}",
              "macro 'm' takes not more than 1 argument(s)"),
        FAILS("{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}",
              "macro 'm' takes no keyword argument 'b'"),
        GIVES(
            "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(3) }}",
            "3210"),
        GIVES("{% set z = 4 %}{% macro m() %}{{ z }}{% set z = 9 %}{{ z }}{% endmacro %}{% set z = "
              "5 %}{{ m() }}{{ z }}",
              "595"),
        GIVES("{% macro m() %}{{ i }}{% endmacro %}{% for i in l %}{{ m() }}{% endfor %}", ""),
        GIVES("{% macro m(a) %}{{ loop is defined }}{% endmacro %}{% for i in [1] %}{{ m(1) }}{% "
              "endfor %}",
              "False"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void call_blocks_hand_over_their_body(void **state) {
    static const struct expectation table[] = {
        GIVES("{% macro m(a) %}{{ a }}{{ caller() }}{% endmacro %}{% call m(1) %}body{{ x }}{% "
              "endcall %}",
              "1body5"),
        GIVES("{% macro m() %}{{ caller(1,2) }}{% endmacro %}{% call(a,b) m() %}{{ a }}+{{ b }}{% "
              "endcall %}",
              "1+2"),
        FAILS("{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}", "No caller defined"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void tojson_is_json_dumps_of_case_13(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ t|tojson }}",
              "{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"Größe "
              "<b>&'\\\"\\n\", \"parameters\": {\"z\": 1, \"a\": 1.0, \"n\": null}}}"),
        GIVES("{{ {'k':[1,{}]}|tojson(indent=2) }}", "{\n  \"k\": [\n    1,\n    {}\n  ]\n}"),
        GIVES("{% if tools is not none and tools is defined %}T{{ tools|length }}{% endif %}{% if "
              "tools %}Y{% endif %};",
              ";"),
        GIVES("{{ '\\u2028\\x7f\\x1f'|tojson }}", "\" \177\\u001f\""),
        GIVES("{{ 1e-7|tojson }}", "1e-07"),
        GIVES("{{ d|tojson(sort_keys=true) }}", "{\"a\": 2, \"b\": 1}"),
        GIVES("{{ d|tojson(separators=(',',':')) }}", "{\"b\":1,\"a\":2}"),
        GIVES("{{ 'Gö😀'|tojson(ensure_ascii=true) }}", "\"G\\u00f6\\ud83d\\ude00\""),
        GIVES("{{ {1:2,none:3,true:4,1.5:5}|tojson }}", "{\"1\": 4, \"null\": 3, \"1.5\": 5}"),
        FAILS("{{ undef|tojson }}", "Object of type Undefined is not JSON serializable"),
        FAILS("{{ {(1,2):3}|tojson }}", "keys must be str, int, float, bool or None, not tuple"),
        GIVES("{{ [1e400, -0.0]|tojson }}", "[Infinity, -0.0]"),
        GIVES("{{ [[],[1]]|tojson(indent='>') }}", "[\n>[],\n>[\n>>1\n>]\n]"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void globals_are_those_of_hugging_face(void **state) {
    static const struct expectation table[] = {
        GIVES("{{ range(1,4)|list }}", "[1, 2, 3]"),
        GIVES("{{ range(5,0,-2)|list }}", "[5, 3, 1]"),
        GIVES("{{ dict(a=1,b=2) }}", "{'a': 1, 'b': 2}"),
        GIVES("{{ dict({'a':1},b=3) }}", "{'a': 1, 'b': 3}"),
        GIVES("{{ strftime_now('%Y-%m-%d %H:%M:%S') }}", "2025-03-09 14:05:07"),
        GIVES("{{ strftime_now('%d %b %Y, %A %B %-d %j %p %%') }}",
              "09 Mar 2025, Sunday March 9 068 PM %"),
        GIVES("{% set c = cycler('a','b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current "
              "}}",
              "abab"),
        GIVES("{% set j = joiner('|') %}{% for i in l %}{{ j() }}{{ i }}{% endfor %}", "3|1|2"),
        GIVES("{{ lipsum is defined }}", "True"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void unsupported_tags_are_named_with_their_line(void **state) {
    static const struct expectation table[] = {
        FAILS("a\n{% include 'x' %}", "T line 2: the tag 'include' is not supported here"),
        FAILS("{% do l.append(1) %}", "T line 1: the tag 'do' is not supported here"),
        FAILS("{% autoescape true %}{% endautoescape %}", "the tag 'autoescape' is not supported"),
        FAILS("{% endif %}", "T line 1: the tag 'endif' is not supported here"),
        FAILS("{% if x %}\n\n", "the template ends, expected the tag 'endif'"),
        FAILS("{% break %}", "T line 1: 'break' outside a loop"),
        FAILS("{% for loop in l %}{% endfor %}", "cannot assign to the name 'loop'"),
        FAILS("{% macro m(a=1, b) %}{% endmacro %}", "a parameter without default after one with"),
        FAILS("{# a", "T line 1: missing end of comment tag"),
        FAILS("\xff", "the template is not UTF-8 (byte 0)"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void unknown_filters_fail_when_they_are_used(void **state) {
    static const struct expectation table[] = {
        GIVES("{% if n %}{{ x|nosuch }}{{ x is nosuch }}{% endif %}ok", "ok"),
        FAILS("a\nb{{ x|nosuch }}", "T line 2: there is no filter named 'nosuch'"),
        FAILS("{{ x is nosuch }}", "T line 1: there is no test named 'nosuch'"),
        FAILS("{{ x|pprint }}", "T line 1: the filter 'pprint' is not supported"),
        FAILS("{{ s.encode() }}", "T line 1: the method 'encode' is not supported"),
        FAILS("{{ s.nosuch() }}", "T line 1: 'str object' has no attribute 'nosuch'"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

static void raise_exception_gives_its_own_words(void **state) {
    struct buf out;
    struct error err = {0};
    (void)state;
    buf_init(&out);
    buf_add(&out, STR("before"));
    assert_int_equal(render_text(STR("text{{ raise_exception('roles must alternate: Ö\\nnow') }}"),
                                 variables, &out, &err),
                     SL_ERR_ROW);
    assert_string_equal(err.text, "roles must alternate: Ö\nnow");
    assert_true(str_is(buf_str(&out), "before"));
    assert_int_equal(render_text(STR("{{ raise_exception('ä' * 400) }}"), variables, &out, &err),
                     SL_ERR_ROW);
    assert_int_equal(strlen(err.text), sizeof err.text - 2); /* whole characters only */
    buf_release(&out);
}

static void limits_end_what_would_not_end(void **state) {
    static const struct expectation table[] = {
        FAILS("{{ 'x' * 100000000000 }}", "too long"),
        FAILS("{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}"
              "{% endfor %}",
              "too long"),
        FAILS("{{ range(1000000000) }}", "a range of 1000000000 items, more than 100000"),
        FAILS("{{ [1] * 1000000000 }}", "too long"),
        FAILS("{% for a in range(9) %}{% set q = 'x' * 60000000 %}{% endfor %}",
              "the template needs more than"),
        FAILS("{{ ('Σ' * 1000000)|lower }}", "the template does not end within 50000000 steps"),
        FAILS("{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
              "macros call one another more than 128 levels deep"),
        FAILS("{% set ns = namespace(l=[]) %}{% for i in range(999) %}{% set ns.l = [ns.l] %}"
              "{% endfor %}{{ ns.l }}",
              "nested more than 600 levels deep"),
        FAILS("{% set ns = namespace(l=[]) %}{% for i in range(999) %}{% set ns.l = [ns.l] %}"
              "{% endfor %}{{ ns.l == [ns.l] }}",
              "nested more than 600 levels deep"),
        FAILS("{{ 'a'|center(1000000000000) }}", "too long"),
        FAILS("{{ '%*d' % (999999999, 1) }}", "too long"),
        FAILS("{{ ('a' * 100000).replace('a', 'b' * 1000) }}", "too long"),
        FAILS("{{ [1]|slice(1000000000000)|list }}", "steps"),
    };
    (void)state;
    CHECK_TABLE(table, variables);
}

/* A source of `count` times `part`. */
static void check_repeated(const char *part, size_t count, const char *end, const char *error) {
    struct buf source, out;
    struct error err = {0};
    buf_init(&source);
    buf_init(&out);
    buf_add(&source, STR("{{ x"));
    for (size_t i = 0; i < count; i++)
        buf_add(&source, str_from(part));
    buf_add(&source, str_from(end));
    enum status status = render_text(buf_str(&source), variables, &out, &err);
    if (error == NULL)
        assert_int_equal(status, SL_OK);
    else
        assert_non_null(strstr(err.text, error));
    buf_release(&source);
    buf_release(&out);
}

static void nesting_is_bounded_in_every_direction(void **state) {
    (void)state;
    check_repeated(" + 1", 1000, " }}", NULL);
    check_repeated("|string", 1000, " }}", NULL);
    check_repeated(" ~ 1", 20000, " }}", NULL);
    check_repeated(" + 1", 20000, " }}", "evaluated more than 1500 levels deep");
    check_repeated(".a", 20000, " }}", "evaluated more than 1500 levels deep");
    check_repeated("|string", 20000, " }}", "evaluated more than 1500 levels deep");
    check_repeated(" + (1", 20000, " }}", "T line 1:");
    check_repeated(" + [1", 20000, " }}", "T line 1:");
    check_repeated(" + -", 20000, "1 }}", "nested more than 128 levels deep");
    check_repeated(" and 1", 20000, " }}", "evaluated more than 1500 levels deep");
    check_repeated(" }}{% if x %}{{ 1", 20000, " }}", "nested more than 128 levels deep");
    check_repeated(" if x else 1", 20000, " }}", "nested more than 128 levels deep");
    check_repeated(" }}{{ 1", 20000, " }}", NULL);
}

static void later_variables_win_and_missing_ones_are_none(void **state) {
    static const struct json one = {.kind = JSON_STRING, .text = {"one", 3}};
    const struct template_variable items[] = {{STR("a"), NULL}, {STR("b"), NULL}, {STR("b"), &one}};
    const struct template_input input = {.variables = items, .count = 3, .is_utc = true};
    struct template *template;
    struct buf out;
    (void)state;
    buf_init(&out);
    assert_int_equal(
        template_parse(STR("{{ a }} {{ b }} {{ c is defined }}"), "T", &template, NULL), SL_OK);
    assert_int_equal(template_render(template, &input, &out, NULL), SL_OK);
    assert_true(str_is(buf_str(&out), "None one False"));
    template_free(template);
    template_free(NULL);
    buf_release(&out);
}

static void templates_that_read_parts_are_known(void **state) {
    static const struct {
        const char *source;
        bool takes;
    } cases[] = {
        {"{{ m.content }}", false},
        {"{% for m in messages %}{{ m['content']|trim }}{% endfor %}", false},
        {"{% if m.content is string %}{% endif %}", true},
        {"{% if message['content'] is not string %}{% endif %}", true},
        {"{% set content = m.content %}{% if content is iterable %}{% endif %}", true},
        {"{% for part in m.content %}{% endfor %}", true},
        {"{% for part in m['content'] %}{% endfor %}", true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct template *template;
        assert_int_equal(template_parse(str_from(cases[i].source), "T", &template, NULL), SL_OK);
        assert_int_equal(template_takes_parts(template), cases[i].takes);
        template_free(template);
    }
}

struct crowd {
    const struct template *template;
    const struct template_input *input;
    struct buf outs[16];
};

static void render_item(void *ctx, size_t item, size_t worker) {
    struct crowd *crowd = ctx;
    (void)worker;
    assert_int_equal(template_render(crowd->template, crowd->input, &crowd->outs[item], NULL),
                     SL_OK);
}

static void threads_render_one_template_at_once(void **state) {
    struct arena arena;
    const struct json *json;
    struct team *team;
    struct template *template;
    struct crowd crowd;
    (void)state;
    arena_init(&arena);
    assert_int_equal(json_parse(&arena, STR("[{\"a\":[1,2]},{\"a\":[3]}]"), NULL, &json, NULL),
                     SL_OK);
    const struct template_variable items[] = {{STR("m"), json}};
    const struct template_input input = {.variables = items, .count = 1};
    assert_int_equal(
        template_parse(STR("{% macro f(x) %}<{{ x|join(',') }}>{% endmacro %}{% for i in m "
                           "%}{{ f(i.a) }}{{ i|tojson }}{{ strftime_now('') }}{% endfor %}"),
                       "T", &template, NULL),
        SL_OK);
    crowd.template = template;
    crowd.input = &input;
    for (size_t i = 0; i < 16; i++)
        buf_init(&crowd.outs[i]);
    assert_int_equal(team_new(4, &team, NULL), SL_OK);
    team_run(team, render_item, &crowd, 16);
    team_free(team);
    for (size_t i = 0; i < 16; i++) {
        assert_true(str_is(buf_str(&crowd.outs[i]), "<1,2>{\"a\": [1, 2]}<3>{\"a\": [3]}"));
        buf_release(&crowd.outs[i]);
    }
    template_free(template);
    arena_release(&arena);
}

/* Every allocation fails once: an error each time, nothing leaks, and in the end it works. */
static void a_failed_allocation_is_an_error(void **state) {
    const struct str source = STR(
        "{% macro m(a) %}{{ a|upper }}{% endmacro %}{% for i in l|sort %}{% set q = [i, {'a': "
        "i}] %}{{ q|tojson }}{{ m('x' ~ i) }}{% endfor %}{{ 'a\\n' ~ s.split('b')|join('-') }}");
    struct arena arena;
    const struct json *json;
    struct buf out;
    struct error err = {0};
    enum status status = SL_ERR_ENV;
    (void)state;
    arena_init(&arena);
    assert_int_equal(json_parse(&arena, str_from(variables), NULL, &json, &err), SL_OK);
    for (uint64_t nth = 1; status != SL_OK; nth++) {
        buf_init(&out);
        fault_arm(SL_FAULT_ALLOC, nth, false);
        status = render_tree(source, json, &out, &err);
        fault_arm(SL_FAULT_ALLOC, 0, false);
        if (status == SL_OK)
            assert_true(
                str_is(buf_str(&out), "[1, {\"a\": 1}]X1[2, {\"a\": 2}]X2[3, {\"a\": 3}]X3a\na-c"));
        else
            assert_int_equal(status, SL_ERR_ENV);
        buf_release(&out);
        assert_true(nth < 1000);
    }
    arena_release(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_trailing_newline_of_the_source_is_dropped),
        cmocka_unit_test(blocks_take_their_line_with_them),
        cmocka_unit_test(signs_strip_or_keep_white_space),
        cmocka_unit_test(raw_text_stays_as_it_is),
        cmocka_unit_test(tags_end_only_where_brackets_are_closed),
        cmocka_unit_test(loops_know_where_they_are),
        cmocka_unit_test(loops_unpack_break_continue_and_have_an_else),
        cmocka_unit_test(recursive_loops_call_themselves),
        cmocka_unit_test(set_in_a_loop_ends_with_its_pass),
        cmocka_unit_test(namespaces_outlive_loops),
        cmocka_unit_test(reversed_slices_namespace_and_loop_scope_of_case_11),
        cmocka_unit_test(macros_take_defaults_and_keywords),
        cmocka_unit_test(call_blocks_hand_over_their_body),
        cmocka_unit_test(tojson_is_json_dumps_of_case_13),
        cmocka_unit_test(globals_are_those_of_hugging_face),
        cmocka_unit_test(unsupported_tags_are_named_with_their_line),
        cmocka_unit_test(unknown_filters_fail_when_they_are_used),
        cmocka_unit_test(raise_exception_gives_its_own_words),
        cmocka_unit_test(limits_end_what_would_not_end),
        cmocka_unit_test(nesting_is_bounded_in_every_direction),
        cmocka_unit_test(later_variables_win_and_missing_ones_are_none),
        cmocka_unit_test(templates_that_read_parts_are_known),
        cmocka_unit_test(threads_render_one_template_at_once),
        cmocka_unit_test(a_failed_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
