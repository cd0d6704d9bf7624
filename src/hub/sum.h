/* Check sums of files as the hub declares them: SHA-256 of large files, the SHA-1 that git has of
 * the others ("blob SIZE", NUL, content; git-scm.com/book/en/v2/Git-Internals-Git-Objects). By
 * OpenSSL's libcrypto, which is loaded when the first sum is begun: jobs neither need nor load it.
 * One thread a sum. */
#ifndef SLUICE_HUB_SUM_H
#define SLUICE_HUB_SUM_H

#include "base/str.h"

#define SL_SUM_TEXT_BYTES 65 /* hex digits of a SHA-256, and the end */

struct sum;

/* key tells the kind by its length: 64 or 40 hex digits. bytes: of the whole file. SL_ERR_ENV when
 * the library is not there. */
enum status sum_new(const char *key, uint64_t bytes, struct sum **out, struct error *err);
void sum_add(struct sum *sum, const void *data, size_t bytes);
/* Ends the sum; in hex. */
void sum_end(struct sum *sum, char text[SL_SUM_TEXT_BYTES]);
void sum_free(struct sum *sum); /* accepts NULL */
/* 64 or 40 hex digits in lower case. */
bool sum_is_key(struct str text);

#endif
