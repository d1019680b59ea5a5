/*
 * States of persistent buffers: what lies in them while no program runs. Each program declares its effect on every
 * persistent buffer (ls_effect), and with it the state that it needs and the state that it leaves. That what is
 * declared is what the instructions do is checked program by program (ls_effects_check), and that the phase table joins
 * only what fits, row by row (ls_joins_check). A closed program that is proved by itself is then proved in every order
 * that the table allows.
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

/* Whether the program goes on with a sum, so that a row of the phase table says where that begins (ls_phase_sums). */
static inline bool ls_effect_sums(ls_effect effect) { return effect == LS_EFFECT_ADD || effect == LS_EFFECT_TAKE; }

enum { LS_STATES_TEXT = 32 };
/* "zero or a sum". Returns text. */
const char *ls_states_text(unsigned states, char text[LS_STATES_TEXT]);

/*
 * Whether each program, executed one instruction after the other on that rank, has the effects that it declares. A read
 * is of what the program found if none of its bytes were written by the program before; one that was written in part
 * may be either. LS_INVALID names the program, the buffer, what is declared and what the instructions do.
 */
LS_MUST_USE ls_status ls_effects_check(const ls_image *image, int rank);

/*
 * Whether, along every row of the phase table, what the second program needs is what it finds, after any order of
 * programs that the table allows. LS_INVALID names both programs, the buffer, the state that is needed and the one that
 * is there.
 */
LS_MUST_USE ls_status ls_joins_check(const ls_image *image);

#endif
