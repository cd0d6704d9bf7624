/* Mathematics that mixtures of experts share: a router, a shared expert, and experts with a gated
 * MLP, after attention as arch_common.h or the family itself has it; and what their configs have in
 * common. One thread. */
#ifndef SLUICE_MODEL_ARCH_MIXTURE_H
#define SLUICE_MODEL_ARCH_MIXTURE_H

#include "model/arch_common.h"
#include "model/config_meta.h"

/* arch_common_need, a router and experts, the shared expert and the correction where the config has
 * them. */
enum arch_need arch_mixture_need(const struct config *config, enum role role);
extern const enum role arch_mixture_route_order[], arch_mixture_expert_order[];
/* Settings that these families read and others refuse. */
extern const char *const arch_mixture_understood[];

/* arch_common_math with these experts. */
extern const struct arch_math arch_mixture_math;
/* Router W x (+ bias), choice, and h += s Down (silu(Gate x) * Up x) for the shared expert, with
 * x = norm(h); s is sigmoid(shared router x) where there is one, else 1. */
enum status arch_mixture_route(struct step *step, uint32_t layer, struct error *err);
/* h += weight Down (silu(Gate x) * Up x) for the tokens of an expert, biases and another activation
 * where the model has them; weights of the input instead where mixture.scales_inputs says so. Gate
 * and up may lie in one matrix, and matrices the other way, [inputs, outputs] (role.h). */
enum status arch_mixture_expert(struct step *step, uint32_t layer, uint32_t expert,
                                struct error *err);
/* The same up to the sum: outputs in expert_y, for the tokens and weights of gather_columns and
 * gather_weights. */
enum status arch_mixture_expert_output(struct step *step, uint32_t layer, uint32_t number,
                                       struct error *err);

/* Experts of config.json: `count_name` or num_local_experts, num_experts_per_tok, the inner size
 * `inner_name`, norm_topk_prob (or `sums` where it is left out). */
struct mixture_names {
    const char *count, *inner;
    bool sums;
};
enum status arch_mixture_json(const struct json *config, const struct mixture_names *names,
                              const char *name, struct config *out, struct error *err);
/* first_k_dense_replace, n_group, topk_group, routed_scaling_factor, n_shared_experts of DeepSeek
 * and its kin, and what they say about mixture.score, which is set before: sigmoid or softmax. */
enum status arch_mixture_json_grouped(const struct json *config, const char *name,
                                      struct config *out, struct error *err);
/* Experts of GGUF metadata: counts, sizes, groups, scale, leading dense blocks, gating. */
enum status arch_mixture_meta(struct meta_reader *reader, struct config *out, struct error *err);
/* Layers before `layers` have a plain MLP. */
enum status arch_mixture_leading(uint32_t layers, struct config *out, struct error *err);

#endif
