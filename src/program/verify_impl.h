/*
 * The verifier's inside, shared by its files: one rank's bytes (who touched them last, and since when that is known),
 * and the play of all ranks' queues.
 */
#ifndef LS_PROGRAM_VERIFY_IMPL_H
#define LS_PROGRAM_VERIFY_IMPL_H

#include "program/address.h"
#include "program/instr.h"

/* --- an image by itself (verify_image.c) -------------------------------------------------------------------------- */

/*
 * Whether every buffer lies in its arena, those that persist lie apart from each other, what the host has is in these,
 * and no two words are one. LS_INVALID names the buffer, the channel or what the host has.
 */
LS_MUST_USE ls_status ls_image_check(const ls_image *image, int rank);

/* --- one instruction by itself (verify_operands.c) ---------------------------------------------------------------- */

/* LS_INVALID: the instruction is rejected, and why. */
ls_status ls_instr_fault(const ls_image *image, int program, int rank, int instr, const char *what);
/* Whether the operand lies in its buffer, on every rank of the class. */
bool ls_operand_is_inside(const ls_image *image, const ls_operand *operand);
/* What is wrong with its operands, whatever other instructions do; NULL: nothing. */
const char *ls_instr_unsound(const ls_image *image, const ls_instr *instr);

/* --- one rank's bytes --------------------------------------------------------------------------------------------- */

/* An instruction in the play, and its tick on its queue's clock. */
typedef struct ls_point {
    int rank, program, instr;
    const char *op; /* of the instruction */
    int key;        /* of a write: what it is, for the names of values (name.h) */
    int queue;      /* over all ranks */
    uint32_t tick;
} ls_point;

enum { LS_ACCESS_ENDS = 3 }; /* further ones are forgotten: then a program may be rejected for nothing */

/*
 * An access to bytes of one rank. Two accesses by the rank itself are compared for all ranks of its class (ls_extent);
 * one by another rank is compared by the bytes that it touches here. It begins at `start`; it is over for those who
 * have seen one of its ends: a tick of a queue. An open access (a put under way) has no end yet. What most questions
 * ask of most accesses comes first, in one line of the cache: there are hundreds of thousands.
 */
typedef struct ls_access {
    ls_interval place; /* from the extent's first byte to its last */
    uint32_t end_tick[LS_ACCESS_ENDS];
    uint16_t end_queue[LS_ACCESS_ENDS];
    uint8_t n_end;
    bool writes;
    bool opened; /* as open: someone may still hold a pointer to it */
    ls_range range;
    ls_extent extent; /* of another rank's access: the range alone */
    uint64_t order;   /* of the accesses to this rank's bytes, in the play: that of those that conflict */
    ls_point start;
    int buffer;
} ls_access;

/* A block of another rank that this one has waited for: it may read it until the next one comes over the channel. */
typedef struct ls_lease {
    int channel, owner;
    const ls_operand *block; /* of the borrow */
    int buffer;              /* of the owner's image */
    ls_range range;          /* where the block lies in the owner's heap */
    uint64_t transfer;
    uint64_t order; /* of the owner's accesses when he leased it */
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
    uint64_t accesses;               /* so far */
    uint64_t began;                  /* accesses when the present program began */
    ls_range asked;                  /* the bytes that the present question is about */
    ls_extent asked_extent;
    ls_interval_list near; /* accesses that lie near them */
} ls_bytes;

void ls_bytes_create(ls_bytes *bytes, const ls_image *image, int rank, ls_arena *arena);

/*
 * An access by someone who has seen `clock`: by the rank itself, with an operand of its own, or by another
 * rank, to bytes of a buffer of this one. LS_INVALID when an earlier access to the same bytes is not over for
 * him and one of the two writes. open: it ends only with ls_access_seen. *out: the access when open (may be
 * NULL otherwise). After a read its bytes are those that are asked about.
 */
LS_MUST_USE ls_status ls_bytes_touch(ls_bytes *bytes, const ls_operand *operand, bool writes, ls_point at,
                                     const uint32_t *clock, bool open, ls_access **out);
LS_MUST_USE ls_status ls_bytes_touch_from(ls_bytes *bytes, int buffer, const ls_range *range, bool writes, ls_point at,
                                          const uint32_t *clock, bool open, ls_access **out);

/* From now on what lies in persistent buffers is what the next program begins with. */
void ls_bytes_begin(ls_bytes *bytes);

/* From now on these bytes are asked about: bytes->near is the accesses between the first of them and the last. */
void ls_bytes_ask(ls_bytes *bytes, ls_space space, ls_range range, ls_extent extent);

/*
 * Whether the value of that name lies in the bytes that are asked about, which are of the buffer: the writes by this
 * rank in this program that share bytes with them are those that the name is made of, those that meet happened in the
 * order of emission, and no other write came after them. LS_INVALID says which is not so; `name`: as begun by the
 * caller, without its parts. Ends the question.
 */
LS_MUST_USE ls_status ls_bytes_expect(ls_bytes *bytes, int buffer, uint64_t name, uint64_t expected, ls_point at);

/*
 * Reading in place (verify_leases.c). find: the lease whose block has the operand's bytes, one that gives it
 * its name if there is one; NULL: none. expect: whether the operand, whose bytes in the owner's heap are
 * asked about, has the name that the lease gives it, and was not written since it was leased. That the wait
 * for it comes first, and the signal that gives it back after it, needs no rule of its own: otherwise the
 * read would race with the owner's writes.
 */
void ls_lease_begin(ls_leases *leases, ls_arena *arena, ls_lease lease);
const ls_lease *ls_lease_find(const ls_leases *leases, const ls_operand *operand);
LS_MUST_USE ls_status ls_lease_expect(const ls_lease *lease, const ls_bytes *owner, const ls_operand *operand,
                                      ls_point at);
#define LS_NOT_LEASED "it reads a block of another rank that it has not been leased"

/* The access is over for all who have seen `at`. */
void ls_access_seen(ls_access *access, ls_point at);

/* --- the play ----------------------------------------------------------------------------------------------------- */

typedef struct ls_message ls_message; /* a signal on its way: what its sender knew (verify_words.c) */
typedef struct ls_moment ls_moment;   /* what a queue had seen after an instruction (verify_clocks.c) */

typedef struct ls_word {
    uint64_t last;       /* generation that it was set to */
    ls_message *pending; /* not yet awaited */
    int queue;           /* the last await: its queue, over all ranks, and its tick there */
    uint32_t tick;
} ls_word;

typedef struct ls_play_queue {
    int *instrs; /* of the present program, in order */
    int n, next, done;
    uint32_t *clock;     /* what this queue has seen of each queue */
    ls_moment **moments; /* by instruction */
    int *awaited;        /* by instruction: how many of other queues come after it and have not seen it yet */
    ls_access **puts;    /* sources of the present program's puts, in order */
    int n_puts;
    int *settled; /* by queue of the rank: how many of that queue's puts are known to be done here */
} ls_play_queue;

typedef struct ls_play_rank {
    const ls_image *image;
    int *walk; /* programs, in the order in which they are played (ls_phase_walk) */
    int stage; /* index into it */
    int stages;
    uint64_t *runs; /* by program */
    ls_uses *uses;  /* by program */
    ls_play_queue *queue;
    ls_word *words;
    ls_range *granted; /* by channel: what the receiver has handed over to this sender */
    ls_leases leases;  /* blocks of other ranks that may be read now */
} ls_play_rank;

typedef struct ls_play {
    ls_arena *arena;
    int ranks, queues_each, queues; /* queues of each rank; of all ranks together */
    ls_play_rank *rank;
    ls_bytes *bytes; /* by rank */
    ls_message *free_messages;
    ls_moment *free_moments;
    ls_status value; /* the first read that does not find its value: told when nothing explains it better */
} ls_play;

static inline int ls_play_queue_id(const ls_play *p, int rank, int queue) { return rank * p->queues_each + queue; }

/* The program that the rank is in. */
static inline int ls_play_index(const ls_play_rank *r) { return r->walk[r->stage]; }
static inline const ls_program *ls_play_program(const ls_play_rank *r) { return &r->image->programs[ls_play_index(r)]; }

/*
 * What the instruction's other end tells of its use: the peer's RECEIVE or LEASE, whose subject lies in the
 * peer's memory at ls_address_of. NULL: the peer has none.
 */
const ls_instr *ls_play_told(const ls_play *p, int rank, const ls_instr *instr);

/* arena and ranks are set: all ranks at the beginning of their first program. */
LS_MUST_USE ls_status ls_play_set_up(ls_play *p, const ls_image *const *images);
/* The rank at the beginning of its present program: the host has written its inputs. */
LS_MUST_USE ls_status ls_play_begin(ls_play *p, int rank);

/* The instruction at the head of a queue; and that instruction rejected, with what is wrong. */
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
 * Clocks (verify_clocks.c). begin: counts, in a program that begins, who comes after what in other queues. remember:
 * keeps what the queue has seen after its last instruction, for others will ask. learn: the queue has waited until
 * another one was past an instruction; it learns what that one had seen there and no more, for it may be further by
 * now.
 */
void ls_clock_join(const ls_play *p, uint32_t *into, const uint32_t *from);
void ls_clock_begin(ls_play_rank *r);
void ls_clock_remember(ls_play *p, ls_play_queue *q);
void ls_clock_learn(ls_play *p, int rank, int queue, ls_after after);

/*
 * Words (verify_words.c). post: the head of the queue sets its peer's word; put, source: the accesses of a put, else
 * NULL. take: the wait at the head of the queue takes its message; *came stays as it was when there is none yet.
 * all_taken: nothing is left over.
 */
LS_MUST_USE ls_status ls_play_post(ls_play *p, int rank, int queue, ls_access *put, ls_access *source);
LS_MUST_USE ls_status ls_play_take(ls_play *p, int rank, int queue, bool *came);
LS_MUST_USE ls_status ls_play_all_taken(const ls_play *p, int rank);

/*
 * What is touched (verify_execute.c). run: executes the rank's queues, one after the other, until something holds them
 * up; *moved stays as it was when nothing could be executed. host_writes: between programs the host writes the rank's
 * inputs, knowing what all of its queues knew. expect: the bytes that are asked about hold a value (ls_bytes_expect);
 * when they do not, the play remembers it.
 */
LS_MUST_USE ls_status ls_play_run(ls_play *p, int rank, bool *moved);
LS_MUST_USE ls_status ls_play_host_writes(ls_play *p, int rank);
static inline void ls_play_expect(ls_play *p, int rank, int buffer, uint64_t name, uint64_t expected, ls_point at) {
    if (p->value.code != LS_OK) return;
    const ls_status found = ls_bytes_expect(&p->bytes[rank], buffer, name, expected, at);
    if (found.code != LS_OK) p->value = found;
}

#endif
