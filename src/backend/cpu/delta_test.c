/* Tests of gated delta networks: every set's bits against the scalar reference's, and the reference
 * against the published recurrence in double. */
#include "backend/cpu/delta.h"
#include "backend/cpu/parity.h"

#include <math.h>
#include <stdlib.h>

enum { ROWS = 5, TOKENS = 45 };

/* A network, some rows of a pass, and their states. */
struct net {
    struct delta_args args;
    struct act in, gates, out;
    struct kv_token tokens[TOKENS];
    struct kv_run runs[ROWS];
    float *taps, *rate, *bias, *norm;
    float *states; /* [ROWS, state] */
    size_t state_floats, token_count;
};

static float *random_floats(size_t count, float low, float high, uint64_t *state) {
    float *values = aligned_alloc(64, (count * sizeof *values + 63) / 64 * 64);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++)
        values[i] = low + (high - low) * 0.5f * (1.0f + parity_number(state));
    return values;
}

/* Rows of `counts` tokens, from position `first` on (their states are then random). Has all inputs
 * together as Qwen3-Next has them, or q, k and v one after the other. */
static struct net net_new(struct delta_shape shape, const size_t counts[ROWS], uint32_t first,
                          bool is_together) {
    uint64_t state = 77 + shape.value_dim;
    struct net net = {.args.shape = shape};
    size_t channels = delta_channels(&shape), dim = shape.value_dim, key = shape.key_dim;
    size_t group = shape.value_heads / shape.key_heads, heads = shape.value_heads;
    for (size_t row = 0; row < ROWS; row++) {
        net.runs[row] = (struct kv_run){net.token_count, counts[row]};
        for (size_t i = 0; i < counts[row]; i++)
            net.tokens[net.token_count++] = (struct kv_token){
                .position = row % 2 == 0 ? first + (uint32_t)i : (uint32_t)i,
                .state = (uint32_t)(ROWS - 1 - row),
            };
    }
    net.in = parity_act(channels + heads * dim, net.token_count, &state);
    net.gates = parity_act(2 * heads, net.token_count, &state);
    net.out = parity_act(heads * dim, net.token_count, &state);
    net.taps = random_floats(channels * shape.kernel, -1, 1, &state);
    net.rate = random_floats(heads, -2, 0, &state);
    net.bias = random_floats(heads, -3, 3, &state);
    net.norm = random_floats(dim, 0.5f, 1.5f, &state);
    net.state_floats = delta_state_floats(&shape);
    net.states = random_floats(ROWS * net.state_floats, -1, 1, &state);
    struct delta_args *args = &net.args;
    size_t keys = shape.key_heads * key, all = 2 * key + 2 * group * dim;
    args->q = (struct delta_place){&net.in, 0, is_together ? all : key};
    args->k = (struct delta_place){&net.in, is_together ? key : keys, args->q.step};
    args->v = (struct delta_place){&net.in, 2 * (is_together ? key : keys),
                                   is_together ? all : group * dim};
    args->z =
        (struct delta_place){&net.in, is_together ? 2 * key + group * dim : channels, args->v.step};
    args->b = (struct delta_place){&net.gates, 0, 2 * group};
    args->a = (struct delta_place){&net.gates, group, 2 * group};
    args->taps = net.taps;
    args->rate = net.rate;
    args->bias = net.bias;
    args->norm = net.norm;
    args->eps = 1e-6f;
    args->run_count = ROWS;
    args->state_bytes = net.state_floats * sizeof(float);
    return net;
}

/* Pointers into the net itself, which may have moved. */
static void net_run(struct net *net, struct backend *backend) {
    struct delta_args args = net->args;
    args.q.act = args.k.act = args.v.act = args.z.act = &net->in;
    args.a.act = args.b.act = &net->gates;
    args.tokens = net->tokens;
    args.runs = net->runs;
    args.states = (uint8_t *)net->states;
    backend->ops->delta(backend, &args, &net->out);
}

static void net_free(struct net *net) {
    act_release(&net->in);
    act_release(&net->gates);
    act_release(&net->out);
    free(net->taps);
    free(net->rate);
    free(net->bias);
    free(net->norm);
    free(net->states);
}

static const struct delta_shape shapes[] = {
    {.key_heads = 2, .value_heads = 4, .key_dim = 16, .value_dim = 16, .kernel = 4},
    {.key_heads = 1, .value_heads = 3, .key_dim = 24, .value_dim = 40, .kernel = 3},
    {.key_heads = 2,
     .value_heads = 4,
     .key_dim = 128,
     .value_dim = 128,
     .kernel = 4,
     .is_tiled = 1},
    {.key_heads = 3, .value_heads = 3, .key_dim = 1, .value_dim = 1, .kernel = 1},
    {.key_heads = 1, .value_heads = 2, .key_dim = 256, .value_dim = 256, .kernel = 8},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };
static const size_t mixed[ROWS] = {1, 20, 2, 19, 3};

/* What is kept; not what fills tiles up. */
static bool is_kept(const struct delta_shape *shape, size_t at) {
    size_t tail = delta_tail_floats(shape), whole = shape->value_dim / DELTA_BLOCK * DELTA_BLOCK;
    if (at < tail)
        return at < (shape->kernel - 1) * delta_channels(shape);
    at = (at - tail) % delta_head_floats(shape);
    if (at < whole * shape->key_dim)
        return true;
    size_t rest = shape->value_dim - whole, width = act_tiles(rest) * SL_LANES;
    return rest > 0 && (at - whole * shape->key_dim) % width < rest;
}

static void assert_states(const struct net *a, const struct net *b, const char *what) {
    for (size_t i = 0; i < ROWS * a->state_floats; i++)
        if (is_kept(&a->args.shape, i % a->state_floats) &&
            !parity_same(a->states[i], b->states[i]))
            fail_msg("%s: state %zu is %g, not %g", what, i, (double)a->states[i],
                     (double)b->states[i]);
}

static void check_set(const struct cpu_kernels *set) {
    for (size_t i = 0; i < 2 * SHAPES; i++) {
        struct backend *one = parity_backend("scalar", 1), *other = parity_backend(set->isa, 3);
        bool is_together = i % 2 == 0;
        struct net a = net_new(shapes[i / 2], mixed, 7, is_together);
        struct net b = net_new(shapes[i / 2], mixed, 7, is_together);
        if (i == 1) /* NaN, infinities, subnormal numbers */
            for (size_t f = 0; f < act_floats(a.in.features, a.in.tokens); f++) {
                uint64_t state = 99 + f * 7919;
                a.in.data[f] = b.in.data[f] = parity_special(&state);
            }
        net_run(&a, one);
        net_run(&b, other);
        parity_assert_acts(&a.out, &b.out, set->isa);
        assert_states(&a, &b, set->isa);
        net_free(&a);
        net_free(&b);
        parity_backend_free(one);
        parity_backend_free(other);
    }
}

static void delta_sets_give_the_reference_bits(void **state) {
    (void)state;
    parity_each_set(check_set);
}

/* The same tokens of a row in passes of `each`. */
static void run_in_passes(const struct net *all, struct backend *backend, size_t each,
                          struct net *whole) {
    static const size_t none[ROWS] = {1, 1, 1, 1, 1};
    size_t tokens = all->runs[1].count, first = all->runs[1].first;
    for (size_t done = 0; done < tokens; done += each) {
        struct net part = net_new(all->args.shape, none, 0, true);
        size_t count = tokens - done < each ? tokens - done : each;
        act_release(&part.in);
        act_release(&part.gates);
        act_release(&part.out);
        uint64_t state = 1;
        part.in = parity_act(all->in.features, count, &state);
        part.gates = parity_act(all->gates.features, count, &state);
        part.out = parity_act(all->out.features, count, &state);
        for (size_t t = 0; t < count; t++) {
            for (size_t f = 0; f < all->in.features; f++)
                *act_at(&part.in, f, t) = *act_at(&all->in, f, first + done + t);
            for (size_t f = 0; f < all->gates.features; f++)
                *act_at(&part.gates, f, t) = *act_at(&all->gates, f, first + done + t);
            part.tokens[t] = all->tokens[first + done + t];
        }
        part.runs[0] = (struct kv_run){0, count};
        part.args.run_count = 1;
        part.args.taps = all->taps;
        part.args.rate = all->rate;
        part.args.bias = all->bias;
        part.args.norm = all->norm;
        free(part.states);
        part.states = whole->states;
        net_run(&part, backend);
        for (size_t t = 0; t < count; t++)
            for (size_t f = 0; f < all->out.features; f++)
                *act_at(&whole->out, f, first + done + t) = *act_at(&part.out, f, t);
        part.states = NULL;
        net_free(&part);
    }
}

static void delta_of_a_row_does_not_depend_on_how_it_is_cut(void **state) {
    (void)state;
    struct backend *backend = parity_backend(NULL, 2);
    for (size_t each = 1; each <= 7; each++) {
        struct net whole = net_new(shapes[1], mixed, 0, true);
        struct net cut = net_new(shapes[1], mixed, 0, true);
        net_run(&whole, backend);
        run_in_passes(&whole, backend, each, &cut);
        for (size_t t = whole.runs[1].first; t < whole.runs[1].first + whole.runs[1].count; t++)
            for (size_t f = 0; f < whole.out.features; f++)
                assert_true(parity_same(*act_at(&whole.out, f, t), *act_at(&cut.out, f, t)));
        net_free(&whole);
        net_free(&cut);
    }
    parity_backend_free(backend);
}

/* One value head of a row from its first token on, by the formulas of transformers'
 * modeling_qwen3_next.py (torch_recurrent_gated_delta_rule and what surrounds it). */
static void expect_row(const struct net *net, size_t row, size_t head) {
    const struct delta_shape *shape = &net->args.shape;
    size_t key = shape->key_dim, dim = shape->value_dim, channels = delta_channels(shape);
    size_t group = shape->value_heads / shape->key_heads, g = head / group, in = head % group;
    size_t first = net->runs[row].first, all = 2 * key + 2 * group * dim;
    size_t features[3] = {g * all, g * all + key, g * all + 2 * key + in * dim};
    size_t at[3] = {g * key, (shape->key_heads + g) * key, 2 * shape->key_heads * key + head * dim};
    double matrix[64][64] = {{0}}, x[3][64];
    for (size_t t = 0; t < net->runs[row].count; t++) {
        for (size_t p = 0; p < 3; p++) {
            double squares = 0;
            for (size_t c = 0; c < (p < 2 ? key : dim); c++) {
                double sum = 0;
                for (size_t tap = 0; tap < shape->kernel; tap++)
                    if (t + tap + 1 >= shape->kernel)
                        sum += (double)net->taps[tap * channels + at[p] + c] *
                               (double)*act_at(&net->in, features[p] + c,
                                               first + t + tap + 1 - shape->kernel);
                x[p][c] = sum / (1 + exp(-sum));
                squares += x[p][c] * x[p][c];
            }
            for (size_t c = 0; p < 2 && c < key; c++)
                x[p][c] /= sqrt(squares + 1e-6) * (p == 0 ? sqrt((double)key) : 1);
        }
        double a = (double)*act_at(&net->gates, g * 2 * group + group + in, first + t);
        double b = (double)*act_at(&net->gates, g * 2 * group + in, first + t);
        double decay = exp((double)net->rate[head] * log1p(exp(a + (double)net->bias[head])));
        double squares = 0, out[64];
        for (size_t v = 0; v < dim; v++) {
            double read = 0;
            out[v] = 0;
            for (size_t d = 0; d < key; d++)
                read += (matrix[d][v] *= decay) * x[1][d];
            for (size_t d = 0; d < key; d++) {
                matrix[d][v] += x[1][d] * (x[2][v] - read) / (1 + exp(-b));
                out[v] += matrix[d][v] * x[0][d];
            }
            squares += out[v] * out[v];
        }
        for (size_t v = 0; v < dim; v++) {
            double z = (double)*act_at(&net->in, features[2] + group * dim + v, first + t);
            double wanted = out[v] / sqrt(squares / (double)dim + 1e-6) * (double)net->norm[v] * z /
                            (1 + exp(-z));
            double found = (double)*act_at(&net->out, head * dim + v, first + t);
            if (!(fabs(wanted - found) < 2e-5)) /* 20 tokens of float32, outputs of size 1 */
                fail_msg("row %zu token %zu head %zu: %g, not %g", row, t, head, found, wanted);
        }
    }
}

static void delta_of_new_rows_is_the_published_recurrence(void **state) {
    (void)state;
    struct backend *backend = parity_backend("scalar", 1);
    for (size_t i = 0; i < 2; i++) {
        struct net net = net_new(shapes[i], mixed, 0, true);
        net_run(&net, backend);
        for (size_t row = 0; row < ROWS; row++)
            for (size_t head = 0; head < shapes[i].value_heads; head++)
                expect_row(&net, row, head);
        net_free(&net);
    }
    parity_backend_free(backend);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delta_sets_give_the_reference_bits),
        cmocka_unit_test(delta_of_a_row_does_not_depend_on_how_it_is_cut),
        cmocka_unit_test(delta_of_new_rows_is_the_published_recurrence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
