/*
 * data: the order of the sequences of each epoch: random or, so that the sequences of a step have similar work,
 * grouped. It is a pure function of the seed and an index, so any rank can evaluate it, and a resumed run needs only
 * its step number.
 */
#ifndef LS_DATA_ORDER_IMPL_H
#define LS_DATA_ORDER_IMPL_H

#include "base/base.h"

/*
 * The position of index < n in a random permutation of 0 .. n - 1; n from 1 to 2^62. It needs no table, so any rank can
 * evaluate it at any index: a balanced Feistel network of Philox rounds over the next power of four, repeated until the
 * result is below n (fewer than 4 times on average).
 */
uint64_t ls_permute(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t index);

typedef struct ls_epoch_order {
    int64_t n; /* sequences of an epoch */
    uint64_t seed;
    bool shuffle;      /* false: the packer's order */
    int64_t batch;     /* sequences of a step, which have similar work; 0: random sequences */
    int64_t *by_work;  /* with batch: the sequences' places in the packer's order, in ascending order of work */
    int64_t neighbour; /* with batch: a step's sequences are drawn from this many neighbours, or up to twice as many */
} ls_epoch_order;

/* Sets batch >= 1. work[n]: work of each sequence, in the packer's order; borrowed during the call. */
LS_MUST_USE ls_status ls_order_group(ls_epoch_order *order, int64_t batch, const int64_t *work);
void ls_order_free(ls_epoch_order *order); /* a zeroed one is allowed */

/* The place, in the packer's order, of sequence `index` >= 0 of an endless series of epochs. */
int64_t ls_order_place(const ls_epoch_order *order, int64_t index);

/* The sequences of a step are cut into micro-batches, and each of these equally among the replicas. */
typedef struct ls_step_parts {
    int64_t batch, micro_batches;
    int replicas;
} ls_step_parts;
/*
 * How uneven the work of the replicas is in the steps of the first epoch: that of the busiest replica divided by the
 * mean over all; a mean over the steps, weighted by their work. 1: even. NaN if an epoch has no whole step.
 */
double ls_order_balance(const ls_epoch_order *order, const int64_t *work, const ls_step_parts *parts);

#endif
