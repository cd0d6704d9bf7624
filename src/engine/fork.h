/* Forks: where rows of a model with recurrent layers part, and so where their state is kept.
 *
 * A page has the keys and values of 16 tokens for whoever comes; a recurrent layer has one state a
 * row, that after its last token. So rows that go on from what others have computed need a copy of
 * a state exactly where they part, which is made only where that is known to be of use:
 *
 *   a row's prompt is cut at the next fork -> computed up to there -> its state is copied into a
 *   page that nobody holds (prefix.h) -> rows that begin alike take a copy and go on from there
 *
 * The recurrence goes token by token in the order of a row, so a cut changes no bit. What is known:
 *
 *  1. the rows inside, token by token: a row behind this one has the same tokens up to the fork;
 *  2. the index of prefixes: a row that begins with tokens of which only keys and values are there
 *     computes them again, and keeps the state where it leaves them;
 *  3. whoever admits a row may say how far the next one begins like it (seq.fork_tokens).
 *
 * While a row computes its way to a fork, those behind it that go on from there are not picked: in
 * that pass they would compute the same again. Why none waits for ever: that is decided anew for
 * each pass, and a row waits only for one before it in the order that has tokens in the very same
 * pass. So the first row never waits; whoever waits comes nearer to the fork with each pass; rows
 * before it have finitely many tokens, and new rows enter behind it. A row that ends, or is
 * suspended, on its way is waited for no longer: the next one in the order takes its place, since
 * it waits for nobody then. And no pass is empty but for a lack of rows.
 *
 * Arithmetic over rows; one thread. */
#ifndef SLUICE_ENGINE_FORK_H
#define SLUICE_ENGINE_FORK_H

#include "engine/seq.h"

/* A fork saves a row at least so many tokens: a state is as large as pages of thousands. */
#define SL_FORK_TOKENS 32u

/* Where the prompt of the index-th row is cut at the latest in the next pass, in tokens from its
 * first on; 0: nowhere. */
size_t fork_next(struct seq *const *rows, size_t count, size_t index);
/* The last fork that rows before the index-th one come to or nearer to, and which it waits for; 0:
 * none. is_picked: in the pass whose tokens those have; else as far as they can be expected to. */
size_t fork_awaited(struct seq *const *rows, size_t index, bool is_picked);

#endif
