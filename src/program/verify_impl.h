/*
 * Internals of the verifiers, shared by their files: the accesses to one rank's bytes (which came last, and which
 * queues have seen their ends), and the play of all ranks' queues.
 */
#ifndef LS_PROGRAM_VERIFY_IMPL_H
#define LS_PROGRAM_VERIFY_IMPL_H

#include "program/address.h"
#include "program/instr.h"

/* --- an image by itself (verify_image.c) -------------------------------------------------------------------------- */

/*
 * Checks that every buffer lies in its arena, that persistent buffers do not overlap, that everything the host accesses
 * is in persistent buffers, and that no two channels share a word. LS_INVALID names the buffer, the channel or the
 * binding.
 */
LS_MUST_USE ls_status ls_image_check(const ls_image *image, int rank);

/* --- one instruction by itself (verify_operands.c) ---------------------------------------------------------------- */

/* An LS_INVALID error that rejects the instruction and says why. */
ls_status ls_instr_fault(const ls_image *image, int program, int rank, int instr, const char *what);
/* Whether the operand lies inside its buffer, on every rank of the class. */
bool ls_operand_is_inside(const ls_image *image, const ls_operand *operand);
/* What is wrong with the instruction's operands, whatever other instructions do; NULL: nothing. */
const char *ls_instr_unsound(const ls_image *image, const ls_instr *instr);

/* --- one rank's bytes --------------------------------------------------------------------------------------------- */

/* An instruction in the play, and its tick on its queue's clock. */
typedef struct ls_point {
    int rank, program, instr;
    const char *op; /* of the instruction */
    int key;        /* of a write: its key in the names of values (name.h) */
    int queue;      /* number among the queues of all ranks */
    uint32_t tick;
} ls_point;

enum { LS_ACCESS_ENDS = 3 }; /* further ends are forgotten: a correct program may then be rejected */

/*
 * An access to bytes of one rank. Two accesses by the rank itself are compared for all ranks of its class (ls_extent);
 * an access by another rank is compared by the bytes that it touches on this rank. An access begins at `start`. It is
 * over for every queue that has seen one of its ends, which are ticks of queues. An open access (a put that is not
 * done) has no end yet. The members that are used most come first, in one line of the cache, since there are hundreds
 * of thousands of accesses.
 */
typedef struct ls_access {
    ls_interval place; /* from the extent's first byte to its last */
    uint32_t end_tick[LS_ACCESS_ENDS];
    uint16_t end_queue[LS_ACCESS_ENDS];
    uint8_t n_end;
    bool writes;
    bool opened; /* it was opened as an open access: pointers to it may still exist */
    ls_range range;
    ls_extent extent; /* of an access by another rank: only the range */
    uint64_t order;   /* its place in the order of the play; accesses that conflict happen in this order */
    ls_point start;
    int buffer;
} ls_access;

/*
 * A block of another rank for which this rank has waited: it may read the block until the next one comes over the
 * channel.
 */
typedef struct ls_lease {
    int channel, owner;
    const ls_operand *block; /* as the borrow names it */
    int buffer;              /* in the owner's image */
    ls_range range;          /* where the block lies in the owner's heap */
    uint64_t transfer;
    uint64_t order; /* number of the owner's accesses when it was leased */
} ls_lease;

typedef struct ls_leases {
    ls_lease *list;
    int n;
    size_t room;
} ls_leases;

typedef struct ls_bytes {
    const ls_image *image;
    int rank;
    ls_arena *arena;
    ls_intervals history[LS_SPACES]; /* accesses that a later one could still race with */
    ls_access *free_accesses;        /* linked by place.left */
    uint64_t accesses;               /* number of accesses so far */
    uint64_t began;                  /* number of accesses when the current program began */
    ls_range asked;                  /* the bytes of the current query (ls_bytes_ask) */
    ls_extent asked_extent;
    ls_interval_list near; /* accesses near these bytes */
} ls_bytes;

void ls_bytes_create(ls_bytes *bytes, const ls_image *image, int rank, ls_arena *arena);

/*
 * An access by a queue that has seen `clock`: by the rank itself, with one of its operands, or by another rank, to
 * bytes of a buffer of this rank. LS_INVALID if an earlier access to the same bytes is not over for this queue and one
 * of the two writes. open: the access ends only with ls_access_seen. *out: the access, if open (may be NULL otherwise).
 * After a read, its bytes are those of the current query.
 */
LS_MUST_USE ls_status ls_bytes_touch(ls_bytes *bytes, const ls_operand *operand, bool writes, ls_point at,
                                     const uint32_t *clock, bool open, ls_access **out);
LS_MUST_USE ls_status ls_bytes_touch_from(ls_bytes *bytes, int buffer, const ls_range *range, bool writes, ls_point at,
                                          const uint32_t *clock, bool open, ls_access **out);

/* The next program begins: from now on the values in persistent buffers are those that it finds. */
void ls_bytes_begin(ls_bytes *bytes);

/* Begins a query about these bytes: bytes->near becomes the accesses between the first and the last of them. */
void ls_bytes_ask(ls_bytes *bytes, ls_space space, ls_range range, ls_extent extent);

/*
 * Checks that the bytes of the current query, which are in the buffer, hold the value with the name `expected`: the
 * writes by this rank in this program that share bytes with them are those in the name, overlapping ones among them
 * happened in the order of emission, and no other write came after them. LS_INVALID says what is wrong. `name`: as
 * begun by the caller, without its parts. Ends the query.
 */
LS_MUST_USE ls_status ls_bytes_expect(ls_bytes *bytes, int buffer, uint64_t name, uint64_t expected, ls_point at);

/*
 * Reading in place (verify_leases.c). find: the lease whose block has the operand's bytes, preferably one that gives
 * the operand its name; NULL: none. expect: checks that the operand, whose bytes in the owner's heap are those of the
 * current query, has the name that the lease gives it, and that the bytes were not written since the lease. No rule is
 * needed for the borrow to come before the read and the return after it: otherwise the read would race with writes of
 * the owner.
 */
void ls_lease_begin(ls_leases *leases, ls_arena *arena, ls_lease lease);
const ls_lease *ls_lease_find(const ls_leases *leases, const ls_operand *operand);
LS_MUST_USE ls_status ls_lease_expect(const ls_lease *lease, const ls_bytes *owner, const ls_operand *operand,
                                      ls_point at);
#define LS_NOT_LEASED "it reads a block of another rank that it has not been leased"

/* The access is over for all queues that have seen `at`. */
void ls_access_seen(ls_access *access, ls_point at);

/* --- the play ----------------------------------------------------------------------------------------------------- */

typedef struct ls_message ls_message; /* a signal that is not awaited yet, with what its sender knew (verify_words.c) */
typedef struct ls_moment ls_moment;   /* what a queue had seen after one of its instructions (verify_clocks.c) */

typedef struct ls_word {
    uint64_t last;       /* generation to which it was last set */
    ls_message *pending; /* the message that is not yet awaited */
    int queue;           /* the last await: its queue, among those of all ranks, and its tick */
    uint32_t tick;
} ls_word;

typedef struct ls_play_queue {
    int *instrs; /* of the current program, in order */
    int n, next, done;
    uint32_t *clock;     /* what this queue has seen of each queue */
    ls_moment **moments; /* by instruction */
    int *awaited; /* by instruction: the number of instructions of other queues that come after it and have not seen it
                     yet */
    ls_access **puts; /* sources of the current program's puts, in order */
    int n_puts;
    int *settled; /* by queue of the rank: the number of that queue's puts that this queue knows to be done */
} ls_play_queue;

typedef struct ls_play_rank {
    const ls_image *image;
    int *walk; /* programs, in the order in which they are played (ls_phase_walk) */
    int stage; /* index into `walk` */
    int stages;
    uint64_t *runs; /* by program */
    ls_uses *uses;  /* by program */
    ls_play_queue *queue;
    ls_word *words;
    ls_range *granted; /* by channel: what the receiver has granted to this sender */
    ls_leases leases;  /* blocks of other ranks that may be read now */
} ls_play_rank;

typedef struct ls_play {
    ls_arena *arena;
    int ranks, queues_each, queues; /* queues of each rank; of all ranks together */
    ls_play_rank *rank;
    ls_bytes *bytes; /* by rank */
    ls_message *free_messages;
    ls_moment *free_moments;
    ls_status value; /* the first read that does not find its value: reported if nothing explains the failure better */
} ls_play;

static inline int ls_play_queue_id(const ls_play *p, int rank, int queue) { return rank * p->queues_each + queue; }

/* The program in which the rank is. */
static inline int ls_play_index(const ls_play_rank *r) { return r->walk[r->stage]; }
static inline const ls_program *ls_play_program(const ls_play_rank *r) { return &r->image->programs[ls_play_index(r)]; }

/*
 * The instruction by which the other end tells about the same use: the peer's RECEIVE or LEASE, whose subject lies in
 * the peer's memory at ls_address_of. NULL: the peer has none.
 */
const ls_instr *ls_play_told(const ls_play *p, int rank, const ls_instr *instr);

/* `arena` and `ranks` must be set. Puts all ranks at the beginning of their first program. */
LS_MUST_USE ls_status ls_play_set_up(ls_play *p, const ls_image *const *images);
/* Puts the rank at the beginning of its current program, with the inputs written by the host. */
LS_MUST_USE ls_status ls_play_begin(ls_play *p, int rank);

/* The instruction at the head of a queue; and the error that rejects an instruction and says what is wrong. */
static inline ls_point ls_play_point(const ls_play *p, int rank, int queue) {
    const ls_play_rank *r = &p->rank[rank];
    const ls_play_queue *q = &r->queue[queue];
    return (ls_point){.rank = rank,
                      .program = ls_play_index(r),
                      .instr = q->instrs[q->next],
                      .op = ls_play_program(r)->instrs[q->instrs[q->next]].op,
                      .key = -1,
                      .queue = ls_play_queue_id(p, rank, queue),
                      .tick = q->clock[ls_play_queue_id(p, rank, queue)]};
}
ls_status ls_play_fault(const ls_play *p, ls_point at, const char *what);

/*
 * Clocks (verify_clocks.c). begin: counts, for a program that begins, how many instructions of other queues come after
 * each instruction. remember: keeps what the queue has seen after its last instruction, if other queues will need it.
 * learn: the queue has waited until another queue was past an instruction; it learns what that queue had seen there and
 * no more, since that queue may be further by now.
 */
void ls_clock_join(const ls_play *p, uint32_t *into, const uint32_t *from);
void ls_clock_begin(ls_play_rank *r);
void ls_clock_remember(ls_play *p, ls_play_queue *q);
void ls_clock_learn(ls_play *p, int rank, int queue, ls_after after);

/*
 * Words (verify_words.c). post: the head of the queue sets its peer's word; put, source: the accesses of a put, else
 * NULL. take: the wait at the head of the queue takes its message; *came is not changed if there is no message yet.
 * all_taken: checks that no message is left.
 */
LS_MUST_USE ls_status ls_play_post(ls_play *p, int rank, int queue, ls_access *put, ls_access *source);
LS_MUST_USE ls_status ls_play_take(ls_play *p, int rank, int queue, bool *came);
LS_MUST_USE ls_status ls_play_all_taken(const ls_play *p, int rank);

/*
 * Execution (verify_execute.c). run: executes the rank's queues, one after the other, as far as possible; *moved is not
 * changed if nothing could be executed. host_writes: between programs the host writes the rank's inputs, knowing what
 * all of the rank's queues knew. expect: checks the value in the bytes of the current query (ls_bytes_expect); the play
 * remembers the first failure.
 */
LS_MUST_USE ls_status ls_play_run(ls_play *p, int rank, bool *moved);
LS_MUST_USE ls_status ls_play_host_writes(ls_play *p, int rank);
static inline void ls_play_expect(ls_play *p, int rank, int buffer, uint64_t name, uint64_t expected, ls_point at) {
    if (p->value.code != LS_OK) return;
    const ls_status found = ls_bytes_expect(&p->bytes[rank], buffer, name, expected, at);
    if (found.code != LS_OK) p->value = found;
}

#endif
