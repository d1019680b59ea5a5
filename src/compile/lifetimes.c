/*
 * Lifetimes: the instructions of its program between which a buffer's bytes are live; and the live bytes at each
 * instruction.
 */
#include "compile/compile_impl.h"
#include "program/program.h"

static void touch(ls_image *image, const ls_operand *o, int program, int instr) {
    if (o->buffer < 0) return;
    ls_buffer *b = &image->buffers[o->buffer];
    if (b->program != program) return;
    if (b->first < 0) b->first = instr;
    if (instr > b->last) b->last = instr;
}

/*
 * A put may read its source after the instruction has been executed. Still the lifetime of the source ends at the put:
 * order.c makes whatever overwrites these bytes wait until the put is done. A buffer that is offloaded lives until the
 * next copy on the queue `link`: a buffer that got its bytes earlier would have to wait for the copy to end.
 */
void ls_find_lifetimes(ls_image *image, int program, int *taker) {
    const ls_program *p = &image->programs[program];
    for (int b = 0; b < image->n_buffers; b++) {
        if (image->buffers[b].program == program) image->buffers[b].first = image->buffers[b].last = -1;
    }
    const ls_instr *leaving = NULL; /* the last instruction that offloads */
    for (int i = 0; i < p->n_instrs; i++) {
        const ls_instr *instr = &p->instrs[i];
        if (instr->queue == LS_LINK) {
            if (leaving != NULL) touch(image, &leaving->in[0], program, i);
            leaving = instr->kernel->id == LS_KERNEL_OFFLOAD ? instr : NULL;
        }
        for (int k = 0; k < ls_instr_accesses(instr); k++) {
            const ls_instr_access a = ls_instr_access_at(instr, k);
            /* A put writes into the peer's heap. There the slot is live from its grant to its last reader. */
            if (a.kind != LS_ACCESS_PUT) touch(image, a.operand, program, i);
        }
    }
    ls_reuse_in_place(image, program, taker);
}

int64_t ls_find_live(const ls_image *image, int program, ls_space space, int64_t *live) {
    const int n = image->programs[program].n_instrs;
    ls_arena *scratch = ls_arena_create();
    int64_t *change = LS_NEW_ARRAY(scratch, int64_t, n + 1);
    for (int i = 0; i < image->n_buffers; i++) {
        const ls_buffer *b = &image->buffers[i];
        if (b->program != program || b->space != space || b->first < 0) continue;
        change[b->first] += (int64_t)ls_round_up(b->bytes, LS_PLACE_ALIGN);
        change[b->last + 1] -= (int64_t)ls_round_up(b->bytes, LS_PLACE_ALIGN);
    }
    int64_t now = 0, most = 0;
    for (int i = 0; i < n; i++) {
        now += change[i];
        most = ls_max(most, now);
        if (live != NULL) live[i] = now;
    }
    ls_arena_destroy(scratch);
    return most;
}
