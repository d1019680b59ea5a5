/*
 * kernel: arithmetic on views. contracts.c has the contract of every kernel, registry.c the implementations.
 *
 * Every contract has a reference implementation (ref/: plain C, f32 and f64). Faster ones (cpu/) need features of the
 * processor and are preferred on processors that have them. A kernel does not know about ranks: it gets views,
 * parameters, a workspace whose size it declared, and the pool on which it may split its work. prepare checks
 * everything that can fail, once, before a program runs. run cannot fail, allocates nothing, and gives the same bits
 * for the same views, parameters and number of threads.
 */
#ifndef LS_KERNEL_H
#define LS_KERNEL_H

#include "base/base.h"
#include "kernel/blocks.h"
#include "tensor/tensor.h"

#define LS_KERNEL_INPUTS 8
#define LS_KERNEL_OUTPUTS 8

typedef struct ls_kernel_call {
    int n_in, n_out;
    ls_view in[LS_KERNEL_INPUTS];
    ls_view out[LS_KERNEL_OUTPUTS];
    const void *params; /* the kernel's struct in tensor/params.h, or NULL */
    void *workspace;    /* as large as the kernel's `workspace` says, 64-byte aligned; contents undefined */
    int threads;        /* number of threads of the pool given to run */
} ls_kernel_call;

/* All kernels: X(ID, name) for the contract LS_KERNEL_ID. Each has a reference implementation (ref/). */
#define LS_KERNELS(X)                                                                                                 \
    X(LOCAL_IDS, local_ids), X(EMBEDDING, embedding), X(EMBEDDING_GRAD, embedding_grad), X(DEAL_ROWS, deal_rows),     \
        X(COLLECT_ROWS, collect_rows), X(SCALE_ROWS, scale_rows), X(MATMUL, matmul), X(MATMUL_BLOCKS, matmul_blocks), \
        X(DECODE, decode), X(COLUMN_SUM, column_sum), X(ADD_ROWS, add_rows), X(RMSNORM, rmsnorm),                     \
        X(RMSNORM_GRAD, rmsnorm_grad), X(GATED_NORM, gated_norm), X(GATED_NORM_GRAD, gated_norm_grad),                \
        X(LAYERNORM, layernorm), X(LAYERNORM_GRAD, layernorm_grad), X(ROPE_TABLE, rope_table), X(ROTATE, rotate),     \
        X(SWIGLU, swiglu), X(SWIGLU_GRAD, swiglu_grad), X(ACTIVATION, activation),                                    \
        X(ACTIVATION_GRAD, activation_grad), X(CONV, conv), X(CONV_SILU_GRAD, conv_silu_grad), X(CONV_DW, conv_dw),   \
        X(RECURRENCE, recurrence), X(RECURRENCE_MAP, recurrence_map), X(RECURRENCE_FOLLOW, recurrence_follow),        \
        X(ADD, add), X(MUL, mul), X(SCALE, scale), X(SCALE_BY, scale_by), X(CAST, cast),                              \
        X(CROSS_ENTROPY, cross_entropy), X(CROSS_ENTROPY_MERGE, cross_entropy_merge),                                 \
        X(CROSS_ENTROPY_GRAD, cross_entropy_grad), X(SUM, sum), X(ATTENTION, attention), X(CACHE_WRITE, cache_write), \
        X(ATTENTION_SINK, attention_sink), X(ATTENTION_SINK_GRAD, attention_sink_grad),                               \
        X(ATTENTION_MERGE, attention_merge), X(ATTENTION_DELTA, attention_delta), X(ATTENTION_GRAD, attention_grad),  \
        X(ATTENTION_PRODUCTS, attention_products), X(ATTENTION_SOFTMAX, attention_softmax),                           \
        X(ATTENTION_SOFTMAX_GRAD, attention_softmax_grad), X(ATTENTION_WEIGHTED, attention_weighted),                 \
        X(ATTENTION_WEIGHTED_BACK, attention_weighted_back), X(ACCUMULATE, accumulate), X(COPY, copy),                \
        X(OFFLOAD, offload), X(FETCH, fetch), X(FILL, fill), X(SUM_SQUARES, sum_squares), X(EXACT_SUM, exact_sum),    \
        X(EXACT_VALUE, exact_value), X(STEP_CONTROL, step_control), X(ADAMW, adamw), X(SGD, sgd), X(LION, lion),      \
        X(MOMENTUM, momentum), X(DESCEND, descend), X(NORMALIZE, normalize), X(COMBINE, combine), X(MAP, map),        \
        X(REDUCE, reduce), X(REDUCE_MAX, reduce_max), X(REDUCE_MAX_GRAD, reduce_max_grad), X(SOFTMAX, softmax),       \
        X(SOFTMAX_GRAD, softmax_grad), X(TAKE_ALONG, take_along), X(TAKE_ALONG_GRAD, take_along_grad), X(TOPK, topk), \
        X(CONTRACT, contract), X(LINEAR_RECURRENCE, linear_recurrence),                                               \
        X(LINEAR_RECURRENCE_GRAD, linear_recurrence_grad), X(LINEAR_RECURRENCE_MAP, linear_recurrence_map),           \
        X(LINEAR_RECURRENCE_BACK, linear_recurrence_back), X(LINEAR_RECURRENCE_FOLLOW, linear_recurrence_follow),     \
        X(RNN, rnn), X(RNN_GRAD, rnn_grad), X(NOISE, noise)

#define LS_KERNEL_ID(id, name) LS_KERNEL_##id
typedef enum ls_kernel_id { LS_KERNEL_NONE, LS_KERNELS(LS_KERNEL_ID), LS_KERNEL_IDS } ls_kernel_id;

/* What the time of a call is proportional to, besides its flops. */
typedef enum ls_cost_kind {
    LS_COST_BYTES,   /* one pass over its operands, with more or less to compute on the way */
    LS_COST_PLAIN,   /* the same, with flops at the rate of plain loops: there is the reference alone */
    LS_COST_COPY,    /* the same; an operand in several pieces is several copies */
    LS_COST_OFFLOAD, /* its bytes go to memory of the host; they come from there */
    LS_COST_FETCH,
    LS_COST_PRODUCT,
    LS_COST_RECURRENCE, /* linear: products of a few rows and columns, and a triangular system */
    LS_COST_RECURRENCE_GRAD,
    LS_COST_ATTENTION,
    LS_COST_ATTENTION_GRAD,
} ls_cost_kind;

/*
 * A call of a kernel whose time is proportional to its bytes, for measuring it. in, out: one letter for each operand of
 * a call on n tokens of E elements (H heads of D), of element type T with accumulator G:
 *   x T[n,E]   g G[n,E]   w T[E]   s G[E]   r G[n]   i i32[n], rows of a table   q f64[1]
 *   of an update: c the control   o the settings of one group   u i32[n E/LS_FLAT_UNIT], the group of each unit
 *   v T[n/16,16 E], logits   l i32[n/16], labels   k G[n/16]
 *   t T[n,H,D]   a G[n,D], angles   h T[1,n,H,D]   p G[1,H,n]
 */
typedef struct ls_kernel_sample {
    const char *in, *out; /* out NULL: none is measured, and the time is taken to be that of `add` */
    bool of_accumulator;  /* the kernel is that of type G */
    const void *params;
} ls_kernel_sample;

typedef struct ls_contract {
    const char *name;
    const char *in, *out;                           /* the operands (check.c) */
    bool params;                                    /* a call has params */
    ls_status (*check)(const ls_kernel_call *call); /* what the operands cannot say; NULL: nothing */
    unsigned reads;                                 /* bit i: output i is read before it is written ("adds", in-out) */
    unsigned (*reads_too)(const void *params);      /* more of them, depending on params; NULL: none */
    /*
     * For each output a bit for each operand (inputs, then outputs; 16 higher: inputs of a larger type) whose place it
     * may take: the kernel has read all that any thread needs of an element before it writes that element. A test tries
     * every pair.
     */
    unsigned over[LS_KERNEL_OUTPUTS];
    /*
     * Bit i: an element of output i that is -inf stands for nothing, as the lse of a query that sees no key does. Any
     * other value that is not finite is an error of the numbers that went in.
     */
    unsigned minus_inf;
    /*
     * Bit i: of output i only so many rows, the first ones, are written as output 0 says, an i32. What lies behind them
     * says nothing.
     */
    unsigned counted;
    unsigned table; /* the operand of which only the rows are touched that input 0 names; 0: none */
    ls_cost_kind cost;
    double flops; /* for each element of input 0; 0: they follow from more than that, and the op that makes the call
                     says them */
    ls_kernel_sample sample;
} ls_contract;

extern const ls_contract ls_contracts[LS_KERNEL_IDS];

/* The contract of that name; LS_KERNEL_NONE: there is none. */
ls_kernel_id ls_kernel_named(const char *name);

/* Whether the kernel reads the output before it writes it. params: those of the call. */
bool ls_kernel_reads_output(ls_kernel_id id, const void *params, int output);

/*
 * Whether output `output` may begin where operand `other` begins (input i is i, output i is LS_KERNEL_INPUTS + i). Both
 * are dense and have the same number of elements; they have one type, or with `narrows` the output has a smaller one.
 * The results have the same bits as with separate places.
 */
bool ls_kernel_works_in_place(ls_kernel_id id, int output, int other, bool narrows);

/* Where a kernel runs, and where its operands lie. */
typedef enum ls_kernel_device { LS_DEVICE_CPU, LS_DEVICE_CUDA } ls_kernel_device;

typedef struct ls_kernel {
    ls_kernel_id id; /* the contract that it implements */
    ls_dtype dtype;
    ls_kernel_device device;
    ls_features needs; /* all that its code uses, workspace and prepare included */
    /* Which of several kernels for one contract and type it is, "cudnn"; NULL: Longspan's own (ls_kernel_row). */
    const char *row;
    /* Whether it can compute a call that fulfils the contract (data pointers are not read). NULL: any. */
    bool (*supports)(const ls_kernel_call *call);
    /* Bytes of workspace for a call of these shapes (data pointers are not read). NULL: none. */
    size_t (*workspace)(const ls_kernel_call *call);
    /*
     * Checks the call, and creates what its runs share (generated code, tables), which release frees. The operands lie
     * where runs will find them. NULL: nothing to do.
     */
    ls_status (*prepare)(const ls_kernel_call *call, void **state);
    void (*release)(void *state);
    /*
     * Whether prepare may fail for a call that it supports, as when a library or the device's memory lacks something.
     * If prepare then returns LS_UNSUPPORTED or LS_FAULT, the next kernel that fits takes the call (ls_kernel_next).
     */
    bool refuses;
    /*
     * Whether the state that prepare made for one call, or its refusal, also holds for the other call, whose operands
     * lie elsewhere. Both have the same forms (ls_kernel_same_forms). NULL: it never does.
     */
    bool (*shares)(const ls_kernel_call *one, const ls_kernel_call *other);
    /* Of a kernel that the host executes. */
    void (*run)(const ls_kernel_call *call, void *state, ls_pool *pool);
    /*
     * Of one that a device executes: submits the call to a stream (a cudaStream_t), and does not wait. The stream may
     * be one that is captured into a graph: what is submitted is then executed in each run, and the host's part is not
     * repeated. LS_FAULT: it refused.
     */
    ls_status (*launch)(const ls_kernel_call *call, void *state, void *stream);
} ls_kernel;

/*
 * The row that is preferred for calls of a contract and type (choices.c): "attention/bf16=own matmul/f32=cublaslt". If
 * it does not support a call, the order of the registry decides. "table": no row is preferred.
 */
typedef struct ls_kernel_choice {
    ls_kernel_id id;
    ls_dtype dtype;
    char row[16];
} ls_kernel_choice;

enum { LS_KERNEL_CHOICES = 6, LS_KERNEL_CHOICES_ROOM = 256 };
typedef struct ls_kernel_choices {
    int n;
    ls_kernel_choice of[LS_KERNEL_CHOICES];
} ls_kernel_choices;

/* What a kernel is wanted for. */
typedef struct ls_kernel_request {
    ls_kernel_id id;
    ls_dtype dtype;
    ls_kernel_device device;
    ls_isa isa;                       /* the features that the kernel may need */
    const ls_kernel_call *call;       /* that it must support; NULL: any kernel will do */
    const ls_kernel_choices *choices; /* NULL: none */
} ls_kernel_request;

/*
 * The best of the registered kernels that fit. One that is chosen comes first. Then the most specific: the one that
 * needs most features, so that it is preferred to those that need only some of these; of several, the last in the list.
 * LS_UNSUPPORTED: there is none. LS_USAGE: this process may not use that isa.
 */
LS_MUST_USE ls_status ls_kernel_find(const ls_kernel_request *request, const ls_kernel **out);

/*
 * All that fit, the best first; of several of one name (ls_kernel_row) only the best. Returns how many there are, at
 * most LS_KERNEL_ROWS.
 */
enum { LS_KERNEL_ROWS = 4 };
LS_MUST_USE ls_status ls_kernel_find_rows(const ls_kernel_request *request, const ls_kernel *out[LS_KERNEL_ROWS],
                                          int *n);

/*
 * The kernel after `kernel` among all that fit, in the order of ls_kernel_find_rows but with all of each name; the
 * first of them if `kernel` does not fit. NULL: there is none.
 */
const ls_kernel *ls_kernel_next(const ls_kernel_request *request, const ls_kernel *kernel);

/* Reads choices for a device. LS_USAGE names the flag --kernels, and the rows that there are. */
LS_MUST_USE ls_status ls_kernel_choices_parse(const char *text, ls_kernel_device device, ls_isa isa,
                                              ls_kernel_choices *out);
/* The same as text. */
void ls_kernel_choices_text(const ls_kernel_choices *choices, char out[LS_KERNEL_CHOICES_ROOM]);

/* Whether two calls have the same numbers of operands, of the same types, sizes and strides; and a hash of these. */
bool ls_kernel_same_forms(const ls_kernel_call *a, const ls_kernel_call *b);
uint64_t ls_kernel_forms_hash(const ls_kernel_call *call);

static inline const char *ls_kernel_name(const ls_kernel *kernel) { return ls_contracts[kernel->id].name; }
static inline const char *ls_kernel_row(const ls_kernel *kernel) { return kernel->row != NULL ? kernel->row : "own"; }

/* All registered kernels, for tests, benchmarks and `version`. Index 0..count-1, NULL past the end. */
const ls_kernel *ls_kernel_at(int index);

/*
 * One line about the libraries that the kernels of the device cuda are computed by: of each the version and the file
 * that is loaded, or why there is none. LS_UNSUPPORTED: there are no kernels for that device. Loads what is there.
 */
enum { LS_KERNEL_LIBRARIES_ROOM = 4096 };
LS_MUST_USE ls_status ls_kernel_libraries_text(char out[LS_KERNEL_LIBRARIES_ROOM]);

/* --- the expressions of the kernel map (expression.c) ------------------------------------------------------------- */

/* The word of a kind of step, and its number of operands. */
const char *ls_map_name(ls_map_code code);
int ls_map_operands(ls_map_code code);
/* The bytes of params with so many steps. */
size_t ls_map_bytes(const ls_map_params *params);
/* Whether every operand is an input or the result of an earlier step, and no limit is passed. */
LS_MUST_USE ls_status ls_map_check(const ls_map_params *params);

/*
 * Elements of the factor M of a map of the linear recurrence: keys have D elements, and the decay of a head has `decay`
 * elements (contracts.c).
 */
int64_t ls_linear_recurrence_factors(const ls_linear_recurrence_params *params, int64_t D, int64_t decay);

/*
 * Of a kind of recurrent cell, for each element of a head: gates of x, numbers of a state, of which the first is the
 * result, and, of a diagonal cell, numbers of its weight; 0: the weight is matrices.
 */
typedef struct ls_rnn_sizes {
    int gates, states, numbers;
} ls_rnn_sizes;
ls_rnn_sizes ls_rnn_sizes_of(ls_rnn_kind kind);

/* Words of a sum in which nothing is rounded (ref/exact.c), f64 each. */
enum { LS_EXACT_WORDS = 69 };

/* Elements of the small f64 vectors of a step. Totals are summed over all ranks; the host sets the hypers. */
enum { LS_TOTAL_LOSS, LS_TOTAL_SQUARES, LS_TOTAL_STOP, LS_TOTALS };
enum { LS_HYPER_LR, LS_HYPER_CLIP, LS_HYPER_STEP, LS_HYPER_BETA1, LS_HYPER_BETA2, LS_HYPERS };
/*
 * apply: 1, or 0 if the update must be skipped because the loss or the norm is not finite. scale: factor of the
 * gradients, for clipping (LS_HYPER_CLIP 0: no clipping). correction1 and 2: 1 - beta^step. norm: global gradient norm
 * before clipping.
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
