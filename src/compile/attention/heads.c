/*
 * Which heads of an attention node each rank has. Query heads are divided evenly over the ranks along feature axes,
 * then over the members of a block; KV heads go to every rank whose queries use them.
 */
#include "compile/attention/attention.h"

/*
 * The heads of a rank along feature axes: query heads q .. q + Hq - 1, and the KV heads kv .. kv + Hkv - 1 that these
 * use.
 */
typedef struct share {
    int64_t q, Hq, kv, Hkv;
} share;

/*
 * The number of query heads that use the first KV head of a share and come before the share's own. For a share with a
 * single KV head the result is 0: it makes no difference which of this head's queries the share has, and so all ranks
 * that share the head have the same program.
 */
static int64_t skipped(const share *s, int64_t group) { return s->Hkv == 1 ? 0 : s->q - s->kv * group; }

static int64_t heads_of(const ls_head_question *of, ls_tensor t) {
    return ls_graph_tensor(of->graph, t)->shape.dim[2].size;
}

static ls_axes features_of(const ls_head_question *of, ls_tensor t) {
    return of->sharding->tensor[t.id].cut[2] & ls_mesh_axes(of->mesh, LS_AXIS_FEATURE);
}

static share share_of(const ls_head_question *of, int64_t group, int parts, int part) {
    if (parts == 1) return (share){0, heads_of(of, of->q), 0, heads_of(of, of->k)};
    const ls_dim_units *units = &of->sharding->units[of->q.id * LS_MAX_DIMS + 2];
    int64_t follow;
    share s = {.q = ls_units_place(units, parts, part, 0, &follow), .Hq = ls_units_count(units, parts, part)};
    s.kv = s.q / group;
    s.Hkv = (s.q + s.Hq - 1) / group + 1 - s.kv;
    return s;
}

/* The heads of member u of a block, counted from the beginning of the block's share. */
static share deal(const share *s, int64_t group, int U, int u) {
    share d = {.q = ls_part_start(s->Hq, U, u)};
    d.Hq = ls_part_start(s->Hq, U, u + 1) - d.q;
    d.kv = (skipped(s, group) + d.q) / group;
    d.Hkv = (skipped(s, group) + d.q + d.Hq - 1) / group + 1 - d.kv;
    return d;
}

static ls_parts make_parts(ls_arena *arena, int n) {
    return (ls_parts){.start = LS_NEW_ARRAY(arena, int64_t, n), .count = LS_NEW_ARRAY(arena, int64_t, n)};
}

static void give(ls_parts *parts, int place, int64_t start, int64_t count) {
    parts->start[place] = start;
    parts->count[place] = count;
    parts->most = ls_max(parts->most, count);
}

static void close_parts(ls_parts *parts, int64_t total, const ls_team *team) {
    parts->total = parts->most_total = total;
    ls_parts_find_sharers(parts, team);
}

/* The KV heads of each share. */
static ls_parts parts_of_shares(const ls_head_question *of, int64_t group, const ls_team *team, ls_arena *arena) {
    const int n = ls_team_size(team);
    ls_parts parts = make_parts(arena, n);
    for (int p = 0; p < n; p++) {
        const share s = share_of(of, group, n, p);
        give(&parts, p, s.kv, s.Hkv);
    }
    close_parts(&parts, heads_of(of, of->k), team);
    return parts;
}

/* Divides a share over the members of a block, and places the KV heads of all members side by side. */
static void deal_share(const share *s, int64_t group, const ls_team *block, ls_arena *arena, ls_site *out) {
    const int U = ls_team_size(block);
    out->q_heads = make_parts(arena, U);
    out->kv_heads = make_parts(arena, U);
    out->kv_parts = make_parts(arena, U);
    int64_t side_by_side = 0;
    for (int u = 0; u < U; u++) {
        const share d = deal(s, group, U, u);
        give(&out->q_heads, u, d.q, d.Hq);
        give(&out->kv_heads, u, d.kv, d.Hkv);
        give(&out->kv_parts, u, side_by_side, d.Hkv);
        side_by_side += d.Hkv;
    }
    close_parts(&out->q_heads, s->Hq, block);
    close_parts(&out->kv_heads, s->Hkv, block);
    close_parts(&out->kv_parts, side_by_side, block);
}

/*
 * Makes those values equal that all ranks must agree on, where other ranks along feature axes have more heads than this
 * one, or parts are uneven.
 */
static void agree(ls_parts *mine, const ls_parts *other) {
    mine->most = ls_max(mine->most, other->most);
    mine->most_total = ls_max(mine->most_total, other->most_total);
    if (mine->sharers != other->sharers) mine->sharers = 0;
}

void ls_deal_heads(const ls_head_question *of, int rank, ls_arena *arena, ls_site *site) {
    const int64_t group = heads_of(of, of->q) / heads_of(of, of->k);
    const ls_team block = ls_mesh_team(of->mesh, ls_mesh_head_axes(of->mesh));
    site->features = features_of(of, of->q);
    site->kv_whole = site->features != 0 && features_of(of, of->k) == 0;
    const ls_team along = ls_mesh_team(of->mesh, site->features);
    const int parts = ls_team_size(&along);
    const share mine = share_of(of, group, parts, ls_team_place(&along, rank));
    site->shares = parts_of_shares(of, group, &along, arena);
    site->Hq = site->fewest = mine.Hq;
    site->Hkv = mine.Hkv;
    site->skipped = skipped(&mine, group);
    deal_share(&mine, group, &block, arena, site);
    for (int p = 0; p < parts; p++) {
        const share s = share_of(of, group, parts, p);
        ls_site other;
        deal_share(&s, group, &block, arena, &other);
        agree(&site->q_heads, &other.q_heads);
        agree(&site->kv_heads, &other.kv_heads);
        agree(&site->kv_parts, &other.kv_parts);
        site->fewest = ls_min(site->fewest, s.Hq);
    }
    site->params.group = (int)group;
    const share dealt = deal(&mine, group, ls_team_size(&block), ls_team_place(&block, rank));
    site->params.first_q =
        (int)skipped(&(share){.q = site->skipped + dealt.q, .kv = dealt.kv, .Hkv = dealt.Hkv}, group);
}

ls_axes ls_heads_tell_apart(const ls_head_question *of) {
    ls_arena *arena = ls_arena_create();
    ls_site site = {0};
    ls_deal_heads(of, 0, arena, &site);
    ls_arena_destroy(arena);
    const bool members = site.q_heads.sharers == 0 || site.kv_heads.sharers == 0;
    return (members ? ls_mesh_head_axes(of->mesh) : 0) | (site.shares.sharers == 0 ? site.features : 0);
}

ls_operand ls_site_kv(ls_builder *b, const ls_site *site, ls_operand all) {
    return site->kv_whole ? ls_part_at(b, ls_build_team_of(b, site->features), all, 2, &site->shares, 0) : all;
}
