#include "support/mutate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "meshes.h"
#include "program/program.h"
#include "run/interpret.h"
#include "support/images.h"

/* --- one edit ----------------------------------------------------------------------------------------------------- */

typedef struct edit {
    image_set *set;
    uint64_t seed, draws;
    ls_image *image; /* of the rank that is edited */
    int rank, index;
    ls_program *program;
    char what[200];
} edit;

static int draw(edit *e, int below) { return (int)ls_rng_below(e->seed, 77, e->draws++, (uint64_t)below); }

/* -most .. most without 0. */
static int draw_step(edit *e, int most) {
    const int step = 1 + draw(e, most);
    return draw(e, 2) == 0 ? step : -step;
}

static void describe(edit *e, const char *verb, int at) {
    const ls_instr *i = &e->program->instrs[at];
    snprintf(e->what, sizeof e->what, "%s %s instruction %d of rank %d (%s%s%s)", verb, e->program->name, at, e->rank,
             i->op, i->channel >= 0 ? " " : "", i->channel >= 0 ? e->program->channels[i->channel].name : "");
}

enum {
    ANY = (1u << LS_INSTR_KINDS) - 1,
    SIGNALS = 1u << LS_INSTR_GRANT | 1u << LS_INSTR_LEASE | 1u << LS_INSTR_RETURN,
    WAITS = 1u << LS_INSTR_ACQUIRE | 1u << LS_INSTR_RECEIVE | 1u << LS_INSTR_BORROW | 1u << LS_INSTR_RECLAIM,
    WORDS = 1u << LS_INSTR_PUT | SIGNALS | WAITS
};

/* A random instruction: kernels, puts, signals and waits equally often; -1: there is none of these kinds. */
static int pick(edit *e, unsigned kinds) {
    static const unsigned sorts[] = {1u << LS_INSTR_KERNEL, 1u << LS_INSTR_PUT, SIGNALS, WAITS};
    unsigned sort = sorts[draw(e, (int)LS_COUNT(sorts))];
    while (!(kinds & sort)) sort = sorts[draw(e, (int)LS_COUNT(sorts))];
    const int n = e->program->n_instrs, from = n > 0 ? draw(e, n) : 0;
    for (int k = 0; k < n; k++) {
        if (kinds & sort & 1u << e->program->instrs[(from + k) % n].kind) return (from + k) % n;
    }
    return -1;
}

static bool drop(edit *e) {
    const int at = pick(e, ANY);
    if (at < 0) return false;
    describe(e, "drop", at);
    drop_instr(e->program, at);
    return true;
}

/* Exchanges two places of the list; `after` follows. */
static void exchange(ls_program *p, int a, int b) {
    const ls_instr first = p->instrs[a];
    p->instrs[a] = p->instrs[b];
    p->instrs[b] = first;
    for (int i = 0; i < p->n_instrs; i++) {
        for (int k = 0; k < p->instrs[i].n_after; k++) {
            int *after = &p->instrs[i].after[k].instr;
            if (*after == a || *after == b) *after = a + b - *after;
        }
    }
}

/* The next instruction of the same queue in that direction, or -1. */
static int neighbour(const ls_program *p, int at, int direction) {
    for (int i = at + direction; i >= 0 && i < p->n_instrs; i += direction) {
        if (p->instrs[i].queue == p->instrs[at].queue) return i;
    }
    return -1;
}

static bool swap(edit *e) {
    const int a = pick(e, ANY);
    if (a < 0) return false;
    int b = a;
    for (int steps = draw_step(e, 4); steps != 0; steps += steps > 0 ? -1 : 1) {
        const int next = neighbour(e->program, b, steps > 0 ? 1 : -1);
        if (next < 0) break;
        b = next;
    }
    describe(e, "swap", a);
    exchange(e->program, a, b);
    return a != b;
}

static bool move_by(edit *e, int at, int steps) {
    bool moved = false;
    while (steps != 0) {
        const int next = neighbour(e->program, at, steps > 0 ? 1 : -1);
        if (next < 0) break;
        exchange(e->program, at, next);
        at = next;
        moved = true;
        steps += steps > 0 ? -1 : 1;
    }
    return moved;
}

static bool move(edit *e) {
    const int at = pick(e, ANY);
    if (at < 0) return false;
    describe(e, "move", at);
    return move_by(e, at, draw_step(e, 8));
}

/* Removes a wait between the queues, or makes it wait for another instruction. */
static bool reorder(edit *e) {
    const ls_program *p = e->program;
    const int n = p->n_instrs, from = draw(e, n);
    for (int k = 0; k < n; k++) {
        const int at = (from + k) % n;
        ls_instr *instr = &e->program->instrs[at];
        if (instr->n_after == 0) continue;
        describe(e, "other order of", at);
        const int which = draw(e, instr->n_after);
        int other = -1;
        if (draw(e, 3) > 0) other = neighbour(p, instr->after[which].instr, draw(e, 4) == 0 ? 1 : -1);
        set_after(instr, which, other);
        return true;
    }
    return false;
}

/* The put before it on its queue, or -1. */
static int put_before(const ls_program *p, int at) {
    do at = neighbour(p, at, -1);
    while (at >= 0 && p->instrs[at].kind != LS_INSTR_PUT);
    return at;
}

/*
 * Overwrites the source of a put that may not be done: forgets the put, takes one before it, or waits only until it was
 * executed.
 */
static bool overwrite_early(edit *e) {
    const ls_program *p = e->program;
    const int n = p->n_instrs, from = n > 0 ? draw(e, n) : 0;
    for (int k = 0; k < n; k++) {
        const int at = (from + k) % n;
        ls_instr *instr = &e->program->instrs[at];
        for (int i = 0; i < instr->n_after; i++) {
            if (!instr->after[i].done) continue;
            describe(e, "a put not done for", at);
            const int way = draw(e, 3);
            if (way == 0 && instr->after[i].queue != instr->queue)
                instr->after[i].done = false;
            else
                set_after(instr, i, way == 1 ? put_before(p, instr->after[i].instr) : -1);
            return true;
        }
    }
    return false;
}

/* Moves an operand of instruction `at` by some elements. */
static bool shift_operand(edit *e, ls_operand *o, const char *verb, int at) {
    static const int elements[] = {1, 2, 4, 16, 32, 64};
    const int64_t by =
        elements[draw(e, (int)LS_COUNT(elements))] * (draw(e, 2) ? 1 : -1) * (int64_t)ls_dtype_bytes(o->view.dtype);
    if (o->buffer < 0 || ls_view_elements(&o->view) == 0 || (int64_t)o->offset + by < 0) return false;
    describe(e, verb, at);
    o->offset += (size_t)by;
    return true;
}

/*
 * Edits only fields that a run reads: where a put lands its receiver says, and the bytes of other waits and
 * signals are what these promise.
 */
static bool shift(edit *e) {
    const int at = pick(e, 1u << LS_INSTR_KERNEL | 1u << LS_INSTR_PUT);
    if (at < 0) return false;
    ls_instr *instr = &e->program->instrs[at];
    const int operands = instr->kind == LS_INSTR_PUT ? instr->n_in : instr->n_in + instr->n_out;
    if (operands == 0) return false;
    const int k = draw(e, operands);
    ls_operand *o = k < instr->n_in ? &instr->in[k] : &instr->out[k - instr->n_in];
    return shift_operand(e, o, "shift an operand of", at);
}

/* Tells the other end of a channel a wrong address of a slot or a leased block. */
static bool tell_wrong(edit *e) {
    const int at = pick(e, 1u << LS_INSTR_RECEIVE | 1u << LS_INSTR_LEASE);
    if (at < 0) return false;
    ls_instr *instr = &e->program->instrs[at];
    ls_operand *o = instr->kind == LS_INSTR_LEASE ? &instr->in[0] : &instr->out[0];
    return shift_operand(e, o, "another address told by", at);
}

/* Moves a buffer to where another one still lives for a few instructions. */
static bool lay_early(edit *e) {
    ls_image *image = e->image;
    const int n = image->n_buffers, from = draw(e, n);
    for (int k = 0; k < n * n; k++) {
        const int a = (from + k / n) % n, b = k % n;
        const ls_buffer *x = &image->buffers[a], *y = &image->buffers[b];
        if (a == b || x->program < 0 || x->program != y->program || x->space != y->space || y->first < 0 ||
            x->first < 0 || y->first > x->last || x->last - y->first > 6 || y->last <= x->last ||
            x->offset == y->offset || y->bytes > x->bytes)
            continue;
        snprintf(e->what, sizeof e->what, "lay \"%s\" of rank %d where \"%s\" still lives", y->name, e->rank, x->name);
        if (y->space == LS_PRIVATE) {
            image->buffers[b].offset = x->offset;
            return true;
        }
        /* On all ranks: their buffers of the heap are in one order. */
        int nth_a = 0, nth_b = 0;
        for (int i = 0; i < a; i++) nth_a += image->buffers[i].space == LS_SYMMETRIC;
        for (int i = 0; i < b; i++) nth_b += image->buffers[i].space == LS_SYMMETRIC;
        const size_t offset = x->offset;
        for (int r = 0; r < e->set->ranks; r++) {
            int heap = 0;
            for (int i = 0; i < e->set->image[r]->n_buffers; i++) {
                if (e->set->image[r]->buffers[i].space != LS_SYMMETRIC) continue;
                if (heap++ == nth_b) e->set->image[r]->buffers[i].offset = offset;
            }
        }
        return true;
    }
    return false;
}

/* Hands over a slot before its reader has finished, or moves one buffer onto another. */
static bool reuse_early(edit *e) {
    if (draw(e, 2) == 0) return lay_early(e);
    const int at = pick(e, SIGNALS);
    if (at < 0) return false;
    describe(e, "hand over early", at);
    return move_by(e, at, -1 - draw(e, 4));
}

/* Moves a kernel's result to one of its inputs, whether or not the kernel allows that and the input is still needed. */
static bool overlay(edit *e) {
    const int at = pick(e, 1u << LS_INSTR_KERNEL);
    if (at < 0) return false;
    const ls_instr *instr = &e->program->instrs[at];
    if (instr->n_in == 0 || instr->n_out == 0) return false;
    const ls_operand *in = &instr->in[draw(e, instr->n_in)], *out = &instr->out[draw(e, instr->n_out)];
    if (in->buffer < 0 || out->buffer < 0) return false;
    ls_buffer *from = &e->image->buffers[in->buffer], *to = &e->image->buffers[out->buffer];
    if (from->space != LS_PRIVATE || to->space != LS_PRIVATE || to->program < 0 || to->offset == from->offset)
        return false;
    describe(e, "lay result on input of", at);
    to->offset = from->offset;
    return true;
}

static bool regenerate(edit *e) {
    const int at = pick(e, WORDS);
    if (at < 0) return false;
    ls_instr *instr = &e->program->instrs[at];
    describe(e, "other generation of", at);
    const int by = draw_step(e, 2);
    if ((int64_t)instr->generation + by < 0) return false;
    instr->generation += (uint64_t)(int64_t)by;
    return true;
}

/* Reads in place from another rank, or uses the wait (or the signal that returns the block) of another block. */
static bool other_peer(edit *e) {
    const ls_program *p = e->program;
    const int from = draw(e, p->n_instrs > 0 ? p->n_instrs : 1), which = draw(e, LS_KERNEL_INPUTS);
    for (int k = 0; k < p->n_instrs; k++) {
        const int at = (from + k) % p->n_instrs;
        const ls_instr *instr = &p->instrs[at];
        for (int i = 0; i < instr->n_in && instr->kind == LS_INSTR_KERNEL; i++) {
            ls_operand *o = &instr->in[(i + which) % instr->n_in];
            if (o->buffer < 0 || ls_peer_is_self(o->peer)) continue;
            describe(e, "another rank's block in", at);
            const int size = ls_team_size(&e->image->teams[o->peer.team]);
            o->peer.shift = (o->peer.shift + 1 + draw(e, size - 1)) % size;
            if (o->peer.shift == 0) o->peer = (ls_peer){0};
            return true;
        }
    }
    return false;
}

/* The last await before it at its end of the channel; -1: there is none. */
static int await_before(const ls_program *p, int at) {
    const int end = ls_instr_end(&p->instrs[at]);
    while (--at >= 0) {
        const ls_instr *instr = &p->instrs[at];
        if (ls_traits(instr)->awaits && ls_instr_end(instr) == end) break;
    }
    return at;
}

/*
 * Grants, leases or returns before the await that comes before that: it no longer waits for it, and goes in front of
 * it.
 */
static bool signal_early(edit *e) {
    ls_program *p = e->program;
    const int n = p->n_instrs, from = n > 0 ? draw(e, n) : 0;
    for (int k = 0; k < n; k++) {
        int at = (from + k) % n;
        ls_instr *instr = &p->instrs[at];
        const int await = SIGNALS & 1u << instr->kind ? await_before(p, at) : -1;
        if (await < 0) continue;
        describe(e, "before its turn", at);
        for (int i = instr->n_after - 1; i >= 0; i--)
            if (instr->after[i].instr >= await) set_after(instr, i, -1);
        for (int next; at > await && (next = neighbour(p, at, -1)) >= 0; at = next) exchange(p, at, next);
        return true;
    }
    return false;
}

/*
 * Two signals or waits for "free" of a queue exchange their epochs, and perhaps their places: as if this rank had
 * emitted them in another order.
 */
static bool move_epoch(edit *e) {
    static const unsigned ordered = SIGNALS | 1u << LS_INSTR_ACQUIRE | 1u << LS_INSTR_RECLAIM;
    ls_program *p = e->program;
    const int at = pick(e, ordered), direction = draw_step(e, 1);
    int other = at;
    for (int steps = at < 0 ? 0 : 1 + draw(e, 3); steps > 0 && other >= 0; steps--) {
        do other = neighbour(p, other, direction);
        while (other >= 0 && !(ordered & 1u << p->instrs[other].kind));
    }
    if (at < 0 || other < 0) return false;
    describe(e, "epoch of", at);
    const ls_epoch epoch = p->instrs[at].epoch;
    p->instrs[at].epoch = p->instrs[other].epoch;
    p->instrs[other].epoch = epoch;
    if (draw(e, 2) == 0) exchange(p, at, other);
    return true;
}

/* Counted rows are others at one end, or not counted; or their number lies elsewhere. */
static bool miscount(edit *e) {
    const int n = e->program->n_instrs, from = n > 0 ? draw(e, n) : 0, way = draw(e, 4);
    for (int k = 0; k < n; k++) {
        const int at = (from + k) % n;
        ls_instr *instr = &e->program->instrs[at];
        if (instr->counted == 0 || (way >= 2 && instr->kind != LS_INSTR_PUT)) continue;
        if (way == 3) return shift_operand(e, &instr->in[1], "another number for", at);
        describe(e, "miscount", at);
        instr->counted = way == 0 ? 2 * instr->counted : 0;
        if (way == 2) instr->n_in = 1;
        return true;
    }
    return false;
}

/* A row for each kind of edit; the last one is of programs with counted rows. */
static const struct {
    const char *name;
    bool (*apply)(edit *e); /* false: there is nothing to edit in that way */
} kinds[] = {{"drop", drop},
             {"swap", swap},
             {"move", move},
             {"order", reorder},
             {"shift", shift},
             {"reuse early", reuse_early},
             {"put done", overwrite_early},
             {"in place", overlay},
             {"generation", regenerate},
             {"peer", other_peer},
             {"address", tell_wrong},
             {"early signal", signal_early},
             {"epoch", move_epoch},
             {"count", miscount}};
enum { KINDS = LS_COUNT(kinds) };

/* --- valid programs, and their restoration ------------------------------------------------------------------------ */

/* A program's list as compiled, and its operands and edges between queues, one after the other. */
typedef struct kept_program {
    ls_instr *instrs;
    int n;
    ls_operand *operands;
    ls_after *after;
} kept_program;

typedef struct subject {
    image_set set;
    kept_program *programs[8]; /* by rank and program */
    ls_buffer *buffers[8];
    ls_interpreter *interpreter;
    ls_interpreter_result right;
    bool counts; /* rows */
} subject;

static void *copy_of(const void *data, size_t bytes) {
    void *copy = malloc(bytes + 1);
    memcpy(copy, data, bytes);
    return copy;
}

/*
 * Copies the operands of a list of instructions to `all` (when save) or from it, and returns their number. `all` NULL:
 * only counts.
 */
static size_t move_operands(const ls_instr *instrs, int n, ls_operand *all, bool save) {
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < instrs[i].n_in + instrs[i].n_out; k++, at++) {
            ls_operand *o = k < instrs[i].n_in ? &instrs[i].in[k] : &instrs[i].out[k - instrs[i].n_in];
            if (all == NULL) continue;
            if (save)
                all[at] = *o;
            else
                *o = all[at];
        }
    }
    return at;
}

/* The same for what they come after. */
static size_t move_after(const ls_instr *instrs, int n, ls_after *all, bool save) {
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < instrs[i].n_after; k++, at++) {
            if (all == NULL) continue;
            if (save)
                all[at] = instrs[i].after[k];
            else
                instrs[i].after[k] = all[at];
        }
    }
    return at;
}

static const ls_image *const *images_of(const subject *s) { return (const ls_image *const *)s->set.image; }

static void make_subject(subject *s, const image_set *set) {
    const char *strategy = set->image[0]->strategy;
    s->set = *set;
    for (int r = 0; r < s->set.ranks; r++) {
        ls_image *image = s->set.image[r];
        s->programs[r] = calloc((size_t)image->n_programs, sizeof(kept_program));
        for (int p = 0; p < image->n_programs; p++) {
            kept_program *kept = &s->programs[r][p];
            kept->n = image->programs[p].n_instrs;
            kept->instrs = copy_of(image->programs[p].instrs, sizeof(ls_instr) * (size_t)kept->n);
            kept->operands = malloc(sizeof(ls_operand) * move_operands(kept->instrs, kept->n, NULL, true) + 1);
            (void)move_operands(kept->instrs, kept->n, kept->operands, true);
            for (int i = 0; i < kept->n; i++) s->counts |= kept->instrs[i].counted > 0;
            kept->after = malloc(sizeof(ls_after) * move_after(kept->instrs, kept->n, NULL, true) + 1);
            (void)move_after(kept->instrs, kept->n, kept->after, true);
        }
        s->buffers[r] = copy_of(image->buffers, sizeof(ls_buffer) * (size_t)image->n_buffers);
    }
    const ls_status status = ls_verify(images_of(s), s->set.ranks);
    if (status.code != LS_OK) fail_msg("%s, unedited: %s", strategy, status.text);
    const ls_status local = ls_verify_local(images_of(s), s->set.ranks);
    if (local.code != LS_OK) fail_msg("%s, unedited, by the local verifier: %s", strategy, local.text);
    s->interpreter = ls_interpreter_create(images_of(s), s->set.ranks);
    s->right = ls_interpreter_run(s->interpreter, 0);
    assert_true(ls_interpreter_same(&s->right, &s->right));
}

static void restore(subject *s) {
    for (int r = 0; r < s->set.ranks; r++) {
        ls_image *image = s->set.image[r];
        for (int p = 0; p < image->n_programs; p++) {
            const kept_program *kept = &s->programs[r][p];
            image->programs[p].n_instrs = kept->n;
            memcpy(image->programs[p].instrs, kept->instrs, sizeof(ls_instr) * (size_t)kept->n);
            (void)move_operands(kept->instrs, kept->n, kept->operands, false);
            (void)move_after(kept->instrs, kept->n, kept->after, false);
        }
        memcpy(image->buffers, s->buffers[r], sizeof(ls_buffer) * (size_t)image->n_buffers);
    }
}

static void free_subject(subject *s) {
    ls_interpreter_destroy(s->interpreter);
    for (int r = 0; r < s->set.ranks; r++) {
        for (int p = 0; p < s->set.image[r]->n_programs; p++) {
            free(s->programs[r][p].instrs);
            free(s->programs[r][p].operands);
            free(s->programs[r][p].after);
        }
        free(s->programs[r]);
        free(s->buffers[r]);
    }
    free_images(&s->set);
}

/* --- judging ------------------------------------------------------------------------------------------------------ */

/* Whether some seed gives a result other than the unedited programs; *how: the outcome. */
static bool is_wrong(const subject *s, uint64_t first, int seeds, ls_interpreter_result *how, uint64_t *seed) {
    ls_interpreter *in = ls_interpreter_create(images_of(s), s->set.ranks);
    bool same = true;
    for (int i = 0; i < seeds && same; i++) {
        *seed = first + (uint64_t)i;
        *how = ls_interpreter_run(in, *seed);
        same = ls_interpreter_same(&s->right, how);
    }
    how->reads = NULL;
    ls_interpreter_destroy(in);
    return !same;
}

static void count(const char *verifier, ls_status status, bool wrong, const edit *e, mutation_counts *counts) {
    const bool rejected = status.code != LS_OK;
    counts->wrong_rejected += wrong && rejected;
    counts->wrong_accepted += wrong && !rejected;
    counts->harmless_rejected += !wrong && rejected;
    counts->harmless_accepted += !wrong && !rejected;
    counts->harmless_unordered += !wrong && rejected && strstr(status.text, "are not ordered") != NULL;
    if (wrong && !rejected)
        printf("%s accepted what is wrong: edit %llu, %s\n", verifier, (unsigned long long)e->seed, e->what);
    if (!wrong && rejected && getenv("LONGSPAN_TEST_VERBOSE") != NULL)
        printf("%s rejected what is harmless: %s: %s\n", verifier, e->what, status.text);
}

static void judge(const subject *s, const edit *e, int seeds, mutation_verdicts *verdicts) {
    ls_interpreter_result how = {0};
    uint64_t seed = 0;
    const ls_status play = ls_verify(images_of(s), s->set.ranks);
    const ls_status local = ls_verify_local(images_of(s), s->set.ranks);
    const bool wrong = is_wrong(s, e->seed * 64, seeds, &how, &seed);
    if (wrong && (play.code == LS_OK || local.code == LS_OK))
        printf("seed %llu: hung %d, poison %d, outside %d\n", (unsigned long long)seed, how.hung, how.poison,
               how.outside);
    count("the play", play, wrong, e, &verdicts->play);
    count("the local verifier", local, wrong, e, &verdicts->local);
}

static void print_counts(const char *name, const char *verifier, const mutation_counts *c) {
    printf("%-12s %-5s wrong: %5d rejected, %d accepted; harmless: %4d rejected (%d for order), %4d accepted\n", name,
           verifier, c->wrong_rejected, c->wrong_accepted, c->harmless_rejected, c->harmless_unordered,
           c->harmless_accepted);
}

static void print_verdicts(const char *name, const mutation_verdicts *v) {
    print_counts(name, "play", &v->play);
    print_counts(name, "local", &v->local);
}

static void add_counts(mutation_counts *sum, const mutation_counts *c) {
    sum->wrong_rejected += c->wrong_rejected;
    sum->wrong_accepted += c->wrong_accepted;
    sum->harmless_rejected += c->harmless_rejected;
    sum->harmless_accepted += c->harmless_accepted;
    sum->harmless_unordered += c->harmless_unordered;
}

static void need_rejected(const mutation_counts *c, int edits) {
    assert_true(c->wrong_rejected > edits / 2);
    assert_int_equal(c->wrong_accepted, 0);
}

mutation_verdicts judge_mutations_of(const image_set *sets, int n, uint64_t first, int edits, int seeds) {
    subject *subjects = calloc((size_t)n, sizeof *subjects);
    for (int i = 0; i < n; i++) make_subject(&subjects[i], &sets[i]);
    mutation_verdicts verdicts[KINDS + 1];
    memset(verdicts, 0, sizeof verdicts);
    uint64_t seed = first;
    for (int done = 0; done < edits; seed++) {
        subject *s = &subjects[seed % n];
        edit e = {.set = &s->set, .seed = seed};
        const int kind = draw(&e, s->counts ? KINDS : KINDS - 1);
        e.rank = draw(&e, s->set.ranks);
        e.image = s->set.image[e.rank];
        e.index = draw(&e, e.image->n_programs);
        e.program = &e.image->programs[e.index];
        if (kinds[kind].apply(&e)) {
            judge(s, &e, seeds, &verdicts[kind]);
            done++;
        }
        restore(s);
    }
    for (int k = 0; k < KINDS; k++) {
        print_verdicts(kinds[k].name, &verdicts[k]);
        add_counts(&verdicts[KINDS].play, &verdicts[k].play);
        add_counts(&verdicts[KINDS].local, &verdicts[k].local);
    }
    print_verdicts("all", &verdicts[KINDS]);
    for (int i = 0; i < n; i++) free_subject(&subjects[i]);
    free(subjects);
    need_rejected(&verdicts[KINDS].play, edits);
    need_rejected(&verdicts[KINDS].local, edits);
    return verdicts[KINDS];
}
