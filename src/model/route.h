/* Routing: which experts a token goes to, and with which weights. Pure arithmetic on the router's
 * outputs of one token, so what else is in the pass cannot matter. Any thread.
 *
 *   softmax          scores = softmax(x); the `used` largest; weights = their scores
 *   softmax_chosen   the `used` largest x; weights = softmax of these
 *   sigmoid          scores = sigmoid(x); chosen by score + correction within the best groups (a
 *                    group counts the sum of its two largest); weights = scores, uncorrected
 *
 * Then, where sums_to_one, each weight is divided by their sum (in the order of choice; sigmoid:
 * plus 1e-20), and multiplied by scale. Ties go to the lower number; what is not a number is chosen
 * last. */
#ifndef SLUICE_MODEL_ROUTE_H
#define SLUICE_MODEL_ROUTE_H

#include "model/config.h"

/* x: the router's outputs [count], changed here; correction [count] or NULL; scratch [2 x count].
 * experts and weights [used]: from the best on. */
void route_choose(const struct mixture *mixture, float *x, const float *correction, float *scratch,
                  uint32_t *experts, float *weights);

#endif
