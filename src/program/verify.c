/* The play of all queues (verify.h): executes whatever can run next, until nothing can. */
#include "program/verify.h"

#include "program/verify_impl.h"

/* Checks that persistent buffers hold the values that the program must leave. */
static void check_left(ls_play *p, int rank) {
    const ls_image *image = p->rank[rank].image;
    const int program = ls_play_index(&p->rank[rank]);
    const ls_point end = {.rank = rank, .program = program, .instr = -1, .op = "its end"};
    for (int i = 0; i < image->n_buffers; i++) {
        const ls_buffer *b = &image->buffers[i];
        if (b->program >= 0 || b->bytes == 0) continue;
        const ls_range whole = ls_range_flat(b->offset, b->bytes);
        ls_bytes_ask(&p->bytes[rank], b->space, whole, (ls_extent){whole, 0});
        ls_play_expect(p, rank, i, 1, image->programs[program].kept[i].left, end);
    }
}

/* A rank whose queues have all ended goes on to the next program, with the clocks of all its queues joined. */
static ls_status advance(ls_play *p, int rank, bool *moved) {
    ls_play_rank *r = &p->rank[rank];
    if (r->stage == r->stages) return ls_ok();
    for (int q = 0; q < p->queues_each; q++) {
        if (r->queue[q].next < r->queue[q].n) return ls_ok();
    }
    check_left(p, rank);
    r->runs[ls_play_index(r)]++;
    r->stage++;
    *moved = true;
    return r->stage == r->stages ? ls_ok() : ls_play_begin(p, rank);
}

static ls_status stuck(const ls_play *p) {
    for (int rank = 0; rank < p->ranks; rank++) {
        const ls_play_rank *r = &p->rank[rank];
        for (int queue = 0; r->stage < r->stages && queue < p->queues_each; queue++) {
            const ls_play_queue *q = &r->queue[queue];
            if (q->next == q->n || !ls_traits(&ls_play_program(r)->instrs[q->instrs[q->next]])->awaits) continue;
            return ls_play_fault(p, ls_play_point(p, rank, queue), "waits for ever: deadlock");
        }
    }
    return ls_error(LS_INVALID, "program rejected: the queues of a rank wait for each other");
}

static ls_status run(ls_play *p) {
    for (bool moved = true; moved;) {
        moved = false;
        for (int rank = 0; rank < p->ranks; rank++) {
            if (p->rank[rank].stage == p->rank[rank].stages) continue;
            LS_TRY(ls_play_run(p, rank, &moved));
            LS_TRY(advance(p, rank, &moved));
        }
    }
    for (int rank = 0; rank < p->ranks; rank++) {
        if (p->rank[rank].stage < p->rank[rank].stages) return stuck(p);
        LS_TRY(ls_play_all_taken(p, rank));
    }
    return p->value;
}

ls_status ls_verify(const ls_image *const *images, int ranks) {
    ls_play p = {.arena = ls_arena_create(), .ranks = ranks, .value = ls_ok()};
    ls_status status = ls_play_set_up(&p, images);
    if (status.code == LS_OK) status = run(&p);
    ls_arena_destroy(p.arena);
    return status;
}
