/*
 * Masks as lists of visible keys. For one query, every mask is a few half-open spans of key positions. Kernels, work
 * lists and byte counts read only these spans.
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

/* For one query a term has at most two spans, so an intersection of n terms has at most n + 1. */
#define LS_MASK_SPANS (LS_MASK_TERMS + 1)

/*
 * The spans of keys that query q sees in a sequence of S tokens: disjoint, ascending, none empty. Returns their number.
 */
int ls_mask_spans(const ls_mask *mask, int64_t S, int64_t q, ls_span out[LS_MASK_SPANS]);

/* The largest number of spans of a query under this mask, at least 1: the width of its table. */
int ls_mask_width(const ls_mask *mask);

/*
 * The spans of n queries at the given positions: out[i*width + j] is span j of query i; missing spans are empty (0, 0).
 */
void ls_mask_table(const ls_mask *mask, int64_t S, const int32_t *positions, int64_t n, ls_span *out);

/*
 * The number of (query, key) pairs that the mask allows among S queries and S keys. When S is larger than
 * LS_MASK_SAMPLES, that many queries at equal distances are counted and the result is scaled: its relative error is
 * about 1/LS_MASK_SAMPLES, and the time is bounded.
 */
enum { LS_MASK_SAMPLES = 1 << 22 };
int64_t ls_mask_area(const ls_mask *mask, int64_t S);

/*
 * The number of pairs for each pair of parts, with the sequence cut into n parts (ls_part_start): adds `weight` to
 * area[i*n + j] for every allowed pair of a query of part i and a key of part j. Takes time proportional to S + n*n.
 */
void ls_mask_areas(const ls_mask *mask, int64_t S, int n, double weight, double *area);

/* Whether a term of the mask is of that kind. */
bool ls_mask_has(const ls_mask *mask, ls_mask_kind kind);

/* Whether two masks have the same terms, in any order. */
bool ls_mask_equal(const ls_mask *a, const ls_mask *b);

/* Prints "full", "causal" or e.g. "window:64:4+documents". */
void ls_mask_print(const ls_mask *mask, char *out, size_t bytes);

/*
 * Reads one term of the command line (full, causal, window:W, window:W:N, prefix:N) and adds it to the mask. Any other
 * text is an LS_USAGE error that names the term and what was expected. The caller handles documents:FILE, because this
 * folder reads no files.
 */
LS_MUST_USE ls_status ls_mask_add_term(ls_mask *mask, const char *term);

/*
 * Checks the kinds and numbers of a mask from outside, and its ends of documents against S. LS_INVALID errors name the
 * term or entry.
 */
LS_MUST_USE ls_status ls_mask_check(const ls_mask *mask, int64_t S);

#endif
