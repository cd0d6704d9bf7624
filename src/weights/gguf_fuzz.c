/* Feeds gguf_open a file, read once with its tensors and once without. Any answer will do; a crash,
 * a leak or a tensor that is not inside its file will not. */
#include "weights/container.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void open_once(const char *path, bool wants_tensors) {
    struct index index;
    struct meta meta;
    struct error err;
    index_init(&index);
    meta_init(&meta);
    if (container_gguf.open(path, wants_tensors, &index, &meta, &err) == SL_OK)
        for (size_t i = 0; i < index.count; i++) {
            const struct tensor *tensor = &index.tensors[i];
            must(tensor->offset + tensor->bytes <= index.files[tensor->file]->bytes);
            must(index_find(&index, tensor->name) == tensor);
        }
    meta_release(&meta);
    index_release(&index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    int fd = memfd_create("gguf", MFD_CLOEXEC);
    must(fd >= 0);
    must(write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    open_once(path, true);
    open_once(path, false);
    close(fd);
    return 0;
}
