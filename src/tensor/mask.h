/*
 * Masks as lists of visible keys. Every mask, for one query, is a few half-open spans of key positions; kernels,
 * work lists and byte counts all read these and nothing else.
 */
#ifndef LS_TENSOR_MASK_H
#define LS_TENSOR_MASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "longspan/tensor.h"

typedef struct ls_span {
    int32_t lo, hi; /* keys lo <= k < hi; empty when lo >= hi */
} ls_span;

/* A term is at most two spans for one query, so an intersection of n terms is at most n + 1. */
#define LS_MASK_SPANS (LS_MASK_TERMS + 1)

/* The keys that query q sees, of a sequence of S: disjoint, ascending, none empty. Returns how many. */
int ls_mask_spans(const ls_mask *mask, int64_t S, int64_t q, ls_span out[LS_MASK_SPANS]);

/* The most spans that any query can have under this mask: the width of its table. At least 1. */
int ls_mask_width(const ls_mask *mask);

/*
 * The table for n queries at the given positions: out[i*width + j], missing spans empty (0, 0).
 */
void ls_mask_table(const ls_mask *mask, int64_t S, const int32_t *positions, int64_t n, ls_span *out);

/*
 * Number of (query, key) pairs that the mask leaves among S queries and S keys. Of more than LS_MASK_MOST_ASKED queries so many are asked, evenly
 * spread: the number is then right to about one in that many, and takes no time that grows with S.
 */
enum { LS_MASK_MOST_ASKED = 1 << 22 };
int64_t ls_mask_area(const ls_mask *mask, int64_t S);

/*
 * The same by pieces: with the sequence cut into n parts (ls_part_start), area[i*n + j] grows by `weight` for every pair of a query of
 * part i and a key of part j. Takes time S + n*n.
 */
void ls_mask_areas(const ls_mask *mask, int64_t S, int n, double weight, double *area);

bool ls_mask_equal(const ls_mask *a, const ls_mask *b);

/* "full", "causal", "window:64:4+documents". */
void ls_mask_print(const ls_mask *mask, char *out, size_t bytes);

/*
 * Reads one term as the command line gives it (full, causal, window:W, window:W:N, prefix:N) and adds it to the mask.
 * documents:FILE is the caller's, who reads files. LS_USAGE error naming the term and what was expected.
 */
LS_MUST_USE ls_status ls_mask_add_term(ls_mask *mask, const char *term);

/* Checks a mask that comes from outside: kinds, numbers, and the ends of documents against S. LS_INVALID error naming the term or the entry. */
LS_MUST_USE ls_status ls_mask_check(const ls_mask *mask, int64_t S);

#endif
