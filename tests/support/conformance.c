#include "conformance.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "attention_spread.h"
#include "meshes.h"

/*
 * Bounds of errors by type and size of logits: a multiple of the error of one rank, a floor, and a number of roundings
 * of the problem's largest lse. A large lse in f32 is off by half a unit of its last place (1,500: 2^-14), and so is
 * the weight with which a part is merged. Where one rank rounds nothing, because one key has all the weight, several
 * ranks may round. Over all cases together twice the error of one rank suffices without that term (conformance_report).
 */
static const struct {
    ls_dtype dtype;
    struct {
        double times_one_rank, floor, lse_roundings;
    } limit[CONFORM_LOGIT_SIZES];
} limits[CONFORM_DTYPES] = {
    {LS_F64, {{0, 1e-12, 0}, {2, 1e-12, 0}}},
    {LS_F32, {{0, 1e-5, 0}, {2, 1e-5, 1}}},
    {LS_BF16, {{2, 0x1p-9, 0}, {2, 0x1p-9, 0}}},
};

/* The bound for one rank against the formula in f64: a logit of 1e3 is 1e-13 off by its own rounding. */
static const double formula[CONFORM_LOGIT_SIZES] = {1e-12, 1e-11};

/* The results of one rank in one type with the kernels of one instruction set. */
typedef struct baseline {
    bool made;
    attention_result result;
    double error[PLAIN_OUTPUTS];
} baseline;

struct conformance {
    const conformance_axes *axes;
    conformance_account *account;
    const char *device;
    int key[5]; /* of the problem that is here */
    bool has_problem;
    plain_attention problem;
    baseline one[CONFORM_DTYPES][LS_ISA_COUNT];
};

conformance *conformance_open(const conformance_axes *axes, conformance_account *account) {
    conformance *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->axes = axes;
    c->account = account;
    return c;
}

void conformance_run_on(conformance *c, const char *device) { c->device = device; }

/* --- the reference ------------------------------------------------------------------------------------------------ */

/* |x - x*| / max(|x*|, 1e-3 sqrt(n)), without infinities, which must stand in the same places. */
static double error_of(const double *x, const double *exact, int64_t n) {
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isinf(exact[i])) {
            if (x[i] != exact[i]) return INFINITY;
            continue;
        }
        difference += (x[i] - exact[i]) * (x[i] - exact[i]);
        norm += exact[i] * exact[i];
    }
    return sqrt(difference) / fmax(sqrt(norm), 1e-3 * sqrt((double)n));
}

static void forget_problem(conformance *c) {
    if (!c->has_problem) return;
    for (int t = 0; t < CONFORM_DTYPES; t++) {
        for (int isa = 0; isa < LS_ISA_COUNT; isa++) attention_result_free(&c->one[t][isa].result);
    }
    memset(c->one, 0, sizeof c->one);
    plain_attention_free(&c->problem);
    c->has_problem = false;
}

static void take_problem(conformance *c, const conformance_case *it) {
    const int *at = it->at;
    const int key[] = {at[CONFORM_MASK], at[CONFORM_HEADS], at[CONFORM_SHAPE], at[CONFORM_LOGITS], at[CONFORM_EXTRAS]};
    if (c->has_problem && memcmp(key, c->key, sizeof key) == 0) return;
    forget_problem(c);
    memcpy(c->key, key, sizeof key);
    const plain_sizes n = conformance_sizes(at[CONFORM_SHAPE], at[CONFORM_HEADS]);
    const ls_mask mask = conformance_mask(at[CONFORM_MASK], at[CONFORM_SHAPE]);
    c->problem = plain_attention_make(n, &mask, conformance_extras(at[CONFORM_EXTRAS]),
                                      conformance_spread(at[CONFORM_LOGITS]), (uint64_t)n.S);
    c->has_problem = true;
}

/* One rank in the case's type, and for f64 against the formula. */
static const baseline *take_baseline(conformance *c, const conformance_case *it) {
    const int t = it->at[CONFORM_DTYPE];
    const ls_isa isa = c->axes->isa[it->at[CONFORM_ISA]];
    baseline *one = &c->one[t][isa];
    if (one->made) return one;
    const ls_target target = {
        .mesh = mesh_of(1, 1, 1), .strategy = "local", .device = c->device, .threads = 1, .isa = isa};
    ls_status refused;
    const ls_status status = attention_spread(&c->problem, &target, limits[t].dtype, &one->result, &refused);
    if (status.code != LS_OK || refused.code != LS_OK) fail_msg("one rank: %s%s", status.text, refused.text);
    for (int i = 0; i < PLAIN_OUTPUTS; i++) {
        one->error[i] = error_of(one->result.out[i], c->problem.out[i], plain_output_count(&c->problem.n, i));
        if (limits[t].dtype == LS_F64 && !(one->error[i] <= formula[it->at[CONFORM_LOGITS]]))
            fail_msg("mask %s: %s of one rank is off the formula by %g", conformance_mask_name(c->key[0]),
                     conformance_result_name[i], one->error[i]);
    }
    one->made = true;
    return one;
}

/* --- a case ------------------------------------------------------------------------------------------------------- */

static void check_blind_rows(const conformance *c, const char *name, const attention_result *r) {
    const plain_sizes *n = &c->problem.n;
    for (int64_t i = 0; i < n->B * n->Hq * n->S; i++) {
        if (!isinf(c->problem.out[PLAIN_LSE][i])) continue;
        const int64_t b = i / (n->Hq * n->S), h = i / n->S % n->Hq, s = i % n->S;
        const int64_t row = (b * n->S + s) * n->Hq + h, E = plain_value_size(n);
        for (int64_t d = 0; d < E; d++)
            if (r->out[PLAIN_O][row * E + d] != 0)
                fail_msg("%s: query %lld sees nothing and has o %g", name, (long long)s, r->out[PLAIN_O][row * E + d]);
        for (int64_t d = 0; d < n->D; d++)
            if (r->out[PLAIN_DQ][row * n->D + d] != 0)
                fail_msg("%s: query %lld sees nothing and has dq %g", name, (long long)s,
                         r->out[PLAIN_DQ][row * n->D + d]);
    }
}

static bool reads_in_place(const attention_result *r) { return strcmp(r->transfers, "put") != 0; }

static void check_traffic(const char *name, const attention_result *r, const char *wanted) {
    const attention_traffic *t = &r->traffic;
    if (strcmp(r->transfers, wanted) != 0)
        fail_msg("%s: the program moves blocks by %s; expected %s", name, r->transfers, wanted);
    const double sent = t->sent_forward + t->sent_backward, read = t->read_forward + t->read_backward;
    if ((!reads_in_place(r) && read != 0) || (strcmp(r->transfers, "in-place") == 0 && sent != 0))
        fail_msg("%s: %g bytes sent, %g read in place", name, sent, read);
}

/* Half a unit in the last place, in f32, of the largest lse. */
static double lse_rounding(const plain_attention *p) {
    double largest = 0;
    for (int64_t i = 0; i < plain_output_count(&p->n, PLAIN_LSE); i++)
        if (isfinite(p->out[PLAIN_LSE][i])) largest = fmax(largest, fabs(p->out[PLAIN_LSE][i]));
    int exponent = 0;
    (void)frexp(largest, &exponent);
    return ldexp(1, exponent - FLT_MANT_DIG - 1);
}

static void check_errors(conformance *c, const conformance_case *it, const char *name, const attention_result *r) {
    const int t = it->at[CONFORM_DTYPE], logits = it->at[CONFORM_LOGITS];
    const baseline *one = take_baseline(c, it);
    const conformance_place *place = &c->axes->place[it->at[CONFORM_PLACE]];
    int ranks = 0;
    while (conformance_rank_counts[ranks] != conformance_ranks(place)) ranks++;
    conformance_tally *sum = &c->account->by_ranks[t][logits][ranks];
    sum->cases++;
    for (int i = 0; i < PLAIN_OUTPUTS; i++) {
        const double *exact = limits[t].dtype == LS_F64 ? one->result.out[i] : c->problem.out[i];
        const double error = error_of(r->out[i], exact, plain_output_count(&c->problem.n, i));
        const double limit = limits[t].limit[logits].times_one_rank * one->error[i] + limits[t].limit[logits].floor +
                             limits[t].limit[logits].lse_roundings * lse_rounding(&c->problem);
        if (!(error <= limit))
            fail_msg("%s: %s is off by %g, at most %g expected; one rank is off by %g", name,
                     conformance_result_name[i], error, limit, one->error[i]);
        sum->many[i] += error * error;
        sum->one[i] += one->error[i] * one->error[i];
    }
}

void conformance_check(conformance *c, const conformance_case *it) {
    const conformance_place *place = &c->axes->place[it->at[CONFORM_PLACE]];
    char name[200];
    conformance_say(c->axes, it, name, sizeof name);
    take_problem(c, it);
    ls_target target = {.mesh = place->mesh,
                        .strategy = place->strategy,
                        .device = c->device,
                        .layout = (ls_layout_kind)it->at[CONFORM_LAYOUT],
                        .isa = c->axes->isa[it->at[CONFORM_ISA]],
                        .threads = 1};
    const char *transfers = conformance_transfers(it->at[CONFORM_TRANSFERS], place, &target);
    attention_result result;
    ls_status refused;
    const ls_status status =
        attention_spread(&c->problem, &target, limits[it->at[CONFORM_DTYPE]].dtype, &result, &refused);
    if (status.code != LS_OK) fail_msg("%s: %s", name, status.text);
    if (refused.code != LS_OK) {
        if (refused.text[0] == 0) fail_msg("%s: refused without a reason", name);
        c->account->refused[place->index]++;
        return;
    }
    if (!result.same_bits) fail_msg("%s: a second run has other bits", name);
    check_traffic(name, &result, transfers);
    check_blind_rows(c, name, &result);
    check_errors(c, it, name, &result);
    c->account->ran[place->index]++;
    c->account->in_place[place->index] += reads_in_place(&result);
    c->account->by_isa[c->axes->isa[it->at[CONFORM_ISA]]][it->at[CONFORM_DTYPE]]++;
    attention_result_free(&result);
}

void conformance_close(conformance *c) {
    forget_problem(c);
    free(c);
}
