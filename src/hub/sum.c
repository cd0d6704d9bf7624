/* Owns the loading of libcrypto and the form of sums. */
#include "hub/sum.h"

#include "base/mem.h"
#include "hub/library.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>

struct sum {
    EVP_MD_CTX *ctx;
};

/* The functions that are used here, by the types of their header. */
static struct {
    bool is_loaded;
    __typeof__(EVP_MD_CTX_new) *ctx_new;
    __typeof__(EVP_MD_CTX_free) *ctx_free;
    __typeof__(EVP_DigestInit_ex) *begin;
    __typeof__(EVP_DigestUpdate) *add;
    __typeof__(EVP_DigestFinal_ex) *end;
    __typeof__(EVP_sha256) *sha256;
    __typeof__(EVP_sha1) *sha1;
} crypto;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void) {
    const struct library_function functions[] = {
        {"EVP_MD_CTX_new", &crypto.ctx_new},  {"EVP_MD_CTX_free", &crypto.ctx_free},
        {"EVP_DigestInit_ex", &crypto.begin}, {"EVP_DigestUpdate", &crypto.add},
        {"EVP_DigestFinal_ex", &crypto.end},  {"EVP_sha256", &crypto.sha256},
        {"EVP_sha1", &crypto.sha1},
    };
    crypto.is_loaded =
        library_load("libcrypto.so.3", functions, sizeof functions / sizeof functions[0]);
}

bool sum_is_key(struct str text) {
    if (text.len != 64 && text.len != 40)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f'))
            return false;
    }
    return true;
}

enum status sum_new(const char *key, uint64_t bytes, struct sum **out, struct error *err) {
    struct str text = str_from(key);
    must(sum_is_key(text));
    pthread_once(&once, load);
    if (!crypto.is_loaded)
        return error_set(err, SL_ERR_ENV,
                         "libcrypto.so.3, which checks what is downloaded, cannot be loaded: "
                         "install the package libssl3");
    struct sum *sum = mem_new(1, sizeof *sum);
    if (sum != NULL)
        sum->ctx = crypto.ctx_new();
    bool is_git = text.len == 40;
    if (sum == NULL || sum->ctx == NULL ||
        crypto.begin(sum->ctx, is_git ? crypto.sha1() : crypto.sha256(), NULL) != 1) {
        sum_free(sum);
        return error_memory(err, sizeof *sum, "a check sum");
    }
    char header[40];
    if (is_git) {
        int length = snprintf(header, sizeof header, "blob %llu", (unsigned long long)bytes);
        crypto.add(sum->ctx, header, (size_t)length + 1); /* with the NUL */
    }
    *out = sum;
    return SL_OK;
}

void sum_add(struct sum *sum, const void *data, size_t bytes) {
    crypto.add(sum->ctx, data, bytes);
}

void sum_end(struct sum *sum, char text[SL_SUM_TEXT_BYTES]) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    crypto.end(sum->ctx, digest, &length);
    must(length <= 32);
    for (unsigned i = 0; i < length; i++)
        snprintf(text + (size_t)2 * i, 3, "%02x", digest[i]);
}

void sum_free(struct sum *sum) {
    if (!sum)
        return;
    if (sum->ctx != NULL)
        crypto.ctx_free(sum->ctx);
    mem_free(sum);
}
