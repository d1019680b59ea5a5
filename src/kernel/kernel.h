/*
 * kernel: the contract of every kernel, and the registry.
 *
 * A kernel is chosen by (name, element type, isa). Every kernel has a reference implementation (ref/: plain C, f32 and f64); faster ones
 * (cpu/) replace it for an isa. A kernel does not know about ranks: it gets views, parameters, a workspace whose size it declared, and the
 * pool on which it may split its work.
 * prepare checks everything that can fail, once, before a program runs. run cannot fail, allocates nothing, and gives the same bits for
 * the same views, parameters and number of threads.
 * T is the element type for which the kernel is registered (f32, f64, bf16), G = ls_dtype_accumulator(T). Views are dense unless the
 * contract says otherwise; [..] stands for any leading dimensions, merged into n rows (ls_view_rows).
 *
 *   name             in                                                    out
 *   embedding        ids i32[..], table T[V,E]                             T[..,E]
 *   embedding_grad   ids i32[..], dy T[..,E]                               dtable G[V,E]   (adds)
 *                    The row of the padding id in params does not change.
 *   matmul           A T, B T [, bias T[N]]                                C T, f32 or G [M,N]; A and B as params say
 *   column_sum       x T[..,N]                                             G[N]            (adds)
 *   rmsnorm          x T[..,E], weight T[E]                                y T[..,E], rstd G[..]
 *   rmsnorm_grad     x, weight, rstd, dy T[..,E]                           dx T[..,E], dweight G[E] (adds)
 *                    Both use weight + offset, with the offset in params.
 *   layernorm        x T[..,E], weight T[E] [, bias T[E]]                  y T[..,E], mean G[..], rstd G[..]
 *   layernorm_grad   x, weight, mean, rstd, dy T[..,E]                     dx T[..,E], dweight G[E] (adds)
 *   rope_table       positions i32[..]                                     G[..,D]: cos of D/2 angles, then sin
 *   rotate           x T[..,H,D], table G[..,D]                            T[..,H,D]
 *   swiglu           gate T[..,F], up T[..,F]                              silu(gate)*up T[..,F]
 *   swiglu_grad      gate, up, dy T[..,F]                                  dgate, dup T[..,F]
 *   activation       x T[..]                                               T[..]: gelu, gelu with tanh, relu, silu or softcap
 *   activation_grad  dy T[..], x X[..]                                     dx T[..]: dy times the slope of the function at x; X is T or G
 *   conv             x T[B,n+W-1,E], weight T[W,E]                         y T[B,n,E]: y[i] = sum over t of weight[t]*x[i+W-1-t],
 *                    or of weight[t]*x[i+t] if params.ahead. x, y and dy may be strided outside E.
 *   conv_dw          x T[B,n+W-1,E], dy T[B,n,E]                           dweight G[W,E] (adds)
 *   add, mul         a T[..], b T[..]                                      T[..]
 *   scale            x T[..]                                               T[..] * factor
 *   scale_by         x T[..], c G[1]                                       T[..] * c
 *   cast             x (any of f32 f64 bf16)                               any of them; registered under the type of its input (both may be strided)
 *   cross_entropy    logits X[..,V], labels i32[..]                        loss G[..], lse G[..]  (label -100: loss 0)
 *   cross_entropy_grad  logits X[..,V], labels, lse G[..], dloss G[..]     dlogits T[..,V]  (label -100: 0)
 *                    X is T or G (logits in f32 when T is bf16)
 *   sum              x G[..]                                               G[1]            (adds; inner sum in f64)
 *   broadcast        c G[1]                                                G[..]
 *   attention        q T[B,n,Hq,D], k T[B,t,Hkv,D], v T[B,t,Hkv,D], spans i32[B,n,2w], kpos i32[t]
 *                                                                          o G[B,n,Hq,D], lse G[B,Hq,n]
 *                    Query i of batch b sees key j if kpos[j] lies in one of its w spans [lo,hi). kpos may be in any order;
 *                    kernels skip hidden keys best if it ascends. For a query that sees nothing, o is 0 and lse -inf.
 *                    All but spans and kpos may be strided outside the last dimension, in attention_grad too.
 *                    The logit is x = scale*q·k, or softcap*tanh(x/softcap) if params have a softcap.
 *                    A query that sees an element of q, k or v that is not finite has an o and an lse that are not finite, except
 *                    that a key with logit -inf has weight 0.
 *   cache_write      x T[B,m,H,D], positions i32[B,m], kpos i32[t] ascending; in-out: cache T[B,t,H,D]      -: row j becomes the x at position kpos[j], if any
 *   attention_sink   sink T[Hq]; in-out: o G[B,n,Hq,D], lse G[B,Hq,n]      -: merged with a key of logit sink[h] and value 0 that
 *                    every query sees. o may be strided outside D; sink -inf changes nothing.
 *   attention_sink_grad  sink T[Hq], lse G[B,Hq,n] (including the sink), delta G[B,Hq,n]       dsink G[Hq]     (adds)
 *   attention_merge  part G[B,n,Hq,D], part_lse G[B,Hq,n]; in-out: o G[B,n,Hq,D], lse G[B,Hq,n]   -: merged with the result of other keys
 *   attention_delta  o T[B,n,Hq,D], do T[B,n,Hq,D]                         delta G[B,Hq,n]: sum over D of o*do
 *   attention_grad   q, k, v, spans, kpos, do T[B,n,Hq,D], lse G[B,Hq,n], delta G[B,Hq,n]
 *                                                                          dq G[B,n,Hq,D], dk G[B,t,Hkv,D], dv G[B,t,Hkv,D]
 *                    lse is that of all keys of the query, so P = exp(logit - lse) needs no merge; lse -inf gives P = 0. In f32 the
 *                    relative error of P is |lse|*1e-7. Beyond |lse| = 1e8 the kernels of cpu use P = 1 for logits that equal lse to a
 *                    relative 1e-6, and P = 0 for lower ones.
 *   accumulate       x T or G [..]                                         G[..]           (adds; both may be strided)
 *   copy             x [..]                                                same type [..]  (both may be strided)
 *   fill             -                                                     any type [..]: zero bits
 *   sum_squares      x G[..]                                               f64[1]          (adds; summed in f64)
 *   step_control     totals f64[LS_TOTALS], hyper f64[LS_HYPERS]           control f64[LS_CONTROLS]
 *   adamw            grad G[..], control f64[LS_CONTROLS], in-out: master G[..], m G[..], v G[..]   param T[..]
 *                    (Loshchilov, Hutter: decoupled weight decay, ICLR 2019; bias-corrected.) Nothing changes if control.apply is 0.
 *                    master and param may be the same bytes.
 * "adds" means out += result. The view of an in-out operand is among the outputs only.
 * sum_squares is registered for the type of grad, adamw for the type of param.
 */
#ifndef LS_KERNEL_H
#define LS_KERNEL_H

#include "base/base.h"
#include "tensor/tensor.h"

#define LS_KERNEL_INPUTS 8
#define LS_KERNEL_OUTPUTS 4

typedef struct ls_kernel_call {
    int n_in, n_out;
    ls_view in[LS_KERNEL_INPUTS];
    ls_view out[LS_KERNEL_OUTPUTS];
    const void *params; /* the kernel's struct in tensor/params.h, or NULL */
    void *workspace;    /* as large as the kernel's `workspace` says, 64-byte aligned; contents undefined */
    int threads;        /* number of threads of the pool given to run */
} ls_kernel_call;

typedef struct ls_kernel {
    const char *name;
    ls_dtype dtype;
    ls_isa isa;
    /* Bytes of workspace for a call of these shapes (data pointers are not read). NULL: none. */
    size_t (*workspace)(const ls_kernel_call *call);
    /* Checks the call, and creates what its runs share (generated code, tables), which release frees. NULL: nothing to do. */
    ls_status (*prepare)(const ls_kernel_call *call, void **state);
    void (*release)(void *state);
    void (*run)(const ls_kernel_call *call, void *state, ls_pool *pool);
} ls_kernel;

/*
 * The registered kernel with the highest isa up to the given one; of several, the last in the list.
 * LS_UNSUPPORTED: there is none. LS_USAGE: this process may not use that isa.
 */
LS_MUST_USE ls_status ls_kernel_find(const char *name, ls_dtype dtype, ls_isa isa, const ls_kernel **out);

/* All registered kernels, for tests, benchmarks and `version`. Index 0..count-1, NULL past the end. */
const ls_kernel *ls_kernel_at(int index);

/* Elements of the small f64 vectors of a step. Totals are summed over all ranks; the host sets the hypers. */
enum { LS_TOTAL_LOSS, LS_TOTAL_SQUARES, LS_TOTAL_STOP, LS_TOTALS };
enum { LS_HYPER_LR, LS_HYPER_CLIP, LS_HYPER_STEP, LS_HYPER_BETA1, LS_HYPER_BETA2, LS_HYPERS };
/*
 * apply: 1, or 0 if the update must be skipped because the loss or the norm is not finite. scale: factor of the gradients, for clipping
 * (LS_HYPER_CLIP 0: no clipping). correction1 and 2: 1 - beta^step. norm: global gradient norm before clipping.
 */
enum {
    LS_CONTROL_APPLY,
    LS_CONTROL_SCALE,
    LS_CONTROL_LR,
    LS_CONTROL_CORRECTION1,
    LS_CONTROL_CORRECTION2,
    LS_CONTROL_NORM,
    LS_CONTROLS
};

#endif
