/*
 * States of persistent buffers: what lies in them while no program runs. Each program declares its effect on every
 * persistent buffer (ls_effect), and with it the state that it needs and the state that it leaves. Two things are
 * checked: program by program, that the instructions do what is declared (ls_effects_check); row by row of the phase
 * table, that the second program finds the states that it needs (ls_joins_check). A closed program that is proved by
 * itself is then proved in every order that the table allows.
 */
#ifndef LS_PROGRAM_STATES_H
#define LS_PROGRAM_STATES_H

#include "program/image.h"

/* An effect as states (states.c has the table). */
typedef struct ls_effect_traits {
    const char *verb; /* "the program ... the buffer" */
    unsigned needs;   /* states that it may find, a bit for each; 0: it reads nothing of what it finds */
    unsigned leaves;  /* the state that it leaves, as a bit; 0: the one that it found */
} ls_effect_traits;
extern const ls_effect_traits ls_effect_traits_of[LS_EFFECTS];

/* Whether the program adds to a sum: what lies in it before, a row of the phase table says (ls_phase_sums). */
static inline bool ls_effect_sums(ls_effect effect) {
    return effect == LS_EFFECT_ADD || effect == LS_EFFECT_TAKE || effect == LS_EFFECT_FINISH;
}

enum { LS_STATES_TEXT = 32 };
/* "zero or a sum". Returns text. */
const char *ls_states_text(unsigned states, char text[LS_STATES_TEXT]);

/*
 * Whether each program, executed one instruction after the other on that rank, has the effects that it declares. A read
 * of bytes none of which this program has written is of what it found; of bytes that one of its writes covers, of its
 * own; all others may be either. LS_INVALID names the program, the buffer, what is declared and what the instructions
 * do.
 */
LS_MUST_USE ls_status ls_effects_check(const ls_image *image, int rank);

/*
 * Whether, along every row of the phase table, what the second program needs is what it finds, after any order of
 * programs that the table allows. LS_INVALID names both programs, the buffer, the state that is needed and the one that
 * is there.
 */
LS_MUST_USE ls_status ls_joins_check(const ls_image *image);

#endif
