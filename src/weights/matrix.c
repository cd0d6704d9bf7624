/* Finds the parts of a matrix, checks that their types and shapes make one, and turns rows into
 * ranges of bytes and views. Shapes say how many bits a number has and how many share a scale; the
 * config's word is compared with them. Refuses scales that are absent, doubled or of another shape,
 * and modes of quantisation that we do not read. Reads no bytes but in matrix_gather. */
#include "weights/matrix.h"

#include <stdio.h>
#include <string.h>

/* Rows and columns of a slice are checked against this, so that products cannot overflow. */
#define SIDE_MAX ((uint64_t)1 << 31)
#define FP8_BLOCK 128u /* of DeepSeek-V3 and all who followed, where the config has no size */

struct finder {
    const struct index *index;
    const struct matrix_wanted *wanted;
    struct matrix made;
    struct buf name; /* scratch */
};

static const char *file_of(const struct finder *finder, const struct tensor *tensor) {
    return finder->index->files[tensor->file]->path;
}

/* "[64, 32]" */
static void add_shape(const uint64_t *shape, uint32_t dims, struct buf *out) {
    buf_add_char(out, '[');
    for (uint32_t i = 0; i < dims; i++)
        buf_printf(out, "%s%llu", i > 0 ? ", " : "", (unsigned long long)shape[i]);
    buf_add_char(out, ']');
}

static enum status fail_shape(const struct finder *finder, const struct tensor *tensor,
                              const char *why, struct error *err) {
    struct buf text;
    buf_init(&text);
    add_shape(tensor->shape, tensor->dims, &text);
    error_set(err, SL_ERR_ENV, "%s: tensor \"%.*s\" has the shape %s, %s", file_of(finder, tensor),
              STR_ARG(tensor->name), text.data != NULL ? text.data : "?", why);
    buf_release(&text);
    return SL_ERR_ENV;
}

static enum status fail(const struct finder *finder, const struct tensor *tensor, const char *what,
                        struct error *err) {
    return error_set(err, SL_ERR_ENV, "%s: tensor \"%.*s\" %s", file_of(finder, tensor),
                     STR_ARG(tensor->name), what);
}

/* The shape that a tensor has when slices and rows go before `last`; slices == 1 may be left out or
 * not. */
static bool has_shape(const struct tensor *tensor, uint64_t slices, uint64_t rows, uint64_t last) {
    if (slices == 1 && tensor->dims == 2)
        return tensor->shape[0] == rows && tensor->shape[1] == last;
    return tensor->dims == 3 && tensor->shape[0] == slices && tensor->shape[1] == rows &&
           tensor->shape[2] == last;
}

/* The same for a tensor without scales, which may have its rows in one dimension or in two, and one
 * row in none. */
static bool has_rows(const struct tensor *tensor, uint64_t slices, uint64_t rows, uint64_t last) {
    uint64_t before = 1; /* the index has checked the product */
    if (tensor->dims < 1 || tensor->dims > 3 || tensor->shape[tensor->dims - 1] != last)
        return false;
    for (uint32_t i = 0; i + 1 < tensor->dims; i++)
        before *= tensor->shape[i];
    return before == slices * rows &&
           (tensor->dims < 3 || slices == 1 || tensor->shape[0] == slices);
}

/* The last dimension of a tensor that has slices and rows before it; 0 if it has not. */
static uint64_t last_behind(const struct tensor *tensor, uint64_t slices, uint64_t rows) {
    uint64_t last = tensor->dims == 0 ? 0 : tensor->shape[tensor->dims - 1];
    return has_shape(tensor, slices, rows, last) ? last : 0;
}

/* Enters a part of `rows` rows in each slice. */
static void add_part(struct finder *finder, const struct tensor *tensor, uint64_t rows,
                     uint64_t group_rows) {
    struct matrix *made = &finder->made;
    must(made->part_count < SL_MATRIX_PARTS);
    must(rows > 0 && tensor->bytes % (rows * finder->wanted->slices) == 0);
    made->parts[made->part_count++] = (struct matrix_part){
        .tensor = tensor,
        .rows = rows,
        .row_bytes = tensor->bytes / (rows * finder->wanted->slices),
        .group_rows = group_rows,
    };
}

/* Names of parts */

static bool is_name(const struct index *index, struct str name) {
    return index_find(index, name) != NULL || index_unsupported_find(index, name) != NULL;
}

/* `stem` and `ending` as finder->name. */
static enum status join(struct finder *finder, struct str stem, const char *ending, struct str *out,
                        struct error *err) {
    buf_clear(&finder->name);
    buf_add(&finder->name, stem);
    buf_add(&finder->name, str_from(ending));
    TRY(buf_status(&finder->name, "a tensor's name", err));
    *out = buf_str(&finder->name);
    return SL_OK;
}

/* A part by name; NULL when it is absent, an error when it is there and cannot be read. */
static enum status find_part(struct finder *finder, struct str stem, const char *ending,
                             const struct tensor **out, struct error *err) {
    struct str name;
    TRY(join(finder, stem, ending, &name, err));
    const struct tensor_unsupported *other = index_unsupported_find(finder->index, name);
    if (other != NULL)
        return error_set(
            err, SL_ERR_ENV, "%s: tensor \"%.*s\" has type %.*s, which is not supported",
            finder->index->files[other->file]->path, STR_ARG(name), STR_ARG(other->type));
    *out = index_find(finder->index, name);
    return SL_OK;
}

/* What NAME.weight has before ".weight". */
static struct str stem_of(struct str name) {
    return str_ends(name, STR(".weight")) ? str_cut(name, 0, name.len - strlen(".weight")) : name;
}

/* FP8 */

static uint64_t divide_up(uint64_t a, uint64_t b) {
    return a / b + (a % b != 0);
}

static bool is_one_per_slice(const struct tensor *scales, uint64_t slices) {
    uint64_t values = 1;
    for (uint32_t i = 0; i < scales->dims; i++)
        values *= scales->shape[i]; /* the index has checked the product */
    return values == slices && (slices == 1 || scales->shape[0] == slices);
}

static enum status add_fp8_scales(struct finder *finder, const struct tensor *scales,
                                  struct error *err) {
    const struct matrix_wanted *wanted = finder->wanted;
    uint64_t rows = wanted->rows, columns = wanted->columns, slices = wanted->slices;
    bool has_block = wanted->hint.block_rows > 0 && wanted->hint.block_columns > 0;
    uint64_t block_rows = has_block ? wanted->hint.block_rows : FP8_BLOCK;
    uint64_t block_columns = has_block ? wanted->hint.block_columns : FP8_BLOCK;
    uint64_t tall = divide_up(rows, block_rows), wide = divide_up(columns, block_columns);
    if (scales->dtype != DTYPE_F32 && scales->dtype != DTYPE_BF16 && scales->dtype != DTYPE_F16 &&
        scales->dtype != DTYPE_F8_E8M0)
        return error_set(err, SL_ERR_ENV, "%s: tensor \"%.*s\" has type %s, no scales of FP8 have",
                         file_of(finder, scales), STR_ARG(scales->name),
                         dtype_get(scales->dtype)->name);
    if (has_shape(scales, slices, tall, wide)) {
        finder->made.group_columns = block_columns;
        add_part(finder, scales, tall, block_rows);
    } else if (is_one_per_slice(scales, slices)) {
        finder->made.group_columns = columns;
        add_part(finder, scales, 1, rows);
    } else if (has_shape(scales, slices, rows, 1) ||
               (slices == 1 && scales->dims == 1 && scales->shape[0] == rows)) {
        finder->made.group_columns = columns;
        add_part(finder, scales, rows, 1);
    } else {
        char why[160];
        snprintf(
            why, sizeof why, "%llu x %llu values in blocks of %llu x %llu ask for [%llu, %llu]",
            (unsigned long long)rows, (unsigned long long)columns, (unsigned long long)block_rows,
            (unsigned long long)block_columns, (unsigned long long)tall, (unsigned long long)wide);
        return fail_shape(finder, scales, why, err);
    }
    return SL_OK;
}

static enum status make_fp8(struct finder *finder, const struct tensor *numbers,
                            struct error *err) {
    static const char *const endings[] = {".weight_scale_inv", ".weight_scale", ".scale"};
    const struct tensor *scales = NULL;
    struct str stem = stem_of(finder->wanted->name);
    for (size_t i = 0; i < 3; i++) {
        const struct tensor *found;
        TRY(find_part(finder, stem, endings[i], &found, err));
        if (found != NULL && scales != NULL)
            return error_set(err, SL_ERR_ENV, "%s: there is both \"%.*s\" and \"%.*s\"",
                             file_of(finder, found), STR_ARG(scales->name), STR_ARG(found->name));
        scales = found != NULL ? found : scales;
    }
    if (scales == NULL)
        return fail(finder, numbers,
                    "is FP8 and has no scales: neither weight_scale_inv, weight_scale nor scale is "
                    "there",
                    err);
    if (!has_shape(numbers, finder->wanted->slices, finder->wanted->rows, finder->wanted->columns))
        return fail_shape(finder, numbers, "which the config does not ask for", err);
    finder->made.dtype = DTYPE_F8_E4M3;
    add_part(finder, numbers, finder->wanted->rows, 1);
    return add_fp8_scales(finder, scales, err);
}

/* MLX: words of 32 bits. */

static enum status check_hint(const struct finder *finder, const struct tensor *numbers,
                              uint64_t bits, uint64_t group, struct error *err) {
    const struct matrix_hint *hint = &finder->wanted->hint;
    if ((hint->bits == 0 || hint->bits == bits) &&
        (hint->group_columns == 0 || hint->group_columns == group))
        return SL_OK;
    return error_set(err, SL_ERR_ENV,
                     "%s: tensor \"%.*s\" has %llu bits a value in groups of %llu by its shapes, "
                     "the config says %u bits and groups of %u",
                     file_of(finder, numbers), STR_ARG(numbers->name), (unsigned long long)bits,
                     (unsigned long long)group, hint->bits, hint->group_columns);
}

/* Bits of a number and values of a group, from the shapes of words and scales. */
static enum status measure_words(struct finder *finder, const struct tensor *words,
                                 const struct tensor *scales, uint64_t *bits, uint64_t *group,
                                 struct error *err) {
    const struct matrix_wanted *wanted = finder->wanted;
    uint64_t width = last_behind(words, wanted->slices, wanted->rows);
    uint64_t groups = last_behind(scales, wanted->slices, wanted->rows);
    char why[120];
    if (width == 0 || width > SIDE_MAX || width * 32 % wanted->columns != 0 ||
        wanted->columns % 32 != 0) {
        snprintf(why, sizeof why, "which no whole bits for %llu x %llu values fill",
                 (unsigned long long)wanted->rows, (unsigned long long)wanted->columns);
        return fail_shape(finder, words, why, err);
    }
    if (groups == 0 || wanted->columns % groups != 0) {
        snprintf(why, sizeof why, "which does not divide %llu x %llu values into groups",
                 (unsigned long long)wanted->rows, (unsigned long long)wanted->columns);
        return fail_shape(finder, scales, why, err);
    }
    *bits = width * 32 / wanted->columns;
    *group = wanted->columns / groups;
    return check_hint(finder, words, *bits, *group, err);
}

static bool is_float(const struct tensor *tensor) {
    return tensor->dtype == DTYPE_F32 || tensor->dtype == DTYPE_F16 || tensor->dtype == DTYPE_BF16;
}

static enum status make_affine(struct finder *finder, const struct tensor *words,
                               const struct tensor *scales, const struct tensor *biases,
                               struct error *err) {
    uint64_t bits, group;
    TRY(measure_words(finder, words, scales, &bits, &group, err));
    if (bits < 2 || bits > 8)
        return error_set(err, SL_ERR_ENV,
                         "%s: tensor \"%.*s\" has %llu bits a value, must be 2 to 8",
                         file_of(finder, words), STR_ARG(words->name), (unsigned long long)bits);
    if (biases->dtype != scales->dtype || biases->dims != scales->dims ||
        memcmp(biases->shape, scales->shape, scales->dims * sizeof *scales->shape) != 0)
        return fail(finder, biases, "differs in type or shape from the scales beside it", err);
    finder->made.dtype = (enum dtype)(DTYPE_MLX_2 + (bits - 2));
    finder->made.group_columns = group;
    add_part(finder, words, finder->wanted->rows, 1);
    add_part(finder, scales, finder->wanted->rows, 1);
    add_part(finder, biases, finder->wanted->rows, 1);
    return SL_OK;
}

static enum status make_words(struct finder *finder, const struct tensor *words,
                              struct error *err) {
    const struct tensor *scales, *biases;
    struct str stem = stem_of(finder->wanted->name);
    uint64_t bits, group;
    TRY(find_part(finder, stem, ".scales", &scales, err));
    TRY(find_part(finder, stem, ".biases", &biases, err));
    if (scales == NULL)
        return fail(finder, words, "has packed numbers and no scales beside it", err);
    if (is_float(scales) && biases == NULL)
        return fail(finder, words, "has packed numbers and scales, and no biases beside it", err);
    if (is_float(scales))
        return make_affine(finder, words, scales, biases, err);
    if (scales->dtype != DTYPE_U8 || biases != NULL)
        return fail(finder, scales, "has a type that scales of packed numbers do not have", err);
    TRY(measure_words(finder, words, scales, &bits, &group, err));
    if (bits != 4 || group != 32)
        return error_set(err, SL_ERR_ENV,
                         "%s: tensor \"%.*s\" has %llu bits a value and a byte as scale of %llu: "
                         "MLX modes other than affine and mxfp4 are not supported",
                         file_of(finder, words), STR_ARG(words->name), (unsigned long long)bits,
                         (unsigned long long)group);
    finder->made.dtype = DTYPE_MXFP4_SPLIT;
    finder->made.group_columns = 32;
    add_part(finder, words, finder->wanted->rows, 1);
    add_part(finder, scales, finder->wanted->rows, 1);
    return SL_OK;
}

/* gpt-oss */

/* NAME_blocks [slices, rows, columns / 32, 16], NAME_scales [slices, rows, columns / 32]. */
static enum status make_blocks(struct finder *finder, const struct tensor *blocks,
                               struct error *err) {
    const struct matrix_wanted *wanted = finder->wanted;
    const struct tensor *scales;
    uint64_t groups = wanted->columns / 32;
    TRY(find_part(finder, wanted->name, "_scales", &scales, err));
    if (scales == NULL)
        return fail(finder, blocks, "has no scales beside it", err);
    if (blocks->dtype != DTYPE_U8 || scales->dtype != DTYPE_U8)
        return fail(finder, blocks->dtype != DTYPE_U8 ? blocks : scales,
                    "must have type U8 to be MXFP4", err);
    if (wanted->columns % 32 != 0 || blocks->dims != 4 || blocks->shape[0] != wanted->slices ||
        blocks->shape[1] != wanted->rows || blocks->shape[2] != groups || blocks->shape[3] != 16)
        return fail_shape(finder, blocks, "which the config does not ask for", err);
    if (scales->dims != 3 || !has_shape(scales, wanted->slices, wanted->rows, groups))
        return fail_shape(finder, scales, "which does not go with its blocks", err);
    finder->made.dtype = DTYPE_MXFP4_SPLIT;
    finder->made.group_columns = 32;
    add_part(finder, blocks, wanted->rows, 1);
    add_part(finder, scales, wanted->rows, 1);
    return SL_OK;
}

/* All of them */

static enum status make_plain(struct finder *finder, const struct tensor *tensor,
                              struct error *err) {
    const struct matrix_wanted *wanted = finder->wanted;
    if (dtype_get(tensor->dtype)->decode == NULL)
        return error_set(err, SL_ERR_ENV, "%s: tensor \"%.*s\" has type %s, which no matrix has",
                         file_of(finder, tensor), STR_ARG(tensor->name),
                         dtype_get(tensor->dtype)->name);
    if (!has_rows(tensor, wanted->slices, wanted->rows, wanted->columns)) {
        char why[120];
        snprintf(why, sizeof why, "the config asks for %llu x %llu x %llu",
                 (unsigned long long)wanted->slices, (unsigned long long)wanted->rows,
                 (unsigned long long)wanted->columns);
        return fail_shape(finder, tensor, why, err);
    }
    finder->made.dtype = tensor->dtype;
    add_part(finder, tensor, wanted->rows, 1);
    return SL_OK;
}

static enum status find(struct finder *finder, struct error *err) {
    const struct tensor *numbers, *blocks;
    TRY(find_part(finder, finder->wanted->name, "", &numbers, err));
    TRY(find_part(finder, finder->wanted->name, "_blocks", &blocks, err));
    if (numbers == NULL && blocks == NULL)
        return error_set(err, SL_ERR_ENV, "tensor \"%.*s\" is missing",
                         STR_ARG(finder->wanted->name));
    if (numbers != NULL && blocks != NULL)
        return error_set(err, SL_ERR_ENV, "%s: there is both \"%.*s\" and \"%.*s\"",
                         file_of(finder, blocks), STR_ARG(numbers->name), STR_ARG(blocks->name));
    if (numbers == NULL)
        return make_blocks(finder, blocks, err);
    if (numbers->dtype == DTYPE_F8_E4M3)
        return make_fp8(finder, numbers, err);
    if (numbers->dtype == DTYPE_U32)
        return make_words(finder, numbers, err);
    return make_plain(finder, numbers, err);
}

bool matrix_is_there(const struct index *index, struct str name) {
    struct buf blocks;
    buf_init(&blocks);
    buf_add(&blocks, name);
    buf_add(&blocks, STR("_blocks"));
    bool is_there = is_name(index, name) || is_name(index, buf_str(&blocks));
    buf_release(&blocks);
    return is_there;
}

enum status matrix_find(const struct index *index, const struct matrix_wanted *wanted,
                        struct matrix *out, struct error *err) {
    must(wanted->slices > 0 && wanted->slices <= SIDE_MAX);
    must(wanted->rows > 0 && wanted->rows <= SIDE_MAX);
    must(wanted->columns > 0 && wanted->columns <= SIDE_MAX);
    struct finder finder = {
        .index = index,
        .wanted = wanted,
        .made = {.rows = wanted->rows, .columns = wanted->columns},
    };
    buf_init(&finder.name);
    enum status status = find(&finder, err);
    buf_release(&finder.name);
    if (status == SL_OK)
        *out = finder.made;
    return status;
}

struct matrix matrix_slice(const struct matrix *first, uint64_t number) {
    struct matrix slice = *first;
    for (uint32_t i = 0; i < slice.part_count; i++) {
        struct matrix_part *part = &slice.parts[i];
        part->first_row += number * part->rows;
        must((part->first_row + part->rows) * part->row_bytes <= part->tensor->bytes);
    }
    return slice;
}

struct matrix matrix_rows(const struct matrix *matrix, uint64_t first, uint64_t count) {
    struct matrix rows = *matrix;
    must(count > 0 && first <= matrix->rows && count <= matrix->rows - first);
    rows.rows_above += first;
    rows.rows = count;
    return rows;
}

bool matrix_join(struct matrix *first, uint64_t slices) {
    for (uint32_t i = 0; i < first->part_count; i++)
        if (first->parts[i].group_rows != 1)
            return slices == 1;
    must(first->rows_above == 0);
    for (uint32_t i = 0; i < first->part_count; i++) {
        struct matrix_part *part = &first->parts[i];
        part->rows *= slices;
        must((part->first_row + part->rows) * part->row_bytes <= part->tensor->bytes);
    }
    first->rows *= slices;
    return true;
}

uint64_t matrix_bytes(const struct matrix *matrix) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < matrix->part_count; i++)
        sum += matrix_range(matrix, i, 0, matrix->rows).bytes;
    return sum;
}

struct matrix_range matrix_range(const struct matrix *matrix, uint32_t part, uint64_t first,
                                 uint64_t count) {
    must(part < matrix->part_count);
    must(count > 0 && first <= matrix->rows && count <= matrix->rows - first);
    const struct matrix_part *of = &matrix->parts[part];
    size_t first_row, rows;
    rows = view_scale_rows((size_t)of->group_rows, (size_t)(matrix->rows_above + first),
                           (size_t)count, &first_row);
    must(first_row + rows <= of->rows);
    return (struct matrix_range){
        .file = of->tensor->file,
        .offset = of->tensor->offset + (of->first_row + first_row) * of->row_bytes,
        .bytes = rows * of->row_bytes,
    };
}

/* Scales are U8 in the files where they are E8M0. */
static enum dtype scale_dtype(const struct matrix *matrix) {
    enum dtype dtype = matrix->parts[MATRIX_SCALES].tensor->dtype;
    return dtype == DTYPE_U8 ? DTYPE_F8_E8M0 : dtype;
}

struct view matrix_view(const struct matrix *matrix, uint64_t first, uint64_t count,
                        const uint8_t *const at[SL_MATRIX_PARTS]) {
    must(first <= matrix->rows && count <= matrix->rows - first);
    struct view view = {
        .dtype = matrix->dtype,
        .rows = (size_t)count,
        .columns = (size_t)matrix->columns,
        .row_bytes = (size_t)matrix->parts[MATRIX_NUMBERS].row_bytes,
        .data = at[MATRIX_NUMBERS],
    };
    if (matrix->part_count > 1) {
        const struct matrix_part *scales = &matrix->parts[MATRIX_SCALES];
        view.scales = (struct view_scales){
            .dtype = scale_dtype(matrix),
            .group_rows = (size_t)scales->group_rows,
            .group_columns = (size_t)matrix->group_columns,
            .rows_before = (size_t)((matrix->rows_above + first) % scales->group_rows),
            .row_bytes = (size_t)scales->row_bytes,
            .data = at[MATRIX_SCALES],
            .biases = matrix->part_count > 2 ? at[MATRIX_BIASES] : NULL,
        };
    }
    return view;
}

size_t matrix_gather_row_bytes(const struct matrix *matrix) {
    size_t sum = 0;
    for (uint32_t i = 0; i < matrix->part_count; i++)
        sum += (size_t)matrix->parts[i].row_bytes;
    return sum;
}

enum status matrix_gather(const struct index *index, const struct matrix *matrix,
                          const uint32_t *rows, size_t count, uint8_t *into, struct view *out,
                          struct error *err) {
    const uint8_t *at[SL_MATRIX_PARTS] = {into};
    size_t stride = matrix_gather_row_bytes(matrix), offset = 0;
    for (uint32_t part = 0; part < matrix->part_count; part++) {
        at[part] = into + offset;
        for (size_t i = 0; i < count; i++) {
            struct matrix_range range = matrix_range(matrix, part, rows[i], 1);
            enum status status = file_read_at(index->files[range.file], range.offset,
                                              into + i * stride + offset, (size_t)range.bytes, err);
            if (status != SL_OK)
                return error_prefix(err, "row %u of tensor \"%.*s\"", rows[i],
                                    STR_ARG(matrix->parts[part].tensor->name));
        }
        offset += (size_t)matrix->parts[part].row_bytes;
    }
    *out = matrix_view(matrix, 0, 0, at);
    out->rows = count;
    out->row_bytes = stride;
    if (matrix->part_count > 1) {
        out->scales.group_rows = 1; /* each row has its own copy */
        out->scales.rows_before = 0;
        out->scales.row_bytes = stride;
    }
    return SL_OK;
}
