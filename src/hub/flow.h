/* Bytes that come in order and go to several threads, each of which sees all of them in order: one
 * piece is filled while the pieces before it are worked on, so that the slowest of receiving and
 * the stages sets the pace, and not their sum.
 *
 * One thread adds; each stage's work runs in a thread of the flow's own. Memory is bounded: who
 * adds waits until the slowest stage is done with a piece. */
#ifndef SLUICE_HUB_FLOW_H
#define SLUICE_HUB_FLOW_H

#include "base/status.h"

#define SL_FLOW_STAGES_MAX 2
#define SL_FLOW_PIECE_BYTES ((size_t)1 << 20)
#define SL_FLOW_PIECES 4 /* in memory */

struct flow;
struct flow_stage {
    /* Gets a piece, aligned to SL_IO_ALIGN; false ends the flow. */
    bool (*work)(void *ctx, const void *data, size_t bytes);
    void *ctx;
};

/* stages are copied. SL_ERR_ENV: no memory, or no thread. */
enum status flow_new(const struct flow_stage *stages, size_t count, struct flow **out,
                     struct error *err);
/* Waits for the stages; accepts NULL. */
void flow_free(struct flow *flow);
/* The bytes to come begin at this offset: pieces end at multiples of SL_FLOW_PIECE_BYTES. Nothing
 * is in flight. */
void flow_begin(struct flow *flow, uint64_t offset);
/* False once a stage has failed; no stage's work is then called until flow_drain. */
bool flow_add(struct flow *flow, const void *data, size_t bytes);
/* Hands over what has been added and waits until every stage is done with it. False when one of
 * them has failed since the last call. */
bool flow_drain(struct flow *flow);

#endif
