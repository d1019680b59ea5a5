/*
 * What is kept of a class that was proved: the ends of its channels (verify_ends.c). verify_local.c records them,
 * verify_between.c compares them.
 */
#ifndef LS_PROGRAM_VERIFY_LOCAL_IMPL_H
#define LS_PROGRAM_VERIFY_LOCAL_IMPL_H

#include "program/verify_local.h"

/*
 * One end of a channel of a class: the peer at the other end, and hashes over all uses of the channel: of what its
 * "data" word announces and of what its "free" word announces. The class at the other end must have the same hashes.
 */
typedef struct ls_channel_end {
    bool used;
    ls_peer peer;
    uint64_t data, free;
} ls_channel_end;

typedef struct ls_program_ends {
    const char *name;
    const char **channel;             /* names */
    ls_channel_end (*ends)[LS_SIDES]; /* by channel */
    int *word;                        /* by channel: the word "data"; the next one is "free" */
    int n_channels;
} ls_program_ends;

struct ls_class_proof {
    int rank;
    ls_team *teams;
    int n_teams;
    ls_program_ends *programs;
    int n_programs;
    ls_phase *phases;
    int n_phases;
};

/* A proof in which nothing is recorded yet. */
ls_class_proof *ls_class_proof_make(const ls_image *image, int rank, ls_arena *arena);
/* Adds a communicating instruction to its end of the channel. Uses of each end come in order. */
void ls_channel_end_note(ls_channel_end *end, const ls_instr *instr);

#endif
