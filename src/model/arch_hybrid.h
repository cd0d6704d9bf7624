/* Mathematics of the families that have gated delta networks in place of attention in most layers
 * (Qwen3-Next, Qwen3.5), and what their configs have in common. One thread. */
#ifndef SLUICE_MODEL_ARCH_HYBRID_H
#define SLUICE_MODEL_ARCH_HYBRID_H

#include "model/arch_mixture.h"

/* arch_mixture_need or, where the config has no experts, arch_common_need; and a gated delta
 * network, its projections in one of two forms. */
enum arch_need arch_hybrid_need(const struct config *config, enum role role);
/* Where their experts may lie. */
#define ARCH_HYBRID_NAMES 3
extern const struct arch_name arch_hybrid_names[ARCH_HYBRID_NAMES];
/* Settings that these families read and others refuse. */
extern const char *const arch_hybrid_understood[];
/* Attention with gates on its output, or h += Out delta(x) with x = norm(h); MLP or experts. */
extern const struct arch_math arch_hybrid_math;

/* linear_* sizes, layer_types or full_attention_interval, attention_bias, the share of a head that
 * is rotated, and that norms have one added to their weights. */
enum status arch_hybrid_json(const struct json *config, const char *name, struct config *out,
                             struct error *err);
/* The same from GGUF metadata, and layers that predict further tokens. is_tiled: the value heads
 * lie in the order that llama.cpp gives them. */
enum status arch_hybrid_meta(struct meta_reader *reader, bool is_tiled, struct config *out,
                             struct error *err);

#endif
