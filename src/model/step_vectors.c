/* Owns the vectors of a model: norms, biases, what gated delta networks have a channel or a head.
 * They are resident as float32, read once, in the form that is computed with. Refuses nothing:
 * model_bind.c has checked their sizes. */
#include "model/step.h"

#include "base/num.h"

#include <string.h>

/* A vector may come with several dimensions. */
static size_t step_vector_count(const struct tensor *tensor) {
    size_t values = 1;
    for (uint32_t i = 0; i < tensor->dims; i++)
        values *= (size_t)tensor->shape[i]; /* model_bind.c has checked the product */
    return values;
}

size_t step_vector_values(const struct model *model) {
    size_t sum = 0;
    size_t count = ((size_t)model->config.layers + 1) * ROLE_COUNT;
    for (size_t i = 0; i < count; i++)
        if (model->vectors[i] != NULL)
            sum += step_vector_count(model->vectors[i]);
    return sum;
}

/* One vector as float32. */
static enum status step_read_vector(const struct model *model, const struct tensor *tensor,
                                    float *values, struct error *err) {
    const struct dtype_info *info = dtype_get(tensor->dtype);
    size_t count = step_vector_count(tensor);
    uint8_t *raw = mem_new((size_t)tensor->bytes, 1);
    if (raw == NULL)
        return error_memory(err, (size_t)tensor->bytes, "a vector of weights");
    enum status status = file_read_at(model->index.files[tensor->file], tensor->offset, raw,
                                      (size_t)tensor->bytes, err);
    if (status == SL_OK)
        info->decode(raw, count, values);
    mem_free(raw);
    return status;
}

/* The convolution's weights [channels, kernel] as [kernel, channels]. */
static enum status step_turn_taps(size_t kernel, size_t count, float *values, struct error *err) {
    size_t channels = count / kernel;
    float *turned = mem_new(count, sizeof *turned);
    if (turned == NULL)
        return error_memory(err, count * sizeof *turned, "the weights of a convolution");
    for (size_t channel = 0; channel < channels; channel++)
        for (size_t tap = 0; tap < kernel; tap++)
            turned[tap * channels + channel] = values[channel * kernel + tap];
    memcpy(values, turned, count * sizeof *turned);
    mem_free(turned);
    return SL_OK;
}

/* What files hold in another form than is computed with. */
static enum status step_prepare_vector(const struct config *config, enum role role, size_t count,
                                       float *values, struct error *err) {
    if (role == ROLE_DELTA_TAPS)
        return step_turn_taps(config->delta.shape.kernel, count, values, err);
    for (size_t i = 0; role_get(role)->is_norm && i < count; i++)
        values[i] += config->norm_offset;
    for (size_t i = 0; role == ROLE_DELTA_RATE && config->delta.has_log_rate && i < count; i++)
        values[i] = -num_exp(values[i]);
    return SL_OK;
}

enum status step_read_vectors(struct step *step, struct error *err) {
    const struct model *model = step->model;
    float *next = step->vector_values;
    size_t count = ((size_t)model->config.layers + 1) * ROLE_COUNT;
    for (size_t i = 0; i < count; i++) {
        const struct tensor *tensor = model->vectors[i];
        if (tensor == NULL)
            continue;
        size_t values = step_vector_count(tensor);
        TRY(step_read_vector(model, tensor, next, err));
        TRY(step_prepare_vector(&model->config, (enum role)(i % ROLE_COUNT), values, next, err));
        step->vectors[i] = next;
        next += values;
    }
    return SL_OK;
}

const float *step_vector(const struct step *step, uint32_t layer, enum role role) {
    must((unsigned)role < ROLE_COUNT);
    must(layer < step->config->layers);
    size_t row = role_get(role)->is_per_layer ? (size_t)layer + 1 : 0;
    return step->vectors[row * ROLE_COUNT + role];
}
