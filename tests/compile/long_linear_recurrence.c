/*
 * Every network of linear recurrences by every way, in f64, on meshes of up to 16 ranks of a sequence, contiguous and
 * zigzag, with dp and ulysses: loss and all gradients within 1e-12 of one rank.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/linear_recurrences.h"
#include "support/meshes.h"
#include "support/network.h"

/* dp × ring × ulysses */
static const int meshes[][3] = {{1, 2, 1}, {2, 3, 1}, {1, 4, 1}, {1, 5, 1},  {1, 2, 3},
                                {2, 2, 2}, {1, 7, 1}, {1, 1, 4}, {1, 13, 1}, {1, 16, 1}};

static void must(ls_status status) {
    if (status.code != LS_OK) fail_msg("%s", status.text);
}

static void test_every_way(void **state) {
    (void)state;
    static const char *const ways[] = {"maps", "owners", "heads"};
    int solved[LS_COUNT(ways)] = {0};
    for (int k = 0; k < n_linear_networks; k++) {
        const network *n = &linear_networks[k];
        network_result one, many;
        const ls_target single = {.mesh = mesh_of(1, 1, 1), .strategy = "local", .threads = 1};
        must(network_solve(n, &single, LS_F64, LS_F64, &one));
        for (size_t i = 0; i < LS_COUNT(meshes) * LS_COUNT(ways) * 2; i++) {
            const size_t way = i / 2 % LS_COUNT(ways);
            const int *size = meshes[i / 2 / LS_COUNT(ways)];
            const ls_target target = {.mesh = mesh_of(size[0], size[1], size[2]),
                                      .strategy = "local",
                                      .layout = i % 2 ? LS_LAYOUT_ZIGZAG : LS_LAYOUT_CONTIGUOUS,
                                      .linear_way = ways[way],
                                      .threads = 1};
            const ls_status status = network_solve(n, &target, LS_F64, LS_F64, &many);
            if (status.code == LS_UNSUPPORTED && strstr(status.text, "way ") == status.text) continue;
            must(status);
            const char *what;
            const double difference = network_difference(&many, &one, &what);
            if (!(difference < 1e-12))
                fail_msg("%s, %d ranks %s by %s: %s differs by %g", n->name, ls_mesh_ranks(&target.mesh),
                         ls_layout_name(target.layout), ways[way], what, difference);
            solved[way]++;
            network_free(&many);
        }
        network_free(&one);
    }
    printf("%d programs by maps, %d by owners, %d by heads\n", solved[0], solved[1], solved[2]);
    assert_true(solved[0] == n_linear_networks * (int)LS_COUNT(meshes) * 2);
    assert_true(solved[1] >= 60 && solved[2] >= 25);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_way)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
