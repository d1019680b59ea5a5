/*
 * Along which axes blocks are read in place: where all ranks that differ only there lie on one host, the strategy can,
 * and it is asked for or, on a mesh without an all-to-all, left open.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "compile/compile.h"
#include "support/meshes.h"

static ls_status compile(const ls_target *target, ls_image **out) {
    enum { HEADS = 4, SIZE = 8 };
    ls_graph *g = ls_graph_create(LS_F32);
    const ls_shape shape = {
        4, {{ls_mesh_replicas(&target->mesh), LS_FACTOR_BATCH}, {16, LS_FACTOR_SEQUENCE}, {HEADS, 0}, {SIZE, 0}}};
    const ls_tensor q = ls_graph_leaf(g, LS_ROLE_INPUT, "q", LS_F32, &shape),
                    k = ls_graph_leaf(g, LS_ROLE_INPUT, "k", LS_F32, &shape),
                    v = ls_graph_leaf(g, LS_ROLE_INPUT, "v", LS_F32, &shape);
    const ls_mask mask = ls_mask_causal();
    const ls_tensor o = ls_attention_with_sink(g, q, k, v, LS_NO_TENSOR, &mask, 0.5, 0);
    const ls_job job = {.graph = g, .programs = ls_forward_programs(g), .fetch = &o, .n_fetch = 1};
    const ls_status status = ls_compile(&job, target, out);
    ls_graph_destroy(g);
    return status;
}

static void test_choice(void **state) {
    (void)state;
    static const struct {
        int dp, ring, ulysses, host_ranks;
        const char *strategy;
        ls_transfers transfers;
        const char *expected; /* or a part of the refusal */
    } cases[] = {
        {1, 4, 1, LS_ONE_HOST, "ring", LS_TRANSFERS_AUTO, "in-place"},
        {1, 4, 1, 4, "ring", LS_TRANSFERS_AUTO, "in-place"},
        {1, 4, 1, 2, "ring", LS_TRANSFERS_AUTO, "put"},
        {1, 4, 1, 3, "ring", LS_TRANSFERS_AUTO, "put"},
        {1, 4, 1, 1, "ring", LS_TRANSFERS_AUTO, "put"},
        {1, 4, 1, 0, "ring", LS_TRANSFERS_AUTO, "put"},
        {1, 4, 1, LS_ONE_HOST, "ring", LS_TRANSFERS_PUT, "put"},
        {2, 2, 1, 2, "ring", LS_TRANSFERS_AUTO, "in-place"}, /* each replica on a host */
        {2, 3, 1, 2, "ring", LS_TRANSFERS_AUTO, "put"},      /* a host between two replicas */
        {1, 2, 2, LS_ONE_HOST, "usp", LS_TRANSFERS_AUTO, "put"},
        {1, 2, 2, LS_ONE_HOST, "usp", LS_TRANSFERS_IN_PLACE, "in-place"},
        {1, 2, 2, 2, "usp", LS_TRANSFERS_IN_PLACE, "in-place+put"}, /* each block on a host */
        {1, 2, 2, 3, "usp", LS_TRANSFERS_IN_PLACE, "does not let a rank read"},
        {1, 2, 2, 1, "usp", LS_TRANSFERS_IN_PLACE, "does not let a rank read"},
        {1, 1, 4, LS_ONE_HOST, "ulysses", LS_TRANSFERS_IN_PLACE, "in-place"},
        {1, 4, 1, LS_ONE_HOST, "gather", LS_TRANSFERS_AUTO, "put"},
        {1, 4, 1, LS_ONE_HOST, "gather", LS_TRANSFERS_IN_PLACE, "no such lowering"},
        {1, 2, 2, LS_ONE_HOST, "gather", LS_TRANSFERS_IN_PLACE, "in-place+put"},
        {1, 2, 2, 2, "tokenring", LS_TRANSFERS_IN_PLACE, "in-place+put"},
        {1, 4, 1, LS_ONE_HOST, "rsa", LS_TRANSFERS_AUTO, "in-place"},
        {1, 4, 1, LS_ONE_HOST, "burst", LS_TRANSFERS_IN_PLACE, "no such lowering"},
        {4, 1, 1, LS_ONE_HOST, "local", LS_TRANSFERS_IN_PLACE, "put"}, /* nobody to read from */
    };
    for (size_t c = 0; c < LS_COUNT(cases); c++) {
        const ls_target target = {.mesh = mesh_of(cases[c].dp, cases[c].ring, cases[c].ulysses),
                                  .strategy = cases[c].strategy,
                                  .threads = 1,
                                  .transfers = cases[c].transfers,
                                  .host_ranks = cases[c].host_ranks};
        ls_image *image;
        const ls_status status = compile(&target, &image);
        const char *is = status.code == LS_OK ? ls_transfers_of(image) : status.text;
        const bool right =
            status.code == LS_OK ? strcmp(is, cases[c].expected) == 0 : strstr(is, cases[c].expected) != NULL;
        if (!right) fail_msg("case %zu: %s; expected %s", c, is, cases[c].expected);
        if (status.code == LS_OK) ls_image_destroy(image);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_choice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
