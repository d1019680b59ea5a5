/*
 * Binds the masks of attention nodes: each mask once, for the queries of this rank's block, with memory for its spans,
 * which the host writes.
 */
#include "compile/attention/attention.h"

ls_mask_binding ls_mask_of(const ls_builder *b, int n) {
    const ls_node_slot *slot = b->sharding->slots.node;
    const int slices = b->image->slices, at = slot != NULL ? slot[n].micro : 0;
    return (ls_mask_binding){.mask = *ls_node_mask(&b->job->graph->nodes[n]),
                             .micro = b->job->n_documents > 0 ? at / slices : 0,
                             .slice = at % slices,
                             .keys = at % slices};
}

int ls_find_mask(const ls_builder *b, const ls_mask_binding *wanted) {
    const ls_mask_binding *list = b->image->masks;
    int m = 0;
    while (m < b->image->n_masks && (list[m].micro != wanted->micro || list[m].slice != wanted->slice ||
                                     list[m].keys != wanted->keys || !ls_mask_equal(&list[m].mask, &wanted->mask)))
        m++;
    return m;
}

/* Binds a mask for the queries of block `ring`, with memory for their spans. */
static void place_spans(ls_builder *b, const ls_mask_binding *wanted, int64_t B, int ring) {
    ls_image *image = b->image;
    const int U = ls_block_members(b);
    ls_mask_binding *mask = LS_PUSH(image->arena, image->masks, image->n_masks, image->mask_capacity);
    *mask = *wanted;
    for (int i = 0; i < mask->mask.n; i++) {
        ls_mask_term *term = &mask->mask.term[i];
        if (term->kind == LS_MASK_DOCUMENTS)
            term->ends = ls_arena_copy(image->arena, term->ends, sizeof *term->ends * (size_t)term->n_ends);
    }
    mask->query_start = ls_layout_start(&image->layout, ring * U);
    mask->query_count = ls_layout_start(&image->layout, (ring + 1) * U) - mask->query_start;
    mask->spans = ls_build_private(b, LS_BUFFER_TABLE, "spans", LS_I32, 3,
                                   (int64_t[]){B, mask->query_count, 2 * ls_mask_width(&mask->mask)});
}

/* Whether some query of the binding's slice sees a key of slice `keys`. */
static bool sees(const ls_builder *b, const ls_mask_binding *of, int keys) {
    const int64_t S = b->image->layout.S;
    for (int64_t i = of->slice * S; i < (of->slice + 1) * S; i++) {
        ls_span seen[LS_MASK_SPANS];
        const int n = ls_mask_spans(&of->mask, ls_image_tokens(b->image), i, seen);
        for (int k = 0; k < n; k++)
            if (seen[k].lo < seen[k].hi && seen[k].lo < (keys + 1) * S && seen[k].hi > keys * S) return true;
    }
    return false;
}

/* Binds the same spans for the keys of earlier slices of which the queries see something. */
static void place_earlier(ls_builder *b) {
    ls_image *image = b->image;
    const ls_mask_binding own = image->masks[image->n_masks - 1];
    for (int keys = 0; keys < own.slice; keys++) {
        if (!sees(b, &own, keys)) continue;
        ls_mask_binding *mask = LS_PUSH(image->arena, image->masks, image->n_masks, image->mask_capacity);
        *mask = own;
        mask->keys = keys;
    }
}

void ls_place_masks(ls_builder *b, int n, int blocks) {
    const ls_node *node = &b->job->graph->nodes[n];
    const ls_mask_binding wanted = ls_mask_of(b, n);
    if (ls_find_mask(b, &wanted) < b->image->n_masks) return;
    int64_t q[LS_MAX_DIMS];
    ls_local_size(b, node->in[LS_ATTENTION_Q], q);
    for (int h = 0; h < blocks; h++) place_spans(b, &wanted, q[0], (ls_ring_index(b) + h) % ls_blocks(b));
    place_earlier(b);
}
