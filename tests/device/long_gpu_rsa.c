/*
 * The strategy rsa on the device cuda, in the cases of the conformance of strategies (support/conformance.h): every
 * pair of mesh of up to four ranks, mask, layout, numbers of heads, type (f32, bf16), shape, size of logits, and sink
 * or soft cap; each case twice, with the same bits. By the driver for tests and kernels that were compiled for the
 * host; with LS_TEST_GPU=1 on this machine's GPU.
 */
#include "support/conformance.h"
#include "support/covering.h"
#include "support/fake_cuda.h"
#include "support/transfers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_RANKS = 4, LEAST = 30 /* cases */ };

/* The ranks of a GPU put, and it has no kernels for f64. */
static bool runs_on_gpu(int axis, int value) {
    if (axis == CONFORM_DTYPE) return conformance_dtype(value) != LS_F64;
    return axis != CONFORM_TRANSFERS || transfer_ways[value].asked == LS_TRANSFERS_PUT;
}

static bool allowed(const void *context, int a, int i, int b, int j) {
    return runs_on_gpu(a, i) && runs_on_gpu(b, j) && conformance_allowed(context, a, i, b, j);
}

/* Leaves the places with rsa on several ranks, and one instruction set: a GPU has none of them. */
static void keep_rsa(conformance_axes *axes) {
    int n = 0;
    for (int p = 0; p < axes->size[CONFORM_PLACE]; p++) {
        const conformance_place place = axes->place[p];
        const int ranks = conformance_ranks(&place);
        if (strcmp(place.strategy, "rsa") == 0 && ranks > 1 && ranks <= MOST_RANKS) axes->place[n++] = place;
    }
    axes->size[CONFORM_PLACE] = n;
    axes->isa[0] = LS_ISA_BASE;
    axes->size[CONFORM_ISA] = 1;
}

static void test_every_pair(void **state) {
    (void)state;
    static conformance_axes axes;
    static conformance_account account;
    conformance_axes_make(&axes);
    keep_rsa(&axes);
    covering_axes cover = {.n = CONFORM_AXES, .allowed = allowed, .context = &axes, .seed = 1};
    memcpy(cover.size, axes.size, sizeof axes.size);
    int n, pairs;
    covering_row *rows = covering_make(&cover, &n, &pairs);
    assert_int_equal(covering_count(&cover, rows, n), pairs);
    conformance *c = conformance_open(&axes, &account);
    conformance_run_on(c, "cuda");
    for (int r = 0; r < n; r++) {
        conformance_case it;
        memcpy(it.at, rows[r].at, sizeof it.at);
        conformance_check(c, &it);
    }
    conformance_close(c);
    free(rows);
    const int rsa = axes.place[0].index;
    print_message("%d cases cover %d pairs; %d ran\n", n, pairs, account.ran[rsa]);
    assert_int_equal(account.refused[rsa], 0);
    assert_in_range(account.ran[rsa], LEAST, n);
}

int main(void) {
    use_gpu("devices=2");
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_pair)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
