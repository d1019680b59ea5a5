/*
 * How a reduce-scatter adds the parts that a stage has received. Each function is used by a row of the table of
 * algorithms (stages.c).
 *
 * With canonical sums a rank may send several addends. They are added by a tree over the ranks of a sequence, as the
 * chunks of a rank are (chunks.c), then over the addends, then over the sequences.
 */
#include "compile/redistribute/redistribute.h"

void ls_slots_add_in_order(ls_builder *b, const ls_slots *slots, ls_operand to, bool adds) {
    LS_ASSERT(slots->addends == 1);
    const ls_operand sum =
        adds ? ls_build_private(b, LS_BUFFER_GRADIENT, "to add", slots->all.view.dtype, 1, &slots->count) : to;
    ls_build_add_rows(b, slots->all, slots->stage->ranks, sum);
    if (adds) ls_build_accumulate(b, sum, to);
}

static ls_operand slot_at(const ls_slots *slots, int place, int addend) {
    return ls_operand_slice(slots->all, 0, (place * slots->addends + addend) * slots->count, slots->count);
}

/* The places of the team's members, sorted by sequence and then along each sequence. *sequences: how many there are. */
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

/* The sum of one sequence, over the addends of its n ranks. It replaces the first slot of the first rank. */
static void add_sequence(ls_builder *b, const ls_slots *slots, const int *place, int n) {
    for (int a = 0; a < slots->addends; a++) {
        for (int width = 1; width < n; width *= 2) {
            for (int k = 0; k < n; k += 2 * width)
                ls_build_accumulate(b, slot_at(slots, place[k + width], a), slot_at(slots, place[k], a));
        }
        if (a > 0) ls_build_accumulate(b, slot_at(slots, place[0], a), slot_at(slots, place[0], 0));
    }
}

void ls_slots_add_canonically(ls_builder *b, const ls_slots *slots, ls_operand to, bool adds) {
    int sequences;
    const int *place = places_in_order(b, slots->stage->team, &sequences);
    const int each = slots->stage->ranks / sequences;
    for (int s = 0; s < sequences; s++, place += each) {
        add_sequence(b, slots, place, each);
        if (s == 0 && !adds)
            ls_build_copy(b, slot_at(slots, *place, 0), to);
        else
            ls_build_accumulate(b, slot_at(slots, *place, 0), to);
    }
}
