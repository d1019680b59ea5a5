/*
 * Blocks that are put, for itself: those of keys and values on their way (put.c), and parts of their gradients on their
 * way home (put_gradients.c).
 */
#ifndef LS_ATTENTION_PUT_H
#define LS_ATTENTION_PUT_H

#include "compile/attention/attention.h"

/* While one is read, the next arrives in the other. */
enum { LS_PUT_SLOTS = 2 };

/* Room in the heap for so many tokens of keys or values (w) on any rank. */
ls_operand ls_put_slot(ls_builder *b, const ls_site *site, const char *name, int w, int i, ls_dtype dtype,
                       int64_t tokens);
extern const char *const ls_put_name[LS_KV]; /* "k", "v" */

/* Parts of gradients, and sums of them. */
typedef struct ls_put_gradients {
    int mask;
    ls_kv_pass pass;
    /* Parts of blocks that have come along the inner ring; of each, by the hop, one for its first rank here. */
    int n, sent, added;
    int *hop;
    ls_operand part[LS_KV][LS_PUT_SLOTS]; /* mine; for the most tokens that are seen, as are the slots */
    ls_operand slot[LS_KV][LS_PUT_SLOTS]; /* another's, of the block that came to me first */
    ls_operand sum[LS_KV];                /* for my own block */
    /* With two rings: by outer hop, the sum for the block that has come here over it, and those of my own block. */
    int rings, opened, closed, homed;
    int *out;
    ls_operand of_ring[LS_KV][LS_PUT_SLOTS];
    ls_operand home[LS_KV][LS_PUT_SLOTS];
} ls_put_gradients;

void ls_put_gradients_begin(ls_builder *b, const ls_site *site, ls_kv_pass pass, ls_put_gradients *g);
/* As those of ls_kv_transfer. */
const ls_token_set *ls_put_gradient_room(ls_builder *b, ls_put_gradients *g, int hop, ls_operand room[LS_KV]);
void ls_put_gradient_send(ls_builder *b, ls_put_gradients *g, int hop, const ls_operand mine[LS_KV]);
void ls_put_gradients_sum(ls_builder *b, ls_put_gradients *g, ls_operand sum[LS_KV]);

#endif
