/*
 * Conformance of attention strategies: every strategy × mesh × mask × layout × heads × type × transfers × shape × isa,
 * forward and backward, against the formula in f64 and against one rank of the same isa. test_conformance.c runs a
 * covering set of pairs, long_conformance.c all.
 *
 * The error of a result is |x - x*| / max(|x*|, 1e-3 sqrt(elements)), with x* from the formula in f64 on the same
 * inputs. Bounds: distributed f64 1e-12 from one rank in f64; f32 1e-5; bf16 twice the error of one rank plus half a
 * rounding (2^-9). With logits of ±1e3: f32 twice the error of one rank plus a rounding of lse (2^-15;
 * docs/decisions/large-logits.md), f64 twice the error of one rank plus 1e-12.
 */
#ifndef TESTS_CONFORMANCE_H
#define TESTS_CONFORMANCE_H

#include <stdbool.h>

#include "compile/compile.h"
#include "plain_attention.h"

/*
 * place: a strategy on a mesh; logits: ordinary or extreme; extras: sinks and soft caps; isa: one that this machine
 * has.
 */
enum {
    CONFORM_PLACE,
    CONFORM_MASK,
    CONFORM_LAYOUT,
    CONFORM_HEADS,
    CONFORM_DTYPE,
    CONFORM_TRANSFERS,
    CONFORM_SHAPE,
    CONFORM_LOGITS,
    CONFORM_EXTRAS,
    CONFORM_ISA,
    CONFORM_AXES
};

/* One case: an index into the values of each axis. */
typedef struct conformance_case {
    int at[CONFORM_AXES];
} conformance_case;

/* --- the axes (conformance_axes.c) -------------------------------------------------------------------------------- */

typedef struct conformance_place {
    const char *strategy;
    int index; /* of the strategy, in the product's table */
    ls_mesh mesh;
} conformance_place;

enum { CONFORM_PLACES = 512, CONFORM_STRATEGIES = 32, CONFORM_RANKS = 7 };

typedef struct conformance_axes {
    int size[CONFORM_AXES];
    conformance_place place[CONFORM_PLACES];
    ls_isa isa[LS_ISA_COUNT]; /* those that this machine has */
    int strategies;
    int meshes_refused[CONFORM_STRATEGIES]; /* by strategy, of those that have a mesh of their own */
} conformance_axes;

/* Tries every strategy on every mesh of 1, 2, 3, 4, 5, 8 and 16 ranks. A refusal without a reason fails the test. */
void conformance_axes_make(conformance_axes *axes);
void conformance_axes_of(conformance_axes *axes, int ranks); /* the same on meshes of so many ranks alone */
/* Whether any case has value i of axis a and j of axis b (a < b); for covering.h. context: conformance_axes. */
bool conformance_allowed(const void *context, int a, int i, int b, int j);
bool conformance_has(const conformance_axes *axes, const conformance_case *c); /* all pairs are allowed */
int conformance_ranks(const conformance_place *place);
extern const int conformance_rank_counts[CONFORM_RANKS];

/* The values of a case's axes. */
ls_mask conformance_mask(int index, int shape); /* its ends are static */
const char *conformance_mask_name(int mask);
plain_sizes conformance_sizes(int shape, int head);
ls_dtype conformance_dtype(int dtype);
/*
 * Sets how blocks come, and who can read whose heap, of a target on the place's mesh; returns what the images are then
 * to do, as ls_transfers_of says.
 */
const char *conformance_transfers(int t, const conformance_place *place, ls_target *target);
double conformance_spread(int logits); /* standard deviation of q and k */
plain_extras conformance_extras(int e);
bool conformance_has_kernels(ls_isa isa, int dtype); /* of its own: some that need all of its features */
void conformance_say(const conformance_axes *axes, const conformance_case *c, char *out, size_t room);

/* --- running (conformance.c) -------------------------------------------------------------------------------------- */

typedef struct conformance conformance;
typedef struct conformance_account conformance_account;

/* Cases that run are added to the account. */
conformance *conformance_open(const conformance_axes *axes, conformance_account *account);
/* Ranks run on that device from now on, the one rank of the reference too. */
void conformance_run_on(conformance *c, const char *device);
/*
 * Runs a case and checks all its results; a wrong one fails the test with names and figures. Cases with equal mask,
 * heads, shape, logits and extras should follow each other, because their reference is computed once.
 */
void conformance_check(conformance *c, const conformance_case *it);
void conformance_close(conformance *c);

/* --- the account (conformance_account.c) -------------------------------------------------------------------------- */

enum { CONFORM_DTYPES = 3, CONFORM_LOGIT_SIZES = 2 };

/* Sums of squared errors over cases, and of the errors of one rank in the same cases. */
typedef struct conformance_tally {
    int cases;
    double many[PLAIN_OUTPUTS], one[PLAIN_OUTPUTS];
} conformance_tally;

/* Plain numbers, which can be added up and lie in memory that processes share. */
struct conformance_account {
    int ran[CONFORM_STRATEGIES], in_place[CONFORM_STRATEGIES], refused[CONFORM_STRATEGIES];
    int by_isa[LS_ISA_COUNT][CONFORM_DTYPES];
    conformance_tally by_ranks[CONFORM_DTYPES][CONFORM_LOGIT_SIZES][CONFORM_RANKS];
};

void conformance_account_add(conformance_account *to, const conformance_account *from);
/*
 * Prints cases by strategy and isa, and errors by ranks; names isas that this machine lacks. Fails the test where a
 * strategy or an isa of the machine has not run, or errors grow with the ranks. Returns how many cases ran.
 */
int conformance_report(const conformance_axes *axes, const conformance_account *account);

extern const char *const conformance_result_name[PLAIN_OUTPUTS];

#endif
