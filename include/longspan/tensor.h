/* Element types, shapes and attention masks. */
#ifndef LONGSPAN_TENSOR_H
#define LONGSPAN_TENSOR_H

#include <stdint.h>

#include "longspan/linkage.h"
#include "longspan/status.h"

LS_PUBLIC_BEGIN

/*
 * One element of the last four is a block of numbers with a scale. Only frozen matrices are kept in them; inputs and
 * results never have these types.
 */
typedef enum ls_dtype {
    LS_F32,
    LS_F64,
    LS_BF16,
    LS_I32,
    LS_NF4,   /* 64 numbers of 4 bits, as in bitsandbytes (Dettmers et al., arXiv 2305.14314), and an f32 */
    LS_INT8,  /* 64 numbers of 8 bits and an f32 */
    LS_FP8,   /* 64 numbers of 8 bits, E4M3 (Micikevicius et al., arXiv 2209.05433), and an f32 */
    LS_MXFP4, /* 32 numbers of 4 bits, E2M1, and an exponent (OCP Microscaling Formats 1.0) */
    LS_DTYPES
} ls_dtype;

/*
 * The factor of a dimension says which mesh axes cut it: dp cuts the batch, ring and ulysses cut the sequence. A
 * dimension without a factor is whole along these three; tp may cut it (heads, hidden features, words).
 */
typedef enum ls_factor { LS_FACTOR_NONE, LS_FACTOR_BATCH, LS_FACTOR_SEQUENCE } ls_factor;

/*
 * The largest number of dimensions of a tensor. It is part of this version of the interface: programs are compiled with
 * it.
 */
#define LS_MAX_DIMS 6

typedef struct ls_dim {
    int64_t size; /* global: over all ranks */
    ls_factor factor;
} ls_dim;

typedef struct ls_shape {
    int ndim; /* 0..LS_MAX_DIMS */
    ls_dim dim[LS_MAX_DIMS];
} ls_shape;

/*
 * A mask says which keys a query sees. It is the intersection of its terms; a mask without terms is full attention. q
 * and k are positions in the global sequence. Query q sees key k if every term allows it:
 *
 *   causal      k <= q
 *   window W:N  q-W < k <= q, or k < N and k <= q (the first N tokens stay visible; N may be 0)
 *   prefix N    k <= q, or k < N
 *   documents   q and k are in the same document; `ends` holds the cumulative lengths 0 = ends[0] <= ... <= S
 */
typedef enum ls_mask_kind { LS_MASK_CAUSAL, LS_MASK_WINDOW, LS_MASK_PREFIX, LS_MASK_DOCUMENTS } ls_mask_kind;

typedef struct ls_mask_term {
    ls_mask_kind kind;
    int64_t window;      /* window: W >= 0; if W = 0, N must be >= 1, and only the first N keys are visible */
    int64_t first;       /* window and prefix: N >= 0 */
    const int32_t *ends; /* documents: n_ends entries, ascending from 0 to S; borrowed */
    int n_ends;
} ls_mask_term;

#define LS_MASK_TERMS 4

typedef struct ls_mask {
    int n;
    ls_mask_term term[LS_MASK_TERMS];
} ls_mask;

/* The mask with the single term causal, as in language models. */
ls_mask ls_mask_causal(void);

LS_PUBLIC_END

#endif
