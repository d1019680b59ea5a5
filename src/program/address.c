#include "program/address.h"

#include <stdio.h>
#include <string.h>

#include "program/name.h"

/* --- addresses ------------------------------------------------------------------------------------------ */

ls_address ls_address_of(const ls_image *image, const ls_instr *instr, int rank) {
    const ls_operand *operand = instr->kind == LS_INSTR_LEASE ? &instr->in[0] : &instr->out[0];
    return (ls_address){ls_operand_range(image, operand, rank), operand->view.dtype, instr->counted};
}

bool ls_address_same_form(const ls_address *a, const ls_address *b) {
    ls_range x = a->range, y = b->range;
    if (ls_range_bytes(&x) == 0 && ls_range_bytes(&y) == 0) return true;
    x.offset = y.offset = 0;
    return a->dtype == b->dtype && a->counted == b->counted && memcmp(&x, &y, sizeof x) == 0;
}

void ls_address_print_form(const ls_address *address, char *out, size_t bytes) {
    const ls_range *r = &address->range;
    int n = snprintf(out, bytes, "%zu bytes of %s", ls_range_bytes(r), ls_dtype_name(address->dtype));
    if (address->counted > 0 && n >= 0 && (size_t)n < bytes)
        n += snprintf(out + n, bytes - (size_t)n, ", or fewer rows of %zu bytes", address->counted);
    if (ls_range_is_flat(r) || n < 0 || (size_t)n >= bytes) return;
    snprintf(out + n, bytes - (size_t)n, " in %lld x %lld x %lld pieces, %lld, %lld, %lld bytes apart",
             (long long)r->count[2], (long long)r->count[1], (long long)r->count[0], (long long)r->stride[2],
             (long long)r->stride[1], (long long)r->stride[0]);
}

/* --- uses ----------------------------------------------------------------------------------------------- */

ls_uses ls_uses_find(const ls_program *p, ls_arena *arena) {
    const int ends = LS_SIDES * p->n_channels;
    ls_uses uses = {.first = LS_NEW_ARRAY(arena, int, ends + 1)};
    for (int e = 0; e < ends; e++)
        uses.first[e + 1] = uses.first[e] + (int)p->channels[e / LS_SIDES].uses[e % LS_SIDES];
    uses.list = LS_NEW_ARRAY(arena, ls_use, uses.first[ends] + 1);
    for (int u = 0; u < uses.first[ends]; u++) uses.list[u] = (ls_use){.instr = -1};
    for (int i = 0; i < p->n_instrs; i++) {
        const ls_instr *instr = &p->instrs[i];
        const bool tells = instr->kind == LS_INSTR_RECEIVE || instr->kind == LS_INSTR_LEASE,
                   asks = instr->kind == LS_INSTR_PUT || instr->kind == LS_INSTR_BORROW;
        const int u = tells || asks ? ls_use_of(&uses, p, instr) : -1;
        if (u >= 0) uses.list[u] = (ls_use){i, tells};
    }
    return uses;
}

/* The use of that generation at an end of a channel; -1: the end has none. */
static int use_at(const ls_uses *uses, const ls_program *p, int channel, ls_channel_side side, uint64_t generation) {
    if (channel < 0 || channel >= p->n_channels) return -1;
    if (generation < 1 || generation > p->channels[channel].uses[side]) return -1;
    return uses->first[LS_SIDES * channel + (int)side] + (int)(generation - 1);
}

int ls_use_of(const ls_uses *uses, const ls_program *p, const ls_instr *instr) {
    return use_at(uses, p, instr->channel, ls_instr_side(instr), instr->generation);
}

int ls_use_told(const ls_uses *uses, const ls_program *there, const ls_instr *instr) {
    const ls_channel_side other = ls_instr_sends(instr) ? LS_SIDE_RECEIVES : LS_SIDE_SENDS;
    const int u = use_at(uses, there, instr->channel, other, instr->generation);
    return u >= 0 && uses->list[u].tells ? uses->list[u].instr : -1;
}

/* --- blocks that are read in place ---------------------------------------------------------------------- */

bool ls_block_has(const ls_operand *block, const ls_operand *operand) {
    if (!ls_peer_equal(block->peer, operand->peer) || block->buffer != operand->buffer ||
        block->displacement != operand->displacement || ls_operand_is_empty(block))
        return false;
    const ls_range whole = ls_view_range(&block->view, block->offset),
                   part = ls_view_range(&operand->view, operand->offset);
    return ls_range_covers(&whole, &part);
}

bool ls_block_gives(const ls_operand *block, uint64_t transfer, const ls_operand *operand) {
    return ls_block_has(block, operand) &&
           ls_name_in_place(&operand->view, transfer, operand->offset - block->offset) == operand->value;
}

const ls_instr *ls_borrow_of(const ls_program *p, const ls_uses *uses, const ls_operand *operand) {
    for (int u = 0; u < uses->first[LS_SIDES * p->n_channels]; u++) {
        const ls_instr *borrow = uses->list[u].instr < 0 ? NULL : &p->instrs[uses->list[u].instr];
        if (borrow != NULL && borrow->kind == LS_INSTR_BORROW &&
            ls_block_gives(&borrow->out[0], borrow->transfer, operand))
            return borrow;
    }
    return NULL;
}

ls_range ls_block_part(const ls_operand *block, const ls_range *lies, const ls_operand *operand) {
    return ls_view_range(&operand->view, lies->offset + operand->offset - block->offset);
}
