/*
 * Those parameters of ops that kernels also read. The file of an op (graph/ops/) sets them, a strategy may change them,
 * and a kernel reads them; the folders in between only pass them on.
 */
#ifndef LS_TENSOR_PARAMS_H
#define LS_TENSOR_PARAMS_H

#include "longspan/map.h"
#include "longspan/rnn.h"

#include <stdbool.h>
#include <stdint.h>

/* The label of a token that is not trained on: its loss and its gradient are 0. The value is PyTorch's. */
enum { LS_LABEL_IGNORED = -100 };

/* Stands for an id or a label whose row of the table is in another rank's part. */
enum { LS_ID_ELSEWHERE = -1 };

/* embedding: lookups of the id `padding` add nothing to the gradient of its row; -1: no such id. */
typedef struct ls_embedding_params {
    int64_t padding;
} ls_embedding_params;

/*
 * cross_entropy, its merge and its gradient: the loss of a token with logits x is lse - label · x[label] - each · Σ x +
 * z · lse². The gradient is exp(x - lse) · (1 + 2 z lse) - each, less `label` at the token's label. If the vocabulary
 * is in parts, the merge adds the term with z, and the parts are computed without it. NULL stands for
 * ls_plain_cross_entropy, -log softmax(x)[label].
 */
typedef struct ls_cross_entropy_params {
    double label, each, z;
} ls_cross_entropy_params;
static const ls_cross_entropy_params ls_plain_cross_entropy = {.label = 1};
static inline const ls_cross_entropy_params *ls_cross_entropy_params_of(const void *params) {
    return params != NULL ? (const ls_cross_entropy_params *)params : &ls_plain_cross_entropy;
}

/* noise: uniform in ±amplitude. */
typedef struct ls_noise_params {
    double amplitude;
} ls_noise_params;

/* matmul: C = op(A)·op(B), or C += ... when accumulate. */
typedef struct ls_matmul_params {
    bool transpose_a, transpose_b;
    bool accumulate;
} ls_matmul_params;

/* A function of one element. softcap is cap·tanh(x/cap); the others ignore cap. */
typedef enum ls_activation_kind {
    LS_ACTIVATION_GELU,      /* x·Phi(x), exact */
    LS_ACTIVATION_GELU_TANH, /* "gelu_new", "gelu_pytorch_tanh" */
    LS_ACTIVATION_RELU,
    LS_ACTIVATION_SILU,
    LS_ACTIVATION_SOFTCAP,
    LS_ACTIVATIONS
} ls_activation_kind;

typedef struct ls_activation_params {
    ls_activation_kind kind;
    double cap;
} ls_activation_params;

typedef struct ls_norm_params {
    double epsilon;
    double offset; /* rmsnorm: added to the weights */
} ls_norm_params;

typedef struct ls_gated_norm_params {
    double epsilon;
    bool gate_first; /* x is multiplied by silu(gate) before the norm, not after it */
} ls_gated_norm_params;

/*
 * Rotary positions (RoFormer, arXiv 2104.09864): element i of a head is rotated with element i + D/2, as in the
 * published models. scaling: a row of the table in tensor/rope.c; each kind reads only some of the fields.
 */
typedef enum ls_rope_scaling {
    LS_ROPE_PLAIN,
    LS_ROPE_LINEAR,
    LS_ROPE_DYNAMIC,
    LS_ROPE_YARN,
    LS_ROPE_LLAMA3,
    LS_ROPE_LONGROPE,
} ls_rope_scaling;

/* The most pairs of dimensions that longrope rotates: those of a head of 256 elements. */
enum { LS_ROPE_PAIRS = 128 };

typedef struct ls_rope_params {
    ls_rope_scaling scaling;
    double theta, factor, original_length;
    double length;                  /* dynamic and longrope: tokens of the sequence */
    double low_factor, high_factor; /* llama3 */
    double beta_fast, beta_slow;    /* yarn, as are the fields below; 0: 32 and 1 */
    double attention_factor;        /* 0: follows from factor, mscale and mscale_all_dim */
    double mscale, mscale_all_dim;  /* 0: not given */
    bool untruncated;               /* the ends of the ramp are not rounded to whole dimensions */
    /* longrope: what the frequency of each pair is divided by, in sequences up to the original length and beyond it */
    float short_factor[LS_ROPE_PAIRS], long_factor[LS_ROPE_PAIRS];
} ls_rope_params;

typedef struct ls_rotate_params {
    bool inverse; /* rotate by the opposite angles, for the gradient */
} ls_rotate_params;

typedef struct ls_scale_params {
    double factor;
} ls_scale_params;

typedef struct ls_shift_params {
    int64_t tokens; /* y[i] = x[i - tokens] */
} ls_shift_params;

/* The most numbers that the state of a recurrence with matrices has for each element. */
enum { LS_RECURRENCE_STATES = 4 };

typedef struct ls_recurrence_params {
    bool backwards; /* from the last token to the first */
} ls_recurrence_params;

/*
 * The family of linear recurrences (kernel/contracts.c). delta: what the state already gives for a key is subtracted
 * before the key's value is written; otherwise values are added. unmasked: every token reads the state after all
 * tokens.
 */
typedef struct ls_linear_recurrence_params {
    bool delta, unmasked;
    bool transposed; /* follow: each map's factor is transposed, as it acts on the gradient of a state */
    bool backwards;  /* follow: from the last map to the first */
} ls_linear_recurrence_params;

/*
 * Recurrent cells. ends: the places given to the kernel are not positions in documents, but say which tokens are the
 * last ones (kernel/contracts.c).
 */
typedef struct ls_rnn_params {
    ls_rnn_kind kind;
    bool ends;
} ls_rnn_params;

typedef struct ls_conv_params {
    bool ahead;      /* the taps read later tokens instead of earlier ones, for the gradient */
    bool last_first; /* the rows of the weight are the taps in reverse order: the last row is of the token itself */
    bool biased;     /* the weight has one more row after the taps, which is added; not with `ahead` */
    bool silu;       /* results go through x·sigmoid(x) */
} ls_conv_params;

/* How many of a weight's `rows` are taps. */
static inline int64_t ls_conv_taps(const ls_conv_params *params, int64_t rows) { return rows - params->biased; }

/*
 * A summary of the spans of one call of attention, `known` if the code that made the call knows it for all its queries:
 * with i and j counted from the call's first query and first key, query i sees key j if low <= j - i <= high. A bound
 * that hides nothing is the first or the last possible j - i. The band adds nothing to what the spans say, and most
 * kernels do not read it.
 */
typedef struct ls_attention_band {
    bool known;
    int64_t low, high;
} ls_attention_band;

/*
 * Attention over one block of keys. Local query head i reads local KV head (first_q + i)/group - first_kv, where group
 * = Hq/Hkv of the whole model. merge: o and lse hold the result over other blocks of keys, with which the new result is
 * combined; otherwise o and lse are overwritten. For the gradient, accumulate_dq and accumulate_dkv add to dq, and to
 * dk and dv, instead of overwriting them.
 */
typedef struct ls_attention_params {
    double scale;   /* of q·k, usually 1/sqrt(D) */
    double softcap; /* c > 0: a logit x becomes c·tanh(x/c) before the mask; 0: none */
    int group, first_q, first_kv;
    bool merge;
    bool accumulate_dq, accumulate_dkv;
    ls_attention_band band;
} ls_attention_params;

/*
 * The elements of a unit of the flat space of all parameters. Each parameter begins at the start of a unit, and no two
 * parameters share a unit.
 */
enum { LS_FLAT_UNIT = 32 };

/* exact_sum: the sum of the squares instead of the sum of the numbers. */
typedef struct ls_exact_params {
    bool squares;
} ls_exact_params;

/*
 * map: operands are numbered as in longspan/map.h. In memory the struct ends after the last step in use, so that a
 * short expression takes little room.
 */
typedef struct ls_map_params {
    int n_in, n_steps, n_results;
    unsigned wide; /* bit i: result i has the accumulator's type */
    int result[LS_MAP_RESULTS];
    ls_map_step step[LS_MAP_STEPS];
} ls_map_params;

/*
 * reduce_max_grad: shared: all elements that equal the maximum share the gradient equally; otherwise the first of them
 * gets all of it.
 */
typedef struct ls_reduce_max_params {
    bool shared;
} ls_reduce_max_params;

/* contract: accumulate: the product is added to what the output holds. */
typedef struct ls_contract_params {
    bool accumulate;
} ls_contract_params;

/* Settings that are the same for all parameters that an optimiser's kernel updates. */
typedef struct ls_adamw_params {
    double beta1, beta2, epsilon;
} ls_adamw_params;

typedef struct ls_sgd_params {
    double momentum;
    bool nesterov; /* the step follows the momentum as it would be after one more equal gradient */
} ls_sgd_params;

typedef struct ls_lion_params {
    double beta1; /* of the momentum in the direction of the step */
    double beta2; /* of the momentum that is kept */
} ls_lion_params;

typedef struct ls_momentum_params {
    double momentum;
} ls_momentum_params;

typedef struct ls_descend_params {
    double factor; /* on the direction */
} ls_descend_params;

/* combine: y = a x + b y. */
typedef struct ls_combine_params {
    double a, b;
} ls_combine_params;

/* Settings that may differ between parameters: a row of the table that optimisers' kernels read. */
typedef struct ls_update_settings {
    double rate; /* a factor on the learning rate of the step */
    double weight_decay;
} ls_update_settings;

#endif
