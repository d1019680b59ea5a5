/* Kinds of random edits of valid programs. */
#ifndef TESTS_EDITS_H
#define TESTS_EDITS_H

#include "images.h"

typedef struct edit {
    image_set *set;
    uint64_t seed, draws;
    ls_image *image; /* of the rank that is edited */
    int rank, index;
    ls_program *program;
    char what[200]; /* what was done */
} edit;

/* A random number below that, of the edit's seed. */
int edit_draw(edit *e, int below);

typedef struct edit_kind {
    const char *name;
    bool (*apply)(edit *e); /* false: there is nothing to edit in that way */
} edit_kind;
extern const edit_kind edit_kinds[];
enum { EDIT_KINDS = 16 };

/*
 * What is said in two slots of the timetable is said to be in the other one, as if a rank had its turns in another
 * order; places: it also stands in the other one's place of its queue. Kernels stay. False: the program has none of
 * them.
 */
bool edit_exchange_slots(ls_program *program, int a, int b, bool places);

#endif
