/*
 * Slices of a sequence, which are computed one after the other (compile/pipeline/slice.c). Queries of a slice meet the
 * keys of their own slice and of each slice before it, whose sites still have them; partial results merge by
 * log-sum-exp as those of blocks do. The backward pass begins with the last slice, so the gradients of a slice's keys
 * and values are complete when it is the slice's turn. Until then the contributions of later slices are carried: in
 * type G, and in the form in which they are made, so that they are exchanged between the ranks of a block only once.
 */
#include "compile/attention/attention.h"

/*
 * The index of the mask between queries of a site and the keys of a slice of the same sequence; n_masks: they see none.
 */
static int mask_between(const ls_builder *b, const ls_site *site, const ls_site *keys) {
    const ls_mask_binding *own = &b->image->masks[site->mask];
    return ls_find_mask(
        b, &(ls_mask_binding){
               .mask = own->mask, .micro = own->micro, .slice = own->slice, .keys = b->image->masks[keys->mask].slice});
}

ls_site *ls_slice_before(const ls_builder *b, const ls_site *site, const ls_site *keys) {
    ls_site *at = keys->before;
    while (at != NULL && mask_between(b, site, at) == b->image->n_masks) at = at->before;
    return at;
}

ls_site ls_site_with(const ls_builder *b, const ls_site *site, const ls_site *keys) {
    ls_site with = *site;
    if (keys == site) return with;
    with.k = keys->k;
    with.v = keys->v;
    with.mask = mask_between(b, site, keys);
    with.params.merge = with.params.accumulate_dq = true;
    return with;
}

bool ls_slice_is_carried(const ls_site *site) { return site->carried[LS_KEYS].buffer >= 0; }

void ls_slice_room(ls_builder *b, ls_site *keys, ls_operand room[LS_KV]) {
    static const char *const name[LS_KV] = {"dk carried", "dv carried"};
    const bool there = ls_slice_is_carried(keys);
    for (int i = 0; i < LS_KV; i++) {
        if (!there) {
            keys->carried[i] = ls_build_private(b, LS_BUFFER_ACTIVATION, name[i], b->image->accumulator, 4,
                                                ls_site_held(keys, i)->view.size);
            ls_build_fill(b, keys->carried[i]);
        }
        room[i] = keys->carried[i];
    }
}

void ls_slice_carry(ls_builder *b, ls_site *keys, const ls_operand part[LS_KV]) {
    ls_operand room[LS_KV];
    ls_slice_room(b, keys, room);
    for (int i = 0; i < LS_KV; i++) ls_build_accumulate(b, part[i], room[i]);
}
