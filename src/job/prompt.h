/* From a row to the ids that the model sees: template and tokenizer. Used by run, plan and render
 * alike. Any thread. */
#ifndef SLUICE_JOB_PROMPT_H
#define SLUICE_JOB_PROMPT_H

#include "job/row.h"
#include "model/model.h"

/* text (may be NULL) gets the rendered text or the prompt; ids the tokens. prompt: special tokens
 * that the tokenizer adds; messages: nothing added. Ids out of range and empty prompts are
 * SL_ERR_ROW. is_run: image parts are errors. */
enum status prompt_make(const struct model *model, const struct settings *settings,
                        const struct row *row, bool is_run, struct buf *text, struct ids *ids,
                        struct error *err);
/* Appends the ids of a text, with the special tokens that the tokenizer adds. */
enum status prompt_encode(const struct model *model, struct str text, struct ids *ids,
                          struct error *err);
/* SL_ERR_ROW: there are none, or one is outside the vocabulary. */
enum status prompt_check_ids(const struct model *model, const struct ids *ids, struct error *err);
/* Whether special tokens of the model are written inside the row's messages. */
enum status prompt_holds_specials(const struct model *model, const struct row *row, bool *out,
                                  struct error *err);

#endif
