/* Models as a whole, made by the test itself: which tensor plays which role, tied heads, the rows
 * that GGUF permutes, and what must be refused. Right values follow from the published rules by
 * hand; two forms of one model are compared with each other. */
#include "model/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "model/tiny_run.h"

/* With layers that add nothing the logits are head x norm(embedding of the last id). */
static void assert_head(const char *path, const float *embed, const float *head) {
    struct model *model = tiny_open(path);
    float logits[TINY_VOCABULARY];
    static const uint32_t ids[] = {3, 5};
    tiny_logits(model, ids, 2, logits);
    double squares = 0;
    for (size_t k = 0; k < TINY_HIDDEN; k++)
        squares += (double)embed[5 * TINY_HIDDEN + k] * (double)embed[5 * TINY_HIDDEN + k];
    double scale = 1.0 / sqrt(squares / TINY_HIDDEN + 1e-5);
    for (size_t n = 0; n < TINY_VOCABULARY; n++) {
        double sum = 0;
        for (size_t k = 0; k < TINY_HIDDEN; k++)
            sum += (double)head[n * TINY_HIDDEN + k] * (double)embed[5 * TINY_HIDDEN + k] * scale;
        assert_true(fabs((double)logits[n] - sum) < 1e-5); /* sums of 8 in float32 */
    }
    model_close(model);
}

static void the_head_in_the_file_is_used_whatever_the_flag_says(void **state) {
    static const char *const flags[] = {",\"tie_word_embeddings\":true",
                                        ",\"tie_word_embeddings\":false", ""};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct tiny tiny;
        tiny_begin(&tiny);
        tiny_add_llama(&tiny, 0.0f);
        tiny_write_config(&tiny, "llama", flags[i]);
        tiny_write_safetensors(&tiny);
        float *embed = tiny.tensors[0].values;
        assert_head(tiny.folder, embed, embed); /* absent */
        float *head = tiny_add(&tiny, "lm_head.weight", TINY_VOCABULARY, TINY_HIDDEN, 1.0f, 0.0f);
        tiny_write_safetensors(&tiny);
        assert_head(tiny.folder, embed, head); /* different */
        memcpy(head, embed, TINY_VOCABULARY * TINY_HIDDEN * sizeof *head);
        tiny_write_safetensors(&tiny);
        assert_head(tiny.folder, embed, embed); /* a copy */
        tiny_end(&tiny);
    }
}

/* Rows of q or k as llama.cpp's converter orders them: of each head the pairs (i, i + d/2) next to
 * each other. Heads of 4: 0 2 1 3 4 6 5 7. */
static void permute(struct tiny_tensor *tensor) {
    size_t columns = (size_t)tensor->columns, half = TINY_HEAD_DIM / 2;
    float before[TINY_HEADS * TINY_HEAD_DIM * TINY_HIDDEN];
    memcpy(before, tensor->values, tiny_values(tensor) * sizeof *before);
    for (size_t row = 0; row < tensor->rows; row++) {
        size_t head = row / TINY_HEAD_DIM, in_head = row % TINY_HEAD_DIM;
        size_t from = head * TINY_HEAD_DIM + in_head % 2 * half + in_head / 2;
        memcpy(tensor->values + row * columns, before + from * columns, columns * sizeof *before);
    }
}

/* Renames tensors of a folder to those of a GGUF file. */
static void rename_for_gguf(struct tiny *tiny) {
    for (size_t i = 0; i < tiny->count; i++) {
        bool is_found = false;
        for (unsigned role = 0; role < ROLE_COUNT && !is_found; role++)
            for (unsigned layer = 0; layer < TINY_LAYERS && !is_found; layer++) {
                const struct role_info *info = role_get((enum role)role);
                struct buf name;
                buf_init(&name);
                if (info->safetensors != NULL)
                    role_add_name(info->safetensors, 0, layer, 0, &name);
                if (str_is(buf_str(&name), tiny->tensors[i].name)) {
                    buf_clear(&name);
                    role_add_name(info->gguf, 0, layer, 0, &name);
                    snprintf(tiny->tensors[i].name, sizeof tiny->tensors[i].name, "%s", name.data);
                    is_found = true;
                }
                buf_release(&name);
            }
        assert_true(is_found);
    }
}

static void add_qkv_biases(struct tiny *tiny) {
    for (unsigned layer = 0; layer < TINY_LAYERS; layer++) {
        char name[80];
        static const char *const parts[] = {"q", "k", "v"};
        for (size_t i = 0; i < 3; i++) {
            snprintf(name, sizeof name, "model.layers.%u.self_attn.%s_proj.bias", layer, parts[i]);
            tiny_add(tiny, name,
                     i == 0 ? TINY_HEADS * TINY_HEAD_DIM : TINY_KV_HEADS * TINY_HEAD_DIM, 0, 1.0f,
                     0.0f);
        }
    }
}

static void same_logits(const float *a, const float *b) {
    for (size_t i = 0; i < TINY_VOCABULARY; i++)
        if (!(fabsf(a[i] - b[i]) < 1e-5f)) /* chains of 8 to 12, in another order */
            fail_msg("logit %zu: %g and %g", i, (double)a[i], (double)b[i]);
}

static void a_gguf_file_answers_as_the_folder_it_came_from(void **state) {
    /* llama.cpp gives Granite's scores the usual scale unless a key says otherwise. */
    static const struct {
        const char *type, *more;
        bool is_permuted;
    } rows[] = {{"llama", "", true},
                {"granite", ",\"attention_multiplier\":0.5", true},
                {"smollm3", "", true},
                {"qwen2", "", false}};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct tiny tiny;
        float folder[5][TINY_VOCABULARY], file[5][TINY_VOCABULARY];
        static const uint32_t ids[5] = {1, 7, 2, 9, 4};
        tiny_begin(&tiny);
        tiny_add_llama(&tiny, 1.0f);
        if (!rows[i].is_permuted)
            add_qkv_biases(&tiny);
        tiny_write_config(&tiny, rows[i].type, rows[i].more);
        tiny_write_safetensors(&tiny);
        struct model *model = tiny_open(tiny.folder);
        for (size_t n = 1; n <= 5; n++)
            tiny_logits(model, ids, n, folder[n - 1]);
        model_close(model);
        rename_for_gguf(&tiny);
        if (rows[i].is_permuted)
            for (unsigned layer = 0; layer < TINY_LAYERS; layer++) {
                permute(
                    tiny_find(&tiny, layer == 0 ? "blk.0.attn_q.weight" : "blk.1.attn_q.weight"));
                permute(
                    tiny_find(&tiny, layer == 0 ? "blk.0.attn_k.weight" : "blk.1.attn_k.weight"));
            }
        tiny_write_gguf_of(&tiny, rows[i].type, NULL, 0);
        char path[160];
        tiny_path(&tiny, "tiny.gguf", path, sizeof path);
        model = tiny_open(path);
        assert_int_equal(model->config.vocabulary, TINY_VOCABULARY);
        assert_int_equal(model->config.rope.is_interleaved, rows[i].is_permuted);
        for (size_t n = 1; n <= 5; n++)
            tiny_logits(model, ids, n, file[n - 1]);
        model_close(model);
        for (size_t n = 0; n < 5; n++)
            same_logits(folder[n], file[n]);
        /* The rows matter: another order gives other logits. */
        if (rows[i].is_permuted) {
            permute(tiny_find(&tiny, "blk.0.attn_q.weight"));
            tiny_write_gguf_of(&tiny, rows[i].type, NULL, 0);
            model = tiny_open(path);
            tiny_logits(model, ids, 5, file[4]);
            model_close(model);
            assert_true(fabsf(file[4][0] - folder[4][0]) > 1e-4f);
        }
        tiny_end(&tiny);
    }
}

static void tensors_that_do_not_fit_the_config_are_refused(void **state) {
    struct tiny tiny;
    (void)state;
    tiny_begin(&tiny);
    tiny_add_llama(&tiny, 1.0f);
    tiny_write_config(&tiny, "llama", "");
    tiny_find(&tiny, "model.layers.1.self_attn.k_proj.weight")->rows =
        TINY_KV_HEADS * TINY_HEAD_DIM - 1;
    tiny_write_safetensors(&tiny);
    tiny_refuses(tiny.folder, "model.layers.1.self_attn.k_proj.weight", "[3, 8]");
    tiny_refuses(tiny.folder, "model.safetensors", "[4, 8]");
    tiny_find(&tiny, "model.layers.1.self_attn.k_proj.weight")->rows =
        TINY_KV_HEADS * TINY_HEAD_DIM;
    tiny_find(&tiny, "model.embed_tokens.weight")->rows = TINY_VOCABULARY - 1;
    tiny_write_safetensors(&tiny);
    tiny_refuses(tiny.folder, "11 rows", "12 tokens");
    tiny_find(&tiny, "model.embed_tokens.weight")->rows = TINY_VOCABULARY;
    tiny_drop(&tiny, "model.layers.1.mlp.up_proj.weight");
    tiny_write_safetensors(&tiny);
    tiny_refuses(tiny.folder, "model.layers.1.mlp.up_proj.weight", "missing");
    tiny_end(&tiny);
}

static void a_bias_of_some_layers_alone_is_refused(void **state) {
    struct tiny tiny;
    (void)state;
    tiny_begin(&tiny);
    tiny_add_llama(&tiny, 1.0f);
    tiny_write_config(&tiny, "llama", "");
    tiny_add(&tiny, "model.layers.0.self_attn.o_proj.bias", TINY_HIDDEN, 0, 1.0f, 0.0f);
    tiny_write_safetensors(&tiny);
    tiny_refuses(tiny.folder, "model.layers.1.self_attn.o_proj.bias", "missing");
    snprintf(tiny.tensors[tiny.count - 1].name, 80, "model.layers.1.self_attn.o_proj.bias");
    tiny_write_safetensors(&tiny);
    tiny_refuses(tiny.folder, "model.layers.1.self_attn.o_proj.bias", "layers before");
    tiny_write_config(&tiny, "llama", ",\"attention_bias\":true");
    tiny_drop(&tiny, "model.layers.1.self_attn.o_proj.bias");
    tiny_write_safetensors(&tiny);
    tiny_refuses(tiny.folder, "model.layers.0.self_attn.q_proj.bias", "missing");
    tiny_end(&tiny);
}

static void names_without_the_model_prefix_and_spare_tensors_are_accepted(void **state) {
    struct tiny tiny;
    (void)state;
    tiny_begin(&tiny);
    tiny_add_llama(&tiny, 1.0f);
    tiny_add(&tiny, "model.layers.0.self_attn.rotary_emb.inv_freq", TINY_HEAD_DIM / 2, 0, 1.0f,
             0.0f);
    tiny_add(&tiny, "model.layers.0.unheard_of", 3, 0, 1.0f, 0.0f);
    for (size_t i = 0; i < tiny.count; i++)
        memmove(tiny.tensors[i].name, tiny.tensors[i].name + strlen("model."),
                sizeof tiny.tensors[i].name - strlen("model."));
    tiny_write_config(&tiny, "llama", "");
    tiny_write_safetensors(&tiny);
    struct model *model = tiny_open(tiny.folder);
    assert_true(str_is(model_matrix(model, 1, ROLE_Q)->parts[0].tensor->name,
                       "layers.1.self_attn.q_proj.weight"));
    assert_ptr_equal(model_matrix(model, 0, ROLE_HEAD), model_matrix(model, 0, ROLE_EMBED));
    assert_null(model->vectors[ROLE_COUNT + ROLE_Q_BIAS]);
    model_close(model);
    tiny_end(&tiny);
}

static void items_come_in_the_order_of_use(void **state) {
    static const enum role order[] = {ROLE_Q,    ROLE_K,  ROLE_V,   ROLE_O,
                                      ROLE_GATE, ROLE_UP, ROLE_DOWN};
    struct tiny tiny;
    struct error err = {0};
    struct layout_item *items;
    size_t count;
    (void)state;
    tiny_begin(&tiny);
    tiny_add_llama(&tiny, 1.0f);
    tiny_write_config(&tiny, "llama", "");
    tiny_write_safetensors(&tiny);
    struct model *model = tiny_open(tiny.folder);
    assert_int_equal(model_layout_items(model, &items, &count, &err), SL_OK);
    assert_int_equal(count, TINY_LAYERS * 7 + 1);
    for (uint32_t i = 0; i < TINY_LAYERS * 7; i++) {
        assert_int_equal(items[i].key, (i / 7) << 8 | order[i % 7]);
        assert_int_equal(items[i].starts_block, i % 7 == 0 || i % 7 == 4);
        assert_memory_equal(&items[i].matrix, model_matrix(model, i / 7, order[i % 7]),
                            sizeof items[i].matrix);
    }
    assert_int_equal(items[TINY_LAYERS * 7].key, ROLE_HEAD);
    assert_true(items[TINY_LAYERS * 7].starts_block);
    uint64_t values = 0;
    for (size_t i = 0; i < tiny.count; i++)
        values += tiny_values(&tiny.tensors[i]);
    assert_int_equal(model_weights_bytes(model), values * 4);
    struct buf text;
    buf_init(&text);
    model_formats(model, &text);
    assert_string_equal(text.data, "f32");
    buf_release(&text);
    mem_free(items);
    model_close(model);
    tiny_end(&tiny);
}

static void what_is_no_model_is_refused_with_its_path(void **state) {
    struct tiny tiny;
    char path[160];
    (void)state;
    tiny_begin(&tiny);
    tiny_refuses("/nowhere/at/all", "/nowhere/at/all", "");
    tiny_refuses(tiny.folder, "config.json", tiny.folder);
    tiny_write_text(&tiny, "config.json", "{\"model_type\":");
    tiny_refuses(tiny.folder, "config.json", "");
    tiny_write_text(&tiny, "config.json", "[]");
    tiny_refuses(tiny.folder, "config.json", "object");
    tiny_write_config(&tiny, "llama", "");
    tiny_refuses(tiny.folder, tiny.folder, "");
    tiny_write_text(&tiny, "tiny.gguf", "GGUF");
    tiny_path(&tiny, "tiny.gguf", path, sizeof path);
    tiny_refuses(path, "tiny.gguf", "");
    tiny_end(&tiny);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_head_in_the_file_is_used_whatever_the_flag_says),
        cmocka_unit_test(a_gguf_file_answers_as_the_folder_it_came_from),
        cmocka_unit_test(tensors_that_do_not_fit_the_config_are_refused),
        cmocka_unit_test(a_bias_of_some_layers_alone_is_refused),
        cmocka_unit_test(names_without_the_model_prefix_and_spare_tensors_are_accepted),
        cmocka_unit_test(items_come_in_the_order_of_use),
        cmocka_unit_test(what_is_no_model_is_refused_with_its_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
