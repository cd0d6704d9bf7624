/* Reading keys of a family from GGUF metadata: for config_meta.c and for arch_*.c. */
#ifndef SLUICE_MODEL_CONFIG_META_H
#define SLUICE_MODEL_CONFIG_META_H

#include "model/config.h"

/* A key of the family: "llama.block_count". */
struct meta_reader {
    const struct meta *meta;
    const char *name; /* of the file */
    char prefix[64];  /* general.architecture */
    char key[192];    /* of the last look-up */
    bool takes_lists; /* sizes may differ between layers: meta_reader_size takes the first */
};

const char *meta_reader_key(struct meta_reader *reader, const char *member);
/* A size from 1 on. Lists with one value a layer are accepted when all are the same. Absent gives
 * fallback, or is refused when that is 0. */
enum status meta_reader_size(struct meta_reader *reader, const char *member, uint32_t fallback,
                             uint32_t *out, struct error *err);
/* That of one layer: of a list of one value a layer, or the value for all; left alone when the key
 * is absent. */
enum status meta_reader_layer_size(struct meta_reader *reader, const char *member, uint32_t layer,
                                   uint32_t *out, struct error *err);
/* A number, left alone when the key is absent. */
enum status meta_reader_real(struct meta_reader *reader, const char *member, double *out,
                             struct error *err);

#endif
