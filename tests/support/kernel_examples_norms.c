/*
 * Calls of norms along the last dimension and of their gradients: rows of none, one and many elements, on and off the
 * vector; with a gate behind the norm and in front of it, of one group and of several.
 */
#include "support/kernel_examples.h"

/* Rows and their elements, so long that all are found: in a warp or a block, in registers or not. */
static const int64_t sizes[][2] = {{0, 8},    {1, 1},    {3, 5},    {7, 16},  {2, 33},
                                   {130, 64}, {1, 4099}, {2, 2048}, {700, 96}};

static void plain(visit_example visit, int64_t n, int64_t E) {
    const ls_norm_params params = {.epsilon = 1e-5, .offset = 0.75};
    const operand x = {'T', NORMAL, 2, {n, E}, 0}, y = {'T', POISON, 2, {n, E}, 0};
    const operand weight = {'T', NORMAL, 1, {E}, 0}, dweight = {'G', NORMAL, 1, {E}, 0};
    const operand rstd = {'G', POSITIVE, 1, {n}, 0}, rstd_out = {'G', POISON, 1, {n}, 0};
    const example examples[] = {
        {"rmsnorm", &params, 2, 2, {x, weight}, {y, rstd_out}},
        {"rmsnorm_grad", &params, 4, 2, {x, weight, rstd, x}, {y, dweight}},
        {"column_sum", NULL, 1, 1, {x}, {dweight}},
        {"layernorm", &params, 2, 3, {x, weight}, {y, rstd_out, rstd_out}},
        {"layernorm", &params, 3, 3, {x, weight, weight}, {y, rstd_out, rstd_out}},
        {"layernorm_grad", &params, 5, 2, {x, weight, rstd, rstd, x}, {y, dweight}},
    };
    for (size_t i = 0; i < LS_COUNT(examples); i++) visit(&examples[i]);
}

/* n tokens of so many groups; of 0 the weight has one dimension. */
static void gated(visit_example visit, int64_t n, int64_t groups, int64_t E) {
    const int ndim = groups > 0 ? 3 : 2;
    operand x = {'T', NORMAL, 3, {n, groups, E}, 0}, weight = {'T', NORMAL, 2, {groups, E}, 0};
    if (groups == 0) x.size[1] = weight.size[0] = E;
    x.ndim = ndim;
    weight.ndim = ndim - 1;
    operand y = x, dweight = weight;
    y.contents = POISON;
    dweight.type = 'G';
    for (int first = 0; first < 2; first++) {
        /* epsilon: of a row of one element, dx is what it leaves of a difference */
        const ls_gated_norm_params params = {.epsilon = 0.5, .gate_first = first != 0};
        const example examples[] = {
            {"gated_norm", &params, 3, 1, {x, weight, x}, {y}},
            {"gated_norm_grad", &params, 4, 3, {x, weight, x, x}, {y, dweight, y}},
        };
        for (size_t i = 0; i < LS_COUNT(examples); i++) visit(&examples[i]);
    }
}

void visit_norm_examples(visit_example visit) {
    for (size_t s = 0; s < LS_COUNT(sizes); s++) {
        plain(visit, sizes[s][0], sizes[s][1]);
        gated(visit, sizes[s][0], 0, sizes[s][1]);
        if (sizes[s][1] <= 64) gated(visit, sizes[s][0], 3, sizes[s][1]);
    }
    gated(visit, 2, 2, 1024);
    gated(visit, 300, 8, 128); /* more rows than are summed in f32 */
}

/* Sums over as many tokens as a rank may hold stay accurate. */
void visit_norms_of_many_tokens(visit_example visit) {
    const ls_norm_params params = {.epsilon = 1e-5, .offset = 0.75};
    const int64_t n = 16384, E = 33;
    const operand x = {'T', POSITIVE, 2, {n, E}, 0}, y = {'T', POISON, 2, {n, E}, 0};
    const operand weight = {'T', NORMAL, 1, {E}, 0}, zero = {'G', NORMAL, 1, {E}, 0};
    const operand rstd = {'G', POSITIVE, 1, {n}, 0};
    const example examples[] = {
        {"rmsnorm_grad", &params, 4, 2, {x, weight, rstd, x}, {y, zero}},
        {"layernorm_grad", &params, 5, 2, {x, weight, rstd, rstd, x}, {y, zero}},
    };
    for (size_t i = 0; i < LS_COUNT(examples); i++) visit(&examples[i]);
    gated(visit, n / 2, 2, E);
}
