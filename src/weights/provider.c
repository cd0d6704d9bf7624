/* What all providers share: leases as views, counters, and the end. */
#include "weights/provider.h"

void provider_free(struct provider *provider) {
    if (provider != NULL)
        provider->ops->free(provider);
}

struct view lease_view(const struct lease *lease, const struct piece *piece) {
    struct view view = piece->view;
    must(lease->slab != NULL);
    view.data = lease->slab + piece->slab_offset[MATRIX_NUMBERS];
    if (piece->part_count > MATRIX_SCALES)
        view.scales.data = lease->slab + piece->slab_offset[MATRIX_SCALES];
    if (piece->part_count > MATRIX_BIASES)
        view.scales.biases = lease->slab + piece->slab_offset[MATRIX_BIASES];
    return view;
}

void provider_counters(struct provider *provider, struct ring_counters *out) {
    ring_counters_get(provider->ring, out);
}
