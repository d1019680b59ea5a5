#include "support/random_graphs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "support/network.h"
#include "support/random_graph.h"

static const struct {
    const char *mesh, *strategy;
} places[] = {
    {"ring=2", "ring"},
    {"ulysses=2", "ulysses"},
    {"dp=2", "local"},
    {"tp=2", "local"},
    {"ring=3", "gather"},
    {"tp=3", "local"},
    {"ring=2,tp=2", "ring"},
    {"dp=2,tp=2", "local"},
    {"ulysses=3", "ulysses"},
    {"ring=2,ulysses=2", "usp"},
    {"dp=2,ring=2", "tokenring"},
    {"ulysses=2,tp=2", "ulysses"},
    {"ring=5", "ring"},
    {"dp=2,ring=3", "ring"},
    {"ring=3,tp=2", "gather"},
    {"ulysses=2,tp=3", "ulysses"},
    {"ring=2,ulysses=3", "usp"},
    {"dp=2,tp=3", "local"},
    {"ring=2,tp=3", "ring"},
    {"ring=6", "gather"},
    {"outer=2,ring=2", "double-ring"},
    {"ring=3", "burst"},
    {"ring=2,ulysses=2", "rsa"},
};
static const ls_saving savings[] = {{0},
                                    {.drop = 1 << 20, .tile = LS_TILE_ALL, .tile_rows = 3},
                                    {.tile = LS_TILE_ALL, .tile_rows = 2},
                                    {.drop = 3, .offload = 1 << 20}};

/* Whether the mesh has more ranks along tp than something has features: that is a user's choice, and refused. */
static bool is_too_many(ls_status status) {
    return status.code == LS_USAGE && strstr(status.text, "heads or features that ranks can share") != NULL;
}

static void must(ls_status status, int seed, size_t place) {
    if (status.code != LS_OK) fail_msg("graph %d, %s: %s", seed, places[place].mesh, status.text);
}

/* Whether the graph was compared over that mesh. */
static bool check(const network *n, int seed, size_t place, const network_result *one) {
    ls_target target = {.strategy = places[place].strategy,
                        .threads = 1,
                        .shard = &ls_shard_modes[seed % LS_SHARD_MODES],
                        .saving = savings[(seed / 3) % (int)LS_COUNT(savings)]};
    network_result many;
    const char *what = "";
    must(ls_mesh_parse(places[place].mesh, &target.mesh), seed, place);
    const ls_status status = network_solve(n, &target, LS_F64, LS_F64, &many);
    if (is_too_many(status)) return false;
    must(status, seed, place);
    const double error = network_difference(&many, one, &what);
    network_free(&many);
    if (!(error < 1e-12)) must(ls_error(LS_DIVERGED, "%s is off by %g", what, error), seed, place);
    must(network_verify(n, &target, 1 + seed % 2), seed, place);
    return true;
}

void check_random_graphs(int first, int past) {
    const network n = {"random", random_graph_loss, .ids = RANDOM_GRAPH_IDS};
    const ls_target alone = {.strategy = "local", .threads = 1};
    int steps[64] = {0}, tried[LS_COUNT(places)] = {0}, refused = 0;
    for (int seed = first; seed < past; seed++) {
        network_result one;
        random_graph_choose((uint64_t)seed);
        const ls_status status = network_solve(&n, &alone, LS_F64, LS_F64, &one);
        if (status.code != LS_OK) fail_msg("graph %d: %s", seed, status.text);
        for (int k = 0; random_graph_step(k) != NULL; k++) steps[k] += random_graph_count(k);
        size_t place = (size_t)seed % LS_COUNT(places);
        while (!check(&n, seed, place, &one)) { /* another mesh; some have no tp */
            place = (place + 1) % LS_COUNT(places);
            refused++;
        }
        tried[place]++;
        network_free(&one);
    }
    for (int k = 0; random_graph_step(k) != NULL; k++) {
        print_message("%s%s %d", k > 0 ? ", " : "", random_graph_step(k), steps[k]);
        assert_true(steps[k] > 0);
    }
    print_message("; %d meshes with more ranks than features\n", refused);
    for (size_t p = 0; p < LS_COUNT(places) && past - first >= 20 * (int)LS_COUNT(places); p++)
        assert_true(tried[p] > 0);
}
