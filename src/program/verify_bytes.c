/*
 * Histories of accesses to bytes. An access is dropped when a later write covers it: everything that is ordered after
 * the write is also ordered after the access.
 */
#include "program/verify_impl.h"

#include "program/name.h"

void ls_bytes_create(ls_bytes *bytes, const ls_image *image, int rank, ls_arena *arena) {
    *bytes = (ls_bytes){.image = image, .rank = rank, .arena = arena, .near = {.arena = arena}};
}

void ls_bytes_ask(ls_bytes *bytes, ls_space space, ls_range range, ls_extent extent) {
    bytes->asked = range;
    bytes->asked_extent = extent;
    ls_intervals_find(&bytes->history[space], extent.range.offset, ls_extent_end(bytes->image, &extent), &bytes->near);
}

void ls_access_seen(ls_access *access, ls_point at) {
    if (access->n_end == LS_ACCESS_ENDS) return;
    access->end_queue[access->n_end] = (uint16_t)at.queue;
    access->end_tick[access->n_end++] = at.tick;
}

static bool is_over(const ls_access *access, const uint32_t *clock) {
    for (int i = 0; i < access->n_end; i++) {
        if (clock[access->end_queue[i]] >= access->end_tick[i]) return true;
    }
    return false;
}

static ls_status race(const ls_bytes *bytes, const ls_access *earlier, const ls_access *later) {
    const ls_image *image = bytes->image;
    return ls_error(
        LS_INVALID,
        "program rejected: race in the memory of rank %d: %s of \"%s\" by rank %d, %s instruction %d (%s), and "
        "%s of \"%s\" by rank %d, %s instruction %d (%s) are not ordered (bytes %zu..%zu and %zu..%zu of the %s)",
        bytes->rank, earlier->writes ? "write" : "read", image->buffers[earlier->buffer].name, earlier->start.rank,
        image->programs[earlier->start.program].name, earlier->start.instr, earlier->start.op,
        later->writes ? "write" : "read", image->buffers[later->buffer].name, later->start.rank,
        image->programs[later->start.program].name, later->start.instr, later->start.op, earlier->range.offset,
        ls_range_end(&earlier->range), later->range.offset, ls_range_end(&later->range),
        image->buffers[later->buffer].space == LS_SYMMETRIC ? "heap" : "private arena");
}

/*
 * Whether two accesses overlap. Two accesses by this rank are compared for all ranks of its class; an access by another
 * rank is compared by its bytes on this rank.
 */
static bool meet(const ls_bytes *bytes, const ls_access *a, const ls_access *b) {
    const bool own = a->start.rank == bytes->rank && b->start.rank == bytes->rank;
    return own ? ls_extents_meet(bytes->image, &a->extent, &b->extent) : ls_range_overlap(&a->range, &b->range);
}

/*
 * Whether the later access covers the earlier one; for two accesses by this rank on all ranks of its class, since names
 * do not depend on the rank.
 */
static bool covers(const ls_bytes *bytes, const ls_access *later, const ls_access *earlier) {
    const bool own = later->start.rank == bytes->rank && earlier->start.rank == bytes->rank;
    return own ? ls_extent_covers(bytes->image, &later->extent, &earlier->extent)
               : ls_range_covers(&later->range, &earlier->range);
}

/*
 * Whether everything that is ordered after `later` is also ordered after the earlier access, which can then be dropped.
 */
static bool replaces(const ls_bytes *bytes, const ls_access *later, const ls_access *earlier) {
    return later->n_end > 0 && (later->writes || !earlier->writes) && later->place.from <= earlier->place.from &&
           earlier->place.past <= later->place.past && (later->writes || later->start.queue == earlier->start.queue) &&
           covers(bytes, later, earlier);
}

static ls_access *new_access(ls_bytes *bytes) {
    ls_access *access = bytes->free_accesses;
    if (access == NULL) return LS_NEW(bytes->arena, ls_access);
    bytes->free_accesses = (ls_access *)access->place.left;
    return access;
}

static void forget(ls_bytes *bytes, ls_intervals *history, ls_access *access) {
    ls_intervals_remove(history, &access->place);
    if (access->opened) return;
    access->place.left = (ls_interval *)bytes->free_accesses;
    bytes->free_accesses = access;
}

/* Adds an access to the history, in place of an access with the same extent that it replaces, if there is one. */
static ls_access *keep(ls_bytes *bytes, ls_intervals *history, ls_access access, ls_access *in_place) {
    ls_access *kept = in_place != NULL ? in_place : new_access(bytes);
    if (in_place != NULL) access.place = in_place->place;
    *kept = access;
    if (in_place == NULL) ls_intervals_add(history, &kept->place);
    return kept;
}

static ls_status touch(ls_bytes *bytes, int buffer, ls_range range, ls_extent extent, bool writes, ls_point at,
                       const uint32_t *clock, bool open, ls_access **out) {
    const ls_space space = bytes->image->buffers[buffer].space;
    ls_intervals *history = &bytes->history[space];
    ls_bytes_ask(bytes, space, range, extent);
    ls_access access = {.place = {.from = extent.range.offset, .past = ls_extent_end(bytes->image, &extent)},
                        .end_tick = {at.tick},
                        .end_queue = {(uint16_t)at.queue},
                        .n_end = open ? 0 : 1,
                        .writes = writes,
                        .opened = open,
                        .range = range,
                        .extent = extent,
                        .order = ++bytes->accesses,
                        .start = at,
                        .buffer = buffer};
    ls_access *in_place = NULL;
    for (int i = 0; i < bytes->near.n; i++) {
        ls_access *earlier = (ls_access *)bytes->near.item[i];
        const bool over = is_over(earlier, clock);
        if (!over && (earlier->writes || writes) && meet(bytes, earlier, &access)) return race(bytes, earlier, &access);
        if (!over || !replaces(bytes, &access, earlier)) continue;
        const bool alike = earlier->place.from == access.place.from && earlier->place.past == access.place.past;
        if (alike && in_place == NULL && !earlier->opened)
            in_place = earlier;
        else
            forget(bytes, history, earlier);
    }
    ls_access *kept = keep(bytes, history, access, in_place);
    if (out != NULL) *out = kept;
    return ls_ok();
}

ls_status ls_bytes_touch(ls_bytes *bytes, const ls_operand *operand, bool writes, ls_point at, const uint32_t *clock,
                         bool open, ls_access **out) {
    const ls_range range = ls_operand_range(bytes->image, operand, bytes->rank);
    const ls_extent extent = ls_operand_extent(operand, bytes->image->buffers[operand->buffer].offset);
    return touch(bytes, operand->buffer, range, extent, writes, at, clock, open, out);
}

ls_status ls_bytes_touch_from(ls_bytes *bytes, int buffer, const ls_range *range, bool writes, ls_point at,
                              const uint32_t *clock, bool open, ls_access **out) {
    return touch(bytes, buffer, *range, (ls_extent){*range, 0}, writes, at, clock, open, out);
}
