/*
 * Rotary positions: the frequencies of the dimensions of a head, and how each kind of context extension changes them.
 */
#ifndef LS_TENSOR_ROPE_H
#define LS_TENSOR_ROPE_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "longspan/status.h"
#include "tensor/params.h"

/*
 * A kind of scaling: one row of the table in rope.c. check checks the parameters, and check_pairs those of
 * D/2 dimension pairs; NULL: there is nothing to check.
 * frequency returns the frequency of dimension pair i of D/2; NULL: one over `power`, which is theta^(2i/D).
 * magnitude returns a factor on cosines and sines; NULL: 1.
 */
typedef struct ls_rope_kind {
    const char *name; /* as in config.json */
    ls_status (*check)(const ls_rope_params *p);
    ls_status (*check_pairs)(const ls_rope_params *p, int64_t D);
    float (*frequency)(const ls_rope_params *p, float power, int64_t i, int64_t D);
    double (*magnitude)(const ls_rope_params *p);
    bool by_length; /* frequencies depend on the length of the sequence */
    bool grows; /* and the frequencies of a token beyond that length depend on its position, as in ls_rope_dynamic */
} ls_rope_kind;

/* *out: the scaling of that name, as in config.json. LS_UNSUPPORTED lists the known names. */
LS_MUST_USE ls_status ls_rope_find(const char *name, ls_rope_scaling *out);
/* The names of all kinds: "default, linear, ... or llama3". */
void ls_rope_names(char *out, size_t room);
/* Checks theta and the parameters of the kind, for D rotated dimensions. */
LS_MUST_USE ls_status ls_rope_check(const ls_rope_params *p, int64_t D);

/*
 * The frequency (radians per position) of dimension pair i of D/2. Each operation is rounded to f32 as in the Hugging
 * Face library, and so is the angle, frequency times position, because models are trained with these numbers. Exact
 * ones differ by 1e-7 of the angle, and logits of 1024 tokens by 1e-5.
 */
float ls_rope_frequency(const ls_rope_params *p, int64_t i, int64_t D);
/* Whether frequencies depend on the length of the sequence. */
bool ls_rope_by_length(const ls_rope_params *p);
bool ls_rope_grows(const ls_rope_params *p);
/* The factor on cosines and sines. */
double ls_rope_magnitude(const ls_rope_params *p);
/*
 * The frequency for a token at `position`. For kinds that grow (dynamic) and a position beyond p->length it is computed
 * as for a sequence of position + 1 tokens. usual: the result of ls_rope_frequency(p, i, D), which is returned in all
 * other cases.
 */
float ls_rope_frequency_at(const ls_rope_params *p, float usual, int64_t position, int64_t i, int64_t D);

#ifdef __CUDACC__
#define LS_ROPE_FORMULA static inline __host__ __device__
#else
#define LS_ROPE_FORMULA static inline
#endif

/* theta^(2i/D). */
LS_ROPE_FORMULA float ls_rope_power(float theta, int64_t i, int64_t D) {
    return (float)pow((double)theta, (double)((float)(2 * i) / (float)D));
}

/* The frequency of the kind that grows; GPU kernels compute it too. */
LS_ROPE_FORMULA float ls_rope_dynamic(const ls_rope_params *p, float power, int64_t i, int64_t D) {
    if (!(p->length > p->original_length) || D <= 2) return 1 / power;
    const float longer = (float)p->factor * (float)p->length / (float)p->original_length;
    const double growth = (double)(longer - (float)(p->factor - 1));
    const float theta = (float)p->theta * (float)pow(growth, (double)((float)((double)D / (double)(D - 2))));
    return 1 / ls_rope_power(theta, i, D);
}

#endif
