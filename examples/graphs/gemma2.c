/*
 * Gemma 2 (Gemma Team, arXiv 2408.00118): every other layer attends to a window only, each block is normalised before
 * and after, the gate is a gelu, and logits have soft caps in attention and at the end. Published files hold the
 * weights of norms minus one; the graph has the weights themselves. Gemma 2 2B has E 2304, Hq 8, Hkv 4, D 256, F 9216,
 * V 256000, L 26, windows of 4096, caps 50 and 30.
 */
#include "graphs.h"

#include <math.h>

enum { B = 2, S = 23, WINDOW = 6, E = 32, Hq = 8, Hkv = 4, D = 4, F = 40, V = 17, L = 3 };
static const double attention_cap = 1.5, final_cap = 2; /* low, so that they have an effect in a small network */

static ls_tensor norm(ls_graph *g, ls_tensor x, const char *name, int layer) {
    return ls_rmsnorm(g, x, ls_parameter_named(g, 1, (int64_t[]){E}, "layers.%d.%s", layer, name), 1e-6);
}

static ls_tensor project(ls_graph *g, ls_tensor x, const char *name, int layer, int64_t to, int64_t from) {
    return ls_linear(g, x, ls_parameter_named(g, 2, (int64_t[]){to, from}, "layers.%d.%s", layer, name), LS_NO_TENSOR);
}

static ls_tensor attend(ls_graph *g, ls_tensor x, ls_tensor rope, int layer) {
    const ls_mask window = {.n = 1, .term = {{.kind = LS_MASK_WINDOW, .window = WINDOW}}};
    const ls_mask mask = layer % 2 == 0 ? window : ls_mask_causal();
    const ls_tensor q = ls_split_last(g, project(g, x, "q_proj", layer, Hq * D, E), Hq, D);
    const ls_tensor k = ls_split_last(g, project(g, x, "k_proj", layer, Hkv * D, E), Hkv, D);
    const ls_tensor v = ls_split_last(g, project(g, x, "v_proj", layer, Hkv * D, E), Hkv, D);
    const ls_tensor o =
        ls_attention_capped(g, ls_rotate(g, q, rope), ls_rotate(g, k, rope), v, &mask, 1 / sqrt(D), attention_cap);
    return project(g, ls_merge_last(g, o), "o_proj", layer, E, Hq * D);
}

static ls_tensor feed_forward(ls_graph *g, ls_tensor x, int layer) {
    const ls_tensor gate = ls_gelu_tanh(g, project(g, x, "gate_proj", layer, F, E));
    return project(g, ls_mul(g, gate, project(g, x, "up_proj", layer, F, E)), "down_proj", layer, E, F);
}

ls_tensor gemma2_loss(ls_graph *g) {
    const ls_rope rope = {.theta = 10000};
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S);
    const ls_tensor labels = ls_input_like(g, "labels", tokens);
    const ls_tensor table = ls_rope_table(g, ls_input_like(g, "positions", tokens), D, &rope);
    const ls_tensor embedding = ls_parameter(g, "embed_tokens", 2, (int64_t[]){V, E});
    ls_tensor x = ls_scale(g, ls_embedding(g, tokens, embedding), sqrt(E));
    for (int layer = 0; layer < L; layer++) {
        const ls_tensor seen = attend(g, norm(g, x, "input_layernorm", layer), table, layer);
        x = ls_add(g, x, norm(g, seen, "post_attention_layernorm", layer));
        const ls_tensor made = feed_forward(g, norm(g, x, "pre_feedforward_layernorm", layer), layer);
        x = ls_add(g, x, norm(g, made, "post_feedforward_layernorm", layer));
    }
    const ls_tensor logits = ls_linear_wide(g, norm(g, x, "norm", L), embedding);
    return ls_sum(g, ls_cross_entropy(g, ls_softcap(g, logits, final_cap), labels));
}
