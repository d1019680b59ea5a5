/*
 * Attention nodes on this rank. Only this file knows the op's params and the order of its inputs; it makes from them
 * all that strategies need to know of a node, then passes the node to the chosen strategy.
 */
#include "compile/attention/attention.h"

/* --- the description of a node ------------------------------------------------------------------------------------ */

static ls_attention_tensors forward_tensors(const ls_node *node, int n) {
    return (ls_attention_tensors){.node = n,
                                  .sink = node->n_in > LS_ATTENTION_SINK ? LS_ATTENTION_SINK : -1,
                                  .q = node->in[LS_ATTENTION_Q],
                                  .k = node->in[LS_ATTENTION_K],
                                  .v = node->in[LS_ATTENTION_V],
                                  .o = node->out[LS_ATTENTION_O],
                                  .lse = node->out[LS_ATTENTION_LSE]};
}

static ls_attention_tensors gradient_tensors(const ls_node *node, int n) {
    const bool sink = node->n_in > LS_ATTENTION_GRAD_SINK;
    return (ls_attention_tensors){.node = n,
                                  .sink = sink ? LS_ATTENTION_GRAD_SINK : -1,
                                  .q = node->in[LS_ATTENTION_GRAD_Q],
                                  .k = node->in[LS_ATTENTION_GRAD_K],
                                  .v = node->in[LS_ATTENTION_GRAD_V],
                                  .o = node->in[LS_ATTENTION_GRAD_O],
                                  .lse = node->in[LS_ATTENTION_GRAD_LSE],
                                  .grad_o = node->in[LS_ATTENTION_GRAD_DO],
                                  .dq = node->out[LS_ATTENTION_DQ],
                                  .dk = node->out[LS_ATTENTION_DK],
                                  .dv = node->out[LS_ATTENTION_DV],
                                  .dsink = sink ? node->out[LS_ATTENTION_DSINK] : LS_NO_TENSOR};
}

static ls_site *make_site(ls_builder *b, const ls_strategy *strategy, const ls_node *node, int n) {
    ls_site *site = LS_NEW(b->image->arena, ls_site);
    site->strategy = strategy;
    site->forward = forward_tensors(node, n);
    site->params = *(const ls_attention_params *)node->params;
    const ls_head_question heads = {b->job->graph, b->sharding, &b->target->mesh, site->forward.q, site->forward.k};
    ls_deal_heads(&heads, b->target->rank, b->image->arena, site);
    if (b->target->canonical) site->kv_parts = site->q_heads;
    int64_t q[LS_MAX_DIMS], v[LS_MAX_DIMS];
    ls_local_size(b, site->forward.q, q);
    ls_local_size(b, site->forward.v, v);
    site->B = q[0];
    site->D[LS_KEYS] = q[3];
    site->D[LS_VALUES] = v[3];
    const ls_mask_binding mask = ls_mask_of(b, n);
    site->mask = ls_find_mask(b, &mask);
    site->scores.buffer = -1;
    for (int i = 0; i < LS_KV; i++) site->carried[i].buffer = -1;
    const ls_node_slot *slot = b->sharding->slots.node;
    if (slot != NULL && slot[n].before >= 0) site->before = b->sites->of_node[slot[n].before];
    return site;
}

/* --- lowering ----------------------------------------------------------------------------------------------------- */

static void forward(ls_builder *b, ls_site *site) {
    b->sites->two_rings = site->strategy->two_rings;
    ls_usp_forward(b, site);
}

static void lower_forward(ls_builder *b, const ls_program_node *at) {
    const ls_node *node = ls_graph_node(b, at);
    const ls_strategy *strategy;
    const ls_status found = ls_strategy_under(b->target, ls_node_mask(node), &strategy);
    if (found.code != LS_OK) {
        ls_build_fail(b, found);
        return;
    }
    ls_site *site = b->sites->of_node[at->of] = make_site(b, strategy, node, at->of);
    const ls_attention_problem problem = {.B = site->B,
                                          .S = b->image->layout.S,
                                          .Hq = site->fewest,
                                          .Hkv = site->Hkv,
                                          .D = site->D[LS_KEYS],
                                          .E = site->D[LS_VALUES],
                                          .mesh = b->target->mesh};
    ls_status fits = strategy->applicable(strategy, &problem);
    if (fits.code == LS_OK && b->image->slices > 1 && strategy->unsliced != NULL)
        fits =
            ls_error(LS_USAGE, "--slices %d: strategy %s %s; expected local, ring, ulysses, usp, gather or double-ring",
                     b->image->slices, strategy->name, strategy->unsliced);
    if (fits.code == LS_OK && b->target->canonical && !strategy->ordered)
        fits = ls_error(LS_USAGE,
                        "--sums canonical: strategy %s adds up in an order that depends on the number of ranks; "
                        "expected local, ulysses or gather",
                        strategy->name);
    if (fits.code != LS_OK)
        ls_build_fail(b, fits);
    else
        forward(b, site);
}

static void lower_gradient(ls_builder *b, const ls_program_node *at) {
    const ls_node *node = ls_graph_node(b, at);
    const ls_attention_tensors tensors = gradient_tensors(node, at->of);
    ls_site *site = b->sites->of_node[node->forward];
    b->sites->two_rings = site->strategy->two_rings;
    ls_usp_backward(b, site, &tensors);
}

/* --- before any node is lowered ----------------------------------------------------------------------------------- */

/* If queries travel, the spans of all blocks that come here are needed. */
static void need_tables(ls_builder *b, int n) {
    const ls_strategy *strategy;
    b->sites->reads_positions = true;
    if (ls_strategy_under(b->target, ls_node_mask(&b->job->graph->nodes[n]), &strategy).code != LS_OK)
        return; /* the lowering reports the error */
    ls_place_masks(b, n, strategy->query_schedule != NULL ? ls_blocks(b) : 1);
}

/*
 * The ranks of a block exchange all four tensors between tokens and heads; without such an exchange, ring neighbours
 * read keys and values themselves.
 */
static void share_tensors(ls_builder *b, const ls_attention_tensors *t) {
    const ls_tensor tensors[] = {t->k, t->v, t->q, t->grad_o};
    const bool exchanged = ls_block_members(b) > 1;
    if (!(exchanged ? ls_block_reads : ls_ring_reads)(b->image)) return;
    for (int i = 0; i < (exchanged ? 4 : 2); i++) ls_lower_shared(b, tensors[i]);
}

static void share_forward(ls_builder *b, int n) {
    const ls_attention_tensors t = forward_tensors(&b->job->graph->nodes[n], n);
    share_tensors(b, &t);
}

static void share_gradient(ls_builder *b, int n) {
    const ls_attention_tensors t = gradient_tensors(&b->job->graph->nodes[n], n);
    share_tensors(b, &t);
}

/* --- ranks of a block --------------------------------------------------------------------------------------------- */

static ls_axes tells_apart(const ls_graph *graph, const ls_node *node, const ls_mesh *mesh,
                           const ls_sharding *sharding) {
    const ls_head_question heads = {graph, sharding, mesh, node->in[LS_ATTENTION_Q], node->in[LS_ATTENTION_K]};
    return ls_heads_tell_apart(&heads);
}

/* The heads of the gradient are those of the forward node. */
const ls_lowering ls_lowering_attention = {.has_heads = true,
                                           .lower = lower_forward,
                                           .tables = need_tables,
                                           .share = share_forward,
                                           .tells_apart = tells_apart,
                                           .ordered = true};
const ls_lowering ls_lowering_attention_grad = {.lower = lower_gradient, .share = share_gradient, .ordered = true};
const ls_lowering ls_lowering_attention_sink_grad = {.lower = lower_gradient, .share = share_gradient, .ordered = true};
