/*
 * cli: the work of the commands as functions, which the tests also call, and their results as JSON. Each function
 * starts the ranks, runs them, and returns when all have ended. Messages for people go to standard error, results to
 * the given file. Paths and texts are borrowed for the call. The JSON of a result is one object on one line, with a
 * newline; nothing is written when the result or the file is NULL.
 */
#ifndef LS_CLI_H
#define LS_CLI_H

#include "base/base.h"
#include "longspan/longspan.h"

#include <stdio.h>

/* Distributed attention on arrays [B,S,H,D] (.npy, f32 or f64). See the command for masks and outputs. */
typedef struct ls_attention_job {
    const char *q, *k, *v, *grad_o; /* files; grad_o may be NULL */
    const char *sink;  /* file: an additional logit per query head [Hq], whose value vector is 0; NULL: none */
    const char *mask;  /* "causal", "window:64+documents:FILE.npy", ... */
    const char *dtype; /* "f32", "f64", "bf16"; NULL: that of q */
    const char *out;   /* folder for o.npy lse.npy, with grad_o dq.npy dk.npy dv.npy, with both dsink.npy */
    double scale;      /* 0: 1/sqrt(D) */
    double softcap;    /* logits become softcap·tanh(logit/softcap); 0: no soft cap */
    ls_spread spread;
} ls_attention_job;
LS_MUST_USE ls_status ls_run_attention(const ls_attention_job *job, ls_spread_result *result);

/* Gradients of a model on given tokens, written as safetensors with the weights' names and shapes. */
typedef struct ls_grad_job {
    const char *model;
    ls_rope_change rope;
    ls_adapter_choice adapter;
    const char *tokens, *labels; /* i32 .npy [B,S]; labels may be NULL: the next token; -100 is ignored */
    const char *positions;       /* i32 .npy [B,S]: from 0 in each document; NULL: each row is one document */
    const char *documents;       /* i32 .npy [B,S]: the number of each token's document; NULL: by positions */
    /* "NAME=FILE" for each input of an imported graph that is neither tokens nor labels nor positions */
    const char *const *inputs;
    int n_inputs;
    bool forward;       /* only the losses of tokens are wanted: inputs that they do not depend on may be missing */
    int64_t accumulate; /* micro-batches that the sequences are cut into; 0: 1 */
    const char *dtype;  /* "f32", "f64", "bf16"; NULL: f32 */
    const char *out;    /* file */
    const char *logits; /* .npy file for the logits [B,S,V], f4 (f8 for f64); NULL: they are not written */
    uint64_t seed;      /* for random weights, when the model has none */
    ls_spread spread;
} ls_grad_job;
typedef struct ls_grad_result {
    double loss;    /* mean over valid tokens; for an imported graph, the mean that its "mean_over" names */
    int64_t tokens; /* valid ones */
    ls_spread_result spread;
} ls_grad_result;
LS_MUST_USE ls_status ls_run_grad(const ls_grad_job *job, ls_grad_result *result);

/*
 * Continues a prompt. The ranks share its tokens, and each keeps the keys and values of its tokens; each further token
 * is computed over all of them. text(context, bytes, n) receives whole characters as they are generated, in the
 * caller's process: ranks are threads. Ends after `tokens`, at a token that ends a text, or when stopped by a signal
 * (LS_INTERRUPTED). Tokens that end a text are eos_token_id of the model's generation_config.json or else config.json,
 * and the tokenizer's end of a document.
 *
 * The same command draws the same tokens. With another number of ranks or threads the logits differ by rounding. A
 * token differs if the draw, or the limit of top_k or top_p, falls into that difference: about one draw in a million in
 * f32, one in a thousand in bf16.
 */
typedef struct ls_generate_job {
    const char *model; /* folder or config.json */
    ls_rope_change rope;
    ls_adapter_choice adapter;
    /* Folder of a checkpoint or of a training run; NULL: the model's own weights. */
    const char *checkpoint;
    const char *prompt, *prompt_file; /* exactly one is given; an empty prompt begins a document; "-": standard input */
    int64_t tokens;                   /* to generate */
    bool ignore_end;                  /* continue after the tokens that end a text */
    const char *dtype;                /* "f32", "bf16"; NULL: f32 */
    double temperature;               /* of logits; 0: always the likeliest token */
    int64_t top_k; /* draws from the k likeliest tokens and any that are as likely as the k-th; 0: from all */
    double top_p;  /* of these, draws from the fewest whose probabilities sum to this; 0 and 1: from all */
    uint64_t seed;
    ls_spread spread;
    void (*text)(void *context, const char *bytes, size_t n);
    /* Called for each token before its text, but not for the token that ends it; may be NULL. */
    void (*token)(void *context, int32_t id);
    void *context;
} ls_generate_job;
typedef struct ls_generate_result {
    int64_t prompt_tokens, tokens; /* tokens: generated */
    bool at_end;                   /* a token that ends a text was drawn */
    double prefill_seconds, decode_seconds;
    int64_t cache_bytes; /* the keys and values among the predicted bytes of a rank */
    /* Measured at the end: how many of the predicted bytes of a rank are resident. */
    int64_t resident_bytes;
    ls_spread_result spread;
} ls_generate_result;
/* The result is set when the status is LS_OK or LS_INTERRUPTED. */
LS_MUST_USE ls_status ls_run_generate(const ls_generate_job *job, ls_generate_result *result);

/*
 * Options of benches; zero and NULL mean the default of the bench. Each bench takes some of the options, and refuses
 * the others.
 */
typedef struct ls_bench_options {
    int64_t seq, batch, ranks, threads, rounds; /* batch: sequences of a step */
    int64_t heads, kv_heads, head_size, value_size;
    const char *mask, *dtype, *strategy, *mesh, *shard, *sums, *optimizer;
    const char *config;   /* config.json of a model, or its folder */
    const char *device;   /* as in ls_spread */
    const char *kernels;  /* as in ls_spread */
    const char *ranks_as; /* "processes" or "threads"; NULL: processes */
} ls_bench_options;

/*
 * Measures this machine and prints the figures. The names are:
 *
 *     machine    rates of kernels and puts, which are stored in the user's cache folder; all later jobs use
 *                them for predictions and choices
 *     attention  forward and backward of one attention by every strategy over ranks of one thread, against one rank
 *                with as many threads
 *     comm       a put with a signal between two ranks, against bare shared memory
 *     gemm       each matrix product of a model's training step alone, against the best rate of square products
 *     step       training steps of a model on random weights and tokens, against the same rate, and where their time
 *                goes
 *     predicted  how accurately the time of steps is predicted
 *
 * LS_USAGE for another name, with a list of the names, and for an option that the bench does not take.
 */
typedef struct ls_bench_job {
    const char *name;
    bool json;
    ls_bench_options options;
} ls_bench_job;
LS_MUST_USE ls_status ls_run_bench(const ls_bench_job *job, FILE *out);

/* Prints the compiled program of a rank, and the table of candidates from which its plan was chosen. */
typedef struct ls_explain_job {
    const char *model;
    ls_rope_change rope;
    ls_adapter_choice adapter;
    int64_t seq, batch; /* batch: sequences of a micro-batch */
    int64_t accumulate; /* micro-batches of a step; 0: 1 */
    const char *dtype;
    const char *optimizer; /* as in ls_train_options */
    int64_t rank;
    /* "micro" (if a step has several micro-batches), "step", "evaluate"; NULL: all. */
    const char *program;
    bool json;   /* print an object instead of a page: candidates, passes, figures, ops and lines of programs */
    bool passes; /* print what each pass changed and a table of ops, instead of the programs' lines */
    const char *memory_map; /* SVG file for a drawing of the rank's memory over its programs; NULL: none */
    /* SVG file for a drawing of all ranks' queues over time, in `program` or, without it, in the step; NULL: none. */
    const char *schedule;
    /* Run the program on the model's weights and random tokens, and also draw the measured schedule. */
    bool run;
    ls_spread spread;
} ls_explain_job;
LS_MUST_USE ls_status ls_run_explain(const ls_explain_job *job, FILE *out);

/*
 * Prints what training would use, without running it: mesh, strategy and layout with the reason, the candidates, and
 * the bytes that a rank maps by kind of buffer. If a rank needs more than `memory`, prints nothing and returns
 * LS_NO_MEMORY; the message says how much the rank needs, which buffers are live at the peak, and what would fit.
 */
typedef struct ls_plan_job {
    const char *model;
    ls_rope_change rope;
    ls_adapter_choice adapter;
    int64_t seq, batch, accumulate; /* as in ls_train_options */
    const char *dtype;              /* "f32", "bf16"; NULL: f32 */
    const char *optimizer;          /* as in ls_train_options */
    double ema;                     /* as in ls_train_options */
    bool json;
    ls_spread spread;
} ls_plan_job;
LS_MUST_USE ls_status ls_run_plan(const ls_plan_job *job, FILE *out);

/* --- checkpoints -------------------------------------------------------------------------------------------------- */

/*
 * Prints the step, the model, how the run was spread over ranks, the files and the tensors. path: a checkpoint, or the
 * --out of a training run, which means its newest checkpoint.
 */
LS_MUST_USE ls_status ls_checkpoint_print(const char *path, bool json, FILE *out);

/*
 * Compares every byte with its hash and prints the result for each file. If a file is damaged, prints that and returns
 * LS_INVALID.
 */
LS_MUST_USE ls_status ls_checkpoint_print_verdict(const char *path, bool json, FILE *out);

/*
 * Fields are the flags of `longspan checkpoint export`; zero and NULL mean the default that the command's help shows.
 */
typedef struct ls_export_job {
    const char *checkpoint; /* a checkpoint, or the --out of a training run */
    const char *out;        /* a new folder, or an exported one, which is replaced */
    const char *model;   /* a model folder, or a file in it, whose tokenizer is used; NULL: the tokenizer of the run */
    const char *dtype;   /* "f32", "f16", "bf16"; NULL: the type that config.json says, else f32 */
    int64_t shard_bytes; /* most bytes of tensors in one file; 0: 5 GB */
    bool last;           /* export the weights of the last step, even if the checkpoint has their average */
    bool merge;          /* add the adapter of the checkpoint, or of an adapter's folder, to the matrices */
} ls_export_job;

/* Writes the folder and prints a summary. */
LS_MUST_USE ls_status ls_run_export(const ls_export_job *job, bool json, FILE *out);

/* --- data --------------------------------------------------------------------------------------------------------- */

void ls_data_build_result_json(const ls_data_build_result *result, FILE *out);

/*
 * Prints the contents of shards: counts, lengths, the first documents. With order: which parts of which documents each
 * step of `longspan train` reads, with the same data, seq, batch, seed, pack and group_by_length.
 */
typedef struct ls_data_inspect_job {
    const char *const *paths; /* folders of shards, or shards; with order also text */
    int n_paths;
    const char *tokenizer; /* to decode; NULL: bytes */
    ls_text_form form;     /* with order, of text */
    bool verify;           /* checks the checksums and every token */
    int64_t documents;     /* number to show; < 0: none; 0: 3 */
    bool order;
    int64_t seq, batch, steps, from; /* with order; from: steps to skip. 0 means 1024, 1, 1, 0 */
    uint64_t seed;
    const char *pack;
    bool group_by_length;
    bool json;
} ls_data_inspect_job;
LS_MUST_USE ls_status ls_run_data_inspect(const ls_data_inspect_job *job, FILE *out);

/*
 * Converts text to token ids, or back. Each line of the files, without its newline, is a text; its ids are printed as a
 * JSON array on one line. With decode each line is such an array (or an object with "ids"), and its text is printed,
 * followed by a newline.
 */
typedef struct ls_tokenize_job {
    const char *tokenizer; /* folder of a tokenizer.json, or that file; NULL: bytes */
    const char *text;      /* one text; NULL: the files */
    const char *const *paths;
    int n_paths;       /* 0: standard input, as is the file "-" */
    bool whole;        /* each file is one text; decoded texts have no newlines between them */
    bool special;      /* adds the tokens that the tokenizer's files put around a text */
    bool decode;       /* ids to text */
    bool skip_special; /* of decode: leaves special tokens out */
    bool json;         /* each line is an object: {"ids": [...]}, or {"text": "..."} */
} ls_tokenize_job;
LS_MUST_USE ls_status ls_run_tokenize(const ls_tokenize_job *job, FILE *out);

/* --- results ------------------------------------------------------------------------------------------------------ */

/* This build on this machine. Texts of lists are separated by ", ". */
typedef struct ls_about {
    char version[32], commit[64];
    char isa[16];         /* the best instruction set that this process may use */
    char isas[96];        /* all instruction sets that this process may use, the best one last */
    char processor[64];   /* the name that the processor reports */
    int64_t cores;        /* that this process may use */
    int64_t memory_bytes; /* that this process may use */
    char transports[64];
    char libraries[256]; /* shared libraries in use, except those of the C library */
    char cuda[4096];     /* the libraries that kernels of the device cuda use, or why there are no such kernels */
    char strategies[128];
    int64_t kernels; /* registered, of all types and instruction sets */
} ls_about;
/* LS_USAGE when the environment variable LONGSPAN_ISA names no instruction set of this processor. */
LS_MUST_USE ls_status ls_about_get(ls_about *out);

void ls_about_json(const ls_about *about, FILE *out);
void ls_spread_result_json(const ls_spread_result *result, FILE *out);
void ls_grad_result_json(const ls_grad_result *result, FILE *out);
void ls_eval_result_json(const ls_eval_result *result, FILE *out);
void ls_train_result_json(const ls_train_result *result, FILE *out);
/*
 * Writes the prompt (unless NULL) and the text, with bytes that are not UTF-8 replaced; the result->tokens ids; and the
 * figures.
 */
void ls_generate_result_json(const char *prompt, const char *text, const int32_t *ids, const ls_generate_result *result,
                             FILE *out);
/* [{"name": ..., "summary": ...}, ...]. */
typedef struct ls_named_text {
    const char *name, *summary;
} ls_named_text;
void ls_named_texts_json(const ls_named_text *list, int n, FILE *out);

#endif
