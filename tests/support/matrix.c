#include "matrix.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "meshes.h"
#include "network.h"

static const struct {
    ls_dtype dtype;
    double times_one_rank, floor;
} limits[] = {{LS_F64, 0, 1e-12}, {LS_F32, 2, 4e-6}, {LS_BF16, 2, 0x1p-9}};

enum { FEW_DRAWS = 2, MANY_DRAWS = 16 };

struct matrix {
    ls_dtype dtype;
    ls_isa isa;
    const char *device, *transport;
    double floor, times;
    matrix_account *account;
    bool has_reference; /* for cases of the problem of `problem` */
    matrix_case problem;
    network_result gradients, parameters; /* of one rank in f64; parameters: for f64 alone */
    double one[MATRIX_RESULTS];           /* network_own_errors; f64: zeros */
    double moved[MATRIX_RESULTS];         /* network_condition; f64: zeros */
    int draws;                            /* of these */
};

matrix *matrix_open(ls_dtype dtype, matrix_account *account) {
    ls_machine machine;
    ls_machine_detect(&machine);
    size_t limit = 0;
    while (limits[limit].dtype != dtype) limit++;
    matrix *m = calloc(1, sizeof *m);
    *m = (matrix){.dtype = dtype,
                  .isa = machine.isa,
                  .floor = limits[limit].floor,
                  .times = limits[limit].times_one_rank,
                  .account = account};
    return m;
}

void matrix_run_on(matrix *m, const char *device) { m->device = device; }
void matrix_run_over(matrix *m, const char *transport) { m->transport = transport; }

static void drop_reference(matrix *m) {
    network_free(&m->gradients);
    network_free(&m->parameters);
    m->has_reference = false;
}

void matrix_close(matrix *m) {
    drop_reference(m);
    free(m);
}

/* What one rank finds, unless the case before had the same problem. */
static ls_status find_reference(matrix *m, const network *n, const matrix_case *c) {
    const ls_target alone = {.mesh = mesh_of(1, 1, 1), .strategy = "local", .threads = 1};
    const int micro = matrix_micro(c);
    if (m->has_reference && matrix_same_problem(&m->problem, c)) return ls_ok();
    drop_reference(m);
    LS_TRY(network_gradient(n, &alone, LS_F64, m->dtype, micro, &m->gradients));
    LS_ASSERT(m->gradients.image->n_flats < MATRIX_RESULTS);
    if (m->dtype == LS_F64) {
        LS_TRY(network_train(n, &alone, micro, MATRIX_STEPS, &m->parameters));
    } else {
        LS_TRY(network_own_errors(n, m->dtype, micro, &m->gradients, m->one));
        m->draws = FEW_DRAWS;
        LS_TRY(network_condition(n, m->dtype, micro, &m->gradients, m->draws, m->moved));
    }
    m->problem = *c;
    m->has_reference = true;
    return ls_ok();
}

/*
 * Where large terms nearly cancel, the rounding error of a gradient in one case is random, on one rank too. So roots of
 * mean squares are compared: here over all gradients of a case, in matrix_report over all cases and layers. What one
 * case is held against is the larger of one rank's errors and of what its gradients move by when the parameters do by
 * half a rounding, since one rank's few orders of sums may all be lucky; over all cases it is one rank's errors alone.
 * A single gradient in a case may be off by twice as much. *share: of what is allowed.
 */
static ls_status compare_gradients(const matrix *m, const network_result *many, double *share) {
    const network_result *exact = &m->gradients;
    const int n = exact->image->n_flats;
    double squares = 0, squares_of_one = 0;
    for (int i = -1; i < n; i++) {
        const double error = network_error(many, exact, i), one = fmax(m->one[1 + i], m->moved[1 + i]);
        if (!(error <= 2 * m->times * one + m->floor))
            return ls_error(LS_DIVERGED, "%s is off by %g, one rank by %g",
                            i < 0 ? "loss" : exact->image->flats[i].name, error, one);
        squares += error * error;
        squares_of_one += one * one;
    }
    const double error = sqrt(squares / (n + 1)), one = sqrt(squares_of_one / (n + 1));
    *share = error / (m->times * one + m->floor);
    return *share <= 1 ? ls_ok()
                       : ls_error(LS_DIVERGED, "loss and gradients together are off by %g, one rank by %g", error, one);
}

static void add_kinds(const matrix *m, matrix_tally *tally, const network_result *many) {
    const network_result *exact = &m->gradients;
    for (int i = -1; i < exact->image->n_flats; i++) {
        const double share = network_error_of_kind(many, exact, i) / (m->times * m->one[1 + i] + m->floor);
        tally->squares[1 + i] += share * share;
    }
}

/* How far gradients move is itself random: what is off by more than a few draws of it show is held against many. */
static ls_status check_gradients(matrix *m, const network *n, const ls_target *target, int micro, matrix_tally *tally) {
    network_result many;
    double share = 0;
    LS_TRY(network_gradient(n, target, m->dtype, m->dtype, micro, &many));
    ls_status status = compare_gradients(m, &many, &share);
    if (status.code == LS_DIVERGED && m->dtype != LS_F64 && m->draws < MANY_DRAWS) {
        m->draws = MANY_DRAWS;
        status = network_condition(n, m->dtype, micro, &m->gradients, m->draws, m->moved);
        if (status.code == LS_OK) status = compare_gradients(m, &many, &share);
    }
    if (status.code == LS_OK) {
        add_kinds(m, tally, &many);
        tally->gradients = fmax(tally->gradients, share);
    }
    network_free(&many);
    return status;
}

static ls_status check_parameters(matrix *m, const network *n, const ls_target *target, int micro,
                                  matrix_tally *tally) {
    network_result many;
    const char *what = "";
    LS_TRY(network_train(n, target, micro, MATRIX_STEPS, &many));
    const double error = network_difference(&many, &m->parameters, &what);
    network_free(&many);
    tally->parameters = fmax(tally->parameters, error / m->floor);
    return error <= m->floor ? ls_ok()
                             : ls_error(LS_DIVERGED, "%s after %d steps is off by %g", what, MATRIX_STEPS, error);
}

static ls_status check(matrix *m, const matrix_case *c, matrix_tally *tally) {
    network n = matrix_network(c);
    ls_target target = matrix_target(c);
    const int micro = matrix_micro(c);
    target.isa = m->isa;
    if (m->device != NULL) {
        target.device = m->device;
        target.host_ranks = 0;
        target.transfers = LS_TRANSFERS_PUT;
    }
    LS_TRY(find_reference(m, &n, c));
    n.transport = m->transport;
    LS_TRY(check_gradients(m, &n, &target, micro, tally));
    if (m->dtype != LS_F64) return ls_ok();
    LS_TRY(check_parameters(m, &n, &target, micro, tally));
    return network_verify(&n, &target, micro);
}

void matrix_check(matrix *m, const matrix_case *c) {
    matrix_tally *tally = &m->account->of[c->at[MATRIX_NETWORK]];
    const ls_status status = check(m, c, tally);
    tally->cases++;
    if (status.code == LS_OK) return;
    char text[400];
    matrix_say(c, text, sizeof text);
    print_message("FAILED %s: %s: %s\n", ls_dtype_name(m->dtype), text, status.text);
    tally->failed++;
}

void matrix_account_add(matrix_account *to, const matrix_account *from) {
    for (int n = 0; n < MATRIX_NETWORKS; n++) {
        const matrix_tally *b = &from->of[n];
        matrix_tally *a = &to->of[n];
        a->cases += b->cases;
        a->failed += b->failed;
        a->gradients = fmax(a->gradients, b->gradients);
        a->parameters = fmax(a->parameters, b->parameters);
        for (int i = 0; i < MATRIX_RESULTS; i++) a->squares[i] += b->squares[i];
    }
}

int matrix_report(ls_dtype dtype, const matrix_account *account) {
    int cases = 0, failed = 0;
    for (int n = 0; n < MATRIX_NETWORKS; n++) {
        const matrix_tally *t = &account->of[n];
        double kinds = 0;
        for (int i = 0; i < MATRIX_RESULTS; i++) kinds = fmax(kinds, sqrt(t->squares[i] / fmax(t->cases, 1)));
        print_message("%-8s %-4s %4d cases: of what is allowed gradients of a case %.2g %%, of a kind %.2g %%, "
                      "parameters %.2g %%\n",
                      matrix_network_name(n), ls_dtype_name(dtype), t->cases, 100 * t->gradients, 100 * kinds,
                      100 * t->parameters);
        if (!(kinds <= 1))
            fail_msg("%s: a kind of gradient is off by %g times what is allowed", matrix_network_name(n), kinds);
        cases += t->cases;
        failed += t->failed;
    }
    print_message("%s: %d cases ran, %d failed\n", ls_dtype_name(dtype), cases, failed);
    assert_int_equal(failed, 0);
    return cases;
}

/* --- the covering set --------------------------------------------------------------------------------------------- */

typedef struct work {
    const matrix_part *of;
    const matrix_case *cases;
    int n;
} work;

static void add_account(void *sum, const void *account) { matrix_account_add(sum, account); }

static void run_list(test_part part, const void *input, void *account) {
    const work *w = input;
    matrix *m = matrix_open(w->of->dtype, account);
    matrix_run_on(m, w->of->device);
    matrix_run_over(m, w->of->transport);
    for (int i = part.index; i < w->n; i += part.parts) matrix_check(m, &w->cases[i]);
    matrix_close(m);
}

/* The cases of the part, in their order, of n. Returns how many. */
static int choose_cases(matrix_case *cases, int n, const matrix_part *of) {
    bool seen[MATRIX_NETWORKS] = {false};
    int chosen = 0, turn = 0;
    for (int i = of->first; i < n; i++) {
        const ls_target target = matrix_target(&cases[i]);
        if (of->strategy != NULL && strcmp(target.strategy, of->strategy) != 0) continue;
        const bool has_turn = turn++ % of->every == 0;
        if (ls_mesh_ranks(&target.mesh) > of->most_ranks) continue;
        bool *known = &seen[cases[i].at[MATRIX_NETWORK]];
        if (has_turn || !*known) cases[chosen++] = cases[i];
        *known = true;
    }
    return chosen;
}

int matrix_run_cover(const matrix_part *part) {
    matrix_account sum = {0};
    work w = {.of = part};
    matrix_case *cases = matrix_cover(part->set, &w.n);
    w.cases = cases;
    w.n = choose_cases(cases, w.n, part);
    run_workers((test_part){0, 1}, run_list, &w, sizeof sum, add_account, &sum);
    free(cases);
    return matrix_report(part->dtype, &sum);
}
