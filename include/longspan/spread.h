/*
 * How a job is spread over ranks: what the user may choose, and what was chosen.
 */
#ifndef LONGSPAN_SPREAD_H
#define LONGSPAN_SPREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "longspan/linkage.h"
#include "longspan/status.h"

LS_PUBLIC_BEGIN

/* The user's choices. NULL, 0 and false leave a choice to Longspan. */
typedef struct ls_spread {
    int64_t ranks;   /* 1 or more */
    int64_t threads; /* per rank */
    /*
     * "auto", or one of those that `longspan version` lists; or "full=NAME,window=NAME": for attention without and with
     * a window, each of which may be left out
     */
    const char *strategy;
    const char *mesh;   /* "pp=P,dp=A,outer=O,ring=R,ulysses=U,tp=T" */
    const char *layout; /* "auto", "contiguous", "zigzag", "striped", "documents", "balanced" */
    /* of attention: "auto", "put" (blocks are sent), "in-place" (peers read blocks where they lie) */
    const char *transfers;
    /*
     * What is cut over all ranks, so that each holds a part: "none"; "optimizer": the optimiser's state; "gradients":
     * also the gradients; "parameters": also the parameters; or "auto": the optimiser's state, and no more than the
     * memory demands.
     */
    const char *shard;
    /*
     * "fast"; or "canonical": a step's loss, gradients and weights have the same bits for any number of ranks, if each
     * rank has the same number of threads (one unless `threads` is set) and the same instruction set.
     */
    const char *sums;
    const char *isa;    /* instruction set of Longspan's own kernels: "ref" ... "amx"; see ls_limit_isa */
    const char *device; /* "cpu", "cuda[:N][:launched]"; NULL: that of LONGSPAN_DEVICE in the environment, else cpu */
    /*
     * The kernels that are preferred if both a library's and Longspan's own fit a call: choices CONTRACT/TYPE=ROW
     * separated by spaces, such as "attention/bf16=own", or "table": those of libraries. NULL: those that were measured
     * to be faster on this device, else "table".
     */
    const char *kernels;
    int64_t memory; /* bytes that a rank may map; 0: no limit */
    /*
     * Which results of the forward pass are recomputed in the backward pass: "none", "all", a number of results
     * (cheapest first), or "auto": as many as the memory demands.
     */
    const char *recompute;
    /*
     * What is kept in memory of the host until it is used: "none", "optimizer" (the optimiser's state), "results" (of
     * the forward pass, until the backward pass reads them), a number of results (those that wait longest),
     * "optimizer+N" (both), "all", or "auto": as much as the memory demands, on devices with memory of their own, if
     * that is faster than recomputing.
     */
    const char *offload;
    const char *tile;    /* which ops run tile by tile: "auto", "none", "loss" (with the logits), "all" */
    int64_t tile_rows;   /* tokens of a tile */
    bool measure;        /* run the best few candidates and take the fastest */
    bool as_threads;     /* ranks are threads of this process instead of processes */
    double wait_timeout; /* seconds without progress of a rank after which the others give up */
    /*
     * The order in which the stages of a pipeline (pp of the mesh) take micro-batches: "1f1b"; "interleaved:N", N parts
     * of the model for each stage; "zero-bubble". NULL: the one that is predicted to be fastest.
     */
    const char *pipeline;
    /*
     * The number of parts of equal length into which each sequence is cut; they go through the stages like
     * micro-batches. Attention must be causal. 0 or 1: sequences are whole.
     */
    int64_t slices;
} ls_spread;

/*
 * Limits the instructions of the whole process, including those of oneDNN's matrix products, to the set `name` (as in
 * ls_spread.isa). Must be called before any other function of this library. The environment variable LONGSPAN_ISA does
 * the same. LS_USAGE: the name is unknown, or this processor does not have the set.
 */
LS_MUST_USE ls_status ls_limit_isa(const char *name);

/*
 * Sets the transports that connect the ranks of all jobs of this process, instead of those that the environment
 * variable LONGSPAN_TRANSPORTS names: "shm", "tcp" or "mpi" (under an mpirun), or several separated by commas; each
 * pair of ranks takes the fastest of them that connects the two. LS_USAGE, with the valid names, for any other text.
 */
LS_MUST_USE ls_status ls_limit_transports(const char *names);

/* What was chosen, and its cost. */
typedef struct ls_spread_result {
    char strategy[80], mesh[64], layout[32], isa[32], device[32];
    double seconds;
    int64_t bytes_sent_forward, bytes_sent_backward; /* by the rank that sends most */
    /* read in place from other ranks, by the rank that reads most */
    int64_t bytes_read_forward, bytes_read_backward;
    char transfers[16];      /* "put", "in-place", or "in-place+put" */
    char shard[16];          /* as in ls_spread, but never "auto" */
    char sums[16];           /* as in ls_spread */
    char pipeline[24];       /* as in ls_spread; "none" without stages */
    int64_t slices;          /* 1: sequences are whole */
    int64_t predicted_bytes; /* of the device, on the rank that maps most: private and symmetric memory */
    int64_t recompute;       /* number of results that are recomputed in the backward pass */
    char offload[24];        /* as in ls_spread, but never "auto" */
    char tile[8];
    int64_t tile_rows; /* tokens of a tile; 0: chosen by the bytes of a token */
    char kernels[256]; /* as in ls_spread */
} ls_spread_result;

/*
 * Rotary positions that replace those of the model's config.json, for a context longer than the model was trained with.
 * Only for architectures with rotary positions. scaling: TYPE, TYPE:FACTOR or TYPE:FACTOR:ORIGINAL, where TYPE is
 * default, linear, dynamic, yarn or llama3, and ORIGINAL the length that the model was trained with; or the value of
 * rope_scaling as JSON.
 */
typedef struct ls_rope_change {
    const char *scaling; /* NULL: as in config.json */
    double theta;        /* 0: as in config.json */
} ls_rope_change;

LS_PUBLIC_END

#endif
