/*
 * Attention alone, for a program that has its own queries, keys and values: one attention op whose sequence is spread
 * over ranks.
 *
 * ls_shared_attention_open plans it (it chooses mesh, strategy and layout, as far as the spread does not name them),
 * compiles a forward and a backward program for every rank, and proves that they can neither hang nor race. Then
 * ls_shared_attention_run starts the ranks, and each of them calls the user's function:
 *
 *     static ls_status work(ls_attention_rank *r, const void *input, void *result) {
 *         write_my_tokens(r->q, r->k, r->v, r->positions);        into Longspan's own memory: nothing is copied
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
 *     status = ls_shared_attention_run(a, work, NULL, NULL, 0);
 *     ls_shared_attention_close(a);
 *
 * A program that has its arrays whole, and that calls attention as a function, runs no function of its own on the
 * ranks: see "Calls on whole arrays" below.
 *
 * Axes. A rank holds `batch` sequences from first_batch on, and n tokens of each; `positions` are their positions in
 * the whole sequence: row i of its arrays is the token at positions[i]. q is [batch, n, heads, head_size], k [batch, n,
 * kv_heads, head_size], v [batch, n, kv_heads, value_size], o [batch, n, heads, value_size], gradients are like what
 * they are of, lse is [batch, heads, n]; all dense, the last dimension contiguous. Query head h reads KV head h /
 * (heads / kv_heads). With S tokens on P ranks n is floor or ceil of S/P; every position is on one rank. Without dp
 * ranks in the mesh, every rank holds a part of all sequences.
 *
 * Element types. q, k, v, grad_o, o, dq, dk, dv: `dtype`. lse: f32 (f64 if dtype is f64), natural logarithm. For a
 * query that sees no key, lse is -inf and its row of o is zeros. Sums over all ranks are made in the type of lse and
 * rounded once.
 *
 * A sink is [heads], whole on every rank: every rank writes the same values. dsink is the sum over all ranks, equal on
 * each of them.
 *
 * Memory belongs to Longspan: it is mapped and zero before the user's function begins, and keeps its addresses until
 * that function returns. What other ranks need lies in the symmetric heap with transfers "in-place", and they read it
 * there; with "put" it is sent from there or from private memory. The user writes q, k, v, grad_o and the sink of the
 * own rank only, and reads the other arrays.
 *
 * Completion. A call returns on a rank when its results are complete and no other rank reads or writes its arrays.
 * Until its next call the arrays are this rank's alone, and q, k, v may be overwritten. backward does not compute the
 * forward pass again: it reads q, k, v, o, lse, grad_o and the sink as they are. A caller with several layers therefore
 * keeps copies of q, k, v, o and lse of each layer and writes them back before that layer's backward. Results stay
 * until the next call of the same kind. Any number of calls may be made, in any order that respects this.
 *
 * Errors are statuses; a call that fails leaves its results undefined, and the rank should return the status. When one
 * rank's function returns an error, the others are woken with LS_PEER and ls_shared_attention_run returns the error
 * that explains the rest.
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

/* --- the caller, for all ranks ------------------------------------------------------------------------------------ */

typedef struct ls_shared_attention ls_shared_attention;

typedef struct ls_attention_options {
    int64_t batch, seq;      /* of all ranks together */
    int64_t heads, kv_heads; /* heads is a multiple of kv_heads */
    int64_t head_size;       /* of q and k */
    int64_t value_size;      /* of v, and so of o; 0: head_size */
    ls_dtype dtype;          /* LS_F32 (0), LS_F64 or LS_BF16 */
    const ls_mask *mask;     /* copied; NULL: full */
    double scale;            /* of q·k; 0: 1/sqrt(head_size) */
    double softcap;          /* logits become softcap*tanh(logit/softcap); 0: unchanged */
    bool sink;               /* one more logit per query head, without a value: ls_attention_with_sink in graph.h */
    bool documents;          /* calls on whole arrays may say which documents the sequences hold */
    bool gradients;          /* backward may be called: compiles a program and reserves memory for it */
    ls_spread spread;        /* recompute and tile are ignored */
} ls_attention_options;

/*
 * Prints nothing and starts no rank. LS_INVALID for invalid sizes, types and masks; LS_USAGE if no plan meets the
 * spread, naming the flag and the reason; LS_NO_MEMORY if a rank would not fit.
 */
LS_MUST_USE ls_status ls_shared_attention_open(const ls_attention_options *options, ls_shared_attention **out);
void ls_shared_attention_close(ls_shared_attention *attention); /* NULL is allowed */

/* The choices, and the bytes that a forward and a backward call send or read in place; seconds is 0. */
ls_spread_result ls_shared_attention_describe(const ls_shared_attention *attention);
/* Prints the choice, the candidates, or the programs of rank 0. */
void ls_shared_attention_print(const ls_shared_attention *attention, ls_detail detail, FILE *out);

typedef struct ls_attention_rank ls_attention_rank;
/* As ls_work of engine.h: `input` is only read, and rank 0's `result`, zero at first, comes home. */
typedef ls_status (*ls_attention_work)(ls_attention_rank *rank, const void *input, void *result);

/*
 * Starts the ranks (processes forked from the caller, or threads with spread.as_threads), calls `work` on each, and
 * returns when all have ended. Runs once: LS_USAGE the second time. result[bytes] becomes rank 0's when the status is
 * LS_OK, or LS_INTERRUPTED and rank 0's `work` returned; else it does not change. bytes 0: there is no result. What a
 * process writes to other memory is lost when it ends.
 */
LS_MUST_USE ls_status ls_shared_attention_run(ls_shared_attention *attention, ls_attention_work work, const void *input,
                                              void *result, size_t bytes);

/* --- one rank ----------------------------------------------------------------------------------------------------- */

/* A dense array, the last dimension contiguous. */
typedef struct ls_attention_array {
    void *data; /* NULL, with ndim 0: there is no such array (gradients, sink) */
    ls_dtype dtype;
    int ndim;
    int64_t size[4];
} ls_attention_array;

typedef struct ls_attention_state ls_attention_state;

/* The struct is read-only for the user; valid until `work` returns. */
struct ls_attention_rank {
    int rank, ranks;
    int64_t first_batch, batch;            /* the sequences of this rank */
    int64_t n;                             /* tokens of each sequence on this rank */
    const int32_t *positions;              /* [n] in the whole sequence; one or more runs, each ascending */
    ls_attention_array q, k, v, grad_o;    /* the user writes */
    ls_attention_array o, lse, dq, dk, dv; /* Longspan writes */
    ls_attention_array sink, dsink;        /* if opened with a sink: the user writes sink, Longspan dsink */
    ls_attention_state *state;
};

/*
 * Collective: every rank makes the same calls in the same order. A call blocks until the other ranks have reached the
 * points that it depends on; LS_PEER when one of them has died or made no progress for the spread's wait_timeout.
 * backward: LS_USAGE if the attention was opened without gradients, or if forward was not called before.
 */
LS_MUST_USE ls_status ls_attention_forward(ls_attention_rank *rank);
LS_MUST_USE ls_status ls_attention_backward(ls_attention_rank *rank);

/*
 * Collective. Reads a whole array by its name in ls_attention_rank ("o", "dq", ...): all sequences in the order of
 * their tokens, [batch, seq, heads, head_size or value_size], with the sizes of all ranks together and the array's own
 * element type. out may be NULL on ranks that need no copy.
 */
LS_MUST_USE ls_status ls_attention_get(ls_attention_rank *rank, const char *name, void *out);

/* Collective: all[r] becomes rank r's `mine` on every rank; all has room for `bytes` of each. */
LS_MUST_USE ls_status ls_attention_gather(ls_attention_rank *rank, const void *mine, size_t bytes, void *all);

/*
 * Collective: returns when all ranks have called it. *stop, equal on all ranks: Ctrl-C was pressed (pressed again, it
 * ends the ranks at once); stop may be NULL.
 */
LS_MUST_USE ls_status ls_attention_barrier(ls_attention_rank *rank, bool *stop);

/* --- calls on whole arrays ---------------------------------------------------------------------------------------- */

/*
 * Instead of ls_shared_attention_run: attention as a function of arrays in the caller's memory, to be called any number
 * of times from open to close.
 *
 *     LS_TRY(ls_shared_attention_open(&options, &a));
 *     LS_TRY(ls_shared_attention_forward(a, &(ls_attention_arrays){.q = q, .k = k, .v = v, .o = o, .lse = lse}));
 *     LS_TRY(ls_shared_attention_backward(a, &(ls_attention_arrays){.q = q, .k = k, .v = v, .o = o, .lse = lse,
 *         .grad_o = grad_o, .dq = dq, .dk = dk, .dv = dv}));
 *     ls_shared_attention_close(a);
 *
 * Threads. The first call starts the ranks as threads of this process (spread.as_threads does not count), which wait
 * between calls until close; no process is forked, and the threads receive no signals. The calling thread does the work
 * of rank 0 itself. A call copies the ranks' parts of the caller's arrays, runs the programs, copies the results back,
 * and returns when all is done. Calls may come from any thread; those that come while one is under way wait for it.
 * Several attentions may be open.
 *
 * State. Nothing of a call is kept for the next: what backward needs, o and lse, is in the caller's arrays. So one
 * attention serves all layers, and calls come in any order.
 *
 * Arrays of a GPU. An attention on the device cuda (spread.device) takes arrays in memory of the host or of a GPU. For
 * the latter a call says on_device, and the stream on which the caller works. The call blocks until all that was put on
 * that stream has been executed, copies the arrays within the GPU's memory (between GPUs, where a rank has another
 * one), and returns when the results are complete: what is put on any stream after the call finds them, and may
 * overwrite every array. Nothing is put on the stream, which stays the caller's; other streams are not waited for: what
 * they write to the arrays must have been executed, or the stream must wait for it. A stream that captures a graph is
 * refused by the driver. The context of the stream is the calling thread's current one. The caller's own streams and
 * Longspan's share the GPU's ways to the hardware: CUDA_DEVICE_MAX_CONNECTIONS=32 must be in the environment when the
 * process first uses CUDA.
 *
 * Ctrl-C does not end a call: a handler of the caller's runs as usual, and the call returns when it is done. After a
 * fork the child has no ranks: there a call is refused (LS_USAGE), and close does nothing.
 *
 * Errors: LS_INVALID names an array that is missing or whose stride does not fit; LS_USAGE as for the functions above.
 * When a rank fails, the status is its failure, results are undefined, and so is every later call's.
 * Where another program launched this process as a rank of several (torchrun, srun, mpirun), LONGSPAN_BOOT=local in the
 * environment of the first call of this library lets each process have ranks of its own; else LS_USAGE.
 */

/*
 * Of [batch, seq, heads, head_size] (kv_heads for k, v and their gradients; value_size for v, o and their gradients):
 * the caller's memory, of the host or, if the call says so, of a GPU, with any strides, but the elements of a head lie
 * one after the other. Element (b, s, h, d) is
 * at b*batch + s*token + h*head + d.
 */
typedef struct ls_attention_strided {
    void *data;                 /* NULL: there is no such array. Inputs are only read */
    int64_t batch, token, head; /* elements; an input's may be 0 (the same for all) or negative */
} ls_attention_strided;

/* No result may overlap another array of the call. */
typedef struct ls_attention_arrays {
    ls_attention_strided q, k, v;
    ls_attention_strided o;
    void *lse;        /* [batch, heads, seq], dense, of the type that the top of this page names */
    const void *sink; /* [heads], if opened with a sink */
    /*
     * If opened with documents, those of each sequence, within which the mask holds: sequence b has the bounds
     * ends[b * room], ..., n_ends[b] of them, ascending from 0 to seq. NULL: each sequence is one document.
     */
    const int32_t *ends;
    const int32_t *n_ends;
    int64_t room;
    /* of backward, as are the remaining ones; a result that is NULL is not wanted */
    ls_attention_strided grad_o;
    ls_attention_strided dq, dk, dv;
    void *dsink;
    /* Of both: all arrays but ends and n_ends are in memory of a GPU, and the caller's work is on this stream. */
    bool on_device;
    void *stream; /* a CUstream or cudaStream_t; NULL: the default one */
} ls_attention_arrays;

/* Writes o, and lse unless that is NULL. */
LS_MUST_USE ls_status ls_shared_attention_forward(ls_shared_attention *attention, const ls_attention_arrays *call);
/* Reads q, k, v, o, lse, grad_o (and the sink), and writes the gradients that are wanted. */
LS_MUST_USE ls_status ls_shared_attention_backward(ls_shared_attention *attention, const ls_attention_arrays *call);

LS_PUBLIC_END

#endif
