/* Owns `render`: what the model will see of each row, one line of JSON a row, in order, written as
 * soon as it is made. Needs no weights; errors of rows are lines too. Refuses what `run` refuses of
 * the file as a whole, before the first line. */
#include "base/json.h"
#include "job/job.h"
#include "job/notes.h"
#include "job/prompt.h"

#include <errno.h>
#include <string.h>

struct render {
    const struct settings *settings;
    const struct model *model;
    struct rows_file rows;
    struct buf line, text, out;
    struct ids ids;
};

/* Reads and checks the form of the row, for the answer and for the notes. */
static enum status parse(struct render *render, size_t index, struct buf *unknown, struct row *row,
                         struct error *err) {
    uint64_t number = render->rows.lines[index].number;
    enum status status = rows_file_read(&render->rows, index, &render->line, err);
    if (status != SL_OK) {
        if (row_init(row, number, NULL) != SL_OK)
            return error_memory(err, sizeof *row, "a row");
        row->code = "line_too_long";
        return status;
    }
    return row_parse(buf_str(&render->line), number, render->settings, row, unknown, err);
}

static enum status load(struct render *render, size_t index, struct row *row, struct error *err) {
    enum lack lack;
    TRY(parse(render, index, NULL, row, err));
    row->code = "invalid_prompt";
    TRY(job_check_means(render->model, row, &lack, err));
    return prompt_make(render->model, render->settings, row, false, &render->text, &render->ids,
                       err);
}

/* Before the first line: what is wrong with the file as a whole. */
static enum status look_at_rows(struct render *render, struct notes *notes, struct error *err) {
    for (size_t i = 0; i < render->rows.count; i++) {
        struct row row = {0};
        struct error why = {0};
        arena_init(&row.arena);
        enum status status = parse(render, i, &notes->unknown, &row, &why);
        bool is_row = status == SL_OK || status == SL_ERR_ROW;
        if (is_row)
            status = notes_add(notes, i, row.id_json, row.has_lone_surrogates, err);
        else if (err != NULL)
            *err = why;
        row_release(&row);
        TRY(status);
    }
    TRY(notes_check(notes, &render->rows, render->settings, err));
    notes_warn(notes);
    return SL_OK;
}

static void add_answer(struct render *render, const struct row *row) {
    struct buf *out = &render->out;
    buf_add(out, STR("{\"id\": "));
    buf_add(out, row->id_json);
    buf_add(out, STR(", \"text\": "));
    json_add_string(out, buf_str(&render->text));
    buf_add(out, STR(", \"ids\": ["));
    for (size_t i = 0; i < render->ids.count; i++)
        buf_printf(out, i == 0 ? "%u" : ", %u", render->ids.items[i]);
    buf_add(out, STR("]}\n"));
}

static void add_error(struct render *render, const struct row *row, const struct error *why) {
    struct buf *out = &render->out;
    buf_add(out, STR("{\"id\": "));
    buf_add(out, row->id_json);
    buf_add(out, STR(", \"error\": {\"message\": "));
    json_add_string(out, str_from(why->text));
    buf_printf(out, ", \"line\": %llu, \"code\": \"%s\"}}\n", (unsigned long long)row->line,
               row->code);
}

static enum status render_row(struct render *render, size_t index, FILE *out, size_t *errors,
                              struct error *err) {
    struct row row = {0};
    struct error why = {0};
    arena_init(&row.arena);
    enum status status = load(render, index, &row, &why);
    buf_clear(&render->out);
    if (status == SL_OK)
        add_answer(render, &row);
    else if (status == SL_ERR_ROW)
        add_error(render, &row, &why);
    else if (err != NULL)
        *err = why;
    row_release(&row);
    if (status != SL_OK && status != SL_ERR_ROW)
        return status;
    *errors += status == SL_ERR_ROW ? 1 : 0;
    TRY(buf_status(&render->out, "a line of output", err));
    if (fwrite(render->out.data, 1, render->out.len, out) != render->out.len || fflush(out) != 0)
        return errno == EPIPE ? error_set(err, SL_ERR_STOPPED, "%s", "")
                              : error_set(err, SL_ERR_ENV, "standard output: %s", strerror(errno));
    return SL_OK;
}

enum status job_render(const struct settings *settings, const struct model *model, FILE *out,
                       size_t *errors, struct error *err) {
    struct render render = {.settings = settings, .model = model};
    buf_init(&render.line);
    buf_init(&render.text);
    buf_init(&render.out);
    struct notes notes;
    notes_init(&notes);
    *errors = 0;
    enum status status = job_open_rows(settings, &render.rows, err);
    if (status == SL_OK)
        status = look_at_rows(&render, &notes, err);
    notes_release(&notes);
    for (size_t i = 0; status == SL_OK && i < render.rows.count; i++)
        status = render_row(&render, i, out, errors, err);
    rows_file_close(&render.rows);
    buf_release(&render.line);
    buf_release(&render.text);
    buf_release(&render.out);
    ids_release(&render.ids);
    return status;
}
