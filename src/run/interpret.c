/* See interpret.h. Queues, words and transfers; memory is in interpret_memory.c. */
#include "run/interpret.h"

#include "run/interpret_impl.h"

#include <stdlib.h>
#include <string.h>

static const int sequence[] = {LS_PROGRAM_MICRO, LS_PROGRAM_MICRO, LS_PROGRAM_UPDATE, LS_PROGRAM_MICRO,
                               LS_PROGRAM_UPDATE};
enum { STAGES = LS_COUNT(sequence), MOST_PIECES = 4, CLASSES = 3 };

/* What can move: each queue of each rank, and what each rank has sent. */
enum { NETWORK = LS_QUEUES, ACTORS };

/* A put or signal under way. */
typedef struct parcel {
    struct parcel *next; /* later ones of this rank */
    int peer, queue;
    const ls_units *from, *to; /* NULL: a signal alone */
    int piece[MOST_PIECES][2]; /* from, to: units; in the order in which they will arrive */
    int n, delivered;
    uint64_t sum; /* of what was read */
    size_t read;  /* where it is noted */
    int word;
    uint64_t generation;
} parcel;

typedef struct queue_state {
    int *instrs; /* of the present program, in order */
    int n, next, done;
    bool running;   /* a kernel has begun */
    uint64_t found; /* what it read then */
} queue_state;

typedef struct rank_state {
    const ls_image *image;
    ls_store store;
    ls_interpreted *instrs[LS_PROGRAMS];
    int stage;
    uint64_t runs[LS_PROGRAMS];
    queue_state queue[LS_QUEUES];
    uint64_t *words;
    parcel *parcels;
    int class[ACTORS]; /* of a lower class moves only when nothing of a higher one can */
} rank_state;

struct ls_interpreter {
    ls_arena *arena;
    int ranks;
    rank_state *rank;
    size_t span, n_reads;
    uint64_t *reads;
    parcel *free_parcels;
    uint64_t seed, draws;
    bool strict;        /* classes are kept without exception */
    ls_outcome outcome; /* so far */
};

static uint64_t draw(ls_interpreter *in, uint64_t below) {
    uint64_t x = in->seed + ++in->draws * 0x9e3779b97f4a7c15u; /* splitmix64 */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (x ^ (x >> 31)) % below;
}

static const ls_program *program_of(const rank_state *r) { return &r->image->programs[sequence[r->stage]]; }

static uint64_t generation_of(const rank_state *r, const ls_instr *instr) {
    const ls_program *p = program_of(r);
    return r->runs[sequence[r->stage]] * p->channels[instr->channel].uses + instr->generation;
}

static int word_of(const ls_program *p, const ls_instr *instr) {
    return p->first_word + 2 * instr->channel + (instr->ready ? 1 : 0);
}

static size_t read_index(const ls_interpreter *in, int rank, int number) {
    return ((size_t)rank * STAGES + (size_t)in->rank[rank].stage) * in->span + (size_t)number;
}

/* --- transfers ----------------------------------------------------------------------------------------------------------- */

static parcel *new_parcel(ls_interpreter *in, int rank) {
    parcel *p = in->free_parcels;
    if (p != NULL)
        in->free_parcels = p->next;
    else
        p = LS_NEW(in->arena, parcel);
    *p = (parcel){0};
    parcel **last = &in->rank[rank].parcels;
    while (*last != NULL) last = &(*last)->next;
    *last = p;
    return p;
}

static void cut_up(ls_interpreter *in, parcel *p) {
    const int units = (int)ls_min(p->from->n, p->to->n), most = 1 + (int)draw(in, MOST_PIECES);
    for (int at = 0; at < units; p->n++) {
        const bool last = p->n + 1 == most;
        const int end = last ? units : at + 1 + (int)draw(in, (uint64_t)(units - at));
        const int place = (int)draw(in, (uint64_t)p->n + 1); /* shuffles as it goes */
        memcpy(p->piece[p->n], p->piece[place], sizeof p->piece[0]);
        p->piece[place][0] = at;
        p->piece[place][1] = end;
        at = end;
    }
}

static void send(ls_interpreter *in, int rank, int queue, const ls_instr *instr,
                 const ls_interpreted *units) {
    rank_state *r = &in->rank[rank];
    parcel *p = new_parcel(in, rank);
    p->peer = instr->peer;
    p->queue = queue;
    p->word = word_of(program_of(r), instr);
    p->generation = generation_of(r, instr);
    if (instr->kind != LS_INSTR_PUT_SIGNAL) return;
    p->from = &units->in[0];
    p->to = &units->out[0];
    p->read = read_index(in, rank, instr->number);
    cut_up(in, p);
    ls_store_poison(&in->rank[p->peer].store, p->to);
}

static void deliver_piece(ls_interpreter *in, int rank, parcel *p) {
    const int *piece = p->piece[p->delivered++];
    const uint64_t *source = in->rank[rank].store.value[p->from->space];
    uint64_t *target = in->rank[p->peer].store.value[p->to->space];
    for (int i = piece[0]; i < piece[1]; i++) {
        const uint64_t value = source[p->from->at[i]];
        in->outcome.poison |= value == LS_POISON;
        p->sum += ls_hash_mix(value, (uint64_t)i + 1);
        target[p->to->at[i]] = value;
    }
    if (p->delivered == p->n) in->reads[p->read] = p->sum | 1;
}

static bool is_behind(const rank_state *r, const parcel *p) {
    for (const parcel *e = r->parcels; e != p; e = e->next) {
        if (e->word == p->word && e->peer == p->peer) return true;
    }
    return false;
}

/* A piece of some parcel arrives, or its signal. */
static bool move_network(ls_interpreter *in, int rank) {
    rank_state *r = &in->rank[rank];
    uint64_t n = 0;
    for (const parcel *p = r->parcels; p != NULL; p = p->next) n++;
    if (n == 0) return false;
    parcel **link = &r->parcels;
    for (uint64_t i = draw(in, n); i > 0; i--) link = &(*link)->next;
    parcel *p = *link;
    if (p->delivered < p->n) {
        deliver_piece(in, rank, p);
        return true;
    }
    if (is_behind(r, p)) { /* the first of its word may go */
        link = &r->parcels;
        while ((*link)->word != p->word || (*link)->peer != p->peer) link = &(*link)->next;
        p = *link;
        while (p->delivered < p->n) deliver_piece(in, rank, p);
    }
    in->rank[p->peer].words[p->word] = p->generation;
    *link = p->next;
    p->next = in->free_parcels;
    in->free_parcels = p;
    return true;
}

/* The payloads of this queue's puts arrive. */
static void quiet(ls_interpreter *in, int rank, int queue) {
    for (parcel *p = in->rank[rank].parcels; p != NULL; p = p->next) {
        while (p->queue == queue && p->delivered < p->n) deliver_piece(in, rank, p);
    }
}

/* --- queues -------------------------------------------------------------------------------------------------------------- */

/* A hash of all that a kernel reads: inputs, and outputs that it adds to. */
static uint64_t find(ls_interpreter *in, int rank, const ls_instr *instr, const ls_interpreted *units) {
    const ls_store *store = &in->rank[rank].store;
    uint64_t hash = ls_hash_mix((uint64_t)rank + 1, (uint64_t)instr->number + 1);
    for (int i = 0; i < instr->n_in; i++)
        hash = ls_store_read(store, &units->in[i], hash, &in->outcome.poison);
    for (int i = 0; i < instr->n_out; i++) {
        if (instr->out[i].value != 0) hash = ls_store_read(store, &units->out[i], hash, &in->outcome.poison);
    }
    return hash;
}

static void note_outside(ls_interpreter *in, const ls_instr *instr, const ls_interpreted *units) {
    for (int i = 0; i < instr->n_in; i++) in->outcome.outside |= units->in[i].outside;
    for (int i = 0; i < instr->n_out; i++) in->outcome.outside |= units->out[i].outside;
    in->outcome.outside |= units->workspace.outside;
}

static void end_kernel(ls_interpreter *in, int rank, queue_state *q, const ls_instr *instr,
                       const ls_interpreted *units) {
    ls_store *store = &in->rank[rank].store;
    uint64_t hash = find(in, rank, instr, units);
    if (hash != q->found) hash = ls_hash_mix(hash, q->found); /* something changed under its eyes */
    in->reads[read_index(in, rank, instr->number)] = hash;
    for (int i = 0; i < instr->n_out; i++)
        ls_store_write(store, &units->out[i], ls_hash_mix(hash, (uint64_t)i + 1));
}

/* Results that may be written before everything has been read: not those in place. */
static void spoil_results(rank_state *r, const ls_instr *instr, const ls_interpreted *units) {
    for (int i = 0; i < instr->n_out; i++) {
        bool in_place = instr->out[i].value != 0;
        for (int k = 0; k < instr->n_in; k++) in_place |= instr->in[k].buffer == instr->out[i].buffer;
        for (int k = 0; k < instr->n_out; k++)
            in_place |= instr->out[k].value != 0 && instr->out[k].buffer == instr->out[i].buffer;
        if (!in_place) ls_store_poison(&r->store, &units->out[i]);
    }
    ls_store_poison(&r->store, &units->workspace);
}

/* Begins or ends the instruction; whether it is through. */
static bool execute(ls_interpreter *in, int rank, int queue, const ls_instr *instr,
                    const ls_interpreted *units) {
    queue_state *q = &in->rank[rank].queue[queue];
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
    if (instr->kind == LS_INSTR_QUIET) quiet(in, rank, queue);
    if (instr->kind == LS_INSTR_PUT_SIGNAL || instr->kind == LS_INSTR_SIGNAL)
        send(in, rank, queue, instr, units);
    return true;
}

static bool move_queue(ls_interpreter *in, int rank, int queue) {
    rank_state *r = &in->rank[rank];
    queue_state *q = &r->queue[queue];
    if (q->next == q->n) return false;
    const ls_program *p = program_of(r);
    const int i = q->instrs[q->next];
    const ls_instr *instr = &p->instrs[i];
    if (instr->after > r->queue[1 - queue].done) return false;
    if (instr->kind == LS_INSTR_WAIT && r->words[word_of(p, instr)] < generation_of(r, instr)) return false;
    if (execute(in, rank, queue, instr, &r->instrs[sequence[r->stage]][i])) {
        q->done = i;
        q->next++;
    }
    return true;
}

static void begin_program(rank_state *r) {
    const ls_program *p = program_of(r);
    for (int q = 0; q < LS_QUEUES; q++) r->queue[q] = (queue_state){.instrs = r->queue[q].instrs, .done = -1};
    for (int i = 0; i < p->n_instrs; i++) {
        queue_state *q = &r->queue[p->instrs[i].queue];
        q->instrs[q->n++] = i;
    }
    ls_store_set_inputs(&r->store, (uint64_t)r->stage + 1);
}

/* On to the next program, when both queues are through. */
static bool advance(rank_state *r) {
    for (int q = 0; q < LS_QUEUES; q++) {
        if (r->queue[q].next < r->queue[q].n) return false;
    }
    r->runs[sequence[r->stage]]++;
    r->stage++;
    if (r->stage < STAGES) begin_program(r);
    return true;
}

static bool move(ls_interpreter *in, int rank, int actor) {
    rank_state *r = &in->rank[rank];
    if (actor == NETWORK) return move_network(in, rank);
    if (r->stage == STAGES) return false;
    return move_queue(in, rank, actor) || advance(r);
}

/* Something of this class moves, from a random one on; false: nothing can. */
static bool move_class(ls_interpreter *in, int class) {
    const int n = in->ranks * ACTORS, first = (int)draw(in, (uint64_t)n);
    for (int i = 0; i < n; i++) {
        const int rank = (first + i) % n / ACTORS, actor = (first + i) % n % ACTORS;
        if (in->rank[rank].class[actor] == class && move(in, rank, actor)) return true;
    }
    return false;
}

static bool move_any(ls_interpreter *in) {
    const int start = !in->strict && draw(in, 32) == 0 ? (int)draw(in, CLASSES) : 0; /* out of turn */
    for (int c = 0; c < CLASSES; c++) {
        if (move_class(in, (start + c) % CLASSES)) return true;
    }
    return false;
}

/* --- from outside -------------------------------------------------------------------------------------------------------- */

static void prepare(ls_interpreter *in, rank_state *r, const ls_image *image, size_t unit) {
    r->image = image;
    ls_store_create(&r->store, image, unit, in->arena);
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
                units->in[k] = ls_store_units(&r->store, &instr->in[k], in->arena);
            for (int k = 0; k < instr->n_out; k++)
                units->out[k] = ls_store_units(&r->store, &instr->out[k], in->arena);
            units->workspace = ls_store_units(&r->store, &instr->workspace, in->arena);
        }
    }
    for (int q = 0; q < LS_QUEUES; q++) r->queue[q].instrs = LS_NEW_ARRAY(in->arena, int, most);
}

ls_interpreter *ls_interpreter_create(const ls_image *const *images, int ranks) {
    ls_arena *arena = ls_arena_create();
    ls_interpreter *in = LS_NEW(arena, ls_interpreter);
    in->arena = arena;
    in->ranks = ranks;
    in->rank = LS_NEW_ARRAY(arena, rank_state, ranks);
    const size_t unit = ls_store_unit(images, ranks);
    for (int r = 0; r < ranks; r++) prepare(in, &in->rank[r], images[r], unit);
    in->n_reads = (size_t)ranks * STAGES * in->span;
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
    const int way = (int)draw(in, WAYS), one = (int)draw(in, (uint64_t)(in->ranks * ACTORS));
    in->strict = draw(in, 3) > 0;
    for (int i = 0; i < in->ranks * ACTORS; i++) {
        int *class = &in->rank[i / ACTORS].class[i % ACTORS];
        if (way < ONE_SLOW)
            *class = i == one;
        else if (way < ONE_FAST)
            *class = i != one;
        else
            *class = way < EQUAL ? 0 : (int)draw(in, CLASSES);
    }
}

static void reset(ls_interpreter *in, uint64_t seed) {
    in->seed = seed;
    in->draws = 0;
    in->outcome = (ls_outcome){.n_reads = in->n_reads, .span = in->span, .reads = in->reads};
    memset(in->reads, 0, in->n_reads * sizeof *in->reads);
    choose_classes(in);
    for (int rank = 0; rank < in->ranks; rank++) {
        rank_state *r = &in->rank[rank];
        while (r->parcels != NULL) {
            parcel *p = r->parcels;
            r->parcels = p->next;
            p->next = in->free_parcels;
            in->free_parcels = p;
        }
        memset(r->words, 0, sizeof *r->words * (size_t)r->image->words);
        memset(r->runs, 0, sizeof r->runs);
        ls_store_reset(&r->store);
        r->stage = 0;
        begin_program(r);
    }
}

ls_outcome ls_interpreter_run(ls_interpreter *in, uint64_t seed) {
    reset(in, seed);
    while (move_any(in)) {
    }
    for (int r = 0; r < in->ranks; r++) {
        in->outcome.hung |= in->rank[r].stage < STAGES;
        in->outcome.left = ls_hash_mix(in->outcome.left, ls_store_left(&in->rank[r].store));
    }
    return in->outcome;
}

bool ls_outcome_same(const ls_outcome *a, const ls_outcome *b) {
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
