/* See interpret.h. Queues and the choice of what moves; memory is in interpret_memory.c, transfers in interpret_network.c. */
#include "run/interpret.h"

#include "program/program.h"
#include "run/interpret_impl.h"

#include <stdlib.h>
#include <string.h>

uint64_t ls_interpreter_draw(ls_interpreter *in, uint64_t below) {
    uint64_t x = in->seed + ++in->draws * 0x9e3779b97f4a7c15u; /* splitmix64 */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (x ^ (x >> 31)) % below;
}

static int index_of(const ls_interpreted_rank *r) { return r->sequence[r->stage]; }

const ls_program *ls_interpreted_program(const ls_interpreted_rank *r) {
    return &r->image->programs[index_of(r)];
}

uint64_t ls_interpreted_generation(const ls_interpreted_rank *r, const ls_instr *instr) {
    const ls_program *p = ls_interpreted_program(r);
    return r->runs[index_of(r)] * p->channels[instr->channel].uses + instr->generation;
}

int ls_interpreted_word(const ls_program *p, const ls_instr *instr) {
    return p->first_word + 2 * instr->channel + (instr->ready ? 1 : 0);
}

size_t ls_interpreter_read_index(const ls_interpreter *in, int rank, int number) {
    return ((size_t)rank * LS_SEQUENCE + (size_t)in->rank[rank].stage) * in->span + (size_t)number;
}

/* --- queues -------------------------------------------------------------------------------------------------------------- */

/* A hash of all that a kernel reads: inputs, and outputs that it adds to. */
static uint64_t find(ls_interpreter *in, int rank, const ls_instr *instr, const ls_interpreted *units) {
    const ls_hashes *store = &in->rank[rank].store;
    uint64_t hash = ls_hash_mix((uint64_t)rank + 1, (uint64_t)instr->number + 1);
    for (int i = 0; i < instr->n_in; i++) {
        const int peer = instr->in[i].buffer >= 0 ? instr->in[i].peer : -1; /* read in place */
        hash = ls_hashes_read(peer >= 0 ? &in->rank[peer].store : store, &units->in[i], hash,
                              &in->outcome.poison);
    }
    for (int i = 0; i < instr->n_out; i++) {
        if (instr->out[i].value != 0) hash = ls_hashes_read(store, &units->out[i], hash, &in->outcome.poison);
    }
    return hash;
}

static void note_outside(ls_interpreter *in, const ls_instr *instr, const ls_interpreted *units) {
    for (int i = 0; i < instr->n_in; i++) in->outcome.outside |= units->in[i].outside;
    for (int i = 0; i < instr->n_out; i++) in->outcome.outside |= units->out[i].outside;
    in->outcome.outside |= units->workspace.outside;
}

static void end_kernel(ls_interpreter *in, int rank, ls_interpreted_queue *q, const ls_instr *instr,
                       const ls_interpreted *units) {
    ls_hashes *store = &in->rank[rank].store;
    uint64_t hash = find(in, rank, instr, units);
    if (hash != q->found) hash = ls_hash_mix(hash, q->found); /* something changed under its eyes */
    in->reads[ls_interpreter_read_index(in, rank, instr->number)] = hash;
    for (int i = 0; i < instr->n_out; i++)
        ls_hashes_write(store, &units->out[i], ls_hash_mix(hash, (uint64_t)i + 1));
}

/* Whether the kernel keeps what lies where it will write this output until it has read it. */
static bool works_in_place(const ls_image *image, const ls_instr *instr, int output) {
    bool in_place = instr->out[output].value != 0;
    for (int k = 0; k < instr->n_in; k++) {
        const ls_sharing sharing = ls_instr_sharing(image, instr, output, k);
        if (sharing == LS_CLASH) return false;
        in_place |= sharing == LS_IN_PLACE;
    }
    for (int k = 0; k < output; k++)
        in_place |= ls_instr_sharing(image, instr, output, LS_KERNEL_INPUTS + k) == LS_IN_PLACE;
    return in_place;
}

/* Results may be written before everything has been read. */
static void spoil_results(ls_interpreted_rank *r, const ls_instr *instr, const ls_interpreted *units) {
    for (int i = 0; i < instr->n_out; i++)
        if (!works_in_place(r->image, instr, i)) ls_hashes_poison(&r->store, &units->out[i]);
    ls_hashes_poison(&r->store, &units->workspace);
}

/* Begins or ends the instruction; whether it is through. */
static bool execute(ls_interpreter *in, int rank, int queue, const ls_instr *instr,
                    const ls_interpreted *units) {
    ls_interpreted_queue *q = &in->rank[rank].queue[queue];
    if (q->running) {
        end_kernel(in, rank, q, instr, units);
        q->running = false;
        return true;
    }
    note_outside(in, instr, units);
    if (instr->kind == LS_INSTR_KERNEL) {
        q->found = find(in, rank, instr, units);
        spoil_results(&in->rank[rank], instr, units);
        q->running = true;
        return false;
    }
    if (instr->kind == LS_INSTR_QUIET) ls_network_quiet(in, rank, queue);
    if (instr->kind == LS_INSTR_PUT_SIGNAL || instr->kind == LS_INSTR_SIGNAL)
        ls_network_send(in, rank, queue, instr, units);
    return true;
}

static bool move_queue(ls_interpreter *in, int rank, int queue) {
    ls_interpreted_rank *r = &in->rank[rank];
    ls_interpreted_queue *q = &r->queue[queue];
    if (q->next == q->n) return false;
    const ls_program *p = ls_interpreted_program(r);
    const int i = q->instrs[q->next];
    const ls_instr *instr = &p->instrs[i];
    if (instr->after > r->queue[1 - queue].done) return false;
    if (instr->kind == LS_INSTR_WAIT &&
        r->words[ls_interpreted_word(p, instr)] < ls_interpreted_generation(r, instr))
        return false;
    if (execute(in, rank, queue, instr, &r->instrs[index_of(r)][i])) {
        q->done = i;
        q->next++;
    }
    return true;
}

static void begin_program(ls_interpreted_rank *r) {
    const ls_program *p = ls_interpreted_program(r);
    for (int q = 0; q < LS_QUEUES; q++)
        r->queue[q] = (ls_interpreted_queue){.instrs = r->queue[q].instrs, .done = -1};
    for (int i = 0; i < p->n_instrs; i++) {
        ls_interpreted_queue *q = &r->queue[p->instrs[i].queue];
        q->instrs[q->n++] = i;
    }
    ls_hashes_set_inputs(&r->store, (uint64_t)r->stage + 1);
}

/* On to the next program, when both queues are through. */
static bool advance(ls_interpreted_rank *r) {
    for (int q = 0; q < LS_QUEUES; q++) {
        if (r->queue[q].next < r->queue[q].n) return false;
    }
    r->runs[index_of(r)]++;
    r->stage++;
    if (r->stage < r->stages) begin_program(r);
    return true;
}

static bool move(ls_interpreter *in, int rank, int actor) {
    ls_interpreted_rank *r = &in->rank[rank];
    if (actor == LS_NETWORK) return ls_network_move(in, rank);
    if (r->stage == r->stages) return false;
    return move_queue(in, rank, actor) || advance(r);
}

/* Something of this class moves, from a random one on; false: nothing can. */
static bool move_class(ls_interpreter *in, int class) {
    const int n = in->ranks * LS_ACTORS, first = (int)ls_interpreter_draw(in, (uint64_t)n);
    for (int i = 0; i < n; i++) {
        const int rank = (first + i) % n / LS_ACTORS, actor = (first + i) % n % LS_ACTORS;
        if (in->rank[rank].class[actor] == class && move(in, rank, actor)) return true;
    }
    return false;
}

static bool move_any(ls_interpreter *in) {
    const int start = !in->strict && ls_interpreter_draw(in, 32) == 0
                          ? (int)ls_interpreter_draw(in, LS_CLASSES)
                          : 0; /* out of turn */
    for (int c = 0; c < LS_CLASSES; c++) {
        if (move_class(in, (start + c) % LS_CLASSES)) return true;
    }
    return false;
}

/* --- from outside -------------------------------------------------------------------------------------------------------- */

static void prepare(ls_interpreter *in, ls_interpreted_rank *r, const ls_image *image, size_t unit) {
    r->image = image;
    r->stages = ls_image_sequence(image, r->sequence);
    ls_hashes_create(&r->store, image, unit, in->arena);
    r->words = LS_NEW_ARRAY(in->arena, uint64_t, image->words + 1);
    int most = 1;
    for (int p = 0; p < LS_PROGRAMS; p++) {
        const ls_program *program = &image->programs[p];
        most = (int)ls_max(most, program->n_instrs);
        r->instrs[p] = LS_NEW_ARRAY(in->arena, ls_interpreted, program->n_instrs + 1);
        for (int i = 0; i < program->n_instrs; i++) {
            const ls_instr *instr = &program->instrs[i];
            ls_interpreted *units = &r->instrs[p][i];
            in->span = (size_t)ls_max((int64_t)in->span, instr->number + 1);
            for (int k = 0; k < instr->n_in; k++)
                units->in[k] = ls_hashes_units(&r->store, &instr->in[k], in->arena);
            for (int k = 0; k < instr->n_out; k++)
                units->out[k] = ls_hashes_units(&r->store, &instr->out[k], in->arena);
            units->workspace = ls_hashes_units(&r->store, instr->workspace, in->arena);
        }
    }
    for (int q = 0; q < LS_QUEUES; q++) r->queue[q].instrs = LS_NEW_ARRAY(in->arena, int, most);
}

ls_interpreter *ls_interpreter_create(const ls_image *const *images, int ranks) {
    ls_arena *arena = ls_arena_create();
    ls_interpreter *in = LS_NEW(arena, ls_interpreter);
    in->arena = arena;
    in->ranks = ranks;
    in->rank = LS_NEW_ARRAY(arena, ls_interpreted_rank, ranks);
    const size_t unit = ls_hashes_unit(images, ranks);
    for (int r = 0; r < ranks; r++) prepare(in, &in->rank[r], images[r], unit);
    in->n_reads = (size_t)ranks * LS_SEQUENCE * in->span;
    in->reads = LS_NEW_ARRAY(arena, uint64_t, in->n_reads + 1);
    return in;
}

void ls_interpreter_destroy(ls_interpreter *in) {
    if (in != NULL) ls_arena_destroy(in->arena);
}

/*
 * Who is held back for whom in this run: nobody; one for all, or all for one, which finds most; or by chance.
 */
static void choose_classes(ls_interpreter *in) {
    enum { ONE_SLOW = 4, ONE_FAST = 7, EQUAL = 8, WAYS = 12 };
    const int way = (int)ls_interpreter_draw(in, WAYS),
              one = (int)ls_interpreter_draw(in, (uint64_t)in->ranks * LS_ACTORS);
    in->strict = ls_interpreter_draw(in, 3) > 0;
    for (int i = 0; i < in->ranks * LS_ACTORS; i++) {
        int *class = &in->rank[i / LS_ACTORS].class[i % LS_ACTORS];
        if (way < ONE_SLOW)
            *class = i == one;
        else if (way < ONE_FAST)
            *class = i != one;
        else
            *class = way < EQUAL ? 0 : (int)ls_interpreter_draw(in, LS_CLASSES);
    }
}

static void reset(ls_interpreter *in, uint64_t seed) {
    in->seed = seed;
    in->draws = 0;
    in->outcome = (ls_interpreter_result){.n_reads = in->n_reads, .span = in->span, .reads = in->reads};
    memset(in->reads, 0, in->n_reads * sizeof *in->reads);
    choose_classes(in);
    for (int rank = 0; rank < in->ranks; rank++) {
        ls_interpreted_rank *r = &in->rank[rank];
        ls_network_clear(in, rank);
        memset(r->words, 0, sizeof *r->words * (size_t)r->image->words);
        memset(r->runs, 0, sizeof r->runs);
        ls_hashes_reset(&r->store);
        r->stage = 0;
        begin_program(r);
    }
}

ls_interpreter_result ls_interpreter_run(ls_interpreter *in, uint64_t seed) {
    reset(in, seed);
    while (move_any(in)) {
    }
    for (int r = 0; r < in->ranks; r++) {
        in->outcome.hung |= in->rank[r].stage < in->rank[r].stages;
        in->outcome.left = ls_hash_mix(in->outcome.left, ls_hashes_left(&in->rank[r].store));
    }
    return in->outcome;
}

bool ls_interpreter_same(const ls_interpreter_result *a, const ls_interpreter_result *b) {
    if (b->hung || b->poison || b->outside || a->left != b->left) return false;
    const size_t rows = ls_min((int64_t)(a->n_reads / a->span), (int64_t)(b->n_reads / b->span));
    for (size_t row = 0; row < rows; row++) {
        for (size_t i = 0; i < a->span && i < b->span; i++) {
            const uint64_t x = a->reads[row * a->span + i], y = b->reads[row * b->span + i];
            if (x != 0 && y != 0 && x != y) return false;
        }
    }
    return true;
}
