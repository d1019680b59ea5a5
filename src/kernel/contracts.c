/*
 * The contracts: what every implementation of a kernel promises, one row each. A row has the operands in the notation
 * of check.c: T is the element type for which a kernel is registered (f32, f64, bf16), G = ls_dtype_accumulator(T). The
 * comment above a row says what the row cannot. An output that is read (reads, reads_too) is added to, unless the
 * comment says otherwise; its view is listed among the outputs only.
 */
#include "kernel/kernel_impl.h"

#define RESULT(i) (1u << (i))
#define IN(i) (1u << (i))
#define OUT(i) (1u << (LS_KERNEL_INPUTS + (i)))
#define WIDER(i) (IN(i) | 1u << (16 + (i)))
#define ANY_INPUT (OUT(0) - 1)
#define UPDATE_INPUTS "grad G[n] control f64[6] group i32[u] settings f64[K,2]"
#define ATTENTION_INPUTS "q ~T[B,N,H,D] k ~T[B,K,J,D] v ~T[B,K,J,E] spans i32[B,N,W] kpos i32[K]"
#define LINEAR_RECURRENCE_INPUTS "decay ~G[B,N,H,A] beta ~G[B,N,H,C] places ~i32[B,N,X]"
#define RNN_INPUTS "x ~T[B,N,H,X] weight T[H,W,D] bias T[H,C] places ~i32[B,N,F]"
/* params of the calls that are measured */
static const ls_embedding_params embedding = {.padding = -1};
static const ls_norm_params norm = {.epsilon = 1e-5};
static const ls_gated_norm_params gated = {.epsilon = 1e-5};
static const ls_activation_params gelu = {.kind = LS_ACTIVATION_GELU_TANH};
static const ls_conv_params conv = {.last_first = true, .silu = true}; /* as in models; without silu it takes less */
static const ls_rotate_params rotate = {.inverse = false};
static const ls_rope_params rope = {.theta = 10000};
static const ls_adamw_params adamw = {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8};

const ls_contract ls_contracts[LS_KERNEL_IDS] = {
    [LS_KERNEL_NONE] = {.name = "none"},
    /*
     * Turns ids among all rows of a table into ids among its rows part[0] .. part[0] + part[1] - 1. Ids of other rows,
     * and the padding id of params, become LS_ID_ELSEWHERE; ignored labels stay.
     */
    [LS_KERNEL_LOCAL_IDS] = {.name = "local_ids",
                             .in = "ids i32[n] part i32[2]",
                             .out = "local i32[n]",
                             .params = true},
    /* y[i] = table[ids[i]]; 0 for LS_ID_ELSEWHERE */
    [LS_KERNEL_EMBEDDING] = {.name = "embedding",
                             .in = "ids i32[n] table T[V,E]",
                             .out = "y T[n,E]",
                             .table = IN(1),
                             .sample = {"ix", "x", false, NULL}},
    /* dtable[ids[i]] += dy[i], except for LS_ID_ELSEWHERE. The row of the padding id in params does not change. */
    [LS_KERNEL_EMBEDDING_GRAD] = {.name = "embedding_grad",
                                  .in = "ids i32[n] dy T[n,E]",
                                  .out = "dtable G[V,E]",
                                  .params = true,
                                  .reads = RESULT(0),
                                  .table = OUT(0),
                                  .sample = {"ix", "g", false, &embedding}},
    /*
     * `rows` gets the rows of x whose id is not negative, in their order, as many as fit. `numbers` gets the number of
     * such rows, even if not all fit, then their ids, then LS_ID_ELSEWHERE.
     */
    [LS_KERNEL_DEAL_ROWS] = {.name = "deal_rows",
                             .in = "ids i32[n] x T[n,E]",
                             .out = "numbers i32[M] rows T[R,E]",
                             .check = ls_check_deal_rows,
                             .counted = RESULT(1)},
    /* y[i] becomes the next row of `rows`, for each i whose id is not negative; other y[i] do not change. */
    [LS_KERNEL_COLLECT_ROWS] = {.name = "collect_rows",
                                .in = "ids i32[n] rows T[R,E]",
                                .out = "y T[n,E]",
                                .reads = RESULT(0)},
    /* y[i] = x[i] * table[ids[i]]; 0 for LS_ID_ELSEWHERE, whatever x is */
    [LS_KERNEL_SCALE_ROWS] = {.name = "scale_rows",
                              .in = "ids i32[n] x T[n,E] table T[V,E]",
                              .out = "y T[n,E]",
                              .over = {IN(1)},
                              .table = IN(2)},
    /* C = A B + bias. Params say whether A or B is transposed, and whether the product is added to C. */
    [LS_KERNEL_MATMUL] = {.name = "matmul",
                          .in = "A T[a,I] B T[b,J] ?bias T[N]",
                          .out = "C ~C[m,N]",
                          .params = true,
                          .check = ls_check_matmul,
                          .reads_too = ls_reads_of_matmul,
                          .cost = LS_COST_PRODUCT},
    /*
     * The same with a B in blocks, each of whose rows is a number of whole blocks (blocks.h); A is not transposed, and
     * C is not added to. The decoded numbers of B are rounded to T.
     */
    [LS_KERNEL_MATMUL_BLOCKS] = {.name = "matmul_blocks",
                                 .in = "A T[a,I] B Q[R,J] ?bias T[N]",
                                 .out = "C C[m,N]",
                                 .params = true,
                                 .check = ls_check_matmul_blocks,
                                 .cost = LS_COST_PRODUCT},
    /* numbers = the decoded blocks, rounded to T */
    [LS_KERNEL_DECODE] = {.name = "decode", .in = "blocks Q[n]", .out = "numbers T[m]", .check = ls_check_decode},
    /* y += the sum of the rows of x */
    [LS_KERNEL_COLUMN_SUM] = {.name = "column_sum",
                              .in = "x T[n,N]",
                              .out = "y G[N]",
                              .reads = RESULT(0),
                              .sample = {"x", "s", false, NULL}},
    /* y = x[0] + x[1] + ..., added in this order, each sum rounded to G, as by a chain of accumulate. */
    [LS_KERNEL_ADD_ROWS] = {.name = "add_rows", .in = "x G[N,M]", .out = "y G[M]"},
    /* y = x * rstd * (weight + offset), with the offset in params; rstd = 1 / sqrt(mean of x^2 + epsilon). */
    [LS_KERNEL_RMSNORM] = {.name = "rmsnorm",
                           .in = "x T[n,E] weight T[E]",
                           .out = "y T[n,E] rstd G[n]",
                           .params = true,
                           .over = {IN(0)},
                           .sample = {"xw", "xr", false, &norm}},
    [LS_KERNEL_RMSNORM_GRAD] = {.name = "rmsnorm_grad",
                                .in = "x T[n,E] weight T[E] rstd G[n] dy T[n,E]",
                                .out = "dx T[n,E] dweight G[E]",
                                .params = true,
                                .reads = RESULT(1),
                                .over = {IN(0) | IN(3)},
                                .sample = {"xwrx", "xs", false, &norm}},
    /*
     * y = a * rstd * weight * silu(gate) with a = x, or a * rstd * weight with a = x * silu(gate) if params.gate_first;
     * rstd as of rmsnorm, of a. Row i has row i % G of the weight.
     */
    [LS_KERNEL_GATED_NORM] = {.name = "gated_norm",
                              .in = "x T[n,E] weight T[g,E] gate T[n,E]",
                              .out = "y T[n,E]",
                              .params = true,
                              .check = ls_check_gated_norm,
                              .over = {IN(0) | IN(2)},
                              .sample = {"xwx", "x", false, &gated}},
    [LS_KERNEL_GATED_NORM_GRAD] = {.name = "gated_norm_grad",
                                   .in = "x T[n,E] weight T[g,E] gate T[n,E] dy T[n,E]",
                                   .out = "dx T[n,E] dweight G[g,E] dgate T[n,E]",
                                   .params = true,
                                   .check = ls_check_gated_norm,
                                   .reads = RESULT(1),
                                   .over = {IN(0) | IN(2) | IN(3), 0, IN(0) | IN(2) | IN(3)},
                                   .sample = {"xwxx", "xsx", false, &gated}},
    /* y = (x - mean) * rstd * weight + bias */
    [LS_KERNEL_LAYERNORM] = {.name = "layernorm",
                             .in = "x T[n,E] weight T[E] ?bias T[E]",
                             .out = "y T[n,E] mean G[n] rstd G[n]",
                             .params = true,
                             .over = {IN(0)},
                             .sample = {"xw", "xrr", false, &norm}},
    /* The gradient of the bias is a column_sum of dy. */
    [LS_KERNEL_LAYERNORM_GRAD] = {.name = "layernorm_grad",
                                  .in = "x T[n,E] weight T[E] mean G[n] rstd G[n] dy T[n,E]",
                                  .out = "dx T[n,E] dweight G[E]",
                                  .reads = RESULT(1),
                                  .over = {IN(0) | IN(4)},
                                  .sample = {"xwrrx", "xs", false, &norm}},
    /* For each position: the cosines of D/2 angles, then their sines. */
    [LS_KERNEL_ROPE_TABLE] = {.name = "rope_table",
                              .in = "positions i32[n]",
                              .out = "table G[n,D]",
                              .params = true,
                              .check = ls_check_even_head,
                              .sample = {"i", "a", false, &rope}},
    /* Rotates the pairs of each head by the angles of the table; in the other direction if params.inverse. */
    [LS_KERNEL_ROTATE] = {.name = "rotate",
                          .in = "x T[n,H,D] table G[n,D]",
                          .out = "y T[n,H,D]",
                          .params = true,
                          .check = ls_check_even_head,
                          .over = {IN(0)},
                          .sample = {"ta", "t", false, &rotate}},
    /* y = silu(gate) * up */
    [LS_KERNEL_SWIGLU] = {.name = "swiglu",
                          .in = "gate T[n] up T[n]",
                          .out = "y T[n]",
                          .over = {IN(0) | IN(1)},
                          .sample = {"xx", "x", false, NULL}},
    [LS_KERNEL_SWIGLU_GRAD] = {.name = "swiglu_grad",
                               .in = "gate T[n] up T[n] dy T[n]",
                               .out = "dgate T[n] dup T[n]",
                               .over = {IN(0) | IN(1) | IN(2), IN(0) | IN(1) | IN(2)},
                               .sample = {"xxx", "xx", false, NULL}},
    /* y = gelu, gelu with tanh, relu, silu or softcap of x */
    [LS_KERNEL_ACTIVATION] = {.name = "activation",
                              .in = "x T[n]",
                              .out = "y T[n]",
                              .params = true,
                              .check = ls_check_activation,
                              .over = {IN(0)},
                              .sample = {"x", "x", false, &gelu}},
    /* dx = dy times the slope of the function at x */
    [LS_KERNEL_ACTIVATION_GRAD] = {.name = "activation_grad",
                                   .in = "dy T[n] x X[n]",
                                   .out = "dx T[n]",
                                   .params = true,
                                   .check = ls_check_activation,
                                   .over = {IN(0) | IN(1)},
                                   .sample = {"xx", "x", false, &gelu}},
    /*
     * y[i] = sum over t of weight[t] * x[i + W-1 - t], or of weight[t] * x[i + t] if params.ahead; M = N + W-1. reach:
     * last size 0 (none), or 2: t <= reach[i,0], or reach[i,1] if params.ahead. The weight of t is row W-1 - t if
     * params.last_first. R = W + params.biased: a last row is added, unless params.ahead. Then silu, if params.silu.
     */
    [LS_KERNEL_CONV] = {.name = "conv",
                        .in = "x ~T[B,M,E] weight T[R,E] reach ~T[B,N,X]",
                        .out = "y ~T[B,N,E]",
                        .params = true,
                        .check = ls_check_conv,
                        .sample = {"zme", "y", false, &conv}},
    /* dz = dy times the slope of silu at z; z is the result of conv with these operands and without silu. */
    [LS_KERNEL_CONV_SILU_GRAD] = {.name = "conv_silu_grad",
                                  .in = "x ~T[B,M,E] weight T[R,E] dy ~T[B,N,E] reach ~T[B,N,X]",
                                  .out = "dz ~T[B,N,E]",
                                  .params = true,
                                  .check = ls_check_conv_silu_grad,
                                  .sample = {"zmye", "y", false, &conv}},
    /* dweight[t] += sum of dy[i] times the x that conv gives to tap t, over the i that have tap t; bias: sum of dy. */
    [LS_KERNEL_CONV_DW] = {.name = "conv_dw",
                           .in = "x ~T[B,M,E] dy ~T[B,N,E] reach ~T[B,N,X]",
                           .out = "dweight G[R,E]",
                           .params = true,
                           .check = ls_check_conv_dw,
                           .reads = RESULT(0),
                           .sample = {"zye", "d", false, &conv}},
    /*
     * h[i] = gate[i] h[i-1] + x[i], beginning with the state in front of the tokens; or, if params.backwards, h[i] =
     * gate[i]^T h[i+1] + x[i], beginning with the state behind them. Each element e has a matrix [K,K], K at most
     * LS_RECURRENCE_STATES, and a state [K]. The state is carried in G.
     */
    [LS_KERNEL_RECURRENCE] = {.name = "recurrence",
                              .in = "gate ~T[B,N,K,K,E] x ~T[B,N,K,E] start G[B,K,E]",
                              .out = "h ~T[B,N,K,E]",
                              .params = true,
                              .check = ls_check_recurrence},
    /* The effect on any state: it becomes the sum over k < K of state[k] * map[k], plus map[K]; J = K + 1. */
    [LS_KERNEL_RECURRENCE_MAP] = {.name = "recurrence_map",
                                  .in = "gate ~T[B,N,K,K,E] x ~T[B,N,K,E]",
                                  .out = "map G[J,B,K,E]",
                                  .params = true,
                                  .check = ls_check_recurrence_map},
    /* Applies the maps to `state` one after the other, the last one first if params.backwards. */
    [LS_KERNEL_RECURRENCE_FOLLOW] = {.name = "recurrence_follow",
                                     .in = "maps ~G[M,J,B,K,E]",
                                     .out = "state G[B,K,E]",
                                     .params = true,
                                     .check = ls_check_recurrence_follow,
                                     .reads = RESULT(0)},
    /* y = a + b */
    [LS_KERNEL_ADD] = {.name = "add",
                       .in = "a T[n] b T[n]",
                       .out = "y T[n]",
                       .over = {IN(0) | IN(1)},
                       .sample = {"xx", "x", false, NULL}},
    /* y = a * b */
    [LS_KERNEL_MUL] = {.name = "mul", .in = "a T[n] b T[n]", .out = "y T[n]", .over = {IN(0) | IN(1)}},
    /* y = x times the factor in params; scale_by: times c */
    [LS_KERNEL_SCALE] = {.name = "scale", .in = "x T[n]", .out = "y T[n]", .params = true, .over = {IN(0)}},
    [LS_KERNEL_SCALE_BY] = {.name = "scale_by", .in = "x T[n] c G[1]", .out = "y T[n]", .over = {IN(0)}},
    /* y = x + amplitude * noise_of(key[i], element) of kernel/noise.h; with a key of 0, y = x */
    [LS_KERNEL_NOISE] = {.name = "noise", .in = "x T[n,E] key i32[n]", .out = "y T[n,E]", .params = true, .over = {1}},
    /* Registered for the type of x. */
    [LS_KERNEL_CAST] = {.name = "cast", .in = "x ~~T[n]", .out = "y ~~F[n]", .sample = {"x", "g", false, NULL}},
    /* lse = log sum exp(x), loss = lse - x[label] or as params say; label -100: 0; label LS_ID_ELSEWHERE: loss lse. */
    [LS_KERNEL_CROSS_ENTROPY] = {.name = "cross_entropy",
                                 .in = "logits X[n,V] labels i32[n]",
                                 .out = "loss G[n] lse G[n]",
                                 .sample = {"vl", "kk", false, NULL}},
    /*
     * For a vocabulary in P parts: `parts` has the loss and lse that cross_entropy makes of each part's logits. lse =
     * log sum exp(lses), loss = lse - the sum of the parts' (lse - loss), + z lse^2 of params; label -100: loss 0.
     */
    [LS_KERNEL_CROSS_ENTROPY_MERGE] = {.name = "cross_entropy_merge",
                                       .in = "parts G[P,2,N] labels i32[N]",
                                       .out = "loss G[N] lse G[N]"},
    /* dlogits = (exp(logits - lse) - (1 at the label, unless that is LS_ID_ELSEWHERE)) * dloss; label -100: 0. */
    [LS_KERNEL_CROSS_ENTROPY_GRAD] = {.name = "cross_entropy_grad",
                                      .in = "logits X[n,V] labels i32[n] lse G[n] dloss G[n]",
                                      .out = "dlogits T[n,V]",
                                      .over = {WIDER(0)},
                                      .sample = {"vlkk", "v", false, NULL}},
    /* y += the sum of x; added in f64. */
    [LS_KERNEL_SUM] = {.name = "sum", .in = "x G[n]", .out = "y G[1]", .reads = RESULT(0)},
    /*
     * Query i of batch b sees key j if kpos[j] lies in one of its W/2 spans [lo, hi). kpos may be in any order; kernels
     * skip hidden keys best if it ascends. o is softmax(x) v, with the logit x = scale * q·k, or softcap * tanh(x /
     * softcap) if params have a softcap; lse = log sum exp(x).
     * For a query that sees nothing, o is 0 and lse -inf. params.merge: o and lse are merged with the contents of the
     * outputs, which are the result of other keys. If a query sees an element of q, k or v that is not finite, its o
     * and lse are not finite, except that a key with logit -inf has weight 0.
     */
    [LS_KERNEL_ATTENTION] = {.name = "attention",
                             .in = ATTENTION_INPUTS,
                             .out = "o ~G[B,N,H,E] lse ~G[B,H,N]",
                             .params = true,
                             .check = ls_check_attention,
                             .reads_too = ls_reads_of_attention,
                             .minus_inf = RESULT(1),
                             .cost = LS_COST_ATTENTION},
    /* Row j of the cache becomes the x whose position is kpos[j], if there is one. kpos ascends. */
    [LS_KERNEL_CACHE_WRITE] = {.name = "cache_write",
                               .in = "x T[B,M,H,D] positions i32[B,M] kpos i32[K]",
                               .out = "cache T[B,K,H,D]",
                               .reads = RESULT(0)},
    /* o and lse are merged with a key of logit sink[h] and value 0 that every query sees; sink -inf changes nothing. */
    [LS_KERNEL_ATTENTION_SINK] = {.name = "attention_sink",
                                  .in = "sink T[H]",
                                  .out = "o ~G[B,N,H,D] lse G[B,H,N]",
                                  .reads = RESULT(0) | RESULT(1),
                                  .minus_inf = RESULT(1)},
    /* lse includes the sink. */
    [LS_KERNEL_ATTENTION_SINK_GRAD] = {.name = "attention_sink_grad",
                                       .in = "sink T[H] lse G[B,H,N] delta G[B,H,N]",
                                       .out = "dsink G[H]",
                                       .reads = RESULT(0)},
    /* o and lse are merged with part and part_lse, the result of other keys. */
    [LS_KERNEL_ATTENTION_MERGE] = {.name = "attention_merge",
                                   .in = "part ~G[B,N,H,D] part_lse G[B,H,N]",
                                   .out = "o ~G[B,N,H,D] lse G[B,H,N]",
                                   .reads = RESULT(0) | RESULT(1),
                                   .minus_inf = RESULT(1)},
    /* delta = the sum over D of o * do */
    [LS_KERNEL_ATTENTION_DELTA] = {.name = "attention_delta",
                                   .in = "o T[B,N,H,D] do T[B,N,H,D]",
                                   .out = "delta G[B,H,N]",
                                   .sample = {"hh", "p", false, NULL}},
    /*
     * lse is that of all keys of the query, so P = exp(logit - lse) needs no merge; lse -inf gives P = 0. In f32 the
     * relative error of P is |lse| * 1e-7. If |lse| > 1e8, the kernels of cpu use P = 1 for logits that equal lse to a
     * relative 1e-6, and P = 0 for lower logits. Params say which results are added to the contents of the outputs.
     */
    [LS_KERNEL_ATTENTION_GRAD] = {.name = "attention_grad",
                                  .in = ATTENTION_INPUTS " do ~T[B,N,H,E] lse ~G[B,H,N] delta ~G[B,H,N]",
                                  .out = "dq ~G[B,N,H,D] dk ~G[B,K,J,D] dv ~G[B,K,J,E]",
                                  .params = true,
                                  .check = ls_check_attention,
                                  .reads_too = ls_reads_of_attention_grad,
                                  .cost = LS_COST_ATTENTION_GRAD},
    /*
     * The parts of attention, for a strategy that keeps whole rows of scores (compile/attention/rsa.c). Query head h
     * uses key head j = (first_q + h)/group - first_kv, as in attention.
     *   products        pairs = q·k
     *   softmax         weights = softmax of the logits of the pairs that the query sees, 0 for other pairs; and lse
     *   weighted        sum = the sum over keys of pairs * k; += if params.accumulate_dq
     *   weighted_back   sum = the sum over queries, and over the heads that use j, of pairs * q
     *   softmax_grad    pairs: q·k becomes its gradient; weights: their gradient becomes exp(logit - lse), the weights
     * A weight or a gradient of 0 contributes nothing, even if the other factor is not finite.
     */
    [LS_KERNEL_ATTENTION_PRODUCTS] = {.name = "attention_products",
                                      .in = "q ~T[B,N,H,D] k ~T[B,K,J,D]",
                                      .out = "pairs ~T[B,H,N,K]",
                                      .params = true,
                                      .check = ls_check_attention_products,
                                      .cost = LS_COST_PLAIN},
    [LS_KERNEL_ATTENTION_SOFTMAX] = {.name = "attention_softmax",
                                     .in = "pairs ~T[B,H,N,K] spans i32[B,N,W] kpos i32[K]",
                                     .out = "weights ~T[B,H,N,K] lse ~T[B,H,N]",
                                     .params = true,
                                     .minus_inf = RESULT(1),
                                     .cost = LS_COST_PLAIN},
    [LS_KERNEL_ATTENTION_WEIGHTED] = {.name = "attention_weighted",
                                      .in = "pairs ~T[B,H,N,K] k ~T[B,K,J,D]",
                                      .out = "sum ~T[B,N,H,D]",
                                      .params = true,
                                      .check = ls_check_attention_weighted,
                                      .reads_too = ls_reads_of_weighted,
                                      .cost = LS_COST_PLAIN},
    [LS_KERNEL_ATTENTION_WEIGHTED_BACK] = {.name = "attention_weighted_back",
                                           .in = "pairs ~T[B,H,N,K] q ~T[B,N,H,D]",
                                           .out = "sum ~T[B,K,J,D]",
                                           .params = true,
                                           .check = ls_check_attention_weighted_back,
                                           .cost = LS_COST_PLAIN},
    [LS_KERNEL_ATTENTION_SOFTMAX_GRAD] = {.name = "attention_softmax_grad",
                                          .in = "spans i32[B,N,W] kpos i32[K] lse ~T[B,H,N] delta ~T[B,H,N]",
                                          .out = "pairs ~T[B,H,N,K] weights ~T[B,H,N,K]",
                                          .params = true,
                                          .reads = RESULT(0) | RESULT(1),
                                          .cost = LS_COST_PLAIN},
    /* y += x */
    [LS_KERNEL_ACCUMULATE] = {.name = "accumulate",
                              .in = "x ~~X[n]",
                              .out = "y ~~G[n]",
                              .reads = RESULT(0),
                              .sample = {"x", "g", false, NULL}},
    /* y = x */
    [LS_KERNEL_COPY] = {.name = "copy",
                        .in = "x ~~T[n]",
                        .out = "y ~~T[n]",
                        .minus_inf = RESULT(0),
                        .cost = LS_COST_COPY,
                        .sample = {"x", "x", false, NULL}},
    /* y = x; offload: from memory of the device to memory of the host; fetch: back */
    [LS_KERNEL_OFFLOAD] =
        {.name = "offload", .in = "x T[n]", .out = "y T[n]", .minus_inf = RESULT(0), .cost = LS_COST_OFFLOAD},
    [LS_KERNEL_FETCH] =
        {.name = "fetch", .in = "x T[n]", .out = "y T[n]", .minus_inf = RESULT(0), .cost = LS_COST_FETCH},
    /* y = 0: all bits are zero, for any type */
    [LS_KERNEL_FILL] = {.name = "fill", .in = "", .out = "y T[n]", .sample = {"", "x", false, NULL}},
    /* y += the sum of x^2, in f64. Registered for the type of the gradients. */
    [LS_KERNEL_SUM_SQUARES] = {.name = "sum_squares",
                               .in = "x G[n]",
                               .out = "y f64[1]",
                               .reads = RESULT(0),
                               .flops = 2,
                               .sample = {"g", "q", true, NULL}},
    /*
     * words += the sum of x; if params.squares, of the sum of squares of each unit of LS_FLAT_UNIT elements, rounded to
     * f64. Nothing else is rounded, so terms may be added in any order, and words to words.
     */
    [LS_KERNEL_EXACT_SUM] =
        {.name = "exact_sum", .in = "x G[n]", .out = "words f64[69]", .params = true, .reads = RESULT(0), .flops = 2},
    /* y[i] = the sum that words[i] represent, rounded */
    [LS_KERNEL_EXACT_VALUE] = {.name = "exact_value", .in = "words f64[N,69]", .out = "y f64[N]"},
    /* control: LS_CONTROL_... from the totals (LS_TOTAL_...) and the values that the host sets (LS_HYPER_...). */
    [LS_KERNEL_STEP_CONTROL] = {.name = "step_control", .in = "totals f64[3] hyper f64[5]", .out = "control f64[6]"},
    /*
     * One step of an optimiser; param becomes a copy of master. g is the gradient times the clipping factor, lr the
     * learning rate of the step times that of the settings, d the decay of the settings. The elements may belong to
     * many parameters: group[i] is the row of settings (ls_update_settings) of unit i, which is LS_FLAT_UNIT elements.
     * A unit with -1 (frozen parameters, padding) keeps all its bytes; so does everything if control says so
     * (LS_CONTROL_APPLY). master and param may be the same bytes. Registered for the type of param.
     * AdamW (Loshchilov, Hutter: decoupled weight decay, arXiv 1711.05101; bias-corrected):
     * m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2, x -= lr (m' / (sqrt(v') + epsilon) + d x), with m'
     * and v' divided by the corrections of control.
     */
    [LS_KERNEL_ADAMW] = {.name = "adamw",
                         .in = UPDATE_INPUTS,
                         .out = "master G[n] m G[n] v G[n] param T[n]",
                         .params = true,
                         .check = ls_check_update,
                         .reads = RESULT(0) | RESULT(1) | RESULT(2) | RESULT(3),
                         .over = {0, 0, 0, OUT(0)},
                         .flops = 15,
                         .sample = {"gcuo", "gggx", false, &adamw}},
    /* SGD with momentum, as in PyTorch: h = g + d x, m = momentum m + h, x -= lr m; nesterov: lr (h + momentum m). */
    [LS_KERNEL_SGD] = {.name = "sgd",
                       .in = UPDATE_INPUTS,
                       .out = "master G[n] m G[n] param T[n]",
                       .params = true,
                       .check = ls_check_update,
                       .reads = RESULT(0) | RESULT(1) | RESULT(2),
                       .over = {0, 0, OUT(0)},
                       .flops = 9},
    /*
     * Lion (Chen et al., arXiv 2302.06675): x -= lr (sign(beta1 m + (1 - beta1) g) + d x), where sign(0) = 0; then
     * m = beta2 m + (1 - beta2) g.
     */
    [LS_KERNEL_LION] = {.name = "lion",
                        .in = UPDATE_INPUTS,
                        .out = "master G[n] m G[n] param T[n]",
                        .params = true,
                        .check = ls_check_update,
                        .reads = RESULT(0) | RESULT(1) | RESULT(2),
                        .over = {0, 0, OUT(0)},
                        .flops = 12},
    /* Nesterov's momentum: m = momentum m + g, and the direction is g + momentum m. */
    [LS_KERNEL_MOMENTUM] = {.name = "momentum",
                            .in = UPDATE_INPUTS,
                            .out = "m G[n] direction T[n]",
                            .params = true,
                            .check = ls_check_update,
                            .reads = RESULT(0) | RESULT(1),
                            .flops = 5},
    /* A step in a given direction: x -= lr (factor direction + d x). */
    [LS_KERNEL_DESCEND] = {.name = "descend",
                           .in = "direction T[n] control f64[6] group i32[u] settings f64[K,2]",
                           .out = "master G[n] param T[n]",
                           .params = true,
                           .check = ls_check_update,
                           .reads = RESULT(0) | RESULT(1),
                           .over = {0, OUT(0)},
                           .flops = 5},
    /* y = x / |x|, where |x| is the root of the sum of squares; 0 if |x| is below 1e-30. The sum is in f64. */
    [LS_KERNEL_NORMALIZE] = {.name = "normalize", .in = "x T[n]", .out = "y T[n]", .over = {IN(0)}, .flops = 3},
    /* y = a x + b y, with a and b in params */
    [LS_KERNEL_COMBINE] =
        {.name = "combine", .in = "x T[n]", .out = "y T[n]", .params = true, .reads = RESULT(0), .flops = 3},
    /*
     * An expression of corresponding elements (longspan/map.h). All operands have the sizes of the results; an input
     * with a stride of 0 repeats its elements.
     */
    [LS_KERNEL_MAP] = {.name = "map",
                       .in = "x0 ~~E[n] ?x1 ~~E[n] ?x2 ~~E[n] ?x3 ~~E[n] ?x4 ~~E[n] ?x5 ~~E[n] ?x6 ~~E[n]",
                       .out = "y0 X[n] ?y1 X[n] ?y2 X[n] ?y3 X[n]",
                       .params = true,
                       .check = ls_check_map,
                       .over = {ANY_INPUT, ANY_INPUT, ANY_INPUT, ANY_INPUT}},
    /* y[o,i] += the sum over r of x[o,r,i] */
    [LS_KERNEL_REDUCE] = {.name = "reduce", .in = "x X[O,R,I]", .out = "y G[O,I]", .reads = RESULT(0)},
    /* y[o,i] = the largest x[o,r,i] over r; NaN if any is NaN */
    [LS_KERNEL_REDUCE_MAX] = {.name = "reduce_max", .in = "x X[O,R,I]", .out = "y G[O,I]", .minus_inf = RESULT(0)},
    /*
     * dx[o,r,i] = dy[o,i] at the first r whose x[o,r,i] is the largest (or NaN, if any is NaN), and 0 elsewhere; if
     * params.shared, all such r get an equal part of dy.
     */
    [LS_KERNEL_REDUCE_MAX_GRAD] = {.name = "reduce_max_grad",
                                   .in = "x X[O,R,I] dy G[O,I]",
                                   .out = "dx X[O,R,I]",
                                   .params = true,
                                   .check = ls_check_reduce_max_grad},
    /* y = exp(x - largest) / the sum of these, for each row */
    [LS_KERNEL_SOFTMAX] = {.name = "softmax", .in = "x X[n,K]", .out = "y T[n,K]", .over = {IN(0)}},
    /* dx = y (dy - sum of y dy), for each row */
    [LS_KERNEL_SOFTMAX_GRAD] = {.name = "softmax_grad",
                                .in = "y T[n,K] dy T[n,K]",
                                .out = "dx X[n,K]",
                                .over = {IN(0) | IN(1)}},
    /* y[i,j] = x[i,ids[i,j]]; NaN if the id is not in 0..K-1 */
    [LS_KERNEL_TAKE_ALONG] = {.name = "take_along",
                              .in = "x X[n,K] ids i32[n,J]",
                              .out = "y X[n,J]",
                              .minus_inf = RESULT(0),
                              .check = ls_check_take_along},
    /* dx[i,ids[i,j]] += dy[i,j], in the order of j; nothing if the id is not in 0..K-1 */
    [LS_KERNEL_TAKE_ALONG_GRAD] = {.name = "take_along_grad",
                                   .in = "ids i32[n,J] dy X[n,J]",
                                   .out = "dx G[n,K]",
                                   .reads = RESULT(0)},
    /*
     * The J largest elements of each row, the largest first, and their indices; of equal elements the one with the
     * lowest index comes first. NaN counts as the largest.
     */
    [LS_KERNEL_TOPK] = {.name = "topk",
                        .in = "x X[n,K]",
                        .out = "values X[n,J] ids i32[n,J]",
                        .minus_inf = RESULT(0),
                        .check = ls_check_topk},
    /* y[m,n,i,j] = the sum over k and l of a[m,n,i,k,l] b[m,n,k,l,j]; or += if params say so. Strides may be 0. */
    [LS_KERNEL_CONTRACT] = {.name = "contract",
                            .in = "a ~~T[M,N,I,K,L] b ~~T[M,N,K,L,J]",
                            .out = "y ~~X[M,N,I,J]",
                            .params = true,
                            .reads_too = ls_reads_of_contract},
    /*
     * Each value head h has a state S[D,E] that goes from token to token; key head h / (H/K) gives q and k:
     *   S = Diag(exp(decay)) S'              S': the state before; 0 if the token's place is 0
     *   S = S + beta k (v - k S)^T           if params.delta; otherwise S = S + beta k v^T
     *   o = q S                              of the new state
     * Last sizes: decay 0 (none), 1 (one per head) or D (one per element of a key), beta 0 (beta = 1) or 1, places 0
     * (none) or 1. `state` is in G, as is all that is carried; in, it is in front of the tokens, out, behind them.
     * unmasked: o = q S of the given state, which does not change.
     */
    [LS_KERNEL_LINEAR_RECURRENCE] = {.name = "linear_recurrence",
                                     .in = "q ~T[B,N,K,D] k ~T[B,N,K,D] v ~T[B,N,H,E] " LINEAR_RECURRENCE_INPUTS,
                                     .out = "o ~T[B,N,H,E] state G[B,H,D,E]",
                                     .params = true,
                                     .check = ls_check_linear_recurrence_forward,
                                     .reads = RESULT(1),
                                     .cost = LS_COST_RECURRENCE},
    /*
     * The gradient. `state`: in front of the tokens. dstate: in, the gradient of the state behind them; out, of the
     * state in front of them. unmasked: `state` and dstate are those of all tokens, and do not change.
     */
    [LS_KERNEL_LINEAR_RECURRENCE_GRAD] = {.name = "linear_recurrence_grad",
                                          .in = "q ~T[B,N,K,D] k ~T[B,N,K,D] v ~T[B,N,H,E] " LINEAR_RECURRENCE_INPUTS
                                                " do ~T[B,N,H,E] state G[B,H,D,E]",
                                          .out = "dq ~T[B,N,K,D] dk ~T[B,N,K,D] dv ~T[B,N,H,E] ddecay ~G[B,N,H,A] "
                                                 "dbeta ~G[B,N,H,C] dstate G[B,H,D,E]",
                                          .params = true,
                                          .check = ls_check_linear_recurrence_grad,
                                          .reads = RESULT(5),
                                          .cost = LS_COST_RECURRENCE_GRAD},
    /*
     * The effect of these tokens on any state: S becomes M S + U. A map is U[D,E], then M: a matrix [D,D] if
     * params.delta, otherwise its diagonal, of D elements if the decay has D, or a single one for all.
     */
    [LS_KERNEL_LINEAR_RECURRENCE_MAP] = {.name = "linear_recurrence_map",
                                         .in = "k ~T[B,N,K,D] v ~T[B,N,H,E] " LINEAR_RECURRENCE_INPUTS,
                                         .out = "map G[B,H,Z]",
                                         .params = true,
                                         .check = ls_check_linear_recurrence_map,
                                         .cost = LS_COST_RECURRENCE},
    /* Their effect on the gradient of a state behind them: dS becomes M^T dS + U, with the M of their map. */
    [LS_KERNEL_LINEAR_RECURRENCE_BACK] = {.name = "linear_recurrence_back",
                                          .in =
                                              "q ~T[B,N,K,D] k ~T[B,N,K,D] " LINEAR_RECURRENCE_INPUTS " do ~T[B,N,H,E]",
                                          .out = "map G[B,H,Z]",
                                          .params = true,
                                          .check = ls_check_linear_recurrence_back,
                                          .cost = LS_COST_RECURRENCE},
    /* Applies the maps to `state` one after the other; with M^T instead of M if params.transposed. */
    [LS_KERNEL_LINEAR_RECURRENCE_FOLLOW] = {.name = "linear_recurrence_follow",
                                            .in = "maps ~G[M,B,H,Z]",
                                            .out = "state G[B,H,D,E]",
                                            .params = true,
                                            .check = ls_check_linear_recurrence_follow,
                                            .reads = RESULT(0),
                                            .cost = LS_COST_RECURRENCE},
    /*
     * One recurrent cell per head (longspan/rnn.h). x has the gates one after the other, X = gates D, as has the
     * weight, W = X; a diagonal cell's weight has its numbers. bias: C = W or 0. places: F = 0 or 1; in front of a
     * token with place 0 the state is 0. `state`, Z = states D, begins with y; in, it is in front of the tokens, out,
     * behind them. params.ends: places are distances behind the last token that counts, minus 1; from 0 on state stays.
     */
    [LS_KERNEL_RNN] = {.name = "rnn",
                       .in = RNN_INPUTS,
                       .out = "y ~T[B,N,H,D] state G[B,H,Z]",
                       .params = true,
                       .check = ls_check_rnn,
                       .reads = RESULT(1),
                       .cost = LS_COST_PRODUCT},
    /* The gradient. dstate: in, that of the state behind the tokens; out, that of `front`, the state before them. */
    [LS_KERNEL_RNN_GRAD] = {.name = "rnn_grad",
                            .in = RNN_INPUTS " y ~T[B,N,H,D] dy ~T[B,N,H,D] front G[B,H,Z]",
                            .out = "dx ~T[B,N,H,X] dweight G[H,W,D] dbias G[H,C] dstate G[B,H,Z]",
                            .params = true,
                            .check = ls_check_rnn_grad,
                            .reads = RESULT(1) | RESULT(2) | RESULT(3),
                            .cost = LS_COST_PRODUCT},
};
