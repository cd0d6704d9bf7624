/* Fuzz target: any bytes as the hub's answer, and a name by its first byte: what is chosen has safe
 * names and sums, and a refusal one sentence. */
#include "hub/listing.h"

#include "hub/sum.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"org/m", "org/m:Q4", "org/m:a-00001-of-00002.gguf"};
    if (size == 0)
        return 0;
    struct listing listing;
    struct hub_name name;
    struct error err = {0};
    size_t count;
    must(hub_name_parse(str_from(names[data[0] % 3]), &name));
    struct str text = {(const char *)data + 1, size - 1};
    if (listing_parse(&listing, name.repo, text, &err) != SL_OK) {
        must(strlen(err.text) > 0);
        return 0;
    }
    must(strlen(listing.commit) == 40);
    if (listing_choose(&listing, &name, &count, &err) == SL_OK) {
        must(count > 0 && count <= listing.file_count);
        for (size_t i = 0; i < count; i++) {
            struct str file = listing.files[i].name;
            must(sum_is_key(str_from(listing.files[i].key)));
            must(file.len > 0 && file.data[0] != '/' && file.data[0] != '.');
            must(str_find(file, STR("/."), 0) == SIZE_MAX);
            must(str_find(file, STR("//"), 0) == SIZE_MAX);
        }
    } else {
        must(strlen(err.text) > 0);
    }
    listing_release(&listing);
    return 0;
}
