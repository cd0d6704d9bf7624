/* Owns the line through measured passes, seconds = fixed + tokens x slope, and what follows from
 * it. Refuses to trust it far: never less than a part of what is allowed, so prompts always go on.
 */
#include "engine/pace.h"

#include "base/mem.h"

#include <math.h>

#define FADE 0.9              /* of older passes, with each new one */
#define PASSES_LEAST 3u       /* before anything is concluded */
#define WAIT_SHARE_LEAST 0.05 /* of a pass that waits for the disk */
#define TILE 16u              /* tokens are computed so many at a time */
/* Between passes that differ less (in the square of their spread) a slope means nothing. */
#define SPREAD_LEAST 0.02

void pace_learn(struct pace *pace, size_t tokens, double seconds, double wait_seconds) {
    double count = (double)tokens;
    double compute = seconds > wait_seconds ? seconds - wait_seconds : 0;
    pace->pass_count++;
    pace->passes = pace->passes * FADE + 1;
    pace->tokens = pace->tokens * FADE + count;
    pace->squares = pace->squares * FADE + count * count;
    pace->seconds = pace->seconds * FADE + compute;
    pace->products = pace->products * FADE + count * compute;
    if (wait_seconds < WAIT_SHARE_LEAST * seconds)
        return;
    double known = pace->read_seconds;
    pace->read_seconds = known > 0 ? known * FADE + seconds * (1 - FADE) : seconds;
}

/* Tokens that are computed in the time of the reads; INFINITY where passes do not wait. */
static double slack_of(const struct pace *pace) {
    if (pace->read_seconds <= 0 || pace->pass_count < PASSES_LEAST)
        return INFINITY;
    double mean = pace->tokens / pace->passes, seconds = pace->seconds / pace->passes;
    double spread = pace->squares / pace->passes - mean * mean;
    double average = seconds / mean, slope = average;
    if (spread > SPREAD_LEAST * mean * mean) {
        slope = (pace->products / pace->passes - mean * seconds) / spread;
        slope = slope < average ? slope : average;
        slope = slope > average / 8 ? slope : average / 8;
    }
    return slope > 0 ? mean + (pace->read_seconds - seconds) / slope : INFINITY;
}

size_t pace_tokens(const struct pace *pace, size_t decoded, size_t most) {
    double tokens = slack_of(pace), least = (double)(most / SL_PROMPT_SHARE_LEAST);
    if (tokens <= (double)decoded)
        return most;
    least = least > TILE ? least : TILE;
    tokens = tokens > least ? tokens : least;
    if (tokens >= (double)most)
        return most;
    return size_min(size_round_up((size_t)tokens, TILE), most);
}
