/*
 * A pass of attention over ranks, forward and backward, for `longspan bench attention` and for bench/attention_hosts.c,
 * whose ranks are launched on several hosts.
 */
#ifndef LS_BENCH_PASS_H
#define LS_BENCH_PASS_H

#include "base/base.h"
#include "longspan/attention.h"

/* Seconds of the forward pass, and of the forward and the backward pass together; of one rank, or of the slowest. */
typedef struct ls_pass_times {
    double forward, both;
} ls_pass_times;

/* Fills q, k, v and the gradient of o of this rank with random numbers, which differ between ranks. */
void ls_pass_fill(ls_attention_rank *rank);

/* Times one pass, which begins when all ranks have come. LS_INTERRUPTED: the user has stopped the ranks. */
LS_MUST_USE ls_status ls_pass_time(ls_attention_rank *rank, ls_pass_times *out);

/* The largest times of all ranks. Collective: every rank calls it with its own times. */
LS_MUST_USE ls_status ls_pass_slowest(ls_attention_rank *rank, const ls_pass_times *mine, ls_pass_times *out);

#endif
