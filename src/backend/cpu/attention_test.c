/* Attention: every instruction set against the scalar reference bit for bit, the reference against
 * a plain softmax in double and against values known by hand, and that nothing but a row's own
 * positions matters. */
#include "backend/cpu/parity.h"

enum { POSITIONS = 70, PAGES = 8 };

/* One layer, several tokens of one row whose pages lie scattered in a small pool. */
struct scene {
    struct kv_layer kv;
    uint32_t pages[PAGES];
    struct kv_token tokens[40];
    uint32_t window_pages[40][PAGES]; /* of each token */
    struct attention_args args;
    bool has_sinks, is_run;
    float sinks[32]; /* at least a head */
    struct act q, out;
};

static void put(const struct kv_layer *kv, uint8_t *base, size_t index, float value) {
    uint16_t bits = num_to_bf16(value);
    if (kv->dtype == KV_F32)
        memcpy(base + 4 * index, &value, 4);
    else
        memcpy(base + 2 * index, &bits, 2);
}

static float get(const struct kv_layer *kv, const uint8_t *base, size_t index) {
    float value;
    uint16_t bits;
    if (kv->dtype == KV_F32) {
        memcpy(&value, base + 4 * index, 4);
        return value;
    }
    memcpy(&bits, base + 2 * index, 2);
    return num_from_bf16(bits);
}

static uint8_t *page_of(const struct scene *scene, size_t position) {
    return scene->kv.base + scene->pages[position / SL_PAGE_TOKENS] * scene->kv.page_bytes;
}

/* As kv_view.h has it: keys [kv_heads, head_dim, 16], then values [kv_heads, 16, value_dim]. */
static size_t key_index(const struct kv_layer *kv, size_t head, size_t d, size_t position) {
    return (head * kv->head_dim + d) * SL_PAGE_TOKENS + position % SL_PAGE_TOKENS;
}

static size_t value_index(const struct kv_layer *kv, size_t head, size_t d, size_t position) {
    if (kv->shares_values)
        return key_index(kv, head, d, position);
    return (size_t)kv->kv_heads * kv->head_dim * SL_PAGE_TOKENS +
           (head * SL_PAGE_TOKENS + position % SL_PAGE_TOKENS) * kv->value_dim + d;
}

/* Keys and values of positions [from, to): random numbers, or NaN without a state. */
static void scene_fill(struct scene *scene, size_t from, size_t to, uint64_t *state) {
    const struct kv_layer *kv = &scene->kv;
    for (size_t position = from; position < to; position++) {
        uint8_t *page = page_of(scene, position);
        for (size_t head = 0; head < kv->kv_heads; head++) {
            for (size_t d = 0; d < kv->head_dim; d++)
                put(kv, page, key_index(kv, head, d, position), state ? parity_number(state) : NAN);
            for (size_t d = 0; !kv->shares_values && d < kv->value_dim; d++)
                put(kv, page, value_index(kv, head, d, position),
                    state ? parity_number(state) : NAN);
        }
    }
}

static void scene_poison(struct scene *scene, size_t from) {
    scene_fill(scene, from, PAGES * SL_PAGE_TOKENS, NULL);
}

struct shape {
    enum kv_dtype dtype;
    uint32_t kv_heads, group, head_dim, value_dim, window;
    size_t tokens;
    bool shares_values, has_sinks;
    bool is_run; /* tokens follow each other, as in a prefill; else positions are any */
    bool is_chunked;
};

static struct scene scene_new(const struct shape *shape, uint64_t *state) {
    struct scene scene = {
        .kv = {.dtype = shape->dtype,
               .kv_heads = shape->kv_heads,
               .head_dim = shape->head_dim,
               .value_dim = shape->value_dim,
               .shares_values = shape->shares_values},
        .pages = {3, 7, 0, 5, 1, 6, 2, 4},
        .has_sinks = shape->has_sinks,
        .is_run = shape->is_run,
        .q = parity_act((size_t)shape->kv_heads * shape->group * shape->head_dim, shape->tokens,
                        state),
        .out = parity_act((size_t)shape->kv_heads * shape->group * shape->value_dim, shape->tokens,
                          state),
    };
    scene.kv.page_bytes = kv_layer_bytes(shape->dtype, shape->kv_heads, shape->head_dim,
                                         shape->shares_values ? 0 : shape->value_dim) +
                          6;
    scene.kv.base = test_malloc(PAGES * scene.kv.page_bytes);
    scene.args = (struct attention_args){.heads = shape->kv_heads * shape->group,
                                         .scale = 3.0f / sqrtf((float)shape->head_dim),
                                         .window = shape->window,
                                         .is_chunked = shape->is_chunked};
    for (size_t i = 0; i < 32; i++)
        scene.sinks[i] = 4.0f * parity_number(state);
    scene_fill(&scene, 0, POSITIONS, state);
    scene_poison(&scene, POSITIONS);
    size_t start = parity_below(state, POSITIONS - shape->tokens + 1);
    for (size_t t = 0; t < shape->tokens; t++)
        scene.tokens[t].position =
            (uint32_t)(shape->is_run ? start + t : parity_below(state, POSITIONS));
    return scene;
}

static void scene_free(struct scene *scene) {
    test_free(scene->kv.base);
    act_release(&scene->q);
    act_release(&scene->out);
}

/* With a window, the pages that a token does not see have no number that could be followed. The
 * tokens of a run share their list, as those of a row do: pages that any of them sees. */
static void attend(struct backend *backend, struct scene *scene, struct act *out) {
    size_t window = scene->args.window;
    scene->kv.is_windowed = window > 0;
    memset(scene->window_pages, 0xFF, sizeof scene->window_pages);
    for (size_t t = 0; t < scene->q.tokens; t++) {
        struct kv_token *token = &scene->tokens[t];
        uint32_t *window_pages = scene->window_pages[scene->is_run ? 0 : t];
        token->pages = window > 0 ? NULL : scene->pages;
        token->window_pages = window > 0 ? window_pages : NULL;
        for (size_t page = 0; page <= token->position / SL_PAGE_TOKENS; page++)
            if (SL_PAGE_TOKENS * (page + 1) + window > token->position + 1)
                window_pages[page] = scene->pages[page];
    }
    scene->args.kv = &scene->kv;
    scene->args.sinks = scene->has_sinks ? scene->sinks : NULL;
    scene->args.tokens = scene->tokens;
    backend->ops->attention(backend, &scene->args, &scene->q, out);
}

static const uint32_t dims[] = {1, 3, 8, 20, 64, 80, 128, 300};

static struct shape random_shape(uint64_t *state) {
    static const uint32_t windows[] = {0, 1, 5, 16, 33, 200};
    struct shape shape = {
        .dtype = parity_below(state, 2) ? KV_BF16 : KV_F32,
        .kv_heads = 1 + (uint32_t)parity_below(state, 3),
        .group = 1 + (uint32_t)parity_below(state, 9),
        .head_dim = dims[parity_below(state, 8)],
        .value_dim = dims[parity_below(state, 8)],
        .window = windows[parity_below(state, 6)],
        .tokens = 1 + parity_below(state, 5) * parity_below(state, 9),
        .shares_values = parity_below(state, 3) == 0,
        .has_sinks = parity_below(state, 2) == 0,
        .is_run = parity_below(state, 2) == 0,
        .is_chunked = parity_below(state, 3) == 0,
    };
    if (shape.shares_values && shape.value_dim > shape.head_dim)
        shape.value_dim = shape.head_dim;
    return shape;
}

static void compare_ordinary(const struct cpu_kernels *set) {
    uint64_t state = 11;
    struct backend *scalar = parity_backend("scalar", 1), *vector = parity_backend(set->isa, 2);
    for (int i = 0; i < 40; i++) {
        struct shape shape = random_shape(&state);
        struct scene scene = scene_new(&shape, &state);
        scene.args.cap = i % 3 == 0 ? 2.5f : 0.0f;
        struct act other = parity_act(scene.out.features, shape.tokens, &state);
        attend(scalar, &scene, &scene.out);
        attend(vector, &scene, &other);
        for (size_t f = 0; f < other.features; f++) /* no garbage came in */
            assert_true(*act_at(&other, f, 0) == *act_at(&other, f, 0));
        parity_assert_acts(&scene.out, &other, "attention");
        act_release(&other);
        scene_free(&scene);
    }
    parity_backend_free(scalar);
    parity_backend_free(vector);
}

static void attention_of_every_set_has_the_bits_of_scalar(void **test) {
    (void)test;
    parity_each_set(compare_ordinary);
}

static void compare_special(const struct cpu_kernels *set) {
    uint64_t state = 12;
    struct backend *scalar = parity_backend("scalar", 1), *vector = parity_backend(set->isa, 1);
    for (int i = 0; i < 20; i++) {
        struct shape shape = random_shape(&state);
        struct scene scene = scene_new(&shape, &state);
        struct act other = parity_act(scene.out.features, shape.tokens, &state);
        parity_fill(&scene.q, parity_special, &state);
        scene.args.scale = i % 2 ? 1.0f : 300.0f; /* shares of 0 and 1 */
        scene.args.cap = i % 5 == 0 ? 30.0f : 0.0f;
        for (int n = 0; n < 3; n++)
            put(&scene.kv, page_of(&scene, parity_below(&state, POSITIONS)),
                parity_below(&state, 16), parity_below(&state, 2) ? NAN : -INFINITY);
        attend(scalar, &scene, &scene.out);
        attend(vector, &scene, &other);
        parity_assert_acts(&scene.out, &other, "special");
        act_release(&other);
        scene_free(&scene);
    }
    parity_backend_free(scalar);
    parity_backend_free(vector);
}

static void attention_agrees_on_nan_infinity_and_huge_scores(void **test) {
    (void)test;
    parity_each_set(compare_special);
}

/* softmax(scale q K) V in double over positions max(0, p - window + 1) .. p, or those of the chunk
 * of `window` positions that p is in. */
static double naive(const struct scene *scene, size_t token, size_t head, size_t d) {
    const struct kv_layer *kv = &scene->kv;
    size_t position = scene->tokens[token].position, from = 0;
    size_t kv_head = head / (scene->args.heads / kv->kv_heads);
    if (scene->args.window != 0 && position + 1 > scene->args.window)
        from = position + 1 - scene->args.window;
    if (scene->args.window != 0 && scene->args.is_chunked)
        from = position - position % scene->args.window;
    double scores[POSITIONS], largest = -INFINITY, sum = 0, out = 0;
    for (size_t p = from; p <= position; p++) {
        scores[p] = 0;
        for (size_t i = 0; i < kv->head_dim; i++)
            scores[p] += (double)*act_at(&scene->q, head * kv->head_dim + i, token) *
                         (double)get(kv, page_of(scene, p), key_index(kv, kv_head, i, p));
        scores[p] *= (double)scene->args.scale;
        if (scene->args.cap != 0.0f)
            scores[p] = (double)scene->args.cap * tanh(scores[p] / (double)scene->args.cap);
        largest = scores[p] > largest ? scores[p] : largest;
    }
    if (scene->has_sinks) {
        double sink = (double)scene->sinks[head];
        largest = sink > largest ? sink : largest;
        sum = exp(sink - largest);
    }
    for (size_t p = from; p <= position; p++) {
        double share = exp(scores[p] - largest);
        sum += share;
        out += share * (double)get(kv, page_of(scene, p), value_index(kv, kv_head, d, p));
    }
    return out / sum;
}

/* Values are at most 1. Scores of magnitude below 60 carry an error of some 2^-18, which is the
 * relative error of a share; 2^-15 leaves room for the sums. */
static void attention_is_near_the_softmax_in_double(void **test) {
    (void)test;
    uint64_t state = 13;
    struct backend *backend = parity_backend(NULL, 2);
    for (int i = 0; i < 30; i++) {
        struct shape shape = random_shape(&state);
        shape.tokens = 1 + parity_below(&state, 4);
        struct scene scene = scene_new(&shape, &state);
        scene.args.cap = i % 2 == 0 ? 2.5f : 0.0f;
        attend(backend, &scene, &scene.out);
        for (size_t t = 0; t < shape.tokens; t++)
            for (size_t head = 0; head < scene.args.heads; head++)
                for (size_t d = 0; d < shape.value_dim; d += 7) {
                    double got = (double)*act_at(&scene.out, head * shape.value_dim + d, t);
                    assert_true(fabs(naive(&scene, t, head, d) - got) <= 0x1p-15);
                }
        scene_free(&scene);
    }
    parity_backend_free(backend);
}

/* By hand: a query of zeros weighs all positions alike, so the output is the mean of the values. */
static void equal_scores_give_the_mean_of_the_window(void **test) {
    (void)test;
    uint64_t state = 14;
    struct backend *backend = parity_backend(NULL, 1);
    struct shape shape = {
        .dtype = KV_F32, .kv_heads = 2, .group = 3, .head_dim = 64, .value_dim = 8, .tokens = 1};
    struct scene scene = scene_new(&shape, &state);
    memset(scene.q.data, 0, act_floats(scene.q.features, 1) * sizeof(float));
    for (size_t p = 0; p < POSITIONS; p++)
        for (size_t head = 0; head < 2; head++)
            for (size_t d = 0; d < 8; d++)
                put(&scene.kv, page_of(&scene, p), value_index(&scene.kv, head, d, p),
                    (float)p + 100.0f * (float)head);
    scene.tokens[0].position = 31; /* 0 .. 31: mean 15.5 */
    attend(backend, &scene, &scene.out);
    assert_true(*act_at(&scene.out, 0, 0) == 15.5f);
    assert_true(*act_at(&scene.out, 3 * 8, 0) == 115.5f); /* the second key/value head */
    scene.args.window = 4;                                /* 28 .. 31: mean 29.5 */
    attend(backend, &scene, &scene.out);
    assert_true(*act_at(&scene.out, 7, 0) == 29.5f);
    scene.args.is_chunked = true; /* 28 .. 31 is a chunk; 30 sees 28 .. 30 of it: mean 29 */
    attend(backend, &scene, &scene.out);
    assert_true(*act_at(&scene.out, 7, 0) == 29.5f);
    scene.tokens[0].position = 30;
    attend(backend, &scene, &scene.out);
    assert_true(*act_at(&scene.out, 7, 0) == 29.0f);
    scene.tokens[0].position = 31;
    scene.args.is_chunked = false;
    scene.has_sinks = true; /* scores of 0 beside a sink of 0: four shares of a fifth */
    memset(scene.sinks, 0, sizeof scene.sinks);
    attend(backend, &scene, &scene.out);
    assert_true(fabsf(*act_at(&scene.out, 7, 0) - 29.5f * 0.8f) <= 29.5f * 0x1p-21f);
    scene.sinks[0] = 1e30f; /* takes it all */
    attend(backend, &scene, &scene.out);
    assert_true(*act_at(&scene.out, 7, 0) == 0.0f);
    scene.has_sinks = false;
    scene.tokens[0].position = 0; /* one position: its value */
    attend(backend, &scene, &scene.out);
    assert_true(*act_at(&scene.out, 5 * 8 + 7, 0) == 100.0f);
    scene_free(&scene);
    parity_backend_free(backend);
}

/* A token in a pass of many against the same token alone, with NaN after its own position. */
static void bits_do_not_depend_on_company_threads_and_later_positions(void **test) {
    (void)test;
    uint64_t state = 15;
    struct backend *team = parity_backend(NULL, 4), *one = parity_backend(NULL, 1);
    for (int i = 0; i < 12; i++) {
        struct shape shape = random_shape(&state);
        shape.tokens = 1 + parity_below(&state, 40);
        struct scene scene = scene_new(&shape, &state);
        attend(team, &scene, &scene.out);
        size_t token = parity_below(&state, shape.tokens);
        struct act q = parity_act(scene.q.features, 1, &state);
        struct act out = parity_act(scene.out.features, 1, &state);
        for (size_t f = 0; f < q.features; f++)
            *act_at(&q, f, 0) = *act_at(&scene.q, f, token);
        struct kv_token alone = scene.tokens[token];
        struct attention_args args = scene.args;
        args.tokens = &alone;
        scene_poison(&scene, alone.position + 1);
        one->ops->attention(one, &args, &q, &out);
        for (size_t f = 0; f < out.features; f++) {
            assert_true(*act_at(&out, f, 0) == *act_at(&out, f, 0));
            assert_true(parity_same(*act_at(&scene.out, f, token), *act_at(&out, f, 0)));
        }
        act_release(&q);
        act_release(&out);
        scene_free(&scene);
    }
    parity_backend_free(team);
    parity_backend_free(one);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_of_every_set_has_the_bits_of_scalar),
        cmocka_unit_test(attention_agrees_on_nan_infinity_and_huge_scores),
        cmocka_unit_test(attention_is_near_the_softmax_in_double),
        cmocka_unit_test(equal_scores_give_the_mean_of_the_window),
        cmocka_unit_test(bits_do_not_depend_on_company_threads_and_later_positions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
