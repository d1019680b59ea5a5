/* One row per kernel: a bit for each output that is always read, and what depends on params. */
#include "kernel/reads.h"

#include <stddef.h>
#include <string.h>

#include "kernel/kernel.h"

typedef struct row {
    const char *name;
    unsigned always;                      /* bit i: output i */
    unsigned (*sometimes)(const void *p); /* further bits; NULL: none */
} row;

static unsigned matmul(const void *p) { return ((const ls_matmul_params *)p)->accumulate ? 1 : 0; }

static unsigned attention(const void *p) { return ((const ls_attention_params *)p)->merge ? 3 : 0; }

static unsigned attention_grad(const void *p) {
    const ls_attention_params *params = p;
    return (params->accumulate_dq ? 1u : 0u) | (params->accumulate_dkv ? 6u : 0u);
}

static const row rows[] = {
    {"embedding", 0, NULL},
    {"embedding_grad", 1, NULL},
    {"matmul", 0, matmul},
    {"column_sum", 1, NULL},
    {"rmsnorm", 0, NULL},
    {"rmsnorm_grad", 2, NULL},
    {"layernorm", 0, NULL},
    {"layernorm_grad", 2, NULL},
    {"rope_table", 0, NULL},
    {"rotate", 0, NULL},
    {"swiglu", 0, NULL},
    {"swiglu_grad", 0, NULL},
    {"activation", 0, NULL},
    {"activation_grad", 0, NULL},
    {"conv", 0, NULL},
    {"conv_dw", 1, NULL},
    {"add", 0, NULL},
    {"mul", 0, NULL},
    {"scale", 0, NULL},
    {"scale_by", 0, NULL},
    {"cast", 0, NULL},
    {"cross_entropy", 0, NULL},
    {"cross_entropy_grad", 0, NULL},
    {"sum", 1, NULL},
    {"broadcast", 0, NULL},
    {"attention", 0, attention},
    {"attention_delta", 0, NULL},
    {"attention_grad", 0, attention_grad},
    {"accumulate", 1, NULL},
    {"copy", 0, NULL},
    {"fill", 0, NULL},
    {"sum_squares", 1, NULL},
    {"step_control", 0, NULL},
    {"adamw", 7, NULL},
};

bool ls_kernel_reads_output(const char *kernel, const void *params, int output) {
    for (size_t i = 0; i < LS_COUNT(rows); i++) {
        if (strcmp(rows[i].name, kernel) != 0) continue;
        const unsigned more = rows[i].sometimes != NULL && params != NULL ? rows[i].sometimes(params) : 0;
        return ((rows[i].always | more) >> output & 1) != 0;
    }
    return true;
}
