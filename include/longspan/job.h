/*
 * Jobs: what the commands attention, grad, generate and explain do, as calls. Each starts the ranks, runs them, and returns
 * when all have ended; messages for people go to standard error. Paths and texts are borrowed for the call.
 */
#ifndef LONGSPAN_JOB_H
#define LONGSPAN_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "longspan/linkage.h"
#include "longspan/status.h"

LS_PUBLIC_BEGIN

/* How a job is spread; NULL, 0 and false mean: chosen by Longspan. */
typedef struct ls_spread {
    int64_t ranks;        /* 1..1024 */
    int64_t threads;      /* per rank */
    const char *strategy; /* "auto", "ring", "ulysses", "usp", "gather", "tokenring", "decode", "local" */
    const char *mesh;     /* "dp=A,ring=R,ulysses=U" */
    const char *layout;   /* "auto", "contiguous", "zigzag", "striped" */
    const char *
        transfers; /* of attention: "auto", "put" (blocks are sent), "in-place" (they are read where they lie) */
    const char *isa; /* "ref" ... "amx": of Longspan's own kernels; see ls_limit_isa */
    int64_t memory;  /* bytes that a rank may map; 0: any number */
    const char *
        recompute; /* what of the forward pass is made again in the backward pass: "auto": as memory demands; "none", "all", or
                              how many results, cheapest first */
    const char
        *tile; /* what runs for some tokens at a time: "auto", "none", "loss" (with its logits), "all" */
    int64_t tile_rows;   /* tokens of a tile */
    bool measure;        /* the best few candidates are run for real, and the fastest is taken */
    bool as_threads;     /* ranks are threads of this process instead of processes */
    double wait_timeout; /* seconds that a rank may stand still before the others give up */
} ls_spread;

/*
 * Limits the instructions of the whole process, the matrix products of oneDNN included, to those of `name` (as ls_spread.isa); to be called
 * before anything else of this library. The environment's LONGSPAN_ISA does the same. LS_USAGE error for an
 * unknown name and for one that this processor does not have.
 */
LS_MUST_USE ls_status ls_limit_isa(const char *name);

/*
 * For programs that are nothing but a command: a mapped file that becomes shorter while it is read (by another program) ends the process with exit code 1 and a
 * line on standard error that names it. Takes the process's SIGBUS; those of other addresses go on to the handler that was there
 * before. Without this call they end the process as they do by default; ranks that are processes name the file in any case.
 */
void ls_name_cut_files(void);

/* What was chosen and what it cost. */
typedef struct ls_spread_result {
    char strategy[32], mesh[64], layout[32], isa[32];
    double seconds;
    int64_t bytes_sent_forward, bytes_sent_backward; /* of the busiest rank */
    int64_t bytes_read_forward,
        bytes_read_backward; /* of other ranks, in place; no copy of them is made on the way */
    char transfers[16];      /* "put" or "in-place" */
    int64_t predicted_bytes; /* private + symmetric, of the rank that maps most */
    int64_t recompute;       /* results made again in the backward pass */
    char tile[8];
    int64_t tile_rows; /* 0: by the bytes of a token */
} ls_spread_result;

/*
 * Rotary positions other than those of the model's config.json, for a context longer than it was trained with. Only for architectures
 * that have them. scaling: TYPE, TYPE:FACTOR or TYPE:FACTOR:ORIGINAL (the length that the model was trained with), TYPE being default,
 * linear, dynamic, yarn or llama3; or the object that rope_scaling would be, as JSON.
 */
typedef struct ls_rope_change {
    const char *scaling; /* NULL: as in config.json */
    double theta;        /* 0: as in config.json */
} ls_rope_change;

/* Distributed attention on arrays [B,S,H,D] (.npy, f32 or f64). See the command for masks and outputs. */
typedef struct ls_attention_job {
    const char *q, *k, *v, *grad_o; /* files; grad_o may be NULL */
    const char *sink;               /* file: a further logit per query head [Hq], of value 0; NULL: none */
    const char *mask;               /* "causal", "window:64+documents:FILE.npy", ... */
    const char *dtype;              /* "f32", "f64", "bf16"; NULL: that of q */
    const char *out; /* directory for o.npy lse.npy, with grad_o dq.npy dk.npy dv.npy, with both dsink.npy */
    double scale;    /* 0: 1/sqrt(D) */
    double softcap;  /* logits become softcap·tanh(logit/softcap); 0: they do not */
    ls_spread spread;
} ls_attention_job;
LS_MUST_USE ls_status ls_run_attention(const ls_attention_job *job, ls_spread_result *result);

/* Gradients of a model on given tokens, written as safetensors with the weights' names and shapes. */
typedef struct ls_grad_job {
    const char *model;
    ls_rope_change rope;
    const char *tokens, *labels; /* i32 .npy [B,S]; labels may be NULL: the next token; -100 is ignored */
    const char *dtype;           /* "f32", "f64", "bf16"; NULL: f32 */
    const char *out;             /* file */
    const char *logits; /* .npy file that gets them, [B,S,V], f4 (f8 for f64); NULL: they are not written */
    uint64_t seed;      /* for random weights, when the model has none */
    ls_spread spread;
} ls_grad_job;
typedef struct ls_grad_result {
    double loss;    /* mean over valid tokens */
    int64_t tokens; /* valid ones */
    ls_spread_result spread;
} ls_grad_result;
LS_MUST_USE ls_status ls_run_grad(const ls_grad_job *job, ls_grad_result *result);

/*
 * Continues a prompt: its keys and values are made at once, its tokens shared by the ranks, and stay where they were made; each further token is
 * computed over them. text(context, bytes, n) receives whole characters as they come, in the caller's process: ranks are threads.
 * Ends after `tokens`, at a token that ends a text, or stopped by a signal (LS_INTERRUPTED; what was made is told). Such tokens are
 * eos_token_id of the model's generation_config.json or else config.json, and the tokenizer's end of a document.
 *
 * The same command draws the same tokens. Over other ranks or threads logits differ by rounding, and a token does where the draw, or
 * the end of top_k or top_p, falls into that difference: about one draw in a million in f32, one in a thousand in bf16.
 */
typedef struct ls_generate_job {
    const char *model; /* directory or config.json */
    ls_rope_change rope;
    const char
        *checkpoint; /* directory of a checkpoint or of a training run; NULL: the model's own weights */
    const char *prompt,
        *prompt_file;   /* one of them; an empty one begins a document; file "-": standard input */
    int64_t tokens;     /* to make */
    bool ignore_end;    /* go on behind tokens that end a text */
    const char *dtype;  /* "f32", "bf16"; NULL: f32 */
    double temperature; /* of logits; 0: always the likeliest token */
    int64_t top_k;      /* then, the likeliest (and all that are as likely as the k-th); 0: all */
    double top_p;       /* then, of these the fewest that hold this share; 0 and 1: all */
    uint64_t seed;
    ls_spread spread;
    void (*text)(void *context, const char *bytes, size_t n);
    void (*token)(void *context,
                  int32_t id); /* each, before its text; not the one that ends it. NULL: nobody asks */
    void *context;
} ls_generate_job;
typedef struct ls_generate_result {
    int64_t prompt_tokens, tokens; /* tokens: made */
    bool at_end;                   /* a token that ends a text came */
    double prefill_seconds, decode_seconds;
    int64_t cache_bytes; /* of the predicted bytes of a rank: keys and values */
    int64_t
        resident_bytes; /* measured at the end: what the system has given to the rank of the predicted bytes */
    ls_spread_result spread;
} ls_generate_result;
/* The result is set when the status is LS_OK or LS_INTERRUPTED. */
LS_MUST_USE ls_status ls_run_generate(const ls_generate_job *job, ls_generate_result *result);

/* Of benches; zero and NULL mean the bench's default. Each takes some of them, and refuses the others. */
typedef struct ls_bench_options {
    int64_t seq, batch, ranks, threads, rounds; /* batch: sequences of a step */
    int64_t heads, kv_heads, head_size;
    const char *mask, *dtype, *strategy;
    const char *config; /* config.json of a model, or its directory */
} ls_bench_options;

/*
 * Measures what this machine does and prints it. name "machine": rates of kernels and puts, kept in the user's cache directory, by
 * which all jobs predict and choose from then on. "attention": forward and backward of one attention by every strategy over ranks
 * of one thread, against one rank with as many threads. "comm": a put with a signal between two ranks, against bare shared memory.
 * "gemm": the matrix products of a model's training step, each by itself, against the best rate of square ones.
 * "step": training steps of a model on random weights and tokens, against the same rate, and where their time goes.
 * LS_USAGE for another name, listing those there are, and for an option that is not this bench's.
 */
typedef struct ls_bench_job {
    const char *name;
    bool json;
    ls_bench_options options;
} ls_bench_job;
LS_MUST_USE ls_status ls_run_bench(const ls_bench_job *job, FILE *out);

/* Prints the compiled program of a rank, and the table of candidates that it was chosen from. */
typedef struct ls_explain_job {
    const char *model;
    ls_rope_change rope;
    int64_t seq, batch; /* batch: sequences of a micro-batch */
    int64_t accumulate; /* micro-batches of a step; 0: 1 */
    const char *dtype;
    int64_t rank;
    const char
        *program; /* "micro" (where a step has several micro-batches), "step", "evaluate" or NULL: all */
    bool json;    /* an object instead of a page: candidates, passes, figures, ops and lines of programs */
    bool passes;  /* the account of the passes and of the ops instead of the programs' lines */
    const char *memory_map; /* file: draws the rank's memory over its programs, as SVG; NULL: not */
    const char *
        schedule; /* file: draws the queues of all ranks over time, of `program` or else of the step, as SVG; NULL: not */
    bool
        run; /* the schedule as measured too: the program runs here, on the model's weights and random tokens */
    ls_spread spread;
} ls_explain_job;
LS_MUST_USE ls_status ls_run_explain(const ls_explain_job *job, FILE *out);

/*
 * Prints what training would use, without running it: mesh, strategy and layout with the reason, the candidates, and the bytes
 * that a rank maps by kind of buffer. LS_NO_MEMORY, printing nothing, when a rank needs more than `memory`: the message says how
 * much, what makes the peak, and what would fit.
 */
typedef struct ls_plan_job {
    const char *model;
    ls_rope_change rope;
    int64_t seq, batch, accumulate; /* as in ls_train_options */
    const char *dtype;              /* "f32", "bf16"; NULL: f32 */
    bool json;
    ls_spread spread;
} ls_plan_job;
LS_MUST_USE ls_status ls_run_plan(const ls_plan_job *job, FILE *out);

LS_PUBLIC_END

#endif
