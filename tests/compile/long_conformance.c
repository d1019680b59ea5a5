/*
 * The whole conformance matrix (support/conformance.h): every strategy on every mesh × mask × layout × heads ×
 * type, with transfers, shapes, sinks, soft caps and the instruction sets of this machine in turn. Once more with
 * logits of ±1e3, with layouts in turn too. The work is divided over processes, one per core. LS_TEST_PART=I/N: only
 * part I of N (0 to N - 1), as tools/run-in-parts.sh asks for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/conformance.h"
#include "support/workers.h"

/* The index of a turn's isa, of those with kernels for the type. */
static int isa_of_turn(const conformance_axes *axes, int dtype, int turn) {
    int isas[LS_ISA_COUNT], n = 0;
    for (int isa = 0; isa < axes->size[CONFORM_ISA]; isa++) {
        if (conformance_has_kernels(axes->isa[isa], dtype)) isas[n++] = isa;
    }
    assert_true(n > 0);
    return isas[turn % n];
}

/* What takes turns: another value wherever any of the other axes moves on. */
static void take_turns(const conformance_axes *axes, conformance_case *it) {
    int *at = it->at;
    const int turn = at[CONFORM_PLACE] + at[CONFORM_MASK] + at[CONFORM_HEADS] + at[CONFORM_DTYPE];
    if (at[CONFORM_LOGITS] > 0) at[CONFORM_LAYOUT] = turn % axes->size[CONFORM_LAYOUT];
    at[CONFORM_EXTRAS] = (at[CONFORM_MASK] + at[CONFORM_HEADS] / 2) % axes->size[CONFORM_EXTRAS];
    at[CONFORM_SHAPE] = (at[CONFORM_MASK] + at[CONFORM_HEADS]) % axes->size[CONFORM_SHAPE];
    at[CONFORM_TRANSFERS] = (turn + at[CONFORM_LAYOUT]) % axes->size[CONFORM_TRANSFERS];
    at[CONFORM_ISA] = isa_of_turn(axes, at[CONFORM_DTYPE], turn / 2 + at[CONFORM_LAYOUT]);
    if (!conformance_has(axes, it)) at[CONFORM_TRANSFERS] = 0; /* a strategy that always puts */
}

/* All cases of one mask, heads and size of logits. */
static void check_problem(conformance *c, const conformance_axes *axes, conformance_case it) {
    const int layouts = it.at[CONFORM_LOGITS] > 0 ? 1 : axes->size[CONFORM_LAYOUT];
    for (int i = 0; i < axes->size[CONFORM_PLACE] * axes->size[CONFORM_DTYPE] * layouts; i++) {
        it.at[CONFORM_LAYOUT] = i % layouts;
        it.at[CONFORM_DTYPE] = i / layouts % axes->size[CONFORM_DTYPE];
        it.at[CONFORM_PLACE] = i / layouts / axes->size[CONFORM_DTYPE];
        take_turns(axes, &it);
        if (conformance_has(axes, &it)) conformance_check(c, &it);
    }
}

/* Every n-th problem. */
static void check_share(test_part part, const void *input, void *account) {
    const conformance_axes *axes = input;
    conformance *c = conformance_open(axes, account);
    const int masks = axes->size[CONFORM_MASK], heads = axes->size[CONFORM_HEADS];
    for (int i = part.index; i < masks * heads * axes->size[CONFORM_LOGITS]; i += part.parts) {
        conformance_case it = {{0}};
        it.at[CONFORM_MASK] = i % masks;
        it.at[CONFORM_HEADS] = i / masks % heads;
        it.at[CONFORM_LOGITS] = i / masks / heads;
        check_problem(c, axes, it);
    }
    conformance_close(c);
}

static void add_account(void *sum, const void *account) { conformance_account_add(sum, account); }

static void test_whole_matrix(void **state) {
    (void)state;
    static conformance_axes axes;
    static conformance_account sum;
    conformance_axes_make(&axes);
    bool asked;
    const test_part part = test_part_asked_for(&asked);
    run_workers(part, check_share, &axes, sizeof sum, add_account, &sum);
    assert_in_range(conformance_report(&axes, &sum), 10000 / part.parts, 1000000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_whole_matrix)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
