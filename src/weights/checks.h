/* Checksums of weights (--checksum): what was read once is known, and told when it reads otherwise.
 *
 * Each unit of each item (layout_item.unit_rows) has a CRC-32C for each of its parts. Units do not
 * depend on memory, blocks, chunks or reader, so a record serves every later run:
 *
 *   HOME/checksums/PATHS.crc   PATHS: a hash of the paths of the files
 *
 * It is good for files of the same size and time of last change; others begin a new one. A unit
 * that is read for the first time is recorded, whatever it holds; all later ones are verified. The
 * record is written once every unit is known, and at the end if any is new; a run without a home
 * verifies later passes by its first. Files of models have no checksums of their own: neither
 * safetensors nor GGUF has a place for them.
 *
 * Thread rule: checks_block from one thread (a ring's) between checks_open and checks_close, which
 * belong to the owner of the provider. */
#ifndef SLUICE_WEIGHTS_CHECKS_H
#define SLUICE_WEIGHTS_CHECKS_H

#include "weights/layout.h"

struct checks;

/* Copies items, whose index must outlive it; takes up the record if there is a good one. home may
 * be NULL. A record that cannot be read is a warning and begins anew. */
enum status checks_open(const struct index *index, const struct layout_item *items, size_t count,
                        const char *home, struct checks **out, struct error *err);
/* Writes what is new; a record that cannot be written is a warning. Accepts NULL. */
void checks_close(struct checks *checks);
/* Memory that checks_open takes for such items. */
uint64_t checks_bytes(const struct layout_item *items, size_t count);
/* Tells people (a note) whether weights will be recorded or verified, and where. */
void checks_tell(const struct checks *checks);
/* A block of a layout of the same items that lies whole at memory: records what is new, verifies
 * the rest. SL_ERR_ENV names file, offset, tensor and both checksums. */
enum status checks_block(struct checks *checks, const struct layout *layout, size_t block,
                         const uint8_t *memory, struct error *err);
/* Checksums in all, and those known. */
void checks_counts(const struct checks *checks, size_t *count, size_t *known);

#endif
