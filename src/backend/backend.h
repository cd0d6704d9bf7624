/* Backends: the arithmetic of a pass behind one table.
 *
 * Numbers (DESIGN section 3), promised by kernel set `portable` on every instruction set, bit for
 * bit:
 *  - product: y[n] = sum over k of W[n,k] x[k]. Each output is a chain of fused multiply-adds in
 * the order of k, cut into blocks of 256 (SL_CHAIN); a block's chain starts at zero, and the
 * blocks' sums are added in order, all in float32. Weights are what dtype_info.decode gives. Rows,
 * tokens, threads and tiles do not matter.
 *  - sums of squares, scores (over head_dim): the same chains.
 *  - attention: per token and head an online softmax over the pages in order. score = scale times
 * the chain of query times key. Per page: m' = the largest of m and its scores (NaN is passed
 * over), c = exp(m - m') if m' > m, else 1; the output times c; p = exp(score - m') for each
 * position that is seen, 0 for other slots of the page; sum[slot] = fma(sum[slot], c, p) for each
 * of the 16 slots; output = fma(p, value, output) in the order of positions. At the end the 16 sums
 * are added in order, and the output is divided by that.
 *  - rms_norm: inverse = 1 / sqrt(sum / group + eps); y = weight * (x * inverse). The sum that
 * centre takes the mean of: blocks of 256 features, each added up from zero in order, and then
 * those sums.
 *  - rope: (a, b) becomes fma(a, cos, -(b * sin)), fma(b, cos, a * sin).
 *  - a cap of scores: score = cap tanh(score / cap), after the scale.
 *  - exp, sigmoid, tanh, gelu: base/num.h.
 *  - a gated delta network (Yang et al. 2024), token by token of a row, all in float32.
 * Convolution: the chain over its taps, oldest first, of weight times input (zeros before the row),
 * then SiLU. Sums of squares over a head, of q, k and the output: 16 chains, chain i over features
 * i, i + 16,
 * ..., added in order. q and k: x times 1 / sqrt(sum + 1e-6); q then times 1 / sqrt(key_dim). With
 * c = exp(rate log(1 + exp(a + bias))), the logarithm in double: read[v] = c times the chain over d
 * of S[d, v] k[d]; change[v] = (value[v] - read[v]) sigmoid(b); S[d, v] = fma(k[d], change[v],
 * c S[d, v]); out[v] = the chain over d of q[d] S[d, v]. Then weight[v] (out[v] / sqrt(sum /
 * value_dim + eps)) silu(z[v]). These chains are not cut.
 * Outputs are shared out whole among threads; nothing is reduced across threads.
 *
 * Kernel sets `avx512bf16` and `amx` multiply in bf16 and have bits of their own; all but products
 * is as above. In both, weights and activations are rounded to bf16 first, to nearest even, NaN to
 * a quiet NaN (weights published as bf16 stay as they are). Subnormal numbers count as zeros of
 * their sign, before that rounding and as factors and summands. fma() and sum() below are in
 * float32, to nearest even, and a result that is below 2^-126 after rounding with any exponent
 * becomes a zero of its sign (as x86 flushes). Missing columns are pairs of zeros.
 *  - avx512bf16: the blocks of 256 columns of `portable`, added in order by ordinary float32
 * additions. The chain of a block starts at zero and goes by pairs of columns (2i, 2i + 1), the odd
 * one first: chain = fma(w[2i], x[2i], fma(w[2i + 1], x[2i + 1], chain)). AMD's and Intel's
 * vdpbf16ps do exactly this, whatever the rounding mode is.
 *  - amx: y starts at zero and goes by steps of 32 columns. even and odd start at zero; for each
 * pair in order even = fma(w[2i], x[2i], even) and odd = fma(w[2i + 1], x[2i + 1], odd); then
 * y = sum(y, sum(even, odd)). Intel's tdpbf16ps does exactly this.
 *
 * Thread rule: one thread calls; the backend uses its team. Nothing is allocated in a call. */
#ifndef SLUICE_BACKEND_BACKEND_H
#define SLUICE_BACKEND_BACKEND_H

#include "backend/act.h"
#include "backend/kv_view.h"
#include "base/team.h"
#include "tensor/view.h"

#define SL_CHAIN ((size_t)256)

struct backend;

/* Rotary embedding of one layer kind: cosines and sines [rotary / 2, tokens] of this pass. */
struct rope_table {
    struct act cosines, sines;
    bool is_interleaved; /* pairs (2i, 2i+1), as GGUF's llama has them; else (i, i + rotary / 2) */
};

struct attention_args {
    const struct kv_layer *kv;
    const struct kv_token *tokens; /* one for each token of the pass */
    uint32_t heads;     /* query heads; heads / kv_heads share a key/value head, in order */
    float scale;        /* of the scores */
    float cap;          /* scores become cap tanh(score / cap); 0: they stay */
    uint32_t window;    /* keys with position > query - window; 0: all */
    bool is_chunked;    /* instead: keys of the query's own chunk of `window` positions */
    const float *sinks; /* [heads]: a logit of no position that takes its share; NULL: none */
};

/* The oldest position that a token sees. */
static inline size_t attention_oldest(const struct attention_args *args, size_t token) {
    size_t position = args->tokens[token].position, window = args->window;
    if (window != 0 && args->is_chunked)
        return position / window * window;
    return window != 0 && position >= window ? position - window + 1 : 0;
}

/* Where a gated delta network's input lies: the part of key head g begins at feature
 * first + g x step, and the value heads that go with it follow each other there. */
struct delta_place {
    const struct act *act;
    size_t first, step;
};

/* What a layer keeps of a row instead of pages, in float32: the inputs of the convolution at the
 * last `kernel` - 1 positions, oldest first [kernel - 1, channels], and for each value head the
 * matrix S by blocks of features of the value (delta_state_floats has the sum). channels: q of all
 * key heads, then k, then v of all value heads. Of a row's first token the state is not read. */
struct delta_shape {
    uint32_t key_heads, value_heads; /* the latter a multiple of the former */
    uint32_t key_dim, value_dim;     /* 1 to SL_DELTA_DIM_MAX */
    uint32_t kernel;                 /* taps of the convolution, 1 to SL_DELTA_KERNEL_MAX */
    bool is_tiled; /* value head v goes with key head v % key_heads; else with v x key_heads /
                      value_heads */
};
#define SL_DELTA_DIM_MAX 256u
#define SL_DELTA_KERNEL_MAX 8u

static inline size_t delta_channels(const struct delta_shape *shape) {
    return 2 * (size_t)shape->key_heads * shape->key_dim +
           (size_t)shape->value_heads * shape->value_dim;
}

/* Floats of S of one head: the value's features are made whole tiles of 16, and those past
 * value_dim influence nothing. */
static inline size_t delta_head_floats(const struct delta_shape *shape) {
    return act_tiles(shape->value_dim) * SL_LANES * shape->key_dim;
}

static inline size_t delta_tail_floats(const struct delta_shape *shape) {
    return act_tiles((shape->kernel - 1) * delta_channels(shape)) * SL_LANES;
}

/* Floats that a layer keeps of a row. */
static inline size_t delta_state_floats(const struct delta_shape *shape) {
    return delta_tail_floats(shape) + shape->value_heads * delta_head_floats(shape);
}

struct delta_args {
    struct delta_shape shape;
    uint8_t *states;    /* of slot 0, aligned to 64 */
    size_t state_bytes; /* from one slot to the next, a multiple of 64 */
    const struct kv_token *tokens;
    const struct kv_run *runs; /* all tokens of the pass; a row comes once */
    size_t run_count;
    struct delta_place q, k, v, z, a, b;
    const float *taps; /* [kernel, channels], oldest first */
    const float *rate; /* [value_heads], negative */
    const float *bias; /* [value_heads] */
    const float *norm; /* [value_dim] */
    float eps;
};

/* Features of an act that go to those of another: to + i gets from + i x step. */
struct feature_range {
    size_t from, step, to, count;
};

struct backend_ops {
    const char *name; /* "cpu" */
    /* y[first_row + r, t] = sum over k of w[r, k] x[k, t]. x.features == w.columns; y has the
     * tokens of x. */
    void (*product)(struct backend *backend, const struct view *w, const struct act *x,
                    struct act *y, size_t first_row);
    /* y[f, t] = value first + f of row t (rows.rows == tokens): embeddings from gathered rows, or a
     * part of them, times scale. first: a multiple of the format's block. */
    void (*embed)(struct backend *backend, const struct view *rows, size_t first, float scale,
                  struct act *y);
    /* y = x / sqrt(mean(x^2) + eps) * weight over groups of `group` features, each normalised by
     * itself (group == features: a plain RMS norm; head_dim: q/k norms); weight has `group` values.
     * weight NULL: all are 1. y may be x. */
    void (*rms_norm)(struct backend *backend, const struct act *x, const float *weight,
                     size_t group, float eps, struct act *y);
    /* y[f, t] -= the mean of y[0 .., t]: what a layer norm does before it is an RMS norm. */
    void (*centre)(struct backend *backend, struct act *y);
    void (*add)(struct backend *backend, const struct act *x, struct act *y); /* y += x */
    void (*add_bias)(struct backend *backend, const float *bias,
                     struct act *y); /* y[f] += bias[f] */
    void (*silu_mul)(struct backend *backend, const struct act *gate,
                     struct act *up); /* up *= silu(gate) */
    void (*gelu_mul)(struct backend *backend, const struct act *gate,
                     struct act *up); /* up *= gelu(gate), in its tanh form */
    void (*sigmoid_mul)(struct backend *backend, const struct act *gate,
                        struct act *up); /* up *= sigmoid(gate) */
    /* y *= scale; then y = cap tanh(y / cap) unless cap is 0. */
    void (*scale)(struct backend *backend, float scale, float cap, struct act *y);
    /* y[f, t] *= factors[t]: a factor for each token. */
    void (*scale_tokens)(struct backend *backend, const float *factors, struct act *y);
    /* up = (clip(up, -limit, limit) + 1) * gate' * sigmoid(alpha * gate'), gate' = min(gate,
     * limit): gpt-oss's activation. */
    void (*swiglu_clipped)(struct backend *backend, const struct act *gate, float alpha,
                           float limit, struct act *up);
    /* Rotates the first `rotary` features of each head of x in place (heads x head_dim features).
     */
    void (*rope)(struct backend *backend, const struct rope_table *table, size_t heads,
                 size_t head_dim, struct act *x);
    /* Writes keys and values of every token of the pass into its page (keys alone where they serve
     * as values; v is not looked at then). */
    void (*kv_write)(struct backend *backend, const struct kv_layer *kv,
                     const struct kv_token *tokens, const struct act *k, const struct act *v);
    /* out[heads x value_dim, t] for every token, over the positions 0 .. its own (all in the KV
     * already). */
    void (*attention)(struct backend *backend, const struct attention_args *args,
                      const struct act *q, struct act *out);
    /* out[value_heads x value_dim, t] of a gated delta network for every token, and the states of
     * the rows brought up to date. */
    void (*delta)(struct backend *backend, const struct delta_args *args, struct act *out);
    /* y[:, i] = x[:, columns[i]] for i < count: the tokens that need logits. */
    void (*select)(struct backend *backend, const struct act *x, const uint32_t *columns,
                   size_t count, struct act *y);
    /* y[:, columns[i]] += weights[i] * x[:, i] for every token i of x; no column twice. */
    void (*scatter_add)(struct backend *backend, const struct act *x, const uint32_t *columns,
                        const float *weights, struct act *y);
    /* y[to + i] = x[from + i x step], for all tokens. */
    void (*copy)(struct backend *backend, const struct act *x, const struct feature_range *range,
                 struct act *y);
    /* out[c, k] = w[k, first + c], decoded, for c < count; first: a multiple of 256, count: so too,
     * unless the columns end there. So a matrix published as [in, out] becomes rows of outputs. */
    void (*columns)(struct backend *backend, const struct view *w, size_t first, size_t count,
                    float *out);
    /* The index of the largest value of column t of x for every token; ties to the lowest; NaN is
     * never chosen (all NaN: 0). */
    void (*argmax)(struct backend *backend, const struct act *x, uint32_t *out);
    void (*free)(struct backend *backend);
};

struct backend {
    const struct backend_ops *ops;
    const char *kernels; /* the kernel set as plan and summary name it: "portable" .. */
    const char *isa;     /* what its products run on: "scalar", "avx512", "amx" .. */
    struct team *team;   /* borrowed */
};

struct backend_options {
    const char *kernels; /* "portable", "avx512bf16", "amx"; NULL: "portable" */
    const char *isa;     /* NULL: the best; "avx2", "avx512", "neon": of `portable`, with the
                            same bits; "scalar": of any kernel set, the reference */
    struct team *team;
    size_t features, tokens; /* the largest activations of a product; `portable` needs neither */
};

/* A kernel set: sums of one order, whatever instructions compute them. */
struct backend_set {
    const char *name;           /* of backend_options.kernels */
    bool (*is_available)(void); /* whether this processor has what it needs; NULL: not in this
                                   build */
};
/* Every set that the contract names, the fastest last. */
const struct backend_set *backend_cpu_sets(size_t *count);
static inline bool backend_set_is_usable(const struct backend_set *set) {
    return set->is_available && set->is_available();
}

/* SL_ERR_USAGE for an unknown kernel set, SL_ERR_ENV for one that this processor cannot run. All
 * memory is allocated here; larger products than options tell go slice by slice. */
enum status backend_cpu_new(const struct backend_options *options, struct backend **out,
                            struct error *err);
void backend_free(struct backend *backend); /* accepts NULL */
/* Bytes that backend_cpu_new allocates: scratch for so many threads, and room for the activations
 * of a product rounded to bf16 (0 for `portable`). Part of the plan. */
size_t backend_cpu_scratch_bytes(size_t threads);
/* Of these, what products of so many features touch at most. */
size_t backend_cpu_scratch_used_bytes(size_t threads, size_t features);
size_t backend_cpu_packed_bytes(const char *kernels, size_t features, size_t tokens);

/* A kernel set and a few words on why. */
struct backend_choice {
    const char *kernels, *reason;
};

/* What a setting stands for. "auto": this processor's best bf16 set where all matrices are bf16, so
 * that nothing is rounded but activations; else `portable`. Other names must be sets that this
 * processor can run. isa, an instruction set that it has, goes with "auto" and "portable" alone,
 * and means `portable`; NULL: none is asked for. Errors as in backend_cpu_new. */
enum status backend_cpu_choose(const char *setting, const char *isa, bool is_all_bf16,
                               struct backend_choice *out, struct error *err);

#endif
