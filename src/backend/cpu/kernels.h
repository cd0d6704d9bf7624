/* Private to backend/cpu: what an instruction set has to bring.
 *
 * A `struct cpu_kernels` is one row of the table in cpu.c. Its functions compute one work item
 * each, on one thread; product.c, attention.c and ops.c cut the work into items and share them out.
 * Each function must give, bit for bit, what the one in scalar.c gives (backend.h has the orders of
 * summing; a NaN may be another NaN). Adding an instruction set is one table of these functions,
 * and the parity tests pick it up.
 *
 * Shapes: x, y are tiles [features, 16] of an act; scratch belongs to the worker and holds
 * CPU_SCRATCH_FLOATS floats aligned to 64. */
#ifndef SLUICE_BACKEND_CPU_KERNELS_H
#define SLUICE_BACKEND_CPU_KERNELS_H

#include "backend/backend.h"

/* A panel: decoded weights of some rows x 256 columns in float32, as many rows as the inner kernel
 * multiplies at once (12), so that it stays in the first-level cache while it meets all tokens. Its
 * rows are a cache line longer than 1024 bytes, so that the same column of several rows does not
 * fall into one set of that cache. An item is several panels, which share what they load of x from
 * further away. */
#define CPU_ITEM_ROWS ((size_t)48)
#define CPU_PANEL_STRIDE (SL_CHAIN + 16)
#define CACHE_LINE ((size_t)64) /* bytes */
#define CPU_SCRATCH_FLOATS (CPU_ITEM_ROWS * CPU_PANEL_STRIDE)
/* 14336 inputs for eight tokens, 114688 for one. */
#define CPU_PACKED_FLOATS ((size_t)112 << 10)

struct cpu_panel_set;
struct cpu_product {
    const struct view *w; /* [rows, columns] */
    const struct act *x;  /* [columns, tokens] */
    struct act *y;        /* row r of w goes to feature first_row + r */
    size_t first_row;
    size_t rows_ahead; /* from a row to the one that its worker probably computes next */
    const struct cpu_panel_set *panels; /* of the kernels; NULL: none */
    const float *packed; /* x as few.h has it, where the product is one for few tokens */
    /* For a bf16 set: x rounded. Pair p of features of tile t, 16 tokens, begins at
     * pairs + (t x cpu_pairs(features) + p) x 16; the even feature is the low half of a word. */
    const uint32_t *pairs;
    /* For a bf16 set: so many columns of an item's rows meet all tiles before the next columns do,
     * and so many tiles all rows of an item before the next tiles do. */
    size_t slice_columns, slice_tiles;
};

/* Pairs of features in a tile of those: whole steps of 16, the missing ones are zeros. */
static inline size_t cpu_pairs(size_t features) {
    return (features + 31) / 32 * 16;
}

/* Weights that will be decoded next, asked for while those before them are multiplied: a few lines
 * every CPU_AHEAD_COLUMNS columns. Blocks of rows lie far apart and each is short, too short for
 * the processor to notice that it is read in order; and asking for many at once waits as long as
 * not asking. */
struct cpu_ahead {
    const uint8_t *row;            /* where the row that is asked for begins */
    size_t at;                     /* bytes of it that were asked for */
    size_t block_bytes, row_bytes; /* of a row; from one row to the next */
    size_t lines, lines_a_step;    /* left; at once */
};
#define CPU_AHEAD_COLUMNS ((size_t)8)

static inline void cpu_ahead_step(struct cpu_ahead *ahead) {
    for (size_t i = 0; i < ahead->lines_a_step && ahead->lines > 0; i++) {
        __builtin_prefetch(ahead->row + ahead->at, 0, 2);
        ahead->at += CACHE_LINE;
        if (--ahead->lines > 0 && ahead->at >= ahead->block_bytes) {
            ahead->at = 0;
            ahead->row += ahead->row_bytes;
        }
    }
}

/* What product_panels asks of an instruction set: y [rows, lanes] = or += w [rows, count] times
 * x [count, lanes], one chain of fused multiply-adds for each of them. Parts of x lie as far apart
 * as a tile is long, often a multiple of what one way of a cache holds, so that they push each
 * other out: what comes next is asked for here, too. */
struct cpu_panel {
    const float *w;      /* row r begins at w + r x CPU_PANEL_STRIDE */
    const float *x;      /* [tiles, count, 16] */
    const float *x_next; /* the same of the multiplication after this: to be asked for */
    float *y;            /* [tiles, rows, 16] */
    size_t rows;         /* 1 to rows of the set */
    size_t count;        /* 1 to SL_CHAIN */
    size_t tiles;        /* 1 to tiles of the set */
    size_t x_step, x_next_step, y_step; /* floats from a tile to the next; 0 if there is none */
    size_t lanes;                       /* lanes of the last tile that are tokens, 1 to 16 */
    bool is_first;                      /* the first block of the sum: y is not read */
    struct cpu_ahead *ahead;
};

/* By format, as the two functions of dtype_info and with the same values; NULL where a set has
 * nothing faster than view_decode. */
struct cpu_decoders {
    void (*const *blocks)(const void *src, size_t count, float *dst);
    void (*const *rows)(const struct view *view, size_t row, size_t first, size_t count,
                        float *dst);
    const struct cpu_decoders *others; /* of a narrower set, for formats that this one lacks */
};

struct cpu_panel_set {
    const struct cpu_decoders *decoders;
    void (*multiply)(const struct cpu_panel *panel);
    size_t rows, tiles; /* the most that multiply takes at once */
};

struct cpu_attention {
    const struct attention_args *args;
    const struct act *q; /* [heads x head_dim, tokens] */
    struct act *out;     /* [heads x value_dim, tokens] */
};

/* Tokens token .. token + tokens of a pass, and the query heads that share a key/value head. */
struct cpu_heads {
    size_t token, tokens, kv_head;
};

/* One value head for the tokens of a run; delta.h. */
struct cpu_delta {
    const struct delta_args *args;
    struct act *out;
};

/* The rotation of one head in one tile. */
struct cpu_rope {
    const float *cosines, *sines; /* tiles [rotary / 2, 16] */
    size_t half;                  /* rotary / 2 */
    bool is_interleaved;
};

struct cpu_kernels {
    const char *isa; /* "scalar", "avx2", "avx512", "neon" */
    bool (*is_available)(void);
    const struct cpu_decoders *decoders; /* NULL: none but view_decode */
    /* Rows first .. first + count of w, for all tokens. count is at most what fits the item that
     * product.c chose; any value works. */
    void (*product)(const struct cpu_product *task, size_t first, size_t count, float *scratch);
    const struct cpu_panel_set *panels; /* for product_panels */
    /* The same with task->packed, for at most few_tokens_max tokens, or few_decoded_max where the
     * format has to be decoded; NULL, 0, 0: nothing faster. At least 16 rows of w, and items of
     * multiples of 16. few.h. */
    void (*few)(const struct cpu_product *task, size_t first, size_t count, float *scratch);
    size_t few_tokens_max, few_decoded_max;
    void (*attend)(const struct cpu_attention *task, struct cpu_heads heads, float *scratch);
    /* Reads the state's tail, which stays as it is, and changes the head's S. */
    void (*delta)(const struct cpu_delta *task, const struct kv_run *run, size_t head,
                  float *scratch);
    /* One group of `group` features in one tile. weight may be NULL, y may be x. */
    void (*rms_norm)(const float *x, const float *weight, size_t group, float eps, float *y);
    void (*centre)(float *y, size_t features);           /* of one tile */
    void (*add)(const float *x, float *y, size_t count); /* y[i] += x[i]; count % 16 == 0 */
    void (*add_bias)(const float *bias, float *y, size_t features);  /* of one tile */
    void (*silu_mul)(const float *gate, float *up, size_t count);    /* count % 16 == 0 */
    void (*gelu_mul)(const float *gate, float *up, size_t count);    /* likewise */
    void (*sigmoid_mul)(const float *gate, float *up, size_t count); /* likewise */
    void (*scale)(float scale, float cap, float *y, size_t count);   /* likewise */
    void (*swiglu_clipped)(const float *gate, float *up, size_t count, float alpha, float limit);
    void (*rope)(const struct cpu_rope *rope, float *x); /* x: the features of the head */
    /* For each lane of a tile the index of the largest value (ties: lowest; NaN never). */
    void (*argmax)(const float *x, size_t features, uint32_t best[SL_LANES]);
};

/* How products are done by a kernel set other than `portable`, from which it differs in nothing
 * else: a row of the second table in cpu.c. */
struct cpu_products {
    const char *kernels; /* the set: "avx512bf16", "amx" */
    const char *isa;     /* the same, or "scalar": the reference, which only tests ask for */
    bool (*is_available)(void);
    /* Rounds pairs first .. first + count of a tile of x into words. NULL: product reads task->x.
     */
    void (*pack)(const struct act *x, size_t tile, size_t first, size_t count, uint32_t *words);
    void (*product)(const struct cpu_product *task, size_t first, size_t count, float *scratch);
    size_t item_rows, step_rows; /* most rows of an item; items are multiples of these */
    size_t few_tokens, few_rows; /* for so many tokens at most, of these */
    /* Columns of a block of weights that are not multiplied where they lie. Not 0: the set cuts
     * items of more than item_rows rows by slice_columns and slice_tiles. */
    size_t cut_columns;
};

extern const struct cpu_products cpu_products_avx512bf16_scalar, cpu_products_amx_scalar;
#ifdef __x86_64__
extern const struct cpu_products cpu_products_avx512bf16, cpu_products_amx;
#endif

extern const struct cpu_kernels cpu_kernels_scalar;
#ifdef __x86_64__
extern const struct cpu_kernels cpu_kernels_avx2, cpu_kernels_avx512;
#endif
#ifdef __aarch64__
extern const struct cpu_kernels cpu_kernels_neon;
#endif

/* Instruction sets of this build, best first; NULL past the last. cpu.c. */
const struct cpu_kernels *cpu_kernels_at(size_t index);

struct cpu_backend {
    struct backend base; /* first: backend_ops get a pointer to it */
    const struct cpu_kernels *kernels;
    struct cpu_products products; /* of a bf16 set; else all 0 */
    size_t threads;
    void *memory;
    float *scratch;    /* [threads, CPU_SCRATCH_FLOATS], aligned to 64 */
    float *packed;     /* [CPU_PACKED_FLOATS], aligned to 64: x of a product for few tokens */
    uint32_t *pairs;   /* x of a bf16 set's product; NULL for other sets; aligned to 64 */
    size_t pair_words; /* room for it */
};

static inline struct cpu_backend *cpu_from(struct backend *backend) {
    return (struct cpu_backend *)backend;
}

static inline float *cpu_scratch(const struct cpu_backend *cpu, size_t worker) {
    return cpu->scratch + worker * CPU_SCRATCH_FLOATS;
}

/* Weights [row, column ..] where they lie; column is a multiple of the format's block. */
static inline const uint8_t *cpu_weights(const struct view *w, const struct dtype_info *format,
                                         size_t row, size_t column) {
    return w->data + row * w->row_bytes + column / format->block_values * format->block_bytes;
}

/* Weights [row, column .. column + count] as float32, by the set's own decoder if it has one. */
static inline void cpu_decode(const struct cpu_decoders *decoders, const struct view *w, size_t row,
                              size_t column, size_t count, float *dst) {
    enum dtype dtype = w->dtype;
    while (decoders && !decoders->blocks[dtype] && !decoders->rows[dtype])
        decoders = decoders->others;
    if (!decoders)
        view_decode(w, row, column, count, dst);
    else if (decoders->blocks[dtype])
        decoders->blocks[dtype](cpu_weights(w, dtype_get(dtype), row, column), count, dst);
    else
        decoders->rows[dtype](w, row, column, count, dst);
}

/* Rows and columns of a matrix that are decoded together. */
struct cpu_place {
    size_t row, rows, column, columns;
};
/* An item, walked block by block: columns outside, so that all its rows meet the same part of x
 * while that is near; rows inside. */
struct cpu_walk {
    const struct cpu_product *task;
    size_t first, count;  /* rows of the item */
    size_t rows, columns; /* the most of a block */
};
struct cpu_place cpu_first_block(const struct cpu_walk *walk);
size_t cpu_block_count(const struct cpu_walk *walk);
/* The block after this one; after the last the first of the item that this worker probably does
 * next, without rows if there is none. panels.c. */
struct cpu_place cpu_block_after(const struct cpu_walk *walk, const struct cpu_place *block);
/* How to ask for that place, if it can be done `steps` times. panels.c. */
struct cpu_ahead cpu_ahead_of(const struct view *w, const struct cpu_place *next, size_t steps);

/* A product of an item by task->panels: decodes a block of rows and columns into scratch once, and
 * multiplies it with the tiles of all tokens. panels.c. */
void product_panels(const struct cpu_product *task, size_t first, size_t count, float *scratch);

/* All items, in the team if so many floats are worth it. ops.c. */
void cpu_share_out(struct backend *backend, team_work *work, void *run, size_t items,
                   size_t floats);

/* The functions of the ops table. product.c, attention.c, ops.c, moves.c. */
void cpu_product(struct backend *backend, const struct view *w, const struct act *x, struct act *y,
                 size_t first_row);
void cpu_attention(struct backend *backend, const struct attention_args *args, const struct act *q,
                   struct act *out);
void cpu_embed(struct backend *backend, const struct view *rows, size_t first, float scale,
               struct act *y);
void cpu_rms_norm(struct backend *backend, const struct act *x, const float *weight, size_t group,
                  float eps, struct act *y);
void cpu_centre(struct backend *backend, struct act *y);
void cpu_add(struct backend *backend, const struct act *x, struct act *y);
void cpu_add_bias(struct backend *backend, const float *bias, struct act *y);
void cpu_silu_mul(struct backend *backend, const struct act *gate, struct act *up);
void cpu_gelu_mul(struct backend *backend, const struct act *gate, struct act *up);
void cpu_sigmoid_mul(struct backend *backend, const struct act *gate, struct act *up);
void cpu_delta(struct backend *backend, const struct delta_args *args, struct act *out);
void cpu_scale(struct backend *backend, float scale, float cap, struct act *y);
void cpu_scale_tokens(struct backend *backend, const float *factors, struct act *y);
void cpu_swiglu_clipped(struct backend *backend, const struct act *gate, float alpha, float limit,
                        struct act *up);
void cpu_rope(struct backend *backend, const struct rope_table *table, size_t heads,
              size_t head_dim, struct act *x);
void cpu_kv_write(struct backend *backend, const struct kv_layer *kv, const struct kv_token *tokens,
                  const struct act *k, const struct act *v);
void cpu_select(struct backend *backend, const struct act *x, const uint32_t *columns, size_t count,
                struct act *y);
void cpu_scatter_add(struct backend *backend, const struct act *x, const uint32_t *columns,
                     const float *weights, struct act *y);
void cpu_copy(struct backend *backend, const struct act *x, const struct feature_range *range,
              struct act *y);
void cpu_columns(struct backend *backend, const struct view *w, size_t first, size_t count,
                 float *out);
void cpu_argmax(struct backend *backend, const struct act *x, uint32_t *out);

#endif
