/*
 * Names: the value that every read must find, that is, which writes to the buffer made it; from the list in emission
 * order alone. Names are given before placement, so that the verifier can compare them with what lies at the final
 * addresses (program/name.h).
 */
#include "compile/compile_impl.h"
#include "kernel/kernel.h"
#include "program/program.h"

/* A write that no later write covers. */
typedef struct write {
    ls_interval place; /* from the extent's first byte to its last */
    int key;
    ls_extent extent; /* within its buffer */
} write;

/* A block of another rank that may be read: from the borrow to the return. */
typedef struct lease {
    struct lease *next;
    int channel;
    const ls_operand *block;
    uint64_t transfer;
} lease;

typedef struct naming {
    ls_image *image;
    ls_arena *scratch;
    lease *leases;
    ls_intervals *writes; /* by buffer */
    ls_interval_list near;
    write *free_writes; /* linked by place.left */
} naming;

/* Sets n->near to the writes to the buffer that may overlap the bytes. */
static void find_near(naming *n, int buffer, const ls_extent *extent) {
    ls_intervals_find(&n->writes[buffer], extent->range.offset, ls_extent_end(n->image, extent), &n->near);
}

/* The name of the current value of these bytes of the buffer. */
static uint64_t name_of(naming *n, int buffer, const ls_extent *extent, uint64_t name) {
    if (n->image->buffers[buffer].program < 0) name += ls_name_entry(extent->range.offset);
    find_near(n, buffer, extent);
    for (int i = 0; i < n->near.n; i++) {
        const write *w = (const write *)n->near.item[i];
        if (ls_extents_meet(n->image, &w->extent, extent))
            name += ls_name_part(w->key, &w->extent.range, &extent->range);
    }
    return name;
}

/*
 * The name of a value in a leased block. The owner's name for it is not known here, so the transfer of the lease stands
 * for it.
 */
static uint64_t name_in_place(const naming *n, const ls_operand *o) {
    for (const lease *l = n->leases; l != NULL; l = l->next) {
        if (ls_block_has(l->block, o)) return ls_name_in_place(&o->view, l->transfer, o->offset - l->block->offset);
    }
    LS_ASSERT(false); /* lowering reads a block that is not leased */
    return 0;
}

static void name_read(naming *n, ls_operand *o) {
    if (ls_operand_is_empty(o)) return;
    const ls_extent extent = ls_operand_extent(o, 0);
    o->value = ls_peer_is_self(o->peer) ? name_of(n, o->buffer, &extent, ls_name_begin(&o->view)) : name_in_place(n, o);
}

static void record(naming *n, const ls_operand *o, int key) {
    if (ls_operand_is_empty(o) || !ls_peer_is_self(o->peer)) return;
    const ls_extent extent = ls_operand_extent(o, 0);
    find_near(n, o->buffer, &extent);
    for (int i = 0; i < n->near.n; i++) {
        write *earlier = (write *)n->near.item[i];
        if (!ls_extent_covers(n->image, &extent, &earlier->extent)) continue;
        ls_intervals_remove(&n->writes[o->buffer], &earlier->place);
        earlier->place.left = (ls_interval *)n->free_writes;
        n->free_writes = earlier;
    }
    write *w = n->free_writes;
    if (w != NULL)
        n->free_writes = (write *)w->place.left;
    else
        w = LS_NEW(n->scratch, write);
    *w = (write){
        .place = {.from = extent.range.offset, .past = ls_extent_end(n->image, &extent)}, .key = key, .extent = extent};
    ls_intervals_add(&n->writes[o->buffer], &w->place);
}

static uint64_t transfer_of(const ls_program *p, const ls_instr *instr) {
    if (instr->channel < 0 || ls_traits(instr)->free) return 0;
    const size_t bytes = ls_view_bytes(&ls_instr_subject(instr)->view);
    return ls_name_transfer(p->channels[instr->channel].name, instr->generation, bytes);
}

static void begin_lease(naming *n, const ls_instr *instr) {
    lease *l = LS_NEW(n->scratch, lease);
    *l = (lease){n->leases, instr->channel, &instr->out[0], instr->transfer};
    n->leases = l;
}

static void end_lease(naming *n, const ls_instr *instr) {
    lease **link = &n->leases;
    while (*link != NULL && (*link)->channel != instr->channel) link = &(*link)->next;
    if (*link != NULL) *link = (*link)->next;
}

static void name_instr(naming *n, const ls_program *p, ls_instr *instr, int number) {
    instr->number = number;
    instr->transfer = transfer_of(p, instr);
    for (int k = 0; k < ls_instr_operands(instr); k++) {
        const ls_instr_access access = ls_instr_access_at(instr, k);
        if (ls_access_reads(&access)) name_read(n, k < instr->n_in ? &instr->in[k] : &instr->out[access.output]);
    }
    if (instr->kind == LS_INSTR_BORROW) begin_lease(n, instr);
    if (instr->kind == LS_INSTR_RETURN) end_lease(n, instr);
    for (int k = 0; k < ls_instr_operands(instr); k++) {
        const ls_instr_access access = ls_instr_access_at(instr, k);
        if (ls_access_writes(&access)) record(n, access.operand, ls_write_key(number, access.output));
    }
}

static void name_program(ls_image *image, int index) {
    ls_program *p = &image->programs[index];
    ls_arena *scratch = ls_arena_create();
    naming n = {.image = image,
                .scratch = scratch,
                .writes = LS_NEW_ARRAY(scratch, ls_intervals, image->n_buffers),
                .near = {.arena = scratch}};
    for (int i = 0; i < p->n_instrs; i++) name_instr(&n, p, &p->instrs[i], i);
    for (int b = 0; b < image->n_buffers; b++) {
        const ls_extent whole = {ls_range_flat(0, image->buffers[b].bytes), 0};
        if (image->buffers[b].program < 0) p->kept[b].left = name_of(&n, b, &whole, 1);
    }
    ls_arena_destroy(scratch);
}

void ls_name_values(ls_image *image) {
    for (int p = 0; p < image->n_programs; p++) name_program(image, p);
}
