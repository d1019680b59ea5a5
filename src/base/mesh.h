/*
 * The mesh of ranks, outermost axis first: dp, ring, ulysses; rank = (dp*R + ring)*U + ulysses.
 * The sequence is shared by the ring*ulysses ranks of one dp index ("context parallel").
 */
#ifndef LS_BASE_MESH_H
#define LS_BASE_MESH_H

#include <stdbool.h>
#include <stddef.h>

#include "longspan/status.h"

typedef enum ls_axis { LS_AXIS_DP, LS_AXIS_RING, LS_AXIS_ULYSSES, LS_AXES } ls_axis;

/* size[axis] >= 1; 0 after ls_mesh_parse: not chosen yet. */
typedef struct ls_mesh {
    int size[LS_AXES];
} ls_mesh;

const char *ls_axis_name(ls_axis axis); /* "dp", "ring", "ulysses" */
static inline ls_mesh ls_mesh_make(int dp, int ring, int ulysses) { return (ls_mesh){{dp, ring, ulysses}}; }
int ls_mesh_ranks(const ls_mesh *mesh);          /* dp*R*U */
int ls_mesh_sequence_ranks(const ls_mesh *mesh); /* R*U: the ranks that share a sequence */
int ls_mesh_coordinate(const ls_mesh *mesh, int rank, ls_axis axis);
/* The rank with the given coordinate along axis and the other coordinates of `rank`. */
int ls_mesh_neighbour(const ls_mesh *mesh, int rank, ls_axis axis, int coordinate);
/* The index of a rank among those that share its sequence: ring*U + ulysses. */
int ls_mesh_sequence_index(const ls_mesh *mesh, int rank);

/*
 * A team: the ranks that differ from each other only in some digits of their numbers. Digit d of a rank is rank /
 * stride % size. A member's place is a number from 0 to size - 1, of which the first digit is the most significant.
 * Zeroed: the rank alone.
 */
enum { LS_TEAM_DIGITS = 8 };
typedef struct ls_team {
    int digits;
    struct {
        int size, stride;
    } digit[LS_TEAM_DIGITS];
} ls_team;

/* The ranks that differ only in their coordinates on these axes. */
ls_team ls_mesh_team(const ls_mesh *mesh, const bool axes[LS_AXES]);
int ls_team_size(const ls_team *team);
int ls_team_place(const ls_team *team, int rank);
/*
 * The member of the rank's team that stands `shift` places after the rank; after the last place comes the first. shift
 * may be negative.
 */
int ls_team_member(const ls_team *team, int rank, int shift);
bool ls_team_equal(const ls_team *a, const ls_team *b);

/*
 * Reads "dp=A,ring=R,ulysses=U". Axes may be in any order; a missing axis gets size 0, which means "to be chosen". An
 * unknown or repeated axis and a size that is not an integer from 1 on are LS_USAGE errors that name it, as is a mesh
 * of more ranks than an int can count.
 */
LS_MUST_USE ls_status ls_mesh_parse(const char *text, ls_mesh *out);

/* Prints "dp 2 · ring 4 · ulysses 2" without the axes of size 1; "1 rank" when all have size 1. */
void ls_mesh_print(const ls_mesh *mesh, char *out, size_t bytes);

#endif
