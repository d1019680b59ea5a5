/* Whether every read finds the value that it names. */
#include "program/name.h"
#include "program/verify_impl.h"

void ls_bytes_begin(ls_bytes *bytes) { bytes->began = bytes->accesses; }

static ls_status another_value(const ls_bytes *bytes, int buffer, ls_point at, const char *why, const ls_access *by) {
    char writer[96] = "";
    if (by != NULL)
        snprintf(writer, sizeof writer, " (by rank %d, %s instruction %d)", by->start.rank,
                 bytes->image->programs[by->start.program].name, by->start.instr);
    return ls_error(LS_INVALID,
                    "program rejected: rank %d, %s instruction %d (%s) does not find its value in \"%s\": %s%s",
                    bytes->rank, bytes->image->programs[at.program].name, at.instr, at.op,
                    bytes->image->buffers[buffer].name, why, writer);
}

/* Whether the access is a write of this rank to this buffer in the current program. */
static bool is_part(const ls_bytes *bytes, const ls_access *access, int buffer) {
    return access->writes && access->order > bytes->began && access->buffer == buffer &&
           access->start.rank == bytes->rank;
}

static ls_access *near(const ls_bytes *bytes, int i) { return (ls_access *)bytes->near.item[i]; }

/*
 * Moves to the front of `near` the writes that share bytes with the current query: first the parts of the value, whose
 * number is returned, then the other writes.
 */
static int find_parts(ls_bytes *bytes, int buffer) {
    int n = 0, parts = 0;
    for (int i = 0; i < bytes->near.n; i++) {
        ls_interval *item = bytes->near.item[i];
        const ls_access *a = (const ls_access *)item;
        /* A peer's put into a slot of this rank counts as the write of the receive: it is no value of its own. */
        if (a->opened && a->start.rank == bytes->rank) continue;
        const bool part = is_part(bytes, a, buffer);
        const bool meets = part ? ls_extents_meet(bytes->image, &a->extent, &bytes->asked_extent)
                                : ls_range_overlap(&a->range, &bytes->asked);
        if (!a->writes || !meets) continue;
        bytes->near.item[n++] = item;
        if (!part) continue;
        bytes->near.item[n - 1] = bytes->near.item[parts];
        bytes->near.item[parts++] = item;
    }
    bytes->near.n = n;
    return parts;
}

/*
 * A write that is no part of the value but overlaps the range, and that is not followed by every part that it overlaps;
 * or NULL.
 */
static const ls_access *intruder(const ls_bytes *bytes, int buffer, int parts) {
    const bool persistent = bytes->image->buffers[buffer].program < 0;
    for (int k = parts; k < bytes->near.n; k++) {
        const ls_access *a = near(bytes, k);
        if (persistent && a->order > bytes->began) return a;
        for (int i = 0; i < parts && !persistent; i++) {
            if (a->order > near(bytes, i)->order && ls_range_overlap(&a->range, &near(bytes, i)->range)) return a;
        }
    }
    return NULL;
}

/*
 * The later of two overlapping parts that happened in another order than that of emission; NULL: there are none. Parts
 * are ordered by their starts, as they were found.
 */
static const ls_access *disorder(const ls_bytes *bytes, int parts) {
    for (int i = 0; i < parts; i++) {
        const ls_access *a = near(bytes, i);
        for (int j = i + 1; j < parts && near(bytes, j)->place.from < a->place.past; j++) {
            const ls_access *b = near(bytes, j);
            if ((a->start.key < b->start.key) != (a->order < b->order) && ls_range_overlap(&a->range, &b->range))
                return a->start.key < b->start.key ? a : b;
        }
    }
    return NULL;
}

ls_status ls_bytes_expect(ls_bytes *bytes, int buffer, uint64_t name, uint64_t expected, ls_point at) {
    const ls_buffer *b = &bytes->image->buffers[buffer];
    const ls_range *range = &bytes->asked_extent.range;
    const int parts = find_parts(bytes, buffer);
    if (b->program < 0) name += ls_name_entry(range->offset - b->offset);
    for (int i = 0; i < parts; i++)
        name += ls_name_part(near(bytes, i)->start.key, &near(bytes, i)->extent.range, range);
    if (name != expected)
        return another_value(bytes, buffer, at, "other instructions have written there",
                             parts > 0 ? near(bytes, 0) : NULL);
    if (parts == 0 && b->program >= 0) return another_value(bytes, buffer, at, "nothing has written there", NULL);
    const ls_access *late = disorder(bytes, parts);
    if (late != NULL) return another_value(bytes, buffer, at, "it was written in another order", late);
    late = intruder(bytes, buffer, parts);
    if (late != NULL) return another_value(bytes, buffer, at, "it was overwritten", late);
    return ls_ok();
}
