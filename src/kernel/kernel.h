/*
 * kernel: arithmetic on views. contracts.c has the contract of every kernel, registry.c the implementations.
 *
 * Every contract has a reference implementation (ref/: plain C, f32 and f64). Faster ones (cpu/) need features of the
 * processor and are preferred on processors that have them. A kernel knows nothing of ranks: it gets views, parameters,
 * a workspace of the size that it declared, and the pool on whose threads it may divide its work. prepare checks
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
    LS_COST_BYTES,   /* one pass over its operands, with some arithmetic */
    LS_COST_PLAIN,   /* the same, with flops at the rate of plain loops */
    LS_COST_COPY,    /* the same; an operand in several pieces takes several copies */
    LS_COST_OFFLOAD, /* its bytes go to memory of the host, or come from there */
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
 *
 *   x T[n,E]   g G[n,E]   w T[E]   s G[E]   r G[n]   i i32[n], rows of a table   q f64[1]
 *   of an update: c the control   o the settings of one group   u i32[n E/LS_FLAT_UNIT], the group of each unit
 *   v T[n/16,16 E], logits   l i32[n/16], labels   k G[n/16]
 *   t T[n,H,D]   a G[n,D], angles   h T[1,n,H,D]   p G[1,H,n]
 *   of a convolution of 4 taps: z T[1,n+3,E]   y T[1,n,E]   m T[4,E], its weight   d G[4,E]   e T[1,n,0], no reach
 */
typedef struct ls_kernel_sample {
    const char *in, *out; /* out NULL: not measured; the time of `add` is used */
    bool of_accumulator;  /* the kernel of type G is measured */
    const void *params;
} ls_kernel_sample;

typedef struct ls_contract {
    const char *name;
    const char *in, *out;                           /* the operands (check.c) */
    bool params;                                    /* a call has params */
    ls_status (*check)(const ls_kernel_call *call); /* conditions that the operands cannot express; NULL: none */
    unsigned reads;                                 /* bit i: output i is read before it is written ("adds", in-out) */
    unsigned (*reads_too)(const void *params);      /* further outputs, depending on params; NULL: none */
    /*
     * For each output, a bit for each operand (inputs, then outputs; 16 higher: inputs of a larger type) whose memory
     * it may share: the kernel has read all that any thread needs of an element before it writes that element. A test
     * tries every pair.
     */
    unsigned over[LS_KERNEL_OUTPUTS];
    /*
     * Bit i: -inf is a valid element of output i, such as the lse of a query that sees no key. Any other value that is
     * not finite shows an error in the inputs.
     */
    unsigned minus_inf;
    /*
     * Bit i: output i is written only in its first rows, as many as output 0, an i32, says. The contents of the other
     * rows are undefined.
     */
    unsigned counted;
    unsigned table; /* the operand of which only the rows named by input 0 are touched; 0: none */
    ls_cost_kind cost;
    double flops; /* for each element of input 0; 0: the flops depend on more, and the op that makes the call states
                     them */
    ls_kernel_sample sample;
} ls_contract;

extern const ls_contract ls_contracts[LS_KERNEL_IDS];

/* The contract of that name; LS_KERNEL_NONE if there is none. */
ls_kernel_id ls_kernel_named(const char *name);

/* Whether the kernel reads the output before it writes it. params: those of the call. */
bool ls_kernel_reads_output(ls_kernel_id id, const void *params, int output);

/*
 * Whether output `output` may begin where operand `other` begins (input i is i, output i is LS_KERNEL_INPUTS + i). Both
 * are dense and have the same number of elements; they have one type, or with `narrows` the output has a smaller one.
 * The results have the same bits as with separate memory.
 */
bool ls_kernel_works_in_place(ls_kernel_id id, int output, int other, bool narrows);

/* Where a kernel runs and its operands lie. */
typedef enum ls_kernel_device { LS_DEVICE_CPU, LS_DEVICE_CUDA } ls_kernel_device;

typedef struct ls_kernel {
    ls_kernel_id id; /* the contract that it implements */
    ls_dtype dtype;
    ls_kernel_device device;
    ls_features needs; /* all features that its code uses, including workspace and prepare */
    /*
     * Its name among several kernels for one contract and type, such as "cudnn"; NULL: Longspan's own kernel
     * (ls_kernel_row).
     */
    const char *row;
    /* Whether it can compute a call that fulfils the contract (data pointers are not read). NULL: any. */
    bool (*supports)(const ls_kernel_call *call);
    /* Bytes of workspace for a call of these shapes (data pointers are not read). NULL: none. */
    size_t (*workspace)(const ls_kernel_call *call);
    /*
     * Checks the call, and creates what its runs share (generated code, tables), which release frees. The operands are
     * already at the addresses that the runs will use. NULL: nothing to do.
     */
    ls_status (*prepare)(const ls_kernel_call *call, void **state);
    void (*release)(void *state);
    /*
     * Whether prepare may fail for a call that the kernel supports, for example if a library or the device lacks
     * something. If prepare returns LS_UNSUPPORTED or LS_FAULT, the next kernel that fits takes the call
     * (ls_kernel_next).
     */
    bool refuses;
    /*
     * Whether the state that prepare made for one call, or its failure, also holds for another call, whose operands lie
     * elsewhere. Both have the same forms (ls_kernel_same_forms). NULL: it never does.
     */
    bool (*shares)(const ls_kernel_call *one, const ls_kernel_call *other);
    /* For kernels that the host executes. */
    void (*run)(const ls_kernel_call *call, void *state, ls_pool *pool);
    /*
     * For kernels that a device executes: submits the call to a stream (a cudaStream_t), and does not wait. The stream
     * may be one that is being captured into a graph: the submitted work is then executed in each run, and the host's
     * part is not repeated. LS_FAULT: the device refused.
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

/* What a kernel is searched for. */
typedef struct ls_kernel_request {
    ls_kernel_id id;
    ls_dtype dtype;
    ls_kernel_device device;
    ls_isa isa;                       /* the features that the kernel may use */
    const ls_kernel_call *call;       /* that the kernel must support; NULL: any kernel will do */
    const ls_kernel_choices *choices; /* NULL: none */
} ls_kernel_request;

/*
 * The best of the registered kernels that fit. A chosen row comes first. Then the most specific kernel: one that needs
 * more features is preferred to one that needs only some of these; of several, the last in the list. LS_UNSUPPORTED:
 * none fits. LS_USAGE: this process may not use that isa.
 */
LS_MUST_USE ls_status ls_kernel_find(const ls_kernel_request *request, const ls_kernel **out);

/*
 * All kernels that fit, the best first; of several with one name (ls_kernel_row) only the best. Returns how many there
 * are, at most LS_KERNEL_ROWS.
 */
enum { LS_KERNEL_ROWS = 4 };
LS_MUST_USE ls_status ls_kernel_find_rows(const ls_kernel_request *request, const ls_kernel *out[LS_KERNEL_ROWS],
                                          int *n);

/*
 * The kernel after `kernel` in the list of all that fit, in the order of ls_kernel_find_rows but with all of each name;
 * the first of the list if `kernel` does not fit. NULL: there is none.
 */
const ls_kernel *ls_kernel_next(const ls_kernel_request *request, const ls_kernel *kernel);

/* Reads choices for a device. LS_USAGE names the flag --kernels and the rows that exist. */
LS_MUST_USE ls_status ls_kernel_choices_parse(const char *text, ls_kernel_device device, ls_isa isa,
                                              ls_kernel_choices *out);
/* The choices as text. */
void ls_kernel_choices_text(const ls_kernel_choices *choices, char out[LS_KERNEL_CHOICES_ROOM]);

/* Whether two calls have the same numbers of operands, with the same types, sizes and strides; and a hash of these. */
bool ls_kernel_same_forms(const ls_kernel_call *a, const ls_kernel_call *b);
uint64_t ls_kernel_forms_hash(const ls_kernel_call *call);

static inline const char *ls_kernel_name(const ls_kernel *kernel) { return ls_contracts[kernel->id].name; }
static inline const char *ls_kernel_row(const ls_kernel *kernel) { return kernel->row != NULL ? kernel->row : "own"; }

/* All registered kernels, for tests, benchmarks and `version`. Index 0..count-1, NULL past the end. */
const ls_kernel *ls_kernel_at(int index);

/*
 * One line about the libraries that the kernels of the device cuda use: the version of each and the loaded file, or why
 * it is missing. LS_UNSUPPORTED: there are no kernels for that device. Loads the libraries that exist.
 */
enum { LS_KERNEL_LIBRARIES_ROOM = 4096 };
LS_MUST_USE ls_status ls_kernel_libraries_text(char out[LS_KERNEL_LIBRARIES_ROOM]);

/* --- the expressions of the kernel map (expression.c) ------------------------------------------------------------- */

/* The word of a kind of step, and its number of operands. */
const char *ls_map_name(ls_map_code code);
int ls_map_operands(ls_map_code code);
/* The size of params with this number of steps, in bytes. */
size_t ls_map_bytes(const ls_map_params *params);
/* Checks that every operand is an input or the result of an earlier step, and that no limit is exceeded. */
LS_MUST_USE ls_status ls_map_check(const ls_map_params *params);

/*
 * The number of elements of the factor M in a map of the linear recurrence. D: elements of a key; decay: elements of a
 * head's decay (contracts.c).
 */
int64_t ls_linear_recurrence_factors(const ls_linear_recurrence_params *params, int64_t D, int64_t decay);

/*
 * Sizes of a kind of recurrent cell, per element of a head: gates of x; numbers of the state, the first of which is the
 * result; and for a diagonal cell the numbers of its weight (0: the weight consists of matrices).
 */
typedef struct ls_rnn_sizes {
    int gates, states, numbers;
} ls_rnn_sizes;
ls_rnn_sizes ls_rnn_sizes_of(ls_rnn_kind kind);

/* Words of a sum in which nothing is rounded (ref/exact.c), each an f64. */
enum { LS_EXACT_WORDS = 69 };

/* Indices of the small f64 vectors of a step. Totals are summed over all ranks; the host sets the hypers. */
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
