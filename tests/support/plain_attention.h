/*
 * Attention by its formula, in f64, with softmax over all keys at once: the result that every strategy must have. It
 * uses neither the kernels nor spans of masks nor layouts: for each pair of a query and a key the mask's definition
 * decides.
 */
#ifndef TESTS_PLAIN_ATTENTION_H
#define TESTS_PLAIN_ATTENTION_H

#include <stdbool.h>

#include "longspan/tensor.h"

enum { PLAIN_Q, PLAIN_K, PLAIN_V, PLAIN_GRAD_O, PLAIN_INPUTS };
enum { PLAIN_O, PLAIN_LSE, PLAIN_DQ, PLAIN_DK, PLAIN_DV, PLAIN_OUTPUTS };

typedef struct plain_sizes {
    int64_t B, S, Hq, Hkv, D, E; /* D: of a head of q and k; E: of one of v and o, 0: D */
} plain_sizes;

/* What else the op does with logits. */
typedef struct plain_extras {
    bool sink;
    double softcap; /* 0: none */
} plain_extras;

typedef struct plain_attention {
    plain_sizes n;
    ls_mask mask;               /* its ends belong to whoever made it */
    double scale, softcap;      /* softcap 0: none */
    double *sink;               /* [Hq], a logit of value 0 that every query sees, as it stands; NULL: none */
    double *in[PLAIN_INPUTS];   /* [B,S,heads,D or E] */
    double *out[PLAIN_OUTPUTS]; /* [B,S,heads,D or E]; lse [B,Hq,S], the sink included, -inf where nothing is seen */
} plain_attention;

/* Whether query q sees key k, by the definition of masks in longspan/tensor.h. */
bool plain_sees(const ls_mask *mask, int64_t q, int64_t k);

/*
 * Normal inputs from a stream, rounded to bf16 so that one reference serves every type; q and k are multiplied by
 * `spread`. Then the formula. plain_attention_free frees the arrays.
 */
plain_attention plain_attention_make(plain_sizes n, const ls_mask *mask, plain_extras extras, double spread,
                                     uint64_t stream);
void plain_attention_free(plain_attention *a);

int64_t plain_value_size(const plain_sizes *n);         /* E */
int64_t plain_input_count(const plain_sizes *n, int i); /* elements */
int64_t plain_output_count(const plain_sizes *n, int i);

#endif
