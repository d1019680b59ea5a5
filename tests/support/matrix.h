/*
 * The matrix of networks × places: the example graphs (examples/graphs) and the models of every architecture, on every
 * mesh of up to 16 ranks, with what is cut over the ranks (--shard), micro-batches, masks, numbers of heads, lengths,
 * layouts, savings of memory, transfers and optimisers. Loss, every gradient, and every parameter after two steps are
 * those of one rank in f64; both verifiers accept the programs. test_matrix.c runs a part of a covering set of pairs,
 * long_matrix.c all of it, and in parts the product.
 *
 * A second covering set is of meshes with stages of a pipeline, within which there are few of these places: how many
 * stages, the schedule, up to eight micro-batches and slices of sequences are its axes, too (long_matrix_stages.c).
 *
 * The error of a gradient is |g - g*| / max(|g*|, 1e-3 of the norm of its kind over the layers): see network_error.
 * Bounds: f64 1e-12, for parameters too; f32 and bf16 twice the error of one rank under any instruction set
 * (network_own_errors) plus a floor (f32: 4e-6; bf16: half a rounding, 2^-9), for each kind of gradient over all cases
 * and layers (roots of mean squares). For all gradients of one case, and twice as much for a single one of it: twice
 * the larger of that and of what they move by when the parameters do by half a rounding (network_condition): in two
 * draws, or, where a case is off by more, in sixteen.
 */
#ifndef TESTS_MATRIX_H
#define TESTS_MATRIX_H

#include "compile/compile.h"
#include "covering.h"
#include "workers.h"

/* place: a strategy on a mesh, or on that of each stage. Those before MATRIX_TURNS make the product, in which the
 * others take turns. */
enum {
    MATRIX_NETWORK,
    MATRIX_PLACE,
    MATRIX_SHARD,
    MATRIX_MICRO,
    MATRIX_MASK,
    MATRIX_HEADS,
    MATRIX_LENGTH,
    MATRIX_TURNS,
    MATRIX_LAYOUT = MATRIX_TURNS,
    MATRIX_SAVING,
    MATRIX_TRANSFERS,
    MATRIX_OPTIMIZER,
    MATRIX_PLAIN_AXES, /* of meshes without stages */
    MATRIX_STAGES = MATRIX_PLAIN_AXES,
    MATRIX_SLICES,
    MATRIX_AXES
};

/* One case: an index into the values of each axis. */
typedef struct matrix_case {
    int at[MATRIX_AXES];
} matrix_case;

/* --- the axes (matrix_axes.c) ------------------------------------------------------------------------------------- */

/* The covering sets: of meshes without stages, and of those with some. */
typedef enum matrix_set { MATRIX_PLAIN, MATRIX_STAGED, MATRIX_SETS } matrix_set;

/* Their sizes, and which pairs of values there are. The first call must be made before there are threads. */
const covering_axes *matrix_axes(matrix_set set);
/*
 * The cases in which all pairs occur, those of one problem behind each other, and how many. The caller frees them.
 */
matrix_case *matrix_cover(matrix_set set, int *n);
/* Every n-th case of the product, which is of meshes without stages. The first call with 0 in *at, which goes on;
 * false: there is none left. */
bool matrix_next(test_part part, int64_t *at, matrix_case *c);

struct network;
struct network matrix_network(const matrix_case *c); /* what it refers to is constant */
ls_target matrix_target(const matrix_case *c);
int matrix_micro(const matrix_case *c);                               /* micro-batches of a step */
bool matrix_same_problem(const matrix_case *a, const matrix_case *b); /* the results of one rank are the same */
void matrix_say(const matrix_case *c, char *out, size_t room);
const char *matrix_network_name(int n);

/* --- running (matrix.c) ------------------------------------------------------------------------------------------- */

enum { MATRIX_NETWORKS = 20, MATRIX_RESULTS = 64, MATRIX_STEPS = 2 };

/* Of the cases of one network. Errors as shares of what is allowed; of each result the sum of their squares. */
typedef struct matrix_tally {
    int cases, failed;
    double gradients, parameters;
    double squares[MATRIX_RESULTS]; /* the loss, then gradients as declared */
} matrix_tally;

/* Plain numbers, which can be added up and lie in memory that processes share. */
typedef struct matrix_account {
    matrix_tally of[MATRIX_NETWORKS];
} matrix_account;

typedef struct matrix matrix;
/* Cases that run are added to the account. */
matrix *matrix_open(ls_dtype dtype, matrix_account *account);
/*
 * Ranks run on that device from now on, and put what they would read in place; references stay on the processor.
 * Transport: of all ranks.
 */
void matrix_run_on(matrix *m, const char *device);
void matrix_run_over(matrix *m, const char *transport);
/*
 * Runs a case. f64: gradients, parameters after two steps, and both verifiers; else gradients. A failure is printed and
 * counted. The reference is computed once for cases of one problem behind each other.
 */
void matrix_check(matrix *m, const matrix_case *c);
void matrix_close(matrix *m);

/*
 * Every n-th case of a covering set from `first` on, and the first one of each network, of at most so many ranks. With
 * a strategy, only of the cases that have it.
 */
typedef struct matrix_part {
    matrix_set set;
    ls_dtype dtype;
    int first, every, most_ranks;
    const char *strategy;           /* NULL: all */
    const char *device, *transport; /* as of matrix_run_on and matrix_run_over, or NULL */
} matrix_part;
/* Runs it on processes, one per core. Reported, as matrix_report does. */
int matrix_run_cover(const matrix_part *part);
void matrix_account_add(matrix_account *to, const matrix_account *from);
/* Prints a line per network. Fails the test where a case failed or a kind of gradient is off. Returns the cases. */
int matrix_report(ls_dtype dtype, const matrix_account *account);

#endif
