/*
 * Attention of one token over a cache that the ranks share: each rank holds the keys and values that the prefill made
 * there. All ranks know the token and do the rest of its work alike, so its queries need not be sent. Each rank attends
 * to its own part of the cache; all ranks gather the partial results (o, lse) and merge them in the order of the ranks,
 * so that all have the same bits. (It is the strategy decode for queries that every rank already has, with one round of
 * messages instead of two.)
 *
 * The positions that are seen are data: the spans. A rank that holds none of them gets o = 0 and lse = -inf, which do
 * not change the result.
 */
#include "compile/attention/attention.h"

/* A partial result as one message: G[Hq*E + Hq]; E: elements of a head of values. */
typedef struct partial {
    ls_operand all, o, lse;
} partial;

static partial partial_in(ls_operand all, int64_t Hq, int64_t E) {
    const ls_dtype G = all.view.dtype;
    const size_t behind = (size_t)(Hq * E) * ls_dtype_bytes(G);
    return (partial){.all = all,
                     .o = ls_operand_dense(all.buffer, all.offset, G, 4, (int64_t[]){1, 1, Hq, E}),
                     .lse = ls_operand_dense(all.buffer, all.offset + behind, G, 3, (int64_t[]){1, Hq, 1})};
}

static partial make_partial(ls_builder *b, const char *name, int64_t Hq, int64_t E) {
    const int64_t n = Hq * (E + 1);
    return partial_in(ls_build_private(b, LS_BUFFER_ACTIVATION, name, b->image->accumulator, 1, &n), Hq, E);
}

static void write_cache(ls_builder *b, ls_operand x, ls_operand place, ls_operand kpos, ls_operand cache) {
    ls_build_kernel(b, &(ls_kernel_build){.op = "cache_write",
                                          .kernel = LS_KERNEL_CACHE_WRITE,
                                          .dtype = b->image->dtype,
                                          .n_in = 3,
                                          .in = {x, place, kpos},
                                          .n_out = 1,
                                          .out = {cache}});
}

static void merge(ls_builder *b, const partial *from, const partial *to) {
    ls_build_kernel(b, &(ls_kernel_build){.op = "attention_merge",
                                          .kernel = LS_KERNEL_ATTENTION_MERGE,
                                          .dtype = b->image->dtype,
                                          .flops = (double)ls_view_elements(&from->o.view),
                                          .n_in = 2,
                                          .in = {from->o, from->lse},
                                          .n_out = 2,
                                          .out = {to->o, to->lse}});
}

/* Gathers the partial results of all ranks, and merges them in the order of the team. */
static partial exchange(ls_builder *b, const partial *mine, int64_t Hq, int64_t E) {
    const int team = ls_build_team_of(b, ls_mesh_axes(&b->target->mesh, LS_AXIS_SEQUENCE));
    const int size = ls_build_team_size(b, team);
    if (size == 1) return *mine;
    const int64_t n = Hq * (E + 1);
    const ls_operand slots =
        ls_build_symmetric(b, LS_BUFFER_SLOT, "cached slots", size * n, b->image->accumulator, 2, (int64_t[]){size, n});
    const ls_stages stages = ls_stages_direct(b, team);
    ls_all_gather g = ls_all_gather_expect(b, "cached", &stages, slots, 0);
    ls_all_gather_begin(
        b, &g, ls_operand_dense(mine->all.buffer, mine->all.offset, mine->all.view.dtype, 2, (int64_t[]){1, n}));
    ls_all_gather_finish(b, &g);
    const partial merged = make_partial(b, "merged", Hq, E);
    for (int place = 0; place < size; place++) {
        const partial part = partial_in(ls_operand_slice(slots, 0, place, 1), Hq, E);
        if (place == 0) {
            ls_build_copy(b, part.o, merged.o);
            ls_build_copy(b, part.lse, merged.lse);
        } else {
            merge(b, &part, &merged);
        }
    }
    return merged;
}

/* The positions of the tokens that this rank holds. */
static ls_operand my_positions(ls_builder *b, int64_t held) {
    const ls_operand all = b->image->positions;
    const int team = ls_build_team_of(b, ls_mesh_axes(&b->target->mesh, LS_AXIS_SEQUENCE));
    const ls_layout *layout = &b->image->layout;
    if (ls_layout_is_even(layout)) return ls_build_share(b, all, 0, held, team, 0);
    return ls_operand_slice(all, 0, ls_layout_start(layout, ls_build_team_place(b, team)), held);
}

static void lower(ls_builder *b, const ls_program_node *at) {
    const ls_node *node = ls_graph_node(b, at);
    ls_operand in[LS_NODE_INPUTS] = {{0}};
    for (int i = 0; i < node->n_in; i++)
        in[i] = ls_op_writes_input(node->op, i) ? ls_lower_kept(b, node, i) : ls_lower_tensor(b, node->in[i]);
    const int64_t Hq = in[LS_CACHED_Q].view.size[2], E = in[LS_CACHED_V].view.size[3];
    const int64_t held = in[LS_CACHED_KEYS].view.size[1];
    const ls_head_question heads = {b->job->graph, b->sharding, &b->target->mesh, node->in[LS_CACHED_Q],
                                    node->in[LS_CACHED_KEYS]};
    ls_site site = {.params = *(const ls_attention_params *)node->params};
    ls_deal_heads(&heads, b->target->rank, b->image->arena, &site);
    const ls_operand kpos = my_positions(b, held);
    write_cache(b, in[LS_CACHED_K], in[LS_CACHED_PLACE], kpos, in[LS_CACHED_KEYS]);
    write_cache(b, in[LS_CACHED_V], in[LS_CACHED_PLACE], kpos, in[LS_CACHED_VALUES]);
    const partial mine = make_partial(b, "part", Hq, E);
    ls_attention_call call = {.params = site.params,
                              .q = in[LS_CACHED_Q],
                              .k = ls_site_kv(b, &site, in[LS_CACHED_KEYS]),
                              .v = ls_site_kv(b, &site, in[LS_CACHED_VALUES]),
                              .spans = in[LS_CACHED_SPANS],
                              .positions = kpos,
                              .area = {.pairs = (double)held, .queries = 1}};
    /* Of all heads of the share, however the prefill distributes them over ranks. */
    call.params.first_q = (int)site.skipped;
    ls_build_attention(b, &call, mine.o, mine.lse);
    const partial all = exchange(b, &mine, Hq, E);
    if (node->n_in > LS_CACHED_SINK)
        ls_build_kernel(b, &(ls_kernel_build){.op = "attention_sink",
                                              .kernel = LS_KERNEL_ATTENTION_SINK,
                                              .dtype = b->image->dtype,
                                              .n_in = 1,
                                              .in = {in[LS_CACHED_SINK]},
                                              .n_out = 2,
                                              .out = {all.o, all.lse}});
    ls_build_cast(b, all.o, ls_lower_tensor(b, node->out[0]));
}

/* The kernel finds out from the positions which keys are on this rank; the spans are an input of the node. */
static void need_tables(ls_builder *b, int n) {
    (void)n;
    b->sites->reads_positions = true;
}

/* has_heads: ranks that exchange heads in the prefill each hold a part of the cache. */
const ls_lowering ls_lowering_attention_cached = {.has_heads = true, .lower = lower, .tables = need_tables};
