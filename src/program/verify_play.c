/* Sets up a play, and begins each program in it. */
#include "program/phase.h"
#include "program/states.h"
#include "program/verify_impl.h"

#include <string.h>

ls_status ls_play_begin(ls_play *p, int rank) {
    ls_play_rank *r = &p->rank[rank];
    LS_TRY(ls_play_host_writes(p, rank));
    ls_bytes_begin(&p->bytes[rank]);
    for (int q = 0; q < p->queues_each; q++) {
        r->queue[q].n = r->queue[q].next = r->queue[q].n_puts = 0;
        r->queue[q].done = -1;
        memset(r->queue[q].settled, 0, sizeof(int) * (size_t)p->queues_each);
    }
    const ls_program *program = ls_play_program(r);
    for (int i = 0; i < program->n_instrs; i++) {
        ls_play_queue *q = &r->queue[program->instrs[i].queue];
        q->instrs[q->n++] = i;
    }
    ls_clock_begin(r);
    return ls_ok();
}

static int most_queues(const ls_image *const *images, int ranks) {
    int most = 1;
    for (int r = 0; r < ranks; r++) {
        for (int i = 0; i < images[r]->n_programs; i++) most = (int)ls_max(most, images[r]->programs[i].queues);
    }
    return most;
}

ls_status ls_play_set_up(ls_play *p, const ls_image *const *images) {
    p->queues_each = most_queues(images, p->ranks);
    p->queues = p->ranks * p->queues_each;
    p->rank = LS_NEW_ARRAY(p->arena, ls_play_rank, p->ranks);
    p->bytes = LS_NEW_ARRAY(p->arena, ls_bytes, p->ranks);
    for (int r = 0; r < p->ranks; r++) {
        if (images[r]->n_programs != images[0]->n_programs)
            return ls_error(LS_INVALID, "program rejected: rank %d has %d programs, rank 0 has %d", r,
                            images[r]->n_programs, images[0]->n_programs);
        ls_play_rank *rank = &p->rank[r];
        rank->image = images[r];
        if (!ls_phases_equal(images[r], images[0]))
            return ls_error(LS_INVALID, "program rejected: the phase tables of rank %d and rank 0 differ", r);
        LS_TRY(ls_image_check(images[r], r));
        LS_TRY(ls_phases_check(images[r]));
        LS_TRY(ls_joins_check(images[r]));
        LS_TRY(ls_effects_check(images[r], r));
        rank->stages = ls_phase_walk(images[r], p->arena, &rank->walk);
        rank->runs = LS_NEW_ARRAY(p->arena, uint64_t, images[r]->n_programs);
        rank->uses = LS_NEW_ARRAY(p->arena, ls_uses, images[r]->n_programs);
        rank->words = LS_NEW_ARRAY(p->arena, ls_word, images[r]->words + 1);
        int most = 1, channels = 1;
        for (int i = 0; i < images[r]->n_programs; i++) {
            rank->uses[i] = ls_uses_find(&images[r]->programs[i], p->arena);
            most = (int)ls_max(most, images[r]->programs[i].n_instrs);
            channels = (int)ls_max(channels, images[r]->programs[i].n_channels);
        }
        rank->queue = LS_NEW_ARRAY(p->arena, ls_play_queue, p->queues_each);
        for (int q = 0; q < p->queues_each; q++) {
            rank->queue[q].instrs = LS_NEW_ARRAY(p->arena, int, most);
            rank->queue[q].moments = LS_NEW_ARRAY(p->arena, ls_moment *, most);
            rank->queue[q].awaited = LS_NEW_ARRAY(p->arena, int, most);
            rank->queue[q].puts = LS_NEW_ARRAY(p->arena, ls_access *, most);
            rank->queue[q].settled = LS_NEW_ARRAY(p->arena, int, p->queues_each);
            rank->queue[q].clock = LS_NEW_ARRAY(p->arena, uint32_t, p->queues);
        }
        rank->granted = LS_NEW_ARRAY(p->arena, ls_range, channels);
        ls_bytes_create(&p->bytes[r], images[r], r, p->arena);
        LS_TRY(ls_play_begin(p, r));
    }
    return ls_ok();
}
