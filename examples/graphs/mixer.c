/*
 * A network without attention: each layer mixes tokens by a token shift with learned shares (as in RWKV, Peng et al.,
 * arXiv 2305.13048) and by a gated convolution over the last tokens (as in Mamba, Gu and Dao, arXiv 2312.00752). On
 * several ranks, each rank gets the few tokens that it needs from its neighbours, without any code for it here.
 */
#include "graphs.h"

enum { B = 2, S = 23, WIDTH = 4, E = 24, F = 40, V = 17, L = 2 };

static ls_tensor parameter(ls_graph *g, const char *name, int layer, int64_t rows, int64_t columns) {
    return ls_parameter_named(g, 2, (int64_t[]){rows, columns}, "layer.%d.%s", layer, name);
}

static ls_tensor norm(ls_graph *g, ls_tensor x, const char *name, int layer) {
    return ls_rmsnorm(g, x, ls_parameter_named(g, 1, (int64_t[]){E}, "layer.%d.%s", layer, name), 1e-5);
}

/*
 * Adds a weighted copy of this token and of the token before it. A convolution of width 1 multiplies each channel by a
 * weight.
 */
static ls_tensor shift_tokens(ls_graph *g, ls_tensor x, int layer) {
    const ls_tensor now = ls_conv(g, x, parameter(g, "now", layer, 1, E));
    return ls_add(g, now, ls_conv(g, ls_shift(g, x, 1), parameter(g, "before", layer, 1, E)));
}

static ls_tensor convolve(ls_graph *g, ls_tensor x, int layer) {
    const ls_tensor inner = ls_linear(g, x, parameter(g, "in", layer, F, E), LS_NO_TENSOR);
    const ls_tensor gate = ls_linear(g, x, parameter(g, "gate", layer, F, E), LS_NO_TENSOR);
    const ls_tensor mixed = ls_silu(g, ls_conv(g, inner, parameter(g, "taps", layer, WIDTH, F)));
    return ls_linear(g, ls_swiglu(g, gate, mixed), parameter(g, "out", layer, E, F), LS_NO_TENSOR);
}

static ls_tensor feed_forward(ls_graph *g, ls_tensor x, int layer) {
    const ls_tensor h = ls_relu(g, ls_linear(g, x, parameter(g, "key", layer, F, E), LS_NO_TENSOR));
    return ls_linear(g, ls_mul(g, h, h), parameter(g, "value", layer, E, F), LS_NO_TENSOR);
}

ls_tensor mixer_loss(ls_graph *g) {
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S);
    const ls_tensor labels = ls_input_like(g, "labels", tokens);
    const ls_tensor table = ls_parameter(g, "table", 2, (int64_t[]){V, E});
    ls_tensor x = ls_embedding(g, tokens, table);
    for (int layer = 0; layer < L; layer++) {
        x = ls_add(g, x, convolve(g, norm(g, x, "norm 1", layer), layer));
        x = ls_add(g, x, feed_forward(g, shift_tokens(g, norm(g, x, "norm 2", layer), layer), layer));
    }
    return ls_sum(g, ls_cross_entropy(g, ls_linear_wide(g, norm(g, x, "norm", L), table), labels));
}
