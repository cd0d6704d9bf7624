/* The CPU backend: the table of instruction sets, the choice among them, and its memory. What the
 * operations do lies in product.c, attention.c and ops.c (cutting work into items) and in one file
 * or more per instruction set (kernels.h). Refuses kernel sets and instruction sets that are
 * unknown, not in this build, or beyond this processor, by name. */
#include "backend/cpu/kernels.h"

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

static bool always(void) {
    return true;
}

/* "auto" is the best of those in this build. */
static const struct backend_set kernel_sets[] = {
    {"portable", always},
    {"avx512bf16", NULL},
    {"amx", NULL},
};

const struct backend_set *backend_cpu_sets(size_t *count) {
    *count = sizeof kernel_sets / sizeof *kernel_sets;
    return kernel_sets;
}

static void cpu_free(struct backend *backend) {
    struct cpu_backend *cpu = cpu_from(backend);
    mem_free(cpu->scratch_memory);
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

static enum status check_kernel_set(const char *name, struct error *err) {
    if (strcmp(name, "auto") == 0)
        return SL_OK;
    for (size_t i = 0; i < sizeof kernel_sets / sizeof *kernel_sets; i++) {
        const struct backend_set *set = &kernel_sets[i];
        if (strcmp(set->name, name) != 0)
            continue;
        if (!set->is_available)
            return error_set(err, SL_ERR_ENV,
                             "kernel set '%s' is not in this build: use 'portable'", name);
        if (!set->is_available())
            return error_set(err, SL_ERR_ENV,
                             "this processor cannot run the kernel set '%s': use 'portable'", name);
        return SL_OK;
    }
    return error_set(err, SL_ERR_USAGE,
                     "unknown kernel set '%s': it is one of auto, portable, avx512bf16, amx", name);
}

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
            return error_set(err, SL_ERR_ENV, "this processor cannot run the '%s' kernels", name);
    }
    return error_set(err, SL_ERR_USAGE, "unknown instruction set '%s'", name ? name : "");
}

size_t backend_cpu_scratch_bytes(size_t threads) {
    return (threads * CPU_SCRATCH_FLOATS + CPU_PACKED_FLOATS) * sizeof(float) +
           64; /* to align it */
}

enum status backend_cpu_new(const struct backend_options *options, struct backend **out,
                            struct error *err) {
    const struct cpu_kernels *kernels = NULL;
    TRY(check_kernel_set(options->kernels ? options->kernels : "auto", err));
    TRY(choose_isa(options->isa, &kernels, err));
    size_t threads = team_threads(options->team);
    size_t bytes = backend_cpu_scratch_bytes(threads);
    struct cpu_backend *cpu = mem_new(1, sizeof *cpu);
    void *scratch = mem_new(bytes, 1);
    if (!cpu || !scratch) {
        mem_free(cpu);
        mem_free(scratch);
        return error_memory(err, bytes, "scratch of the kernels");
    }
    uintptr_t start = ((uintptr_t)scratch + 63) & ~(uintptr_t)63;
    *cpu = (struct cpu_backend){
        .base = {.ops = &ops, .kernels = "portable", .isa = kernels->isa, .team = options->team},
        .kernels = kernels,
        .threads = threads,
        .scratch_memory = scratch,
        .scratch = (float *)(void *)((uint8_t *)scratch + (start - (uintptr_t)scratch)),
    };
    cpu->packed = cpu->scratch + threads * CPU_SCRATCH_FLOATS;
    *out = &cpu->base;
    return SL_OK;
}

void backend_free(struct backend *backend) {
    if (backend)
        backend->ops->free(backend);
}
