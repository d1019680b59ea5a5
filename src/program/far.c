#include "program/far.h"

#include "program/instr.h"

#include <math.h>

/* By block of each arena: how many bytes had been brought into the cache when the block was last touched. */
typedef struct traffic {
    const ls_image *image;
    double *seen[LS_SPACES];
    size_t block[LS_SPACES]; /* bytes */
    double brought, cache;
} traffic;

/* Whether an earlier operand is the same bytes. */
static bool is_repeated(const ls_instr *instr, const ls_operand *o) {
    for (int i = 0; i < ls_instr_operands(instr); i++) {
        const ls_operand *other = ls_instr_access_at(instr, i).operand;
        if (other == o) return false;
        if (other->buffer == o->buffer && other->offset == o->offset && other->displacement == o->displacement &&
            ls_peer_equal(other->peer, o->peer))
            return true;
    }
    return false;
}

/* Whether the operand is a table of which only the rows for the ids are touched. */
static bool is_table(const ls_instr *instr, const ls_operand *o) {
    const unsigned table = ls_contracts[instr->kernel->id].table;
    for (int i = 0; i < instr->n_in; i++)
        if (o == &instr->in[i]) return (table >> i & 1) != 0;
    return (table >> (LS_KERNEL_INPUTS + (o - instr->out)) & 1) != 0;
}

double ls_instr_touched(const ls_instr *instr, const ls_operand *o) {
    const double bytes = ls_operand_bytes(o);
    if (instr->kind != LS_INSTR_KERNEL) return bytes;
    if (is_repeated(instr, o)) return 0;
    if (o->view.ndim != 2) return bytes;
    if (!is_table(instr, o)) return bytes;
    const double ids = (double)ls_view_elements(&instr->in[0].view);
    return fmin(bytes, bytes / (double)ls_max(1, o->view.size[0]) * ids);
}

/* Touches a contiguous range, over which so many bytes of an operand are spread; returns how many of them are far. */
static double touch_range(traffic *t, ls_space space, size_t offset, size_t length, double bytes) {
    double *seen = t->seen[space];
    const size_t block = t->block[space], first = offset / block, last = ls_max(first, (offset + length - 1) / block);
    const double each = bytes / (double)(last - first + 1);
    double far = 0;
    for (size_t i = first; i <= last; i++) {
        if (t->brought - seen[i] > t->cache) {
            far += each;
            t->brought += each;
        }
        seen[i] = t->brought;
    }
    return far;
}

/* Takes pieces that are less than a block apart for one, from the first to the last of them. */
static ls_range join_near(ls_range r, size_t block) {
    for (int d = 0; d < LS_RANGE_DIMS; d++) {
        if (r.stride[d] < 0 || (size_t)r.stride[d] > r.length + block) continue;
        r.length += (size_t)r.stride[d] * (size_t)(r.count[d] - 1);
        r.count[d] = 1;
    }
    return r;
}

/* Bytes of the operand that are far; from now on they are near. */
static double touch(traffic *t, const ls_instr *instr, const ls_operand *o) {
    const double bytes = ls_instr_touched(instr, o);
    if (bytes == 0) return 0;
    const ls_buffer *b = &t->image->buffers[o->buffer];
    const ls_range range = ls_operand_extent(o, b->offset).range, r = join_near(range, t->block[b->space]);
    /* A put writes into another rank's memory: this rank's heap may be smaller and have no such bytes. */
    if (ls_range_end(&range) > t->image->bytes[b->space]) return bytes;
    const int64_t pieces = r.count[0] * r.count[1] * r.count[2];
    double far = 0;
    for (int64_t p = 0; p < pieces; p++) {
        const int64_t place[LS_RANGE_DIMS] = {p % r.count[0], p / r.count[0] % r.count[1], p / r.count[0] / r.count[1]};
        int64_t offset = (int64_t)r.offset;
        for (int d = 0; d < LS_RANGE_DIMS; d++) offset += place[d] * r.stride[d];
        far += touch_range(t, b->space, (size_t)offset, r.length, bytes / (double)pieces);
    }
    return far;
}

double *ls_program_far(const ls_image *image, int program, double cache, ls_arena *arena) {
    const ls_program *p = &image->programs[program];
    traffic t = {.image = image, .cache = cache};
    double *far = LS_NEW_ARRAY(arena, double, p->n_instrs + 1);
    for (int s = 0; s < LS_SPACES; s++) {
        t.block[s] = ls_round_up(image->bytes[s] / LS_FAR_MOST_BLOCKS + 1, LS_FAR_BLOCK);
        const size_t blocks = image->bytes[s] / t.block[s] + 2;
        t.seen[s] = LS_NEW_ARRAY(arena, double, blocks);
        for (size_t i = 0; i < blocks; i++) t.seen[s][i] = -INFINITY;
    }
    for (int run = 0; run < 2; run++) { /* the first run brings the caches into the state that the second finds */
        for (int i = 0; i < p->n_instrs; i++) {
            const ls_instr *instr = &p->instrs[i];
            far[i] = 0;
            for (int k = 0; k < ls_instr_operands(instr) && ls_traits(instr)->moves; k++)
                far[i] += touch(&t, instr, ls_instr_access_at(instr, k).operand);
        }
    }
    return far;
}
