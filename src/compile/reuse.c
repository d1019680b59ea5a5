/*
 * In-place reuse: if a kernel is the last reader of one buffer and the first writer of another that is not larger, and
 * can write its output in place of that input, the second buffer takes over the bytes of the first. This is not done
 * for buffers that outlive the program, nor in the heap, whose buffers must be the same on all ranks.
 */
#include "compile/compile_impl.h"
#include "program/program.h"

/* Whether the operand begins a private buffer of the program, which could give or take bytes. */
static bool may_pass(const ls_image *image, int program, const ls_operand *o) {
    if (o->buffer < 0 || o->offset != 0) return false;
    const ls_buffer *b = &image->buffers[o->buffer];
    return b->program == program && b->space == LS_PRIVATE;
}

/* Whether the output may overwrite every operand of the instruction that lies in the buffer. */
static bool all_agree(const ls_instr *instr, int output, int buffer) {
    for (int i = 0; i < instr->n_in; i++) {
        if (instr->in[i].buffer != buffer) continue;
        if (instr->in[i].offset != 0 || !ls_instr_could_share(instr, output, i)) return false;
    }
    for (int i = 0; i < instr->n_out; i++) {
        if (instr->out[i].buffer == buffer) return false;
    }
    return true;
}

/* The buffer whose bytes the output takes over; -1: none. */
static int find_giver(const ls_image *image, int program, int at, int output, const int *taker) {
    const ls_instr *instr = &image->programs[program].instrs[at];
    const ls_operand *out = &instr->out[output];
    if (!may_pass(image, program, out)) return -1;
    const ls_buffer *b = &image->buffers[out->buffer];
    if (b->first != at) return -1;
    for (int i = 0; i < instr->n_in; i++) {
        const int giver = instr->in[i].buffer;
        if (!may_pass(image, program, &instr->in[i]) || taker[giver] >= 0) continue;
        const ls_buffer *a = &image->buffers[giver];
        const size_t read = ls_view_bytes(&instr->in[i].view);
        const bool fits = a->bytes == b->bytes || (a->bytes == read && b->bytes <= read);
        if (a->last == at && a->first < at && fits && all_agree(instr, output, giver)) return giver;
    }
    return -1;
}

void ls_reuse_in_place(ls_image *image, int program, int *taker) {
    const ls_program *p = &image->programs[program];
    for (int i = 0; i < p->n_instrs; i++) {
        for (int k = 0; k < p->instrs[i].n_out && p->instrs[i].kind == LS_INSTR_KERNEL; k++) {
            const int giver = find_giver(image, program, i, k, taker);
            if (giver < 0) continue;
            taker[giver] = p->instrs[i].out[k].buffer;
            image->buffers[giver].last = i - 1;
        }
    }
}
