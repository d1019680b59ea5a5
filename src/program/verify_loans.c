/* Blocks of other ranks that are read where they lie: lent and read. */
#include "program/name.h"
#include "program/verify_impl.h"

/* Another block may be lent over the same channel while the last one is still read: the copy queue runs ahead. */
void ls_loan_begin(ls_loans *loans, ls_arena *arena, ls_loan loan) {
    for (int i = 0; i < loans->n; i++) {
        const ls_loan *l = &loans->list[i];
        if (l->channel != loan.channel || memcmp(&l->range, &loan.range, sizeof l->range) != 0) continue;
        loans->list[i] = loan;
        return;
    }
    *LS_PUSH(arena, loans->list, loans->n, loans->room) = loan;
}

static ls_status refused(ls_point at, const char *why) {
    return ls_error(LS_INVALID, "program rejected: rank %d, %s instruction %d (%s): %s", at.rank,
                    ls_program_name(at.program), at.instr, at.op, why);
}

/* Whether someone has written to the bytes after they were lent. */
static bool written_since(const ls_bytes *owner, uint64_t order) {
    for (int i = 0; i < owner->near.n; i++) {
        const ls_access *a = (const ls_access *)owner->near.item[i];
        if (a->writes && a->order > order && ls_range_overlap(&a->range, &owner->asked)) return true;
    }
    return false;
}

ls_status ls_loan_expect(const ls_loans *loans, const ls_bytes *owner, const ls_operand *operand,
                         ls_point at) {
    const ls_range *range = &owner->asked;
    const char *why = "it reads a block of another rank that it has not been lent";
    for (int i = 0; i < loans->n; i++) {
        const ls_loan *l = &loans->list[i];
        if (l->owner != owner->image->rank || !ls_range_covers(&l->range, range)) continue;
        why = "the block that it reads in place is not the value that it names";
        const size_t behind = range->offset - l->range.offset;
        if (ls_name_in_place(&operand->view, l->transfer, behind) != operand->value) continue;
        if (!written_since(owner, l->order)) return ls_ok();
        why = "the block that it reads in place was overwritten after it was lent";
    }
    return refused(at, why);
}
