/* Reads single rows of a matrix by number, without a block: embeddings. Small buffered reads that
 * share nothing, so any thread may call. */
#include "base/mem.h"
#include "weights/provider.h"

enum status rows_read(const struct index *index, const struct tensor *tensor, const uint32_t *rows,
                      size_t count, uint8_t *into, struct error *err) {
    uint64_t row_count = layout_rows(tensor);
    must(row_count > 0);
    must(tensor->file < index->file_count);
    size_t row_bytes = (size_t)(tensor->bytes / row_count), total;
    must(size_mul(row_bytes, count, &total));
    const struct file *file = index->files[tensor->file];
    for (size_t i = 0; i < count; i++) {
        must(rows[i] < row_count);
        uint64_t offset = tensor->offset + (uint64_t)rows[i] * row_bytes;
        enum status status = file_read_at(file, offset, into + i * row_bytes, row_bytes, err);
        if (status != SL_OK)
            return error_prefix(err, "row %u of tensor \"%.*s\"", rows[i], STR_ARG(tensor->name));
    }
    return SL_OK;
}
