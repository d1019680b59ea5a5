/*
 * States of persistent buffers: what they hold while no program runs. Each program declares its effect on every
 * persistent buffer (ls_effect), and thereby the state that it needs and the state that it leaves. Two things are
 * checked: for each program, that its instructions do what is declared (ls_effects_check); for each row of the phase
 * table, that the second program finds the states that it needs (ls_joins_check). A closed program that is proved by
 * itself is then proved in every order that the table allows.
 */
#ifndef LS_PROGRAM_STATES_H
#define LS_PROGRAM_STATES_H

#include "program/image.h"

/* What an effect means in terms of states (states.c has the table). */
typedef struct ls_effect_traits {
    const char *verb; /* "the program ... the buffer" */
    unsigned needs;   /* states that it may find, a bit for each; 0: it reads nothing that it finds */
    unsigned leaves;  /* the state that it leaves, as a bit; 0: the state that it found */
} ls_effect_traits;
extern const ls_effect_traits ls_effect_traits_of[LS_EFFECTS];

/* Whether the program adds to a sum. The row of the phase table says what the sum holds before (ls_phase_sums). */
static inline bool ls_effect_sums(ls_effect effect) {
    return effect == LS_EFFECT_ADD || effect == LS_EFFECT_TAKE || effect == LS_EFFECT_FINISH;
}

enum { LS_STATES_TEXT = 32 };
/* Writes a set of states into `text`, such as "zero or a sum". Returns text. */
const char *ls_states_text(unsigned states, char text[LS_STATES_TEXT]);

/*
 * Checks that each program, executed one instruction after the other on that rank, has the effects that it declares. A
 * read reads what the program found if the program has written none of its bytes; it reads the program's own value if
 * one of its writes covers all of them; any other read may be either. LS_INVALID names the program, the buffer, what is
 * declared and what the instructions do.
 */
LS_MUST_USE ls_status ls_effects_check(const ls_image *image, int rank);

/*
 * Checks, for every row of the phase table, that the second program finds the states that it needs, after any order of
 * programs that the table allows. LS_INVALID names both programs, the buffer, the state that is needed and the state
 * that is found.
 */
LS_MUST_USE ls_status ls_joins_check(const ls_image *image);

#endif
