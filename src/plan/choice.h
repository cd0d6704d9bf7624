/* How a budget is shared out among slabs or weights, activations, rows and pinned blocks.
 * Arithmetic only; any thread.
 *
 *   choice_weights -> choice_rows -> choice_pins */
#ifndef SLUICE_PLAN_CHOICE_H
#define SLUICE_PLAN_CHOICE_H

#include "plan/memory.h"
#include "plan/pins.h"

#define SL_PASS_TOKENS_BEST 512u /* good for the kernels and for prefill */

struct choice {
    const struct memory_way *way;
    size_t slab_count; /* 0: resident */
    struct memory_load load;
    const char *batch_reason; /* what bounds the batch */
    char engine_reason[200];
    struct pins pins;
};

/* What is tried, within the memory and what the user says. */
struct choice_wish {
    size_t pass_tokens; /* at most */
    size_t batch_max;   /* 0: no bound */
};

/* The least that the engines allowed need: one row at a time, the longest included. */
uint64_t choice_least(const struct memory *memory, const struct settings *settings, bool may_stay,
                      bool may_stream);
/* Engine, block size and slabs, all else cleared. `usable` is at least choice_least, unless there
 * are no rows. */
void choice_weights(const struct memory *memory, const struct settings *settings, uint64_t usable,
                    struct choice *choice);
/* Tokens a pass, places for rows, pages; no pins. */
void choice_rows(const struct memory *memory, const struct settings *settings, uint64_t usable,
                 const struct choice_wish *wish, struct choice *choice);
/* Blocks that the memory left over keeps. */
enum status choice_pins(const struct memory *memory, uint64_t usable, struct choice *choice,
                        struct error *err);

#endif
