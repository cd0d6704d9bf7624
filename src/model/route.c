/* The rules by which a token's experts are chosen. Facts from the published code: transformers'
 * modeling_mixtral.py, modeling_qwen2_moe.py, modeling_gpt_oss.py, modeling_llama4.py and
 * DeepSeek-V3's inference code.
 * Everything is float32 in the order of the experts' numbers, with base/num.h's exp. */
#include "model/route.h"

#include "base/num.h"

#define ROUTE_LAST (-3.0e38f) /* the key of what is not a number */

/* x = softmax(x): exponentials of the distance to the largest, summed in order. */
static void route_softmax(float *x, size_t count) {
    float largest = -INFINITY, sum = 0.0f;
    for (size_t i = 0; i < count; i++)
        largest = x[i] > largest ? x[i] : largest;
    for (size_t i = 0; i < count; i++) {
        x[i] = num_exp(x[i] - largest);
        sum += x[i];
    }
    for (size_t i = 0; i < count; i++)
        x[i] /= sum;
}

/* The number of the largest key, ties to the lowest, which then holds minus infinity: taken. At
 * least one is left. */
static uint32_t route_take(float *keys, size_t count) {
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (keys[i] > keys[best])
            best = i;
    must(keys[best] > -INFINITY);
    keys[best] = -INFINITY;
    return (uint32_t)best;
}

/* Of a group, its largest key, and for DeepSeek-V3's sigmoids the sum of its two largest. */
static float route_group_score(const struct mixture *mixture, const float *keys, size_t count) {
    float first = -INFINITY, second = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        float key = keys[i];
        if (key > first) {
            second = first;
            first = key;
        } else if (key > second) {
            second = key;
        }
    }
    return mixture->score == MIXTURE_SOFTMAX ? first : first + second;
}

/* Leaves the keys of the best groups, and minus infinity in the others. */
static void route_mask_groups(const struct mixture *mixture, float *keys, float *groups) {
    size_t size = mixture->count / mixture->groups;
    for (size_t g = 0; g < mixture->groups; g++) {
        float score = route_group_score(mixture, keys + g * size, size);
        groups[g] = score > -INFINITY ? score : ROUTE_LAST;
    }
    for (size_t g = 0; g < mixture->groups_used; g++)
        route_take(groups, mixture->groups);
    for (size_t g = 0; g < mixture->groups; g++)
        for (size_t i = 0; groups[g] > -INFINITY && i < size; i++)
            keys[g * size + i] = -INFINITY;
}

void route_choose(const struct mixture *mixture, float *x, const float *correction, float *scratch,
                  uint32_t *experts, float *weights) {
    size_t count = mixture->count;
    float *keys = scratch, sum = mixture->score == MIXTURE_SIGMOID ? 1e-20f : 0.0f;
    if (mixture->score == MIXTURE_SOFTMAX)
        route_softmax(x, count);
    for (size_t i = 0; i < count; i++) {
        if (mixture->score == MIXTURE_SIGMOID)
            x[i] = num_sigmoid(x[i]);
        keys[i] = correction != NULL ? x[i] + correction[i] : x[i];
        if (!(keys[i] >= ROUTE_LAST))
            keys[i] = ROUTE_LAST;
    }
    if (mixture->groups > 1)
        route_mask_groups(mixture, keys, scratch + count);
    for (size_t i = 0; i < mixture->used; i++) {
        experts[i] = route_take(keys, count);
        weights[i] = x[experts[i]];
        if (mixture->score == MIXTURE_SIGMOID_CHOSEN)
            weights[i] = num_sigmoid(weights[i]);
    }
    if (mixture->score == MIXTURE_SOFTMAX_CHOSEN)
        route_softmax(weights, mixture->used);
    if (mixture->sums_to_one) {
        for (size_t i = 0; i < mixture->used; i++)
            sum += weights[i];
        for (size_t i = 0; i < mixture->used; i++)
            weights[i] /= sum;
    }
    for (size_t i = 0; i < mixture->used; i++)
        weights[i] *= mixture->scale;
}
