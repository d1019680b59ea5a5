/*
 * All-to-all: a tensor that is cut along one dimension over the members of a team becomes cut along another dimension.
 * Parts may be uneven and may overlap; a part that several members need goes to each of them.
 */
#include "compile/redistribute/redistribute.h"

/* --- ways: who copies --------------------------------------------------------------------------------------------- */

/* Each member puts its parts into the others' slots: the slot is the result. */
static ls_operand slot(ls_builder *b, const ls_recut *r, ls_operand shape, int64_t capacity) {
    const ls_view *v = &shape.view;
    return ls_build_symmetric(b, LS_BUFFER_SLOT, r->label, capacity, v->dtype, v->ndim, v->size);
}

static void put(ls_builder *b, const ls_messages *m) {
    ls_messages_grant(b, m);
    ls_messages_send(b, m);
}

static void keep(ls_builder *b, const ls_messages *m) { (void)b, (void)m; } /* nothing has been leased */

/* Each member copies its parts out of the others' tensors. */
static ls_operand room(ls_builder *b, const ls_recut *r, ls_operand shape, int64_t capacity) {
    const ls_view *v = &shape.view;
    return r->leasable ? ls_build_symmetric(b, LS_BUFFER_ACTIVATION, r->label, capacity, v->dtype, v->ndim, v->size)
                       : ls_build_private(b, LS_BUFFER_ACTIVATION, r->label, v->dtype, v->ndim, v->size);
}

struct ls_way {
    const char *name;
    ls_operand (*result)(ls_builder *b, const ls_recut *r, ls_operand shape, int64_t capacity);
    void (*begin)(ls_builder *b, const ls_messages *m);
    void (*finish)(ls_builder *b, const ls_messages *m);
    void (*settle)(ls_builder *b, const ls_messages *m);
};

static const struct ls_way ways[] = {
    {"put", slot, put, ls_messages_receive, keep},
    {"in place", room, ls_messages_lease, ls_messages_fetch, ls_messages_reclaim},
};

ls_operand ls_in_heap(ls_builder *b, ls_operand operand, int64_t capacity) {
    const ls_buffer *buffer = &b->image->buffers[operand.buffer];
    const ls_view *v = &operand.view;
    if (buffer->space == LS_SYMMETRIC) return operand;
    const ls_operand copy =
        ls_build_symmetric(b, LS_BUFFER_ACTIVATION, buffer->name, capacity, v->dtype, v->ndim, v->size);
    ls_build_copy(b, operand, copy);
    return copy;
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

/* The place in the team that is `shift` places after this rank's. */
static int place_of(const ls_builder *b, int team, int shift) {
    return ls_team_place_at(&b->image->teams[team], b->target->rank, shift);
}

void ls_parts_find_sharers(ls_parts *parts, const ls_team *team) {
    const int members = ls_team_size(team);
    int sharers = 1;
    while (sharers < members && parts->start[sharers] == parts->start[0]) sharers++;
    ls_team split, outer;
    bool even = ls_team_split(team, sharers, &split, &outer);
    for (int p = 0; p < members; p++)
        even &= parts->count[p] == parts->count[0] && parts->start[p] == p / sharers * parts->count[0];
    parts->sharers = even && members % sharers == 0 ? sharers : 0;
}

ls_operand ls_part_at(ls_builder *b, int team, ls_operand all, int dim, const ls_parts *cut, int shift) {
    if (cut->sharers > 0) {
        const int outer = ls_build_outer_team(b, team, cut->sharers);
        return ls_build_share(b, all, dim, cut->count[0], outer, shift / cut->sharers);
    }
    const int place = place_of(b, team, shift);
    return ls_operand_slice(all, dim, cut->start[place], cut->count[place]);
}

/* The team whose distances lead to the parts: split by digit where several consecutive members share a part. */
static int team_of(ls_builder *b, const ls_recut *r) {
    const int members = ls_build_team_size(b, r->team), from = r->from->sharers < members ? r->from->sharers : 1,
              to = r->to->sharers < members ? r->to->sharers : 1;
    LS_ASSERT(from <= 1 || to <= 1);
    return from > 1 || to > 1 ? ls_build_split_team(b, r->team, (int)ls_max(from, to)) : r->team;
}

/* The operand with other sizes along from_dim and to_dim, dense, at the same offset. */
static ls_operand resized(const ls_recut *r, ls_operand o, int64_t from, int64_t to) {
    int64_t size[LS_MAX_DIMS];
    for (int i = 0; i < o.view.ndim; i++) size[i] = o.view.size[i];
    size[r->from_dim] = from;
    size[r->to_dim] = to;
    return ls_operand_dense(o.buffer, o.offset, o.view.dtype, o.view.ndim, size);
}

static int64_t elements(const ls_recut *r, ls_operand o, int64_t from, int64_t to) {
    if (r->rest > 0) return r->rest * from * to;
    const ls_operand all = resized(r, o, from, to);
    return ls_view_elements(&all.view);
}

static ls_operand from_part(ls_builder *b, const ls_recut *r, int team, ls_operand all, int shift) {
    return ls_part_at(b, team, all, r->from_dim, r->from, shift);
}

static ls_operand to_part(ls_builder *b, const ls_recut *r, int team, ls_operand all, int shift) {
    return ls_part_at(b, team, all, r->to_dim, r->to, shift);
}

ls_all_to_all ls_all_to_all_begin(ls_builder *b, const ls_recut *r, ls_operand mine) {
    const struct ls_way *way = &ways[r->in_place];
    const int team = team_of(b, r), size = ls_build_team_size(b, team), me = place_of(b, team, 0);
    if (r->in_place) mine = ls_in_heap(b, mine, elements(r, mine, r->from->most, r->to->most_total));
    const ls_operand result = way->result(b, r, resized(r, mine, r->from->total, r->to->count[me]),
                                          elements(r, mine, r->from->most_total, r->to->most));
    const ls_all_to_all x = {result, way, ls_messages_make(b, size - 1)};
    for (int j = 1; j < size; j++) {
        const int back = ls_team_back(&b->image->teams[team], j), after = place_of(b, team, j),
                  before = place_of(b, team, back);
        const ls_peer receiver = ls_build_peer(b, team, j), sender = ls_build_peer(b, team, back);
        const ls_operand theirs = resized(r, mine, r->from->count[before], r->to->total);
        x.messages.pair[j - 1] =
            (ls_message_pair){.channel = ls_build_channel(b, "%s.%d", r->label, j),
                              .receiver = receiver,
                              .sender = sender,
                              .from = to_part(b, r, team, mine, j),
                              .to = from_part(b, r, team, resized(r, result, r->from->total, r->to->count[after]), 0),
                              .land = from_part(b, r, team, result, back),
                              .there = r->in_place ? to_part(b, r, team, ls_operand_of_peer(theirs, sender), 0)
                                                   : (ls_operand){.buffer = -1}};
    }
    way->begin(b, &x.messages);
    ls_build_copy(b, to_part(b, r, team, mine, 0), from_part(b, r, team, result, 0));
    return x;
}

ls_operand ls_all_to_all_finish(ls_builder *b, const ls_all_to_all *x) {
    x->way->finish(b, &x->messages);
    return x->result;
}

void ls_all_to_all_settle(ls_builder *b, const ls_all_to_all *x) { x->way->settle(b, &x->messages); }
