/*
 * Parameters of ops that kernels need too. An op's file (graph/ops/) fills them, a strategy may refine them,
 * a kernel reads them; nobody in between looks inside.
 */
#ifndef LS_TENSOR_PARAMS_H
#define LS_TENSOR_PARAMS_H

#include <stdbool.h>
#include <stdint.h>

/* A label that is not to be learnt: its loss and its gradient are 0. As in PyTorch. */
enum { LS_LABEL_IGNORED = -100 };

/* embedding: the row of this id gets no gradient from being looked up; -1: there is none. */
typedef struct ls_embedding_params {
    int64_t padding;
} ls_embedding_params;

/* matmul: C = op(A)·op(B), or C += ... when accumulate. */
typedef struct ls_matmul_params {
    bool transpose_a, transpose_b;
    bool accumulate;
} ls_matmul_params;

/* A function of one element. softcap is cap·tanh(x/cap); the others do not read cap. */
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
    double offset; /* of rmsnorm: added to the weights */
} ls_norm_params;

/*
 * Rotary positions (RoFormer, arXiv 2104.09864), halves rotated as the published models do. scaling: a row of the table in
 * tensor/rope.c, which says what it reads.
 */
typedef enum ls_rope_scaling {
    LS_ROPE_PLAIN,
    LS_ROPE_LINEAR,
    LS_ROPE_DYNAMIC,
    LS_ROPE_YARN,
    LS_ROPE_LLAMA3,
} ls_rope_scaling;

typedef struct ls_rope_params {
    ls_rope_scaling scaling;
    double theta, factor, original_length;
    double length;                  /* dynamic */
    double low_factor, high_factor; /* llama3 */
    double beta_fast, beta_slow;    /* yarn, as all that follow */
    double attention_factor;        /* 0: from factor and the two below */
    double mscale, mscale_all_dim;  /* 0: not given */
    bool untruncated;               /* the ends of the ramp are not rounded to whole dimensions */
} ls_rope_params;

typedef struct ls_rotate_params {
    bool inverse; /* rotate back: the gradient */
} ls_rotate_params;

typedef struct ls_scale_params {
    double factor;
} ls_scale_params;

typedef struct ls_shift_params {
    int64_t tokens; /* y[i] = x[i - tokens] */
} ls_shift_params;

typedef struct ls_conv_params {
    bool ahead; /* taps count later tokens instead of earlier ones: the gradient */
} ls_conv_params;

/*
 * Attention over one block of keys. Local query head i reads local KV head (first_q + i)/group - first_kv,
 * where group = Hq/Hkv of the whole model. merge: combine with what o and lse hold already (another block of keys);
 * otherwise overwrite them. For the gradient, accumulate_dq and accumulate_dkv add to what is there.
 */
typedef struct ls_attention_params {
    double scale;   /* of q·k, usually 1/sqrt(D) */
    double softcap; /* c > 0: a logit x becomes c·tanh(x/c) before the mask; 0: none */
    int group, first_q, first_kv;
    bool merge;
    bool accumulate_dq, accumulate_dkv;
} ls_attention_params;

typedef struct ls_adamw_params {
    double beta1, beta2, epsilon;
    double weight_decay;
    double rate; /* the step's learning rate is multiplied by it */
} ls_adamw_params;

#endif
