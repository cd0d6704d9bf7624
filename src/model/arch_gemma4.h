/* What Gemma 4's configs say (config_gemma4.c), for its row of the table (arch_gemma4.c). */
#ifndef SLUICE_MODEL_ARCH_GEMMA4_H
#define SLUICE_MODEL_ARCH_GEMMA4_H

#include "model/arch_mixture.h"

enum status gemma4_configure(const struct json *config, const char *name, struct config *out,
                             struct error *err);
enum status gemma4_configure_meta(struct meta_reader *reader, struct config *out,
                                  struct error *err);

#endif
