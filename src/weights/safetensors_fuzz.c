/* Feeds safetensors_open a folder: the input as model.safetensors, or, when it begins with '{', as
 * the index of a set whose two shards are whole. Any answer will do; a crash, a leak or a tensor
 * that is not inside its file will not. */
#include "weights/container.h"

#include "weights/folder_for_fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INDEX_NAME "model.safetensors.index.json"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void remove_folder(void) {
    unlink(path_of("model.safetensors"));
    unlink(path_of(INDEX_NAME));
    unlink(path_of("model-00001-of-00002.safetensors"));
    unlink(path_of("model-00002-of-00002.safetensors"));
    rmdir(fuzz_folder);
}

static void make_folder(void) {
    static const char shard[] =
        "\x34\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]}}"
        "\1\2\3\4";
    char copy[sizeof shard];
    snprintf(fuzz_folder, sizeof fuzz_folder, "%s/sluice-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    must(mkdtemp(fuzz_folder) != NULL);
    atexit(remove_folder);
    memcpy(copy, shard, sizeof shard);
    put_file("model-00001-of-00002.safetensors", copy, sizeof shard - 1);
    *(char *)memchr(copy, 'a', sizeof copy) = 'b';
    put_file("model-00002-of-00002.safetensors", copy, sizeof shard - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct index index;
    struct meta meta;
    struct error err;
    const struct container *container;
    if (!fuzz_folder[0])
        make_folder();
    bool is_index = size > 0 && data[0] == '{';
    unlink(path_of("model.safetensors"));
    put_file(is_index ? INDEX_NAME : "model.safetensors", data, size);
    index_init(&index);
    meta_init(&meta);
    if (container_open(fuzz_folder, true, &container, &index, &meta, &err) == SL_OK)
        for (size_t i = 0; i < index.count; i++) {
            const struct tensor *tensor = &index.tensors[i];
            must(tensor->offset + tensor->bytes <= index.files[tensor->file]->bytes);
            must(index_find(&index, tensor->name) == tensor);
        }
    meta_release(&meta);
    index_release(&index);
    return 0;
}
