/* The fingerprint of a job: everything that can change a line of its results, as names and values
 * in words, so that a refusal can say what differs. One thread.
 *
 * What is in it: options (cli/ adds them from its table), the rows, the model's files, the chat
 * template. What is not: how the job is run (memory, threads, batch, engine, reader). Files of
 * weights are known by their size, their header and samples spread over them; small files by all of
 * their bytes. */
#ifndef SLUICE_JOB_FINGERPRINT_H
#define SLUICE_JOB_FINGERPRINT_H

#include "base/mem.h"
#include "base/str.h"

struct fingerprint_pair {
    struct str name, value;
};

struct fingerprint {
    struct fingerprint_pair *pairs;
    size_t count, cap;
    struct arena arena; /* of the texts */
};

void fingerprint_init(struct fingerprint *fingerprint);
void fingerprint_release(struct fingerprint *fingerprint);
enum status fingerprint_add(struct fingerprint *fingerprint, struct str name, struct str value,
                            struct error *err);
const struct str *fingerprint_get(const struct fingerprint *fingerprint, struct str name);
/* A number for all of it. */
uint64_t fingerprint_hash(const struct fingerprint *fingerprint);
/* Appends `NAME was WAS, is IS` for each difference, separated by "; "; returns how many. */
size_t fingerprint_compare(const struct fingerprint *was, const struct fingerprint *is,
                           struct buf *out);

/* Adds what identifies a model: a pair for each of its files, named SL_FINGERPRINT_FILE and the
 * file's name. */
#define SL_FINGERPRINT_FILE "model file "
struct model;
enum status fingerprint_add_model(struct fingerprint *fingerprint, const struct model *model,
                                  struct error *err);

/* Names of files that models are made of; others may lie beside them. NULL ends the list. */
extern const char *const fingerprint_model_files[];

#endif
