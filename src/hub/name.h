/* What a user may write for a model that is no path: a name of the registry ("llama3.3:70b"), a
 * repository of the hub ("org/name"), with a branch, tag or commit ("org/name@v1") and for GGUF a
 * file ("org/name:file.gguf", "org/name:Q4_K_M"). Plain values; any thread. */
#ifndef SLUICE_HUB_NAME_H
#define SLUICE_HUB_NAME_H

#include "base/str.h"

#define SL_HUB_NAME_BYTES 200

struct hub_name {
    char repo[SL_HUB_NAME_BYTES];     /* "org/name" */
    char revision[SL_HUB_NAME_BYTES]; /* "main" unless told */
    /* Of a GGUF file, or a part of one's name that only it has; "" for folders of safetensors. */
    char file[SL_HUB_NAME_BYTES];
};

/* One line of the table of well-known models, registry.inc. */
struct registry_line {
    const char *name; /* "llama3.3:70b" */
    const char *repo; /* without a gate: no account is needed */
    double gigabytes; /* 10^9 bytes, about */
    const char *licence;
};
extern const struct registry_line registry_lines[];
extern const size_t registry_line_count;

/* False: text has the form of no such name. A name without ":" finds the first of its family in the
 * registry. SL_HUB_NAME_BYTES - 1 bytes at most. */
bool hub_name_parse(struct str text, struct hub_name *out);
#define SL_HUB_TEXT_BYTES (3 * SL_HUB_NAME_BYTES + 3)
/* "org/name@revision", and ":file" where it has one: one text for all names of the same. */
void hub_name_write(const struct hub_name *name, char text[SL_HUB_TEXT_BYTES]);
/* What a GGUF file's name says without ".gguf" and the number of its part ("-00002-of-00005"; of a
 * file alone 1 of 1); empty for files of other kinds. */
struct str hub_gguf_stem(struct str name, uint64_t *part, uint64_t *parts);
/* The line for a name, NULL when it is not in the table. */
const struct registry_line *registry_find(struct str text);
/* The name of the table that is most like text; NULL when none is. */
const char *registry_nearest(struct str text);

#endif
