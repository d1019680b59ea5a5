/*
 * Problems for attention kernels with their answers: one rank's queries against the keys of every rank, and
 * a plain f64 computation of outputs and gradients (softmax over all keys at once, written independently of
 * the kernels).
 */
#ifndef LS_TESTS_SUPPORT_ATTENTION_ORACLE_H
#define LS_TESTS_SUPPORT_ATTENTION_ORACLE_H

#include "kernel/kernel.h"

/*
 * One problem: rank `rank` of `layout` holds the queries; the keys of every rank are a block, and blocks are merged
 * in turn. q, k, v and o lie with gaps between heads and rows.
 */
typedef struct test_case {
    int B, D, Hq, Hkv, group, first_q, first_kv;
    int S, P, rank;
    int queries; /* how many of the rank's last queries are used; 0: all */
    ls_layout_kind layout;
    const char *mask; /* terms joined by +; "documents" has fixed ends */
    int threads;
    double scale;     /* 0: 1/sqrt(D) */
    double softcap;   /* 0: none */
    double spread;    /* standard deviation of q and k; 0: 1 */
    double f32_limit; /* 0: 1e-5. Scores near 1e3 have an ulp of 6e-5, which exp makes a relative error. */
    int E;            /* elements of a head of v and o; 0: D */
} test_case;

typedef struct key_block {
    int64_t t;
    int32_t *kpos;
    float *k, *v;    /* [B,t,Hkv,D] and [B,t,Hkv,E], already rounded */
    double *dk, *dv; /* the expected result */
} key_block;

typedef struct problem {
    test_case c; /* with its E */
    int64_t n;
    int w;
    double scale;
    ls_span *spans;       /* [B,n,w] */
    float *q, *dout;      /* [B,n,Hq,D] and [B,n,Hq,E], rounded */
    key_block *block;     /* [P] */
    double *o, *lse, *dq; /* the expected result */
    float *delta;
} problem;

/* count elements of any floating type, all NaN; the caller frees. Never NULL. */
void *filled(int64_t count, size_t size);

/* Random inputs, rounded to dtype, and the expected results. problem_free frees what it points to. */
problem problem_make(const test_case *c, ls_dtype dtype);
void problem_free(problem *p);

/* Whether one of the spans of a query, W/2 pairs, has the position. */
static inline bool spans_show(const int32_t *spans, int64_t W, int32_t position) {
    bool is = false;
    for (int64_t w = 0; w < W; w += 2) is |= spans[w] <= position && position < spans[w + 1];
    return is;
}

#endif
