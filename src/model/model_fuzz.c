/* Feeds model_open a whole model: config.json, a NUL byte and the bytes of model.safetensors, or a
 * GGUF file. What opens is laid out, and the first and last row of each matrix read and decoded.
 * Any answer will do; a crash, a leak or bytes outside a tensor will not. */
#include "model/model.h"

#include "weights/folder_for_fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROW_VALUES_MAX ((size_t)1 << 16)
#define MODEL_NAME "model.gguf"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void remove_folder(void) {
    unlink(path_of("config.json"));
    unlink(path_of("model.safetensors"));
    unlink(path_of(MODEL_NAME));
    rmdir(fuzz_folder);
}

static void make_folder(void) {
    snprintf(fuzz_folder, sizeof fuzz_folder, "%s/sluice-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    must(mkdtemp(fuzz_folder) != NULL);
    atexit(remove_folder);
}

static void read_row(const struct index *index, const struct matrix *matrix, uint32_t row) {
    struct view view;
    size_t bytes = matrix_gather_row_bytes(matrix);
    if (matrix->columns > ROW_VALUES_MAX)
        return;
    uint8_t *raw = malloc(bytes > 0 ? bytes : 1); /* of its exact size, for ASan */
    float *values = malloc(matrix->columns * sizeof *values);
    must(raw != NULL && values != NULL);
    if (matrix_gather(index, matrix, &row, 1, raw, &view, NULL) == SL_OK)
        view_decode(&view, 0, 0, (size_t)matrix->columns, values);
    free(values);
    free(raw);
}

static void walk(const struct model *model) {
    struct layout_item *items;
    struct layout layout;
    size_t count;
    if (model_layout_items(model, &items, &count, NULL) != SL_OK)
        return;
    if (layout_init(&layout, &model->index, items, count, SL_BLOCK_BYTES_MAX, NULL) == SL_OK)
        layout_release(&layout);
    for (size_t i = 0; i < count && i < 200; i++) {
        const struct matrix *matrix = &items[i].matrix;
        for (uint32_t part = 0; part < matrix->part_count; part++) {
            struct matrix_range range = matrix_range(matrix, part, 0, matrix->rows);
            const struct tensor *tensor = matrix->parts[part].tensor;
            must(range.offset >= tensor->offset &&
                 range.offset + range.bytes <= tensor->offset + tensor->bytes);
        }
        read_row(&model->index, matrix, 0);
        read_row(&model->index, matrix, (uint32_t)matrix->rows - 1);
    }
    mem_free(items);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct model *model;
    struct error err = {0};
    if (fuzz_folder[0] == '\0')
        make_folder();
    bool is_gguf = size >= 4 && memcmp(data, "GGUF", 4) == 0;
    const uint8_t *nul = size > 0 ? memchr(data, '\0', size) : NULL;
    if (is_gguf) {
        put_file(MODEL_NAME, data, size);
    } else if (nul != NULL) {
        put_file("config.json", data, (size_t)(nul - data));
        put_file("model.safetensors", nul + 1, size - (size_t)(nul - data) - 1);
    } else {
        return 0;
    }
    char path[200];
    snprintf(path, sizeof path, "%s", is_gguf ? path_of(MODEL_NAME) : fuzz_folder);
    if (model_open(path, MODEL_ALL, &model, &err) == SL_OK) {
        walk(model);
        model_close(model);
    } else {
        must(strlen(err.text) > 0);
    }
    return 0;
}
