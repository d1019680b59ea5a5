/* Blocks of other ranks that are leased and read in place. */
#include "program/verify_impl.h"

/*
 * A block may be leased over a channel while the last one over it is still being read, since the copy queue runs ahead.
 */
void ls_lease_begin(ls_leases *leases, ls_arena *arena, ls_lease lease) {
    for (int i = 0; i < leases->n; i++) {
        const ls_lease *l = &leases->list[i];
        if (l->channel != lease.channel || l->block->buffer != lease.block->buffer ||
            memcmp(&l->range, &lease.range, sizeof l->range) != 0)
            continue;
        leases->list[i] = lease;
        return;
    }
    *LS_PUSH(arena, leases->list, leases->n, leases->room) = lease;
}

static ls_status refused(const ls_bytes *owner, ls_point at, const char *why) {
    return ls_error(LS_INVALID, "program rejected: rank %d, %s instruction %d (%s): %s", at.rank,
                    owner->image->programs[at.program].name, at.instr, at.op, why);
}

/* Whether the bytes have been written after they were leased. */
static bool written_since(const ls_bytes *owner, uint64_t order) {
    for (int i = 0; i < owner->near.n; i++) {
        const ls_access *a = (const ls_access *)owner->near.item[i];
        if (a->writes && a->order > order && ls_range_overlap(&a->range, &owner->asked)) return true;
    }
    return false;
}

const ls_lease *ls_lease_find(const ls_leases *leases, const ls_operand *operand) {
    const ls_lease *found = NULL;
    for (int i = 0; i < leases->n; i++) {
        const ls_lease *l = &leases->list[i];
        if (ls_block_gives(l->block, l->transfer, operand)) return l;
        if (ls_block_has(l->block, operand)) found = l;
    }
    return found;
}

ls_status ls_lease_expect(const ls_lease *lease, const ls_bytes *owner, const ls_operand *operand, ls_point at) {
    if (!ls_block_gives(lease->block, lease->transfer, operand))
        return refused(owner, at, "the block that it reads in place is not the value that it names");
    if (written_since(owner, lease->order))
        return refused(owner, at, "the block that it reads in place was overwritten after it was leased");
    return ls_ok();
}
