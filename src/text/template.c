/* The template interpreter's front: parsing into a sealed arena, rendering with fresh state. Owns
 * the lifetime of both; a failed rendering leaves the output as it was. */
#include "text/template.h"

#include "text/template_tree.h"

#include <string.h>

enum status template_parse(struct str source, const char *name, struct template **out,
                           struct error *err) {
    struct template *template = mem_new(1, sizeof *template);
    size_t name_len = strlen(name);
    if (template == NULL)
        return error_memory(err, sizeof *template, "a template");
    arena_init(&template->arena);
    map_init(&template->symbols);
    struct parser *parser = mem_new(1, sizeof *parser);
    char *own_name = arena_take(&template->arena, name_len + 1);
    enum status status = SL_OK;
    if (parser == NULL || own_name == NULL) {
        status = error_memory(err, sizeof *parser, "a template");
        goto out;
    }
    memcpy(own_name, name, name_len);
    template->name = own_name;
    parser->template = template;
    parser->err = err;
    status = lex_init(&parser->lexer, source, own_name, &template->arena, err);
    template->source = parser->lexer.source;
    if (status == SL_OK)
        status = parse_template(parser);
out:
    mem_free(parser);
    if (status != SL_OK) {
        template_free(template);
        return status;
    }
    arena_seal(&template->arena);
    *out = template;
    return SL_OK;
}

void template_free(struct template *template) {
    if (template == NULL)
        return;
    map_release(&template->symbols);
    mem_free(template->symbol_names);
    arena_release(&template->arena);
    mem_free(template);
}

static enum status render_body(struct render *render) {
    void *memory;
    TRY(value_take(render, render->template->symbol_count * sizeof(struct value), &memory));
    render->root = memory;
    TRY(value_take(render, sizeof(struct scope), &memory));
    render->scope = render->root_scope = memory;
    return exec_body(render, render->template->body);
}

enum status template_render(const struct template *template, const struct template_input *input,
                            struct buf *out, struct error *err) {
    struct error unheard;
    struct render render = {.template = template,
                            .input = input,
                            .out = out,
                            .out_start = out->len,
                            .steps_left = SL_TEMPLATE_STEPS_MAX,
                            .err = err == NULL ? &unheard : err};
    arena_init(&render.arena);
    buf_init(&render.scratch);
    enum status status = render_body(&render);
    if (status == SL_OK)
        status = buf_status(out, "a prompt's text", err);
    if (status != SL_OK) {
        out->len = render.out_start;
        if (out->data != NULL)
            out->data[out->len] = '\0';
    }
    buf_release(&render.scratch);
    arena_release(&render.arena);
    return status;
}

bool template_takes_parts(const struct template *template) {
    return template->takes_parts;
}
