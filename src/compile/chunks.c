/*
 * Canonical sums: the same bits for any number of ranks. A sequence is cut into chunks, whose number depends only on
 * its length, and every rank that shares the sequence holds whole chunks. Token-wise work is one call for each chunk,
 * so kernels are called with the same shapes on any number of ranks. A sum over tokens is taken within each chunk, then
 * over the chunks of a sequence along a binary tree, then over the sequences of a step one after the other
 * (docs/decisions/canonical-sums.md).
 */
#include "compile/compile_impl.h"

#include <string.h>

/* A chunk has at least SHORT tokens; if a sequence has more than FEW chunks, at least LONG. */
enum { SHORT = 16, LONG = 2048, FEW = 32 };

int ls_chunk_count(int64_t S) {
    int n = 1;
    while (S / (2 * n) >= (n < FEW ? SHORT : LONG)) n *= 2;
    return n;
}

ls_chunks ls_chunks_of(const ls_builder *b, int part, int parts) {
    const int each = ls_chunk_count(b->image->layout.S) / parts;
    return (ls_chunks){part * each, each};
}

ls_chunks ls_my_chunks(const ls_builder *b) {
    const ls_mesh *mesh = &b->target->mesh;
    return ls_chunks_of(b, ls_mesh_sequence_index(mesh, b->target->rank), ls_mesh_sequence_ranks(mesh));
}

int64_t ls_chunk_start(const ls_builder *b, int chunk) {
    const int64_t S = b->image->layout.S;
    return ls_part_start(S, ls_chunk_count(S), chunk);
}

/* --- sums along a tree -------------------------------------------------------------------------------------------- */

/*
 * A node of the tree has the memory of its leftmost leaf. The leaf of chunk i, for i > 0, is in the `room` that belongs
 * to the largest power of two that divides i. Nodes that exist at the same time belong to different powers.
 */
struct ls_sum_part {
    ls_operand room;
    int64_t start, end; /* indices in the dimension whose elements are set; the others count as zeros */
};

static ls_sum_part *part_of(const ls_chunk_sum *s, int chunk) {
    int room = 0;
    for (; chunk > 0 && room == 0; room++) {
        while (chunk % 2 == 0) {
            chunk /= 2;
            room++;
        }
    }
    return &s->part[room];
}

ls_chunk_sum ls_chunk_sum_begin(ls_builder *b, const char *name, ls_operand sum, int dim, int chunks) {
    int rooms = 1;
    for (int n = 1; n < chunks; n *= 2) rooms++;
    ls_chunk_sum s = {dim, LS_NEW_ARRAY(b->image->arena, ls_sum_part, rooms)};
    s.part[0].room = sum;
    for (int i = 1; i < rooms; i++)
        s.part[i].room = ls_build_private(b, LS_BUFFER_GRADIENT, name, sum.view.dtype, sum.view.ndim, sum.view.size);
    return s;
}

ls_operand ls_chunk_sum_addend(const ls_chunk_sum *s, int chunk) { return part_of(s, chunk)->room; }

/* Extends the elements that are set to start .. end - 1, with zeros. */
static void widen(ls_builder *b, const ls_chunk_sum *s, ls_sum_part *p, int64_t start, int64_t end) {
    if (start < p->start) ls_build_fill(b, ls_operand_slice(p->room, s->dim, start, p->start - start));
    if (end > p->end) ls_build_fill(b, ls_operand_slice(p->room, s->dim, p->end, end - p->end));
    p->start = ls_min(p->start, start);
    p->end = ls_max(p->end, end);
}

void ls_chunk_sum_add(ls_builder *b, const ls_chunk_sum *s, int chunk, int64_t start, int64_t end) {
    ls_sum_part *last = part_of(s, chunk);
    last->start = start;
    last->end = end;
    for (int width = 1; chunk % (2 * width) == width; chunk -= width, width *= 2) {
        const ls_sum_part *right = part_of(s, chunk);
        ls_sum_part *left = part_of(s, chunk - width);
        widen(b, s, left, right->start, right->end);
        ls_build_accumulate(b, ls_operand_slice(right->room, s->dim, right->start, right->end - right->start),
                            ls_operand_slice(left->room, s->dim, right->start, right->end - right->start));
    }
}

void ls_chunk_sum_end(ls_builder *b, const ls_chunk_sum *s) {
    widen(b, s, &s->part[0], 0, s->part[0].room.view.size[s->dim]);
}

/* --- what cannot have canonical sums ------------------------------------------------------------------------------ */

ls_status ls_canonical_parse(const char *name, bool *out) {
    *out = name != NULL && strcmp(name, "canonical") == 0;
    if (*out || name == NULL || strcmp(name, "fast") == 0) return ls_ok();
    return ls_error(LS_USAGE, "--sums %s; expected fast or canonical", name);
}

ls_status ls_canonical_check(const ls_target *target, const ls_layout *layout, int64_t sequences) {
    const ls_mesh *mesh = &target->mesh;
    const int ranks = ls_mesh_sequence_ranks(mesh), chunks = ls_chunk_count(layout->S);
    if (!target->canonical) return ls_ok();
    if (ls_mesh_stages(mesh) > 1)
        return ls_error(LS_USAGE, "--sums canonical: stages add up micro-batches in another order than one rank does; "
                                  "expected a mesh without pp");
    if (ls_mesh_axes(mesh, LS_AXIS_FEATURE) != 0) {
        char axes[64];
        ls_mesh_text(mesh, ls_mesh_axes(mesh, LS_AXIS_FEATURE), axes, sizeof axes);
        return ls_error(LS_USAGE,
                        "--sums canonical: products over heads and features are added up over the ranks of %s, in no "
                        "order that is the same for any number of them; expected a mesh without it",
                        axes);
    }
    if (ranks > 1 && layout->kind != LS_LAYOUT_CONTIGUOUS)
        return ls_error(LS_USAGE,
                        "--sums canonical cuts a sequence into chunks of neighbours: layout %s, expected "
                        "contiguous",
                        ls_layout_name(layout->kind));
    if (chunks % ranks != 0)
        return ls_error(LS_USAGE,
                        "--sums canonical cuts %lld tokens into %d chunks, which %d ranks cannot share; expected a "
                        "power of two, at most %d",
                        (long long)layout->S, chunks, ranks, chunks);
    if (sequences > 1)
        return ls_error(LS_USAGE,
                        "--sums canonical adds up sequence after sequence: %lld in a micro-batch of a replica, "
                        "expected 1 (--accumulate)",
                        (long long)sequences);
    if (!ls_target_shard(target)->gradients)
        return ls_error(LS_USAGE,
                        "--sums canonical adds each sequence to the gradients' sums: --shard %s, expected gradients or "
                        "parameters",
                        target->shard->name);
    return ls_ok();
}
