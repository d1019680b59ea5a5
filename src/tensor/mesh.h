/*
 * The mesh of ranks: a list of named axes, outermost first. A rank's coordinates along them are the digits of its
 * number. How many axes there are, in which order and what they are called is known here alone; others ask for the axes
 * of a kind, as a set, for the team of a set and for a rank's index in it.
 */
#ifndef LS_TENSOR_MESH_H
#define LS_TENSOR_MESH_H

#include <stdbool.h>
#include <stddef.h>

#include "longspan/status.h"
#include "longspan/tensor.h"

/* What the ranks along an axis divide among them. */
typedef enum ls_axis_kind {
    LS_AXIS_STAGE, /* the nodes of the graph, and with them the parameters (compile/pipeline) */
    LS_AXIS_BATCH,
    LS_AXIS_SEQUENCE,
    LS_AXIS_FEATURE, /* heads, hidden features and words, where no op needs all of them (compile/shard) */
    LS_AXIS_KINDS
} ls_axis_kind;

/* A row of the table in mesh.c, or one that a caller makes. */
typedef struct ls_axis {
    const char *name;
    ls_axis_kind kind;
    /*
     * Of kind sequence: its ranks, a block, exchange tokens for heads around attention, so that each has some heads of
     * all the block's tokens. Along other axes of that kind attention goes block by block.
     */
    bool exchanges_heads;
    /*
     * Of kind sequence: its ranks are rings along the axes of blocks inside of it. Only a strategy with two rings tells
     * it from those; a mesh has it where it is asked for, or where such a strategy may be the best.
     */
    bool of_rings;
    const char *divides; /* what its ranks divide among them, in words */
} ls_axis;

/* The table, outermost first; NULL past its end. */
const ls_axis *ls_axis_at(int index);
/* The factor that axes of a kind cut; none: those of kind feature cut several, and those of kind stage none. */
ls_factor ls_axis_factor(const ls_axis *axis);

/*
 * Digits of a team, and with them axes of a mesh. Each of a team's digits takes a stage of a collective at least.
 */
enum { LS_TEAM_DIGITS = 8, LS_MESH_AXES = LS_TEAM_DIGITS };

/* An axis that is not listed has one rank. Zeroed: one rank. */
typedef struct ls_mesh {
    int n;
    struct {
        const ls_axis *axis;
        int size; /* >= 1 */
    } along[LS_MESH_AXES];
} ls_mesh;

/* A set of the axes of one mesh: bit i is the axis along[i]. */
typedef unsigned ls_axes;
#define LS_ALL_AXES (~0U)
static inline ls_axes ls_axis_bit(int i) { return 1U << i; }

/* Those of more than one rank: of a kind; that cut a factor; of the sequence, those that exchange heads; the others. */
ls_axes ls_mesh_axes(const ls_mesh *mesh, ls_axis_kind kind);
ls_axes ls_mesh_axes_of_factor(const ls_mesh *mesh, ls_factor factor);
ls_axes ls_mesh_head_axes(const ls_mesh *mesh);
ls_axes ls_mesh_block_axes(const ls_mesh *mesh);
/*
 * Those along which ranks have the same part of each parameter, so that gradients are summed over them and state may be
 * cut over them: all but those of kind stage and feature.
 */
ls_axes ls_mesh_shard_axes(const ls_mesh *mesh);

/* The size of the innermost of these axes; 1 for none. */
int ls_mesh_inner_size(const ls_mesh *mesh, ls_axes axes);

/* The ranks along some axes: the product of their sizes, 1 for none. Of all axes; of kind sequence; of kind batch. */
int ls_mesh_size(const ls_mesh *mesh, ls_axes axes);
int ls_mesh_ranks(const ls_mesh *mesh);
int ls_mesh_sequence_ranks(const ls_mesh *mesh);
int ls_mesh_replicas(const ls_mesh *mesh);

/* The index of a rank among those that differ from it along these axes only, outer axes first. The same by kind. */
int ls_mesh_index(const ls_mesh *mesh, ls_axes axes, int rank);
int ls_mesh_sequence_index(const ls_mesh *mesh, int rank);
int ls_mesh_replica(const ls_mesh *mesh, int rank);
/* How many stages there are; and that of a rank. */
int ls_mesh_stages(const ls_mesh *mesh);
int ls_mesh_stage(const ls_mesh *mesh, int rank);
/* The rank with that index along the sequence that is the first along all other axes. */
int ls_mesh_sequence_rank(const ls_mesh *mesh, int index);

bool ls_mesh_equal(const ls_mesh *a, const ls_mesh *b); /* the same axes are listed, with the same sizes */
bool ls_mesh_lists(const ls_mesh *mesh, const ls_axis *axis);
/* Whether each axis that `wanted` lists has the same size in `mesh`. */
bool ls_mesh_allows(const ls_mesh *wanted, const ls_mesh *mesh);

/*
 * A team: the ranks that differ from each other only in some digits of their numbers. Digit d of a rank is rank /
 * stride % size. A member's place is a number from 0 to size - 1, of which the first digit is the most significant.
 * Zeroed: the rank alone.
 *
 * A distance in a team is added to a place, and after the last place comes the first. By digit, each digit of the
 * distance is added to that of the place by itself, without a carry: it then leads every member to the same distance in
 * each digit.
 */
typedef struct ls_team {
    int digits;
    struct {
        int size, stride;
    } digit[LS_TEAM_DIGITS];
    bool by_digit;
} ls_team;

/* The ranks that differ only in their coordinates on these axes. */
ls_team ls_mesh_team(const ls_mesh *mesh, ls_axes axes);
int ls_team_size(const ls_team *team);
int ls_team_place(const ls_team *team, int rank);
/* The place at that distance from the rank's, and the member who stands there. shift may be negative: the way back. */
int ls_team_place_at(const ls_team *team, int rank, int shift);
int ls_team_member(const ls_team *team, int rank, int shift);
/* The distance, from 0 to size - 1, that leads back from one of 0 to size - 1. */
int ls_team_back(const ls_team *team, int shift);
bool ls_team_equal(const ls_team *a, const ls_team *b);
/* The same places, where digits whose members follow each other without gaps are one. */
ls_team ls_team_merged(const ls_team *team);
/*
 * The same places, by digit: the last digits count `inner` members that follow each other, those in front of them, also
 * a team, the sets of such members. false: no digit can be cut there.
 */
LS_MUST_USE bool ls_team_split(const ls_team *team, int inner, ls_team *split, ls_team *outer);

/* Looks at a mesh; an error ends the visits. */
typedef ls_status (*ls_mesh_visit)(void *context, const ls_mesh *mesh);
/*
 * The meshes of so many ranks that list all axes of the table, those of kind stage where `given` lists them, with the
 * sizes that it lists. Of the axes that it does not list, those of kind sequence, and with `features` those of kind
 * feature, get all sizes, an inner one its small sizes first, and the others have one rank; one of rings only where
 * `given` lists none of kind sequence, behind the others, and it is listed only where there are several rings of
 * several ranks. There may be no mesh. Returns the error of a visit.
 */
LS_MUST_USE ls_status ls_meshes_visit(const ls_mesh *given, bool features, int ranks, ls_mesh_visit visit,
                                      void *context);
/* Multiplies the ranks of the outermost listed axis of that kind; there must be one. */
void ls_mesh_widen(ls_mesh *mesh, ls_axis_kind kind, int times);

/*
 * Reads "pp=S,dp=A,outer=O,ring=R,ulysses=U,tp=T". Axes may be in any order; those that are given are listed in the
 * order of the table. An unknown or repeated axis and a size that is not an integer from 1 on are LS_USAGE errors that
 * name it, as is a mesh of more ranks than an int can count.
 */
LS_MUST_USE ls_status ls_mesh_parse(const char *text, ls_mesh *out);
/* Those of these axes that are listed, as ls_mesh_parse reads them. */
void ls_mesh_text(const ls_mesh *mesh, ls_axes axes, char *out, size_t bytes);
/* Prints "dp 2 · ring 4 · ulysses 2" without the axes of size 1; "1 rank" when all have size 1. */
void ls_mesh_print(const ls_mesh *mesh, char *out, size_t bytes);

#endif
