/* The ways in which blocks get to other ranks, as the matrices of tests go through them. */
#ifndef TESTS_TRANSFERS_H
#define TESTS_TRANSFERS_H

#include "compile/compile.h"

typedef struct transfer_way {
    const char *name;
    ls_transfers asked;
    bool blocks_apart; /* the ranks of one ring index are a host, so that they alone can read each other's heaps */
} transfer_way;

enum { TRANSFER_WAYS = 3 };
extern const transfer_way transfer_ways[TRANSFER_WAYS];

/* Whether the strategy can read blocks of other ring ranks in place, and the mesh has some. */
bool reads_ring_in_place(const char *strategy, const ls_mesh *mesh);
/* Whether blocks are put, or some are read in place: within the blocks of the mesh and, where asked for, across them.
 */
bool transfer_way_fits(const transfer_way *way, const char *strategy, const ls_mesh *mesh);
/* How blocks come, and who can read whose heap, on the mesh of the target. */
void transfer_way_set(const transfer_way *way, ls_target *target);

#endif
