/* Decides about the output head (CASES 31): its own, or the embedding. Reads no weights but the few
 * rows that tell a head from a copy of the embedding. */
#include "base/log.h"
#include "model/model_files.h"

#include <string.h>

#define COMPARED_ROWS 64u /* of an output head and the embedding it is declared tied to */

/* Whether rows of head and embedding that lie evenly over both hold the same bytes. */
static enum status head_same_rows(const struct model *model, const struct matrix *head,
                                  const struct matrix *embed, bool *is_same, struct error *err) {
    *is_same = false;
    size_t row_bytes = matrix_gather_row_bytes(head), bytes;
    if (head->dtype != embed->dtype || row_bytes != matrix_gather_row_bytes(embed))
        return SL_OK;
    uint32_t rows = model->config.vocabulary;
    uint32_t count = rows < COMPARED_ROWS ? rows : COMPARED_ROWS;
    uint8_t *both = size_mul(row_bytes, 2, &bytes) ? mem_new(bytes, 1) : NULL;
    if (both == NULL)
        return error_memory(err, 2 * row_bytes, "two rows of the output head");
    enum status status = SL_OK;
    *is_same = true;
    for (uint32_t i = 0; i < count && status == SL_OK && *is_same; i++) {
        uint32_t row = (uint32_t)((uint64_t)i * rows / count);
        struct view view;
        status = matrix_gather(&model->index, head, &row, 1, both, &view, err);
        if (status == SL_OK)
            status = matrix_gather(&model->index, embed, &row, 1, both + row_bytes, &view, err);
        *is_same = status == SL_OK && memcmp(both, both + row_bytes, row_bytes) == 0;
    }
    mem_free(both);
    return status;
}

/* A head in the file is used, declared tied or not: if it is a copy of the embedding nothing
 * changes, and if it differs the declaration is wrong. */
enum status model_bind_head(struct model *model, bool is_folder, struct error *err) {
    const struct matrix *head = model->matrices[ROLE_HEAD];
    model->has_own_head = head != NULL;
    if (!is_folder)
        return SL_OK; /* GGUF declares nothing: no output.weight means tied */
    if (head == NULL && !model->config.ties_embeddings)
        log_warning("%s: there is no lm_head.weight although the config does not tie it to the "
                    "embedding; the embedding is used",
                    model->path);
    if (head != NULL && model->config.ties_embeddings) {
        bool is_same = false;
        TRY(head_same_rows(model, head, model->matrices[ROLE_EMBED], &is_same, err));
        if (!is_same)
            log_warning("%s: lm_head.weight differs from the embedding although the config ties "
                        "them; lm_head.weight is used",
                        model->path);
    }
    return SL_OK;
}
