/*
 * Shared by attention, its gradient and attention_merge: tiles of rows of queries and keys in double, which pairs of a
 * tile the mask leaves, the two products, and the merge of partial results.
 */
#ifndef LS_KERNEL_REF_ATTENTION_TILE_H
#define LS_KERNEL_REF_ATTENTION_TILE_H

#include "kernel/ref/ref_impl.h"

enum { TILE_Q = 32, TILE_K = 64 };

typedef double tile_pairs[TILE_Q][TILE_K]; /* one number per (query, key) of a tile */

/* The operands that attention and attention_grad have in common: in[0..4] are q, k, v, spans, kpos. */
typedef struct problem {
    const ls_kernel_call *call;
    const ls_attention_params *params;
    const int32_t *spans, *kpos;
    int64_t B, N, H, D; /* of q */
    int64_t K, J;       /* number of keys; number of local KV heads */
    int64_t E;          /* elements of a head of v and o */
    int64_t columns;    /* of spans: two per span */
} problem;

problem REF(problem_of)(const ls_kernel_call *call);

/* The local KV head that local query head h reads. */
static inline int64_t kv_head(const problem *p, int64_t h) {
    return (p->params->first_q + h) / p->params->group - p->params->first_kv;
}

/* Rows [first, first+count) of head h, batch b of a view [B, rows, heads, D] as out[i*D + d]. */
void REF(pack_rows)(const ls_view *view, int64_t b, int64_t h, int64_t first, int64_t count, double *out);
/* The same rows transposed, out[d*TILE_K + i], columns from count to TILE_K zero. */
void REF(pack_columns)(const ls_view *view, int64_t b, int64_t h, int64_t first, int64_t count, double *out);

/* seen[i][j]: query q0+i of batch b sees key k0+j. Returns whether any does. */
bool REF(visible)(const problem *p, int64_t b, int64_t q0, int64_t q_count, int64_t k0, int64_t k_count,
                  bool seen[TILE_Q][TILE_K]);

/* out[i][j] = sum over d of a[i*D + d] * columns[d*TILE_K + j], for i < count and all TILE_K j. */
void REF(dots)(const double *a, int64_t count, const double *columns, int64_t D, tile_pairs out);

/* sum[d] += weight * row[d] */
void REF(add_weighted)(double weight, const double *row, int64_t D, double *sum);

/*
 * Merges (new_o, new_lse) into (o, lse), with weights that add up to 1. new_lse -inf: the new part saw no key, and
 * nothing changes.
 */
void REF(merge_row)(const double *new_o, double new_lse, int64_t D, real *o, real *lse);

/* Bytes of workspace for `doubles` numbers per thread. */
size_t REF(thread_bytes)(int threads, int64_t doubles);

/* The logit of a product q·k, and the derivative of the logit with respect to the product. */
static inline double logit_of(const ls_attention_params *p, double product) {
    const double x = p->scale * product;
    return p->softcap > 0 ? p->softcap * tanh(x / p->softcap) : x;
}
static inline double slope_of(const ls_attention_params *p, double logit) {
    const double t = p->softcap > 0 ? logit / p->softcap : 0;
    return p->scale * (1.0 - t * t);
}

#endif
