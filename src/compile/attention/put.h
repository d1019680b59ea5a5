/*
 * Internal to put: the transfers of keys and values (put.c), and of the parts of their gradients back to the blocks'
 * ranks (put_gradients.c).
 */
#ifndef LS_ATTENTION_PUT_H
#define LS_ATTENTION_PUT_H

#include "compile/attention/attention.h"

/* While one slot is read, the next block arrives in the other. */
enum { LS_PUT_SLOTS = 2 };

/* A slot in the heap for `tokens` tokens of keys or values (w), the largest number on any rank. */
ls_operand ls_put_slot(ls_builder *b, const ls_site *site, const char *name, int w, int i, ls_dtype dtype,
                       int64_t tokens);
extern const char *const ls_put_name[LS_KV]; /* "k", "v" */

/* Parts of gradients, and their sums. */
typedef struct ls_put_gradients {
    int mask;
    ls_kv_pass pass;
    /*
     * Parts within the inner ring: n of them, hop[n] the hop of each; each goes to the rank at which the block entered
     * the inner ring. sent, added: how many have been so far.
     */
    int n, sent, added;
    int *hop;
    ls_operand part[LS_KV][LS_PUT_SLOTS]; /* my parts; as large as the slots */
    ls_operand slot[LS_KV][LS_PUT_SLOTS]; /* others' parts, of the block that entered the inner ring here; for the most
                                             tokens that any block sees of another */
    ls_operand sum[LS_KV];                /* for my own block */
    /*
     * With two rings: the sums of inner rings, for the blocks that entered here and for my own block. out[rings]: the
     * outer hop of each. The others count those that have begun, have been sent, and have arrived here and been added.
     */
    int rings, opened, closed, homed;
    int *out;
    ls_operand of_ring[LS_KV][LS_PUT_SLOTS];
    ls_operand home[LS_KV][LS_PUT_SLOTS];
} ls_put_gradients;

void ls_put_gradients_begin(ls_builder *b, const ls_site *site, ls_kv_pass pass, ls_put_gradients *g);
/* The same as the functions of ls_kv_transfer. */
const ls_token_set *ls_put_gradient_room(ls_builder *b, ls_put_gradients *g, int hop, ls_operand room[LS_KV]);
void ls_put_gradient_send(ls_builder *b, ls_put_gradients *g, int hop, const ls_operand mine[LS_KV]);
void ls_put_gradients_sum(ls_builder *b, ls_put_gradients *g, ls_operand sum[LS_KV]);

#endif
