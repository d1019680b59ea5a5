/* Calls of kernels with made-up operands, to be compared with the reference in f64. */
#ifndef LS_TESTS_SUPPORT_KERNEL_EXAMPLES_H
#define LS_TESTS_SUPPORT_KERNEL_EXAMPLES_H

#include "kernel/kernel.h"

/*
 * What an operand holds: T, G as in kernel.h; W f32 where a bf16 kernel may take T or f32; I i32; D f64. A small letter
 * is the same with a gap behind each row. R is T with what one index of the first dimension has for all of them, C with
 * one element for each row, and P with the last two dimensions in each other's place.
 */
typedef enum contents {
    NORMAL,
    POSITIVE,
    IDS,
    LABELS,
    PART_IDS, /* as ids and labels, some of them in another part of a table */
    PART_LABELS,
    RUN, /* the first and the number, which is the limit */
    POSITIONS,
    SPANS,  /* two of each query, of positions of `limit` keys; every fifth query sees nothing */
    KEYS,   /* of `limit` elements, of length 1 on average */
    DECAYS, /* below 0 */
    RATES,  /* from 0 to 2 */
    STARTS, /* some are 0 */
    ENDS,   /* some are below 0, those behind them are not */
    CONTROL,
    SKIP,
    GROUPS, /* of limit many, in runs of several lengths; some units have none */
    SETTINGS,
    HYPER,
    WORDS,  /* of a long accumulator, before a carry */
    SPREAD, /* over all exponents of f32 */
    POISON
} contents;

typedef struct operand {
    char type;
    contents contents;
    int ndim;
    int64_t size[LS_MAX_DIMS];
    int64_t limit; /* of ids, labels and groups */
} operand;

/* A call. */
typedef struct example {
    const char *name;
    const void *params;
    int n_in, n_out;
    operand in[LS_KERNEL_INPUTS], out[LS_KERNEL_OUTPUTS];
} example;

typedef struct array {
    double *exact; /* what the reference gets */
    void *typed;   /* the same values in the tested type */
    ls_dtype dtype;
    int64_t n;
} array;

/* Its value in f64, before rounding; `stream` tells operands apart. */
double value_of(const operand *o, uint64_t stream, int64_t i);
array make_array(const operand *o, ls_dtype T, uint64_t stream);
/* A second array of the same contents, without exact values. */
array copy_array(const array *a);
void free_array(array *a);
/* ‖a − exact‖ / ‖exact‖; infinity where one is NaN and the other is not. */
double norm_error(const array *a, const double *exact);
/* Of one rounding to the type, and of f32's sums. */
double tolerance(ls_dtype dtype);
/* The call on these arrays, or on their exact values. */
ls_kernel_call make_call(const example *e, const array *in, const array *out, bool exact);

typedef void (*visit_example)(const example *e);
/* The examples of all kernels but attention, by their subjects. */
typedef struct example_group {
    const char *name;
    void (*visit)(visit_example visit);
    bool f32_only; /* there are no such kernels for bf16 */
} example_group;
void visit_recurrence_examples(visit_example visit); /* of linear recurrences (kernel_examples_recurrence.c) */
void visit_rnn_examples(visit_example visit);        /* of recurrent cells (kernel_examples_rnn.c) */
void visit_score_examples(visit_example visit);      /* of whole rows of scores (kernel_examples_scores.c) */
void visit_norm_examples(visit_example visit); /* of norms, and those over many tokens (kernel_examples_norms.c) */
void visit_norms_of_many_tokens(visit_example visit);
void visit_general_examples(visit_example visit); /* the group of general ops (kernel_examples_general.c) */
extern const example_group example_groups[];
extern const int n_example_groups;
/*
 * Calls `run` with the operands of an example in that type, and what the device cuda is asked for; not where an operand
 * has more elements. The exact values of `out` are still to be computed.
 */
typedef void (*run_cuda_call)(const example *e, const ls_kernel_request *request, const array *in, const array *out);
void make_cuda_call(const example *e, ls_dtype T, int64_t most_elements, run_cuda_call run);
extern const ls_adamw_params example_adamw; /* the params of its examples */

#endif
