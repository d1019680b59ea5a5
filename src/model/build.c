/* What is around every architecture: inputs, the loss and its gradient. */
#include "model/model_impl.h"

static const ls_shape one = {1, {{1, LS_FACTOR_NONE}}};

static ls_status build(const ls_architecture *architecture, const ls_model_config *config, ls_graph *g,
                       int64_t B, int64_t S, ls_language_model *out) {
    ls_language_model lm = {0};
    lm.tokens = ls_tokens(g, "tokens", B, S);
    lm.labels = ls_input_like(g, "labels", lm.tokens);
    lm.positions = ls_input_like(g, "positions", lm.tokens);
    lm.logits = architecture->build(config, g, lm.tokens, lm.positions);
    lm.token_loss = ls_named(g, ls_cross_entropy(g, lm.logits, lm.labels), "token_loss");
    lm.loss = ls_named(g, ls_sum(g, lm.token_loss), "loss");
    /* The sum over micro-batches is beside the gradient's way, so that each micro-batch is differentiated alone. */
    const ls_tensor total = ls_graph_leaf(g, LS_ROLE_ACCUMULATOR, LS_BIND_LOSS, g->accumulator, &one);
    (void)ls_named(g, ls_accumulate(g, lm.loss, total), "loss total");
    LS_TRY(ls_graph_status(g));
    lm.forward_nodes = g->n_nodes;
    *out = lm;
    return ls_ok();
}

ls_status ls_model_differentiate(ls_graph *g, ls_language_model *lm) {
    lm->seed = ls_graph_leaf(g, LS_ROLE_INPUT, "seed", g->accumulator, &one);
    ls_derivative derivative = {.n_roots = 1, .root = {lm->loss}, .seed = {lm->seed}};
    return ls_differentiate(g, &derivative);
}

ls_status ls_model_build(const ls_model *model, ls_graph *g, int64_t B, int64_t S, bool gradients,
                         ls_language_model *out) {
    LS_TRY(build(model->architecture, &model->config, g, B, S, out));
    return gradients ? ls_model_differentiate(g, out) : ls_ok();
}

ls_status ls_model_build_growing(const ls_model *model, ls_graph *g, int64_t known, int64_t S,
                                 ls_language_model *out) {
    ls_model_config config = model->config;
    config.rope.length = (double)known;
    return build(model->architecture, &config, g, 1, S, out);
}
