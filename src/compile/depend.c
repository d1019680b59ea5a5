/*
 * Dependencies: which instructions of a program must stay after which others, whatever the order of the rest. They are
 * found from the list in emission order, before placement: an instruction depends on the writer of what it reads, on
 * the readers and the writer of what it overwrites, and on the turn before its own at the same end of a channel
 * (instr.h). Two operands share bytes if they are in the same buffer; in persistent buffers, which hold many tensors,
 * if they are in the same part: no instruction touches bytes of two parts with one operand.
 */
#include "compile/compile_impl.h"
#include "program/program.h"

#include <stdlib.h>

/* A reader of a cell. */
typedef struct reader {
    struct reader *next;
    int instr;
} reader;

/* Bytes that are treated as one: a whole buffer of the program, or a part of a persistent buffer. */
typedef struct cell {
    int writer;      /* the last writer so far; -1: none */
    reader *readers; /* the readers after that writer */
} cell;

/* A part of a persistent buffer: bytes from .. end - 1. */
typedef struct part {
    int buffer;
    size_t from, end;
} part;

typedef struct tracker {
    const ls_image *image;
    ls_arena *arena;
    int program;
    cell *cells; /* by buffer, then by part */
    part *parts; /* of persistent buffers that the program writes: disjoint, in order */
    int n_parts;
    bool *written; /* by buffer */
    int *awaited;  /* by end of a channel: the last await so far; -1: none */
    ls_dependencies *out;
    int n_on;
    size_t room;
} tracker;

static bool is_persistent(const tracker *t, int buffer) { return t->image->buffers[buffer].program < 0; }

/* --- parts of persistent buffers -------------------------------------------------------------------------- */

static int by_place(const void *x, const void *y) {
    const part *a = x, *b = y;
    if (a->buffer != b->buffer) return a->buffer < b->buffer ? -1 : 1;
    return a->from < b->from ? -1 : a->from > b->from;
}

static part part_of(const tracker *t, const ls_operand *o) {
    const ls_extent extent = ls_operand_extent(o, 0);
    return (part){o->buffer, extent.range.offset, ls_extent_end(t->image, &extent)};
}

static int count_operands(const ls_program *p) {
    int n = 0;
    for (int i = 0; i < p->n_instrs; i++) n += ls_instr_operands(&p->instrs[i]);
    return n;
}

/*
 * Finds the byte ranges that instructions touch in persistent buffers which this program writes; overlapping ranges
 * become one part.
 */
static void find_parts(tracker *t) {
    const ls_program *p = &t->image->programs[t->program];
    t->written = LS_NEW_ARRAY(t->arena, bool, t->image->n_buffers + 1);
    for (int i = 0; i < p->n_instrs; i++) {
        for (int k = 0; k < ls_instr_operands(&p->instrs[i]); k++) {
            const ls_instr_access a = ls_instr_access_at(&p->instrs[i], k);
            if (a.kind != LS_ACCESS_READ && !ls_operand_is_empty(a.operand)) t->written[a.operand->buffer] = true;
        }
    }
    t->parts = LS_NEW_ARRAY(t->arena, part, count_operands(p) + 1);
    int n = 0;
    for (int i = 0; i < p->n_instrs; i++) {
        const ls_instr *instr = &p->instrs[i];
        for (int k = 0; k < ls_instr_operands(instr); k++) {
            const ls_operand *o = ls_instr_access_at(instr, k).operand;
            if (!ls_operand_is_empty(o) && is_persistent(t, o->buffer) && t->written[o->buffer])
                t->parts[n++] = part_of(t, o);
        }
    }
    qsort(t->parts, (size_t)n, sizeof *t->parts, by_place);
    for (int i = 0; i < n; i++) {
        part *last = &t->parts[ls_max(t->n_parts - 1, 0)];
        if (t->n_parts > 0 && last->buffer == t->parts[i].buffer && last->end > t->parts[i].from)
            last->end = ls_max(last->end, t->parts[i].end);
        else
            t->parts[t->n_parts++] = t->parts[i];
    }
}

/* The cell of an operand's bytes; NULL: nothing writes there. */
static cell *cell_of(const tracker *t, const ls_operand *o) {
    if (!is_persistent(t, o->buffer)) return &t->cells[o->buffer];
    if (!t->written[o->buffer]) return NULL;
    const part wanted = part_of(t, o);
    int lo = 0, hi = t->n_parts - 1; /* the last part that does not begin after it */
    while (lo < hi) {
        const int middle = (lo + hi + 1) / 2;
        if (by_place(&t->parts[middle], &wanted) <= 0)
            lo = middle;
        else
            hi = middle - 1;
    }
    return &t->cells[t->image->n_buffers + lo];
}

/* --- dependencies ----------------------------------------------------------------------------------------- */

static void depend(tracker *t, int instr, int on) {
    if (on < 0 || on == instr) return;
    *LS_PUSH(t->arena, t->out->on, t->n_on, t->room) = on;
}

static void note_read(tracker *t, const ls_operand *o, int instr) {
    cell *c = ls_operand_is_empty(o) ? NULL : cell_of(t, o);
    if (c == NULL) return;
    depend(t, instr, c->writer);
    reader *r = LS_NEW(t->arena, reader);
    *r = (reader){c->readers, instr};
    c->readers = r;
}

static void note_write(tracker *t, const ls_operand *o, int instr) {
    cell *c = ls_operand_is_empty(o) ? NULL : cell_of(t, o);
    if (c == NULL) return;
    depend(t, instr, c->writer);
    for (const reader *r = c->readers; r != NULL; r = r->next) depend(t, instr, r->instr);
    *c = (cell){.writer = instr};
}

/* Puts are left out: the chain keeps them after their acquires, and a put that waits there delays nothing else. */
static void note_turn(tracker *t, const ls_instr *instr, int i) {
    const ls_instr_traits *traits = ls_traits(instr);
    if (traits->awaits) t->awaited[ls_instr_end(instr)] = i;
    if (traits->sets && !traits->moves) depend(t, i, t->awaited[ls_instr_end(instr)]);
}

void ls_depend(const ls_image *image, int program, ls_arena *arena, ls_dependencies *out) {
    const ls_program *p = &image->programs[program];
    tracker t = {.image = image, .arena = arena, .program = program, .out = out};
    *out = (ls_dependencies){.first = LS_NEW_ARRAY(arena, int, p->n_instrs + 1)};
    find_parts(&t);
    t.cells = LS_NEW_ARRAY(arena, cell, image->n_buffers + t.n_parts + 1);
    for (int i = 0; i < image->n_buffers + t.n_parts; i++) t.cells[i].writer = -1;
    t.awaited = LS_NEW_ARRAY(arena, int, 2 * p->n_channels + 1);
    for (int end = 0; end < 2 * p->n_channels; end++) t.awaited[end] = -1;
    for (int i = 0; i < p->n_instrs; i++) {
        const ls_instr *instr = &p->instrs[i];
        out->first[i] = t.n_on;
        note_turn(&t, instr, i);
        for (int k = 0; k < ls_instr_accesses(instr); k++) {
            const ls_instr_access a = ls_instr_access_at(instr, k);
            if (a.kind == LS_ACCESS_READ) note_read(&t, a.operand, i);
            if (ls_access_writes(&a)) note_write(&t, a.operand, i);
        }
    }
    out->first[p->n_instrs] = t.n_on;
}
