/* Checks of one instruction by itself: whether its operands are sound. Both verifiers use them. */
#include "program/in_place.h"
#include "program/verify_impl.h"

ls_status ls_instr_fault(const ls_image *image, int program, int rank, int instr, const char *what) {
    const ls_program *p = &image->programs[program];
    const ls_instr *i = &p->instrs[instr];
    return ls_error(LS_INVALID, "program rejected: rank %d, %s instruction %d (%s \"%s\", generation %llu): %s", rank,
                    p->name, instr, i->op, i->channel >= 0 ? p->channels[i->channel].name : "",
                    (unsigned long long)i->generation, what);
}

bool ls_operand_is_inside(const ls_image *image, const ls_operand *o) {
    if (ls_operand_is_empty(o)) return true;
    const ls_buffer *b = &image->buffers[o->buffer];
    const ls_extent extent = ls_operand_extent(o, b->offset);
    return extent.range.offset >= b->offset && ls_extent_end(image, &extent) <= b->offset + b->bytes;
}

static bool shares_bytes(const ls_image *image, const ls_operand *a, const ls_operand *b) {
    if (ls_operand_is_empty(a) || ls_operand_is_empty(b) || !ls_peer_equal(a->peer, b->peer)) return false;
    const ls_buffer *x = &image->buffers[a->buffer], *y = &image->buffers[b->buffer];
    return x->space == y->space && x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;
}

/*
 * The results of a kernel must not overlap its other operands, except where it works in place; its workspace must not
 * overlap any.
 */
static const char *find_clash(const ls_image *image, const ls_instr *instr) {
    for (int i = 0; i < ls_instr_operands(instr); i++) {
        const int other = i < instr->n_in ? i : LS_KERNEL_INPUTS + i - instr->n_in;
        const ls_operand *o = ls_instr_access_at(instr, i).operand;
        if (shares_bytes(image, o, instr->workspace)) return "an operand lies in its workspace";
        for (int k = 0; k < instr->n_out; k++) {
            const bool earlier = i >= instr->n_in && i - instr->n_in >= k; /* two outputs are compared once */
            if (!earlier && ls_instr_sharing(image, instr, k, other) == LS_CLASH)
                return "two of its operands share bytes";
        }
    }
    return NULL;
}

/* Operands that other ranks access must lie in the heap; a put must have as many bytes as its slot. */
static const char *find_mismatch(const ls_image *image, const ls_instr *instr) {
    const ls_instr_traits *t = ls_traits(instr);
    const ls_operand *subject = ls_instr_subject(instr);
    if (subject == NULL || subject->buffer < 0) return NULL;
    if ((t->opens || t->closes) && image->buffers[subject->buffer].space != LS_SYMMETRIC)
        return "it hands over private memory";
    if (instr->kind == LS_INSTR_PUT && ls_view_bytes(&instr->in[0].view) != ls_view_bytes(&instr->out[0].view))
        return "its slot has another number of bytes than it puts";
    return NULL;
}

/* A put of counted rows must read their number; it and its receive must have whole, consecutive rows. */
static const char *find_miscount(const ls_image *image, const ls_instr *instr) {
    const bool puts = instr->kind == LS_INSTR_PUT, counts = puts && instr->n_in > 1;
    if (instr->kind == LS_INSTR_KERNEL) return NULL;
    if (instr->counted > 0 && !puts && instr->kind != LS_INSTR_RECEIVE)
        return "it has counted rows, and transfers none";
    if (counts != (puts && instr->counted > 0)) return "it has a number of rows and no rows, or the other way round";
    if (instr->counted == 0) return NULL;
    const ls_view *rows = &ls_instr_subject(instr)->view;
    const ls_operand *count = counts ? &instr->in[1] : NULL;
    if (!ls_view_is_dense(rows) || (puts && !ls_view_is_dense(&instr->out[0].view)) ||
        ls_view_bytes(rows) % instr->counted != 0)
        return "its counted rows do not lie one behind the other";
    if (count == NULL) return NULL;
    if (count->buffer < 0 || count->view.dtype != LS_I32 || ls_view_elements(&count->view) != 1)
        return "the number of its rows is not one i32";
    return image->buffers[count->buffer].space == LS_HOST ? "the number of its rows lies in memory of the host" : NULL;
}

/*
 * Operands in another rank's memory must be in the heap. They must be inputs of kernels, or the subject of the borrow
 * or return of their block.
 */
static const char *find_misuse(const ls_image *image, const ls_instr *instr) {
    const bool in_place = ls_traits(instr)->in_place;
    if (in_place && !ls_peer_equal(ls_instr_subject(instr)->peer, instr->peer))
        return "the block that it is about is not its peer's";
    for (int i = 0; i < ls_instr_operands(instr); i++) {
        const ls_instr_access access = ls_instr_access_at(instr, i);
        const ls_operand *o = access.operand;
        if (o->buffer < 0 || ls_peer_is_self(o->peer)) continue;
        if (image->buffers[o->buffer].space != LS_SYMMETRIC) return "it names private memory of another rank";
        const bool reads = instr->kind == LS_INSTR_KERNEL && access.kind == LS_ACCESS_READ;
        if (!in_place && !reads) return "it uses another rank's memory otherwise than to read it";
    }
    return NULL;
}

/* Memory of the host may be accessed only by offloads and fetches. */
static const char *find_stray(const ls_image *image, const ls_instr *instr) {
    const ls_kernel_id kernel = instr->kind == LS_INSTR_KERNEL ? instr->kernel->id : LS_KERNEL_NONE;
    for (int i = 0; i < ls_instr_operands(instr); i++) {
        const ls_instr_access access = ls_instr_access_at(instr, i);
        if (ls_operand_is_empty(access.operand)) continue;
        const bool wanted = kernel == (access.kind == LS_ACCESS_READ ? LS_KERNEL_FETCH : LS_KERNEL_OFFLOAD);
        const bool is = image->buffers[access.operand->buffer].space == LS_HOST;
        if (is && !wanted) return "it uses memory of the host otherwise than to offload and fetch";
        if (wanted && !is) return "it offloads to memory of the device, or fetches from there";
    }
    return NULL;
}

/* No program may change memory that ranks have in common. */
static const char *find_change(const ls_image *image, const ls_instr *instr) {
    for (int i = 0; i < ls_instr_accesses(instr); i++) {
        const ls_instr_access access = ls_instr_access_at(instr, i);
        if (ls_operand_is_empty(access.operand) || !ls_access_writes(&access)) continue;
        if (image->buffers[access.operand->buffer].space == LS_COMMON)
            return "it writes what ranks of a host have in common";
    }
    return NULL;
}

const char *ls_instr_unsound(const ls_image *image, const ls_instr *instr) {
    const char *why = find_misuse(image, instr);
    if (why == NULL) why = find_mismatch(image, instr);
    if (why == NULL) why = find_miscount(image, instr);
    if (why == NULL) why = find_stray(image, instr);
    if (why == NULL) why = find_change(image, instr);
    for (int k = 0; k < ls_instr_accesses(instr) && why == NULL; k++)
        if (!ls_operand_is_inside(image, ls_instr_access_at(instr, k).operand))
            why = "it reaches outside of its buffer";
    return why == NULL && instr->kind == LS_INSTR_KERNEL ? find_clash(image, instr) : why;
}
