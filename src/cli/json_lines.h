/* Files with a JSON value a line. One thread. */
#ifndef SLUICE_CLI_JSON_LINES_H
#define SLUICE_CLI_JSON_LINES_H

#include "base/json.h"

/* Reads a file of JSON lines; `line` gets each one's tree, which is gone when it returns.
 * SL_ERR_ENV or what `line` says; names file and line. */
enum status json_lines_read(const char *path,
                            enum status (*line)(void *ctx, const struct json *tree,
                                                struct error *err),
                            void *ctx, struct error *err);

#endif
