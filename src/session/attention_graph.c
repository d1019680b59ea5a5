#include "session/session.h"

#include <math.h>
#include <string.h>

const char *const ls_attention_input[LS_ATTENTION_INPUTS] = {"q", "k", "v", "grad_o", "sink"};
const char *const ls_attention_result[LS_ATTENTION_RESULTS] = {"o", "lse", "dq", "dk", "dv", "dsink"};

/* The mask with ends of its own, which live as long as the graph. */
static ls_mask own_mask(ls_graph *g, const ls_mask *given) {
    ls_mask mask = {.n = 0};
    if (given == NULL) return mask;
    mask = *given;
    for (int i = 0; i < mask.n; i++) {
        ls_mask_term *t = &mask.term[i];
        if (t->kind == LS_MASK_DOCUMENTS)
            t->ends = ls_arena_copy(g->arena, t->ends, sizeof *t->ends * (size_t)t->n_ends);
    }
    return mask;
}

static ls_tensor add_input(ls_graph *g, const ls_attention_options *o, int i) {
    const int64_t heads = i == LS_K || i == LS_V ? o->kv_heads : o->heads;
    const ls_shape tokens = {4,
                             {{o->batch, LS_FACTOR_BATCH},
                              {o->seq, LS_FACTOR_SEQUENCE},
                              {heads, LS_FACTOR_NONE},
                              {o->head_size, LS_FACTOR_NONE}}};
    const ls_shape sink = {1, {{o->heads, LS_FACTOR_NONE}}};
    return ls_graph_leaf(g, LS_ROLE_INPUT, ls_attention_input[i], o->dtype, i == LS_SINK ? &sink : &tokens);
}

static ls_status differentiate(ls_attention_graph *a, const ls_tensor in[], bool sink) {
    ls_derivative d = {.n_roots = 1,
                       .root = {a->result[LS_O]},
                       .seed = {in[LS_GRAD_O]},
                       .n_wanted = sink ? 4 : 3,
                       .wanted = {in[LS_Q], in[LS_K], in[LS_V], in[LS_SINK]}};
    LS_TRY(ls_differentiate(a->graph, &d));
    memcpy(&a->result[LS_DQ], d.gradient, sizeof d.gradient[0] * (size_t)d.n_wanted);
    a->n_results = LS_DQ + d.n_wanted;
    /* Every rank has a part of it; a cast is of the whole, so the parts are added up. */
    if (sink) a->result[LS_DSINK] = ls_cast(a->graph, a->result[LS_DSINK], a->graph->dtype);
    return ls_ok();
}

ls_status ls_attention_graph_build(const ls_attention_options *o, ls_attention_graph *out) {
    ls_graph *g = ls_graph_create(o->dtype);
    *out = (ls_attention_graph){.graph = g, .n_results = LS_DQ};
    ls_tensor in[LS_ATTENTION_INPUTS] = {LS_NO_TENSOR};
    for (int i = 0; i < LS_ATTENTION_INPUTS; i++) {
        const bool given = i == LS_SINK ? o->sink : i != LS_GRAD_O || o->gradients;
        if (given) in[i] = add_input(g, o, i);
    }
    const ls_mask mask = own_mask(g, o->mask);
    const double scale = o->scale != 0 ? o->scale : 1 / sqrt((double)o->head_size);
    out->result[LS_O] =
        ls_attention_with_sink(g, in[LS_Q], in[LS_K], in[LS_V], in[LS_SINK], &mask, scale, o->softcap);
    out->result[LS_LSE] = ls_attention_lse(g, out->result[LS_O]);
    LS_TRY(ls_graph_status(g));
    out->forward_nodes = g->n_nodes;
    if (o->gradients) LS_TRY(differentiate(out, in, o->sink));
    for (int i = 0; i < out->n_results; i++) ls_named(g, out->result[i], "%s", ls_attention_result[i]);
    return ls_graph_status(g);
}

ls_job ls_attention_graph_job(const ls_attention_graph *g) {
    return (ls_job){
        .graph = g->graph, .forward_nodes = g->forward_nodes, .fetch = g->result, .n_fetch = g->n_results};
}
