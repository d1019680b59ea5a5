/*
 * Slices of a sequence that are computed one after the other (compile/pipeline/slice.c). Queries of a slice meet the
 * keys of their own and of each slice before it, whose sites still have them; partial results merge by log-sum-exp as
 * those of blocks do. Slices go backward from the last one, so the gradients of a slice's keys and values are complete
 * when its own turn comes: what later slices have added is carried until then, in type G and in the form in which it is
 * made, so that it crosses the ranks of a block once.
 */
#include "compile/attention/attention.h"

/* The mask between queries of a site and the keys of a slice of its sequence; n_masks: it leaves nothing of them. */
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
