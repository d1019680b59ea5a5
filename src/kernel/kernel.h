/*
 * kernel: the contract between programs and arithmetic, and the registry.
 *
 * A kernel is chosen by (name, element type, isa). Reference kernels (ref/: plain C, f32 and f64, the oracle) are
 * registered for everything; faster ones (cpu/) override them for an isa. A kernel knows nothing of ranks: it gets
 * views, parameters, a workspace whose size it declared, and the pool on which it may split its work.
 * Everything that can fail is checked in prepare, once, before a program runs; run cannot fail, allocates nothing, and gives
 * the same bits for the same views, parameters and number of threads.
 * T is the element type the kernel is registered for (f32, f64, bf16), G = ls_dtype_accumulator(T). Views are dense
 * unless said otherwise; [..] stands for any leading dimensions, merged into n rows (ls_view_rows).
 *
 *   name             in                                                    out
 *   embedding        ids i32[..], table T[V,E]                             T[..,E]
 *   embedding_grad   ids i32[..], dy T[..,E]                               dtable G[V,E]   (adds)
 *                    The row of the params' padding stays as it is.
 *   matmul           A T, B T [, bias T[N]]                                C T, f32 or G [M,N]; A and B as params say
 *   column_sum       x T[..,N]                                             G[N]            (adds)
 *   rmsnorm          x T[..,E], weight T[E]                                y T[..,E], rstd G[..]
 *   rmsnorm_grad     x, weight, rstd, dy T[..,E]                           dx T[..,E], dweight G[E] (adds)
 *                    In both, weights are taken with the params' offset added.
 *   layernorm        x T[..,E], weight T[E] [, bias T[E]]                  y T[..,E], mean G[..], rstd G[..]
 *   layernorm_grad   x, weight, mean, rstd, dy T[..,E]                     dx T[..,E], dweight G[E] (adds)
 *   rope_table       positions i32[..]                                     G[..,D]: cos of D/2 angles, then sin
 *   rotate           x T[..,H,D], table G[..,D]                            T[..,H,D]
 *   swiglu           gate T[..,F], up T[..,F]                              silu(gate)*up T[..,F]
 *   swiglu_grad      gate, up, dy T[..,F]                                  dgate, dup T[..,F]
 *   activation       x T[..]                                               T[..]: gelu, gelu with tanh, relu, silu or softcap
 *   activation_grad  dy T[..], x X[..]                                     dx T[..]: dy times the slope at x; X is T or G
 *   conv             x T[B,n+W-1,E], weight T[W,E]                         y T[B,n,E]: y[i] = sum over t of weight[t]*x[i+W-1-t],
 *                    or of weight[t]*x[i+t] when ahead. x, y and dy may be strided outside E.
 *   conv_dw          x T[B,n+W-1,E], dy T[B,n,E]                           dweight G[W,E] (adds)
 *   add, mul         a T[..], b T[..]                                      T[..]
 *   scale            x T[..]                                               T[..] * factor
 *   scale_by         x T[..], c G[1]                                       T[..] * c
 *   cast             x (any of f32 f64 bf16)                               any of them; registered under the type of its input (both may be strided)
 *   cross_entropy    logits X[..,V], labels i32[..]                        loss G[..], lse G[..]  (label -100: loss 0)
 *   cross_entropy_grad  logits X[..,V], labels, lse G[..], dloss G[..]     dlogits T[..,V]  (label -100: 0)
 *                    X is T or G (a head kept in f32 under bf16)
 *   sum              x G[..]                                               G[1]            (adds; inner sum in f64)
 *   broadcast        c G[1]                                                G[..]
 *   attention        q T[B,n,Hq,D], k T[B,t,Hkv,D], v T[B,t,Hkv,D], spans i32[B,n,2w], kpos i32[t]
 *                                                                          o G[B,n,Hq,D], lse G[B,Hq,n]
 *                    query i of batch b sees key j when kpos[j] lies in one of its w spans [lo,hi). kpos in any order;
 *                    kernels skip what is not seen best where it ascends. A query that sees nothing: o 0, lse -inf.
 *                    All but spans and kpos may be strided outside the last dimension, in attention_grad too.
 *                    logit: x = scale*q·k, or softcap*tanh(x/softcap) where the params give a softcap.
 *                    A number of q, k or v that is not finite makes o and lse of no query that sees it finite, but for a logit of -inf, whose
 *                    weight is 0.
 *   cache_write      x T[B,m,H,D], positions i32[B,m], kpos i32[t], ascending; in-out: cache T[B,t,H,D]     -: row j: the x of position kpos[j], if any
 *   attention_sink   sink T[Hq]; in-out: o G[B,n,Hq,D], lse G[B,Hq,n]      -: merged with a key of logit sink[h] and value 0 that
 *                    every query sees. o may be strided outside D; sink -inf changes nothing.
 *   attention_sink_grad  sink T[Hq], lse G[B,Hq,n] (with the sink in it), delta G[B,Hq,n]      dsink G[Hq]     (adds)
 *   attention_merge  part G[B,n,Hq,D], part_lse G[B,Hq,n]; in-out: o G[B,n,Hq,D], lse G[B,Hq,n]   -: joined with what other keys gave
 *   attention_delta  o T[B,n,Hq,D], do T[B,n,Hq,D]                         delta G[B,Hq,n]: sum over D of o*do
 *   attention_grad   q, k, v, spans, kpos, do T[B,n,Hq,D], lse G[B,Hq,n], delta G[B,Hq,n]
 *                                                                          dq G[B,n,Hq,D], dk G[B,t,Hkv,D], dv G[B,t,Hkv,D]
 *                    lse is that of the whole row, so P = exp(logit - lse) needs no merge; lse -inf gives 0. In f32 P is known to
 *                    |lse|*1e-7 of itself; beyond 1e8 the kernels of cpu take 1 for logits that are lse to 1e-6, 0 for lower ones.
 *   accumulate       x T or G [..]                                         G[..]           (adds; both may be strided)
 *   copy             x [..]                                                same type [..]  (both may be strided)
 *   fill             -                                                     any type [..]: zero bits
 *   sum_squares      x G[..]                                               f64[1]          (adds; summed in f64)
 *   step_control     totals f64[LS_TOTALS], hyper f64[LS_HYPERS]           control f64[LS_CONTROLS]
 *   adamw            grad G[..], control f64[LS_CONTROLS], in-out: master G[..], m G[..], v G[..]   param T[..]
 *                    (Loshchilov, Hutter: decoupled weight decay, ICLR 2019; bias-corrected.) Nothing changes when control
 *                    says skip. master and param may be the same bytes.
 * "adds" means out += result. For in-out operands the view stands among the outputs only.
 * Registered under the type of grad: sum_squares, adamw param type differs, so adamw is registered under the type of param.
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
    const void *params; /* the struct of tensor/params.h that belongs to the kernel's name, or NULL */
    void *workspace;    /* the bytes that the kernel asked for, 64-byte aligned; contents undefined */
    int threads;        /* of the pool that run will get */
} ls_kernel_call;

typedef struct ls_kernel {
    const char *name;
    ls_dtype dtype;
    ls_isa isa;
    /* Bytes of workspace for a call of these shapes (data pointers are not read). NULL: none. */
    size_t (*workspace)(const ls_kernel_call *call);
    /* Makes what the calls will share (generated code, tables); may fail. NULL: nothing to make. */
    ls_status (*prepare)(const ls_kernel_call *call, void **state);
    void (*release)(void *state);
    void (*run)(const ls_kernel_call *call, void *state, ls_pool *pool);
} ls_kernel;

/*
 * The best registered kernel with isa <= the given one; among equals the one listed last.
 * LS_UNSUPPORTED error naming name, type and isa when there is none; LS_USAGE when this process may not use that isa.
 */
LS_MUST_USE ls_status ls_kernel_find(const char *name, ls_dtype dtype, ls_isa isa, const ls_kernel **out);

/* All registered kernels, for tests, benchmarks and `version`. Index 0..count-1, NULL past the end. */
const ls_kernel *ls_kernel_at(int index);

/* Layout of the small f64 vectors of a step. Totals are summed over all ranks; hypers are set by the host. */
enum { LS_TOTAL_LOSS, LS_TOTAL_SQUARES, LS_TOTAL_STOP, LS_TOTALS };
enum { LS_HYPER_LR, LS_HYPER_CLIP, LS_HYPER_STEP, LS_HYPER_BETA1, LS_HYPER_BETA2, LS_HYPERS };
/* scale: what gradients are multiplied by (clipping); apply: 1, or 0 when the update must be skipped because loss or norm
 * is not finite; lr; correction1/2: 1 - beta^step. clip 0 means no clipping. norm: global gradient norm before clipping. */
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
