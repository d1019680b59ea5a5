/*
 * What is kept of a class that was proved: the ends of its channels (verify_ends.c). Shared by verify_local.c, which
 * notes them, and verify_between.c, which compares.
 */
#ifndef LS_PROGRAM_VERIFY_LOCAL_IMPL_H
#define LS_PROGRAM_VERIFY_LOCAL_IMPL_H

#include "program/verify_local.h"

/*
 * A channel as one class has it: the peers at its two ends, and what this class says of each use. `sent` of one
 * class must be `received` of the class at the other end.
 */
typedef struct ls_channel_end {
    ls_peer to, from;
    bool has_to, has_from;
    uint64_t sent, received; /* hashes over all uses */
} ls_channel_end;

typedef struct ls_program_ends {
    const char *name;
    const char **channel; /* names */
    ls_channel_end *ends;
    uint64_t *uses;
    int n_channels;
    uint64_t order; /* of emission: a hash */
} ls_program_ends;

struct ls_class_proof {
    int rank;
    ls_team *teams;
    int n_teams;
    ls_program_ends *programs;
    int n_programs;
    ls_phase *phases;
    int n_phases;
    size_t heap_bytes;
    int words;
};

/* A proof without anything noted yet. */
ls_class_proof *ls_class_proof_make(const ls_image *image, int rank, ls_arena *arena);
/* Adds what a communicating instruction says to its end of the channel. Uses of each end come in order. */
void ls_channel_end_note(ls_channel_end *end, const ls_instr *instr);

#endif
