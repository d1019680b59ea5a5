/*
 * Whether `auto` chooses well. For each problem in a grid of attention with its gradient, every candidate on 2 ranks is
 * run in each round, and the chosen one is compared with the fastest. One JSON object per problem, and one at the end.
 *
 *   build/bench/choice [RANKS, 2] [ROUNDS, 10] [LONGEST, 8192]    ROUNDS 0: predictions alone, for any number of ranks
 *
 * ratio: the time of the chosen candidate over that of the fastest; the median of pairs of runs made in alternation
 * after the fastest was found; 1 if they are the same. Rates are this machine's if `longspan bench machine` has
 * measured them, else nominal.
 */
#include "base/base.h"
#include "session/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROUNDS = 100, MOST = 256, MOST_CANDIDATES = 256, PAIRS = 3 }; /* PAIRS: pairs for each round */

typedef struct problem {
    int64_t S, Hq, Hkv, D;
    ls_dtype dtype;
    const char *mask;
} problem;

static const struct { int64_t Hq, Hkv, D; } heads[] = {{8, 8, 64}, {8, 2, 64}, {8, 2, 128}, {6, 3, 64}, {1, 1, 128}};
static const char *const masks[] = {"causal", "full", "window"};

static int make_problems(int64_t longest, problem out[MOST]) {
    int n = 0;
    for (int64_t S = longest / 4; S <= longest; S *= 2) {
        for (size_t h = 0; h < LS_COUNT(heads); h++) {
            for (size_t m = 0; m < LS_COUNT(masks) && n < MOST; m++)
                out[n++] = (problem){S, heads[h].Hq, heads[h].Hkv, heads[h].D, n % 3 == 2 ? LS_F32 : LS_BF16, masks[m]};
        }
    }
    return n;
}

static ls_status mask_of(const problem *p, ls_mask *out) {
    char term[64];
    snprintf(term, sizeof term, "%s", p->mask);
    if (strcmp(p->mask, "window") == 0) snprintf(term, sizeof term, "window:%lld", (long long)p->S / 16);
    *out = (ls_mask){.n = 0};
    return ls_mask_add_term(out, term);
}

static ls_status build(const problem *p, ls_attention_graph *out) {
    ls_mask mask;
    LS_TRY(mask_of(p, &mask));
    return ls_attention_graph_build(&(ls_attention_options){.dtype = p->dtype,
                                                            .batch = 1,
                                                            .seq = p->S,
                                                            .heads = p->Hq,
                                                            .kv_heads = p->Hkv,
                                                            .head_size = p->D,
                                                            .mask = &mask,
                                                            .gradients = true},
                                    out);
}

/* The settings with which the grid is run. */
typedef struct trials {
    const ls_job *job;
    const ls_plan_request *request;
    const ls_spread *spread;
    int rounds;
} trials;

static ls_status try(const trials *t, const ls_plan *plan, int candidate, double *seconds) {
    return ls_plan_try(t->job, t->request, t->spread, plan, candidate, seconds);
}

/* Medians over rounds in which each candidate runs once; *fastest is the candidate with the least. */
static ls_status run_all(const trials *t, ls_plan *plan, int *fastest) {
    static double seconds[MOST_CANDIDATES][MOST_ROUNDS];
    if (plan->n_candidates > MOST_CANDIDATES)
        return ls_error(LS_UNSUPPORTED, "%d candidates; expected at most %d", plan->n_candidates, MOST_CANDIDATES);
    for (int round = 0; round < t->rounds; round++) {
        for (int i = 0; i < plan->n_candidates; i++) {
            if (plan->candidates[i].refused[0] == 0) LS_TRY(try(t, plan, i, &seconds[i][round]));
        }
    }
    *fastest = 0;
    for (int i = 0; i < plan->n_candidates; i++) {
        ls_plan_candidate *c = &plan->candidates[i];
        if (c->refused[0] != 0) continue;
        c->measured = ls_median(seconds[i], t->rounds);
        if (c->measured < plan->candidates[*fastest].measured) *fastest = i;
    }
    return ls_ok();
}

/*
 * The time of the chosen candidate over that of the other: the median of the ratios of pairs, in which the two take
 * turns at being first.
 */
static ls_status run_pairs(const trials *t, const ls_plan *plan, int other, double *ratio) {
    double ratios[PAIRS * MOST_ROUNDS];
    for (int round = 0; round < PAIRS * t->rounds; round++) {
        double seconds[2];
        for (int turn = 0; turn < 2; turn++) {
            const int which = (round + turn) % 2;
            LS_TRY(try(t, plan, which == 0 ? 0 : other, &seconds[which]));
        }
        ratios[round] = seconds[0] / seconds[1];
    }
    *ratio = ls_median(ratios, PAIRS * t->rounds);
    return ls_ok();
}

/*
 * The least of many medians is partly luck. So the candidate that was fastest in the first rounds is compared with the
 * chosen one again, in separate rounds.
 */
static ls_status compare(const trials *t, ls_plan *plan, double *ratio) {
    int fastest;
    LS_TRY(run_all(t, plan, &fastest));
    *ratio = 1;
    return fastest == 0 ? ls_ok() : run_pairs(t, plan, fastest, ratio);
}

static void print(const problem *p, const ls_plan *plan, double ratio) {
    printf("{\"bench\": \"choice\", \"S\": %lld, \"Hq\": %lld, \"Hkv\": %lld, \"D\": %lld, \"dtype\": \"%s\", "
           "\"mask\": \"%s\", \"ratio\": %.4f, \"candidates\": [",
           (long long)p->S, (long long)p->Hq, (long long)p->Hkv, (long long)p->D, ls_dtype_name(p->dtype), p->mask,
           ratio);
    for (int i = 0; i < plan->n_candidates; i++) {
        const ls_plan_candidate *c = &plan->candidates[i];
        char strategy[LS_STRATEGY_TEXT];
        ls_strategies_print(&c->strategies, strategy);
        printf("%s{\"strategy\": \"%s\", \"ring\": %d, \"ulysses\": %d, \"layout\": \"%s\", ", i > 0 ? ", " : "",
               strategy, ls_mesh_size(&c->mesh, ls_mesh_block_axes(&c->mesh)),
               ls_mesh_size(&c->mesh, ls_mesh_head_axes(&c->mesh)), ls_layout_name(c->layout));
        if (c->refused[0] != 0)
            printf("\"refused\": true}");
        else
            printf("\"predicted\": %.6f, \"at_least\": %s, \"measured\": %.6f}", c->seconds,
                   c->simulated ? "false" : "true", c->measured);
    }
    printf("]}\n");
    fflush(stdout);
}

static ls_status examine(const problem *p, const ls_spread *spread, int rounds, double *ratio) {
    ls_plan_request request;
    LS_TRY(ls_spread_resolve(spread, &request));
    ls_attention_graph attention = {.graph = NULL};
    ls_plan plan = {.n_candidates = 0};
    ls_status status = build(p, &attention);
    const ls_job job = ls_attention_graph_job(&attention, false);
    if (status.code == LS_OK) status = ls_plan_make(&job, &request, &plan);
    *ratio = 1;
    const trials t = {&job, &request, spread, rounds};
    if (status.code == LS_OK && rounds > 0) status = compare(&t, &plan, ratio);
    if (status.code == LS_OK) print(p, &plan, *ratio);
    ls_plan_free(&plan);
    ls_graph_destroy(attention.graph);
    return status;
}

int main(int argc, char **argv) {
    const ls_spread spread = {.ranks = argc > 1 ? atoi(argv[1]) : 2, .threads = 1};
    const int rounds = argc > 2 ? (int)ls_min(atoi(argv[2]), MOST_ROUNDS) : 10;
    problem problems[MOST];
    const int n = make_problems(argc > 3 ? atoll(argv[3]) : 8192, problems);
    int near = 0;
    double worst = 1;
    for (int i = 0; i < n; i++) {
        double ratio;
        const ls_status status = examine(&problems[i], &spread, rounds, &ratio);
        if (status.code != LS_OK) {
            fprintf(stderr, "choice: %s\n", status.text);
            return 1;
        }
        near += ratio <= 1.05;
        worst = fmax(worst, ratio);
    }
    printf("{\"bench\": \"choice\", \"problems\": %d, \"within_5_percent\": %d, \"worst_ratio\": %.4f}\n", n, near,
           worst);
    return 0;
}
