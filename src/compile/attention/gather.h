/*
 * Internal to gather: the transfers of keys and values, one KV head after the other, and of the parts of their
 * gradients (gather_transfer.c).
 */
#ifndef LS_ATTENTION_GATHER_H
#define LS_ATTENTION_GATHER_H

#include "compile/attention/attention.h"

enum { LS_GATHER_SLOTS = 2 };

typedef struct ls_gathering {
    ls_site *site;
    const int *hops; /* the used hops (ls_hops) */
    int n_hops;
    ls_operand positions;                       /* i32 positions of the tokens that I see, block after block */
    ls_operand slot[LS_KV][LS_GATHER_SLOTS];    /* T[B,tokens,1,D[LS_KV]], in the same order */
    ls_operand part[LS_KV][LS_GATHER_SLOTS];    /* G, in the same order: my part of the gradient */
    ls_operand arrived[LS_KV][LS_GATHER_SLOTS]; /* the parts of others for my block, in rank order, each dense */
    ls_operand sum[LS_KV];                      /* G[B,n,kv heads,D[LS_KV]] */
} ls_gathering;

/* One of my KV heads and those of my query heads that read it; empty for an index beyond my last KV head. */
typedef struct ls_head_group {
    int index;
    int64_t kv, kv_count, q, q_count;
} ls_head_group;

ls_head_group ls_head_group_of(const ls_builder *b, const ls_site *site, int index);

/* Makes the slots, grants them for the first groups, and sends group 0. */
ls_gathering ls_gather_set_out(ls_builder *b, ls_site *site);
/* Sends my block's share of a group to all ranks that see some of it, and copies my own part to my slot. */
void ls_gather_give(ls_builder *b, const ls_gathering *x, int index);
/* Waits until the group is complete in its slot. */
void ls_gather_take(ls_builder *b, const ls_gathering *x, int index);
/* Grants the slot for that group, if there is such a group. */
void ls_gather_expect(ls_builder *b, const ls_gathering *x, int index);
/* All tokens of a group that I see, in one of the slots or parts: [B,tokens,1,..]. */
ls_operand ls_gather_seen(ls_builder *b, const ls_gathering *x, ls_operand buffer, const ls_head_group *g);

/* Makes the memory for the parts, mine and others', and for the sums. */
void ls_gather_set_out_parts(ls_builder *b, ls_gathering *x);
/* Sends my parts of a group to the ranks of their blocks. */
void ls_gather_give_parts(ls_builder *b, const ls_gathering *x, const ls_head_group *g);
/* Adds all parts of a group for my block to the sums, in rank order. */
void ls_gather_add_parts(ls_builder *b, const ls_gathering *x, int index);

#endif
