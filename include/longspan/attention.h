/*
 * Attention alone, for a program that has its own queries, keys and values: one attention op whose sequence is spread
 * over ranks.
 *
 * ls_shared_attention_open plans it (it chooses mesh, strategy and layout, unless the spread names them), compiles a
 * forward and a backward program for every rank, and proves that they can neither hang nor race. Then
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
 * A program that has whole arrays and calls attention as a function runs no function of its own on the ranks: see
 * "calls on whole arrays" below.
 *
 * Axes. A rank has `batch` sequences from first_batch on, and n tokens of each. Row i of its arrays is the token at
 * position positions[i] of the whole sequence. q is [batch, n, heads, head_size], k [batch, n, kv_heads, head_size], v
 * [batch, n, kv_heads, value_size], o [batch, n, heads, value_size], lse [batch, heads, n]; a gradient has the shape of
 * its array. All arrays are dense, the last dimension contiguous. Query head h reads KV head h / (heads / kv_heads).
 * With S tokens on P ranks, n is the floor or the ceiling of S/P; every position is on one rank. If the mesh has no dp,
 * every rank holds a part of all sequences.
 *
 * Element types. q, k, v, grad_o, o, dq, dk, dv: `dtype`. lse: f32 (f64 if dtype is f64), natural logarithm. For a
 * query that sees no key, lse is -inf and its row of o is zeros. Sums over all ranks are made in the type of lse and
 * rounded once.
 *
 * A sink is [heads], whole on every rank: every rank writes the same values. dsink is the sum over all ranks, equal on
 * all of them.
 *
 * Memory belongs to Longspan. It is mapped and zero before the user's function begins, and keeps its addresses until
 * that function returns. With transfers "in-place", other ranks read a rank's arrays in the symmetric heap; with "put",
 * arrays are sent from there or from private memory. The user writes q, k, v, grad_o and the sink of its own rank only,
 * and reads the other arrays.
 *
 * Completion. A call returns on a rank when its results are complete and no other rank reads or writes its arrays.
 * Until its next call the arrays are this rank's alone, and q, k, v may be overwritten. backward does not compute the
 * forward pass again: it reads q, k, v, o, lse, grad_o and the sink as they are. A caller with several layers therefore
 * keeps copies of q, k, v, o and lse of each layer and writes them back before that layer's backward. Results stay
 * until the next call of the same kind. Any number of calls may be made, in any order that respects this.
 *
 * Errors are statuses. A call that fails leaves its results undefined, and the rank should return the status. When one
 * rank's function returns an error, the others are woken with LS_PEER, and ls_shared_attention_run returns the error
 * that was the cause.
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
    double softcap;          /* logits become softcap*tanh(logit/softcap); 0: no cap */
    bool sink;        /* an additional logit per query head, without a value: ls_attention_with_sink in graph.h */
    bool documents;   /* calls on whole arrays may give the documents of the sequences */
    bool gradients;   /* backward may be called: compiles a program and reserves memory for it */
    ls_spread spread; /* recompute and tile are ignored */
} ls_attention_options;

/*
 * Plans, compiles and proves. options and the mask are copied; the strings in options are borrowed until close. The
 * caller closes *out. Prints nothing and starts no rank. LS_INVALID for invalid sizes, types and masks; LS_USAGE if no
 * plan fits the spread, with the flag and the reason; LS_NO_MEMORY if a rank would not fit in memory.
 */
LS_MUST_USE ls_status ls_shared_attention_open(const ls_attention_options *options, ls_shared_attention **out);
void ls_shared_attention_close(ls_shared_attention *attention); /* NULL is allowed */

/* The choices, and the bytes that a forward and a backward call send, or read in place; seconds is 0. */
ls_spread_result ls_shared_attention_describe(const ls_shared_attention *attention);
/* Prints the choice, also the candidates, or also the programs of rank 0, to `out`. */
void ls_shared_attention_print(const ls_shared_attention *attention, ls_detail detail, FILE *out);

typedef struct ls_attention_rank ls_attention_rank;
/*
 * The function of each rank, like ls_work of engine.h: it only reads `input`; rank 0's `result`, zero at first, is
 * returned.
 */
typedef ls_status (*ls_attention_work)(ls_attention_rank *rank, const void *input, void *result);

/*
 * Starts the ranks (processes forked from the caller, or threads with spread.as_threads), calls `work` on each, and
 * blocks until all have ended. Runs once: LS_USAGE the second time. result[bytes] becomes rank 0's if the status is
 * LS_OK, or if it is LS_INTERRUPTED and rank 0's `work` returned; otherwise it does not change. bytes 0: there is no
 * result. What a forked process writes to other memory is lost when the process ends.
 */
LS_MUST_USE ls_status ls_shared_attention_run(ls_shared_attention *attention, ls_attention_work work, const void *input,
                                              void *result, size_t bytes);

/* --- one rank ----------------------------------------------------------------------------------------------------- */

/* A dense array, the last dimension contiguous. */
typedef struct ls_attention_array {
    void *data; /* NULL, with ndim 0: the array does not exist (gradients, sink) */
    ls_dtype dtype;
    int ndim;
    int64_t size[4];
} ls_attention_array;

typedef struct ls_attention_state ls_attention_state;

/* Read-only for the user; valid until `work` returns. */
struct ls_attention_rank {
    int rank, ranks;
    int64_t first_batch, batch;            /* the sequences of this rank */
    int64_t n;                             /* tokens of each sequence on this rank */
    const int32_t *positions;              /* [n] in the whole sequence; one or more runs, each ascending */
    ls_attention_array q, k, v, grad_o;    /* the user writes */
    ls_attention_array o, lse, dq, dk, dv; /* Longspan writes */
    ls_attention_array sink, dsink;        /* if opened with a sink; the user writes sink, Longspan writes dsink */
    ls_attention_state *state;
};

/*
 * Collective: every rank makes the same calls in the same order. A call blocks until the other ranks have reached the
 * points that it depends on. LS_PEER: another rank has died, or made no progress for the spread's wait_timeout.
 * backward: LS_USAGE if the attention was opened without gradients, or if forward was not called before.
 */
LS_MUST_USE ls_status ls_attention_forward(ls_attention_rank *rank);
LS_MUST_USE ls_status ls_attention_backward(ls_attention_rank *rank);

/*
 * Collective. Reads a whole array by its name in ls_attention_rank ("o", "dq", ...) into out: [batch, seq, heads,
 * head_size or value_size] with the sizes of all ranks together, tokens in the order of the sequence, in the array's
 * own element type. out may be NULL on ranks that need no copy.
 */
LS_MUST_USE ls_status ls_attention_get(ls_attention_rank *rank, const char *name, void *out);

/* Collective: on every rank, all[r] becomes rank r's `mine`. mine: `bytes` bytes; all: that many for each rank. */
LS_MUST_USE ls_status ls_attention_gather(ls_attention_rank *rank, const void *mine, size_t bytes, void *all);

/*
 * Collective: blocks until all ranks have called it. *stop becomes true on all ranks if Ctrl-C was pressed (a second
 * Ctrl-C ends the ranks at once); stop may be NULL.
 */
LS_MUST_USE ls_status ls_attention_barrier(ls_attention_rank *rank, bool *stop);

/* --- calls on whole arrays ---------------------------------------------------------------------------------------- */

/*
 * Instead of ls_shared_attention_run: attention as a function of arrays in the caller's memory, which may be called any
 * number of times between open and close.
 *
 *     LS_TRY(ls_shared_attention_open(&options, &a));
 *     LS_TRY(ls_shared_attention_forward(a, &(ls_attention_arrays){.q = q, .k = k, .v = v, .o = o, .lse = lse}));
 *     LS_TRY(ls_shared_attention_backward(a, &(ls_attention_arrays){.q = q, .k = k, .v = v, .o = o, .lse = lse,
 *         .grad_o = grad_o, .dq = dq, .dk = dk, .dv = dv}));
 *     ls_shared_attention_close(a);
 *
 * Threads. The first call starts the ranks as threads of this process, whatever spread.as_threads says; they wait
 * between calls until close. No process is forked, and the threads receive no signals. The calling thread does the work
 * of rank 0 itself. A call copies the ranks' parts of the caller's arrays, runs the programs, copies the results back,
 * and returns when all this is done. Calls may come from any thread; a call that comes during another one waits for it.
 * Several attentions may be open.
 *
 * State. No state of a call is kept for the next: what backward needs of forward, o and lse, is in the caller's arrays.
 * So one attention serves all layers, and calls may come in any order.
 *
 * Arrays of a GPU. An attention on the device cuda (spread.device) takes arrays in memory of the host or of a GPU. For
 * arrays of a GPU the call has on_device set, and `stream` is the stream of the caller's work. The call blocks until
 * all work submitted to that stream so far has been executed, copies the arrays within the GPU's memory (between GPUs,
 * if a rank uses another one), and returns when the results are complete. Work that is submitted to any stream after
 * the call finds the results, and may overwrite every array. The call submits nothing to the stream. It does not wait
 * for other streams: work on them that writes the arrays must have been executed, or `stream` must wait for it. The
 * driver refuses a stream that is capturing a graph. The stream's context must be the calling thread's current one. The
 * caller's streams and Longspan's share the GPU's hardware queues: CUDA_DEVICE_MAX_CONNECTIONS=32 must be in the
 * environment when the process first uses CUDA.
 *
 * Ctrl-C does not end a call: the caller's signal handler runs as usual, and the call returns when it is complete. A
 * child process after a fork has no ranks: a call there is refused (LS_USAGE), and close does nothing.
 *
 * Errors. LS_INVALID names an array that is missing or has an unsuitable stride; LS_USAGE as for the functions above.
 * When a rank fails, the call returns its error, its results are undefined, and every later call returns the same
 * error. If another program launched this process as one of several ranks (torchrun, srun, mpirun), each process can
 * have its own ranks only with LONGSPAN_BOOT=local in the environment at the first call of this library; otherwise
 * LS_USAGE.
 */

/*
 * An array [batch, seq, heads, head_size] (kv_heads for k, v and their gradients; value_size for v, o and their
 * gradients) in the caller's memory, of the host or, with on_device, of a GPU. Strides are free, except that the
 * elements of a head are contiguous: element (b, s, h, d) is at b*batch + s*token + h*head + d.
 */
typedef struct ls_attention_strided {
    void *data;                 /* NULL: no such array. Inputs are only read */
    int64_t batch, token, head; /* in elements; those of an input may be 0 (repeated) or negative */
} ls_attention_strided;

/* The arrays of a call, borrowed until it returns. No result may overlap another array of the call. */
typedef struct ls_attention_arrays {
    ls_attention_strided q, k, v;
    ls_attention_strided o;
    void *lse;        /* [batch, heads, seq], dense, f32 (f64 if dtype is f64) */
    const void *sink; /* [heads], if opened with a sink */
    /*
     * If opened with documents: the documents of each sequence, within which the mask applies. Sequence b has the
     * n_ends[b] bounds ends[b * room], ..., ascending from 0 to seq. NULL: each sequence is one document.
     */
    const int32_t *ends;
    const int32_t *n_ends;
    int64_t room;
    /* this and the remaining arrays are for backward; a result that is NULL is not computed */
    ls_attention_strided grad_o;
    ls_attention_strided dq, dk, dv;
    void *dsink;
    /*
     * For both calls: all arrays except ends and n_ends are in memory of a GPU, and the caller's work is on `stream`.
     */
    bool on_device;
    void *stream; /* a CUstream or cudaStream_t; NULL: the default stream */
} ls_attention_arrays;

/* Writes o, and lse if it is not NULL. Blocks until done. */
LS_MUST_USE ls_status ls_shared_attention_forward(ls_shared_attention *attention, const ls_attention_arrays *call);
/* Reads q, k, v, o, lse, grad_o and the sink; writes the gradients that are not NULL. Blocks until done. */
LS_MUST_USE ls_status ls_shared_attention_backward(ls_shared_attention *attention, const ls_attention_arrays *call);

LS_PUBLIC_END

#endif
