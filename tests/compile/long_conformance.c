/*
 * The whole conformance matrix (support/conformance.h): every strategy on every mesh × mask × layout × heads ×
 * type, with transfers, shapes, sinks, soft caps and the instruction sets of this machine in turn. Once more with
 * logits of ±1e3, with layouts in turn too. The work is divided over processes, one per core. LS_TEST_PART=I/N: only
 * part I of N (0 to N - 1), as tools/run-in-parts.sh asks for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "support/conformance.h"

enum { WORKERS = 8 };

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

typedef struct part {
    int index, parts;
} part;

static part part_asked_for(void) {
    part p = {0, 1};
    const char *text = getenv("LS_TEST_PART");
    if (text != NULL) assert_int_equal(sscanf(text, "%d/%d", &p.index, &p.parts), 2);
    assert_true(p.index >= 0 && p.index < p.parts);
    return p;
}

/* Every n-th problem from `first` on. */
static void check_share(const conformance_axes *axes, int first, int n, conformance_account *account) {
    conformance *c = conformance_open(axes, account);
    const int masks = axes->size[CONFORM_MASK], heads = axes->size[CONFORM_HEADS];
    for (int i = first; i < masks * heads * axes->size[CONFORM_LOGITS]; i += n) {
        conformance_case it = {{0}};
        it.at[CONFORM_MASK] = i % masks;
        it.at[CONFORM_HEADS] = i / masks % heads;
        it.at[CONFORM_LOGITS] = i / masks / heads;
        check_problem(c, axes, it);
    }
    conformance_close(c);
}

static void test_whole_matrix(void **state) {
    (void)state;
    static conformance_axes axes;
    conformance_axes_make(&axes);
    ls_machine machine;
    ls_machine_detect(&machine);
    const int workers = machine.cores < WORKERS ? machine.cores : WORKERS;
    const part asked = part_asked_for();
    conformance_account *accounts = mmap(NULL, sizeof *accounts * WORKERS, PROT_READ | PROT_WRITE,
                                         MAP_SHARED | MAP_ANONYMOUS, -1, 0),
                        sum = {0};
    assert_true(accounts != MAP_FAILED);
    pid_t worker[WORKERS];
    for (int w = 0; w < workers; w++) {
        worker[w] = fork();
        assert_true(worker[w] >= 0);
        if (worker[w] > 0) continue;
        /* What fails ends the process as a failed test. */
        check_share(&axes, asked.index * workers + w, asked.parts * workers, &accounts[w]);
        _exit(0);
    }
    int failed = 0;
    for (int w = 0; w < workers; w++) {
        int status;
        assert_int_equal(waitpid(worker[w], &status, 0), worker[w]);
        failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
        conformance_account_add(&sum, &accounts[w]);
    }
    (void)munmap(accounts, sizeof *accounts * WORKERS);
    assert_int_equal(failed, 0);
    assert_in_range(conformance_report(&axes, &sum), 10000 / asked.parts, 1000000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_whole_matrix)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
