/*
 * Attention nodes on this rank. What strategies must know of a node is found here, once, from the op's params and the
 * order of its inputs, and nowhere else; then the node is handed to the strategy that was chosen.
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

static ls_parts make_heads(ls_builder *b, int64_t total) {
    const int U = ls_block_members(b);
    return (ls_parts){.total = total,
                      .most_total = total,
                      .even = true,
                      .start = LS_NEW_ARRAY(b->image->arena, int64_t, U),
                      .count = LS_NEW_ARRAY(b->image->arena, int64_t, U)};
}

static void give_heads(ls_parts *heads, int u, int64_t start, int64_t count) {
    heads->start[u] = start;
    heads->count[u] = count;
    heads->most = ls_max(heads->most, count);
    heads->even &= start == u * count && count == heads->count[0];
}

/*
 * Query heads that ranks along axes of features have, from q on, and the KV heads that these use, from kv on. Where
 * there are fewer KV heads than such ranks, k and v have all of them on every rank.
 */
typedef struct share {
    int64_t q, Hq, kv, Hkv;
} share;

static ls_axes feature_axes(const ls_builder *b, ls_tensor t) {
    return b->sharding->tensor[t.id].cut[2] & ls_mesh_axes(&b->target->mesh, LS_AXIS_FEATURE);
}

static int64_t all_heads(const ls_builder *b, ls_tensor t) {
    return ls_graph_tensor(b->job->graph, t)->shape.dim[2].size;
}

static share share_of(const ls_builder *b, const ls_site *site, int parts, int part) {
    const ls_tensor q = site->forward.q;
    const int64_t Hq = all_heads(b, q), Hkv = all_heads(b, site->forward.k), group = Hq / Hkv;
    if (parts == 1) return (share){0, Hq, 0, Hkv};
    const ls_dim_units *units = &b->sharding->units[q.id * LS_MAX_DIMS + 2];
    int64_t follow;
    share s = {.q = ls_units_place(units, parts, part, 0, &follow), .Hq = ls_units_count(units, parts, part)};
    s.kv = s.q / group;
    s.Hkv = (s.q + s.Hq - 1) / group + 1 - s.kv;
    return s;
}

/* A rank of a block: query heads of a share, and the KV heads of the share that they use. */
typedef struct dealt {
    int64_t q, n_q, kv, n_kv;
} dealt;

static dealt deal(const share *s, int64_t group, int U, int u) {
    const int64_t skipped = s->q - s->kv * group;
    dealt d = {.q = ls_part_start(s->Hq, U, u)};
    d.n_q = ls_part_start(s->Hq, U, u + 1) - d.q;
    d.kv = (skipped + d.q) / group;
    d.n_kv = (skipped + d.q + d.n_q - 1) / group + 1 - d.kv;
    return d;
}

/* The most heads of a block and of a rank: axes of features may give other ranks more of them than this one. */
static void find_most(const ls_builder *b, ls_site *site) {
    const int parts = ls_mesh_size(&b->target->mesh, feature_axes(b, site->forward.q)), U = ls_block_members(b);
    for (int part = 0; part < parts; part++) {
        const share s = share_of(b, site, parts, part);
        int64_t total = 0;
        for (int u = 0; u < U; u++) {
            const dealt d = deal(&s, site->params.group, U, u);
            site->q_heads.most = ls_max(site->q_heads.most, d.n_q);
            site->kv_heads.most = ls_max(site->kv_heads.most, d.n_kv);
            site->kv_parts.most = ls_max(site->kv_parts.most, d.n_kv);
            total += d.n_kv;
        }
        site->q_heads.most_total = ls_max(site->q_heads.most_total, s.Hq);
        site->kv_heads.most_total = ls_max(site->kv_heads.most_total, s.Hkv);
        site->kv_parts.most_total = ls_max(site->kv_parts.most_total, total);
    }
}

/* Query heads dealt evenly, KV heads to everyone who uses them, and the owners' parts laid side by side. */
static void deal_heads(ls_builder *b, ls_site *site, const share *s) {
    const int U = ls_block_members(b);
    site->q_heads = make_heads(b, site->Hq);
    site->kv_heads = make_heads(b, site->Hkv);
    site->kv_parts = make_heads(b, 0);
    for (int u = 0; u < U; u++) {
        const dealt d = deal(s, site->params.group, U, u);
        give_heads(&site->q_heads, u, d.q, d.n_q);
        give_heads(&site->kv_heads, u, d.kv, d.n_kv);
        give_heads(&site->kv_parts, u, site->kv_parts.total, d.n_kv);
        site->kv_parts.most_total = site->kv_parts.total += d.n_kv;
    }
    find_most(b, site);
    if (b->target->canonical) site->kv_parts = site->q_heads;
}

static ls_site *make_site(ls_builder *b, const ls_strategy *strategy, const ls_node *node, int n) {
    ls_site *site = LS_NEW(b->image->arena, ls_site);
    site->strategy = strategy;
    site->forward = forward_tensors(node, n);
    int64_t q[LS_MAX_DIMS];
    ls_local_size(b, site->forward.q, q);
    const ls_axes features = feature_axes(b, site->forward.q);
    const int parts = ls_mesh_size(&b->target->mesh, features),
              part = ls_mesh_index(&b->target->mesh, features, b->target->rank), u = ls_member_index(b);
    const share mine = share_of(b, site, parts, part);
    site->params = *(const ls_attention_params *)node->params;
    site->params.group = (int)(all_heads(b, site->forward.q) / all_heads(b, site->forward.k));
    site->B = q[0];
    site->Hq = mine.Hq;
    site->Hkv = mine.Hkv;
    site->D = q[3];
    site->skipped = mine.q - mine.kv * site->params.group;
    site->covered = features != 0 && feature_axes(b, site->forward.k) == 0;
    site->first_kv = site->covered ? mine.kv : 0;
    while (!ls_mask_equal(&b->image->masks[site->mask].mask, ls_node_mask(node))) site->mask++;
    deal_heads(b, site, &mine);
    site->params.first_q = (int)(site->skipped + site->q_heads.start[u] -
                                 site->kv_heads.start[u] * site->params.group); /* of this rank's KV heads */
    return site;
}

/* --- lowering ----------------------------------------------------------------------------------------------------- */

/* Query heads of the rank that axes of features leave the fewest: whether a strategy applies is the same everywhere. */
static int64_t fewest_heads(const ls_builder *b, const ls_site *site) {
    const int parts = ls_mesh_size(&b->target->mesh, feature_axes(b, site->forward.q));
    int64_t fewest = site->Hq;
    for (int part = 0; part < parts; part++) fewest = ls_min(fewest, share_of(b, site, parts, part).Hq);
    return fewest;
}

static void lower_forward(ls_builder *b, const ls_program_node *at) {
    const ls_node *node = ls_graph_node(b, at);
    const ls_strategy *strategy;
    const ls_status found = ls_strategy_find(b->target->strategy, &strategy);
    if (found.code != LS_OK) {
        ls_build_fail(b, found);
        return;
    }
    ls_site *site = b->sites->of_node[at->of] = make_site(b, strategy, node, at->of);
    const ls_attention_problem problem = {.B = site->B,
                                          .S = b->image->layout.S,
                                          .Hq = fewest_heads(b, site),
                                          .Hkv = site->Hkv,
                                          .D = site->D,
                                          .mesh = b->target->mesh};
    ls_status fits = strategy->applicable(strategy, &problem);
    if (fits.code == LS_OK && b->target->canonical && !strategy->ordered)
        fits = ls_error(LS_USAGE,
                        "--sums canonical: strategy %s adds up in an order that depends on the number of ranks; "
                        "expected local, ulysses or gather",
                        strategy->name);
    if (fits.code != LS_OK)
        ls_build_fail(b, fits);
    else
        ls_usp_forward(b, site);
}

static void lower_gradient(ls_builder *b, const ls_program_node *at) {
    const ls_node *node = ls_graph_node(b, at);
    const ls_attention_tensors tensors = gradient_tensors(node, at->of);
    ls_usp_backward(b, b->sites->of_node[node->forward], &tensors);
}

/* --- before any node is lowered ----------------------------------------------------------------------------------- */

/* The spans of a mask for the queries of a block of ranks. */
static void place_spans(ls_builder *b, const ls_mask *wanted, int64_t B, int ring) {
    ls_image *image = b->image;
    const int U = ls_block_members(b);
    ls_mask_binding *mask = LS_PUSH(image->arena, image->masks, image->n_masks, image->mask_capacity);
    mask->mask = *wanted;
    for (int i = 0; i < mask->mask.n; i++) {
        ls_mask_term *term = &mask->mask.term[i];
        if (term->kind == LS_MASK_DOCUMENTS)
            term->ends = ls_arena_copy(image->arena, term->ends, sizeof *term->ends * (size_t)term->n_ends);
    }
    mask->query_start = ls_layout_start(&image->layout, ring * U);
    mask->query_count = ls_layout_start(&image->layout, (ring + 1) * U) - mask->query_start;
    mask->spans = ls_build_private(b, LS_BUFFER_TABLE, "spans", LS_I32, 3,
                                   (int64_t[]){B, mask->query_count, 2 * ls_mask_width(wanted)});
}

/*
 * For each mask that differs the spans of this rank's block of queries and, where queries travel, behind it those of
 * the blocks that come here, hop after hop; and the positions of all tokens.
 */
static void need_tables(ls_builder *b, int n) {
    const ls_node *node = &b->job->graph->nodes[n];
    const ls_mask *wanted = ls_node_mask(node);
    const int R = ls_blocks(b);
    const int blocks = ls_strategy_moves_queries(b->target->strategy) ? R : 1;
    b->sites->reads_positions = true;
    for (int m = 0; m < b->image->n_masks; m++)
        if (ls_mask_equal(&b->image->masks[m].mask, wanted)) return;
    int64_t q[LS_MAX_DIMS];
    ls_local_size(b, node->in[LS_ATTENTION_Q], q);
    for (int h = 0; h < blocks; h++) place_spans(b, wanted, q[0], (ls_ring_index(b) + h) % R);
}

/*
 * Blocks exchange all four between tokens and heads; without an exchange, keys and values themselves are what a ring
 * reads.
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

/* Equal shares of query heads, which use equal shares of KV heads, differ only in where they begin. */
static bool tells_apart(const ls_graph *graph, const ls_node *node, const ls_mesh *mesh, const ls_sharding *sharding) {
    const ls_axes features = sharding->tensor[node->in[LS_ATTENTION_Q].id].cut[2];
    const int U = ls_mesh_size(mesh, ls_mesh_head_axes(mesh) | features);
    const ls_shape *q = &ls_graph_tensor(graph, node->in[LS_ATTENTION_Q])->shape;
    const ls_shape *k = &ls_graph_tensor(graph, node->in[LS_ATTENTION_K])->shape;
    return q->dim[2].size % U != 0 || k->dim[2].size % U != 0;
}

/* The gradient's heads are the forward node's. */
const ls_lowering ls_lowering_attention = {.has_heads = true,
                                           .lower = lower_forward,
                                           .tables = need_tables,
                                           .share = share_forward,
                                           .tells_apart = tells_apart,
                                           .ordered = true};
const ls_lowering ls_lowering_attention_grad = {.lower = lower_gradient, .share = share_gradient, .ordered = true};
const ls_lowering ls_lowering_attention_sink_grad = {.lower = lower_gradient, .share = share_gradient, .ordered = true};
