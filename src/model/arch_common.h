/* Mathematics that many families share: pre-norm blocks with RMS norms, rotary attention with
 * grouped heads, and a gated MLP (SwiGLU). A family's row of the arch table points at these, all
 * together, or has its own. All are called by pass.c, one thread. */
#ifndef SLUICE_MODEL_ARCH_COMMON_H
#define SLUICE_MODEL_ARCH_COMMON_H

#include "model/arch.h"

struct act;

/* Roles that every one of these families has, and biases where the file has them (declared ones
 * must be there). Q and K norms are absent: a family that has them says so itself. */
enum arch_need arch_common_need(const struct config *config, enum role role);
/* The same, and norms after both halves. */
enum arch_need arch_common_post_norm_need(const struct config *config, enum role role);
extern const enum role arch_common_attend_order[], arch_common_mlp_order[];

/* All of what follows. */
extern const struct arch_math arch_common_math;
/* h = rows of the embedding. */
enum status arch_common_embed(struct step *step, struct error *err);
/* y = W x, plus the bias if the model has one. */
enum status arch_common_project(struct step *step, uint32_t layer, enum role matrix,
                                const struct act *x, struct act *y, struct error *err);
/* What a half layer reads: step->x = h normalised, or h itself in families that have no such norm.
 */
const struct act *arch_common_input(struct step *step, uint32_t layer, enum role norm);
/* h += y, normalised and scaled where the family does that. */
void arch_common_add(struct step *step, uint32_t layer, enum role norm);
/* h += O attention(rope(norm(Q x)), rope(norm(K x)), V x) with x = norm(h); each norm, bias, cap
 * and factor where the model has it, and the layer's own way to rotate. */
enum status arch_common_attend(struct step *step, uint32_t layer, struct error *err);
/* h += Down (silu(Gate x) * Up x) with x = norm(h), or gelu; norms and factor likewise. */
enum status arch_common_mlp(struct step *step, uint32_t layer, struct error *err);
/* up = act(gate) * up: SiLU, or GELU in its tanh form. */
void arch_common_activate(struct step *step, const struct act *gate, struct act *up);
/* logits = Head norm(h) for the tokens that need them, scaled and capped. */
enum status arch_common_head(struct step *step, struct error *err);

/* sliding_window of config.json (CASES 35), into window and is_windowed: layer_types decides where
 * it is given, else every layer from first_layer on slides. Null or absent: no window. */
enum status arch_common_window(const struct json *config, const char *name, uint64_t first_layer,
                               struct config *out, struct error *err);
/* Each `interval`th layer does not rotate. */
enum status arch_common_rope_interval(uint64_t interval, struct config *out, struct error *err);
/* The same with no_rope_layer_interval in place of `interval`, unless no_rope_layers lists a 1 for
 * each layer that rotates and a 0 for each that does not. */
enum status arch_common_rope_layers(const struct json *config, const char *name, uint64_t interval,
                                    struct config *out, struct error *err);
/* For families whose class has no window and ignores the setting, while other programs apply it:
 * refuses one below the context, and layer types that slide. */
enum status arch_common_no_window(const struct json *config, const char *name, struct config *out,
                                  struct error *err);
/* The same for families whose class slides in all layers but each `pattern`th one, unless
 * layer_types says otherwise; window: the class default of sliding_window. */
enum status arch_common_pattern_window(const struct json *config, const char *name,
                                       uint64_t pattern, uint32_t window, struct config *out,
                                       struct error *err);
/* From GGUF metadata: FAMILY.attention.sliding_window (0: none; absent: as out->window stands) in
 * all layers but each `pattern`th one (0: in all), or as sliding_window_pattern beside it says: a
 * number, or a list of which layers have it. */
enum status arch_common_meta_window(struct meta_reader *reader, uint64_t pattern,
                                    struct config *out, struct error *err);
/* The same for the Qwen families: off unless use_sliding_window or a list of layer types says so,
 * from max_window_layers on. */
enum status arch_common_flagged_window(const struct json *config, const char *name,
                                       struct config *out, struct error *err);

#endif
