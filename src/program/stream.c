#include "program/stream.h"

#include "tensor/tensor.h"

#include <string.h>

static const ls_embedding_params embedding = {.padding = -1};
static const ls_norm_params norm = {.epsilon = 1e-5};
static const ls_activation_params gelu = {.kind = LS_ACTIVATION_GELU_TANH};
static const ls_rotate_params rotate = {.inverse = false};
static const ls_rope_params rope = {.theta = 10000};
static const ls_adamw_params adamw = {
    .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1, .rate = 1};

const ls_stream_row ls_streams[LS_STREAMS] = {
    {"add", "xx", "x", false, NULL},
    {"copy", "x", "x", false, NULL},
    {"fill", "", "x", false, NULL},
    {"cast", "x", "g", false, NULL},
    {"accumulate", "x", "g", false, NULL},
    {"column_sum", "x", "s", false, NULL},
    {"embedding", "ix", "x", false, NULL},
    {"embedding_grad", "ix", "g", false, &embedding},
    {"rmsnorm", "xw", "xr", false, &norm},
    {"rmsnorm_grad", "xwrx", "xs", false, &norm},
    {"layernorm", "xw", "xrr", false, &norm},
    {"layernorm_grad", "xwrrx", "xs", false, &norm},
    {"rope_table", "i", "a", false, &rope},
    {"rotate", "ta", "t", false, &rotate},
    {"swiglu", "xx", "x", false, NULL},
    {"swiglu_grad", "xxx", "xx", false, NULL},
    {"activation", "x", "x", false, &gelu},
    {"activation_grad", "xx", "x", false, &gelu},
    {"attention_delta", "hh", "p", false, NULL},
    {"cross_entropy", "vl", "kk", false, NULL},
    {"cross_entropy_grad", "vlkk", "v", false, NULL},
    {"sum_squares", "g", "q", true, NULL},
    {"adamw", "gc", "gggx", false, &adamw},
};

int ls_stream_of(const char *kernel) {
    for (int i = 0; i < LS_STREAMS; i++)
        if (strcmp(ls_streams[i].name, kernel) == 0) return i;
    return 0;
}
