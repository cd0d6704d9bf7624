/* What the index refuses whatever a container says. */
#include "weights/files_for_test.h"

static uint32_t add_file(struct index *index, const char *name, size_t len) {
    static const char zeros[4096];
    struct file *file;
    struct error err;
    uint32_t number = 99;
    write_file(name, zeros, len);
    assert_int_equal(file_open(test_path(name), false, &file, &err), SL_OK);
    assert_int_equal(index_add_file(index, file, &number, &err), SL_OK);
    return number;
}

static void check_refusal(struct index *index, const struct tensor *tensor, const char *says) {
    struct error err = {0};
    size_t before = index->count;
    assert_int_equal(index_add(index, tensor, &err), SL_ERR_ENV);
    if (!strstr(err.text, says))
        fail_msg("refused with: %s\nexpected: %s", err.text, says);
    assert_int_equal(index->count, before);
}

static void places_that_lie_are_refused(void **state) {
    (void)state;
    struct index index;
    index_init(&index);
    uint32_t file = add_file(&index, "f", 100);
    struct tensor tensor = {STR("t"), DTYPE_F32, 2, {5, 5}, file, 0, 100};
    assert_int_equal(file, 0);
    tensor.offset = 1;
    check_refusal(&index, &tensor, "has 100 bytes from byte 1 on, the file has only 100 bytes");
    tensor.offset = UINT64_MAX;
    check_refusal(&index, &tensor, "from byte 18446744073709551615 on");
    tensor.offset = 0;
    tensor.bytes = 99;
    check_refusal(&index, &tensor, "f: tensor \"t\" has 99 bytes, its type and shape ask for 100");
    tensor.shape[0] = (uint64_t)1 << 62;
    check_refusal(&index, &tensor, "has a shape that does not go with its type f32");
    tensor = (struct tensor){STR("q"), DTYPE_Q4_0, 1, {33}, file, 0, 18};
    check_refusal(&index, &tensor, "has a shape that does not go with its type q4_0");
    tensor = (struct tensor){STR("q"), DTYPE_Q4_0, 0, {0}, file, 0, 18};
    check_refusal(&index, &tensor, "has a shape that does not go with its type q4_0");
    index_release(&index);
}

static void names_stand_for_one_tensor(void **state) {
    (void)state;
    struct index index;
    struct error err = {0};
    index_init(&index);
    uint32_t first = add_file(&index, "first", 8), second = add_file(&index, "second", 8);
    char name[] = "name";
    struct tensor tensor = {str_from(name), DTYPE_F32, 0, {0}, first, 4, 4};
    assert_int_equal(index_add(&index, &tensor, &err), SL_OK);
    name[0] = 'g'; /* the index has its own copy */
    assert_int_equal(index_find(&index, STR("name"))->offset, 4);
    assert_null(index_find(&index, STR("game")));
    tensor.name = STR("name");
    check_refusal(&index, &tensor, "first: tensor \"name\" appears twice");
    tensor.file = second;
    check_refusal(&index, &tensor, "second: tensor \"name\" is in ");
    struct tensor_unsupported other = {STR("name"), STR("I64"), second, 8};
    assert_int_equal(index_add_unsupported(&index, &other, &err), SL_ERR_ENV);
    other.name = STR("other");
    assert_int_equal(index_add_unsupported(&index, &other, &err), SL_OK);
    tensor.name = STR("other");
    check_refusal(&index, &tensor, "tensor \"other\" appears twice");
    assert_null(index_find(&index, STR("other")));
    assert_null(index_unsupported_find(&index, STR("name")));
    assert_true(str_is(index_unsupported_find(&index, STR("other"))->type, "I64"));
    index_release(&index);
}

static void scalars_and_empty_tensors_have_places(void **state) {
    (void)state;
    struct index index;
    struct error err;
    index_init(&index);
    uint32_t file = add_file(&index, "f", 4);
    const struct tensor tensors[] = {
        {STR("scalar"), DTYPE_F32, 0, {0}, file, 0, 4},
        {STR("none"), DTYPE_F32, 2, {0, 7}, file, 4, 0},
        {STR("empty"), DTYPE_BF16, 4, {3, 0, 2, 1}, file, 0, 0},
        {STR(""), DTYPE_BF16, 1, {2}, file, 0, 4},
    };
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(index_add(&index, &tensors[i], &err), SL_OK);
    assert_int_equal(index_find(&index, STR(""))->shape[0], 2);
    assert_int_equal(index_find(&index, STR("none"))->shape[1], 7);
    index_release(&index);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_test_folder, remove_test_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(places_that_lie_are_refused),
        IN_FOLDER(names_stand_for_one_tensor),
        IN_FOLDER(scalars_and_empty_tensors_have_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
