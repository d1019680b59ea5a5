#include "program/states.h"

#include <stdio.h>

#include "program/instr.h"
#include "program/name.h"
#include "program/phase.h"

enum { ZERO = 1u << LS_STATE_ZERO, SUM = 1u << LS_STATE_SUM, SET = 1u << LS_STATE_SET };

const ls_effect_traits ls_effect_traits_of[LS_EFFECTS] = {
    [LS_EFFECT_NONE] = {"does not use", 0, 0},
    [LS_EFFECT_READ] = {"reads", SET, 0},
    [LS_EFFECT_MAKE] = {"makes", 0, SET},
    [LS_EFFECT_CHANGE] = {"changes", SET, SET},
    [LS_EFFECT_ADD] = {"adds to", ZERO | SUM, SUM},
    [LS_EFFECT_TAKE] = {"adds to and then clears", ZERO | SUM, ZERO},
    [LS_EFFECT_FINISH] = {"adds to and then changes", ZERO | SUM, SET},
};

/*
 * States before the first program: buffers that the host has written are set (inputs again before every program), all
 * others are zero.
 */
static const unsigned at_first[LS_BUFFER_KINDS] = {
    [LS_BUFFER_INPUT] = SET,     [LS_BUFFER_TABLE] = SET,     [LS_BUFFER_PARAMETER] = SET,
    [LS_BUFFER_OPTIMIZER] = SET, [LS_BUFFER_GRADIENT] = ZERO, [LS_BUFFER_OUTPUT] = ZERO,
};

const char *ls_states_text(unsigned states, char text[LS_STATES_TEXT]) {
    static const char *const names[LS_STATES] = {"zero", "a sum", "set"};
    size_t n = 0;
    text[0] = 0;
    for (int s = 0; s < LS_STATES; s++) {
        if (!(states >> s & 1)) continue;
        n += (size_t)snprintf(text + n, LS_STATES_TEXT - n, "%s%s", n > 0 ? " or " : "", names[s]);
    }
    return text;
}

static bool persists(const ls_image *image, int buffer) {
    return image->buffers[buffer].program < 0 && image->buffers[buffer].bytes > 0;
}

/* --- what the instructions do ------------------------------------------------------------------------------------- */

/* A write of the program to a persistent buffer. */
typedef struct written {
    ls_interval place; /* from its first byte to its last */
    ls_range range;
} written;

/* What a program's accesses to a persistent buffer have shown so far. */
typedef struct seen {
    bool found;       /* it reads bytes that it has not written */
    bool perhaps;     /* it reads bytes that no single write of its own covers: perhaps bytes that it found */
    bool writes;      /* it writes */
    bool overwrites;  /* it writes without reading first, and not zeros over the whole buffer */
    bool cleared;     /* its last write was zeros over the whole buffer */
    ls_intervals set; /* its writes */
} seen;

typedef struct looking {
    const ls_image *image;
    int rank;
    ls_arena *arena;
    seen *of; /* by buffer */
    ls_interval_list near;
} looking;

/* Whether an earlier write covers the range; *meets: whether any overlaps it. */
static bool is_covered(looking *l, seen *s, const ls_range *range, bool *meets) {
    *meets = false;
    ls_intervals_find(&s->set, range->offset, ls_range_end(range), &l->near);
    for (int i = 0; i < l->near.n; i++) {
        const ls_range *w = &((const written *)l->near.item[i])->range;
        if (ls_range_covers(w, range)) return *meets = true;
        *meets = *meets || ls_range_overlap(w, range);
    }
    return false;
}

static void note_read(looking *l, seen *s, const ls_range *range) {
    bool meets;
    if (s->found || is_covered(l, s, range, &meets)) return;
    s->perhaps = true;
    s->found = !meets;
}

static void note_write(looking *l, seen *s, const ls_range *range, bool reads_first, bool clears) {
    bool meets;
    s->writes = true;
    s->cleared = clears;
    s->overwrites = s->overwrites || !(reads_first || clears);
    if (s->found || is_covered(l, s, range, &meets)) return;
    written *w = LS_NEW(l->arena, written);
    *w = (written){.place = {.from = range->offset, .past = ls_range_end(range)}, .range = *range};
    ls_intervals_add(&s->set, &w->place);
}

static void look_at(looking *l, const ls_instr *instr, bool writes) {
    for (int k = 0; k < ls_instr_accesses(instr); k++) {
        const ls_instr_access access = ls_instr_access_at(instr, k);
        const ls_operand *o = access.operand;
        if (ls_operand_is_empty(o) || !ls_peer_is_self(o->peer) || !persists(l->image, o->buffer)) continue;
        seen *s = &l->of[o->buffer];
        const ls_buffer *b = &l->image->buffers[o->buffer];
        const ls_range range = ls_operand_range(l->image, o, l->rank), whole = ls_range_flat(b->offset, b->bytes);
        if (!writes && ls_access_reads(&access)) note_read(l, s, &range);
        if (writes && ls_access_writes(&access))
            note_write(l, s, &range, access.kind == LS_ACCESS_UPDATE,
                       instr->kind == LS_INSTR_KERNEL && instr->kernel->id == LS_KERNEL_FILL &&
                           ls_range_covers(&range, &whole));
    }
}

/* The effects that a program with these accesses may declare, as bits; never 0. */
static unsigned effects_of(const seen *s, ls_buffer_kind kind) {
    const bool hosts = kind == LS_BUFFER_INPUT || kind == LS_BUFFER_TABLE; /* set by the host for every program */
    if (!s->writes && !s->perhaps) return 1u << LS_EFFECT_NONE | (hosts ? 1u << LS_EFFECT_READ : 0);
    if (!s->writes) return 1u << LS_EFFECT_READ | (s->found ? 1u << LS_EFFECT_ADD : 0); /* or it adds nothing */
    if (s->cleared) return 1u << (s->found ? LS_EFFECT_TAKE : LS_EFFECT_MAKE);
    return (s->found ? 0 : 1u << LS_EFFECT_MAKE) | (s->perhaps ? 1u << LS_EFFECT_CHANGE : 0) |
           (s->found ? 1u << (s->overwrites ? LS_EFFECT_FINISH : LS_EFFECT_ADD) : 0);
}

static const char *verb_of(unsigned effects) {
    int effect = LS_EFFECTS - 1;
    while (!(effects >> effect & 1)) effect--;
    return ls_effect_traits_of[effect].verb;
}

static ls_status check_program(const ls_image *image, int program, int rank) {
    const ls_program *p = &image->programs[program];
    looking l = {.image = image, .rank = rank, .arena = ls_arena_create()};
    l.of = LS_NEW_ARRAY(l.arena, seen, image->n_buffers + 1);
    l.near.arena = l.arena;
    for (int i = 0; i < p->n_instrs; i++) {
        look_at(&l, &p->instrs[i], false);
        look_at(&l, &p->instrs[i], true);
    }
    ls_status status = ls_ok();
    for (int b = 0; b < image->n_buffers && status.code == LS_OK; b++) {
        const ls_buffer *buffer = &image->buffers[b];
        const unsigned effects = effects_of(&l.of[b], buffer->kind);
        if (!persists(image, b) || effects >> p->kept[b].effect & 1) continue;
        status = ls_error(LS_INVALID, "program rejected: rank %d, %s declares that it %s \"%s\", but it %s it", rank,
                          p->name, ls_effect_traits_of[p->kept[b].effect].verb, buffer->name, verb_of(effects));
    }
    ls_arena_destroy(l.arena);
    return status;
}

ls_status ls_effects_check(const ls_image *image, int rank) {
    for (int p = 0; p < image->n_programs; p++) LS_TRY(check_program(image, p, rank));
    return ls_ok();
}

/* --- along the phase table ---------------------------------------------------------------------------------------- */

/* The states in which a buffer may be at the end of each program; 0: the program has not been reached. */
typedef struct ends {
    unsigned *after; /* by program and buffer */
} ends;

static unsigned *end_of(const ls_image *image, const ends *e, int program, int buffer) {
    return &e->after[(size_t)program * (size_t)image->n_buffers + (size_t)buffer];
}

/* The states in which the second program of a row may find the buffer; 0: the first one is never reached. */
static unsigned found_along(const ls_image *image, const ends *e, const ls_phase *row, int buffer) {
    const ls_buffer_kind kind = image->buffers[buffer].kind;
    const unsigned left = row->from == LS_FIRST ? at_first[kind] : *end_of(image, e, row->from, buffer);
    if (left == 0 || kind == LS_BUFFER_INPUT) return left == 0 ? 0 : SET;
    const bool clears = row->sums == LS_PHASE_CLEARED && ls_effect_sums(image->programs[row->to].kept[buffer].effect);
    return clears ? ZERO : left;
}

/* Adds the states that the second program of a row leaves; returns whether any is new. */
static bool carry(const ls_image *image, const ends *e, const ls_phase *row) {
    bool grew = false;
    for (int b = 0; b < image->n_buffers; b++) {
        if (!persists(image, b)) continue;
        const unsigned found = found_along(image, e, row, b),
                       leaves = ls_effect_traits_of[image->programs[row->to].kept[b].effect].leaves;
        unsigned *after = end_of(image, e, row->to, b);
        const unsigned now = *after | (found != 0 && leaves != 0 ? leaves : found);
        grew = grew || now != *after;
        *after = now;
    }
    return grew;
}

static ls_status check_row(const ls_image *image, const ends *e, const ls_phase *row) {
    const ls_program *to = &image->programs[row->to];
    const char *from = row->from == LS_FIRST ? "the beginning" : image->programs[row->from].name;
    for (int b = 0; b < image->n_buffers; b++) {
        if (!persists(image, b)) continue;
        const ls_effect effect = to->kept[b].effect;
        unsigned needs = ls_effect_traits_of[effect].needs;
        if (ls_effect_sums(effect) && row->sums != LS_PHASE_GOES_ON) needs = ZERO;
        const unsigned found = found_along(image, e, row, b), wrong = found & ~needs;
        char needed[LS_STATES_TEXT], is[LS_STATES_TEXT];
        if (needs != 0 && wrong != 0)
            return ls_error(LS_INVALID,
                            "phase table: \"%s\" after \"%s\" needs \"%s\" to be %s, but there it may be %s", to->name,
                            from, image->buffers[b].name, ls_states_text(needs, needed), ls_states_text(wrong, is));
    }
    return ls_ok();
}

ls_status ls_joins_check(const ls_image *image) {
    LS_TRY(ls_phase_rows_check(image));
    ls_arena *arena = ls_arena_create();
    const ends e = {LS_NEW_ARRAY(arena, unsigned, (size_t)image->n_programs *(size_t)image->n_buffers + 1)};
    for (bool grew = true; grew;) {
        grew = false;
        for (int i = 0; i < image->n_phases; i++) grew = carry(image, &e, &image->phases[i]) || grew;
    }
    ls_status status = ls_ok();
    for (int i = 0; i < image->n_phases && status.code == LS_OK; i++) status = check_row(image, &e, &image->phases[i]);
    ls_arena_destroy(arena);
    return status;
}
