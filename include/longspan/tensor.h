/*
 * Element types, factors and masks: the words in which tensors are described.
 */
#ifndef LONGSPAN_TENSOR_H
#define LONGSPAN_TENSOR_H

#include <stdint.h>

#include "longspan/linkage.h"
#include "longspan/status.h"

LS_PUBLIC_BEGIN

typedef enum ls_dtype { LS_F32, LS_F64, LS_BF16, LS_I32, LS_DTYPES } ls_dtype;

/*
 * What a dimension counts, as far as a mesh axis may shard it: the batch is dealt over the mesh axis dp, the
 * sequence over ring and ulysses. Dimensions without a factor are whole on every rank.
 */
typedef enum ls_factor { LS_FACTOR_NONE, LS_FACTOR_BATCH, LS_FACTOR_SEQUENCE } ls_factor;

#define LS_MAX_DIMS 4

typedef struct ls_dim {
    int64_t size; /* global */
    ls_factor factor;
} ls_dim;

typedef struct ls_shape {
    int ndim; /* 0..LS_MAX_DIMS */
    ls_dim dim[LS_MAX_DIMS];
} ls_shape;

/*
 * A mask is a value: the intersection of its terms. No term means full attention. With q and k positions in the
 * global sequence, query q sees key k when every term says so:
 *   causal      k <= q
 *   window W:N  q-W < k <= q, or k < N and k <= q (the first N tokens stay visible; N may be 0)
 *   prefix N    k <= q, or k < N
 *   documents   q and k lie in the same document; `ends` holds the cumulative lengths 0 = ends[0] <= ... <= S
 */
typedef enum ls_mask_kind { LS_MASK_CAUSAL, LS_MASK_WINDOW, LS_MASK_PREFIX, LS_MASK_DOCUMENTS } ls_mask_kind;

typedef struct ls_mask_term {
    ls_mask_kind kind;
    int64_t window;      /* W >= 0; 0: none but the first N, and then N >= 1 */
    int64_t first;       /* N >= 0: of window or prefix */
    const int32_t *ends; /* of documents: borrowed, n_ends entries, ascending from 0 to S */
    int n_ends;
} ls_mask_term;

#define LS_MASK_TERMS 4

typedef struct ls_mask {
    int n;
    ls_mask_term term[LS_MASK_TERMS];
} ls_mask;

/* Causal attention: what a language model uses. */
ls_mask ls_mask_causal(void);

LS_PUBLIC_END

#endif
