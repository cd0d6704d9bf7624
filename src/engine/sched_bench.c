/* What the scheduler makes of jobs: how full the pages are while rows wait, how many tokens are
 * computed twice, how many passes it takes, and what the scheduler itself costs.
 *
 * Use: sched_bench [rows]. Answers are lognormal, as those of real prompts nearly are, cut at the
 * limit; prompts likewise. A pass lasts 30 s of reading or 0.06 s a token, as a 70B model at 2
 * TFLOP/s and 5 GB/s does. */
#include "engine/sched_for_test.h"

#include <stdio.h>
#include <stdlib.h>

struct job {
    const char *name;
    double prompt, prompt_spread; /* median, sigma of the logarithm */
    double answer, answer_spread; /* 0: to the limit */
    size_t limit, pages, batch, pass_tokens;
    bool is_certain;
};

static const struct job jobs[] = {
    {"answers of 110, limit 512, 2400 pages", 120, 0.4, 110, 0.7, 512, 2400, 512, 512, false},
    {"answers of 110, limit 512, 600 pages", 120, 0.4, 110, 0.7, 512, 600, 512, 512, false},
    {"answers of 250, limit 512, 2400 pages", 120, 0.4, 250, 0.6, 512, 2400, 512, 512, false},
    {"answers of 60, limit 2048, 2400 pages", 120, 0.4, 60, 1.0, 2048, 2400, 512, 512, false},
    {"all to the limit of 128, 2600 pages", 120, 0.4, 0, 0, 128, 2600, 512, 512, false},
    {"the same, known before", 120, 0.4, 0, 0, 128, 2600, 512, 512, true},
    {"the same, prompts alike", 120, 0.0, 0, 0, 128, 2600, 512, 512, true},
    {"the same, 400 pages", 120, 0.0, 0, 0, 128, 400, 512, 512, true},
    {"prompts of 1500, answers of 110, 2400", 1500, 0.6, 110, 0.7, 512, 2400, 512, 512, false},
    {"answers of 8, limit 16, 200 pages", 60, 0.4, 8, 0.5, 16, 200, 512, 512, false},
    {"answers of 110, limit 512, 400 pages", 120, 0.4, 110, 0.7, 512, 400, 512, 512, false},
};

static size_t lognormal(uint64_t *random, double median, double spread, size_t least, size_t most) {
    double value = median * exp(spread * play_normal(random));
    return value < (double)least ? least : value > (double)most ? most : (size_t)value;
}

static void play_job(const struct job *job, size_t count) {
    struct play_row *rows = mem_new(count, sizeof *rows);
    uint64_t random = 1;
    size_t needed = 0;
    for (size_t i = 0; rows != NULL && i < count; i++) {
        rows[i] = (struct play_row){
            .prompt = lognormal(&random, job->prompt, job->prompt_spread, 4, 8192),
            .max_tokens = job->limit,
            .length = job->limit,
            .is_certain = job->is_certain,
        };
        if (job->answer > 0)
            rows[i].length = lognormal(&random, job->answer, job->answer_spread, 1, job->limit);
        needed += rows[i].prompt + rows[i].length;
    }
    struct play play = {
        .rows = rows,
        .row_count = count,
        .limits = {.batch_max = job->batch,
                   .pass_tokens = job->pass_tokens,
                   .page_count = job->pages},
        .config = {.layers = 1, .kv_heads = 1, .head_dim = 1},
        .read_seconds = 30,
        .token_seconds = 0.06,
    };
    play_all(&play);
    printf("%-40s fill %5.1f %% (%5.1f %% after %3zu), again %4.1f %%, %4zu suspended (%zu most), "
           "%5zu passes, %5.1f h, "
           "first %4.0f s, %6.1f us a pass\n",
           job->name, 100 * play.fill, 100 * play.full_fill, play.full_from,
           100 * (double)play.sched.tokens_given_up / (double)needed, play.sched.suspensions,
           play.suspensions_most, play.passes, play.seconds / 3600, play.first_seconds,
           1e6 * play.sched_seconds / (double)play.passes);
    sched_release(&play.sched);
    mem_free(rows);
}

int main(int argc, char **argv) {
    size_t rows = argc > 1 ? (size_t)strtoull(argv[1], NULL, 10) : 2000;
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++)
        play_job(&jobs[i], rows);
    return 0;
}
