/* Owns the words and the sums of precision. Refuses to convert, and to choose what is not there. */
#include "plan/precision.h"

#include <stdio.h>
#include <string.h>

static double bits_of(enum dtype dtype) {
    const struct dtype_info *info = dtype_get(dtype);
    return 8.0 * info->block_bytes / info->block_values;
}

enum dtype precision_main(const struct model *model) {
    uint64_t bytes[DTYPE_COUNT];
    enum dtype most = DTYPE_F32;
    model_format_bytes(model, bytes);
    for (unsigned i = 0; i < DTYPE_COUNT; i++)
        if (bytes[i] > bytes[most])
            most = (enum dtype)i;
    return most;
}

/* Whole bits where the scales lie elsewhere, up to one more where they lie with the values. */
bool precision_has(const struct model *model, int bits) {
    enum dtype most = precision_main(model);
    const struct dtype_info *info = dtype_get(most);
    double found = bits_of(most);
    if (bits == 16)
        return most == DTYPE_BF16;
    return info->is_quantised && found >= bits && found <= bits + (info->decode != NULL ? 1 : 0);
}

int precision_asked(const struct settings *settings) {
    if (strcmp(settings->precision, "auto") == 0)
        return 0;
    return strcmp(settings->precision, "bf16") == 0 ? 16 : settings->precision[0] - '0';
}

enum status precision_decide(const struct model *model, const struct settings *settings,
                             struct plan *plan, struct error *err) {
    const struct dtype_info *info = dtype_get(precision_main(model));
    int asked = precision_asked(settings);
    struct buf formats;
    buf_init(&formats);
    model_formats(model, &formats);
    snprintf(plan->precision, sizeof plan->precision, "%.*s", STR_ARG(buf_str(&formats)));
    buf_release(&formats);
    char *reason = plan->precision_reason;
    const size_t room = sizeof plan->precision_reason;
    snprintf(reason, room, "as published, used without rounding");
    if (settings->model_reason != NULL)
        snprintf(reason, room, "%s", settings->model_reason);
    if (asked == 0)
        return SL_OK;
    bool fits = precision_has(model, asked);
    if (!fits && info->is_quantised && bits_of(precision_main(model)) < asked)
        return error_set(err, SL_ERR_USAGE,
                         "--precision %s: the model is %s, and a quantised model is never "
                         "converted upwards",
                         settings->precision, plan->precision);
    if (!fits)
        return error_set(err, SL_ERR_ENV,
                         "--precision %s: the model is %s, nothing is converted, and no such form "
                         "of it lies in SLUICE_HOME/models or the Hugging Face cache",
                         settings->precision, plan->precision);
    if (settings->model_reason == NULL)
        snprintf(reason, room, "as published, which is what --precision %s asks for",
                 settings->precision);
    return SL_OK;
}

bool precision_is_late(const struct model *model, const struct settings *settings,
                       const struct plan *plan) {
    return precision_asked(settings) == 0 && plan->rows.count > 0 &&
           plan->seconds > settings->deadline_hours * 3600 &&
           !dtype_get(precision_main(model))->is_quantised;
}

/* Bytes of a value, scales with it, as q8_0 and the q4 formats have it. */
#define BITS_OF_8 8.5
#define BITS_OF_4 4.5

/* Seconds of the plan, if its weights had so many bits; rows and processor as they are. */
static enum status seconds_with(const struct model *model, const struct plan *plan, double bits,
                                double *seconds, struct error *err) {
    struct plan other = *plan;
    double share = bits / bits_of(precision_main(model));
    share = share < 1 ? share : 1;
    other.cost.read_bytes *= share;
    other.cost.expert_bytes *= share;
    TRY(plan_time(&other, err));
    *seconds = other.seconds;
    return SL_OK;
}

enum status precision_advise(const struct model *model, const struct settings *settings,
                             struct plan *plan, struct error *err) {
    double eight, four;
    TRY(seconds_with(model, plan, BITS_OF_8, &eight, err));
    TRY(seconds_with(model, plan, BITS_OF_4, &four, err));
    struct str name = str_last_part(str_from(model->path));
    snprintf(plan->advice, sizeof plan->advice,
             "That is more than the deadline of %g h. No form of %.*s with fewer bits lies in "
             "SLUICE_HOME/models or the Hugging Face cache: one of 8 bits (GGUF q8_0, MLX or FP8) "
             "would take about %.1f h, one of 4 bits (GGUF q4_1, MLX or MXFP4) about %.1f h, as "
             "far as the processor keeps up.",
             settings->deadline_hours, STR_ARG(name), eight / 3600, four / 3600);
    return SL_OK;
}
