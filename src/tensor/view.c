/* Views: decoding whatever the format, and narrowing to some of the rows. Holds no layouts of
 * formats, these are in fmt_*.c. */
#include "tensor/view.h"

static bool is_block_aligned(const struct view *view, size_t first, size_t count) {
    size_t block = dtype_get(view->dtype)->block_values;
    return first % block == 0 && count % block == 0;
}

void view_decode(const struct view *view, size_t row, size_t first, size_t count, float *dst) {
    const struct dtype_info *info = dtype_get(view->dtype);
    must(row < view->rows);
    must(first <= view->columns && count <= view->columns - first);
    must(is_block_aligned(view, first, count));
    if (info->decode_row) {
        info->decode_row(view, row, first, count, dst);
        return;
    }
    must(info->decode != NULL);
    size_t offset = first / info->block_values * info->block_bytes;
    info->decode(view->data + row * view->row_bytes + offset, count, dst);
}

size_t view_scale_rows(size_t group_rows, size_t first, size_t count, size_t *first_scale_row) {
    must(group_rows > 0);
    *first_scale_row = first / group_rows;
    return count == 0 ? 0 : (first + count - 1) / group_rows - *first_scale_row + 1;
}

struct view view_rows(const struct view *view, size_t first, size_t count) {
    must(first <= view->rows && count <= view->rows - first);
    struct view part = *view;
    part.rows = count;
    part.data += first * view->row_bytes;
    if (dtype_get(view->dtype)->decode_row) {
        struct view_scales *scales = &part.scales;
        size_t above = scales->rows_before + first, skipped;
        view_scale_rows(scales->group_rows, above, count, &skipped);
        scales->rows_before = above % scales->group_rows;
        scales->data += skipped * scales->row_bytes;
        if (scales->biases)
            scales->biases += skipped * scales->row_bytes;
    }
    return part;
}
