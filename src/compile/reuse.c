/*
 * In-place reuse: where a kernel is the last reader of a buffer and writes another, no larger, for the first time, and
 * can put the one in the other's place, the second buffer takes over the first one's bytes. Not for what outlives the
 * program, nor for the heap, whose buffers must be alike on all ranks.
 */
#include "compile/compile_impl.h"
#include "program/program.h"

/* A buffer of the program's own that begins or ends with the instruction, as the operand says. */
static bool may_pass(const ls_image *image, int program, const ls_operand *o) {
    if (o->buffer < 0 || o->offset != 0) return false;
    const ls_buffer *b = &image->buffers[o->buffer];
    return b->program == program && b->space == LS_PRIVATE;
}

/* Every operand of the instruction that lies in the buffer is one in whose place the output may lie. */
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

/* The buffer whose bytes the output takes over, or -1. */
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
