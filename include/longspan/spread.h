/*
 * How a job is spread over ranks: what the user may choose, and what was chosen. The other headers include this one.
 */
#ifndef LONGSPAN_SPREAD_H
#define LONGSPAN_SPREAD_H

#include <stdbool.h>
#include <stdint.h>

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

LS_PUBLIC_END

#endif
