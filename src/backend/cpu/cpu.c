/* The CPU backend: the table of instruction sets, the choice among them, and its memory. What the
 * operations do lies in product.c, attention.c and ops.c (cutting work into items) and in one file
 * or more per instruction set (kernels.h). Refuses kernel sets and instruction sets that are
 * unknown, not in this build, or beyond this processor, by name. */
#include "backend/cpu/few.h"
#include "backend/cpu/kernels.h"

#include <stdio.h>
#include <string.h>

static const struct cpu_kernels *const instruction_sets[] = {
/* Best first. */
#ifdef __x86_64__
    &cpu_kernels_avx512,
    &cpu_kernels_avx2,
#endif
#ifdef __aarch64__
    &cpu_kernels_neon,
#endif
    &cpu_kernels_scalar,
};

/* Products of the other kernel sets, by the processor's own instructions and the references. */
static const struct cpu_products *const bf16_products[] = {
#ifdef __x86_64__
    &cpu_products_amx,
    &cpu_products_avx512bf16,
#endif
    &cpu_products_amx_scalar,
    &cpu_products_avx512bf16_scalar,
};
#define BF16_PRODUCTS (sizeof bf16_products / sizeof *bf16_products)

static bool always(void) {
    return true;
}

#ifdef __x86_64__
static bool has_avx512bf16(void) {
    return cpu_products_avx512bf16.is_available();
}

static bool has_amx(void) {
    return cpu_products_amx.is_available();
}
#else
#define has_avx512bf16 NULL
#define has_amx NULL
#endif

static const struct backend_set kernel_sets[] = {
    {"portable", always},
    {"avx512bf16", has_avx512bf16},
    {"amx", has_amx},
};
#define KERNEL_SETS (sizeof kernel_sets / sizeof *kernel_sets)

const struct backend_set *backend_cpu_sets(size_t *count) {
    *count = KERNEL_SETS;
    return kernel_sets;
}

static bool is_name(const char *a, const char *b) {
    return strcmp(a, b) == 0;
}

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
    .centre = cpu_centre,
    .add = cpu_add,
    .add_bias = cpu_add_bias,
    .silu_mul = cpu_silu_mul,
    .gelu_mul = cpu_gelu_mul,
    .sigmoid_mul = cpu_sigmoid_mul,
    .scale = cpu_scale,
    .scale_tokens = cpu_scale_tokens,
    .swiglu_clipped = cpu_swiglu_clipped,
    .rope = cpu_rope,
    .kv_write = cpu_kv_write,
    .attention = cpu_attention,
    .delta = cpu_delta,
    .select = cpu_select,
    .scatter_add = cpu_scatter_add,
    .copy = cpu_copy,
    .columns = cpu_columns,
    .argmax = cpu_argmax,
    .free = cpu_free,
};

const struct cpu_kernels *cpu_kernels_at(size_t index) {
    size_t count = sizeof instruction_sets / sizeof *instruction_sets;
    return index < count ? instruction_sets[index] : NULL;
}

static enum status choose_isa(const char *name, const struct cpu_kernels **out, struct error *err) {
    const struct cpu_kernels *kernels;
    for (size_t i = 0; (kernels = cpu_kernels_at(i)) != NULL; i++) {
        if (name && strcmp(kernels->isa, name) != 0)
            continue;
        if (kernels->is_available()) {
            *out = kernels;
            return SL_OK;
        }
        if (name)
            return error_set(err, SL_ERR_ENV, "--isa %s: this processor has not these instructions",
                             name);
    }
    char names[64] = "";
    for (size_t i = 0, len = 0; (kernels = cpu_kernels_at(i)) != NULL && len < sizeof names; i++)
        len += (size_t)snprintf(names + len, sizeof names - len, "%s%s", i > 0 ? ", " : "",
                                kernels->isa);
    return error_set(err, SL_ERR_USAGE, "--isa %s: it must be one of %s", name ? name : "", names);
}

/* A set that isa, or this processor's own instructions if that is NULL, can run. */
static enum status find_set(const char *name, const char *isa, const struct backend_set **out,
                            struct error *err) {
    for (size_t i = 0; i < KERNEL_SETS; i++) {
        const struct backend_set *set = &kernel_sets[i];
        if (!is_name(set->name, name))
            continue;
        if ((isa && is_name(isa, "scalar")) || backend_set_is_usable(set)) {
            *out = set;
            return SL_OK;
        }
        return error_set(err, SL_ERR_ENV,
                         "--kernels %s: this %s cannot run that set: use --kernels portable", name,
                         set->is_available ? "processor" : "build");
    }
    return error_set(err, SL_ERR_USAGE,
                     "unknown kernel set '%s': it is one of auto, portable, avx512bf16, amx", name);
}

/* The products of a set that find_set lets pass; NULL for `portable`. */
static const struct cpu_products *find_products(const char *kernels, const char *isa) {
    bool is_reference = isa && is_name(isa, "scalar");
    for (size_t i = 0; i < BF16_PRODUCTS; i++) {
        const struct cpu_products *products = bf16_products[i];
        if (is_name(products->kernels, kernels) && is_name(products->isa, "scalar") == is_reference)
            return products;
    }
    return NULL;
}

enum status backend_cpu_choose(const char *setting, const char *isa, bool is_all_bf16,
                               struct backend_choice *out, struct error *err) {
    const struct backend_set *set = NULL;
    const struct cpu_kernels *kernels;
    if (isa && !is_name(setting, "auto") && !is_name(setting, "portable"))
        return error_set(err, SL_ERR_USAGE, "--isa is for the portable kernels, not for %s",
                         setting);
    if (isa) {
        TRY(choose_isa(isa, &kernels, err));
        *out = (struct backend_choice){"portable", "--isa"};
        return SL_OK;
    }
    if (!is_name(setting, "auto")) {
        TRY(find_set(setting, NULL, &set, err));
        *out = (struct backend_choice){set->name, "--kernels"};
        return SL_OK;
    }
    *out = (struct backend_choice){"portable", is_all_bf16 ? "no bf16 products on this processor"
                                                           : "no weights are rounded"};
    for (size_t i = 1; is_all_bf16 && i < KERNEL_SETS; i++)
        if (backend_set_is_usable(&kernel_sets[i]))
            *out = (struct backend_choice){kernel_sets[i].name, "all weights are bf16"};
    return SL_OK;
}

size_t backend_cpu_scratch_bytes(size_t threads) {
    return (threads * CPU_SCRATCH_FLOATS + CPU_PACKED_FLOATS) * sizeof(float) +
           CACHE_LINE; /* to align it */
}

size_t backend_cpu_scratch_used_bytes(size_t threads, size_t features) {
    size_t packed = few_floats(features, FEW_TOKENS_MAX);
    packed = packed < CPU_PACKED_FLOATS ? packed : CPU_PACKED_FLOATS;
    return (threads * CPU_SCRATCH_FLOATS + packed) * sizeof(float);
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
    const struct backend_set *set = NULL;
    TRY(find_set(name, isa, &set, err));
    const struct cpu_products *products = find_products(name, isa);
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
                 .kernels = set->name,
                 .isa = products ? products->isa : kernels->isa,
                 .team = options->team},
        .kernels = kernels,
        .threads = threads,
        .memory = memory,
        .scratch = (float *)(void *)start,
        .pairs = packed > 0 ? (uint32_t *)(void *)(start + (scratch - CACHE_LINE)) : NULL,
        .pair_words = packed / sizeof(uint32_t),
    };
    cpu->packed = cpu->scratch + threads * CPU_SCRATCH_FLOATS;
    if (products)
        cpu->products = *products;
    *out = &cpu->base;
    return SL_OK;
}

void backend_free(struct backend *backend) {
    if (backend)
        backend->ops->free(backend);
}
