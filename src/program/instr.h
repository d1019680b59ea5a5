/*
 * What an instruction means to every reader of a program: what its kind does, which bytes it accesses, and which signal
 * word it sets or awaits.
 */
#ifndef LS_PROGRAM_INSTR_H
#define LS_PROGRAM_INSTR_H

#include "program/image.h"

/* The operand that a communicating instruction is about: a slot or a block. */
typedef enum ls_subject { LS_SUBJECT_NONE, LS_SUBJECT_IN, LS_SUBJECT_OUT } ls_subject;

/* What instructions of a kind do (instr.c has the table). */
typedef struct ls_instr_traits {
    const char *name; /* also what such instructions are called, but kernels */
    bool moves;       /* it computes or copies bytes; others only say something about them */
    bool sets;        /* the peer's word */
    bool awaits;      /* the own word */
    bool free;        /* its word is the channel's "free", not its "data" */
    bool opens;       /* a use: until that is closed, the peer may access its subject in this rank's memory */
    bool closes;      /* what it opened */
    bool in_place;    /* its subject lies in the peer's memory, to be read there */
    ls_subject subject;
    ls_instr_kind awaited; /* of a kind that awaits: what the peer sets the word by */
} ls_instr_traits;
extern const ls_instr_traits ls_instr_traits_of[LS_INSTR_KINDS];

static inline const ls_instr_traits *ls_traits(const ls_instr *instr) { return &ls_instr_traits_of[instr->kind]; }

/*
 * Each end of a channel sets one of its two words and awaits the other. It sets a word only after its last await there:
 * a grant after the receive of the use before it, a lease after the reclaim of the use before it, a put after its
 * acquire, a return after its borrow. So the peer has taken what a word was set to before it is set again: one message
 * at most is on its way to it.
 */
/* Whether it stands at the end that sends or owns the bytes; else it stands at the end that receives or reads them. */
static inline bool ls_instr_sends(const ls_instr *instr) { return ls_traits(instr)->sets != ls_traits(instr)->free; }
static inline ls_channel_side ls_instr_side(const ls_instr *instr) {
    return ls_instr_sends(instr) ? LS_SIDE_SENDS : LS_SIDE_RECEIVES;
}
/* A number for the end at which it stands, less than twice the number of channels. */
static inline int ls_instr_end(const ls_instr *instr) { return LS_SIDES * instr->channel + (int)ls_instr_side(instr); }
/* How often the end at which it stands is used in a run. */
static inline uint64_t ls_instr_uses(const ls_program *program, const ls_instr *instr) {
    return program->channels[instr->channel].uses[ls_instr_side(instr)];
}

/* NULL: it has none. */
static inline const ls_operand *ls_instr_subject(const ls_instr *instr) {
    const ls_subject subject = ls_traits(instr)->subject;
    return subject == LS_SUBJECT_NONE ? NULL : subject == LS_SUBJECT_IN ? &instr->in[0] : &instr->out[0];
}

/* Of a put of counted rows: where their number is; NULL: it puts all of its source. */
static inline const ls_operand *ls_instr_count(const ls_instr *put) { return put->counted > 0 ? &put->in[1] : NULL; }

typedef enum ls_access_kind {
    LS_ACCESS_READ,
    LS_ACCESS_WRITE,  /* or handed over, or taken back: what touched the bytes before is over, what touches them later
                         comes after */
    LS_ACCESS_UPDATE, /* written, and read first */
    LS_ACCESS_PUT     /* a put writes them in its peer's memory; signals, not this rank's order, say when it may */
} ls_access_kind;

/* One operand as its instruction accesses it. */
typedef struct ls_instr_access {
    const ls_operand *operand; /* its buffer may be -1: none */
    ls_access_kind kind;
    int output; /* of LS_ACCESS_WRITE and LS_ACCESS_UPDATE: its index in out[]; -1: the workspace */
} ls_instr_access;

/* How many operands an instruction has, inputs first, and how many accesses: these operands, then its workspace. */
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

/* The channel's word that says "free", or the one that says "data" (ls_channel). */
static inline int ls_channel_word(const ls_program *program, int channel, bool free) {
    const int own = channel - program->n_common;
    return (own < 0 ? program->first_word + 2 * channel : program->own_word + 2 * own) + (free ? 1 : 0);
}

/* The signal word, among all words of its owner, that the instruction sets or awaits. */
static inline int ls_instr_word(const ls_program *program, const ls_instr *instr) {
    return ls_channel_word(program, instr->channel, ls_traits(instr)->free);
}

/* The generation that it sets or awaits in a run of the program; runs: those that came before. */
static inline uint64_t ls_instr_generation(const ls_program *program, const ls_instr *instr, uint64_t runs) {
    return runs * ls_instr_uses(program, instr) + instr->generation;
}

#endif
