#include "base/range_impl.h"

#include <string.h>

ls_pieces ls_range_pieces(const ls_range *range) {
    ls_pieces p = {.offset = (int64_t)range->offset, .length = (int64_t)range->length};
    if (ls_range_bytes(range) == 0) p.length = 0;
    for (int d = 0; d < LS_RANGE_DIMS && p.length > 0; d++) {
        const int64_t count = range->count[d], stride = range->stride[d];
        if (count == 1) continue;
        if (p.dims == 0 && stride == p.length) { /* the pieces touch: one longer piece */
            p.length *= count;
        } else if (p.dims > 0 &&
                   stride == p.stride[p.dims - 1] * p.count[p.dims - 1]) { /* one longer row of pieces */
            p.count[p.dims - 1] *= count;
        } else {
            p.count[p.dims] = count;
            p.stride[p.dims++] = stride;
        }
    }
    return p;
}

size_t ls_range_bytes(const ls_range *range) {
    if (ls_range_is_flat(range)) return range->length;
    size_t bytes = range->length;
    for (int d = 0; d < LS_RANGE_DIMS; d++) bytes *= range->count[d] > 0 ? (size_t)range->count[d] : 0;
    return bytes;
}

size_t ls_range_end_of_pieces(const ls_range *range) {
    if (ls_range_bytes(range) == 0) return range->offset;
    int64_t end = (int64_t)(range->offset + range->length);
    for (int d = 0; d < LS_RANGE_DIMS; d++) end += ls_max(0, range->stride[d] * (range->count[d] - 1));
    return (size_t)end;
}

/* Walks the pieces of a range in the order of its definition: innermost pair fastest. */
typedef struct piece_cursor {
    const ls_pieces *range;
    int64_t index[LS_RANGE_DIMS];
    int64_t start; /* of the current piece */
    int64_t done;  /* bytes of it that are behind us */
} piece_cursor;

static void cursor_advance(piece_cursor *cursor, int64_t bytes) {
    const ls_pieces *range = cursor->range;
    cursor->done += bytes;
    if (cursor->done < range->length) return;
    cursor->done = 0;
    for (int d = 0; d < range->dims; d++) {
        cursor->start += range->stride[d];
        if (++cursor->index[d] < range->count[d]) return;
        cursor->start -= range->stride[d] * range->count[d];
        cursor->index[d] = 0;
    }
}

static piece_cursor cursor_at_start(const ls_pieces *range) {
    return (piece_cursor){.range = range, .start = range->offset};
}

static int64_t bytes_left_in_piece(const piece_cursor *cursor) {
    return cursor->range->length - cursor->done;
}

void ls_range_copy(void *target, const ls_range *to, const void *source, const ls_range *from) {
    const size_t bytes = ls_range_bytes(to);
    LS_ASSERT(bytes == ls_range_bytes(from));
    const ls_pieces to_pieces = ls_range_pieces(to), from_pieces = ls_range_pieces(from);
    piece_cursor out = cursor_at_start(&to_pieces), in = cursor_at_start(&from_pieces);
    for (int64_t left = (int64_t)bytes; left > 0;) {
        const int64_t n = ls_min(bytes_left_in_piece(&out), bytes_left_in_piece(&in));
        memcpy((char *)target + out.start + out.done, (const char *)source + in.start + in.done, (size_t)n);
        cursor_advance(&out, n);
        cursor_advance(&in, n);
        left -= n;
    }
}
