/*
 * The interpreter: queues, transfers, and the random choice of what advances next. Its memory is in interpret_memory.c.
 */
#include "run/interpret_impl.h"

#include "program/program.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_PIECES = 4, CLASSES = 3 };

/* A put or signal that has not completed. */
typedef struct pending_put {
    struct pending_put *next; /* the next one of this rank, in the order in which they began */
    int peer, queue, instr;
    const ls_units *from, *to; /* NULL: a signal */
    int units;                 /* how many of these are transferred, from the first on */
    int piece[MOST_PIECES][2]; /* [from, to) of the units, in the order in which the pieces arrive */
    int n, delivered;
    uint64_t sum; /* hash of what was read so far */
    size_t read;  /* index in `reads` for this hash */
    int word;
    uint64_t generation;
} pending_put;

/* The head of a queue while it runs. */
typedef struct queue_state {
    bool running;         /* a kernel has begun and not ended */
    uint64_t inputs_hash; /* hash of its inputs when it began */
} queue_state;

typedef struct rank_state {
    const ls_image *image;
    ls_hashes store;
    ls_units ***units; /* by program, instruction and access (ls_instr_access_at) */
    ls_cursor *cursor; /* by program */
    uint64_t *runs;    /* by program */
    ls_uses *uses;     /* by program */
    int *walk;         /* programs, in the order in which they run: the same on all ranks */
    int stages, stage; /* programs of the walk; index into it */
    queue_state *queue;
    uint64_t *words;
    pending_put *puts;
    int *class; /* by actor: it advances only if none of a lower class number can, with exceptions */
} rank_state;

struct ls_interpreter {
    ls_arena *arena;
    int ranks;
    int actors; /* of each rank: its queues; the last actor is the transfers that the rank has begun */
    rank_state *rank;
    size_t span, n_reads;
    uint64_t *reads;
    pending_put *free_puts;
    uint64_t seed, draws;
    bool strict;                   /* there are no exceptions from the order of classes */
    ls_interpreter_result outcome; /* so far */
};

/* A random number from 0 to below - 1. */
static uint64_t draw(ls_interpreter *in, uint64_t below) {
    uint64_t x = in->seed + ++in->draws * 0x9e3779b97f4a7c15u; /* splitmix64 */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (x ^ (x >> 31)) % below;
}

static int index_of(const rank_state *r) { return r->walk[r->stage]; }

static const ls_program *program_of(const rank_state *r) { return &r->image->programs[index_of(r)]; }

static ls_cursor *cursor_of(rank_state *r) { return &r->cursor[index_of(r)]; }

static uint64_t generation_of(const rank_state *r, const ls_instr *instr) {
    return ls_instr_generation(program_of(r), instr, r->runs[index_of(r)]);
}

static size_t read_index(const ls_interpreter *in, int rank, int number) {
    return ((size_t)rank * (size_t)in->rank[rank].stages + (size_t)in->rank[rank].stage) * in->span + (size_t)number;
}

/* --- transfers ---------------------------------------------------------------------------------------------------- */

static pending_put *new_put(ls_interpreter *in, int rank) {
    pending_put *p = in->free_puts;
    if (p != NULL)
        in->free_puts = p->next;
    else
        p = LS_NEW(in->arena, pending_put);
    *p = (pending_put){0};
    pending_put **last = &in->rank[rank].puts;
    while (*last != NULL) last = &(*last)->next;
    *last = p;
    return p;
}

static void split(ls_interpreter *in, pending_put *p) {
    const int most = 1 + (int)draw(in, MOST_PIECES);
    for (int at = 0; at < p->units; p->n++) {
        const bool last = p->n + 1 == most;
        const int end = last ? p->units : at + 1 + (int)draw(in, (uint64_t)(p->units - at));
        const int place = (int)draw(in, (uint64_t)p->n + 1); /* the pieces are shuffled while they are made */
        memcpy(p->piece[p->n], p->piece[place], sizeof p->piece[0]);
        p->piece[place][0] = at;
        p->piece[place][1] = end;
        at = end;
    }
}

/* Derives the number of rows that are put from the hash that takes the place of this number. */
static void count_rows(ls_interpreter *in, int rank, const ls_instr *instr, const ls_units *count, pending_put *p) {
    const int row = (int)(instr->counted / in->rank[rank].store.unit);
    p->sum = ls_hashes_read(&in->rank[rank].store, count, (uint64_t)instr->number + 1, &in->outcome.poison);
    p->units = row * (int)(p->sum % (uint64_t)(p->units / row + 1));
    in->reads[p->read] = p->sum | 1; /* also if no row is put */
}

static void begin_put(ls_interpreter *in, int rank, int queue, const ls_instr *instr, const ls_units *units) {
    rank_state *r = &in->rank[rank];
    pending_put *p = new_put(in, rank);
    p->peer = ls_peer_rank(r->image, instr->peer, rank);
    p->queue = queue;
    p->instr = (int)(instr - program_of(r)->instrs);
    p->word = ls_instr_word(program_of(r), instr);
    p->generation = generation_of(r, instr);
    if (instr->kind != LS_INSTR_PUT) return;
    p->from = &units[0];
    p->to = &units[instr->n_in];
    p->units = (int)ls_min(p->from->n, p->to->n);
    p->read = read_index(in, rank, instr->number);
    if (ls_instr_count(instr) != NULL) count_rows(in, rank, instr, &units[1], p);
    split(in, p);
    ls_hashes_poison(&in->rank[p->peer].store, p->to);
    ls_hashes_leave_out(&in->rank[p->peer].store, p->to, p->units);
}

static void deliver_piece(ls_interpreter *in, int rank, pending_put *p) {
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

/* Delivers a piece or the signal of a random pending put; false: there is none. */
static bool advance_transfers(ls_interpreter *in, int rank) {
    rank_state *r = &in->rank[rank];
    pending_put **link = &r->puts;
    if (*link == NULL) return false;
    for (uint64_t steps = draw(in, 32); steps > 0; steps--) link = (*link)->next != NULL ? &(*link)->next : &r->puts;
    pending_put *p = *link;
    if (p->delivered < p->n) {
        deliver_piece(in, rank, p);
        return true;
    }
    in->rank[p->peer].words[p->word] = p->generation;
    *link = p->next;
    p->next = in->free_puts;
    in->free_puts = p;
    return true;
}

/*
 * Whether the puts of a queue, up to this instruction of the current program, are done: all their pieces have been
 * delivered.
 */
static bool are_done(const rank_state *r, int queue, int instr) {
    for (const pending_put *p = r->puts; p != NULL; p = p->next) {
        if (p->queue == queue && p->instr <= instr && p->delivered < p->n) return false;
    }
    return true;
}

static void clear_transfers(ls_interpreter *in, int rank) {
    rank_state *r = &in->rank[rank];
    while (r->puts != NULL) {
        pending_put *p = r->puts;
        r->puts = p->next;
        p->next = in->free_puts;
        in->free_puts = p;
    }
}

/* --- queues ------------------------------------------------------------------------------------------------------- */

/* A hash of what a kernel reads: its inputs, and the outputs that it adds to. */
static uint64_t read_inputs(ls_interpreter *in, int rank, const ls_instr *instr, const ls_units *units) {
    uint64_t hash = ls_hash_mix((uint64_t)rank + 1, (uint64_t)instr->number + 1);
    for (int k = 0; k < ls_instr_accesses(instr); k++) {
        const ls_instr_access access = ls_instr_access_at(instr, k);
        if (!ls_access_reads(&access)) continue;
        const int owner = ls_peer_rank(in->rank[rank].image, access.operand->peer, rank);
        hash = ls_hashes_read(&in->rank[owner].store, &units[k], hash, &in->outcome.poison);
    }
    return hash;
}

static void note_outside(ls_interpreter *in, const ls_instr *instr, const ls_units *units) {
    for (int k = 0; k < ls_instr_accesses(instr); k++) in->outcome.outside |= units[k].outside;
}

static void end_kernel(ls_interpreter *in, int rank, queue_state *q, const ls_instr *instr, const ls_units *units) {
    ls_hashes *store = &in->rank[rank].store;
    uint64_t hash = read_inputs(in, rank, instr, units);
    if (hash != q->inputs_hash) hash = ls_hash_mix(hash, q->inputs_hash); /* an input changed while it ran */
    in->reads[read_index(in, rank, instr->number)] = hash;
    for (int i = 0; i < instr->n_out; i++)
        ls_hashes_write(store, &units[instr->n_in + i], ls_hash_mix(hash, (uint64_t)i + 1));
}

/*
 * Whether the kernel writes this output over something that it reads first: an input or an earlier output in place, or
 * a sum.
 */
static bool works_in_place(const ls_image *image, const ls_instr *instr, int output, bool adds) {
    bool in_place = adds;
    for (int k = 0; k < instr->n_in; k++) {
        const ls_sharing sharing = ls_instr_sharing(image, instr, output, k);
        if (sharing == LS_CLASH) return false;
        in_place |= sharing == LS_IN_PLACE;
    }
    for (int k = 0; k < output; k++)
        in_place |= ls_instr_sharing(image, instr, output, LS_KERNEL_INPUTS + k) == LS_IN_PLACE;
    return in_place;
}

/* Poisons the outputs when a kernel begins, since it may write results before it has read all inputs. */
static void spoil_results(rank_state *r, const ls_instr *instr, const ls_units *units) {
    for (int k = 0; k < ls_instr_accesses(instr); k++) {
        const ls_instr_access access = ls_instr_access_at(instr, k);
        if (!ls_access_writes(&access)) continue;
        const bool adds = access.kind == LS_ACCESS_UPDATE;
        if (access.output < 0 || !works_in_place(r->image, instr, access.output, adds))
            ls_hashes_poison(&r->store, &units[k]);
    }
}

/* Begins or ends an instruction. Returns whether it has ended. */
static bool execute(ls_interpreter *in, int rank, int queue, const ls_instr *instr, const ls_units *units) {
    queue_state *q = &in->rank[rank].queue[queue];
    if (q->running) {
        end_kernel(in, rank, q, instr, units);
        q->running = false;
        return true;
    }
    note_outside(in, instr, units);
    if (instr->kind == LS_INSTR_KERNEL) {
        q->inputs_hash = read_inputs(in, rank, instr, units);
        spoil_results(&in->rank[rank], instr, units);
        q->running = true;
        return false;
    }
    if (ls_traits(instr)->sets) begin_put(in, rank, queue, instr, units);
    return true;
}

/* Whether nothing holds up the head of the queue. */
static bool may_start(const rank_state *r, ls_cursor *cursor, int queue) {
    const ls_after *obstacle;
    while ((obstacle = ls_cursor_obstacle(cursor, queue)) != NULL) {
        if (!ls_cursor_awaits_puts(cursor, obstacle) || !are_done(r, obstacle->queue, obstacle->instr)) return false;
        ls_cursor_complete(cursor, obstacle->queue, obstacle->instr);
    }
    return true;
}

static bool advance_queue(ls_interpreter *in, int rank, int queue) {
    rank_state *r = &in->rank[rank];
    ls_cursor *cursor = cursor_of(r);
    const int i = queue < cursor->program->queues ? ls_cursor_head(cursor, queue) : -1;
    if (i < 0 || !may_start(r, cursor, queue)) return false;
    const ls_instr *instr = &cursor->program->instrs[i];
    if (ls_traits(instr)->awaits && r->words[ls_instr_word(cursor->program, instr)] < generation_of(r, instr))
        return false;
    if (execute(in, rank, queue, instr, r->units[index_of(r)][i])) ls_cursor_advance(cursor, queue);
    return true;
}

static void begin_program(rank_state *r) {
    ls_cursor_begin(cursor_of(r), r->runs[index_of(r)]);
    ls_hashes_set_inputs(&r->store, (uint64_t)r->stage + 1);
}

/* Begins the next program if all queues have ended and all puts are done; else returns false. */
static bool next_program(rank_state *r) {
    const ls_cursor *cursor = cursor_of(r);
    if (!ls_cursor_has_ended(cursor)) return false;
    for (int q = 0; q < cursor->program->queues; q++) {
        if (!are_done(r, q, cursor->program->n_instrs)) return false;
    }
    r->runs[index_of(r)]++;
    r->stage++;
    if (r->stage < r->stages) begin_program(r);
    return true;
}

/* Advances a queue by one step, the rank to its next program, or a transfer; false: it cannot advance. */
static bool advance_actor(ls_interpreter *in, int rank, int actor) {
    rank_state *r = &in->rank[rank];
    if (actor == in->actors - 1) return advance_transfers(in, rank);
    if (r->stage == r->stages) return false;
    return advance_queue(in, rank, actor) || next_program(r);
}

/* Advances one actor of the class, searched from a random one on; false: none can advance. */
static bool advance_class(ls_interpreter *in, int class) {
    const int n = in->ranks * in->actors, first = (int)draw(in, (uint64_t)n);
    for (int i = 0; i < n; i++) {
        const int rank = (first + i) % n / in->actors, actor = (first + i) % n % in->actors;
        if (in->rank[rank].class[actor] == class && advance_actor(in, rank, actor)) return true;
    }
    return false;
}

static bool advance_any(ls_interpreter *in) {
    const int start =
        !in->strict && draw(in, 32) == 0 ? (int)draw(in, CLASSES) : 0; /* an exception from the order of classes */
    for (int c = 0; c < CLASSES; c++) {
        if (advance_class(in, (start + c) % CLASSES)) return true;
    }
    return false;
}

/* --- interface ---------------------------------------------------------------------------------------------------- */

static void prepare(ls_interpreter *in, int rank, const ls_image *image, size_t unit) {
    rank_state *r = &in->rank[rank];
    r->image = image;
    r->stages = ls_phase_walk(image, in->arena, &r->walk);
    r->units = LS_NEW_ARRAY(in->arena, ls_units **, image->n_programs);
    r->cursor = LS_NEW_ARRAY(in->arena, ls_cursor, image->n_programs);
    r->runs = LS_NEW_ARRAY(in->arena, uint64_t, image->n_programs);
    r->uses = LS_NEW_ARRAY(in->arena, ls_uses, image->n_programs);
    ls_hashes_create(&r->store, image, rank, unit, in->arena);
    r->words = LS_NEW_ARRAY(in->arena, uint64_t, image->words + 1);
    for (int p = 0; p < image->n_programs; p++) {
        const ls_program *program = &image->programs[p];
        r->cursor[p] = ls_cursor_make(program, in->arena);
        r->uses[p] = ls_uses_find(program, in->arena);
        r->units[p] = LS_NEW_ARRAY(in->arena, ls_units *, program->n_instrs + 1);
        in->actors = (int)ls_max(in->actors, program->queues + 1);
        for (int i = 0; i < program->n_instrs; i++) {
            const ls_instr *instr = &program->instrs[i];
            r->units[p][i] = LS_NEW_ARRAY(in->arena, ls_units, ls_instr_accesses(instr));
            in->span = (size_t)ls_max((int64_t)in->span, instr->number + 1);
            for (int k = 0; k < ls_instr_accesses(instr); k++)
                r->units[p][i][k] = ls_hashes_units(&r->store, ls_instr_access_at(instr, k).operand, in->arena);
        }
    }
}

/*
 * Sets *out to the index of the instruction, RECEIVE or LEASE, by which the peer tells the address of this
 * instruction's use; false: the peer has none.
 */
static bool be_told(const ls_interpreter *in, int rank, int program, const ls_instr *instr, int *out) {
    const rank_state *peer = &in->rank[ls_peer_rank(in->rank[rank].image, instr->peer, rank)];
    *out = ls_use_told(&peer->uses[program], &peer->image->programs[program], instr);
    return *out >= 0;
}

/*
 * The units that a kernel reads in place: the operand's part of the borrowed block, where the block's owner leases it.
 */
static ls_units units_in_place(const ls_interpreter *in, int rank, int program, const ls_operand *o) {
    const ls_units nowhere = {.outside = true};
    const rank_state *r = &in->rank[rank];
    if (ls_operand_is_empty(o)) return (ls_units){0};
    const ls_instr *borrow = ls_borrow_of(&r->image->programs[program], &r->uses[program], o);
    int lease;
    if (borrow == NULL || !be_told(in, rank, program, borrow, &lease)) return nowhere;
    const rank_state *owner = &in->rank[ls_peer_rank(r->image, borrow->peer, rank)];
    const ls_operand *block = ls_instr_subject(&owner->image->programs[program].instrs[lease]);
    const ls_range lies = ls_operand_range(owner->image, block, owner->store.rank);
    const ls_range part = ls_block_part(&borrow->out[0], &lies, o);
    return ls_hashes_units_of(&owner->store, owner->image->buffers[block->buffer].space, &part, in->arena);
}

/* Sets the targets of the rank's puts and the sources of its reads in place, as the other ends tell them. */
static void link_to_peers(ls_interpreter *in, int rank) {
    const rank_state *r = &in->rank[rank];
    for (int p = 0; p < r->image->n_programs; p++) {
        const ls_program *program = &r->image->programs[p];
        for (int i = 0; i < program->n_instrs; i++) {
            const ls_instr *instr = &program->instrs[i];
            int receive;
            if (instr->kind == LS_INSTR_PUT && be_told(in, rank, p, instr, &receive))
                r->units[p][i][instr->n_in] = in->rank[ls_peer_rank(r->image, instr->peer, rank)].units[p][receive][0];
            else if (instr->kind == LS_INSTR_PUT)
                r->units[p][i][instr->n_in] = (ls_units){.outside = true};
            for (int k = 0; k < ls_instr_operands(instr) && instr->kind == LS_INSTR_KERNEL; k++) {
                const ls_operand *o = ls_instr_access_at(instr, k).operand;
                if (o->buffer >= 0 && !ls_peer_is_self(o->peer)) r->units[p][i][k] = units_in_place(in, rank, p, o);
            }
        }
    }
}

ls_interpreter *ls_interpreter_create(const ls_image *const *images, int ranks) {
    ls_arena *arena = ls_arena_create();
    ls_interpreter *in = LS_NEW(arena, ls_interpreter);
    in->arena = arena;
    in->ranks = ranks;
    in->rank = LS_NEW_ARRAY(arena, rank_state, ranks);
    const size_t unit = ls_hashes_unit(images, ranks);
    for (int r = 0; r < ranks; r++) prepare(in, r, images[r], unit);
    for (int r = 0; r < ranks; r++) link_to_peers(in, r);
    for (int r = 0; r < ranks; r++) {
        in->rank[r].queue = LS_NEW_ARRAY(arena, queue_state, in->actors);
        in->rank[r].class = LS_NEW_ARRAY(arena, int, in->actors);
    }
    in->n_reads = (size_t)ranks * (size_t)in->rank[0].stages * in->span;
    in->reads = LS_NEW_ARRAY(arena, uint64_t, in->n_reads + 1);
    return in;
}

void ls_interpreter_destroy(ls_interpreter *in) {
    if (in != NULL) ls_arena_destroy(in->arena);
}

/*
 * Chooses the actors that are held back in this run: none, one, all but one, or random ones. Holding back one, or all
 * but one, finds the most errors.
 */
static void choose_classes(ls_interpreter *in) {
    enum { ONE_SLOW = 4, ONE_FAST = 7, EQUAL = 8, WAYS = 12 };
    const int way = (int)draw(in, WAYS), one = (int)draw(in, (uint64_t)in->ranks * (uint64_t)in->actors);
    in->strict = draw(in, 3) > 0;
    for (int i = 0; i < in->ranks * in->actors; i++) {
        int *class = &in->rank[i / in->actors].class[i % in->actors];
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
    in->outcome = (ls_interpreter_result){.n_reads = in->n_reads, .span = in->span, .reads = in->reads};
    memset(in->reads, 0, in->n_reads * sizeof *in->reads);
    choose_classes(in);
    for (int rank = 0; rank < in->ranks; rank++) {
        rank_state *r = &in->rank[rank];
        clear_transfers(in, rank);
        memset(r->words, 0, sizeof *r->words * (size_t)r->image->words);
        memset(r->runs, 0, sizeof *r->runs * (size_t)r->image->n_programs);
        ls_hashes_reset(&r->store);
        r->stage = 0;
        for (int a = 0; a < in->actors; a++) r->queue[a].running = false;
        begin_program(r);
    }
}

ls_interpreter_result ls_interpreter_run(ls_interpreter *in, uint64_t seed) {
    reset(in, seed);
    while (advance_any(in)) {
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
