/*
 * Words of the play: what puts and signals set, and what waits learn from them. A message is pending from the moment
 * when it is posted until its wait takes it.
 */
#include "program/verify_impl.h"

#include <string.h>

struct ls_message {
    ls_message *next; /* the next free one */
    uint64_t generation;
    ls_access *put; /* the access of a put to the bytes that it announces, or NULL */
    ls_access *source;
    ls_range slot;  /* of a plain signal: the bytes granted, leased or returned */
    uint64_t order; /* number of the sender's accesses to its bytes so far */
    int sender;
    uint64_t transfer;  /* name of what a put carries */
    ls_instr_kind kind; /* of the instruction that set the word */
    uint32_t clock[];
};

static ls_word *word_of(const ls_play *p, int owner, const ls_program *program, const ls_instr *instr) {
    return &p->rank[owner].words[ls_instr_word(program, instr)];
}

static uint64_t generation_of(const ls_play_rank *r, const ls_instr *instr) {
    return ls_instr_generation(ls_play_program(r), instr, r->runs[ls_play_index(r)]);
}

static ls_message *new_message(ls_play *p) {
    ls_message *m = p->free_messages;
    if (m != NULL)
        p->free_messages = m->next;
    else
        m = ls_arena_alloc(p->arena, sizeof *m + sizeof(uint32_t) * (size_t)p->queues);
    return m;
}

/*
 * The bytes that are the subject of a plain signal, in the memory in which they lie: a returned block lies where its
 * owner leased it.
 */
static ls_range announced(const ls_play *p, int rank, const ls_instr *instr) {
    const ls_image *image = p->rank[rank].image;
    const ls_range nothing = {0};
    if (ls_traits(instr)->moves) return nothing;
    if (!ls_traits(instr)->in_place) return ls_operand_range(image, ls_instr_subject(instr), rank);
    const int owner = ls_peer_rank(image, instr->peer, rank);
    const ls_instr *lease = ls_play_told(p, rank, instr);
    return lease == NULL ? nothing : ls_operand_range(p->rank[owner].image, ls_instr_subject(lease), owner);
}

/*
 * Sets the peer's word. The generation must be the next one, and the rank must know that the last one has been awaited
 * (instr.h).
 */
ls_status ls_play_post(ls_play *p, int rank, int queue, ls_access *put, ls_access *source) {
    ls_play_rank *r = &p->rank[rank];
    const ls_point at = ls_play_point(p, rank, queue);
    const ls_instr *instr = &ls_play_program(r)->instrs[at.instr];
    const int peer = ls_peer_rank(r->image, instr->peer, rank);
    if (ls_instr_word(ls_play_program(r), instr) >= p->rank[peer].image->words)
        return ls_play_fault(p, at, "its peer has no such word");
    ls_word *w = word_of(p, peer, ls_play_program(r), instr);
    const uint64_t generation = generation_of(r, instr);
    if (generation != w->last + 1) return ls_play_fault(p, at, "the word's generations do not rise by one");
    if (w->pending != NULL || r->queue[queue].clock[w->queue] < w->tick)
        return ls_play_fault(p, at, "it sets a word that may not have been awaited since it was set last");
    w->last = generation;
    ls_message *m = new_message(p);
    m->generation = generation;
    m->put = put;
    m->source = source;
    m->sender = rank;
    m->transfer = instr->transfer;
    m->kind = instr->kind;
    m->slot = announced(p, rank, instr);
    m->order = p->bytes[rank].accesses;
    memcpy(m->clock, r->queue[queue].clock, sizeof(uint32_t) * (size_t)p->queues);
    w->pending = m;
    return ls_ok();
}

static bool same_bytes(const ls_range *a, const ls_range *b) { return memcmp(a, b, sizeof *a) == 0; }

/* From this wait on the block may be read, as its owner has said. */
static ls_status borrow(ls_play *p, int rank, ls_point at, const ls_message *m) {
    const ls_instr *instr = &ls_play_program(&p->rank[rank])->instrs[at.instr];
    const ls_instr *leases = ls_play_told(p, rank, instr);
    if (leases == NULL) return ls_play_fault(p, at, "nothing is leased that it could borrow");
    const ls_operand *block = ls_instr_subject(leases);
    const ls_address there = ls_address_of(p->rank[m->sender].image, leases, m->sender),
                     here = ls_address_of(p->rank[rank].image, instr, rank);
    if (!ls_address_same_form(&there, &here))
        return ls_play_fault(p, at, "the block that is leased has another form than it borrows");
    ls_lease_begin(&p->rank[rank].leases, p->arena,
                   (ls_lease){.channel = instr->channel,
                              .owner = m->sender,
                              .block = &instr->out[0],
                              .buffer = block->buffer,
                              .range = m->slot,
                              .transfer = m->transfer,
                              .order = m->order});
    return ls_ok();
}

/* The bytes that arrive must be those that are awaited; a granted slot is recorded for the put. */
static ls_status receive(ls_play *p, int rank, int queue, const ls_message *m) {
    ls_play_rank *r = &p->rank[rank];
    const ls_point here = ls_play_point(p, rank, queue);
    const ls_instr *instr = &ls_play_program(r)->instrs[here.instr];
    if (m->sender != ls_peer_rank(r->image, instr->peer, rank))
        return ls_play_fault(p, here, "another rank than its peer has set the word");
    if (m->kind != ls_traits(instr)->awaited)
        return ls_play_fault(p, here, "the word was set by another kind of instruction than it waits for");
    if (m->transfer != instr->transfer)
        return ls_play_fault(p, here, "what arrives is not the value that it waits for");
    if (instr->kind == LS_INSTR_ACQUIRE) {
        r->granted[instr->channel] = m->slot;
        return ls_ok();
    }
    if (instr->kind == LS_INSTR_BORROW) return borrow(p, rank, here, m);
    const ls_range awaited = ls_operand_range(r->image, ls_instr_subject(instr), rank);
    const bool plain = instr->kind != LS_INSTR_RECEIVE;
    const ls_range *came = plain ? &m->slot : m->put != NULL ? &m->put->range : &awaited;
    if (!same_bytes(came, &awaited))
        return ls_play_fault(p, here, "the bytes that arrive are not those that it waits for");
    return ls_ok();
}

/* Takes the message for which the head of the queue waits, if it has come; only then *came becomes true. */
ls_status ls_play_take(ls_play *p, int rank, int queue, bool *came) {
    ls_play_rank *r = &p->rank[rank];
    ls_play_queue *q = &r->queue[queue];
    const ls_instr *instr = &ls_play_program(r)->instrs[q->instrs[q->next]];
    ls_word *w = word_of(p, rank, ls_play_program(r), instr);
    const uint64_t generation = generation_of(r, instr);
    ls_message *m = w->pending;
    if (m == NULL || m->generation != generation) return ls_ok();
    *came = true;
    LS_TRY(receive(p, rank, queue, m));
    ls_clock_join(p, q->clock, m->clock);
    ls_point here = ls_play_point(p, rank, queue);
    here.tick++; /* the tick of the wait itself, which begins now: other queues may already know the ticks before */
    if (m->put != NULL) ls_access_seen(m->put, here);
    if (m->source != NULL) ls_access_seen(m->source, here);
    *w = (ls_word){.last = w->last, .queue = here.queue, .tick = here.tick};
    m->next = p->free_messages;
    p->free_messages = m;
    return ls_ok();
}

/* Checks that every message has been taken by its wait. */
ls_status ls_play_all_taken(const ls_play *p, int rank) {
    const ls_play_rank *r = &p->rank[rank];
    for (int w = 0; w < r->image->words; w++) {
        if (r->words[w].pending != NULL)
            return ls_error(LS_INVALID, "program rejected: rank %d never waits for generation %llu of word %d", rank,
                            (unsigned long long)r->words[w].pending->generation, w);
    }
    return ls_ok();
}
