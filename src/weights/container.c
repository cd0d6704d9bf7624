/* The table of containers, and the choice among them by what lies at a path. It opens nothing by
 * itself, so that a second format is one row; what no row matches is refused here, with what the
 * file begins with, since people give the wrong file more often than a broken one. */
#include "weights/container.h"

static const struct container *const containers[] = {&container_safetensors, &container_gguf};

/* Refuses the file at path, which no container took. */
static enum status refuse(const char *path, struct error *err) {
    struct file *file;
    unsigned char bytes[8] = {0};
    if (str_ends(str_from(path), STR(".safetensors")))
        return error_set(err, SL_ERR_ENV, "%s: is a part of a model; name the folder that it is in",
                         path);
    TRY(file_open(path, false, &file, err)); /* says so when it is a device, or may not be read */
    size_t len = file->bytes < sizeof bytes ? (size_t)file->bytes : sizeof bytes;
    enum status status = file_read_at(file, 0, bytes, len, err);
    file_close(file);
    TRY(status);
    if (len == 0)
        return error_set(err, SL_ERR_ENV, "%s: is empty", path);
    bool is_text = true;
    for (size_t i = 0; i < len; i++)
        is_text = is_text && bytes[i] >= 0x20 && bytes[i] < 0x7f;
    if (is_text)
        return error_set(err, SL_ERR_ENV,
                         "%s: is neither a folder with a model nor a GGUF file: it begins with "
                         "\"%.*s\"",
                         path, (int)len, (const char *)bytes);
    return error_set(err, SL_ERR_ENV, "%s: is neither a folder with a model nor a GGUF file", path);
}

enum status container_open(const char *path, bool wants_tensors, const struct container **container,
                           struct index *index, struct meta *meta, struct error *err) {
    if (!file_exists(path))
        return error_set(err, SL_ERR_ENV, "model not found: %s", path);
    for (size_t i = 0; i < sizeof containers / sizeof containers[0]; i++) {
        if (!containers[i]->matches(path))
            continue;
        TRY(containers[i]->open(path, wants_tensors, index, meta, err));
        *container = containers[i];
        return SL_OK;
    }
    return refuse(path, err);
}
