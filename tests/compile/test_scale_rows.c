/*
 * Rows that go to the ranks that have the row of a table which the id of their token names, and come back
 * (scale_rows, redistribute/deal.c): loss and gradients in f64 are those of one rank, however many rows each rank
 * gets, on every mesh, with every way to save memory and over every transport; the same bits whatever comes first; and
 * as many bytes as were planned.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "program/instr.h"
#include "support/images.h"
#include "support/meshes.h"
#include "support/mutate.h"
#include "support/network.h"

enum { B = 2, S = 24, E = 5, V = 9 };

static ls_tensor parameter(ls_graph *g, const char *name, int64_t rows, int64_t columns) {
    return ls_parameter(g, name, rows > 1 ? 2 : 1, rows > 1 ? (int64_t[]){rows, columns} : &columns);
}

/* A norm needs whole rows before and behind, as the exchange does. */
static ls_tensor scaled(ls_graph *g, int64_t rows, const char *ids) {
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S), positions = ls_input_like(g, "positions", tokens);
    ls_tensor x = ls_embedding(g, tokens, parameter(g, "table", V, E));
    x = ls_add(g, x, ls_embedding(g, positions, parameter(g, "position table", S, E)));
    x = ls_rmsnorm(g, x, parameter(g, "first", 1, E), 1e-5);
    const ls_tensor which = ids == NULL ? positions : ls_input_like(g, ids, tokens);
    x = ls_add(g, x, ls_named(g, ls_scale_rows(g, which, x, parameter(g, "scales", rows, E)), "scaled"));
    x = ls_rmsnorm(g, x, parameter(g, "last", 1, E), 1e-5);
    const ls_tensor logits = ls_linear_wide(g, x, parameter(g, "head", V, E));
    return ls_sum(g, ls_cross_entropy(g, logits, ls_input_like(g, "labels", tokens)));
}

static ls_tensor even(ls_graph *g) { return scaled(g, V, "route"); }       /* rows of the table and ids are as many */
static ls_tensor uneven(ls_graph *g) { return scaled(g, V + 2, "route"); } /* some have no token */
static ls_tensor to_one(ls_graph *g) { return scaled(g, V + 2, "route"); }
static ls_tensor own(ls_graph *g) { return scaled(g, S, NULL); } /* where parts are alike, all rows stay */

static const network networks[] = {{"random rows", even, .ids = V},
                                   {"random rows of some", uneven, .ids = V},
                                   {"all rows to one rank", to_one, .ids = 1},
                                   {"no rows", own, .ids = V}};

static const char *const meshes[] = {
    "tp=2",      "tp=3",        "tp=4",        "tp=5",      "tp=6",        "tp=7",           "tp=8",
    "dp=2,tp=2", "ring=2,tp=2", "ring=2,tp=4", "dp=2,tp=3", "ring=3,tp=2", "ulysses=2,tp=2", "dp=2,ring=2,tp=2"};

static ls_target target_of(const char *mesh) {
    ls_target target = {.strategy = "local", .threads = 1, .shard = &ls_shard_modes[0]};
    if (ls_mesh_parse(mesh, &target.mesh).code != LS_OK) fail_msg("no mesh %s", mesh);
    const ls_mesh *m = &target.mesh;
    if (mesh_ring(m) > 1) target.strategy = mesh_ulysses(m) > 1 ? "usp" : "ring";
    if (mesh_ring(m) == 1 && mesh_ulysses(m) > 1) target.strategy = "ulysses";
    return target;
}

static void must(const network *n, const char *mesh, ls_status status) {
    if (status.code != LS_OK) fail_msg("%s, %s: %s", n->name, mesh, status.text);
}

/* Puts of counted rows in all programs of rank 0, and the bytes that they may send. */
static int counted_puts(const ls_image *image, double *bytes) {
    int n = 0;
    *bytes = 0;
    for (int p = 0; p < image->n_programs; p++) {
        for (int i = 0; i < image->programs[p].n_instrs; i++) {
            const ls_instr *instr = &image->programs[p].instrs[i];
            if (instr->kind != LS_INSTR_PUT || instr->counted == 0) continue;
            *bytes += ls_operand_bytes(&instr->in[0]);
            n++;
        }
    }
    return n;
}

static void compare(const network *n, const char *mesh, const network_result *many, const network_result *one) {
    const char *what;
    const double difference = network_difference(many, one, &what);
    if (!(difference < 1e-12)) fail_msg("%s, %s: %s differs by %g", n->name, mesh, what, difference);
}

static void test_same_as_one_rank(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(networks); i++) {
        const network *n = &networks[i];
        const ls_target alone = {.mesh = mesh_of(1, 1, 1), .strategy = "local", .threads = 1};
        network_result one, many;
        must(n, "one rank", network_solve(n, &alone, LS_F64, LS_F64, &one));
        for (size_t m = 0; m < LS_COUNT(meshes); m++) {
            const ls_target target = target_of(meshes[m]);
            must(n, meshes[m], network_solve(n, &target, LS_F64, LS_F64, &many));
            compare(n, meshes[m], &many, &one);
            const int T = ls_mesh_size(&target.mesh, ls_mesh_axes(&target.mesh, LS_AXIS_FEATURE));
            double bytes;
            /* Rows there and back, of x and of dy; and for the gradient of the table there. */
            if (counted_puts(many.image, &bytes) != 5 * (T - 1))
                fail_msg("%s, %s: %d puts of rows, expected %d", n->name, meshes[m], counted_puts(many.image, &bytes),
                         5 * (T - 1));
            network_free(&many);
        }
        network_free(&one);
    }
}

static void test_programs_verify(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(networks); i++) {
        for (size_t m = 0; m < LS_COUNT(meshes); m++) {
            const ls_target target = target_of(meshes[m]);
            must(&networks[i], meshes[m], network_verify(&networks[i], &target, 1 + (int)(m % 2)));
        }
    }
}

/* Steps of the optimiser, with what is cut over the ranks and what is saved. */
static void test_trained(void **state) {
    (void)state;
    static const ls_saving savings[] = {{0}, {.drop = 1 << 20, .tile = LS_TILE_ALL, .tile_rows = 3}};
    const network *n = &networks[1];
    const ls_target alone = {.mesh = mesh_of(1, 1, 1), .strategy = "local", .threads = 1};
    network_result one, many;
    must(n, "one rank", network_train(n, &alone, 2, 2, &one));
    for (int mode = 0; mode < LS_SHARD_MODES; mode++) {
        for (size_t s = 0; s < LS_COUNT(savings); s++) {
            ls_target target = target_of(mode % 2 ? "ring=2,tp=2" : "dp=2,tp=3");
            target.shard = &ls_shard_modes[mode];
            target.saving = savings[s];
            must(n, target.shard->name, network_train(n, &target, 2, 2, &many));
            compare(n, target.shard->name, &many, &one);
            network_free(&many);
        }
    }
    network_free(&one);
}

static void same_bits(network *n, const ls_target *target, const char *transport, const char *device) {
    network_result calm, wild;
    must(n, "calm", network_solve(n, target, LS_F64, LS_F64, &calm));
    n->transport = transport;
    if (device != NULL) setenv("LONGSPAN_DEVICE", device, 1);
    must(n, device != NULL ? device : transport, network_solve(n, target, LS_F64, LS_F64, &wild));
    if (device != NULL) unsetenv("LONGSPAN_DEVICE");
    n->transport = NULL;
    assert_true(wild.loss == calm.loss);
    assert_memory_equal(wild.gradient, calm.gradient, sizeof(double) * (size_t)calm.image->whole_elements);
    network_free(&wild);
    network_free(&calm);
}

static void test_same_bits_whatever_comes_first(void **state) {
    (void)state;
    static const char *const transports[] = {"tcp", "chaos:1", "chaos:2:0:tcp", "chaos:3:0.001"};
    static const char *const devices[] = {"delayed:1", "delayed:2:awaited"};
    for (size_t i = 0; i < LS_COUNT(networks); i++) {
        network n = networks[i];
        const ls_target target = target_of(i % 2 ? "tp=4" : "ring=2,tp=2");
        for (size_t t = 0; t < LS_COUNT(transports); t++) same_bits(&n, &target, transports[t], NULL);
        for (size_t d = 0; d < LS_COUNT(devices); d++) same_bits(&n, &target, NULL, devices[d]);
    }
}

/* In f32 and bf16 near f64 of the same parameters, as on one rank. */
static void test_other_types(void **state) {
    (void)state;
    static const struct {
        ls_dtype type;
        double most;
    } types[] = {{LS_F32, 1e-5}, {LS_BF16, 0.2}};
    const network *n = &networks[1];
    ls_target target = target_of("tp=3");
    target.isa = LS_ISA_BASE;
    for (size_t i = 0; i < LS_COUNT(types); i++) {
        network_result exact, rounded;
        const char *what;
        must(n, "exact", network_solve(n, &target, LS_F64, types[i].type, &exact));
        must(n, "rounded", network_solve(n, &target, types[i].type, types[i].type, &rounded));
        const double difference = network_difference(&rounded, &exact, &what);
        if (!(difference < types[i].most))
            fail_msg("%s: %s differs by %g", ls_dtype_name(types[i].type), what, difference);
        network_free(&exact);
        network_free(&rounded);
    }
}

/* Random edits of what is counted, and of all else: each wrong one is rejected by both verifiers. */
static void test_wrong_edits_are_rejected(void **state) {
    (void)state;
    static const char *const of[] = {"tp=2", "tp=3", "ring=2,tp=2"};
    image_set sets[LS_COUNT(of)];
    for (size_t i = 0; i < LS_COUNT(of); i++) {
        const ls_target target = target_of(of[i]);
        ls_graph *g = ls_graph_create(LS_F32);
        sets[i] = images_of_loss(g, uneven(g), &target, i % 2 == 0, NULL);
    }
    (void)judge_mutations_of(sets, LS_COUNT(of), 1, 300, 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_one_rank), cmocka_unit_test(test_programs_verify),
        cmocka_unit_test(test_trained),          cmocka_unit_test(test_same_bits_whatever_comes_first),
        cmocka_unit_test(test_other_types),      cmocka_unit_test(test_wrong_edits_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
