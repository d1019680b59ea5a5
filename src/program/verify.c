/* See verify.h. One play of all queues; clocks here, bytes in verify_bytes.c. */
#include "program/verify.h"

#include "program/in_place.h"
#include "program/name.h"
#include "program/verify_impl.h"

#include <stdlib.h>
#include <string.h>

/* A signal on its way: what its sender knew, until the wait that it is for. */
typedef struct message {
    struct message *next;
    uint64_t generation;
    ls_access *put; /* the bytes that it announces, or NULL */
    ls_access *source;
    ls_range slot;  /* of a plain signal: the bytes handed over, lent or given back */
    uint64_t order; /* of the sender's accesses to its bytes */
    int sender;
    uint64_t transfer; /* name of what a put carries */
    uint32_t clock[];
} message;

typedef struct word {
    uint64_t last;    /* highest generation set */
    message *pending; /* not yet awaited */
} word;

/* What a queue had seen when it was through with an instruction that the other queue waits for. */
typedef struct moment {
    struct moment *next; /* of the free ones */
    uint32_t clock[];
} moment;

typedef struct queue_state {
    int *instrs; /* of the present program, in order */
    int n, next, done;
    uint32_t *clock;  /* what this queue has seen of each queue */
    moment **moments; /* by instruction */
    int *awaited;     /* by instruction: how many of the other queue wait for it and have not seen it yet */
    ls_access **puts; /* sources not yet known to be read */
    int n_puts;
} queue_state;

typedef struct rank_state {
    const ls_image *image;
    int stage;                 /* index into sequence */
    int sequence[LS_SEQUENCE]; /* of programs */
    int stages;
    uint64_t runs[LS_PROGRAMS];
    queue_state queue[LS_QUEUES];
    word *words;
    ls_range *granted; /* by channel: what the receiver has handed over to this sender */
    ls_loans loans;    /* blocks of other ranks that may be read now */
} rank_state;

typedef struct play {
    ls_arena *arena;
    int ranks, queues;
    rank_state *rank;
    ls_bytes *bytes;
    message *free_messages;
    moment *free_moments;
    ls_status value; /* the first read that does not find its value: told when nothing explains it better */
} play;

static int queue_id(int rank, int queue) { return rank * LS_QUEUES + queue; }

static int index_of(const rank_state *r) { return r->sequence[r->stage]; }

static const ls_program *program_of(const rank_state *r) { return &r->image->programs[index_of(r)]; }

static ls_point point_of(const play *p, int rank, int queue) {
    const rank_state *r = &p->rank[rank];
    const queue_state *q = &r->queue[queue];
    return (ls_point){.rank = rank,
                      .program = index_of(r),
                      .instr = q->instrs[q->next],
                      .op = program_of(r)->instrs[q->instrs[q->next]].op,
                      .key = -1,
                      .queue = queue_id(rank, queue),
                      .tick = q->clock[queue_id(rank, queue)]};
}

static ls_status fault(const play *p, ls_point at, const char *what) {
    const ls_program *program = &p->rank[at.rank].image->programs[at.program];
    const ls_instr *instr = &program->instrs[at.instr];
    return ls_error(LS_INVALID,
                    "program rejected: rank %d, %s instruction %d (%s \"%s%s\", generation %llu): %s",
                    at.rank, program->name, at.instr, instr->op,
                    instr->channel >= 0 ? program->channels[instr->channel].name : "",
                    instr->ready ? " free" : "", (unsigned long long)instr->generation, what);
}

static void join(const play *p, uint32_t *into, const uint32_t *from) {
    for (int q = 0; q < p->queues; q++) into[q] = from[q] > into[q] ? from[q] : into[q];
}

static word *word_of(const play *p, int owner, const ls_program *program, const ls_instr *instr) {
    return &p->rank[owner].words[program->first_word + 2 * instr->channel + (instr->ready ? 1 : 0)];
}

static uint64_t generation_of(const rank_state *r, const ls_instr *instr) {
    const ls_program *program = program_of(r);
    return r->runs[index_of(r)] * program->channels[instr->channel].uses + instr->generation;
}

static message *new_message(play *p) {
    message *m = p->free_messages;
    if (m != NULL)
        p->free_messages = m->next;
    else
        m = ls_arena_alloc(p->arena, sizeof *m + sizeof(uint32_t) * (size_t)p->queues);
    return m;
}

/* The operand as bytes of the rank in whose memory it lies. */
static ls_range range_at_home(const play *p, int rank, const ls_operand *o) {
    if (o->peer < 0) return ls_operand_range(p->rank[rank].image, o);
    const ls_operand there = ls_bytes_translate(&p->bytes[rank], &p->bytes[o->peer], o);
    return ls_operand_range(p->rank[o->peer].image, &there);
}

/* What a plain signal is about. */
static ls_range announced(const play *p, int rank, const ls_instr *instr) {
    const ls_range nothing = {0};
    if (instr->kind != LS_INSTR_SIGNAL || instr->n_in + instr->n_out == 0) return nothing;
    return range_at_home(p, rank, instr->n_out > 0 ? &instr->out[0] : &instr->in[0]);
}

/* Sets the peer's word: it must be the next generation. */
static ls_status post(play *p, int rank, int queue, ls_access *put, ls_access *source) {
    rank_state *r = &p->rank[rank];
    const ls_point at = point_of(p, rank, queue);
    const ls_instr *instr = &program_of(r)->instrs[at.instr];
    if (instr->peer < 0 || instr->peer >= p->ranks) return fault(p, at, "there is no such peer");
    word *w = word_of(p, instr->peer, program_of(r), instr);
    const uint64_t generation = generation_of(r, instr);
    if (generation != w->last + 1) return fault(p, at, "the word's generations do not rise by one");
    w->last = generation;
    message *m = new_message(p);
    m->generation = generation;
    m->put = put;
    m->source = source;
    m->sender = rank;
    m->transfer = instr->transfer;
    m->slot = announced(p, rank, instr);
    m->order = p->bytes[rank].accesses;
    memcpy(m->clock, r->queue[queue].clock, sizeof(uint32_t) * (size_t)p->queues);
    m->next = w->pending;
    w->pending = m;
    return ls_ok();
}

static bool same_bytes(const ls_range *a, const ls_range *b) { return memcmp(a, b, sizeof *a) == 0; }

/* The owner says that a block may be read: from this wait on. */
static void borrow(play *p, int rank, const ls_instr *instr, const message *m) {
    ls_loan_begin(&p->rank[rank].loans, p->arena,
                  (ls_loan){.channel = instr->channel,
                            .owner = m->sender,
                            .range = m->slot,
                            .transfer = m->transfer,
                            .order = m->order});
}

/* What arrives must be the bytes that are awaited; a slot handed over is remembered for the put. */
static ls_status receive(play *p, int rank, int queue, const message *m) {
    rank_state *r = &p->rank[rank];
    const ls_point here = point_of(p, rank, queue);
    const ls_instr *instr = &program_of(r)->instrs[here.instr];
    if (m->sender != instr->peer) return fault(p, here, "another rank than its peer has set the word");
    if (m->transfer != instr->transfer)
        return fault(p, here, "what arrives is not the value that it waits for");
    if (instr->ready && instr->n_in == 0) {
        r->granted[instr->channel] = m->slot;
        return ls_ok();
    }
    const ls_operand *block = instr->ready ? &instr->in[0] : &instr->out[0];
    const ls_range awaited = range_at_home(p, rank, block);
    const bool plain = instr->ready || block->peer >= 0;
    const ls_range *came = plain ? &m->slot : m->put != NULL ? &m->put->range : &awaited;
    if (!same_bytes(came, &awaited))
        return fault(p, here, "the bytes that arrive are not those that it waits for");
    if (block->peer >= 0) borrow(p, rank, instr, m);
    return ls_ok();
}

/* Takes the message that the wait is for. *came false: it has not come yet. */
static ls_status take(play *p, int rank, int queue, bool *came) {
    rank_state *r = &p->rank[rank];
    queue_state *q = &r->queue[queue];
    const ls_instr *instr = &program_of(r)->instrs[q->instrs[q->next]];
    word *w = word_of(p, rank, program_of(r), instr);
    const uint64_t generation = generation_of(r, instr);
    for (message **m = &w->pending; *m != NULL; m = &(*m)->next) {
        if ((*m)->generation != generation) continue;
        message *found = *m;
        *came = true;
        LS_TRY(receive(p, rank, queue, found));
        join(p, q->clock, found->clock);
        ls_point here = point_of(p, rank, queue);
        here.tick++; /* that of the wait itself, which begins now: those before it may be known to others already */
        if (found->put != NULL) ls_access_seen(found->put, here);
        if (found->source != NULL) ls_access_seen(found->source, here);
        *m = found->next;
        found->next = p->free_messages;
        p->free_messages = found;
        break;
    }
    return ls_ok();
}

/* Sources of this queue's earlier puts have been read. */
static void settle(play *p, int rank, int queue) {
    queue_state *q = &p->rank[rank].queue[queue];
    for (int i = 0; i < q->n_puts; i++) ls_access_seen(q->puts[i], point_of(p, rank, queue));
    q->n_puts = 0;
}

static bool is_empty(const ls_operand *o) { return o->buffer < 0 || ls_view_elements(&o->view) == 0; }

/* An operand lies inside its buffer. */
static ls_status check_inside(const play *p, int rank, const ls_operand *o, ls_point at) {
    const ls_image *image = p->rank[rank].image;
    const ls_buffer *b = &image->buffers[o->buffer];
    const ls_range range = ls_operand_range(image, o);
    return range.offset >= b->offset && ls_range_end(&range) <= b->offset + b->bytes
               ? ls_ok()
               : fault(p, at, "it reaches outside of its buffer");
}

static void expect(play *p, int rank, int buffer, uint64_t name, uint64_t expected, ls_point at) {
    if (p->value.code == LS_OK) p->value = ls_bytes_expect(&p->bytes[rank], buffer, name, expected, at);
}

/* What the instruction reads, and has just touched, is there. */
static void check_value(play *p, int rank, const ls_operand *o, ls_point at) {
    if (is_empty(o) || o->value == 0) return;
    expect(p, rank, o->buffer, ls_name_begin(&o->view), o->value, at);
}

static ls_status touch(play *p, int rank, const ls_operand *o, bool writes, ls_point at,
                       const uint32_t *clock, bool open, ls_access **out) {
    if (is_empty(o)) {
        if (out != NULL) *out = NULL;
        return ls_ok();
    }
    LS_TRY(check_inside(p, rank, o, at));
    return ls_bytes_touch(&p->bytes[rank], o, writes, at, clock, open, out);
}

/* Bytes of another rank, where they lie. */
static ls_status read_in_place(play *p, int rank, int queue, const ls_operand *o, ls_point at) {
    const uint32_t *clock = p->rank[rank].queue[queue].clock;
    if (is_empty(o)) return ls_ok();
    const ls_operand there = ls_bytes_translate(&p->bytes[rank], &p->bytes[o->peer], o);
    LS_TRY(touch(p, o->peer, &there, false, at, clock, false, NULL));
    if (p->value.code == LS_OK)
        p->value = ls_loan_expect(&p->rank[rank].loans, &p->bytes[o->peer], &there, at);
    return ls_ok();
}

/* Those of the operands that are read. */
static ls_status read(play *p, int rank, int queue, const ls_operand *operands, int n, ls_point at) {
    for (int i = 0; i < n; i++) {
        if (operands[i].value == 0) continue;
        if (operands[i].peer >= 0) {
            LS_TRY(read_in_place(p, rank, queue, &operands[i], at));
            continue;
        }
        LS_TRY(touch(p, rank, &operands[i], false, at, p->rank[rank].queue[queue].clock, false, NULL));
        check_value(p, rank, &operands[i], at);
    }
    return ls_ok();
}

static ls_status put(play *p, int rank, int queue, ls_point at) {
    queue_state *q = &p->rank[rank].queue[queue];
    const ls_instr *instr = &program_of(&p->rank[rank])->instrs[at.instr];
    if (instr->peer < 0 || instr->peer >= p->ranks) return fault(p, at, "there is no such peer");
    ls_access *source, *target;
    LS_TRY(touch(p, rank, &instr->in[0], false, at, q->clock, true, &source));
    check_value(p, rank, &instr->in[0], at);
    const ls_operand there = ls_bytes_translate(&p->bytes[rank], &p->bytes[instr->peer], &instr->out[0]);
    const ls_range lands = ls_operand_range(p->rank[instr->peer].image, &there);
    if (!ls_range_covers(&p->rank[rank].granted[instr->channel], &lands))
        return fault(p, at, "it lands outside the slot that the receiver has handed over");
    LS_TRY(touch(p, instr->peer, &there, true, at, q->clock, true, &target));
    if (source != NULL) q->puts[q->n_puts++] = source;
    return post(p, rank, queue, target, source);
}

static bool shares_bytes(const ls_image *image, const ls_operand *a, const ls_operand *b) {
    if (is_empty(a) || is_empty(b) || a->peer != b->peer) return false;
    const ls_buffer *x = &image->buffers[a->buffer], *y = &image->buffers[b->buffer];
    return x->space == y->space && x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;
}

/* A kernel's results lie apart from its other operands but where it works in place; and its scratch is its own. */
static ls_status check_apart(const play *p, int rank, const ls_instr *instr, ls_point at) {
    const ls_image *image = p->rank[rank].image;
    for (int i = 0; i < instr->n_in + instr->n_out; i++) {
        const int other = i < instr->n_in ? i : LS_KERNEL_INPUTS + i - instr->n_in;
        const ls_operand *o = i < instr->n_in ? &instr->in[i] : &instr->out[i - instr->n_in];
        if (shares_bytes(image, o, instr->workspace)) return fault(p, at, "an operand lies in its workspace");
        for (int k = 0; k < instr->n_out; k++) {
            const bool earlier =
                i >= instr->n_in && i - instr->n_in >= k; /* of two outputs the later one is asked */
            if (!earlier && ls_instr_sharing(image, instr, k, other) == LS_CLASH)
                return fault(p, at, "two of its operands share bytes");
        }
    }
    return ls_ok();
}

/* Operands in another rank's memory: of the heap, of kernels that read them, or what a wait or a signal is about. */
static ls_status check_peers(const play *p, int rank, const ls_instr *instr, ls_point at) {
    for (int i = 0; i < instr->n_in + instr->n_out; i++) {
        const ls_operand *o = i < instr->n_in ? &instr->in[i] : &instr->out[i - instr->n_in];
        if (o->buffer < 0 || o->peer < 0) continue;
        if (o->peer >= p->ranks || o->peer == rank) return fault(p, at, "there is no such peer");
        if (p->rank[rank].image->buffers[o->buffer].space != LS_SYMMETRIC)
            return fault(p, at, "it names private memory of another rank");
        if (instr->kind == LS_INSTR_PUT_SIGNAL || (instr->kind == LS_INSTR_KERNEL) != (i < instr->n_in))
            return fault(p, at, "it uses another rank's memory otherwise than to read it");
    }
    return ls_ok();
}

static ls_status execute(play *p, int rank, int queue) {
    rank_state *r = &p->rank[rank];
    queue_state *q = &r->queue[queue];
    const ls_instr *instr = &program_of(r)->instrs[q->instrs[q->next]];
    q->clock[queue_id(rank, queue)]++;
    ls_point at = point_of(p, rank, queue);
    if (instr->kind == LS_INSTR_PUT_SIGNAL) return put(p, rank, queue, at);
    if (instr->kind == LS_INSTR_QUIET) settle(p, rank, queue);
    const bool first = r->runs[index_of(r)] == 0; /* what does not depend on the play is asked once */
    if (instr->kind == LS_INSTR_KERNEL && first) LS_TRY(check_apart(p, rank, instr, at));
    LS_TRY(read(p, rank, queue, instr->in, instr->n_in, at));
    LS_TRY(read(p, rank, queue, instr->out, instr->n_out, at));
    for (int i = 0; i < instr->n_out; i++) {
        if (instr->out[i].peer >= 0) continue;
        at.key = ls_write_key(instr->number, i);
        LS_TRY(touch(p, rank, &instr->out[i], true, at, q->clock, false, NULL));
    }
    LS_TRY(touch(p, rank, instr->workspace, true, at, q->clock, false, NULL));
    return instr->kind == LS_INSTR_SIGNAL ? post(p, rank, queue, NULL, NULL) : ls_ok();
}

/* The instruction of this queue at whose end `after` is reached, or -1: never. */
static int reached_at(const rank_state *r, int queue, int after) {
    const ls_program *program = program_of(r);
    for (int i = after; i < program->n_instrs; i++) {
        if ((int)program->instrs[i].queue == queue) return i;
    }
    return -1;
}

/* Keeps what the queue has seen, if the other one will ask. */
static void remember(play *p, queue_state *q) {
    if (q->awaited[q->done] == 0) return;
    moment *m = p->free_moments;
    if (m != NULL)
        p->free_moments = m->next;
    else
        m = ls_arena_alloc(p->arena, sizeof *m + sizeof(uint32_t) * (size_t)p->queues);
    memcpy(m->clock, q->clock, sizeof(uint32_t) * (size_t)p->queues);
    q->moments[q->done] = m;
}

/* Learns what the other queue had seen at that instruction, and no more: it may be further by now. */
static void join_after(play *p, uint32_t *clock, queue_state *other, int at) {
    moment *m = other->moments[at];
    join(p, clock, m->clock);
    if (--other->awaited[at] > 0) return;
    other->moments[at] = NULL;
    m->next = p->free_moments;
    p->free_moments = m;
}

/* Runs the head of a queue when nothing holds it up. */
static ls_status step(play *p, int rank, int queue, bool *moved) {
    rank_state *r = &p->rank[rank];
    queue_state *q = &r->queue[queue], *other = &r->queue[1 - queue];
    if (q->next == q->n) return ls_ok();
    const ls_instr *instr = &program_of(r)->instrs[q->instrs[q->next]];
    if (instr->after > other->done) return ls_ok();
    LS_TRY(check_peers(p, rank, instr, point_of(p, rank, queue)));
    bool came = instr->kind != LS_INSTR_WAIT;
    if (!came) LS_TRY(take(p, rank, queue, &came));
    if (!came) return ls_ok();
    if (instr->after >= 0) join_after(p, q->clock, other, reached_at(r, 1 - queue, instr->after));
    LS_TRY(execute(p, rank, queue));
    q->done = q->instrs[q->next++];
    remember(p, q);
    *moved = true;
    return ls_ok();
}

/* Between programs the host writes the rank's inputs, knowing what both of its queues knew. */
static ls_status host_writes(play *p, int rank) {
    rank_state *r = &p->rank[rank];
    uint32_t *clock = r->queue[LS_COMPUTE].clock;
    const int queue = queue_id(rank, LS_COMPUTE);
    join(p, clock, r->queue[LS_COPY].clock);
    clock[queue]++;
    join(p, r->queue[LS_COPY].clock, clock);
    const ls_point at = {.rank = rank,
                         .program = index_of(r),
                         .instr = -1,
                         .op = "the host",
                         .key = -1,
                         .queue = queue,
                         .tick = clock[queue]};
    for (int i = 0; i < r->image->n_buffers; i++) {
        const ls_buffer *b = &r->image->buffers[i];
        if (b->program >= 0 || b->kind != LS_BUFFER_INPUT) continue;
        const int64_t pairs = (int64_t)b->bytes / 2; /* of bytes: no element is smaller */
        const ls_operand whole = ls_operand_dense(i, 0, LS_BF16, 1, &pairs);
        LS_TRY(touch(p, rank, &whole, true, at, clock, false, NULL));
    }
    return ls_ok();
}

static void begin_program(rank_state *r, ls_bytes *bytes) {
    ls_bytes_begin(bytes);
    for (int q = 0; q < LS_QUEUES; q++) {
        r->queue[q].n = r->queue[q].next = r->queue[q].n_puts = 0;
        r->queue[q].done = -1;
    }
    const ls_program *program = program_of(r);
    for (int i = 0; i < program->n_instrs; i++) {
        queue_state *q = &r->queue[program->instrs[i].queue];
        q->instrs[q->n++] = i;
        q->awaited[i] = 0;
    }
    for (int i = 0; i < program->n_instrs; i++) {
        const ls_instr *instr = &program->instrs[i];
        const int other = 1 - (int)instr->queue;
        const int at = instr->after >= 0 ? reached_at(r, other, instr->after) : -1;
        if (at >= 0) r->queue[other].awaited[at]++;
    }
}

/* What persists is what the program is to leave. */
static void check_left(play *p, int rank) {
    const ls_image *image = p->rank[rank].image;
    const int program = index_of(&p->rank[rank]);
    const ls_point end = {.rank = rank, .program = program, .instr = -1, .op = "its end"};
    for (int i = 0; i < image->n_buffers; i++) {
        const ls_buffer *b = &image->buffers[i];
        if (b->program >= 0 || b->bytes == 0) continue;
        ls_bytes_ask(&p->bytes[rank], b->space, ls_range_flat(b->offset, b->bytes));
        expect(p, rank, i, 1, b->left[program], end);
    }
}

/* A rank whose queues are both through goes on to the next program, knowing what both knew. */
static ls_status advance(play *p, int rank, bool *moved) {
    rank_state *r = &p->rank[rank];
    if (r->stage == r->stages) return ls_ok();
    for (int q = 0; q < LS_QUEUES; q++) {
        if (r->queue[q].next < r->queue[q].n) return ls_ok();
    }
    check_left(p, rank);
    r->runs[index_of(r)]++;
    r->stage++;
    *moved = true;
    if (r->stage == r->stages) return ls_ok();
    LS_TRY(host_writes(p, rank));
    begin_program(r, &p->bytes[rank]);
    return ls_ok();
}

static ls_status stuck(const play *p) {
    for (int rank = 0; rank < p->ranks; rank++) {
        const rank_state *r = &p->rank[rank];
        for (int queue = 0; r->stage < r->stages && queue < LS_QUEUES; queue++) {
            const queue_state *q = &r->queue[queue];
            if (q->next == q->n || program_of(r)->instrs[q->instrs[q->next]].kind != LS_INSTR_WAIT) continue;
            return fault(p, point_of(p, rank, queue), "waits for ever: deadlock");
        }
    }
    return ls_error(LS_INVALID, "program rejected: the queues of a rank wait for each other");
}

static ls_status run(play *p) {
    for (bool moved = true; moved;) {
        moved = false;
        for (int rank = 0; rank < p->ranks; rank++) {
            if (p->rank[rank].stage == p->rank[rank].stages) continue;
            for (int q = 0; q < LS_QUEUES; q++) {
                bool again = true;
                while (again) {
                    again = false;
                    LS_TRY(step(p, rank, q, &again));
                    moved |= again;
                }
            }
            LS_TRY(advance(p, rank, &moved));
        }
    }
    for (int rank = 0; rank < p->ranks; rank++) {
        if (p->rank[rank].stage < p->rank[rank].stages) return stuck(p);
        for (int w = 0; w < p->rank[rank].image->words; w++) {
            if (p->rank[rank].words[w].pending != NULL)
                return ls_error(LS_INVALID,
                                "program rejected: rank %d never waits for generation %llu of word %d", rank,
                                (unsigned long long)p->rank[rank].words[w].pending->generation, w);
        }
    }
    return p->value;
}

/* How many of n programs must be played. One that follows itself for ever: twice (docs/decisions.md says why that is enough). */
static int enough(const int *sequence, int n) {
    for (int i = 1; i < n; i++) {
        if (sequence[i] != sequence[0]) return n;
    }
    return (int)ls_min(n, 2);
}

static ls_status set_up(play *p, const ls_image *const *images) {
    p->rank = LS_NEW_ARRAY(p->arena, rank_state, p->ranks);
    p->bytes = LS_NEW_ARRAY(p->arena, ls_bytes, p->ranks);
    for (int r = 0; r < p->ranks; r++) {
        if (images[r]->words != images[0]->words)
            return ls_error(LS_INVALID, "program rejected: rank %d has %d signal words, rank 0 has %d", r,
                            images[r]->words, images[0]->words);
        rank_state *rank = &p->rank[r];
        rank->image = images[r];
        rank->stages = enough(rank->sequence, ls_image_sequence(images[r], rank->sequence));
        rank->words = LS_NEW_ARRAY(p->arena, word, images[r]->words + 1);
        int most = 1;
        for (int i = 0; i < LS_PROGRAMS; i++) most = (int)ls_max(most, images[r]->programs[i].n_instrs);
        for (int q = 0; q < LS_QUEUES; q++) {
            rank->queue[q].instrs = LS_NEW_ARRAY(p->arena, int, most);
            rank->queue[q].moments = LS_NEW_ARRAY(p->arena, moment *, most);
            rank->queue[q].awaited = LS_NEW_ARRAY(p->arena, int, most);
            rank->queue[q].puts = LS_NEW_ARRAY(p->arena, ls_access *, most);
            rank->queue[q].clock = LS_NEW_ARRAY(p->arena, uint32_t, p->queues);
        }
        int channels = 1;
        for (int i = 0; i < LS_PROGRAMS; i++)
            channels = (int)ls_max(channels, images[r]->programs[i].n_channels);
        rank->granted = LS_NEW_ARRAY(p->arena, ls_range, channels);
        ls_bytes_create(&p->bytes[r], images[r], p->arena);
        LS_TRY(host_writes(p, r));
        begin_program(rank, &p->bytes[r]);
    }
    return ls_ok();
}

ls_status ls_verify(const ls_image *const *images, int ranks) {
    play p = {.arena = ls_arena_create(), .ranks = ranks, .queues = ranks * LS_QUEUES, .value = ls_ok()};
    ls_status status = set_up(&p, images);
    if (status.code == LS_OK) status = run(&p);
    ls_arena_destroy(p.arena);
    return status;
}
