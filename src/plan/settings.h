/* Settings of all commands: what the user chose, with the defaults of INTERFACE.md. Filled by
 * cli/options.c from its one table; read by plan and job. Plain values; strings are borrowed from
 * the command line or the config file's text. */
#ifndef SLUICE_PLAN_SETTINGS_H
#define SLUICE_PLAN_SETTINGS_H

#include "base/str.h"

#define SL_STOPS_MAX 64u

struct settings {
    const char *model, *rows;
    const char *hub_name; /* what MODEL, a name of the hub, means (hub_name_write); NULL: a path */
    const char *output;   /* NULL until given; "-" is stdout */
    bool overwrites;
    int64_t max_tokens;         /* 512 */
    double temperature;         /* 0 */
    bool temperature_is_models; /* --temperature model */
    double top_p;               /* 1 */
    int64_t top_k;              /* 0: off */
    double min_p;               /* 0: off */
    int64_t seed;               /* 0 */
    struct str stops[SL_STOPS_MAX];
    size_t stop_count;
    bool scores;           /* score: rows have texts to be scored, not questions */
    const char *system;    /* NULL */
    uint64_t memory_bytes; /* 0: 85 % of what is free */
    uint64_t row_bytes; /* that reading a row may take, set by job_open; 0: as the format has it */
    const char *engine; /* "auto" "resident" "stream" */
    const char *precision; /* "auto" "bf16" "8" "4" */
    double deadline_hours; /* 24 */
    /* Where another form of the model was taken: the model that was asked for, and why; else NULL.
     */
    const char *model_asked, *model_reason;
    int64_t batch;        /* 0: what memory allows */
    int64_t pass_tokens;  /* 0: auto */
    int64_t threads;      /* 0: physical cores */
    uint64_t rate;        /* bytes read a second; 0: from records */
    double flops;         /* operations a second; 0: from records */
    const char *kernels;  /* "auto" .. */
    const char *isa;      /* of the portable set; NULL: the best */
    const char *kv;       /* "bf16" "f32" */
    const char *reader;   /* "auto" "pool" "uring" "sync" */
    uint64_t chunk_bytes; /* 0: auto */
    int64_t depth;        /* 0: auto */
    bool has_checksum;
    bool ignores_eos;
    const char *content_specials;     /* "allow" "text" */
    double time_box_seconds;          /* 0: none */
    int64_t limit;                    /* 0: all rows */
    int64_t shard_index, shard_count; /* 1 of N; 0 0: none */
    bool wants_token_ids;
    int64_t logprobs;     /* -1: off */
    const char *order;    /* "input" "completion" */
    const char *progress; /* "auto" "line" "log" "none" */
    const char *metrics;  /* NULL */
    double probe_seconds; /* probe: for all of it */
    bool is_json;         /* plan, show, bench: --json */
    bool adds_special;    /* tokenize: --special */
    bool skips_special;   /* tokenize: --skip-special */
    /* bench: lists and a shape as written */
    const char *dtypes, *token_counts, *shape;
    double measure_seconds; /* of a figure */
    /* From a measurement of this process, where nothing else is known of the processor; 0: none. */
    double measured_flops, measured_fixed_seconds; /* the latter of each value of the weights */
    const char *against;                           /* verify: a file of answers; NULL: none */
    const char *batches;                           /* bench job: a list as written */
    uint64_t disk_floor_bytes;                     /* pull: of the cache's drive, to be left free */
    int64_t downloads;                             /* pull: at once */
    /* from the environment, read in cli/ */
    const char *home; /* SLUICE_HOME or ~/.cache/sluice */
    const char *hub;  /* HF_HOME/hub or ~/.cache/huggingface/hub; NULL: not told */
    bool has_epoch;   /* SOURCE_DATE_EPOCH */
    int64_t epoch;    /* the clock that templates see: that, or the start of the command, so that a
                         row's prompt does not depend on when it is made */
};

#endif
