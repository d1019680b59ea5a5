/* The verifier's view of one rank's bytes: who touched them last, and since when that is known. */
#ifndef LS_PROGRAM_VERIFY_IMPL_H
#define LS_PROGRAM_VERIFY_IMPL_H

#include "program/program.h"

/* An instruction in the play, and its tick on its queue's clock. */
typedef struct ls_point {
    int rank, program, instr;
    const char *op; /* of the instruction */
    int key;        /* of a write: what it is, for the names of values (name.h) */
    int queue;      /* over all ranks */
    uint32_t tick;
} ls_point;

enum { LS_ACCESS_ENDS = 2 };

/*
 * An access to bytes. It begins at `start`; it is over for those who have seen one of its ends: a tick of a queue. An open access
 * (a put under way) has no end yet. What most questions ask of most accesses comes first, in one line of the cache: there are
 * hundreds of thousands.
 */
typedef struct ls_access {
    ls_interval place; /* from the range's first byte to its last */
    uint32_t end_tick[LS_ACCESS_ENDS];
    uint16_t end_queue[LS_ACCESS_ENDS];
    uint8_t n_end;
    bool writes;
    bool opened; /* as open: someone may still hold a pointer to it */
    ls_range range;
    uint64_t order; /* of the accesses to this rank's bytes, in the play: that of those that conflict */
    ls_point start;
    int buffer;
} ls_access;

/* A block of another rank that this one has waited for: it may read it until the next one comes over the channel. */
typedef struct ls_loan {
    int channel, owner;
    ls_range range; /* in the owner's heap */
    uint64_t transfer;
    uint64_t order; /* of the owner's accesses when he lent it */
} ls_loan;

typedef struct ls_loans {
    ls_loan *list;
    int n;
    size_t room;
} ls_loans;

typedef struct ls_bytes {
    const ls_image *image;
    ls_arena *arena;
    ls_intervals history[LS_SPACES]; /* accesses that a later one could still race with */
    int *symmetric;                  /* buffers of the heap, in order */
    int *ordinal;                    /* by buffer: index into symmetric */
    ls_access *free_accesses;        /* linked by place.left */
    uint64_t accesses;               /* so far */
    uint64_t began;                  /* accesses when the present program began */
    ls_range asked;                  /* the bytes that the present question is about */
    ls_interval_list near;           /* accesses that lie near them */
} ls_bytes;

void ls_bytes_create(ls_bytes *bytes, const ls_image *image, ls_arena *arena);

/* The operand of another rank's program as the same bytes of this rank's heap. */
ls_operand ls_bytes_translate(const ls_bytes *from, const ls_bytes *to, const ls_operand *operand);

/*
 * An access by someone who has seen `clock`. LS_INVALID when an earlier access to the same bytes is not over for him
 * and one of the two writes. open: it ends only with ls_access_seen. *out: the access when open (may be NULL otherwise). After a
 * read its bytes are those that are asked about.
 */
LS_MUST_USE ls_status ls_bytes_touch(ls_bytes *bytes, const ls_operand *operand, bool writes, ls_point at,
                                     const uint32_t *clock, bool open, ls_access **out);

/* From now on what lies in persistent buffers is what the next program begins with. */
void ls_bytes_begin(ls_bytes *bytes);

/* From now on these bytes are asked about: bytes->near is the accesses between the first of them and the last. */
void ls_bytes_ask(ls_bytes *bytes, ls_space space, ls_range range);

/*
 * Whether the value of that name lies in the bytes that are asked about, which are of the buffer: the writes by this rank in this
 * program that share bytes with them are those that the name is made of, those that meet happened in the order of emission, and no
 * other write came after them. LS_INVALID says which is not so; `name`: as begun by the caller, without its parts. Ends the question.
 */
LS_MUST_USE ls_status ls_bytes_expect(ls_bytes *bytes, int buffer, uint64_t name, uint64_t expected,
                                      ls_point at);

/*
 * Reading in place (verify_loans.c). expect: whether the operand (of the owner's heap; its bytes are asked about) lies in a loan of
 * that owner, has the name that the loan gives it, and was not written since it was lent. That the wait for it comes first, and the
 * signal that gives it back after it, needs no rule of its own: otherwise the read would race with the owner's writes.
 */
void ls_loan_begin(ls_loans *loans, ls_arena *arena, ls_loan loan);
LS_MUST_USE ls_status ls_loan_expect(const ls_loans *loans, const ls_bytes *owner, const ls_operand *operand,
                                     ls_point at);

/* The access is over for all who have seen `at`. */
void ls_access_seen(ls_access *access, ls_point at);

#endif
