/*
 * Histories of bytes. An entry is dropped when a later write covers it: whoever is ordered after that write is ordered after
 * the entry too.
 */
#include "program/verify_impl.h"

#include "program/name.h"

static bool share_bytes(const ls_buffer *a, const ls_buffer *b) {
    return a->space == b->space && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static bool placed(const ls_buffer *b) { return b->bytes > 0 && (b->program < 0 || b->first >= 0); }

void ls_bytes_create(ls_bytes *bytes, const ls_image *image, ls_arena *arena) {
    const int n = image->n_buffers;
    *bytes = (ls_bytes){.image = image,
                        .arena = arena,
                        .history = LS_NEW_ARRAY(arena, ls_access *, n),
                        .neighbours = LS_NEW_ARRAY(arena, int *, n),
                        .symmetric = LS_NEW_ARRAY(arena, int, n + 1),
                        .ordinal = LS_NEW_ARRAY(arena, int, n)};
    int *found = LS_NEW_ARRAY(arena, int, n + 1);
    for (int i = 0, heap = 0; i < n; i++) {
        int k = 0;
        for (int j = 0; j < n; j++) {
            const ls_buffer *a = &image->buffers[i], *b = &image->buffers[j];
            if (placed(a) && placed(b) && share_bytes(a, b)) found[k++] = j;
        }
        found[k++] = -1;
        bytes->neighbours[i] = ls_arena_copy(arena, found, sizeof *found * (size_t)k);
        if (image->buffers[i].space != LS_SYMMETRIC) continue;
        bytes->symmetric[heap] = i;
        bytes->ordinal[i] = heap++;
    }
}

ls_operand ls_bytes_translate(const ls_bytes *from, const ls_bytes *to, const ls_operand *operand) {
    ls_operand there = *operand;
    if (operand->buffer >= 0) there.buffer = to->symmetric[from->ordinal[operand->buffer]];
    return there;
}

void ls_access_seen(ls_access *access, ls_point at) {
    if (access->n_end < (int)LS_COUNT(access->end)) access->end[access->n_end++] = at;
}

static bool is_over(const ls_access *access, const uint32_t *clock) {
    for (int i = 0; i < access->n_end; i++) {
        if (clock[access->end[i].queue] >= access->end[i].tick) return true;
    }
    return false;
}

static ls_status race(const ls_bytes *bytes, const ls_access *earlier, const ls_access *later) {
    const ls_image *image = bytes->image;
    return ls_error(
        LS_INVALID,
        "program rejected: race in the memory of rank %d: %s of \"%s\" by rank %d, %s instruction %d (%s), and "
        "%s of \"%s\" by rank %d, %s instruction %d (%s) are not ordered (bytes %zu..%zu and %zu..%zu of the %s)",
        image->rank, earlier->writes ? "write" : "read", image->buffers[earlier->operand.buffer].name,
        earlier->start.rank, ls_program_name(earlier->start.program), earlier->start.instr, earlier->start.op,
        later->writes ? "write" : "read", image->buffers[later->operand.buffer].name, later->start.rank,
        ls_program_name(later->start.program), later->start.instr, later->start.op, earlier->range.offset,
        ls_range_end(&earlier->range), later->range.offset, ls_range_end(&later->range),
        image->buffers[later->operand.buffer].space == LS_SYMMETRIC ? "heap" : "private arena");
}

/* Compares with the history of one buffer and drops what the new access makes irrelevant. */
static ls_status compare(ls_bytes *bytes, int buffer, const ls_access *later, const uint32_t *clock) {
    for (ls_access **link = &bytes->history[buffer]; *link != NULL;) {
        ls_access *earlier = *link;
        if (!ls_accesses_near(earlier, later)) {
            link = &earlier->next;
            continue;
        }
        const bool over = is_over(earlier, clock);
        if (!over && (earlier->writes || later->writes) && ls_range_overlap(&earlier->range, &later->range))
            return race(bytes, earlier, later);
        if (over && later->n_end > 0 && (later->writes || !earlier->writes) &&
            ls_range_covers(&later->range, &earlier->range) &&
            (later->writes || later->start.queue == earlier->start.queue)) {
            *link = earlier->next;
            if (earlier->opened) continue;
            earlier->next = bytes->free_accesses;
            bytes->free_accesses = earlier;
        } else {
            link = &earlier->next;
        }
    }
    return ls_ok();
}

ls_status ls_bytes_touch(ls_bytes *bytes, const ls_operand *operand, bool writes, ls_point at,
                         const uint32_t *clock, bool open, ls_access **out) {
    ls_access access = {.operand = *operand,
                        .range = ls_operand_range(bytes->image, operand),
                        .writes = writes,
                        .opened = open,
                        .order = ++bytes->accesses,
                        .start = at,
                        .end = {at},
                        .n_end = open ? 0 : 1};
    access.past = ls_range_end(&access.range);
    for (const int *n = bytes->neighbours[operand->buffer]; *n >= 0; n++)
        LS_TRY(compare(bytes, *n, &access, clock));
    ls_access *kept = bytes->free_accesses;
    if (kept != NULL)
        bytes->free_accesses = kept->next;
    else
        kept = LS_NEW(bytes->arena, ls_access);
    *kept = access;
    kept->next = bytes->history[operand->buffer];
    bytes->history[operand->buffer] = kept;
    if (out != NULL) *out = kept;
    return ls_ok();
}
