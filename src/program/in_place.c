#include "program/in_place.h"

#include <string.h>

#include "kernel/kernel.h"

static const ls_operand *operand_at(const ls_instr *instr, int other) {
    return other < LS_KERNEL_INPUTS ? &instr->in[other] : &instr->out[other - LS_KERNEL_INPUTS];
}

static bool share_bytes(const ls_image *image, const ls_operand *a, const ls_operand *b) {
    if (ls_operand_is_empty(a) || ls_operand_is_empty(b) || !ls_peer_equal(a->peer, b->peer)) return false;
    const ls_buffer *x = &image->buffers[a->buffer], *y = &image->buffers[b->buffer];
    if (x->space != y->space || x->offset >= y->offset + y->bytes || y->offset >= x->offset + x->bytes) return false;
    const ls_extent first = ls_operand_extent(a, x->offset), second = ls_operand_extent(b, y->offset);
    return ls_extents_meet(image, &first, &second);
}

bool ls_instr_could_share(const ls_instr *instr, int output, int other) {
    const ls_view *a = &instr->out[output].view, *b = &operand_at(instr, other)->view;
    const bool narrows = ls_dtype_bytes(a->dtype) < ls_dtype_bytes(b->dtype);
    return (a->dtype == b->dtype || narrows) && ls_view_elements(a) == ls_view_elements(b) && ls_view_is_dense(a) &&
           ls_view_is_dense(b) && ls_kernel_works_in_place(instr->kernel->id, output, other, narrows);
}

ls_sharing ls_instr_sharing(const ls_image *image, const ls_instr *instr, int output, int other) {
    const ls_operand *a = &instr->out[output], *b = operand_at(instr, other);
    if (!share_bytes(image, a, b)) return LS_APART;
    const bool same = image->buffers[a->buffer].offset + a->offset == image->buffers[b->buffer].offset + b->offset &&
                      a->displacement == b->displacement;
    return same && ls_instr_could_share(instr, output, other) ? LS_IN_PLACE : LS_CLASH;
}
