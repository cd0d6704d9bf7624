/* One walk over all layers. Owns every loop over layers and experts, and how picks become the flat
 * list of tokens. Refuses to choose tokens, before (sched.c) or after (engine.c). Allocates nothing
 * while a pass runs. */
#include "engine/pass.h"

#include "base/mem.h"

enum status pass_init(struct pass *pass, size_t tokens_max, size_t logits_max, struct error *err) {
    must(tokens_max >= 1);
    must(logits_max >= 1);
    *pass = (struct pass){0};
    pass->ids = mem_new(tokens_max, sizeof *pass->ids);
    pass->kv_tokens = mem_new(tokens_max, sizeof *pass->kv_tokens);
    pass->runs = mem_new(tokens_max, sizeof *pass->runs);
    pass->logit_columns = mem_new(logits_max, sizeof *pass->logit_columns);
    pass->best = mem_new(logits_max, sizeof *pass->best);
    pass->scores = mem_new(logits_max, sizeof *pass->scores);
    pass->logit_seqs = mem_new(logits_max, sizeof *pass->logit_seqs);
    if (pass->ids == NULL || pass->kv_tokens == NULL || pass->runs == NULL ||
        pass->logit_columns == NULL || pass->best == NULL || pass->scores == NULL ||
        pass->logit_seqs == NULL) {
        pass_release(pass);
        return error_memory(err, tokens_max * sizeof *pass->kv_tokens, "the tokens of a pass");
    }
    pass->tokens_max = tokens_max;
    pass->logits_max = logits_max;
    return SL_OK;
}

void pass_release(struct pass *pass) {
    if (pass == NULL)
        return;
    mem_free(pass->ids);
    mem_free(pass->kv_tokens);
    mem_free(pass->runs);
    mem_free(pass->logit_columns);
    mem_free(pass->best);
    mem_free(pass->scores);
    mem_free(pass->logit_seqs);
    *pass = (struct pass){0};
}

uint64_t pass_bytes(size_t tokens_max, size_t logits_max) {
    struct pass pass;
    return (uint64_t)tokens_max * (sizeof *pass.ids + sizeof *pass.kv_tokens + sizeof *pass.runs) +
           (uint64_t)logits_max * (sizeof *pass.logit_columns + sizeof *pass.best +
                                   sizeof *pass.scores + sizeof *pass.logit_seqs);
}

/* Lays out the tokens of one pick, in the order of the row. */
static void pass_add(struct pass *pass, const struct sched_pick *pick, struct kv *kv) {
    struct seq *seq = pick->seq;
    size_t end = pick->first + pick->count;
    must(pick->count >= 1);
    must(pick->first == seq->computed);
    must(end <= seq->token_count);
    must(pass->tokens + pick->count <= pass->tokens_max);
    must(seq_take_pages(seq, kv, end)); /* the scheduler has made sure of them */
    pass->runs[pass->run_count++] = (struct kv_run){pass->tokens, pick->count};
    for (size_t i = pick->first; i < end; i++) {
        pass->ids[pass->tokens] = seq->tokens[i];
        pass->kv_tokens[pass->tokens++] = (struct kv_token){
            .position = (uint32_t)i,
            .row_limit = (uint32_t)(seq->prompt_count + seq->max_tokens),
            .pages = seq->pages[KV_WHOLE].numbers,
            .window_pages = seq->pages[KV_WINDOW].numbers,
            .state = seq->pages[KV_STATE].numbers[0],
        };
    }
    must(pick->logits <= pass->logits_max - pass->logit_count);
    for (size_t i = pick->logits; i > 0; i--) {
        pass->logit_columns[pass->logit_count] = (uint32_t)(pass->tokens - i);
        pass->logit_seqs[pass->logit_count++] = seq;
    }
}

/* A layer's router, then each expert that tokens were routed to, in rising order. */
static enum status pass_experts(struct step *step, uint32_t layer, struct error *err) {
    const struct arch_math *math = step->model->arch->math;
    TRY(math->route(step, layer, err));
    for (uint32_t expert = 0; expert < step->config->mixture.count; expert++)
        if (step->expert_tokens[expert] > 0)
            TRY(math->expert(step, layer, expert, err));
    return SL_OK;
}

static enum status pass_layers(const struct pass *pass, struct step *step, struct error *err) {
    const struct arch_math *math = step->model->arch->math;
    TRY(step_begin(step, err));
    TRY(math->embed(step, err));
    for (uint32_t layer = 0; layer < step->config->layers; layer++) {
        if (pass->at_layer != NULL)
            pass->at_layer(pass->at_layer_ctx, layer, step->config->layers, pass->tokens);
        TRY(math->attend(step, layer, err));
        if (config_is_mixture(step->config, layer))
            TRY(pass_experts(step, layer, err));
        else
            TRY(math->mlp(step, layer, err));
        if (math->finish != NULL)
            TRY(math->finish(step, layer, err));
    }
    return math->head(step, err);
}

enum status pass_run(struct pass *pass, const struct sched *sched, struct kv *kv, struct step *step,
                     struct error *err) {
    pass->tokens = pass->run_count = pass->logit_count = 0;
    for (size_t i = 0; i < sched->pick_count; i++)
        pass_add(pass, &sched->picks[i], kv);
    step->kv_layers = kv->layers;
    step->tokens = pass->tokens;
    step->ids = pass->ids;
    step->kv_tokens = pass->kv_tokens;
    step->runs = pass->runs;
    step->run_count = pass->run_count;
    step->logit_columns = pass->logit_columns;
    step->logit_count = pass->logit_count;
    enum status status = pass_layers(pass, step, err);
    if (status != SL_OK) {
        step_abandon(step);
        return status;
    }
    step_end(step);
    if (pass->logit_count > 0)
        step->backend->ops->argmax(step->backend, &step->logits, pass->best);
    for (size_t i = 0; i < sched->pick_count; i++) {
        struct seq *seq = sched->picks[i].seq;
        seq->computed += sched->picks[i].count;
        if (sched->prefix != NULL)
            prefix_settle(sched->prefix, seq);
        seq_trim_pages(seq, kv);
    }
    return SL_OK;
}
