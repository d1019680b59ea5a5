/* How many cases ran, and how errors depend on the number of ranks. */
#include "conformance.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

const char *const conformance_result_name[PLAIN_OUTPUTS] = {"o", "lse", "dq", "dk", "dv"};

/*
 * Bounds over many cases together, as multiples of the error of one rank. bf16 and f32 do not grow with the ranks,
 * since outputs and gradients are summed in f32. Merging rounds lse once for each block, which is little beside bf16
 * and much with logits of 1e3 in f32. f64 is at the rounding of its sums. 0: no bound.
 */
static const struct {
    double results, lse;
} most_share[CONFORM_DTYPES][CONFORM_LOGIT_SIZES] = {{{0, 0}, {0, 0}}, {{1.25, 1.5}, {2, 2}}, {{1.1, 1.5}, {1.1, 1.5}}};

enum { ENOUGH = 25 }; /* cases, for a mean to say something */

void conformance_account_add(conformance_account *to, const conformance_account *from) {
    for (int s = 0; s < CONFORM_STRATEGIES; s++) {
        to->ran[s] += from->ran[s];
        to->in_place[s] += from->in_place[s];
        to->refused[s] += from->refused[s];
    }
    for (int isa = 0; isa < LS_ISA_COUNT; isa++) {
        for (int t = 0; t < CONFORM_DTYPES; t++) to->by_isa[isa][t] += from->by_isa[isa][t];
    }
    const conformance_tally *b = &from->by_ranks[0][0][0];
    conformance_tally *a = &to->by_ranks[0][0][0];
    for (size_t k = 0; k < sizeof from->by_ranks / sizeof *b; k++) {
        a[k].cases += b[k].cases;
        for (int i = 0; i < PLAIN_OUTPUTS; i++) {
            a[k].many[i] += b[k].many[i];
            a[k].one[i] += b[k].one[i];
        }
    }
}

static double share(const conformance_tally *sum, int i) {
    return sum->one[i] > 0 ? sqrt(sum->many[i] / sum->one[i]) : 1;
}

static void print_errors(const conformance_account *account, int t, int logits) {
    print_message("%s%s, errors by ranks (root of mean squares · times one rank's):\n",
                  ls_dtype_name(conformance_dtype(t)), logits > 0 ? ", logits of 1e3" : "");
    for (int p = 0; p < CONFORM_RANKS; p++) {
        const conformance_tally *sum = &account->by_ranks[t][logits][p];
        if (sum->cases == 0) continue;
        char line[256];
        size_t used = 0;
        for (int i = 0; i < PLAIN_OUTPUTS; i++)
            used += (size_t)snprintf(line + used, sizeof line - used, "  %s %.1e · %.2f", conformance_result_name[i],
                                     sqrt(sum->many[i] / sum->cases), share(sum, i));
        print_message("  %2d ranks %6d cases%s\n", conformance_rank_counts[p], sum->cases, line);
    }
}

static void check_flat(const conformance_account *account, int t, int logits) {
    for (int p = 0; p < CONFORM_RANKS; p++) {
        const conformance_tally *sum = &account->by_ranks[t][logits][p];
        for (int i = 0; i < PLAIN_OUTPUTS; i++) {
            const double most = i == PLAIN_LSE ? most_share[t][logits].lse : most_share[t][logits].results;
            if (most == 0 || sum->cases < ENOUGH || share(sum, i) <= most) continue;
            fail_msg("%s%s, %d ranks: %s is %.2f times as far off as of one rank, expected at most %g",
                     ls_dtype_name(conformance_dtype(t)), logits > 0 ? ", logits of 1e3" : "",
                     conformance_rank_counts[p], conformance_result_name[i], share(sum, i), most);
        }
    }
}

/* Cases by isa; each type only where the isa has kernels of its own for it. */
static void print_isas(const conformance_account *account) {
    for (ls_isa isa = LS_ISA_REF; isa < LS_ISA_COUNT; isa++) {
        const ls_status here = ls_isa_check(isa);
        if (here.code != LS_OK) {
            print_message("isa %-10s NOT RUN: %s\n", ls_isa_name(isa), here.text);
            continue;
        }
        char line[128];
        size_t used = 0;
        for (int t = 0; t < CONFORM_DTYPES; t++) {
            if (!conformance_has_kernels(isa, t)) continue;
            used += (size_t)snprintf(line + used, sizeof line - used, "  %s %6d", ls_dtype_name(conformance_dtype(t)),
                                     account->by_isa[isa][t]);
        }
        print_message("isa %-10s cases:%s\n", ls_isa_name(isa), line);
    }
}

static void check_isas(const conformance_axes *axes, const conformance_account *account) {
    for (int i = 0; i < axes->size[CONFORM_ISA]; i++) {
        const ls_isa isa = axes->isa[i];
        for (int t = 0; t < CONFORM_DTYPES; t++) {
            if (conformance_has_kernels(isa, t) && account->by_isa[isa][t] == 0)
                fail_msg("isa %s, %s: no case ran", ls_isa_name(isa), ls_dtype_name(conformance_dtype(t)));
        }
    }
}

int conformance_report(const conformance_axes *axes, const conformance_account *account) {
    int cases = 0, refused = 0;
    for (int s = 0; s < axes->strategies; s++) {
        print_message("%-10s %6d cases ran, %d of them in place; %d refused, and %d meshes\n", ls_strategy_name(s),
                      account->ran[s], account->in_place[s], account->refused[s], axes->meshes_refused[s]);
        cases += account->ran[s];
        refused += account->refused[s];
    }
    print_message("%d cases ran, %d were refused\n", cases, refused);
    print_isas(account);
    for (int t = 0; t < CONFORM_DTYPES; t++) {
        for (int logits = 0; logits < CONFORM_LOGIT_SIZES; logits++) print_errors(account, t, logits);
    }
    for (int s = 0; s < axes->strategies; s++) {
        if (account->ran[s] == 0) fail_msg("strategy %s: no case ran", ls_strategy_name(s));
    }
    check_isas(axes, account);
    for (int t = 0; t < CONFORM_DTYPES; t++) {
        for (int logits = 0; logits < CONFORM_LOGIT_SIZES; logits++) check_flat(account, t, logits);
    }
    return cases;
}
