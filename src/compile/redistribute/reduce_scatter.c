/*
 * Reduce-scatter: each part goes to the rank that owns it, or that adds it for others (stages.c). When the next
 * reduce-scatter has been sent, the parts that have arrived are added (slots.c), and the sum goes on to the next stage.
 * The slots are then free for the reduce-scatter after the next. So a rank needs slots for two, however many there are.
 */
#include "compile/redistribute/redistribute.h"

enum { SETS = 2 }; /* sets of slots: one receives while the other is read */

/* One reduce-scatter. */
typedef struct turn {
    int64_t count;
    int addends;     /* from each rank */
    ls_operand *sum; /* at first this rank's addends, then the sum over the completed stages of the part that is left to
                        this rank */
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
    int64_t most[LS_TEAM_DIGITS]; /* per stage: the most elements that one rank sends in a reduce-scatter */
};

/* Elements of an addend that are left to a rank after the stage. */
static int64_t left_of(const ls_reduce_scatter *r, int i, int stage) {
    return ls_stages_count(&r->stages, r->turns[i].count, stage);
}

/* The slots of a stage: those of each of its ranks, in the order of places. */
static ls_operand slots_of(const ls_reduce_scatter *r, int i, int stage) {
    const int ranks = r->stages.stage[stage].ranks;
    return ls_operand_slice(r->slots[stage], 0, i % SETS * ranks * r->most[stage],
                            ranks * r->turns[i].addends * left_of(r, i, stage));
}

/*
 * Of an operand that has `count` elements for each rank of the stage: those of the rank `shift` places after this one.
 */
static ls_operand share_of(ls_builder *b, const ls_reduce_scatter *r, int stage, ls_operand all, int64_t count,
                           int shift) {
    return ls_build_share(b, all, 0, count, r->stages.stage[stage].team, shift);
}

/* The slot for an addend from the rank `shift` places after this one. */
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

/* Where the sum of a stage is written: to the result in the last stage, else to a buffer for the next stage. */
static ls_operand sum_of(ls_builder *b, const ls_reduce_scatter *r, int i, int stage) {
    const turn *t = &r->turns[i];
    if (stage + 1 == r->stages.n) return t->to;
    const int64_t count = left_of(r, i, stage);
    return ls_build_private(b, LS_BUFFER_GRADIENT, r->near, t->sum->view.dtype, 1, &count);
}

/* Receives and adds the parts of a stage. The rank's own part goes through a slot, as the others' do. */
static void collect(ls_builder *b, ls_reduce_scatter *r, int i, int stage) {
    turn *t = &r->turns[i];
    ls_messages_receive(b, &t->messages[stage]);
    for (int a = 0; a < t->addends; a++)
        ls_build_copy(b, share_of(b, r, stage, t->sum[a], left_of(r, i, stage), 0), slot_of(b, r, i, stage, 0, a));
    const ls_slots slots = {slots_of(r, i, stage), &r->stages.stage[stage], t->addends, left_of(r, i, stage)};
    *t->sum = sum_of(b, r, i, stage);
    r->stages.add(b, &slots, *t->sum, t->adds && stage + 1 == r->stages.n);
}

/* After reduce-scatter number `begun` has begun: it and each of the last few before it go on by one stage. */
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
