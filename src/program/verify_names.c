/* Whether every read finds the value that it names. */
#include "program/name.h"
#include "program/verify_impl.h"

void ls_bytes_begin(ls_bytes *bytes) { bytes->began = bytes->accesses; }

static ls_status another_value(const ls_bytes *bytes, int buffer, ls_point at, const char *why,
                               const ls_access *by) {
    char writer[96] = "";
    if (by != NULL)
        snprintf(writer, sizeof writer, " (by rank %d, %s instruction %d)", by->start.rank,
                 ls_program_name(by->start.program), by->start.instr);
    return ls_error(
        LS_INVALID,
        "program rejected: rank %d, %s instruction %d (%s) does not find its value in \"%s\": %s%s",
        bytes->image->rank, ls_program_name(at.program), at.instr, at.op, bytes->image->buffers[buffer].name,
        why, writer);
}

/* A write of this rank to the buffer itself, in the present program. */
static bool is_part(const ls_bytes *bytes, const ls_access *access, int buffer) {
    return access->writes && access->order > bytes->began && access->operand.buffer == buffer &&
           access->start.rank == bytes->image->rank;
}

static void push(ls_bytes *bytes, int *n, ls_access *access) {
    *LS_PUSH(bytes->arena, bytes->found, *n, bytes->room) = access;
}

/* The parts, found[0 .. returned): writes to the buffer that share bytes with the range. */
static int find_parts(ls_bytes *bytes, int buffer, const ls_range *range) {
    const size_t past = ls_range_end(range);
    int n = 0;
    for (ls_access *a = bytes->history[buffer]; a != NULL; a = a->next) {
        if (a->range.offset >= past || range->offset >= a->past) continue;
        if (is_part(bytes, a, buffer) && ls_range_overlap(&a->range, range)) push(bytes, &n, a);
    }
    return n;
}

/* A write that is no part but meets the range, and is not followed by every part that it meets; or NULL. */
static const ls_access *intruder(const ls_bytes *bytes, int buffer, const ls_range *range, int parts) {
    const bool persistent = bytes->image->buffers[buffer].program < 0;
    uint64_t first =
        persistent ? bytes->began : UINT64_MAX; /* an earlier one than all parts cannot intrude */
    for (int i = 0; i < parts; i++) {
        if (bytes->found[i]->order < first) first = bytes->found[i]->order;
    }
    for (const int *n = bytes->neighbours[buffer]; *n >= 0; n++) {
        for (const ls_access *a = bytes->history[*n]; a != NULL; a = a->next) {
            if (!a->writes || a->order <= first || is_part(bytes, a, buffer)) continue;
            if (!ls_range_overlap(&a->range, range)) continue;
            if (persistent) return a;
            for (int i = 0; i < parts; i++) {
                if (a->order > bytes->found[i]->order && ls_range_overlap(&a->range, &bytes->found[i]->range))
                    return a;
            }
        }
    }
    return NULL;
}

/* Two parts that meet in another order than that of emission; NULL when there are none. */
static const ls_access *disorder(const ls_bytes *bytes, int parts) {
    for (int i = 0; i < parts; i++) {
        for (int j = 0; j < parts; j++) {
            const ls_access *a = bytes->found[i], *b = bytes->found[j];
            if (a->start.key < b->start.key && a->order > b->order && ls_range_overlap(&a->range, &b->range))
                return a;
        }
    }
    return NULL;
}

ls_status ls_bytes_expect(ls_bytes *bytes, int buffer, const ls_range *range, uint64_t name,
                          uint64_t expected, ls_point at) {
    const ls_buffer *b = &bytes->image->buffers[buffer];
    const int parts = find_parts(bytes, buffer, range);
    if (b->program < 0) name += ls_name_entry(range->offset - b->offset);
    for (int i = 0; i < parts; i++)
        name += ls_name_part(bytes->found[i]->start.key, &bytes->found[i]->range, range);
    if (name != expected)
        return another_value(bytes, buffer, at, "other instructions have written there",
                             parts > 0 ? bytes->found[0] : NULL);
    const ls_access *late = disorder(bytes, parts);
    if (late != NULL) return another_value(bytes, buffer, at, "it was written in another order", late);
    late = intruder(bytes, buffer, range, parts);
    if (late != NULL) return another_value(bytes, buffer, at, "it was overwritten", late);
    return ls_ok();
}
