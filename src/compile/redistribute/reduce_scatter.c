/*
 * Reduce-scatter: each part leaves for the rank that owns it, or that adds it up for others (stages.c). What has come
 * is added, in the order of the ranks' places, when the next one has left, and goes on to the next stage; then its
 * slots are free for the next but one. So a rank needs slots for two, however many there are.
 *
 * Canonical sums have one stage, of all ranks, and any number of addends from each. They are added up by a tree over
 * the ranks of a sequence, as the chunks of a rank are (chunks.c), then over the addends, then over the sequences.
 */
#include "compile/redistribute/redistribute.h"

enum { SETS = 2 }; /* of slots: one is filled while the other is read */

/* One reduce-scatter. */
typedef struct turn {
    int64_t count;
    int addends;     /* from each rank */
    ls_operand *sum; /* this rank's addends, then the sum over the stages that are done, of what is left to it */
    ls_operand to;
    bool adds;
    ls_messages messages[LS_TEAM_DIGITS];
} turn;

struct ls_reduce_scatter {
    const char *label[SETS], *near;
    ls_stages stages;
    int n, begun;
    turn *turns;
    ls_operand slots[LS_TEAM_DIGITS];
    int64_t most[LS_TEAM_DIGITS]; /* elements of what a rank has slots for */
};

/* Elements of an addend that are left after the stage. */
static int64_t left_of(const ls_reduce_scatter *r, int i, int stage) {
    return ls_stages_count(&r->stages, r->turns[i].count, stage);
}

/* The slots of a stage: those of each of its ranks, in the order of their places. */
static ls_operand slots_of(const ls_reduce_scatter *r, int i, int stage) {
    const int ranks = r->stages.stage[stage].ranks;
    return ls_operand_slice(r->slots[stage], 0, i % SETS * ranks * r->most[stage],
                            ranks * r->turns[i].addends * left_of(r, i, stage));
}

/* Of what has `count` elements for each rank of the stage, those of the rank `shift` places further. */
static ls_operand share_of(ls_builder *b, const ls_reduce_scatter *r, int stage, ls_operand all, int64_t count,
                           int shift) {
    return ls_build_share(b, all, 0, count, r->stages.stage[stage].team, shift);
}

/* The slot for an addend of the rank `shift` places further. */
static ls_operand slot_of(ls_builder *b, const ls_reduce_scatter *r, int i, int stage, int shift, int addend) {
    const int64_t left = left_of(r, i, stage);
    const ls_operand rank = share_of(b, r, stage, slots_of(r, i, stage), r->turns[i].addends * left, shift);
    return ls_operand_slice(rank, 0, addend * left, left);
}

static void hand_over(ls_builder *b, ls_reduce_scatter *r, int i, int stage) {
    if (i >= r->n) return;
    turn *t = &r->turns[i];
    const int peers = r->stages.stage[stage].ranks - 1;
    t->messages[stage] = ls_messages_make(b, peers * t->addends);
    for (int a = 0; a < t->addends; a++) {
        const char *label = r->label[i % SETS];
        if (a > 0) label = ls_arena_printf(b->image->arena, "%s.and%d", label, a);
        const ls_messages m = ls_stage_messages(b, label, &r->stages, stage);
        for (int k = 0; k < peers; k++) {
            m.pair[k].land = slot_of(b, r, i, stage, -(k + 1), a);
            m.pair[k].to = slot_of(b, r, i, stage, 0, a);
            t->messages[stage].pair[a * peers + k] = m.pair[k];
        }
    }
    ls_messages_grant(b, &t->messages[stage]);
}

static void send(ls_builder *b, const ls_reduce_scatter *r, int i, int stage) {
    const turn *t = &r->turns[i];
    const ls_messages *m = &t->messages[stage];
    const int peers = r->stages.stage[stage].ranks - 1;
    for (int k = 0; k < m->n; k++)
        m->pair[k].from = share_of(b, r, stage, t->sum[k / peers], left_of(r, i, stage), k % peers + 1);
    ls_messages_send(b, m);
}

/* Where the sum of a stage goes: to the result, or to the next stage. */
static ls_operand sum_of(ls_builder *b, const ls_reduce_scatter *r, int i, int stage) {
    const turn *t = &r->turns[i];
    const bool last = stage + 1 == r->stages.n;
    if (last && !t->adds) return t->to;
    const int64_t count = left_of(r, i, stage);
    return ls_build_private(b, LS_BUFFER_GRADIENT, last ? "to add" : r->near, t->sum->view.dtype, 1, &count);
}

/* The slot of a rank of the last stage, wherever this one stands. */
static ls_operand slot_at(const ls_reduce_scatter *r, int i, int rank, int addend) {
    const turn *t = &r->turns[i];
    return ls_operand_slice(slots_of(r, i, 0), 0, (rank * t->addends + addend) * t->count / r->stages.stage[0].ranks,
                            t->count / r->stages.stage[0].ranks);
}

/* The places of the team's members in the order of their sequences, and along each. *sequences: how many they share. */
static int *places_in_order(const ls_builder *b, int team, int *sequences) {
    const ls_mesh *mesh = &b->target->mesh;
    const int size = ls_build_team_size(b, team), mine = ls_build_team_place(b, team);
    int *place = LS_NEW_ARRAY(b->image->arena, int, size), *key = LS_NEW_ARRAY(b->image->arena, int, size);
    for (int p = 0; p < size; p++) {
        const int rank = ls_team_member(&b->image->teams[team], b->target->rank, p - mine);
        const int at = ls_mesh_replica(mesh, rank) * ls_mesh_sequence_ranks(mesh) + ls_mesh_sequence_index(mesh, rank);
        int i = p;
        for (; i > 0 && key[i - 1] > at; i--) {
            key[i] = key[i - 1];
            place[i] = place[i - 1];
        }
        key[i] = at;
        place[i] = p;
    }
    *sequences = 1 + (key[size - 1] - key[0]) / ls_mesh_sequence_ranks(mesh);
    return place;
}

/* The first slot of the first of n ranks becomes what they add to a sequence. */
static void add_sequence(ls_builder *b, const ls_reduce_scatter *r, int i, const int *place, int n) {
    for (int a = 0; a < r->turns[i].addends; a++) {
        for (int width = 1; width < n; width *= 2) {
            for (int k = 0; k < n; k += 2 * width)
                ls_build_accumulate(b, slot_at(r, i, place[k + width], a), slot_at(r, i, place[k], a));
        }
        if (a > 0) ls_build_accumulate(b, slot_at(r, i, place[0], a), slot_at(r, i, place[0], 0));
    }
}

static void add_canonically(ls_builder *b, const ls_reduce_scatter *r, int i) {
    const turn *t = &r->turns[i];
    const ls_stage *stage = &r->stages.stage[0];
    int sequences;
    const int *place = places_in_order(b, stage->team, &sequences);
    const int each = stage->ranks / sequences;
    for (int s = 0; s < sequences; s++, place += each) {
        add_sequence(b, r, i, place, each);
        if (s == 0 && !t->adds)
            ls_build_copy(b, slot_at(r, i, *place, 0), t->to);
        else
            ls_build_accumulate(b, slot_at(r, i, *place, 0), t->to);
    }
}

/* The rank's own part goes through a slot like the others'. */
static void collect(ls_builder *b, ls_reduce_scatter *r, int i, int stage) {
    turn *t = &r->turns[i];
    ls_messages_receive(b, &t->messages[stage]);
    for (int a = 0; a < t->addends; a++)
        ls_build_copy(b, share_of(b, r, stage, t->sum[a], left_of(r, i, stage), 0), slot_of(b, r, i, stage, 0, a));
    if (b->target->canonical) {
        add_canonically(b, r, i);
        return;
    }
    *t->sum = sum_of(b, r, i, stage);
    ls_build_add_rows(b, slots_of(r, i, stage), r->stages.stage[stage].ranks, *t->sum);
    if (stage + 1 == r->stages.n && t->adds) ls_build_accumulate(b, *t->sum, t->to);
}

/* When that many have begun: each of the last few goes one stage on. */
static void go_on(ls_builder *b, ls_reduce_scatter *r, int begun) {
    for (int stage = 0; stage <= r->stages.n; stage++) {
        const int i = begun - stage;
        if (i < 0 || i >= r->n) continue;
        if (stage > 0) collect(b, r, i, stage - 1);
        if (stage < r->stages.n) send(b, r, i, stage);
        if (stage > 0) hand_over(b, r, i + SETS, stage - 1);
    }
}

ls_reduce_scatter *ls_reduce_scatter_make(ls_builder *b, const char *label, const char *slots, const ls_stages *stages,
                                          ls_dtype dtype, int n, const ls_addends *addends) {
    ls_arena *arena = b->image->arena;
    ls_reduce_scatter *r = LS_NEW(arena, ls_reduce_scatter);
    *r = (ls_reduce_scatter){.near = ls_arena_printf(arena, "%s of near ranks", label),
                             .stages = *stages,
                             .n = n,
                             .turns = LS_NEW_ARRAY(arena, turn, n + 1)};
    for (int i = 0; i < SETS; i++) r->label[i] = ls_arena_printf(arena, "%s.%d", label, i);
    for (int i = 0; i < n; i++) r->turns[i] = (turn){.count = addends[i].count, .addends = addends[i].n};
    for (int stage = 0; stage < stages->n; stage++) {
        for (int i = 0; i < n; i++) r->most[stage] = ls_max(r->most[stage], addends[i].n * left_of(r, i, stage));
        const int64_t room = SETS * stages->stage[stage].ranks * r->most[stage];
        r->slots[stage] = ls_build_symmetric(b, LS_BUFFER_SLOT, slots, room, dtype, 1, &room);
    }
    return r;
}

void ls_reduce_scatter_expect(ls_builder *b, ls_reduce_scatter *r) {
    for (int i = 0; i < SETS; i++) {
        for (int stage = 0; stage < r->stages.n; stage++) hand_over(b, r, i, stage);
    }
}

void ls_reduce_scatter_begin(ls_builder *b, ls_reduce_scatter *r, const ls_operand *from, ls_operand to, bool adds) {
    turn *t = &r->turns[r->begun];
    t->sum = ls_arena_copy(b->image->arena, from, sizeof *from * (size_t)t->addends);
    t->to = to;
    t->adds = adds;
    go_on(b, r, r->begun++);
}

void ls_reduce_scatter_finish(ls_builder *b, ls_reduce_scatter *r) {
    LS_ASSERT(r->begun == r->n);
    for (int stage = 0; stage < r->stages.n; stage++) go_on(b, r, r->n + stage);
}
