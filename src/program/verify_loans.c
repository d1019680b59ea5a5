/* Blocks of other ranks that are read where they lie: lent, read, given back. */
#include "program/name.h"
#include "program/verify_impl.h"

#include <string.h>

void ls_loan_begin(ls_loans *loans, ls_arena *arena, ls_loan loan) {
    *LS_PUSH(arena, loans->list, loans->n, loans->room) = loan;
}

static bool has_seen(const uint32_t *clock, ls_point point) { return clock[point.queue] >= point.tick; }

static ls_status refused(ls_point at, const char *why) {
    return ls_error(LS_INVALID, "program rejected: rank %d, %s instruction %d (%s): %s", at.rank,
                    ls_program_name(at.program), at.instr, at.op, why);
}

ls_status ls_loan_end(ls_loans *loans, int channel, const ls_range *range, ls_point at,
                      const uint32_t *clock) {
    for (int i = 0; i < loans->n; i++) {
        const ls_loan *l = &loans->list[i];
        if (l->channel != channel || memcmp(&l->range, range, sizeof *range) != 0) continue;
        if (!has_seen(clock, l->since)) continue;
        loans->list[i] = loans->list[--loans->n];
        return ls_ok();
    }
    return refused(at, "it gives back a block that its rank has not been lent");
}

/* A write to the bytes after they were lent, or NULL. */
static const ls_access *written_since(const ls_bytes *owner, int buffer, const ls_range *range,
                                      uint64_t order) {
    for (const int *n = owner->neighbours[buffer]; *n >= 0; n++) {
        for (const ls_access *a = owner->history[*n]; a != NULL; a = a->next) {
            if (a->writes && a->order > order && ls_range_overlap(&a->range, range)) return a;
        }
    }
    return NULL;
}

ls_status ls_loan_expect(const ls_loans *loans, const ls_bytes *owner, const ls_operand *operand,
                         const ls_range *range, ls_point at, const uint32_t *clock) {
    const char *why = "it reads a block of another rank that it has not been lent";
    for (int i = 0; i < loans->n; i++) {
        const ls_loan *l = &loans->list[i];
        if (l->owner != owner->image->rank || !has_seen(clock, l->since) ||
            !ls_range_covers(&l->range, range))
            continue;
        why = "the block that it reads in place is not the value that it names";
        const size_t behind = range->offset - l->range.offset;
        if (ls_name_in_place(&operand->view, l->transfer, behind) != operand->value) continue;
        if (written_since(owner, operand->buffer, range, l->order) == NULL) return ls_ok();
        why = "the block that it reads in place was overwritten after it was lent";
    }
    return refused(at, why);
}
