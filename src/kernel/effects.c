/*
 * One row per kernel: a bit for each output that it reads, always or depending on params; and for each output a bit for each operand
 * whose place it may take. An output may take an operand's place if the kernel has read all that any thread needs of an element before
 * it writes that element; tests/kernel/test_kernel_in_place.c tries every pair.
 */
#include "kernel/effects.h"

#include <stddef.h>
#include <string.h>

#include "kernel/kernel.h"

typedef struct row {
    const char *name;
    unsigned always;                      /* bit i: output i */
    unsigned (*sometimes)(const void *p); /* more bits, depending on params; NULL: none */
    unsigned over[LS_KERNEL_OUTPUTS]; /* sets of IN and OUT, or WIDER for inputs with larger elements too */
} row;

static unsigned matmul(const void *p) { return ((const ls_matmul_params *)p)->accumulate ? 1 : 0; }

static unsigned attention(const void *p) { return ((const ls_attention_params *)p)->merge ? 3 : 0; }

static unsigned attention_grad(const void *p) {
    const ls_attention_params *params = p;
    return (params->accumulate_dq ? 1u : 0u) | (params->accumulate_dkv ? 6u : 0u);
}

#define IN(i) (1u << (i))
#define OUT(i) (1u << (LS_KERNEL_INPUTS + (i)))
#define WIDER(i) (IN(i) | 1u << (16 + (i)))

static const row rows[] = {
    {"embedding", 0, NULL, {0}},
    {"embedding_grad", 1, NULL, {0}},
    {"matmul", 0, matmul, {0}},
    {"column_sum", 1, NULL, {0}},
    {"rmsnorm", 0, NULL, {IN(0)}},
    {"rmsnorm_grad", 2, NULL, {IN(0) | IN(3)}},
    {"layernorm", 0, NULL, {IN(0)}},
    {"layernorm_grad", 2, NULL, {IN(0) | IN(4)}},
    {"rope_table", 0, NULL, {0}},
    {"rotate", 0, NULL, {IN(0)}},
    {"swiglu", 0, NULL, {IN(0) | IN(1)}},
    {"swiglu_grad", 0, NULL, {IN(0) | IN(1) | IN(2), IN(0) | IN(1) | IN(2)}},
    {"activation", 0, NULL, {IN(0)}},
    {"activation_grad", 0, NULL, {IN(0) | IN(1)}},
    {"conv", 0, NULL, {0}},
    {"conv_dw", 1, NULL, {0}},
    {"add", 0, NULL, {IN(0) | IN(1)}},
    {"mul", 0, NULL, {IN(0) | IN(1)}},
    {"scale", 0, NULL, {IN(0)}},
    {"scale_by", 0, NULL, {IN(0)}},
    {"cast", 0, NULL, {0}},
    {"cross_entropy", 0, NULL, {0}},
    {"cross_entropy_grad", 0, NULL, {WIDER(0)}},
    {"sum", 1, NULL, {0}},
    {"broadcast", 0, NULL, {0}},
    {"attention", 0, attention, {0}},
    {"cache_write", 1, NULL, {0}},
    {"attention_sink", 3, NULL, {0}},
    {"attention_sink_grad", 1, NULL, {0}},
    {"attention_merge", 3, NULL, {0}},
    {"attention_delta", 0, NULL, {0}},
    {"attention_grad", 0, attention_grad, {0}},
    {"accumulate", 1, NULL, {0}},
    {"copy", 0, NULL, {0}},
    {"fill", 0, NULL, {0}},
    {"sum_squares", 1, NULL, {0}},
    {"step_control", 0, NULL, {0}},
    {"adamw", 7, NULL, {0, 0, 0, OUT(0)}},
};

static const row *row_of(const char *kernel) {
    for (size_t i = 0; i < LS_COUNT(rows); i++) {
        if (rows[i].name[0] == kernel[0] && strcmp(rows[i].name, kernel) == 0) return &rows[i];
    }
    return NULL;
}

bool ls_kernel_reads_output(const char *kernel, const void *params, int output) {
    const row *r = row_of(kernel);
    if (r == NULL) return true;
    const unsigned more = r->sometimes != NULL && params != NULL ? r->sometimes(params) : 0;
    return ((r->always | more) >> output & 1) != 0;
}

bool ls_kernel_works_in_place(const char *kernel, int output, int other, bool narrows) {
    const row *r = row_of(kernel);
    return r != NULL && (r->over[output] >> (narrows ? 16 + other : other) & 1) != 0;
}
