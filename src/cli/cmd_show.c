/* `show`: what a model is, from its headers alone. */
#include "cli/cmd.h"

#include "base/json.h"
#include "cli/model_name.h"
#include "cli/options.h"
#include "cli/show_settings.h"
#include "job/job.h"
#include "model/model.h"
#include "plan/plan.h"

#include <stdio.h>
#include <string.h>

struct show {
    const struct model *model;
    struct layout layout;
    struct buf *out;
};

/* "layer 3: q_proj k_proj", each matrix once. */
static void block_name(const struct layout *layout, const struct block *block, struct buf *out) {
    uint32_t last_key = UINT32_MAX, last_layer = UINT32_MAX;
    for (size_t i = 0; i < block->piece_count; i++) {
        const struct piece *piece = &layout->pieces[block->first_piece + i];
        uint32_t layer = role_layer_of_key(piece->key);
        const struct role_info *role = role_get(role_of_key(piece->key));
        if (piece->key == last_key)
            continue;
        if (out->len > 0)
            buf_add_char(out, ' ');
        if (role->is_per_layer && layer != last_layer)
            buf_printf(out, "layer %u: ", layer);
        buf_add(out, str_from(role->word));
        last_layer = layer;
        last_key = piece->key;
    }
}

static void blocks_json(const struct layout *layout, struct buf *out) {
    struct buf name;
    buf_init(&name);
    buf_add(out, STR(", \"blocks\": ["));
    for (size_t i = 0; i < layout->block_count; i++) {
        buf_clear(&name);
        block_name(layout, &layout->blocks[i], &name);
        buf_add(out, i == 0 ? STR("{\"name\": ") : STR(", {\"name\": "));
        json_add_string(out, buf_str(&name));
        buf_printf(out, ", \"bytes\": %zu}", layout->blocks[i].read_bytes);
    }
    buf_add_char(out, ']');
    buf_release(&name);
}

/* Bytes of each format that there is. */
static void formats_json(const struct model *model, struct buf *out) {
    uint64_t bytes[DTYPE_COUNT];
    bool is_first = true;
    model_format_bytes(model, bytes);
    buf_add(out, STR(", \"format_bytes\": {"));
    for (size_t i = 0; i < DTYPE_COUNT; i++) {
        if (bytes[i] == 0)
            continue;
        buf_printf(out, "%s\"%s\": %llu", is_first ? "" : ", ", dtype_get((enum dtype)i)->name,
                   (unsigned long long)bytes[i]);
        is_first = false;
    }
    buf_add_char(out, '}');
}

static void show_json(const struct show *show) {
    const struct model *model = show->model;
    const struct config *config = &model->config;
    struct buf *out = show->out, formats;
    buf_init(&formats);
    model_formats(model, &formats);
    buf_add(out, STR("{\"family\": "));
    json_add_string(out, str_from(config->family));
    json_member_count(out, "context", config->context);
    json_member_count(out, "vocabulary", config->vocabulary);
    json_member_count(out, "layers", config->layers);
    json_member_count(out, "hidden", config->hidden);
    json_member_count(out, "heads", config->heads);
    json_member_count(out, "kv_heads", config->kv_heads);
    json_member_count(out, "head_dim", config->head_dim);
    json_member_count(out, "weights_bytes", model_weights_bytes(model));
    json_member_text(out, "formats", buf_str(&formats));
    formats_json(model, out);
    buf_add(out, STR(", \"eos\": ["));
    for (size_t i = 0; i < model->eos_count; i++) {
        buf_printf(out, "%s{\"id\": %u", i == 0 ? "" : ", ", model->eos[i].id);
        json_member_text(out, "source", str_from(model->eos[i].source));
        buf_add_char(out, '}');
    }
    buf_add_char(out, ']');
    json_member_text(out, "template_source", str_from(model->template_source));
    buf_add(out, STR(", "));
    show_settings_json(model, out);
    blocks_json(&show->layout, out);
    buf_add(out, STR("}\n"));
    buf_release(&formats);
}

static void show_text(const struct show *show) {
    const struct model *model = show->model;
    const struct config *config = &model->config;
    struct buf *out = show->out;
    buf_printf(out, "model       %s\nfamily      %s\n", model->path, config->family);
    buf_printf(out, "sizes       %u layers, hidden %u, inner %u, %u heads, %u kv heads of %u\n",
               config->layers, config->hidden, config->inner, config->heads, config->kv_heads,
               config->head_dim);
    buf_printf(out, "vocabulary  %u\ncontext     %u\n", config->vocabulary, config->context);
    buf_add(out, STR("weights     "));
    plan_amount(model_weights_bytes(model), out);
    buf_add(out, STR(" as "));
    model_formats(model, out);
    buf_add_char(out, '\n');
    show_settings_text(model, out);
    if (config->latent.kv_rank > 0)
        buf_printf(out, "cache       %u + %u values a token and layer\n", config->latent.kv_rank,
                   config->latent.rope);
    buf_printf(out, "head        %s\n", model->has_own_head ? "its own" : "the embedding");
    for (size_t i = 0; i < model->eos_count; i++)
        buf_printf(out, "end token   %u (%s)\n", model->eos[i].id, model->eos[i].source);
    buf_printf(out, "template    %s\n", model->template_source);
    if (model->template_error.status != SL_OK)
        buf_printf(out, "            %s\n", model->template_error.text);
    if (config->samples)
        buf_printf(out, "sampling    suggested: temperature %g, top_p %g, top_k %lld\n",
                   config->temperature, config->top_p, (long long)config->top_k);
    buf_printf(out, "blocks      %zu, the largest ", show->layout.block_count);
    plan_amount(show->layout.slab_bytes_max, out);
    buf_add(out, STR("; a pass reads "));
    plan_amount(show->layout.read_bytes, out);
    buf_add_char(out, '\n');
}

static enum status make_layout(const struct model *model, struct layout *layout,
                               struct error *err) {
    struct layout_item *items;
    size_t count;
    TRY(model_layout_items(model, &items, &count, err));
    enum status status = layout_init(layout, &model->index, items, count, SL_BLOCK_BYTES_MAX, err);
    mem_free(items);
    return status;
}

static enum status show_model(const struct settings *settings, const struct model *model,
                              struct error *err) {
    struct buf text;
    struct show show = {.model = model, .out = &text};
    TRY(make_layout(model, &show.layout, err));
    buf_init(&text);
    if (settings->is_json)
        show_json(&show);
    else
        show_text(&show);
    enum status status = buf_status(&text, "the description", err);
    if (status == SL_OK)
        fwrite(text.data, 1, text.len, stdout);
    buf_release(&text);
    layout_release(&show.layout);
    return status;
}

static enum status show(int argc, char **argv, struct error *err) {
    struct settings settings;
    const char *operands[1] = {NULL};
    size_t count;
    struct model *model;
    struct buf config_text; /* stays empty: the command takes no --config */
    buf_init(&config_text);
    options_defaults(&settings);
    TRY(options_parse(argc, argv, FOR_SHOW, &settings, operands, 1, &count, &config_text, err));
    if (count < 1)
        return error_set(err, SL_ERR_USAGE, "show needs a MODEL");
    TRY(model_name_open(&settings, operands[0], MODEL_ALL, &model, err));
    enum status status = job_check_tokenizer(model, true, err);
    if (status == SL_OK)
        status = show_model(&settings, model, err);
    model_close(model);
    return status;
}

int cmd_show(int argc, char **argv) {
    if (cmd_help_wanted(argc, argv, "show"))
        return cmd_end(0);
    struct error err = {0};
    enum status status = show(argc, argv, &err);
    return cmd_end(cmd_fail(status, &err));
}
