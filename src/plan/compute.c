/* Owns what is believed of the processor. Refuses to learn from runs of a few passes. */
#include "plan/compute.h"

#include "backend/measure.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/log.h"
#include "plan/rates.h"
#include "plan/record.h"

#include <stdio.h>

/* What one core of this kind computes, per second, while nothing is known. */
#define ASSUMED_FLOPS_VECTOR 20e9
#define ASSUMED_FLOPS_SCALAR 2e9
/* A job that computes for less than this by the assumption does not wait for a measurement. */
#define MEASURE_PAYS_SECONDS 20.0
#define KEY_BYTES 600
/* Of a matrix that is small, and larger than the caches of one core. */
#define OUTPUTS 1024u
#define INPUTS 2048u
/* What a pass costs beyond its tokens shows in the difference of few and many. */
#define TOKENS_FEW 32u
#define TOKENS_MANY 256u

static double assumed_flops(size_t threads) {
    bool has_vectors = cpu_get()->has_avx2_fma || cpu_get()->has_neon;
    return (double)threads * (has_vectors ? ASSUMED_FLOPS_VECTOR : ASSUMED_FLOPS_SCALAR);
}

/* The format that most bytes have, of those that there are products of. */
static enum dtype main_dtype(const struct model *model) {
    uint64_t bytes[DTYPE_COUNT], most = 0;
    enum dtype found = DTYPE_BF16;
    model_format_bytes(model, bytes);
    for (unsigned i = 0; i < DTYPE_COUNT; i++) {
        if (bytes[i] <= most || !measure_has_products((enum dtype)i) ||
            !measure_fits((enum dtype)i, INPUTS))
            continue;
        most = bytes[i];
        found = (enum dtype)i;
    }
    return found;
}

static void run_key(const struct model *model, const struct plan *plan, char key[KEY_BYTES]) {
    char of_model[SL_MODEL_KEY_BYTES];
    rates_model_key(model, plan, of_model);
    snprintf(key, KEY_BYTES, "%s, %s", of_model, cpu_get()->name);
}

static void product_key(const struct model *model, const struct plan *plan, char key[KEY_BYTES]) {
    snprintf(key, KEY_BYTES, "%s, %s kernels, %zu threads, %s", measure_name(main_dtype(model)),
             plan->kernels, plan->threads, cpu_get()->name);
}

static bool find_products(const struct model *model, const struct settings *settings,
                          const struct plan *plan, struct compute_record *out) {
    char key[KEY_BYTES];
    product_key(model, plan, key);
    if (settings->measured_flops > 0) {
        *out = (struct compute_record){.flops_per_second = settings->measured_flops,
                                       .fixed_seconds = settings->measured_fixed_seconds};
        return true;
    }
    return settings->home != NULL &&
           record_get_compute(settings->home, COMPUTE_OF_PRODUCTS, key, out) &&
           clock_wall_seconds() - out->date <= (int64_t)SL_PROBE_DAYS * 86400;
}

void compute_decide(const struct model *model, const struct settings *settings, struct plan *plan) {
    struct pass_cost *cost = &plan->cost;
    struct compute_record record;
    char key[KEY_BYTES], *source = plan->compute_source;
    const size_t room = sizeof plan->compute_source;
    double values = (cost->token_flops + cost->logits_flops) / 2;
    run_key(model, plan, key);
    cost->fixed_seconds = 0;
    plan->knows_compute = true;
    if (settings->flops > 0) {
        cost->flops_per_second = settings->flops;
        snprintf(source, room, "--flops");
    } else if (settings->home != NULL &&
               record_get_compute(settings->home, COMPUTE_OF_RUNS, key, &record)) {
        cost->flops_per_second = record.flops_per_second;
        cost->fixed_seconds = record.fixed_seconds;
        snprintf(source, room, "measured in %llu run%s of this model",
                 (unsigned long long)record.runs, record.runs == 1 ? "" : "s");
    } else if (find_products(model, settings, plan, &record)) {
        cost->flops_per_second = record.flops_per_second * SL_PRODUCTS_SHARE;
        cost->fixed_seconds = record.fixed_seconds * values / SL_PRODUCTS_SHARE;
        snprintf(source, room, "products of %s measured for %.1f s",
                 measure_name(main_dtype(model)), SL_COMPUTE_SECONDS);
    } else {
        cost->flops_per_second = assumed_flops(plan->threads);
        snprintf(source, room, "not measured yet: assumed");
        plan->knows_compute = false;
    }
}

bool compute_wants_measure(const struct settings *settings, const struct plan *plan) {
    const struct plan_rows *rows = &plan->rows;
    double work = (double)(rows->prompt_tokens + rows->answer_tokens) * plan->cost.token_flops;
    if (plan->knows_compute || work < MEASURE_PAYS_SECONDS * assumed_flops(plan->threads))
        return false;
    return settings->memory_bytes == 0 ||
           machine_rss_bytes() + 2 * SL_COMPUTE_BYTES < settings->memory_bytes;
}

static void learn_products(const struct measure *measure, struct compute_record *record) {
    const double values = (double)OUTPUTS * INPUTS;
    double few = 2 * values * TOKENS_FEW / measure->products[0].flops_per_second;
    double many = 2 * values * TOKENS_MANY / measure->products[1].flops_per_second;
    double each = (many - few) / (TOKENS_MANY - TOKENS_FEW);
    double fixed = few - each * TOKENS_FEW;
    if (each <= 0 || fixed < 0) {
        each = many / TOKENS_MANY;
        fixed = 0;
    }
    *record = (struct compute_record){.flops_per_second = 2 * values / each,
                                      .fixed_seconds = fixed / values,
                                      .date = clock_wall_seconds(),
                                      .runs = 1};
}

enum status compute_measure(const struct model *model, struct settings *settings,
                            const struct plan *plan, bool (*should_stop)(void), struct error *err) {
    static const size_t tokens[] = {TOKENS_FEW, TOKENS_MANY};
    enum dtype dtype = main_dtype(model);
    struct compute_record record;
    struct measure measure;
    struct error why = {0};
    char key[KEY_BYTES];
    struct measure_options options = {
        .kernels = plan->kernels,
        .threads = plan->threads,
        .outputs = OUTPUTS,
        .inputs = INPUTS,
        .dtypes = &dtype,
        .dtype_count = 1,
        .tokens = tokens,
        .token_count = 2,
        .seconds = SL_COMPUTE_SECONDS / 3,
        .pool_bytes = SL_COMPUTE_BYTES / 2,
        .is_brief = true,
        .should_stop = should_stop,
    };
    TRY(measure_init(&measure, &options, err));
    learn_products(&measure, &record);
    measure_release(&measure);
    settings->measured_flops = record.flops_per_second;
    settings->measured_fixed_seconds = record.fixed_seconds;
    product_key(model, plan, key);
    if (settings->home != NULL &&
        record_put_compute(settings->home, COMPUTE_OF_PRODUCTS, key, &record, &why) != SL_OK)
        log_warning("what the products take is not kept: %s", why.text);
    return SL_OK;
}

void compute_learn(const struct model *model, const struct settings *settings,
                   const struct plan *plan, const struct cost_observed *observed) {
    struct compute_record record = {0}, seen = {0};
    struct error why = {0};
    char key[KEY_BYTES];
    if (settings->home == NULL ||
        !cost_learn(observed, &seen.flops_per_second, &seen.fixed_seconds))
        return;
    run_key(model, plan, key);
    if (record_get_compute(settings->home, COMPUTE_OF_RUNS, key, &record)) { /* half of each */
        seen.flops_per_second = 2 / (1 / seen.flops_per_second + 1 / record.flops_per_second);
        seen.fixed_seconds = (seen.fixed_seconds + record.fixed_seconds) / 2;
    }
    seen.date = clock_wall_seconds();
    seen.runs = record.runs + 1;
    if (record_put_compute(settings->home, COMPUTE_OF_RUNS, key, &seen, &why) != SL_OK)
        log_warning("what the passes of this run took is not kept: %s", why.text);
}
