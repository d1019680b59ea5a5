/* The visible table of strategies, and attention nodes handed to the one that was chosen. */
#include "compile/attention/attention.h"

#include <stdio.h>
#include <string.h>

static const ls_strategy *const table[] = {&ls_strategy_local, &ls_strategy_ring,   &ls_strategy_ulysses,
                                           &ls_strategy_usp,   &ls_strategy_gather, &ls_strategy_tokenring,
                                           &ls_strategy_decode};

const char *ls_strategy_name(int i) { return i >= 0 && i < (int)LS_COUNT(table) ? table[i]->name : NULL; }
const char *ls_strategy_about(int i) { return i >= 0 && i < (int)LS_COUNT(table) ? table[i]->about : NULL; }

/* The row of that name, or NULL. */
static const ls_strategy *row_of(const char *name) {
    for (size_t i = 0; i < LS_COUNT(table); i++) {
        if (strcmp(table[i]->name, name) == 0) return table[i];
    }
    return NULL;
}

ls_status ls_strategy_find(const char *name, const ls_strategy **out) {
    char known[200] = "";
    const ls_strategy *found = row_of(name);
    if (found != NULL) {
        *out = found;
        return ls_ok();
    }
    for (size_t i = 0; i < LS_COUNT(table); i++) {
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", table[i]->name);
    }
    return ls_error(LS_USAGE, "strategy \"%s\" is not known, expected one of %s", name, known);
}

ls_status ls_strategy_applicable(const char *name, const ls_attention_problem *problem) {
    const ls_strategy *strategy;
    LS_TRY(ls_strategy_find(name, &strategy));
    return strategy->applicable(strategy, problem);
}

static bool is_same_way(const ls_strategy *a, const ls_strategy *b) {
    return a->across_forward == b->across_forward && a->query_schedule == b->query_schedule;
}

int ls_strategies_for(const ls_mesh *mesh, const char *out[LS_STRATEGIES_MOST]) {
    const ls_attention_problem any_heads = {.B = 1, .S = 1, .Hq = INT64_MAX, .Hkv = 1, .D = 1, .mesh = *mesh};
    const ls_strategy *found[LS_STRATEGIES_MOST];
    int n = 0;
    for (size_t i = 0; i < LS_COUNT(table) && n < LS_STRATEGIES_MOST; i++) {
        /* On a ring of one nothing happens across blocks, whatever the strategy. */
        bool known = mesh->size[LS_AXIS_RING] == 1 && n > 0;
        for (int k = 0; k < n; k++) known |= is_same_way(found[k], table[i]);
        if (known || table[i]->applicable(table[i], &any_heads).code != LS_OK) continue;
        out[n] = table[i]->name;
        found[n++] = table[i];
    }
    return n;
}

ls_status ls_strategy_reads_in_place(const char *name, bool *out) {
    const ls_strategy *strategy;
    LS_TRY(ls_strategy_find(name, &strategy));
    *out = strategy->reads_in_place;
    return ls_ok();
}

bool ls_strategy_moves_queries(const char *name) {
    const ls_strategy *strategy = row_of(name);
    return strategy != NULL && strategy->query_schedule != NULL;
}

ls_status ls_strategy_heads(const ls_strategy *strategy, const ls_attention_problem *p) {
    const int U = p->mesh.size[LS_AXIS_ULYSSES];
    if (U <= p->Hq) return ls_ok();
    return ls_error(
        LS_USAGE,
        "strategy %s: ulysses=%d ranks but only %lld query heads; expected at most one rank per head",
        strategy->name, U, (long long)p->Hq);
}

static ls_heads make_heads(ls_builder *b, int64_t total) {
    const int U = b->target->mesh.size[LS_AXIS_ULYSSES];
    return (ls_heads){.total = total,
                      .start = LS_NEW_ARRAY(b->image->arena, int64_t, U),
                      .count = LS_NEW_ARRAY(b->image->arena, int64_t, U)};
}

/* Query heads dealt evenly, KV heads to everyone who uses them, and the owners' parts laid side by side. */
static void deal_heads(ls_builder *b, ls_site *site) {
    const int U = b->target->mesh.size[LS_AXIS_ULYSSES];
    const int64_t group = site->Hq / site->Hkv;
    site->q_heads = make_heads(b, site->Hq);
    site->kv_heads = make_heads(b, site->Hkv);
    site->kv_parts = make_heads(b, 0);
    for (int u = 0; u < U; u++) {
        const int64_t q0 = ls_part_start(site->Hq, U, u), q1 = ls_part_start(site->Hq, U, u + 1);
        const int64_t kv0 = q0 / group, kv1 = (q1 - 1) / group + 1;
        site->q_heads.start[u] = q0;
        site->q_heads.count[u] = q1 - q0;
        site->q_heads.most = ls_max(site->q_heads.most, q1 - q0);
        site->kv_heads.start[u] = kv0;
        site->kv_heads.count[u] = site->kv_parts.count[u] = kv1 - kv0;
        site->kv_parts.start[u] = site->kv_parts.total;
        site->kv_parts.total += kv1 - kv0;
        site->kv_heads.most = site->kv_parts.most = ls_max(site->kv_heads.most, kv1 - kv0);
    }
}

static ls_site *make_site(ls_builder *b, const ls_strategy *strategy, const ls_node *node) {
    ls_site *site = LS_NEW(b->image->arena, ls_site);
    site->strategy = strategy;
    site->node = node;
    site->params = node->params;
    int64_t q[LS_MAX_DIMS], k[LS_MAX_DIMS];
    ls_local_size(b, node->in[0], q);
    ls_local_size(b, node->in[1], k);
    site->B = q[0];
    site->Hq = q[2];
    site->Hkv = k[2];
    site->D = q[3];
    while (!ls_mask_equal(&b->image->masks[site->mask].mask, &site->params->mask)) site->mask++;
    deal_heads(b, site);
    return site;
}

ls_attention_params ls_site_params(const ls_builder *b, const ls_site *site) {
    const int u = ls_ulysses_index(b);
    return (ls_attention_params){.scale = site->params->scale,
                                 .softcap = site->params->softcap,
                                 .group = (int)(site->Hq / site->Hkv),
                                 .first_q = (int)site->q_heads.start[u],
                                 .first_kv = (int)site->kv_heads.start[u]};
}

void ls_lower_attention(ls_builder *b, int n) {
    const ls_graph *g = b->job->graph;
    const ls_node *node = &g->nodes[n];
    if (node->forward >= 0) {
        ls_usp_backward(b, b->sites[node->forward], node);
        return;
    }
    const ls_strategy *strategy;
    const ls_status found = ls_strategy_find(b->target->strategy, &strategy);
    if (found.code != LS_OK) {
        ls_build_fail(b, found);
        return;
    }
    b->sites[n] = make_site(b, strategy, node);
    const ls_site *site = b->sites[n];
    const ls_attention_problem problem = {.B = site->B,
                                          .S = b->image->layout.S,
                                          .Hq = site->Hq,
                                          .Hkv = site->Hkv,
                                          .D = site->D,
                                          .mesh = b->target->mesh};
    const ls_status fits = strategy->applicable(strategy, &problem);
    if (fits.code != LS_OK)
        ls_build_fail(b, fits);
    else
        ls_usp_forward(b, b->sites[n]);
}
