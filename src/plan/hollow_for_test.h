/* For tests: models that are headers alone (their weights are holes in a file), jobs of rows that
 * are all alike, and settings. */
#ifndef SLUICE_PLAN_HOLLOW_FOR_TEST_H
#define SLUICE_PLAN_HOLLOW_FOR_TEST_H

#include "engine/kv.h"
#include "plan/plan.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

/* A plan's sums begin with the process as it is, so what it has freed should be free: without this
 * AddressSanitizer keeps 256 MB of it back. It calls the function by its name. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "quarantine_size_mb=0:thread_local_quarantine_size_kb=0";
}

/* ---- models */

struct shape {
    unsigned layers, hidden, inner, heads, kv_heads, vocabulary, window;
};

static inline void add_tensor(struct buf *header, uint64_t *end, const char *name, unsigned rows,
                              unsigned columns) {
    uint64_t bytes = (uint64_t)rows * (columns > 0 ? columns : 1) * 2;
    buf_printf(header, "%s\"%s\": {\"dtype\": \"BF16\", \"shape\": ", *end > 0 ? ", " : "{", name);
    if (columns > 0)
        buf_printf(header, "[%u, %u]", rows, columns);
    else
        buf_printf(header, "[%u]", rows);
    buf_printf(header, ", \"data_offsets\": [%llu, %llu]}", (unsigned long long)*end,
               (unsigned long long)(*end + bytes));
    *end += bytes;
}

static inline void add_layer(struct buf *header, uint64_t *end, const struct shape *shape,
                             unsigned layer) {
    const unsigned key = shape->hidden / shape->heads * shape->kv_heads;
    const struct {
        const char *name;
        unsigned rows, columns;
    } tensors[] = {
        {"input_layernorm", shape->hidden, 0},
        {"self_attn.q_proj", shape->hidden, shape->hidden},
        {"self_attn.k_proj", key, shape->hidden},
        {"self_attn.v_proj", key, shape->hidden},
        {"self_attn.o_proj", shape->hidden, shape->hidden},
        {"post_attention_layernorm", shape->hidden, 0},
        {"mlp.gate_proj", shape->inner, shape->hidden},
        {"mlp.up_proj", shape->inner, shape->hidden},
        {"mlp.down_proj", shape->hidden, shape->inner},
    };
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        char name[96];
        snprintf(name, sizeof name, "model.layers.%u.%s.weight", layer, tensors[i].name);
        add_tensor(header, end, name, tensors[i].rows, tensors[i].columns);
    }
}

static inline void write_file(const char *path, const char *text, size_t bytes, uint64_t hole) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(truncate(path, (off_t)(bytes + hole)), 0);
}

static inline void write_config(const char *folder, const struct shape *shape) {
    char path[PATH_MAX], text[512];
    int length = snprintf(
        text, sizeof text,
        "{\"model_type\": \"%s\", \"sliding_window\": %s, "
        "\"num_hidden_layers\": %u, \"hidden_size\": "
        "%u, \"intermediate_size\": %u, \"num_attention_heads\": %u, "
        "\"num_key_value_heads\": %u, \"vocab_size\": %u, \"rms_norm_eps\": 1e-5, "
        "\"max_position_embeddings\": 8192, \"rope_theta\": 10000.0, "
        "\"hidden_act\": \"silu\", \"tie_word_embeddings\": false, "
        "\"eos_token_id\": 2}",
        shape->window > 0 ? "mistral" : "llama", shape->window > 0 ? "100" : "null", shape->layers,
        shape->hidden, shape->inner, shape->heads, shape->kv_heads, shape->vocabulary);
    assert_true(length > 0 && (size_t)length < sizeof text);
    snprintf(path, sizeof path, "%s/config.json", folder);
    write_file(path, text, (size_t)length, 0);
}

/* No files stay behind: an open model needs none of their names. */
static inline struct model *make_model(const char *folder, const struct shape *shape) {
    char path[PATH_MAX];
    struct buf text;
    struct error err = {0};
    struct model *model;
    uint64_t end = 0;
    buf_init(&text);
    buf_add(&text, STR("        ")); /* the length of the header, below */
    add_tensor(&text, &end, "model.embed_tokens.weight", shape->vocabulary, shape->hidden);
    for (unsigned layer = 0; layer < shape->layers; layer++)
        add_layer(&text, &end, shape, layer);
    add_tensor(&text, &end, "model.norm.weight", shape->hidden, 0);
    add_tensor(&text, &end, "lm_head.weight", shape->vocabulary, shape->hidden);
    buf_add(&text, STR("}"));
    uint64_t header = text.len - 8;
    memcpy(text.data, &header, sizeof header); /* little-endian, as this machine is */
    write_config(folder, shape);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    write_file(path, text.data, text.len, end);
    buf_release(&text);
    if (model_open(folder, MODEL_ALL, &model, &err) != SL_OK)
        fail_msg("%s", err.text);
    unlink(path);
    snprintf(path, sizeof path, "%s/config.json", folder);
    unlink(path);
    return model;
}

/* ---- rows and settings */

/* count rows with that prompt and answer. */
static inline struct plan_rows equal_rows(size_t count, size_t prompt, size_t answer) {
    return (struct plan_rows){
        .count = count,
        .prompt_tokens = count * prompt,
        .sequence_tokens = count * (prompt + answer),
        .pages = count * kv_pages_for(prompt + answer),
        .longest = prompt + answer,
        .longest_prompt = prompt,
        .longest_answer = answer,
        .answer_tokens = count * answer,
    };
}

static inline struct settings settings_for(const char *engine, uint64_t memory) {
    return (struct settings){
        .engine = engine,
        .memory_bytes = memory,
        .precision = "auto",
        .kernels = "auto",
        .kv = "bf16",
        .reader = "auto",
        .content_specials = "allow",
        .threads = 2,
        .logprobs = -1,
    };
}

static inline void must_plan(const struct model *model, const struct settings *settings,
                             const struct plan_rows *rows, struct plan *plan) {
    struct error err = {0};
    if (plan_make(model, settings, rows, plan, &err) != SL_OK)
        fail_msg("%s", err.text);
}

static inline uint64_t sum_of(const struct plan *plan) {
    return plan->base_bytes + plan->resident_bytes + plan->ring_bytes + plan->activation_bytes +
           plan->kv_bytes;
}

#endif
