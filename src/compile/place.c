/*
 * Placement: lifetimes from the instructions, then an offset for every buffer. Persistent buffers lie first, one after the other;
 * above them each program places its own, biggest first, each into the tightest gap among those it meets in time
 * (best fit over the interference intervals; Sekiyama et al., "Profile-guided memory optimization for deep neural
 * networks", arXiv 1804.10001).
 */
#include "compile/compile_impl.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };

static void touch(ls_image *image, const ls_operand *o, int program, int instr) {
    if (o->buffer < 0) return;
    ls_buffer *b = &image->buffers[o->buffer];
    if (b->program != program) return;
    if (b->first < 0) b->first = instr;
    if (instr > b->last) b->last = instr;
}

/* Sources of puts stay live until the quiet that completes them. */
static void find_lifetimes(ls_image *image, int program) {
    const ls_program *p = &image->programs[program];
    int pending = 0; /* first instruction whose put may still be under way */
    for (int i = 0; i < p->n_instrs; i++) {
        const ls_instr *instr = &p->instrs[i];
        for (int k = 0; k < instr->n_in; k++) touch(image, &instr->in[k], program, i);
        /* What a put writes lies in the peer's heap: there the slot is live from "ready" to its last reader. */
        for (int k = 0; k < instr->n_out && instr->kind != LS_INSTR_PUT_SIGNAL; k++)
            touch(image, &instr->out[k], program, i);
        touch(image, instr->workspace, program, i);
        if (instr->kind != LS_INSTR_QUIET) continue;
        for (int j = pending; j < i; j++) {
            if (p->instrs[j].kind == LS_INSTR_PUT_SIGNAL) touch(image, &p->instrs[j].in[0], program, i);
        }
        pending = i + 1;
    }
}

static bool meet(const ls_buffer *a, const ls_buffer *b) {
    return a->first <= b->last && b->first <= a->last;
}

static int by_size(const void *x, const void *y) {
    const ls_buffer *a = *(ls_buffer *const *)x, *b = *(ls_buffer *const *)y;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    if (a->first != b->first) return a->first - b->first;
    return a < b ? -1 : a > b;
}

static int by_offset(const void *x, const void *y) {
    const ls_buffer *a = *(ls_buffer *const *)x, *b = *(ls_buffer *const *)y;
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

/* The start of the tightest gap for `buffer` between the (sorted) neighbours that it meets in time. */
static size_t best_gap(const ls_buffer *buffer, ls_buffer *const *placed, int n, size_t base) {
    size_t best = SIZE_MAX, best_waste = SIZE_MAX, at = base;
    const size_t need = ls_round_up(buffer->bytes, ALIGN);
    for (int i = 0; i < n; i++) {
        if (!meet(buffer, placed[i])) continue;
        if (placed[i]->offset >= at + need && placed[i]->offset - at - need < best_waste) {
            best = at;
            best_waste = placed[i]->offset - at - need;
        }
        const size_t end = placed[i]->offset + ls_round_up(placed[i]->bytes, ALIGN);
        if (end > at) at = end;
    }
    return best != SIZE_MAX ? best : at;
}

/* Places the buffers of one program and space above base; returns the end. */
static size_t place_program(ls_image *image, int program, ls_space space, size_t base) {
    ls_buffer **list = LS_NEW_ARRAY(image->arena, ls_buffer *, image->n_buffers + 1);
    ls_buffer **placed = LS_NEW_ARRAY(image->arena, ls_buffer *, image->n_buffers + 1);
    int n = 0;
    for (int i = 0; i < image->n_buffers; i++) {
        ls_buffer *b = &image->buffers[i];
        if (b->program == program && b->space == space && b->first >= 0) list[n++] = b;
    }
    qsort(list, (size_t)n, sizeof *list, by_size);
    size_t end = base;
    for (int i = 0; i < n; i++) {
        list[i]->offset = best_gap(list[i], placed, i, base);
        const size_t top = list[i]->offset + ls_round_up(list[i]->bytes, ALIGN);
        if (top > end) end = top;
        int at = i; /* keep `placed` sorted by offset */
        while (at > 0 && by_offset(&placed[at - 1], &list[i]) > 0) placed[at] = placed[at - 1], at--;
        placed[at] = list[i];
    }
    return end;
}

/* Largest sum of live bytes over the program's instructions. */
static size_t most_live(const ls_image *image, int program, ls_space space) {
    const int n = image->programs[program].n_instrs;
    int64_t *change = LS_NEW_ARRAY(image->arena, int64_t, n + 1);
    for (int i = 0; i < image->n_buffers; i++) {
        const ls_buffer *b = &image->buffers[i];
        if (b->program != program || b->space != space || b->first < 0) continue;
        change[b->first] += (int64_t)ls_round_up(b->bytes, ALIGN);
        change[b->last + 1] -= (int64_t)ls_round_up(b->bytes, ALIGN);
    }
    int64_t live = 0, most = 0;
    for (int i = 0; i < n; i++) {
        live += change[i];
        most = ls_max(most, live);
    }
    return (size_t)most;
}

void ls_place(ls_image *image) {
    for (int p = 0; p < LS_PROGRAMS; p++) find_lifetimes(image, p);
    for (int s = 0; s < LS_SPACES; s++) {
        size_t base = 0;
        for (int i = 0; i < image->n_buffers; i++) {
            ls_buffer *b = &image->buffers[i];
            if (b->program >= 0 || (int)b->space != s) continue;
            b->offset = base;
            base += ls_round_up(b->bytes, ALIGN);
        }
        image->bytes[s] = image->least[s] = base;
        for (int p = 0; p < LS_PROGRAMS; p++) {
            const size_t end = place_program(image, p, (ls_space)s, base);
            const size_t least = base + most_live(image, p, (ls_space)s);
            if (end > image->bytes[s]) image->bytes[s] = end;
            if (least > image->least[s]) image->least[s] = least;
        }
    }
}
