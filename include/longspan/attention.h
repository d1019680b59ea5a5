/*
 * Attention alone, for a program that has its own queries, keys and values: one attention op whose sequence is shared by ranks.
 *
 * Opening one plans it (mesh, strategy, layout: chosen, or as the spread asks), compiles a program of the forward pass and one of the
 * gradient for every rank, and proves that they can neither hang nor race. Then ls_shared_attention_run starts the ranks, and
 * each of them calls the user's function with its end:
 *
 *     static ls_status work(ls_attention_rank *r, void *context) {
 *         write_my_tokens(r->q, r->k, r->v, r->positions);        where Longspan keeps them: nothing is copied
 *         LS_TRY(ls_attention_forward(r));
 *         read_my_tokens(r->o, r->lse);
 *         write_my_tokens(r->grad_o, ...);
 *         LS_TRY(ls_attention_backward(r));
 *         read_my_tokens(r->dq, r->dk, r->dv);
 *         return ls_ok();
 *     }
 *
 *     const ls_mask causal = ls_mask_causal();
 *     LS_TRY(ls_shared_attention_open(&(ls_attention_options){.batch = 1, .seq = 65536, .heads = 8, .kv_heads = 2,
 *         .head_size = 128, .dtype = LS_BF16, .mask = &causal, .gradients = true, .spread = {.ranks = 4}}, &a));
 *     status = ls_shared_attention_run(a, work, NULL, 0);
 *     ls_shared_attention_close(a);
 *
 * Axes. A rank holds `batch` sequences from first_batch on, and of each the n tokens at `positions` of the whole sequence: row i of
 * its arrays is the token at positions[i]. q, o and their gradients are [batch, n, heads, head_size], k, v and theirs
 * [batch, n, kv_heads, head_size], lse is [batch, heads, n]; all dense, the last dimension contiguous. Query head h reads KV head
 * h / (heads / kv_heads). With S tokens on P ranks n is floor or ceil of S/P; every position is on one rank. Unless the mesh has dp
 * ranks, every rank holds a part of all sequences.
 *
 * Element types. q, k, v, grad_o, o, dq, dk, dv: `dtype`. lse: f32 (f64 under f64), natural logarithm; -inf, and a row of zeros in o,
 * for a query that sees nothing. Sums are made in the type of lse across all ranks, and rounded once.
 *
 * A sink is [heads], whole on every rank: each writes the same, and dsink, summed over all ranks, is the same on each.
 * backward reads the sink again, too.
 *
 * Memory is Longspan's: mapped once, before the user's function begins, zeros at first, the same addresses until that function returns.
 * What other ranks read lies in the symmetric heap: with transfers "in-place" they read it there, with "put" it is sent from there
 * or from private memory. The user writes q, k, v and grad_o (and no other rank's), and reads the rest.
 *
 * Completion. A call returns on a rank when its own results are complete and nobody reads or writes its arrays any more: from then on
 * until its next call all of them are this rank's alone. q, k, v may then be overwritten; but backward reads q, k, v, o and lse
 * again as they lie, besides grad_o, and nothing else: it does not compute the forward pass again. Who has several calls under
 * way (layers) keeps copies of the five and puts them back. Results stay until the next call of the same kind.
 * Any number of calls may be made, in any order but for that.
 *
 * Errors are statuses; a call that fails leaves its results undefined, and the rank should return the status. When one rank's
 * function returns an error, the others are woken with LS_PEER and ls_shared_attention_run returns the error that explains the rest.
 */
#ifndef LONGSPAN_ATTENTION_H
#define LONGSPAN_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "longspan/engine.h"
#include "longspan/linkage.h"
#include "longspan/spread.h"
#include "longspan/tensor.h"

LS_PUBLIC_BEGIN

/* --- all ranks: the caller's end ------------------------------------------------------------------------------------------- */

typedef struct ls_shared_attention ls_shared_attention;

typedef struct ls_attention_options {
    int64_t batch, seq;      /* of all ranks together */
    int64_t heads, kv_heads; /* heads is a multiple of kv_heads */
    int64_t head_size;
    ls_dtype dtype;      /* LS_F32 (0), LS_F64 or LS_BF16 */
    const ls_mask *mask; /* copied; NULL: full */
    double scale;        /* of q·k; 0: 1/sqrt(head_size) */
    double softcap;      /* logits become softcap*tanh(logit/softcap); 0: as they are */
    bool sink;        /* a further logit for each query head, of value 0: ls_attention_with_sink in graph.h */
    bool gradients;   /* backward will be called: memory and a program for it */
    ls_spread spread; /* recompute and tile do not matter here */
} ls_attention_options;

/*
 * Prints nothing and starts nothing. LS_INVALID for sizes, types and masks that cannot be, LS_USAGE for a spread that cannot be met (which
 * flag, and why the strategy does not apply), LS_NO_MEMORY when a rank would not fit.
 */
LS_MUST_USE ls_status ls_shared_attention_open(const ls_attention_options *options,
                                               ls_shared_attention **out);
void ls_shared_attention_close(ls_shared_attention *attention); /* NULL is allowed */

/* What was chosen, and what a forward and a backward call send or read in place; seconds is 0. */
ls_spread_result ls_shared_attention_describe(const ls_shared_attention *attention);
/* The choice, the candidates, or the programs of rank 0. */
void ls_shared_attention_print(const ls_shared_attention *attention, ls_detail detail, FILE *out);

typedef struct ls_attention_rank ls_attention_rank;
typedef ls_status (*ls_attention_work)(ls_attention_rank *rank, void *context);

/*
 * Starts the ranks (processes forked from the caller, or threads with spread.as_threads), calls `work` on each, and returns when all have
 * ended. Runs once: LS_USAGE the second time. bytes > 0: the ranks work on one shared copy of the context's bytes, which is copied
 * back in the end; ranks that write there see to it that they do not write the same. bytes 0: they get the pointer as it is;
 * what a process writes to other memory is lost with it.
 */
LS_MUST_USE ls_status ls_shared_attention_run(ls_shared_attention *attention, ls_attention_work work,
                                              void *context, size_t bytes);

/* --- one rank -------------------------------------------------------------------------------------------------------------- */

/* A dense array, the last dimension contiguous. */
typedef struct ls_attention_array {
    void *data; /* NULL, and no dimensions: there is none (gradients of one opened without) */
    ls_dtype dtype;
    int ndim;
    int64_t size[4];
} ls_attention_array;

typedef struct ls_attention_state ls_attention_state;

/* The struct is to be read only. Valid while `work` runs. */
struct ls_attention_rank {
    int rank, ranks;
    int64_t first_batch, batch; /* of the sequences, those that it holds */
    int64_t n;                  /* tokens of each that it holds */
    const int32_t *positions;   /* [n] of the whole sequence, ascending within each of one or more runs */
    ls_attention_array q, k, v, grad_o;    /* the user writes */
    ls_attention_array o, lse, dq, dk, dv; /* Longspan writes */
    ls_attention_array sink, dsink;        /* of one opened with a sink: the user writes, Longspan writes */
    ls_attention_state *state;
};

/*
 * Collective: every rank makes the same calls in the same order. They block until the other ranks have come as
 * far as is needed, with LS_PEER when one of them has died or stood still for the spread's wait_timeout. backward: LS_USAGE
 * when the attention was opened without gradients, or forward was not called before.
 */
LS_MUST_USE ls_status ls_attention_forward(ls_attention_rank *rank);
LS_MUST_USE ls_status ls_attention_backward(ls_attention_rank *rank);

/*
 * Collective over all ranks: returns when all have come. *stop, the same on all of them: somebody pressed Ctrl-C (a second one ends the
 * ranks at once); stop may be NULL.
 */
LS_MUST_USE ls_status ls_attention_barrier(ls_attention_rank *rank, bool *stop);

LS_PUBLIC_END

#endif
