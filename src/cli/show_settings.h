/* What `show` says about a model's settings: one list for the text and the object. */
#ifndef SLUICE_CLI_SHOW_SETTINGS_H
#define SLUICE_CLI_SHOW_SETTINGS_H

#include "model/model.h"

/* One line for people, wrapped: what differs from most families. */
void show_settings_text(const struct model *model, struct buf *out);
/* `"settings": {..}`. Names stay as they are: scripts read them. */
void show_settings_json(const struct model *model, struct buf *out);

#endif
