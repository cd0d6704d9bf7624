/* Reads what config.json says about quantised weights, in the forms that have a row here. All of it
 * is a hint: types and shapes of the tensors decide how a matrix is read, and model_bind.c refuses
 * the model where they disagree. A way of quantising that has no row is refused by name, for its
 * tensors may look like ones that we read and mean something else.
 *
 * Forms: `quantization_config` with a quant_method as transformers writes it; without one, or as
 * `quantization`, MLX's, whose other members are settings of single modules. */
#include "model/config.h"

#include <string.h>

#define ENTRIES_MAX 1000000u
#define SIZE_LIMIT 65536u /* of groups and blocks */

/* An object being read. */
struct reader {
    const struct json *object;
    const char *member, *name; /* "quantization_config", the file */
    struct config *out;
};

static bool is_set(const struct json *value) {
    return value != NULL && !json_is(value, JSON_NULL);
}

static enum status refuse(const struct reader *reader, const char *what, struct str value,
                          struct error *err) {
    return error_set(err, SL_ERR_ENV,
                     "%s: %s with %s \"%.*s\" is not supported: use the model's FP8, MLX or GGUF "
                     "files, or those that are not quantised",
                     reader->name, reader->member, what, STR_ARG(value));
}

/* A whole number from 1 to limit; 0 when it is absent. */
static enum status read_size(const struct reader *reader, const struct json *object,
                             const char *member, uint32_t limit, uint32_t *out, struct error *err) {
    const struct json *value = json_get(object, member);
    uint64_t number = 0;
    if (is_set(value) && (!json_u64(value, &number) || number == 0 || number > limit))
        return error_set(err, SL_ERR_ENV, "%s: %s of %s is not a whole number from 1 to %u",
                         reader->name, member, reader->member, limit);
    *out = (uint32_t)number;
    return SL_OK;
}

/* What is said about one module. */
static enum status add_entry(const struct reader *reader, struct str module,
                             const struct quantisation_entry *entry, struct error *err) {
    struct config *out = reader->out;
    struct quantisation *into = &out->quantisation;
    struct quantisation_entry *copy = arena_take(&out->arena, sizeof *copy);
    char *text = arena_take(&out->arena, module.len > 0 ? module.len : 1);
    void *list = into->entries;
    if (into->entry_count >= ENTRIES_MAX)
        return error_set(err, SL_ERR_ENV, "%s: %s names more than %u modules", reader->name,
                         reader->member, ENTRIES_MAX);
    bool has_room = copy != NULL && text != NULL &&
                    mem_grow(&list, &into->entry_cap, into->entry_count + 1, sizeof copy);
    into->entries = list;
    if (!has_room)
        return error_memory(err, module.len + sizeof *copy, "settings of modules");
    memcpy(text, module.data, module.len);
    *copy = *entry;
    if (!map_put(&into->modules, (struct str){text, module.len}, (uint32_t)into->entry_count, NULL,
                 NULL))
        return error_memory(err, module.len, "settings of modules");
    into->entries[into->entry_count++] = copy;
    return SL_OK;
}

/* A list of modules that stay as they are. Patterns name no module and say nothing here. */
static enum status read_plain_modules(const struct reader *reader, const char *member,
                                      struct error *err) {
    const struct json *list = json_get(reader->object, member);
    const struct quantisation_entry plain = {.is_plain = true};
    for (uint32_t i = 0; json_is(list, JSON_ARRAY) && i < list->count; i++) {
        struct str module;
        if (json_string(&list->items[i], &module))
            TRY(add_entry(reader, module, &plain, err));
    }
    return SL_OK;
}

static enum status read_fp8(const struct reader *reader, struct error *err) {
    const struct json *block = json_get(reader->object, "weight_block_size");
    struct matrix_hint *hint = &reader->out->quantisation.hint;
    struct str format;
    if (json_string(json_get(reader->object, "fmt"), &format) && !str_is(format, "e4m3") &&
        !str_is(format, "float8_e4m3fn"))
        return refuse(reader, "fmt", format, err);
    if (is_set(block)) {
        uint64_t rows = 0, columns = 0;
        bool is_pair = json_is(block, JSON_ARRAY) && block->count == 2 &&
                       json_u64(&block->items[0], &rows) && json_u64(&block->items[1], &columns);
        if (!is_pair || rows == 0 || columns == 0 || rows > SIZE_LIMIT || columns > SIZE_LIMIT)
            return error_set(err, SL_ERR_ENV,
                             "%s: weight_block_size of %s is not two whole numbers from 1 to %u",
                             reader->name, reader->member, SIZE_LIMIT);
        hint->block_rows = (uint32_t)rows;
        hint->block_columns = (uint32_t)columns;
    }
    TRY(read_plain_modules(reader, "ignored_layers", err));
    return read_plain_modules(reader, "modules_to_not_convert", err);
}

static enum status read_mxfp4(const struct reader *reader, struct error *err) {
    return read_plain_modules(reader, "modules_to_not_convert", err);
}

/* compressed-tensors: FP8 with scales alone. */
static enum status read_compressed(const struct reader *reader, struct error *err) {
    const struct json *transform = json_get(reader->object, "transform_config");
    struct str format = STR("");
    if (!json_string(json_get(reader->object, "format"), &format) ||
        !str_is(format, "float-quantized"))
        return refuse(reader, "quant_method compressed-tensors and format", format, err);
    if (is_set(transform) && !(json_is(transform, JSON_OBJECT) && transform->count == 0))
        return error_set(err, SL_ERR_ENV, "%s: %s with transform_config is not supported",
                         reader->name, reader->member);
    return read_plain_modules(reader, "ignore", err);
}

/* MLX: bits and group_size, for all modules or for one. */
static enum status read_words(const struct reader *reader, const struct json *object,
                              struct matrix_hint *hint, struct error *err) {
    struct str mode = STR("affine");
    json_string(json_get(object, "mode"), &mode);
    if (!str_is(mode, "affine") && !str_is(mode, "mxfp4"))
        return refuse(reader, "mode", mode, err);
    TRY(read_size(reader, object, "bits", 8, &hint->bits, err));
    return read_size(reader, object, "group_size", SIZE_LIMIT, &hint->group_columns, err);
}

static enum status read_mlx(const struct reader *reader, struct error *err) {
    const struct json *object = reader->object;
    struct matrix_hint *hint = &reader->out->quantisation.hint;
    if (object->count > 0 && json_get(object, "bits") == NULL)
        return error_set(err, SL_ERR_ENV, "%s: %s has neither quant_method nor bits", reader->name,
                         reader->member);
    TRY(read_words(reader, object, hint, err));
    for (uint32_t i = 0; i < object->count; i++) {
        const struct json_member *member = &object->members[i];
        struct quantisation_entry entry = {.is_plain = json_is(&member->value, JSON_FALSE)};
        if (json_is(&member->value, JSON_OBJECT))
            TRY(read_words(reader, &member->value, &entry.hint, err));
        else if (!entry.is_plain)
            continue;
        TRY(add_entry(reader, member->name, &entry, err));
    }
    return SL_OK;
}

static enum status read_object(const struct reader *reader, struct error *err) {
    static const struct {
        const char *method;
        enum status (*read)(const struct reader *reader, struct error *err);
    } methods[] = {
        {"fp8", read_fp8},
        {"fbgemm_fp8", read_fp8}, /* a scale a row */
        {"mxfp4", read_mxfp4},
        {"compressed-tensors", read_compressed},
    };
    struct str method;
    if (!json_is(reader->object, JSON_OBJECT))
        return error_set(err, SL_ERR_ENV, "%s: %s is not an object", reader->name, reader->member);
    if (!is_set(json_get(reader->object, "quant_method")))
        return read_mlx(reader, err);
    if (!json_string(json_get(reader->object, "quant_method"), &method))
        return error_set(err, SL_ERR_ENV, "%s: quant_method of %s is not a text", reader->name,
                         reader->member);
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (str_is(method, methods[i].method))
            return methods[i].read(reader, err);
    return refuse(reader, "quant_method", method, err);
}

enum status config_quantisation(const struct json *config, const char *name, struct config *out,
                                struct error *err) {
    static const char *const members[] = {"quantization_config", "quantization"};
    struct matrix_hint first = {0}, *hint = &out->quantisation.hint;
    for (size_t i = 0; i < 2; i++) {
        const struct json *object = json_get(config, members[i]);
        const struct reader reader = {object, members[i], name, out};
        if (!is_set(object) || json_is(object, JSON_FALSE))
            continue;
        TRY(read_object(&reader, err));
        if (first.bits != 0 &&
            (hint->bits != first.bits || hint->group_columns != first.group_columns))
            return error_set(err, SL_ERR_ENV,
                             "%s: quantization_config has %u bits in groups of %u, quantization %u "
                             "in groups of %u",
                             name, first.bits, first.group_columns, hint->bits,
                             hint->group_columns);
        first = *hint;
    }
    return SL_OK;
}

const struct quantisation_entry *config_module(const struct config *config, struct str module) {
    const struct quantisation *from = &config->quantisation;
    uint32_t number;
    return map_get(&from->modules, module, &number) ? from->entries[number] : NULL;
}
