/* The CPU backend: the table of instruction sets, the choice among them, and its memory. What the
 * operations do lies in product.c, attention.c and ops.c (cutting work into items) and in one file
 * or more per instruction set (kernels.h). Refuses kernel sets and instruction sets that are
 * unknown, not in this build, or beyond this processor, by name. */
#include "backend/cpu/kernels.h"

#include <string.h>

static const struct cpu_kernels *const instruction_sets[] = {
/* Best first. */
#ifdef __x86_64__
    &cpu_kernels_avx2,
#endif
    &cpu_kernels_scalar,
};

/* Products of the other kernel sets, best first. */
static const struct cpu_products *const bf16_sets[] = {
#ifdef __x86_64__
    &cpu_products_amx,
    &cpu_products_avx512bf16,
#endif
    &cpu_products_amx_scalar,
    &cpu_products_avx512bf16_scalar,
};
#define BF16_SETS (sizeof bf16_sets / sizeof *bf16_sets)

static void cpu_free(struct backend *backend) {
    struct cpu_backend *cpu = cpu_from(backend);
    mem_free(cpu->memory);
    mem_free(cpu);
}

static const struct backend_ops ops = {
    .name = "cpu",
    .product = cpu_product,
    .embed = cpu_embed,
    .rms_norm = cpu_rms_norm,
    .add = cpu_add,
    .add_bias = cpu_add_bias,
    .silu_mul = cpu_silu_mul,
    .gelu_mul = cpu_gelu_mul,
    .scale = cpu_scale,
    .swiglu_clipped = cpu_swiglu_clipped,
    .rope = cpu_rope,
    .kv_write = cpu_kv_write,
    .attention = cpu_attention,
    .select = cpu_select,
    .scatter_add = cpu_scatter_add,
    .copy = cpu_copy,
    .columns = cpu_columns,
    .argmax = cpu_argmax,
    .free = cpu_free,
};

static enum status choose_isa(const char *name, const struct cpu_kernels **out, struct error *err) {
    for (size_t i = 0; i < sizeof instruction_sets / sizeof *instruction_sets; i++) {
        const struct cpu_kernels *kernels = instruction_sets[i];
        if (name && strcmp(kernels->isa, name) != 0)
            continue;
        if (kernels->is_available()) {
            *out = kernels;
            return SL_OK;
        }
        if (name)
            return error_set(err, SL_ERR_ENV, "this processor cannot run the '%s' kernels", name);
    }
    return error_set(err, SL_ERR_USAGE, "unknown instruction set '%s'", name ? name : "");
}

static bool is_name(const char *a, const char *b) {
    return strcmp(a, b) == 0;
}

/* The products of a kernel set on the processor's own instructions, or on those that isa names. */
static enum status choose_products(const char *kernels, const char *isa,
                                   const struct cpu_products **out, struct error *err) {
    bool is_known = false;
    for (size_t i = 0; i < BF16_SETS; i++) {
        const struct cpu_products *products = bf16_sets[i];
        if (!is_name(products->kernels, kernels))
            continue;
        is_known = true;
        if (!is_name(products->isa, isa ? isa : kernels) || !products->is_available())
            continue;
        *out = products;
        return SL_OK;
    }
    if (is_known)
        return error_set(
            err, SL_ERR_ENV,
            "this processor lacks the instructions of kernel set '%s': use --kernels auto",
            kernels);
    return error_set(err, SL_ERR_USAGE,
                     "unknown kernel set '%s': it is one of auto, portable, avx512bf16, amx",
                     kernels);
}

enum status backend_cpu_choose(const char *setting, bool is_all_bf16, struct backend_choice *out,
                               struct error *err) {
    const struct cpu_products *products = NULL;
    struct backend_choice choice = {"portable", "no weights are rounded"};
    if (is_name(setting, "auto")) {
        for (size_t i = 0; i < BF16_SETS && !products; i++)
            if (!is_name(bf16_sets[i]->isa, "scalar") && bf16_sets[i]->is_available())
                products = bf16_sets[i];
        if (products && is_all_bf16)
            choice = (struct backend_choice){products->kernels, "all weights are bf16"};
        else if (is_all_bf16)
            choice.reason = "no bf16 products on this processor";
    } else {
        choice = (struct backend_choice){"portable", "--kernels"};
        if (!is_name(setting, "portable")) {
            TRY(choose_products(setting, NULL, &products, err));
            choice.kernels = products->kernels;
        }
    }
    *out = choice;
    return SL_OK;
}

size_t backend_cpu_scratch_bytes(size_t threads) {
    return threads * CPU_SCRATCH_FLOATS * sizeof(float) + CACHE_LINE; /* to align it */
}

size_t backend_cpu_packed_bytes(const char *kernels, size_t features, size_t tokens) {
    if (is_name(kernels, "portable"))
        return 0;
    return act_tiles(tokens) * cpu_pairs(features) * SL_LANES * sizeof(uint32_t);
}

enum status backend_cpu_new(const struct backend_options *options, struct backend **out,
                            struct error *err) {
    const char *name = options->kernels ? options->kernels : "portable", *isa = options->isa;
    const struct cpu_kernels *kernels = NULL;
    const struct cpu_products *products = NULL;
    if (!is_name(name, "portable"))
        TRY(choose_products(name, isa, &products, err));
    TRY(choose_isa(products && !is_name(products->isa, "scalar") ? NULL : isa, &kernels, err));
    size_t threads = team_threads(options->team), scratch = backend_cpu_scratch_bytes(threads);
    size_t packed = 0;
    if (products && products->pack)
        packed = backend_cpu_packed_bytes(name, options->features, options->tokens);
    struct cpu_backend *cpu = mem_new(1, sizeof *cpu);
    void *memory = mem_new(scratch + packed, 1);
    if (!cpu || !memory) {
        mem_free(cpu);
        mem_free(memory);
        return error_memory(err, scratch + packed, "scratch of the kernels");
    }
    size_t skip = (CACHE_LINE - (uintptr_t)memory % CACHE_LINE) % CACHE_LINE;
    uint8_t *start = (uint8_t *)memory + skip;
    *cpu = (struct cpu_backend){
        .base = {.ops = &ops,
                 .kernels = products ? products->kernels : "portable",
                 .isa = products ? products->isa : kernels->isa,
                 .team = options->team},
        .kernels = kernels,
        .products = {.product = kernels->product, .item_rows = CPU_PANEL_ROWS},
        .threads = threads,
        .memory = memory,
        .scratch = (float *)(void *)start,
        .packed = packed > 0 ? (uint32_t *)(void *)(start + (scratch - CACHE_LINE)) : NULL,
        .packed_words = packed / sizeof(uint32_t),
    };
    if (products)
        cpu->products = *products;
    *out = &cpu->base;
    return SL_OK;
}

void backend_free(struct backend *backend) {
    if (backend)
        backend->ops->free(backend);
}
