#include "hub/name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void names_of_repositories_are_taken_apart(void **state) {
    (void)state;
    struct hub_name name;
    assert_true(hub_name_parse(STR("org/model-1.5_x"), &name));
    assert_string_equal(name.repo, "org/model-1.5_x");
    assert_string_equal(name.revision, "main");
    assert_string_equal(name.file, "");
    assert_true(hub_name_parse(STR("org/m@v1.0:sub/file-Q4_K_M.gguf"), &name));
    assert_string_equal(name.repo, "org/m");
    assert_string_equal(name.revision, "v1.0");
    assert_string_equal(name.file, "sub/file-Q4_K_M.gguf");
}

static void names_of_the_same_are_written_alike(void **state) {
    (void)state;
    static const char *const names[][2] = {
        {"qwen2.5:0.5b", "Qwen/Qwen2.5-0.5B-Instruct@main"},
        {"Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct@main"},
        {"org/m@v1.0:sub/file.gguf", "org/m@v1.0:sub/file.gguf"},
        {"org/m:Q4_K_M", "org/m@main:Q4_K_M"},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct hub_name name;
        char text[SL_HUB_TEXT_BYTES];
        assert_true(hub_name_parse(str_from(names[i][0]), &name));
        hub_name_write(&name, text);
        assert_string_equal(text, names[i][1]);
    }
}

static void names_that_could_leave_a_folder_are_none(void **state) {
    (void)state;
    struct hub_name name;
    static const char *const bad[] = {
        "",       "org",     "org/",    "/org",       "org/m/x",   "org/..",        "../m",
        "org/.m", "or g/m",  "org/m@",  "org/m@../x", "org/m:../", "org/m:a/../b",  "org/m:/etc/x",
        "org/m:", "org\\/m", "org/m\n", "org--x/m",   "org/m@a@b", "org/m:\xc3\xa4"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(hub_name_parse(str_from(bad[i]), &name));
    char longest[SL_HUB_NAME_BYTES + 8];
    memset(longest, 'a', sizeof longest);
    longest[3] = '/';
    assert_true(hub_name_parse((struct str){longest, SL_HUB_NAME_BYTES - 1}, &name));
    assert_false(hub_name_parse((struct str){longest, SL_HUB_NAME_BYTES}, &name));
}

static void names_of_the_table_are_found_by_family_and_size(void **state) {
    (void)state;
    struct hub_name name;
    assert_true(hub_name_parse(STR("llama3.3:70b"), &name));
    assert_string_equal(name.repo, "unsloth/Llama-3.3-70B-Instruct");
    assert_string_equal(name.file, "");
    assert_ptr_equal(registry_find(STR("qwen3")), registry_find(STR("qwen3:8b")));
    assert_null(registry_find(STR("qwen")));
    assert_null(registry_find(STR("qwen3:9b")));
    assert_null(registry_find(STR("")));
    assert_string_equal(registry_nearest(STR("llama3.3:71b")), "llama3.3:70b");
    assert_null(registry_nearest(STR("zzz")));
}

static void every_line_of_the_table_can_be_fetched(void **state) {
    (void)state;
    for (size_t i = 0; i < registry_line_count; i++) {
        const struct registry_line *line = &registry_lines[i];
        struct hub_name name;
        assert_true(hub_name_parse(str_from(line->repo), &name));
        assert_string_equal(name.repo, line->repo);
        assert_ptr_equal(registry_find(str_from(line->name)), line);
        assert_true(line->gigabytes > 0);
        assert_true(strlen(line->licence) > 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_repositories_are_taken_apart),
        cmocka_unit_test(names_of_the_same_are_written_alike),
        cmocka_unit_test(names_that_could_leave_a_folder_are_none),
        cmocka_unit_test(names_of_the_table_are_found_by_family_and_size),
        cmocka_unit_test(every_line_of_the_table_can_be_fetched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
