/*
 * gather, for itself: keys and values of one KV head after the other, and parts of their gradients, on their way
 * (gather_transfer.c).
 */
#ifndef LS_ATTENTION_GATHER_H
#define LS_ATTENTION_GATHER_H

#include "compile/attention/attention.h"

enum { LS_GATHER_SLOTS = 2 };

typedef struct ls_gathering {
    ls_site *site;
    const int *hops; /* that are used */
    int n_hops;
    ls_operand positions;                       /* i32 of what I see: block after block */
    ls_operand slot[LS_KV][LS_GATHER_SLOTS];    /* T[B,tokens,1,D[LS_KV]], in that order */
    ls_operand part[LS_KV][LS_GATHER_SLOTS];    /* G, likewise: my part of the gradient */
    ls_operand arrived[LS_KV][LS_GATHER_SLOTS]; /* others' parts of my block's, rank after rank, each dense */
    ls_operand sum[LS_KV];                      /* G[B,n,kv heads,D[LS_KV]] */
} ls_gathering;

/* A KV head of mine and the query heads of mine that read it; none beyond my last. */
typedef struct ls_head_group {
    int index;
    int64_t kv, kv_count, q, q_count;
} ls_head_group;

ls_head_group ls_head_group_of(const ls_builder *b, const ls_site *site, int index);

/* Slots, handed over for the first groups; the first has left. */
ls_gathering ls_gather_set_out(ls_builder *b, ls_site *site);
/* My block's share of a group leaves for all who see some of it, and goes to its place in my own slot. */
void ls_gather_give(ls_builder *b, const ls_gathering *x, int index);
/* The group is complete in its slot. */
void ls_gather_take(ls_builder *b, const ls_gathering *x, int index);
/* The slot is free for that group, if there is one. */
void ls_gather_expect(ls_builder *b, const ls_gathering *x, int index);
/* All that I see of a group, in a slot or a part: [B,tokens,1,..]. */
ls_operand ls_gather_seen(ls_builder *b, const ls_gathering *x, ls_operand buffer, const ls_head_group *g);

/* Room for parts, mine and others', and the sums. */
void ls_gather_set_out_parts(ls_builder *b, ls_gathering *x);
/* My parts of a group leave for the ranks of their blocks. */
void ls_gather_give_parts(ls_builder *b, const ls_gathering *x, const ls_head_group *g);
/* All parts of a group for my block are added to the sums, in rank order. */
void ls_gather_add_parts(ls_builder *b, const ls_gathering *x, int index);

#endif
