/*
 * The mesh of ranks: a list of named axes, outermost first. A rank's coordinates along them are the digits of its
 * number. Only this file and mesh.c know how many axes there are, their order and their names; other files ask for the
 * set of axes of a kind, for the team of such a set, and for a rank's index in it.
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
    LS_AXIS_FEATURE, /* heads, hidden features and words of the vocabulary, where no op needs all of them
                        (compile/shard) */
    LS_AXIS_KINDS
} ls_axis_kind;

/* A row of the table in mesh.c, or one that a caller makes. */
typedef struct ls_axis {
    const char *name;
    ls_axis_kind kind;
    /*
     * For kind sequence: the ranks along this axis, which are a block, exchange tokens for heads around attention, so
     * that each of them has some heads of all tokens of the block. Along the other axes of kind sequence, attention
     * goes block by block.
     */
    bool exchanges_heads;
    /*
     * For kind sequence: each step along this axis leads to another ring, which consists of the block axes inside it.
     * Only a strategy with two rings distinguishes it from those axes. A mesh has it if the user asks for it, or if
     * such a strategy may be the best.
     */
    bool of_rings;
    const char *divides; /* what its ranks divide among them, for messages */
} ls_axis;

/* The table, outermost first; NULL past its end. */
const ls_axis *ls_axis_at(int index);
/*
 * The factor that an axis of this kind cuts. None for kind feature, which cuts several factors, and for kind stage,
 * which cuts none.
 */
ls_factor ls_axis_factor(const ls_axis *axis);

/*
 * The most digits of a team, hence the most axes of a mesh. Each digit of a team takes at least one stage of a
 * collective.
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

/*
 * Sets of axes with more than one rank: those of a kind; those that cut a factor; those of kind sequence that exchange
 * heads; those of kind sequence that do not.
 */
ls_axes ls_mesh_axes(const ls_mesh *mesh, ls_axis_kind kind);
ls_axes ls_mesh_axes_of_factor(const ls_mesh *mesh, ls_factor factor);
ls_axes ls_mesh_head_axes(const ls_mesh *mesh);
ls_axes ls_mesh_block_axes(const ls_mesh *mesh);
/*
 * The axes along which all ranks have the same part of each parameter, so that gradients are summed over them and the
 * state of the optimiser may be cut over them: all axes but those of kind stage and feature.
 */
ls_axes ls_mesh_shard_axes(const ls_mesh *mesh);

/* The size of the innermost of these axes; 1 for none. */
int ls_mesh_inner_size(const ls_mesh *mesh, ls_axes axes);

/*
 * The number of ranks along some axes: the product of their sizes, 1 for none. The same for all axes; for those of kind
 * sequence; for those of kind batch.
 */
int ls_mesh_size(const ls_mesh *mesh, ls_axes axes);
int ls_mesh_ranks(const ls_mesh *mesh);
int ls_mesh_sequence_ranks(const ls_mesh *mesh);
int ls_mesh_replicas(const ls_mesh *mesh);

/*
 * The index of a rank among the ranks that differ from it along these axes only, outer axes first. The same for the
 * axes of kind sequence; for those of kind batch.
 */
int ls_mesh_index(const ls_mesh *mesh, ls_axes axes, int rank);
int ls_mesh_sequence_index(const ls_mesh *mesh, int rank);
int ls_mesh_replica(const ls_mesh *mesh, int rank);
/* The number of stages; the stage of a rank. */
int ls_mesh_stages(const ls_mesh *mesh);
int ls_mesh_stage(const ls_mesh *mesh, int rank);
/* The rank with that index along the axes of kind sequence and index 0 along all others. */
int ls_mesh_sequence_rank(const ls_mesh *mesh, int index);

bool ls_mesh_equal(const ls_mesh *a, const ls_mesh *b); /* the same axes are listed, with the same sizes */
bool ls_mesh_lists(const ls_mesh *mesh, const ls_axis *axis);
/* Whether each axis that `wanted` lists has the same size in `mesh`. */
bool ls_mesh_allows(const ls_mesh *wanted, const ls_mesh *mesh);

/*
 * A team: the ranks that differ from each other only in some digits of their numbers. Digit d of a rank is rank /
 * stride % size. A member's place is a number from 0 to size - 1, whose most significant digit is the first one.
 * Zeroed: the rank alone.
 *
 * A distance in a team is added to a place, and the first place follows the last. In a team by_digit, each digit of the
 * distance is added to the same digit of the place without a carry: the distance then leads every member equally far
 * along each digit.
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
/* The place at distance `shift` from the rank's place, and the rank at that place. A negative shift goes backwards. */
int ls_team_place_at(const ls_team *team, int rank, int shift);
int ls_team_member(const ls_team *team, int rank, int shift);
/* The distance that leads back after a distance of `shift`. Both are from 0 to size - 1. */
int ls_team_back(const ls_team *team, int shift);
bool ls_team_equal(const ls_team *a, const ls_team *b);
/*
 * A team with the same places, in which neighbouring digits whose strides have no gap between them are merged into one.
 */
ls_team ls_team_merged(const ls_team *team);
/*
 * *split: a team with the same places, by_digit, whose last digits count `inner` consecutive places. *outer: the team
 * of the digits before those, which count the groups of `inner` places. A digit is cut in two where this needs it;
 * false: it cannot be cut there.
 */
LS_MUST_USE bool ls_team_split(const ls_team *team, int inner, ls_team *split, ls_team *outer);

/* Called with each mesh; an error ends the visits. */
typedef ls_status (*ls_mesh_visit)(void *context, const ls_mesh *mesh);
/*
 * Visits the meshes of `ranks` ranks that agree with `given`. There may be none. Returns the error of a visit. A mesh
 * lists all axes of the table, those of kind stage only if `given` lists them. An axis that `given` lists has that
 * size. Of the other axes, those of kind sequence, and with `features` those of kind feature, get all sizes, inner axes
 * their small sizes first; the rest have one rank. The axis of rings gets several ranks only if `given` lists no axis
 * of kind sequence, and such meshes come after those with one ring; unless `given` lists it, the axis is listed only
 * where there are several rings of several ranks.
 */
LS_MUST_USE ls_status ls_meshes_visit(const ls_mesh *given, bool features, int ranks, ls_mesh_visit visit,
                                      void *context);
/* Multiplies the size of the outermost listed axis of that kind by `times`; there must be one. */
void ls_mesh_widen(ls_mesh *mesh, ls_axis_kind kind, int times);

/*
 * Reads "pp=S,dp=A,outer=O,ring=R,ulysses=U,tp=T". Axes may be in any order; those that are given are listed in the
 * order of the table. An unknown or repeated axis and a size that is not an integer from 1 on are LS_USAGE errors that
 * name it, as is a mesh of more ranks than an int can count.
 */
LS_MUST_USE ls_status ls_mesh_parse(const char *text, ls_mesh *out);
/* Prints those of these axes that the mesh lists, in the form that ls_mesh_parse reads. */
void ls_mesh_text(const ls_mesh *mesh, ls_axes axes, char *out, size_t bytes);
/* Prints "dp 2 · ring 4 · ulysses 2" without the axes of size 1; "1 rank" when all have size 1. */
void ls_mesh_print(const ls_mesh *mesh, char *out, size_t bytes);

#endif
