/*
 * The meaning of an instruction, for every reader of a program: what its kind does, which bytes it accesses, and which
 * signal word it sets or awaits.
 */
#ifndef LS_PROGRAM_INSTR_H
#define LS_PROGRAM_INSTR_H

#include "program/image.h"

/* Which operand is the subject of a communicating instruction: a slot or a block. */
typedef enum ls_subject { LS_SUBJECT_NONE, LS_SUBJECT_IN, LS_SUBJECT_OUT } ls_subject;

/* What instructions of a kind do (instr.c has the table). */
typedef struct ls_instr_traits {
    const char *name; /* also the name of such instructions, except kernels */
    bool moves;       /* it computes or copies bytes; other kinds only set or await words */
    bool sets;        /* sets a word of the peer */
    bool awaits;      /* awaits a word of this rank */
    bool free;        /* its word is the channel's "free", not its "data" */
    bool opens;       /* opens a use: until it is closed, the peer may access the subject in this rank's memory */
    bool closes;      /* closes such a use */
    bool in_place;    /* its subject lies in the peer's memory and is read there */
    ls_subject subject;
    ls_instr_kind awaited; /* of a kind that awaits: the kind of instruction by which the peer sets the word */
} ls_instr_traits;
extern const ls_instr_traits ls_instr_traits_of[LS_INSTR_KINDS];

static inline const ls_instr_traits *ls_traits(const ls_instr *instr) { return &ls_instr_traits_of[instr->kind]; }

/*
 * Each end of a channel sets one of the channel's two words and awaits the other. It sets a word only after its last
 * await: a grant after the receive of the previous use, a lease after the reclaim of the previous use, a put after its
 * acquire, a return after its borrow. So the peer has awaited a word before it is set again: at most one message to it
 * is pending.
 */
/*
 * Whether the instruction is at the end that sends or owns the bytes; else it is at the end that receives or reads
 * them.
 */
static inline bool ls_instr_sends(const ls_instr *instr) { return ls_traits(instr)->sets != ls_traits(instr)->free; }
static inline ls_channel_side ls_instr_side(const ls_instr *instr) {
    return ls_instr_sends(instr) ? LS_SIDE_SENDS : LS_SIDE_RECEIVES;
}
/* The number of the instruction's end of its channel, less than twice the number of channels. */
static inline int ls_instr_end(const ls_instr *instr) { return LS_SIDES * instr->channel + (int)ls_instr_side(instr); }
/* How often the instruction's end of its channel is used in a run. */
static inline uint64_t ls_instr_uses(const ls_program *program, const ls_instr *instr) {
    return program->channels[instr->channel].uses[ls_instr_side(instr)];
}

/* The subject of an instruction; NULL: it has none. */
static inline const ls_operand *ls_instr_subject(const ls_instr *instr) {
    const ls_subject subject = ls_traits(instr)->subject;
    return subject == LS_SUBJECT_NONE ? NULL : subject == LS_SUBJECT_IN ? &instr->in[0] : &instr->out[0];
}

/* The operand with the number of rows of a put of counted rows; NULL: the put sends all of its source. */
static inline const ls_operand *ls_instr_count(const ls_instr *put) { return put->counted > 0 ? &put->in[1] : NULL; }

typedef enum ls_access_kind {
    LS_ACCESS_READ,
    LS_ACCESS_WRITE,  /* written, granted, leased or taken back: earlier accesses to the bytes must be over, later ones
                         come after it */
    LS_ACCESS_UPDATE, /* read, then written */
    LS_ACCESS_PUT     /* written by a put in the peer's memory; signals order this, not the order on this rank */
} ls_access_kind;

/* One operand as its instruction accesses it. */
typedef struct ls_instr_access {
    const ls_operand *operand; /* its buffer may be -1: no operand */
    ls_access_kind kind;
    int output; /* of LS_ACCESS_WRITE and LS_ACCESS_UPDATE: its index in out[]; -1: the workspace */
} ls_instr_access;

/* The number of operands of an instruction, inputs first; and of its accesses: these operands, then its workspace. */
static inline int ls_instr_operands(const ls_instr *instr) { return instr->n_in + instr->n_out; }
static inline int ls_instr_accesses(const ls_instr *instr) { return ls_instr_operands(instr) + 1; }
/* The k-th access. */
ls_instr_access ls_instr_access_at(const ls_instr *instr, int k);

static inline bool ls_access_reads(const ls_instr_access *access) {
    return access->kind == LS_ACCESS_READ || access->kind == LS_ACCESS_UPDATE;
}
static inline bool ls_access_writes(const ls_instr_access *access) {
    return access->kind == LS_ACCESS_WRITE || access->kind == LS_ACCESS_UPDATE;
}

/* The channel's word "free", or its word "data" (ls_channel). */
static inline int ls_channel_word(const ls_program *program, int channel, bool free) {
    const int own = channel - program->n_common;
    return (own < 0 ? program->first_word + 2 * channel : program->own_word + 2 * own) + (free ? 1 : 0);
}

/* The signal word, among all words of its owner, that the instruction sets or awaits. */
static inline int ls_instr_word(const ls_program *program, const ls_instr *instr) {
    return ls_channel_word(program, instr->channel, ls_traits(instr)->free);
}

/* The generation that the instruction sets or awaits in a run of the program. runs: the number of runs before. */
static inline uint64_t ls_instr_generation(const ls_program *program, const ls_instr *instr, uint64_t runs) {
    return runs * ls_instr_uses(program, instr) + instr->generation;
}

#endif
