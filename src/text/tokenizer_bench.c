/* Time and memory of loading a tokenizer.json, and the rate of encoding on one thread.
 *
 * Use: tokenizer_bench TOKENIZER.JSON ROWS.JSONL [ROUNDS]. The texts are the contents of the rows'
 * messages and their prompts, each encoded by itself, without special tokens. Seconds are those of
 * the thread (CPU time), so that other work on the machine counts less; a rate is the best of the
 * rounds. The peak is the process's VmHWM once the tokenizer is loaded, its file's text included.
 */
#include "base/json.h"
#include "text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct texts {
    struct arena arena;
    struct buf file;
    struct str *items;
    size_t count, cap, bytes;
};

static double thread_seconds(void) {
    struct timespec time;
    must(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static bool read_file(const char *path, struct buf *buf) {
    static char block[1 << 16];
    size_t count;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return false;
    while ((count = fread(block, 1, sizeof block, file)) > 0)
        buf_add(buf, (struct str){block, count});
    fclose(file);
    return !buf->has_failed;
}

static void add_text(struct texts *texts, const struct json *json) {
    struct str text;
    if (!json_string(json, &text))
        return;
    must(texts->count < texts->cap ||
         mem_grow((void **)&texts->items, &texts->cap, texts->count + 1, sizeof *texts->items));
    texts->items[texts->count++] = text;
    texts->bytes += text.len;
}

static bool read_texts(const char *path, struct texts *texts) {
    if (!read_file(path, &texts->file))
        return false;
    struct str all = buf_str(&texts->file);
    for (size_t at = 0, end; at < all.len; at = end + 1) {
        const struct json *row = NULL;
        end = str_find(all, STR("\n"), at);
        end = end == SIZE_MAX ? all.len : end;
        if (json_parse(&texts->arena, str_cut(all, at, end), NULL, &row, NULL) != SL_OK)
            return false;
        const struct json *messages = json_get(row, "messages");
        add_text(texts, json_get(row, "prompt"));
        for (uint32_t i = 0; json_is(messages, JSON_ARRAY) && i < messages->count; i++)
            add_text(texts, json_get(&messages->items[i], "content"));
    }
    return texts->count > 0;
}

static long peak_kilobytes(void) {
    char line[200];
    long value = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "VmHWM:", 6) == 0)
            value = strtol(line + 6, NULL, 10);
    if (file != NULL)
        fclose(file);
    return value;
}

static struct tokenizer *load(const char *path) {
    struct tokenizer *tokenizer = NULL;
    struct error err = {0};
    struct buf json;
    buf_init(&json);
    if (!read_file(path, &json)) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(1);
    }
    double start = thread_seconds();
    if (tokenizer_from_json(buf_str(&json), path, &tokenizer, &err) != SL_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    printf("load %.3f s, peak %.0f MB\n", thread_seconds() - start,
           (double)peak_kilobytes() / 1024);
    buf_release(&json);
    return tokenizer;
}

int main(int argc, char **argv) {
    struct texts texts = {0};
    struct ids ids = {0};
    const struct encode_options options = {0};
    double best = 0;
    if (argc < 3) {
        fprintf(stderr, "use: tokenizer_bench TOKENIZER.JSON ROWS.JSONL [ROUNDS]\n");
        return 2;
    }
    struct tokenizer *tokenizer = load(argv[1]);
    arena_init(&texts.arena);
    buf_init(&texts.file);
    if (!read_texts(argv[2], &texts)) {
        fprintf(stderr, "%s cannot be read, or has no texts\n", argv[2]);
        return 1;
    }
    long rounds = argc > 3 ? strtol(argv[3], NULL, 10) : 5;
    for (long round = 0; round < rounds; round++) {
        ids.count = 0;
        double start = thread_seconds();
        for (size_t i = 0; i < texts.count; i++)
            must(tokenizer_encode(tokenizer, texts.items[i], &options, &ids, NULL) == SL_OK);
        double rate = (double)texts.bytes / 1e6 / (thread_seconds() - start);
        best = rate > best ? rate : best;
    }
    printf("encode %.2f MB/s, %zu texts, %zu bytes, %zu tokens\n", best, texts.count, texts.bytes,
           ids.count);
    ids_release(&ids);
    mem_free(texts.items);
    arena_release(&texts.arena);
    buf_release(&texts.file);
    tokenizer_free(tokenizer);
    return 0;
}
