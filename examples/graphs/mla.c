/*
 * Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): the keys and values of all heads are made from one short
 * vector per token, the queries from another. A part of the key, which all heads share, is rotated, as is a part of
 * each query; the parts that are not rotated contain no positions. Heads of values have another size than heads of
 * queries and keys. DeepSeek-V2-Lite has E 2048, H 16, NOPE 128, ROPE 64, VALUE 128, KV 512, and q_proj instead of the
 * short vector of queries. Its feed-forward is a mixture of experts; this graph has one expert.
 */
#include "graphs.h"

#include <math.h>

/*
 * Q, KV: sizes of the short vectors. In a head of queries or keys, NOPE elements are not rotated and ROPE elements are.
 */
enum { B = 2, S = 23, E = 24, H = 8, Q = 12, KV = 10, NOPE = 4, ROPE = 2, VALUE = 3, F = 28, V = 17, L = 2 };

static ls_tensor norm(ls_graph *g, ls_tensor x, const char *name, int layer, int64_t size) {
    return ls_rmsnorm(g, x, ls_parameter_named(g, 1, &size, "layers.%d.%s", layer, name), 1e-6);
}

static ls_tensor project(ls_graph *g, ls_tensor x, const char *name, int layer, int64_t to, int64_t from) {
    return ls_linear(g, x, ls_parameter_named(g, 2, (int64_t[]){to, from}, "layers.%d.%s", layer, name), LS_NO_TENSOR);
}

/* The two parts of each query, of which the second is rotated. */
static void queries(ls_graph *g, ls_tensor x, ls_tensor rope, int layer, ls_tensor part[2]) {
    const ls_tensor latent = norm(g, project(g, x, "q_a_proj", layer, Q, E), "q_a_layernorm", layer, Q);
    ls_split(g, ls_split_last(g, project(g, latent, "q_b_proj", layer, H * (NOPE + ROPE), Q), H, NOPE + ROPE), 2,
             (int64_t[]){NOPE, ROPE}, part);
    part[1] = ls_rotate(g, part[1], rope);
}

static ls_tensor attend(ls_graph *g, ls_tensor x, ls_tensor rope, int layer) {
    const ls_mask mask = ls_mask_causal();
    ls_tensor query[2], of_token[2], of_head[2];
    queries(g, x, rope, layer, query);
    ls_split(g, project(g, x, "kv_a_proj_with_mqa", layer, KV + ROPE, E), 2, (int64_t[]){KV, ROPE}, of_token);
    const ls_tensor latent = norm(g, of_token[0], "kv_a_layernorm", layer, KV);
    ls_split(g, ls_split_last(g, project(g, latent, "kv_b_proj", layer, H * (NOPE + VALUE), KV), H, NOPE + VALUE), 2,
             (int64_t[]){NOPE, VALUE}, of_head);
    const ls_tensor rotated = ls_rotate(g, ls_split_last(g, of_token[1], 1, ROPE), rope);
    const ls_tensor q = ls_join(g, 2, query);
    const ls_tensor k = ls_join(g, 2, (ls_tensor[]){of_head[0], ls_broadcast(g, rotated, 1U << 2, query[1])});
    const ls_tensor o = ls_attention(g, q, k, of_head[1], &mask, 1 / sqrt(NOPE + ROPE));
    return project(g, ls_merge_last(g, o), "o_proj", layer, E, H * VALUE);
}

static ls_tensor feed_forward(ls_graph *g, ls_tensor x, int layer) {
    const ls_tensor gate = project(g, x, "gate_proj", layer, F, E), up = project(g, x, "up_proj", layer, F, E);
    return project(g, ls_swiglu(g, gate, up), "down_proj", layer, E, F);
}

ls_tensor mla_loss(ls_graph *g) {
    const ls_rope rope = {.theta = 10000};
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S);
    const ls_tensor labels = ls_input_like(g, "labels", tokens);
    const ls_tensor table = ls_rope_table(g, ls_input_like(g, "positions", tokens), ROPE, &rope);
    ls_tensor x = ls_embedding(g, tokens, ls_parameter(g, "embed_tokens", 2, (int64_t[]){V, E}));
    for (int layer = 0; layer < L; layer++) {
        x = ls_add(g, x, attend(g, norm(g, x, "input_layernorm", layer, E), table, layer));
        x = ls_add(g, x, feed_forward(g, norm(g, x, "post_attention_layernorm", layer, E), layer));
    }
    x = norm(g, x, "norm", L, E);
    return ls_sum(g,
                  ls_cross_entropy(g, ls_linear_wide(g, x, ls_parameter(g, "lm_head", 2, (int64_t[]){V, E})), labels));
}
