/*
 * gpt-oss (OpenAI, arXiv 2508.10925): every other layer attends to a window only, projections have biases, and each
 * query head has a sink, a learned logit that takes part in the softmax without a value, so that a head may attend to
 * nothing. Its feed-forward is a mixture of experts; this graph has one expert. gpt-oss-20b has E 2880, Hq 64, Hkv 8, D
 * 64, V 201088, L 24, windows of 128.
 */
#include "graphs.h"

#include <math.h>

enum { B = 2, S = 23, WINDOW = 5, E = 32, Hq = 8, Hkv = 2, D = 4, F = 40, V = 17, L = 2 };

static ls_tensor norm(ls_graph *g, ls_tensor x, const char *name, int layer) {
    return ls_rmsnorm(g, x, ls_parameter_named(g, 1, (int64_t[]){E}, "layers.%d.%s", layer, name), 1e-5);
}

static ls_tensor project(ls_graph *g, ls_tensor x, const char *name, int layer, int64_t to, int64_t from) {
    const ls_tensor weight = ls_parameter_named(g, 2, (int64_t[]){to, from}, "layers.%d.%s", layer, name);
    return ls_linear(g, x, weight, ls_parameter_named(g, 1, &to, "layers.%d.%s.bias", layer, name));
}

static ls_tensor attend(ls_graph *g, ls_tensor x, ls_tensor rope, int layer) {
    const ls_mask window = {.n = 1, .term = {{.kind = LS_MASK_WINDOW, .window = WINDOW}}};
    const ls_mask mask = layer % 2 == 0 ? window : ls_mask_causal();
    const ls_tensor q = ls_split_last(g, project(g, x, "q_proj", layer, Hq * D, E), Hq, D);
    const ls_tensor k = ls_split_last(g, project(g, x, "k_proj", layer, Hkv * D, E), Hkv, D);
    const ls_tensor v = ls_split_last(g, project(g, x, "v_proj", layer, Hkv * D, E), Hkv, D);
    const ls_tensor sinks = ls_parameter_named(g, 1, (int64_t[]){Hq}, "layers.%d.sinks", layer);
    const ls_tensor o =
        ls_attention_with_sink(g, ls_rotate(g, q, rope), ls_rotate(g, k, rope), v, sinks, &mask, 1 / sqrt(D), 0);
    return project(g, ls_merge_last(g, o), "o_proj", layer, E, Hq * D);
}

static ls_tensor feed_forward(ls_graph *g, ls_tensor x, int layer) {
    const ls_tensor gate = project(g, x, "gate_proj", layer, F, E), up = project(g, x, "up_proj", layer, F, E);
    return project(g, ls_swiglu(g, gate, up), "down_proj", layer, E, F);
}

ls_tensor gptoss_loss(ls_graph *g) {
    const ls_rope rope = {.theta = 150000};
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S);
    const ls_tensor labels = ls_input_like(g, "labels", tokens);
    const ls_tensor table = ls_rope_table(g, ls_input_like(g, "positions", tokens), D, &rope);
    ls_tensor x = ls_embedding(g, tokens, ls_parameter(g, "embed_tokens", 2, (int64_t[]){V, E}));
    for (int layer = 0; layer < L; layer++) {
        x = ls_add(g, x, attend(g, norm(g, x, "input_layernorm", layer), table, layer));
        x = ls_add(g, x, feed_forward(g, norm(g, x, "post_attention_layernorm", layer), layer));
    }
    const ls_tensor head = ls_parameter(g, "lm_head", 2, (int64_t[]){V, E});
    return ls_sum(g, ls_cross_entropy(g, ls_linear_wide(g, norm(g, x, "norm", L), head), labels));
}
