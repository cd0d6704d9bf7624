/* For tests alone: writes very small models, as a folder with safetensors or as a GGUF file, into a
 * temporary folder of the test's own. Include it from *_test.c, after <cmocka.h>. Weights are
 * float32; what they are is the test's business. */
#ifndef SLUICE_MODEL_TINY_MODEL_H
#define SLUICE_MODEL_TINY_MODEL_H

#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TINY_TENSORS_MAX 96
#define TINY_KEYS_MAX 32

struct tiny_tensor {
    char name[80];
    uint64_t rows, columns; /* columns 0: a vector */
    float *values;
};

struct tiny {
    char folder[64];
    struct tiny_tensor tensors[TINY_TENSORS_MAX];
    size_t count;
    uint32_t state; /* of the numbers */
};

static inline void tiny_begin(struct tiny *tiny) {
    *tiny = (struct tiny){.state = 12345};
    snprintf(tiny->folder, sizeof tiny->folder, "/tmp/sluice-test-XXXXXX");
    assert_non_null(mkdtemp(tiny->folder));
}

static inline size_t tiny_values(const struct tiny_tensor *tensor) {
    return (size_t)(tensor->rows * (tensor->columns == 0 ? 1 : tensor->columns));
}

/* A tensor of numbers in (-scale, scale) around `center`; returns its values for changes. */
static inline float *tiny_add(struct tiny *tiny, const char *name, uint64_t rows, uint64_t columns,
                              float scale, float center) {
    assert_true(tiny->count < TINY_TENSORS_MAX);
    struct tiny_tensor *tensor = &tiny->tensors[tiny->count++];
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    tensor->rows = rows;
    tensor->columns = columns;
    tensor->values = mem_new(tiny_values(tensor), sizeof(float));
    assert_non_null(tensor->values);
    for (size_t i = 0; i < tiny_values(tensor); i++) {
        tiny->state = tiny->state * 1664525u + 1013904223u;
        tensor->values[i] = center + scale * ((float)(tiny->state >> 8) / 8388608.0f - 1.0f);
    }
    return tensor->values;
}

static inline void tiny_path(const struct tiny *tiny, const char *name, char *path, size_t cap) {
    snprintf(path, cap, "%s/%s", tiny->folder, name);
}

static inline void tiny_write_bytes(const struct tiny *tiny, const char *name, struct str bytes) {
    char path[160];
    tiny_path(tiny, name, path, sizeof path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes.data, 1, bytes.len, file), bytes.len);
    assert_int_equal(fclose(file), 0);
}

static inline void tiny_write_text(const struct tiny *tiny, const char *name, const char *text) {
    tiny_write_bytes(tiny, name, str_from(text));
}

static inline void tiny_put(struct buf *buf, const void *data, size_t bytes) {
    buf_add(buf, (struct str){data, bytes});
}

static inline void tiny_write_safetensors(const struct tiny *tiny) {
    struct buf header, out;
    buf_init(&header);
    buf_init(&out);
    size_t offset = 0;
    buf_add_char(&header, '{');
    for (size_t i = 0; i < tiny->count; i++) {
        const struct tiny_tensor *tensor = &tiny->tensors[i];
        size_t end = offset + tiny_values(tensor) * sizeof(float);
        buf_printf(&header, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%llu", i > 0 ? "," : "",
                   tensor->name, (unsigned long long)tensor->rows);
        if (tensor->columns > 0)
            buf_printf(&header, ",%llu", (unsigned long long)tensor->columns);
        buf_printf(&header, "],\"data_offsets\":[%zu,%zu]}", offset, end);
        offset = end;
    }
    buf_add_char(&header, '}');
    uint64_t len = header.len;
    tiny_put(&out, &len, sizeof len);
    buf_add(&out, buf_str(&header));
    for (size_t i = 0; i < tiny->count; i++)
        tiny_put(&out, tiny->tensors[i].values, tiny_values(&tiny->tensors[i]) * sizeof(float));
    assert_false(header.has_failed || out.has_failed);
    tiny_write_bytes(tiny, "model.safetensors", buf_str(&out));
    buf_release(&header);
    buf_release(&out);
}

/* GGUF, version 3: a key with a text, a whole number or a float32. */
struct tiny_key {
    const char *name, *text; /* text NULL: a number */
    double number;
    bool is_real;
};

static inline void tiny_put_text(struct buf *buf, const char *text) {
    uint64_t len = strlen(text);
    tiny_put(buf, &len, sizeof len);
    tiny_put(buf, text, len);
}

static inline void tiny_put_u32(struct buf *buf, uint32_t value) {
    tiny_put(buf, &value, sizeof value);
}

static inline void tiny_write_gguf(const struct tiny *tiny, const char *name,
                                   const struct tiny_key *keys, size_t key_count) {
    struct buf out;
    uint64_t counts[2] = {tiny->count, key_count}, offset = 0;
    buf_init(&out);
    buf_add(&out, STR("GGUF"));
    tiny_put_u32(&out, 3);
    tiny_put(&out, counts, sizeof counts);
    for (size_t i = 0; i < key_count; i++) {
        float real = (float)keys[i].number;
        tiny_put_text(&out, keys[i].name);
        tiny_put_u32(&out, keys[i].text != NULL ? 8 : (keys[i].is_real ? 6 : 4));
        if (keys[i].text != NULL)
            tiny_put_text(&out, keys[i].text);
        else if (keys[i].is_real)
            tiny_put(&out, &real, sizeof real);
        else
            tiny_put_u32(&out, (uint32_t)keys[i].number);
    }
    for (size_t i = 0; i < tiny->count; i++) {
        const struct tiny_tensor *tensor = &tiny->tensors[i];
        uint64_t shape[2] = {tensor->columns, tensor->rows}; /* innermost first */
        tiny_put_text(&out, tensor->name);
        tiny_put_u32(&out, tensor->columns > 0 ? 2 : 1);
        if (tensor->columns > 0)
            tiny_put(&out, &shape[0], sizeof shape[0]);
        tiny_put(&out, &shape[1], sizeof shape[1]);
        tiny_put_u32(&out, 0); /* F32 */
        tiny_put(&out, &offset, sizeof offset);
        offset += (tiny_values(tensor) * sizeof(float) + 31) / 32 * 32;
    }
    while (out.len % 32 != 0)
        buf_add_char(&out, '\0');
    for (size_t i = 0; i < tiny->count; i++) {
        tiny_put(&out, tiny->tensors[i].values, tiny_values(&tiny->tensors[i]) * sizeof(float));
        while (out.len % 32 != 0)
            buf_add_char(&out, '\0');
    }
    assert_false(out.has_failed);
    tiny_write_bytes(tiny, name, buf_str(&out));
    buf_release(&out);
}

/* A llama of two layers. */
#define TINY_VOCABULARY 12
#define TINY_HIDDEN 8
#define TINY_HEADS 2
#define TINY_KV_HEADS 1
#define TINY_HEAD_DIM 4
#define TINY_INNER 12
#define TINY_LAYERS 2

/* The file tiny.gguf of such a model: its sizes, and more keys, whose names lack the type (NULL:
 * none here). */
static inline void tiny_write_gguf_of(const struct tiny *tiny, const char *type,
                                      const struct tiny_key *more, size_t more_count) {
    static const struct tiny_key sizes[] = {{"block_count", NULL, TINY_LAYERS, false},
                                            {"embedding_length", NULL, TINY_HIDDEN, false},
                                            {"attention.head_count", NULL, TINY_HEADS, false},
                                            {"attention.head_count_kv", NULL, TINY_KV_HEADS, false},
                                            {"attention.key_length", NULL, TINY_HEAD_DIM, false},
                                            {"attention.value_length", NULL, TINY_HEAD_DIM, false},
                                            {"feed_forward_length", NULL, TINY_INNER, false},
                                            {"context_length", NULL, 64, false},
                                            {"attention.layer_norm_rms_epsilon", NULL, 1e-5, true}};
    enum { SIZES = sizeof sizes / sizeof sizes[0], KEYS = SIZES + 4 };
    struct tiny_key keys[1 + KEYS] = {{"general.architecture", type, 0, false}};
    char names[KEYS][64];
    size_t count = 1;
    assert_true(more_count <= KEYS - SIZES);
    for (size_t i = 0; i < SIZES + more_count; i++) {
        const struct tiny_key *key = i < SIZES ? &sizes[i] : &more[i - SIZES];
        if (key->name == NULL)
            continue;
        snprintf(names[i], sizeof names[i], "%s.%s", type, key->name);
        keys[count] = *key;
        keys[count++].name = names[i];
    }
    tiny_write_gguf(tiny, "tiny.gguf", keys, count);
}

static const char tiny_config_text[] =
    "{\"model_type\":\"%s\",\"num_hidden_layers\":2,\"hidden_size\":8,\"num_attention_heads\":2,"
    "\"num_key_value_heads\":1,\"head_dim\":4,\"intermediate_size\":12,\"vocab_size\":12,"
    "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-5,\"rope_theta\":10000.0%s}";

static inline void tiny_write_config(const struct tiny *tiny, const char *type, const char *more) {
    char text[2048];
    snprintf(text, sizeof text, tiny_config_text, type, more);
    tiny_write_text(tiny, "config.json", text);
}

/* All tensors of a llama; scale 0 leaves layers that add nothing. */
static inline void tiny_add_llama(struct tiny *tiny, float scale) {
    static const struct {
        const char *name;
        uint64_t rows, columns;
    } parts[] = {
        {"input_layernorm.weight", TINY_HIDDEN, 0},
        {"self_attn.q_proj.weight", TINY_HEADS * TINY_HEAD_DIM, TINY_HIDDEN},
        {"self_attn.k_proj.weight", TINY_KV_HEADS * TINY_HEAD_DIM, TINY_HIDDEN},
        {"self_attn.v_proj.weight", TINY_KV_HEADS * TINY_HEAD_DIM, TINY_HIDDEN},
        {"self_attn.o_proj.weight", TINY_HIDDEN, TINY_HEADS * TINY_HEAD_DIM},
        {"post_attention_layernorm.weight", TINY_HIDDEN, 0},
        {"mlp.gate_proj.weight", TINY_INNER, TINY_HIDDEN},
        {"mlp.up_proj.weight", TINY_INNER, TINY_HIDDEN},
        {"mlp.down_proj.weight", TINY_HIDDEN, TINY_INNER},
    };
    tiny_add(tiny, "model.embed_tokens.weight", TINY_VOCABULARY, TINY_HIDDEN, 1.0f, 0.0f);
    for (unsigned layer = 0; layer < TINY_LAYERS; layer++)
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
            char name[80];
            snprintf(name, sizeof name, "model.layers.%u.%s", layer, parts[i].name);
            bool is_norm = parts[i].columns == 0;
            tiny_add(tiny, name, parts[i].rows, parts[i].columns, is_norm ? 0.25f : scale,
                     is_norm ? 1.0f : 0.0f);
        }
    tiny_add(tiny, "model.norm.weight", TINY_HIDDEN, 0, 0.0f, 1.0f);
}

static inline struct tiny_tensor *tiny_find(struct tiny *tiny, const char *name) {
    for (size_t i = 0; i < tiny->count; i++)
        if (strcmp(tiny->tensors[i].name, name) == 0)
            return &tiny->tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

/* Leaves a tensor out of what is written. */
static inline void tiny_drop(struct tiny *tiny, const char *name) {
    struct tiny_tensor *tensor = tiny_find(tiny, name);
    mem_free(tensor->values);
    *tensor = tiny->tensors[--tiny->count];
}

static inline struct model *tiny_open(const char *path) {
    struct model *model = NULL;
    struct error err = {0};
    if (model_open(path, MODEL_ALL, &model, &err) != SL_OK)
        fail_msg("%s", err.text);
    return model;
}

/* The model is refused and the sentence has every one of the words. */
static inline void tiny_refuses(const char *path, const char *first, const char *second) {
    struct model *model = NULL;
    struct error err = {0};
    assert_int_equal(model_open(path, MODEL_ALL, &model, &err), SL_ERR_ENV);
    if (strstr(err.text, first) == NULL || strstr(err.text, second) == NULL)
        fail_msg("\"%s\" does not name %s and %s", err.text, first, second);
}

/* Removes the folder and every file that tests put there. */
static inline void tiny_end(struct tiny *tiny) {
    static const char *const names[] = {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
        "chat_template.json",
        "tiny.gguf",
        "additional_chat_templates/tool_use.jinja",
    };
    char path[160];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        tiny_path(tiny, names[i], path, sizeof path);
        unlink(path);
    }
    tiny_path(tiny, "additional_chat_templates", path, sizeof path);
    rmdir(path);
    assert_int_equal(rmdir(tiny->folder), 0);
    for (size_t i = 0; i < tiny->count; i++)
        mem_free(tiny->tensors[i].values);
}

#endif
