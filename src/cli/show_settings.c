/* The settings of a model under the names that `show --json` has for them. Owns which of them are
 * always said, and which only where they are not what most families have. A setting that changes
 * the answer and is missing here is a defect (test/published_test.py compares with configs). */
#include "cli/show_settings.h"

#include "base/json.h"

#include <math.h>

#define SETTINGS_MAX 64u
#define TEXT_COLUMNS 96u

enum setting_kind { SETTING_COUNT, SETTING_REAL, SETTING_FLOAT, SETTING_FLAG, SETTING_WORD };

struct setting {
    const char *name;
    enum setting_kind kind;
    double number; /* of all but words; FLOAT: a float32, written as one */
    const char *word;
    bool is_usual; /* said in the object alone */
};

struct list {
    struct setting settings[SETTINGS_MAX];
    size_t count;
};

static struct setting *add(struct list *list, const char *name, enum setting_kind kind,
                           double number) {
    must(list->count < SETTINGS_MAX);
    struct setting *setting = &list->settings[list->count++];
    *setting = (struct setting){.name = name, .kind = kind, .number = number};
    return setting;
}

static void add_word(struct list *list, const char *name, const char *word) {
    add(list, name, SETTING_WORD, 0)->word = word;
}

static void add_usual(struct list *list, const char *name, double count) {
    add(list, name, SETTING_COUNT, count)->is_usual = true;
}

/* Said where it is not `neutral`. */
static void add_real(struct list *list, const char *name, double value, double neutral) {
    if (value != neutral)
        add(list, name, SETTING_REAL, value);
}

static double flags_set(const bool *flags, uint32_t count) {
    uint32_t sum = 0;
    for (uint32_t i = 0; flags != NULL && i < count; i++)
        sum += flags[i];
    return sum;
}

static void add_rope(struct list *list, const struct config *config) {
    const struct rope_config *rope = &config->rope, *window = &config->window_rope;
    bool is_yarn = rope->kind == ROPE_YARN, is_llama3 = rope->kind == ROPE_LLAMA3;
    add_word(list, "rope", rope_word(rope->kind));
    add(list, "rope_theta", SETTING_REAL, rope->theta);
    if (rope->kind != ROPE_DEFAULT)
        add(list, "rope_factor", SETTING_REAL, rope->factor);
    if (rope->kind == ROPE_PROPORTIONAL)
        add(list, "rope_share", SETTING_REAL, rope->share != 0 ? rope->share : 1);
    if (is_yarn || is_llama3 || rope->kind == ROPE_LONGROPE)
        add(list, "rope_original_context", SETTING_REAL, rope->original_context);
    if (is_llama3) {
        add(list, "rope_low_freq_factor", SETTING_REAL, rope->low_freq_factor);
        add(list, "rope_high_freq_factor", SETTING_REAL, rope->high_freq_factor);
    }
    if (is_yarn) {
        add(list, "rope_beta_fast", SETTING_REAL, rope->beta_fast);
        add(list, "rope_beta_slow", SETTING_REAL, rope->beta_slow);
        add(list, "rope_truncate", SETTING_FLAG, !rope->keeps_fractions);
        add_real(list, "rope_mscale", rope->mscale, 0);
        add_real(list, "rope_mscale_all_dim", rope->mscale_all_dim, 0);
    }
    add_real(list, "rope_attention_factor", rope->attention_factor, 1);
    if (config->latent.kv_rank > 0) /* in others it says only how their rows are stored */
        add(list, "rope_interleave", SETTING_FLAG, rope->is_interleaved);
    if (config->has_window_rope) {
        add(list, "window_rope_theta", SETTING_REAL, window->theta);
        if (window->rotary != rope->rotary)
            add(list, "window_rotary", SETTING_COUNT, window->rotary);
        if (window->kind != ROPE_DEFAULT) {
            add_word(list, "window_rope", rope_word(window->kind));
            add(list, "window_rope_factor", SETTING_REAL, window->factor);
        }
    }
    if (config->skips_rope != NULL)
        add(list, "layers_without_rope", SETTING_COUNT,
            flags_set(config->skips_rope, config->layers));
    add(list, "rotary", SETTING_COUNT, rope->rotary)->is_usual = rope->rotary == config->head_dim;
}

static void add_mixture(struct list *list, const struct config *config) {
    static const char *const words[] = {[MIXTURE_SOFTMAX] = "softmax",
                                        [MIXTURE_SOFTMAX_CHOSEN] = "softmax of the chosen",
                                        [MIXTURE_SIGMOID] = "sigmoid",
                                        [MIXTURE_SIGMOID_CHOSEN] = "sigmoid of the chosen"};
    const struct mixture *mixture = &config->mixture;
    if (mixture->count == 0)
        return;
    add(list, "experts", SETTING_COUNT, mixture->count);
    add(list, "experts_used", SETTING_COUNT, mixture->used);
    add(list, "expert_inner", SETTING_COUNT, mixture->inner);
    add(list, "shared_inner", SETTING_COUNT, mixture->shared_inner);
    add_word(list, "experts_score", words[mixture->score]);
    add(list, "experts_sum_to_one", SETTING_FLAG, mixture->sums_to_one);
    if (mixture->scale != 1.0f)
        add(list, "experts_scale", SETTING_FLOAT, (double)mixture->scale);
    if (mixture->scales_inputs)
        add(list, "experts_scale_inputs", SETTING_FLAG, true);
    if (mixture->is_normalised)
        add(list, "experts_normalised", SETTING_FLAG, true);
    if (mixture->groups > 1) {
        add(list, "expert_groups", SETTING_COUNT, mixture->groups);
        add(list, "expert_groups_used", SETTING_COUNT, mixture->groups_used);
    }
    if (flags_set(mixture->is_dense, config->layers) > 0)
        add(list, "dense_layers", SETTING_COUNT, flags_set(mixture->is_dense, config->layers));
    if (mixture->swiglu_limit != 0) {
        add(list, "swiglu_alpha", SETTING_FLOAT, (double)mixture->swiglu_alpha);
        add(list, "swiglu_limit", SETTING_FLOAT, (double)mixture->swiglu_limit);
    }
}

/* What layers have of their own. */
static void add_layers(struct list *list, const struct config *config) {
    uint32_t shared = 0, wide = 0, without_values = 0, whole = config->layers;
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        struct layer_sizes sizes = config_layer(config, layer);
        shared += sizes.kv_layer != layer;
        wide += sizes.inner != config->inner;
        without_values += sizes.shares_values;
        if (!config_is_windowed(config, layer) && whole == config->layers)
            whole = layer;
    }
    if (config->layer_sizes != NULL && whole < config->layers) {
        struct layer_sizes sizes = config_layer(config, whole);
        add(list, "whole_head_dim", SETTING_COUNT, sizes.head_dim);
        add(list, "whole_kv_heads", SETTING_COUNT, sizes.kv_heads);
    }
    if (shared > 0)
        add(list, "layers_sharing_keys", SETTING_COUNT, shared);
    if (without_values > 0)
        add(list, "layers_with_values_of_keys", SETTING_COUNT, without_values);
    if (wide > 0) {
        add(list, "wide_layers", SETTING_COUNT, wide);
        add(list, "wide_inner", SETTING_COUNT, config_largest(config).inner);
    }
    if (config->layer_input > 0)
        add(list, "layer_input", SETTING_COUNT, config->layer_input);
}

static void add_attention(struct list *list, const struct config *config) {
    const struct query_scaling *scaling = &config->query_scaling;
    double windowed = flags_set(config->is_windowed, config->layers);
    add(list, config->is_chunked ? "chunk" : "window", SETTING_COUNT,
        windowed > 0 ? config->window : 0)
        ->is_usual = windowed == 0;
    if (windowed > 0)
        add(list, config->is_chunked ? "chunked_layers" : "windowed_layers", SETTING_COUNT,
            windowed);
    if (scaling->beta != 0) {
        add(list, "query_growth", SETTING_REAL, scaling->beta);
        add(list, "query_growth_positions", SETTING_REAL, scaling->length);
    }
    if (config->has_plain_head_norm)
        add(list, "qk_norm_without_weights", SETTING_FLAG, true);
    if (config->is_parallel)
        add(list, "parallel", SETTING_FLAG, true);
    if (config->has_layer_norm)
        add(list, "layer_norm", SETTING_FLAG, true);
}

static void add_delta(struct list *list, const struct config *config) {
    const struct delta_shape *shape = &config->delta.shape;
    if (config->has_output_gate)
        add(list, "attention_gate", SETTING_FLAG, true);
    if (shape->key_heads == 0)
        return;
    add(list, "delta_layers", SETTING_COUNT, flags_set(config->delta.is_here, config->layers));
    add(list, "delta_key_heads", SETTING_COUNT, shape->key_heads);
    add(list, "delta_value_heads", SETTING_COUNT, shape->value_heads);
    add(list, "delta_key_dim", SETTING_COUNT, shape->key_dim);
    add(list, "delta_value_dim", SETTING_COUNT, shape->value_dim);
    add(list, "delta_kernel", SETTING_COUNT, shape->kernel);
}

static bool has_in_first_layers(const struct model *model, enum role role) {
    for (uint32_t row = 1; row <= model->config.layers; row++)
        if (model->vectors[(size_t)row * ROLE_COUNT + role] != NULL)
            return true;
    return false;
}

static void add_tensors(struct list *list, const struct model *model) {
    const struct config *config = &model->config;
    add(list, "own_head", SETTING_FLAG, model->has_own_head)->is_usual = true; /* has a line */
    add(list, "qk_norm", SETTING_FLAG, has_in_first_layers(model, ROLE_Q_NORM))->is_usual =
        !has_in_first_layers(model, ROLE_Q_NORM);
    if (has_in_first_layers(model, ROLE_Q_BIAS))
        add(list, "attention_bias", SETTING_FLAG, true);
    if (has_in_first_layers(model, ROLE_O_BIAS))
        add(list, "attention_output_bias", SETTING_FLAG, true);
    if (has_in_first_layers(model, ROLE_UP_BIAS))
        add(list, "mlp_bias", SETTING_FLAG, true);
    if (has_in_first_layers(model, ROLE_SINKS))
        add(list, "sinks", SETTING_FLAG, true);
    if (config->predict_layers > 0)
        add(list, "predict_layers_unused", SETTING_COUNT, config->predict_layers);
    if (model->other_tensors > 0)
        add(list, "other_tensors_unused", SETTING_COUNT, (double)model->other_tensors);
}

/* How the config says that weights are stored; the formats themselves follow from the tensors. */
static void add_hints(struct list *list, const struct quantisation *from) {
    if (from->hint.block_rows > 0) {
        add(list, "scale_block_rows", SETTING_COUNT, from->hint.block_rows);
        add(list, "scale_block_columns", SETTING_COUNT, from->hint.block_columns);
    }
    if (from->hint.group_columns > 0)
        add(list, "scale_group", SETTING_COUNT, from->hint.group_columns);
    if (from->entry_count > 0)
        add(list, "modules_of_their_own_format", SETTING_COUNT, (double)from->entry_count);
}

static void fill(struct list *list, const struct model *model) {
    const struct config *config = &model->config;
    const struct latent *latent = &config->latent;
    bool is_gelu = config->activation == ACTIVATION_GELU_TANH;
    add_usual(list, "inner", config->inner);
    add(list, "norm_eps", SETTING_FLOAT, (double)config->norm_eps);
    add_rope(list, config);
    add_attention(list, config);
    add_layers(list, config);
    add_word(list, "activation", is_gelu ? "gelu_tanh" : "silu");
    add_real(list, "embed_scale", config->embed_scale, 1);
    add_real(list, "residual_scale", config->residual_scale, 1);
    add_real(list, "score_scale", config->score_scale, 1 / sqrt((double)config->head_dim));
    add_real(list, "score_cap", config->score_cap, 0);
    add_real(list, "logit_scale", config->logit_scale, 1);
    add_real(list, "logit_cap", config->logit_cap, 0);
    add_mixture(list, config);
    add_delta(list, config);
    if (latent->kv_rank > 0) {
        add(list, "kv_rank", SETTING_COUNT, latent->kv_rank);
        add(list, "q_rank", SETTING_COUNT, latent->q_rank);
        add(list, "qk_nope", SETTING_COUNT, latent->nope);
        add(list, "qk_rope", SETTING_COUNT, latent->rope);
        add(list, "value_dim", SETTING_COUNT, latent->value);
    }
    add_tensors(list, model);
    add_hints(list, &config->quantisation);
    if (config->samples) {
        add(list, "temperature", SETTING_REAL, config->temperature)->is_usual = true;
        add(list, "top_p", SETTING_REAL, config->top_p)->is_usual = true;
        add_usual(list, "top_k", (double)config->top_k);
    }
}

static void value_text(const struct setting *setting, struct buf *out) {
    if (setting->kind == SETTING_WORD)
        buf_add(out, str_from(setting->word));
    else if (setting->kind == SETTING_FLAG)
        buf_add(out, setting->number != 0 ? STR("yes") : STR("no"));
    else
        buf_printf(out, "%.7g", setting->number);
}

void show_settings_text(const struct model *model, struct buf *out) {
    static const char indent[] = "            ";
    struct list list = {.count = 0};
    size_t line = out->len;
    bool is_first = true;
    struct buf one;
    fill(&list, model);
    buf_init(&one);
    buf_add(out, STR("settings    "));
    for (size_t i = 0; i < list.count; i++) {
        const struct setting *setting = &list.settings[i];
        if (setting->is_usual)
            continue;
        buf_clear(&one);
        buf_printf(&one, "%s ", setting->name);
        value_text(setting, &one);
        if (!is_first)
            buf_add_char(out, ',');
        if (!is_first && out->len - line + one.len > TEXT_COLUMNS) {
            buf_add_char(out, '\n');
            line = out->len;
            buf_add(out, str_from(indent));
        } else if (!is_first) {
            buf_add_char(out, ' ');
        }
        buf_add(out, buf_str(&one));
        is_first = false;
    }
    buf_add_char(out, '\n');
    buf_release(&one);
}

void show_settings_json(const struct model *model, struct buf *out) {
    struct list list = {.count = 0};
    fill(&list, model);
    buf_add(out, STR("\"settings\": {"));
    for (size_t i = 0; i < list.count; i++) {
        const struct setting *setting = &list.settings[i];
        buf_printf(out, "%s\"%s\": ", i > 0 ? ", " : "", setting->name);
        if (setting->kind == SETTING_WORD)
            json_add_string(out, str_from(setting->word));
        else if (setting->kind == SETTING_FLAG)
            buf_add(out, setting->number != 0 ? STR("true") : STR("false"));
        else if (setting->kind == SETTING_COUNT)
            buf_printf(out, "%.0f", setting->number);
        else if (setting->kind == SETTING_FLOAT)
            json_add_float(out, (float)setting->number);
        else
            json_add_double(out, setting->number);
    }
    buf_add_char(out, '}');
}
