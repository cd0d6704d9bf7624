/* What an arch computes with: memory of a pass, rope tables, and the cursor over the layout;
 * vectors and embeddings have files of their own. Allocates in step_new alone.
 *
 * The cursor, and what always holds between two calls:
 *  1. Blocks are acquired in the layout's order, pass after pass, but for those of experts without
 *     tokens and of a head that no token needs, which count as acquired: the next one is acquired %
 *     block_count.
 *  2. hinted >= acquired, and hinted - acquired <= block_count: nothing is hinted twice for one
 *     pass. The provider may refuse a hint; it is then offered again after the next release. Hints
 *     end before the experts of a layer that is not routed yet, and before the head of the next
 *     pass: what comes after them could not be acquired in the order hinted.
 *  3. At most one lease is held; it covers the piece used last. It goes back before the next block
 *     is acquired, after which the freed memory is hinted again, so that reads go on while we
 *     compute, over layer borders and the border of two passes.
 *  4. should_stop is asked at every block, resident or streamed: a signal ends the pass within one.
 */
#include "model/step.h"

#include "base/num.h"
#include "model/rope.h"

#include <math.h>

/* Activations of a step and their sizes: one row each, so that step_new and step_bytes agree. */
struct step_act {
    struct act *act;
    size_t features, tokens;
};
#define STEP_ACTS 38
#define ACT_SLACK_BYTES 128 /* what act_init takes for the alignment */

static size_t step_window_pairs(const struct config *config) {
    return config->has_window_rope ? config->window_rope.rotary / 2 : 0;
}

/* Of a layer's keys, at most. */
static size_t step_key_features(const struct config *config) {
    size_t most = 0;
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        struct layer_sizes sizes = config_layer(config, layer);
        size_t key = (size_t)sizes.kv_heads * sizes.head_dim;
        most = key > most ? key : most;
    }
    return most;
}

/* Between the matrices of a plain MLP, at most; layers of experts have none. */
static size_t step_plain_features(const struct config *config) {
    size_t most = 0;
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        size_t inner = config_layer(config, layer).inner;
        most = !config_is_mixture(config, layer) && inner > most ? inner : most;
    }
    return most;
}

/* Whether any layer has a matrix of that role. */
static bool step_has(const struct model *model, enum role role) {
    for (uint32_t layer = 0; layer < model->config.layers; layer++)
        if (model_matrix(model, layer, role) != NULL)
            return true;
    return false;
}

/* Features of a gated delta network's projections. Layers have one form of each or the other: what
 * one matrix gives lies together. */
struct step_delta {
    size_t in, z, b, a, out;
};

static struct step_delta step_delta_features(const struct model *model) {
    const struct delta_shape *shape = &model->config.delta.shape;
    size_t heads = shape->value_heads, values = heads * shape->value_dim;
    bool has_z_apart = step_has(model, ROLE_DELTA_Z), has_a_apart = step_has(model, ROLE_DELTA_A);
    return (struct step_delta){
        .in = delta_channels(shape) + (step_has(model, ROLE_DELTA_QKVZ) ? values : 0),
        .z = has_z_apart ? values : 0,
        .b = step_has(model, ROLE_DELTA_BA) ? 2 * heads : heads,
        .a = has_a_apart ? heads : 0,
        .out = values,
    };
}

static void step_acts(struct step *step, const struct model *model, size_t tokens, size_t logits,
                      struct step_act list[STEP_ACTS]) {
    const struct config *config = &model->config;
    const struct mixture *mixture = &config->mixture;
    const struct latent *latent = &config->latent;
    const struct layer_sizes most = config_largest(config);
    size_t heads = config->heads, query = heads * most.head_dim;
    size_t key = step_key_features(config), value = key, out = query;
    size_t expert = mixture->inner > mixture->shared_inner ? mixture->inner : mixture->shared_inner;
    size_t wide = 0, part = 0;
    if (latent->kv_rank != 0) {
        key = wide = latent->kv_rank + latent->rope;
        value = 0;
        out = heads * latent->value;
        part = heads * latent->rope > latent->kv_rank ? heads * latent->rope : latent->kv_rank;
        part = part > latent->nope ? part : latent->nope;
    }
    size_t inner = step_plain_features(config);
    size_t pairs = config->rope.rotary / 2, window_pairs = step_window_pairs(config);
    size_t window_tokens = config->has_window_rope ? tokens : 0, input = config->layer_input;
    bool sums_apart = mixture->count != 0 && mixture->is_normalised;
    size_t gated = config->has_output_gate ? query : 0;
    const struct step_delta delta = step_delta_features(model);
    const struct step_act acts[] = {
        {&step->h, config->hidden, tokens},
        {&step->x, config->hidden, tokens},
        {&step->y, config->hidden, tokens},
        {&step->q, query, tokens},
        {&step->k, key, tokens},
        {&step->v, value, tokens},
        {&step->a, out, tokens},
        {&step->gate, inner, tokens},
        {&step->up, inner, tokens},
        {&step->picked, config->hidden, logits},
        {&step->logits, config->vocabulary, logits},
        {&step->router, mixture->count, tokens},
        {&step->expert_x, mixture->count != 0 ? config->hidden : 0, tokens},
        {&step->expert_y, mixture->count != 0 ? config->hidden : 0, tokens},
        {&step->expert_gate, mixture->count != 0 ? expert : 0, tokens},
        {&step->expert_up, mixture->count != 0 ? expert : 0, tokens},
        {&step->expert_both, mixture->fuses_gate_up ? 2 * (size_t)mixture->inner : 0, tokens},
        {&step->low_q, latent->q_rank, tokens},
        {&step->low_kv, latent->kv_rank, tokens},
        {&step->low_key, latent->rope, tokens},
        {&step->wide_q, heads * wide, tokens},
        {&step->wide_a, wide != 0 ? heads * latent->kv_rank : 0, tokens},
        {&step->gated_q, 2 * gated, tokens},
        {&step->attend_gate, gated, tokens},
        {&step->delta_in, delta.in, tokens},
        {&step->delta_z, delta.z, tokens},
        {&step->delta_b, delta.b, tokens},
        {&step->delta_a, delta.a, tokens},
        {&step->delta_out, delta.out, tokens},
        {&step->part, part, tokens},
        {&step->rope.cosines, pairs, tokens},
        {&step->rope.sines, pairs, tokens},
        {&step->window_rope.cosines, window_pairs, window_tokens},
        {&step->window_rope.sines, window_pairs, window_tokens},
        {&step->inputs, config->layers * input, tokens},
        {&step->input, input, tokens},
        {&step->input_gate, input, tokens},
        {&step->sum, sums_apart ? config->hidden : 0, tokens},
    };
    _Static_assert(sizeof acts / sizeof acts[0] == STEP_ACTS, "one place for each");
    for (size_t i = 0; i < STEP_ACTS; i++)
        list[i] = acts[i];
}

/* Places the arrays of routing and scratch in memory, if it is not NULL; gives the bytes. */
static size_t step_place(struct step *step, const struct config *config, size_t tokens,
                         uint8_t *memory) {
    const struct mixture *mixture = &config->mixture;
    size_t experts = mixture->count, used = mixture->used, inputs = config->latent.nope, bias = 0;
    if (mixture->fuses_gate_up) {
        inputs = config->hidden > mixture->inner ? config->hidden : mixture->inner;
        bias = config->hidden > 2 * mixture->inner ? config->hidden : 2 * (size_t)mixture->inner;
    }
    size_t gathered = experts != 0 ? tokens : 0, at = 0;
    size_t scaled = config->query_scaling.beta != 0 ? tokens : 0;
    const size_t counts[] = {SL_CHAIN * inputs, bias,     tokens * used, tokens * used, experts,
                             gathered,          gathered, 3 * experts,   scaled};
    enum { ARRAYS = sizeof counts / sizeof counts[0] };
    void *arrays[ARRAYS];
    for (size_t i = 0; i < ARRAYS; i++) {
        arrays[i] = memory != NULL ? memory + at : NULL;
        at += counts[i] * sizeof(float);
    }
    step->columns = arrays[0];
    step->bias = arrays[1];
    step->token_experts = arrays[2];
    step->token_weights = arrays[3];
    step->expert_tokens = arrays[4];
    step->gather_columns = arrays[5];
    step->gather_weights = arrays[6];
    step->route_scratch = arrays[7];
    step->query_factors = arrays[8];
    return at;
}

static size_t step_embed_row_bytes(const struct model *model) {
    return matrix_gather_row_bytes(model_matrix(model, 0, ROLE_EMBED));
}

static size_t step_input_row_bytes(const struct model *model) {
    const struct matrix *matrix = model_matrix(model, 0, ROLE_INPUTS_EMBED);
    return matrix != NULL ? matrix_gather_row_bytes(matrix) : 0;
}

static size_t step_frequencies(const struct config *config) {
    return 2 * (size_t)(config->rope.rotary / 2) + step_window_pairs(config);
}

uint64_t step_bytes(const struct model *model, size_t tokens_max, size_t logits_max) {
    struct step step = {0};
    struct step_act acts[STEP_ACTS];
    uint64_t sum = sizeof step;
    step_acts(&step, model, tokens_max, logits_max, acts);
    for (size_t i = 0; i < STEP_ACTS; i++)
        sum += act_floats(acts[i].features, acts[i].tokens) * sizeof(float) + ACT_SLACK_BYTES;
    sum += step_place(&step, &model->config, tokens_max, NULL);
    sum += ((uint64_t)model->config.layers + 1) * ROLE_COUNT * sizeof *step.vectors;
    sum += step_vector_values(model) * sizeof(float);
    sum += (uint64_t)tokens_max * (step_embed_row_bytes(model) + step_input_row_bytes(model));
    return sum + step_frequencies(&model->config) * sizeof(float);
}

size_t step_product_features(const struct model *model) {
    struct step step = {0};
    struct step_act acts[STEP_ACTS];
    /* What no product reads may be far wider. */
    const struct act *const others[] = {&step.logits,      &step.wide_q,  &step.wide_a,
                                        &step.expert_both, &step.gated_q, &step.delta_in,
                                        &step.inputs};
    size_t most = 0;
    step_acts(&step, model, 1, 1, acts);
    for (size_t i = 0; i < STEP_ACTS; i++) {
        bool is_input = true;
        for (size_t j = 0; j < sizeof others / sizeof *others; j++)
            is_input = is_input && acts[i].act != others[j];
        if (is_input && acts[i].features > most)
            most = acts[i].features;
    }
    return most;
}

/* Divisors of the rotary frequencies come from the file: angles must stay in the range of sines. */
static enum status step_check_factors(const struct step *step, enum role role, struct error *err) {
    const float *factors = step_vector(step, 0, role);
    for (uint32_t i = 0; factors != NULL && i < step->config->rope.rotary / 2; i++)
        if (!(factors[i] >= 0.5f && factors[i] <= 1e30f)) /* llama.cpp's word for no rotation */
            return error_set(err, SL_ERR_ENV, "%s: value %u of %s is %g, must be 0.5 to 1e30",
                             step->model->path, i, role_get(role)->gguf, (double)factors[i]);
    return SL_OK;
}

/* Frequencies divided by longrope's factors, which the config or tensors of the file hold. */
static void step_divide(const struct rope_config *rope, const double *factors, const float *tensor,
                        float *frequencies) {
    rope_frequencies(rope, tensor, frequencies);
    for (uint32_t i = 0; factors != NULL && i < rope->rotary / 2; i++)
        frequencies[i] = (float)((double)frequencies[i] / factors[i]);
}

static enum status step_fill_frequencies(struct step *step, struct error *err) {
    const struct config *config = step->config;
    const struct rope_config *rope = &config->rope;
    float *frequencies = step->inverse_frequencies;
    TRY(step_check_factors(step, ROLE_ROPE_FACTORS, err));
    TRY(step_check_factors(step, ROLE_ROPE_LONG, err));
    TRY(step_check_factors(step, ROLE_ROPE_SHORT, err));
    step->rope.is_interleaved = step->window_rope.is_interleaved = rope->is_interleaved;
    rope_frequencies(rope, step_vector(step, 0, ROLE_ROPE_FACTORS), frequencies);
    if (rope->kind == ROPE_LONGROPE) {
        step_divide(rope, rope->short_factors, step_vector(step, 0, ROLE_ROPE_SHORT), frequencies);
        step_divide(rope, rope->long_factors, step_vector(step, 0, ROLE_ROPE_LONG),
                    frequencies + rope->rotary / 2);
    }
    if (config->has_window_rope)
        rope_frequencies(&config->window_rope, NULL, frequencies + 2 * (rope->rotary / 2));
    return SL_OK;
}

/* A layer's part of the rows must be whole blocks of their format. */
static enum status step_check_inputs(const struct step *step, struct error *err) {
    const struct matrix *matrix = model_matrix(step->model, 0, ROLE_INPUTS_EMBED);
    if (matrix == NULL)
        return SL_OK;
    const struct dtype_info *info = dtype_get(matrix->dtype);
    if (step->config->layer_input % info->block_values == 0)
        return SL_OK;
    return error_set(err, SL_ERR_ENV,
                     "%s: inputs of %u features for each layer are not whole blocks of type %s",
                     step->model->path, step->config->layer_input, info->name);
}

static enum status step_fill(struct step *step, const struct step_options *options,
                             struct error *err) {
    const struct model *model = options->model;
    const struct config *config = &model->config;
    struct step_act acts[STEP_ACTS];
    size_t rows = ((size_t)config->layers + 1) * ROLE_COUNT, bytes;
    size_t values = step_vector_values(model);
    step_acts(step, model, options->tokens_max, options->logits_max, acts);
    for (size_t i = 0; i < STEP_ACTS; i++)
        TRY(act_init(acts[i].act, acts[i].features, acts[i].tokens, err));
    step->place = mem_new(step_place(step, config, options->tokens_max, NULL), 1);
    if (step->place == NULL)
        return error_memory(err, step_place(step, config, options->tokens_max, NULL),
                            "the routing of a pass");
    step_place(step, config, options->tokens_max, step->place);
    step->vectors = mem_new(rows, sizeof *step->vectors);
    step->vector_values = mem_new(values, sizeof(float));
    step->inverse_frequencies = mem_new(step_frequencies(config), sizeof(float));
    step->embed_row_bytes = step_embed_row_bytes(model);
    step->input_row_bytes = step_input_row_bytes(model);
    bool fits = size_mul(step->embed_row_bytes, options->tokens_max, &bytes);
    step->embed_rows = fits ? mem_new(bytes, 1) : NULL;
    fits = size_mul(step->input_row_bytes, options->tokens_max, &bytes);
    step->input_rows = fits ? mem_new(bytes, 1) : NULL;
    if (step->vectors == NULL || step->vector_values == NULL || step->inverse_frequencies == NULL ||
        step->embed_rows == NULL || step->input_rows == NULL)
        return error_memory(err, values * sizeof(float), "norms, biases and embeddings of a pass");
    TRY(step_check_inputs(step, err));
    TRY(step_read_vectors(step, err));
    return step_fill_frequencies(step, err);
}

enum status step_new(const struct step_options *options, struct step **out, struct error *err) {
    must(options->tokens_max >= 1);
    must(options->logits_max >= 1);
    struct step *step = mem_new(1, sizeof *step);
    if (step == NULL)
        return error_memory(err, sizeof *step, "a step");
    step->model = options->model;
    step->config = &options->model->config;
    step->backend = options->backend;
    step->provider = options->provider;
    enum status status = step_fill(step, options, err);
    if (status != SL_OK) {
        step_free(step);
        return status;
    }
    *out = step;
    return SL_OK;
}

static void step_release_lease(struct step *step) {
    if (step->has_lease)
        step->provider->ops->release(step->provider, &step->lease);
    step->has_lease = false;
}

void step_free(struct step *step) {
    if (step == NULL)
        return;
    step_release_lease(step);
    struct step_act acts[STEP_ACTS];
    step_acts(step, step->model, 0, 0, acts);
    for (size_t i = 0; i < STEP_ACTS; i++)
        act_release(acts[i].act);
    mem_free(step->place);
    mem_free(step->vectors);
    mem_free(step->vector_values);
    mem_free(step->inverse_frequencies);
    mem_free(step->embed_rows);
    mem_free(step->input_rows);
    mem_free(step);
}

/* Whether a block, counted over passes, will be acquired. What an expert has is wanted when the
 * pass has tokens for it, and that is known once its layer was routed; the head is wanted when a
 * token needs logits, which is known once the pass has begun. */
enum step_want { WANT_YES, WANT_NO, WANT_UNKNOWN };

static enum step_want step_wants(const struct step *step, size_t position) {
    const struct layout *layout = step->provider->layout;
    const struct block *block = &layout->blocks[position % layout->block_count];
    uint32_t key = layout->pieces[block->first_piece].key;
    bool is_of_this_pass = position / layout->block_count + 1 == step->passes;
    if (role_of_key(key) == ROLE_HEAD)
        return !is_of_this_pass ? WANT_UNKNOWN : step->logit_count > 0 ? WANT_YES : WANT_NO;
    if (!role_is_expert(role_of_key(key)))
        return WANT_YES;
    if (!is_of_this_pass || role_layer_of_key(key) != step->routed_layer)
        return WANT_UNKNOWN;
    return step->expert_tokens[role_expert_of_key(key)] > 0 ? WANT_YES : WANT_NO;
}

void step_hint(struct step *step) {
    size_t blocks = step->provider->layout->block_count;
    size_t limit = step->acquired + blocks;
    if (step->is_last_pass && limit > step->passes * blocks)
        limit = step->passes * blocks;
    for (; step->hinted < limit; step->hinted++) {
        enum step_want want = step_wants(step, step->hinted);
        if (want == WANT_UNKNOWN)
            return;
        if (want == WANT_YES && !step->provider->ops->hint(step->provider, step->hinted % blocks))
            return;
    }
}

static void step_fill_ropes(struct step *step) {
    const struct rope_config *rope = &step->config->rope;
    size_t pairs = rope->rotary / 2;
    struct rope_source source = {
        .frequencies = step->inverse_frequencies,
        .long_frequencies = rope->kind == ROPE_LONGROPE ? step->inverse_frequencies + pairs : NULL,
        .original = rope->original_context,
        .attention_factor = rope->attention_factor,
        .pairs = pairs,
    };
    struct team *team = step->backend->team;
    rope_fill(&step->rope, &source, step->kv_tokens, step->tokens, team);
    if (!step->config->has_window_rope)
        return;
    source = (struct rope_source){
        .frequencies = step->inverse_frequencies + 2 * pairs,
        .attention_factor = step->config->window_rope.attention_factor,
        .pairs = step_window_pairs(step->config),
    };
    rope_fill(&step->window_rope, &source, step->kv_tokens, step->tokens, team);
}

/* In double, rounded once. */
static void step_fill_query_factors(struct step *step) {
    const struct query_scaling *scaling = &step->config->query_scaling;
    for (size_t token = 0; scaling->beta != 0 && token < step->tokens; token++) {
        double position = (double)step->kv_tokens[token].position + scaling->offset;
        double steps = floor(position / scaling->length);
        step->query_factors[token] = (float)(1.0 + scaling->beta * num_log(1.0 + steps));
    }
}

enum status step_begin(struct step *step, struct error *err) {
    struct step_act acts[STEP_ACTS];
    must(step->tokens >= 1);
    must(!step->has_lease);
    must(step->acquired == step->passes * step->provider->layout->block_count);
    (void)err;
    step->piece = 0;
    step->passes++;
    step->routed_layer = UINT32_MAX;
    step_hint(step);
    step_acts(step, step->model, step->tokens, step->logit_count, acts);
    for (size_t i = 0; i < STEP_ACTS; i++)
        act_shape(acts[i].act, acts[i].features, acts[i].tokens);
    step_fill_ropes(step);
    step_fill_query_factors(step);
    return SL_OK;
}

void step_scale_queries(struct step *step, uint32_t layer) {
    const struct query_scaling *scaling = &step->config->query_scaling;
    if (scaling->beta == 0 || (scaling->skips_rotated && step_rope(step, layer) != NULL))
        return;
    step->backend->ops->scale_tokens(step->backend, step->query_factors, &step->q);
}

const struct rope_table *step_rope(const struct step *step, uint32_t layer) {
    const struct config *config = step->config;
    if (config->skips_rope != NULL && config->skips_rope[layer])
        return NULL;
    bool is_windowed = config->is_windowed != NULL && config->is_windowed[layer];
    return config->has_window_rope && is_windowed ? &step->window_rope : &step->rope;
}

/* Passes over the blocks that this pass has no use for, up to `end`. */
static void step_skip(struct step *step, size_t end) {
    while (step->acquired < end && step_wants(step, step->acquired) == WANT_NO)
        step->acquired++;
    if (step->hinted < step->acquired)
        step->hinted = step->acquired;
}

/* Makes the block of the next piece the leased one. */
static enum status step_next_block(struct step *step, struct error *err) {
    struct provider *provider = step->provider;
    const struct layout *layout = provider->layout;
    step_release_lease(step);
    if (provider->should_stop != NULL && provider->should_stop())
        return error_set(err, SL_ERR_STOPPED, "stopped between two blocks");
    step_skip(step, step->passes * layout->block_count);
    must(step->acquired < step->passes * layout->block_count);
    must(step_wants(step, step->acquired) == WANT_YES);
    size_t next = step->acquired % layout->block_count;
    step_hint(step);
    TRY(provider->ops->acquire(provider, next, &step->lease, err));
    step->has_lease = true;
    step->piece = layout->blocks[next].first_piece;
    step->used_bytes += step->lease.read_bytes;
    step->acquired++;
    if (step->hinted < step->acquired) /* the acquire itself was the hint */
        step->hinted = step->acquired;
    return SL_OK;
}

/* The next piece, which must be of that matrix, in memory. */
static enum status step_next_piece(struct step *step, uint32_t key, const struct piece **piece,
                                   struct error *err) {
    const struct layout *layout = step->provider->layout;
    const struct block *block = &layout->blocks[step->lease.block];
    if (!step->has_lease || step->piece == block->first_piece + block->piece_count)
        TRY(step_next_block(step, err));
    *piece = &layout->pieces[step->piece++];
    must((*piece)->key == key);
    return SL_OK;
}

enum status step_expert_product(struct step *step, uint32_t layer, uint32_t expert, enum role role,
                                const struct act *x, struct act *y, struct error *err) {
    const struct layout *layout = step->provider->layout;
    const struct piece *piece;
    do {
        TRY(step_next_piece(step, role_key(layer, expert, role), &piece, err));
        struct view view = lease_view(&step->lease, piece);
        if (x->tokens > 0)
            step->backend->ops->product(step->backend, &view, x, y, piece->first_row);
    } while (step->piece < layout->piece_count && layout->pieces[step->piece].item == piece->item);
    return SL_OK;
}

enum status step_product(struct step *step, uint32_t layer, enum role role, const struct act *x,
                         struct act *y, struct error *err) {
    return step_expert_product(step, layer, 0, role, x, y, err);
}

enum status step_whole(struct step *step, uint32_t layer, uint32_t expert, enum role role,
                       struct view *view, struct error *err) {
    const struct piece *piece;
    TRY(step_next_piece(step, role_key(layer, expert, role), &piece, err));
    *view = lease_view(&step->lease, piece);
    return SL_OK;
}

void step_end(struct step *step) {
    const struct layout *layout = step->provider->layout;
    const struct block *block = &layout->blocks[step->lease.block];
    must(step->has_lease);
    must(step->piece == block->first_piece + block->piece_count);
    step_release_lease(step);
    step_skip(step, step->passes * layout->block_count);
    must(step->acquired == step->passes * layout->block_count);
    step_hint(step);
}

void step_abandon(struct step *step) {
    step_release_lease(step);
}
