/*
 * The exchange of addresses (program/address.h) when programs are prepared. The rank that receives or leases over a
 * channel tells the other end the addresses, in notes of a few uses each. It puts a note into the other end's heap,
 * which no program uses yet, and sets the word by which it will grant or lease. The other end compares the note with
 * what it knows itself, and answers it by the channel's other word; then the next note may come. At the end each rank
 * clears the notes from its heap. Runs of the programs continue with the generations that follow.
 */
#include "run/executor_impl.h"

#include <stdio.h>
#include <string.h>

/* The addresses of `n` uses of one channel. */
typedef struct note {
    int rank, n;
    uint64_t uses; /* the number of all uses of this end */
    ls_address address[];
} note;

enum { MOST_PER_NOTE = 16 };

static size_t note_bytes(int per_note) { return sizeof(note) + (size_t)per_note * sizeof(ls_address); }

/* An end of a channel during the exchange. */
typedef struct end {
    int program, channel;
    ls_channel_side side;
    bool tells;
    int peer;
    int set, awaited; /* words: the one of the peer that this end sets, and its own */
    uint64_t through; /* notes that have been answered: by the peer if this end tells, else by this end */
    uint64_t sent;    /* notes that this end has sent, if it tells */
    note *note;       /* if this end tells: the last note, which must not change until it is answered */
} end;

typedef struct exchange {
    ls_executor *ex;
    ls_arena *scratch;
    int per_note; /* uses in a note, the same on all ranks */
    end *ends;
    int n;
    size_t capacity;
} exchange;

static const ls_program *program_of(const exchange *x, const end *e) { return &x->ex->image->programs[e->program]; }

static uint64_t uses_of(const exchange *x, const end *e) {
    return program_of(x, e)->channels[e->channel].uses[e->side];
}

static uint64_t notes_for(const exchange *x, uint64_t uses) {
    const uint64_t each = (uint64_t)x->per_note;
    return (uses + each - 1) / each;
}

/* How many uses a note has that begins with use `first` of `uses`. */
static int uses_in_note(const exchange *x, uint64_t uses, uint64_t first) {
    return (int)ls_min(x->per_note, (int64_t)(uses - first));
}

/* Every channel has a place for a note in every heap, whichever of its two words the note is sent with. */
static int channels_of(const ls_comm *comm) { return ls_comm_word_count(comm) / 2; }

static ls_range place_of_note(const exchange *x, int word) {
    const size_t bytes = note_bytes(x->per_note);
    return ls_range_flat((size_t)(word / 2) * bytes, bytes);
}

size_t ls_exchange_heap(int words) { return (size_t)(words / 2) * note_bytes(1); }

/* The index of the end's k-th use, from 0, in the program's list of uses. */
static int use_at(const exchange *x, const end *e, uint64_t k) {
    return x->ex->programs[e->program].uses.first[LS_SIDES * e->channel + (int)e->side] + (int)k;
}

/* The instruction of the end's k-th use that has an address: PUT, RECEIVE, LEASE or BORROW. */
static const ls_instr *instr_at(const exchange *x, const end *e, uint64_t k) {
    return &program_of(x, e)->instrs[x->ex->programs[e->program].uses.list[use_at(x, e, k)].instr];
}

static ls_status differ(const exchange *x, const end *e, uint64_t use, const char *what) {
    return ls_error(LS_INVALID, "program %s, channel \"%s\", use %llu: %s; expected the same at both ends",
                    program_of(x, e)->name, program_of(x, e)->channels[e->channel].name, (unsigned long long)use + 1,
                    what);
}

static ls_status lacks_an_end(const exchange *x, const end *e, uint64_t use) {
    char what[64];
    snprintf(what, sizeof what, "rank %d lacks an end of it", ls_executor_rank(x->ex));
    return differ(x, e, use, what);
}

/* --- ends ----------------------------------------------------------------------------------------------- */

/* Adds the end of a channel at which this instruction, one that has an address, is. */
static void add_end(exchange *x, int program, const ls_instr *instr, bool tells) {
    const ls_program *p = &x->ex->image->programs[program];
    const int data = ls_channel_word(p, instr->channel, false), free = ls_channel_word(p, instr->channel, true);
    const bool puts = instr->kind == LS_INSTR_RECEIVE || instr->kind == LS_INSTR_PUT;
    const int opens = puts ? free : data, answers = puts ? data : free; /* set by GRANT or LEASE; by PUT or RETURN */
    *LS_PUSH(x->scratch, x->ends, x->n, x->capacity) =
        (end){.program = program,
              .channel = instr->channel,
              .side = ls_instr_side(instr),
              .tells = tells,
              .peer = ls_peer_rank(x->ex->image, instr->peer, ls_executor_rank(x->ex)),
              .set = tells ? opens : answers,
              .awaited = tells ? answers : opens,
              .note = tells ? ls_arena_alloc(x->scratch, note_bytes(x->per_note)) : NULL};
}

static ls_status find_ends(exchange *x, int program) {
    const ls_program *p = &x->ex->image->programs[program];
    ls_prepared_program *prepared = &x->ex->programs[program];
    const int ends = LS_SIDES * p->n_channels;
    prepared->uses = ls_uses_find(p, x->ex->memory);
    prepared->addresses = LS_NEW_ARRAY(x->ex->memory, ls_address, prepared->uses.first[ends] + 1);
    prepared->told = LS_NEW_ARRAY(x->ex->memory, uint64_t, ends + 1);
    for (int i = 0; i < ends; i++) {
        const end e = {.program = program, .channel = i / LS_SIDES, .side = (ls_channel_side)(i % LS_SIDES)};
        const ls_use *uses = &prepared->uses.list[prepared->uses.first[i]];
        for (uint64_t k = 0; k < uses_of(x, &e); k++)
            if (uses[k].instr < 0) return lacks_an_end(x, &e, k);
        if (uses_of(x, &e) > 0) add_end(x, program, &p->instrs[uses->instr], uses->tells);
        prepared->told[i] = notes_for(x, uses_of(x, &e));
    }
    return ls_ok();
}

/* --- what may come ------------------------------------------------------------------------------------- */

/* The slots that this rank grants over the channel of an end, by use; NULL: it leases. */
static const ls_range *slots_of(const exchange *x, const end *e) {
    if (instr_at(x, e, 0)->kind != LS_INSTR_RECEIVE) return NULL;
    const uint64_t uses = uses_of(x, e);
    ls_range *slots = LS_NEW_ARRAY(x->scratch, ls_range, uses);
    for (uint64_t k = 0; k < uses; k++)
        slots[k] = ls_address_of(x->ex->image, instr_at(x, e, k), ls_executor_rank(x->ex)).range;
    return slots;
}

/* By use, the bytes of a row if counted rows come to the slot, else 0. */
static const size_t *counted_of(const exchange *x, const end *e) {
    const uint64_t uses = uses_of(x, e);
    size_t *counted = LS_NEW_ARRAY(x->scratch, size_t, uses);
    for (uint64_t k = 0; k < uses; k++) counted[k] = instr_at(x, e, k)->counted;
    return counted;
}

/* Declares the purpose of each word of this rank: notes and their answers, then what the programs send. */
static ls_status expect(const exchange *x) {
    const int words = ls_comm_word_count(x->ex->comm);
    ls_window *windows = LS_NEW_ARRAY(x->scratch, ls_window, words + 1);
    for (int w = 0; w < words; w++) windows[w].peer = -1;
    for (int i = 0; i < x->n; i++) {
        const end *e = &x->ends[i];
        windows[e->awaited] = (ls_window){.peer = e->peer,
                                          .answers = e->set,
                                          .begins = !e->tells,
                                          .notes = notes_for(x, uses_of(x, e)),
                                          .note = e->tells ? (ls_range){0} : place_of_note(x, e->awaited),
                                          .uses = uses_of(x, e),
                                          .slots = e->tells ? slots_of(x, e) : NULL,
                                          .counted = e->tells ? counted_of(x, e) : NULL};
    }
    return ls_comm_expect(x->ex->comm, windows);
}

/* --- telling -------------------------------------------------------------------------------------------- */

static void tell(exchange *x, end *e) {
    const uint64_t uses = uses_of(x, e), first = e->sent * (uint64_t)x->per_note;
    const int rank = ls_executor_rank(x->ex);
    e->note->rank = rank;
    e->note->n = uses_in_note(x, uses, first);
    e->note->uses = uses;
    for (int i = 0; i < e->note->n; i++) {
        e->note->address[i] = ls_address_of(x->ex->image, instr_at(x, e, first + (uint64_t)i), rank);
    }
    const ls_range to = place_of_note(x, e->set), from = ls_range_flat(0, to.length);
    (void)ls_comm_put_signal(x->ex->comm, e->peer, &to, e->note, &from, e->set, ++e->sent);
}

/*
 * Whether what a peer tells can be an address, which is within its heap of the world. The size of a heap that belongs
 * to a device is not known here.
 */
static bool lies_in_heap(const exchange *x, const end *e, const ls_address *told) {
    const size_t bytes = x->ex->remotes == NULL ? ls_comm_heap_bytes_of(x->ex->comm, e->peer) : INT64_MAX;
    return (unsigned)told->dtype < LS_DTYPES && ls_range_lies_within(&told->range, bytes);
}

static ls_status compare(const exchange *x, const end *e, uint64_t use, const ls_address *told) {
    const ls_instr *asks = instr_at(x, e, use);
    const int rank = ls_executor_rank(x->ex);
    const ls_address known = ls_address_of(x->ex->image, asks, rank);
    char theirs[128], mine[128], what[384];
    if (!lies_in_heap(x, e, told)) {
        snprintf(what, sizeof what, "rank %d tells an address that is not within its heap", e->peer);
        return differ(x, e, use, what);
    }
    if (ls_address_same_form(told, &known)) return ls_ok();
    const bool puts = asks->kind == LS_INSTR_PUT;
    ls_address_print_form(told, theirs, sizeof theirs);
    ls_address_print_form(&known, mine, sizeof mine);
    snprintf(what, sizeof what, "rank %d %s %s, rank %d %s %s", e->peer, puts ? "receives" : "leases", theirs, rank,
             puts ? "puts" : "borrows", mine);
    return differ(x, e, use, what);
}

static ls_status be_told(exchange *x, end *e) {
    /* No program runs yet, so the host may read the world's heap. */
    const note *came = (const note *)((const char *)ls_comm_heap(x->ex->comm) + place_of_note(x, e->awaited).offset);
    const uint64_t uses = uses_of(x, e), first = e->through * (uint64_t)x->per_note;
    const int expected = uses_in_note(x, uses, first);
    char what[128];
    if (came->rank != e->peer) {
        snprintf(what, sizeof what, "rank %d is at the other end, rank %d expects rank %d", came->rank,
                 ls_executor_rank(x->ex), e->peer);
        return differ(x, e, first, what);
    }
    if (came->uses != uses) {
        snprintf(what, sizeof what, "rank %d has %llu uses, rank %d has %llu", e->peer, (unsigned long long)came->uses,
                 ls_executor_rank(x->ex), (unsigned long long)uses);
        return differ(x, e, first, what);
    }
    if (came->n != expected) {
        snprintf(what, sizeof what, "a note of rank %d has %d uses, rank %d expects %d", e->peer, came->n,
                 ls_executor_rank(x->ex), expected);
        return differ(x, e, first, what);
    }
    ls_prepared_program *prepared = &x->ex->programs[e->program];
    for (int i = 0; i < expected; i++) {
        const uint64_t use = first + (uint64_t)i;
        LS_TRY(compare(x, e, use, &came->address[i]));
        prepared->addresses[use_at(x, e, use)] = came->address[i];
    }
    ls_comm_signal(x->ex->comm, e->peer, e->set, ++e->through);
    return ls_ok();
}

/* --- going on ------------------------------------------------------------------------------------------- */

/* *waits = whether the end still awaits something; *moved becomes true if something was done. */
static ls_status advance(exchange *x, end *e, bool *waits, bool *moved) {
    const uint64_t notes = notes_for(x, uses_of(x, e));
    while (e->through < notes) {
        if (e->tells && e->sent == e->through) tell(x, e);
        if (!ls_comm_test(x->ex->comm, e->awaited, e->through + 1)) break;
        if (e->tells)
            e->through++;
        else
            LS_TRY(be_told(x, e));
        *moved = true;
        ls_comm_tick(x->ex->comm);
    }
    *waits = e->through < notes;
    return ls_ok();
}

static ls_status sleep_for(const exchange *x, const end *e, uint32_t bell) {
    const ls_awaited awaited = {e->awaited, e->through + 1};
    if (ls_comm_spin(x->ex->comm, &awaited, 1)) return ls_ok();
    char what[192];
    snprintf(what, sizeof what, "program %s, channel \"%s\", %s addresses", program_of(x, e)->name,
             program_of(x, e)->channels[e->channel].name, e->tells ? "an answer to" : "to be told");
    return ls_comm_sleep(x->ex->comm, bell, e->peer, what);
}

static ls_status run(exchange *x) {
    for (;;) {
        const uint32_t bell = ls_comm_bell(x->ex->comm);
        const end *held = NULL;
        bool moved = false;
        for (int i = 0; i < x->n; i++) {
            bool waits;
            LS_TRY(advance(x, &x->ends[i], &waits, &moved));
            if (waits && held == NULL) held = &x->ends[i];
        }
        if (held == NULL) return ls_ok();
        if (!moved) LS_TRY(sleep_for(x, held, bell));
    }
}

ls_status ls_executor_exchange(ls_executor *ex) {
    const int channels = channels_of(ex->comm);
    if (channels == 0) return ls_ok();
    size_t heap = ls_comm_heap_bytes(ex->comm); /* becomes the smallest of any rank */
    for (int r = 0; r < ls_comm_size(ex->comm); r++) heap = ls_min(heap, ls_comm_heap_bytes_of(ex->comm, r));
    const size_t room = heap / (size_t)channels; /* for each note */
    exchange x = {.ex = ex, .scratch = ls_arena_create()};
    x.per_note = (int)ls_min(MOST_PER_NOTE, (int64_t)((room - sizeof(note)) / sizeof(ls_address)));
    ls_status status = ls_ok();
    for (int p = 0; p < ex->image->n_programs && status.code == LS_OK; p++) status = find_ends(&x, p);
    if (status.code == LS_OK) status = expect(&x);
    if (status.code == LS_OK) status = run(&x);
    ls_comm_quiet(ex->comm); /* after this no put of this rank reads its notes in `scratch` */
    ls_arena_destroy(x.scratch);
    LS_TRY(status); /* after a failure notes may still come, so the heap is not cleared; no program will run */
    memset(ls_comm_heap(ex->comm), 0, (size_t)channels * note_bytes(x.per_note));
    return ls_ok();
}
