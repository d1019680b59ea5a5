/*
 * Parameters that are not trained: there are their values and nothing else of them. They have no gradient, master or
 * state on any rank, nothing of them is reduced or updated, and nothing travels but what is gathered to be read. The
 * gradients of the others are the same as without.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../../examples/graphs/graphs.h"
#include "support/images.h"
#include "support/meshes.h"
#include "support/network.h"

#include "program/verify_impl.h"

enum { V = 17 };

/* Freezes all matrices: 99 % of the elements and more in a real model. */
static ls_tensor freeze(ls_graph *g, ls_tensor loss) {
    for (int t = 1; t < g->n_tensors; t++) {
        ls_tensor_info *info = &g->tensors[t];
        info->frozen = info->role == LS_ROLE_PARAMETER && info->shape.ndim > 1;
    }
    return loss;
}

/* The same, and the matrices are kept in bf16. */
static ls_tensor keep(ls_graph *g, ls_tensor loss) {
    freeze(g, loss);
    for (int t = 1; t < g->n_tensors; t++)
        if (g->tensors[t].frozen) g->tensors[t].kept = LS_BF16;
    return loss;
}

/* What is added behind products: biases, and what norms add. */
static bool is_bias(const ls_tensor_info *info) {
    const size_t n = strlen(info->name), m = strlen(".bias");
    return info->role == LS_ROLE_PARAMETER && n > m && strcmp(info->name + n - m, ".bias") == 0;
}

static ls_tensor freeze_biases(ls_graph *g, ls_dtype kept) {
    const ls_tensor loss = gpt2_loss(g);
    for (int t = 1; t < g->n_tensors; t++) {
        if (!is_bias(&g->tensors[t])) continue;
        g->tensors[t].frozen = true;
        g->tensors[t].kept = kept;
    }
    return loss;
}

static ls_tensor frozen_biases(ls_graph *g) { return freeze_biases(g, g->dtype); }
static ls_tensor kept_biases(ls_graph *g) { return freeze_biases(g, LS_BF16); }

static ls_tensor kept_llama(ls_graph *g) { return keep(g, llama_loss(g)); }
static ls_tensor kept_gpt2(ls_graph *g) { return keep(g, gpt2_loss(g)); }

static ls_tensor frozen_llama(ls_graph *g) { return freeze(g, llama_loss(g)); }
static ls_tensor frozen_gpt2(ls_graph *g) { return freeze(g, gpt2_loss(g)); }
static ls_tensor frozen_gptoss(ls_graph *g) { return freeze(g, gptoss_loss(g)); }

static const struct {
    network frozen, whole;
} networks[] = {
    {{"llama", frozen_llama, .ids = V}, {"llama", llama_loss, .ids = V}},
    {{"gpt2", frozen_gpt2, .ids = V}, {"gpt2", gpt2_loss, .ids = V}},
    {{"gptoss", frozen_gptoss, .ids = V}, {"gptoss", gptoss_loss, .ids = V}},
};

static const struct {
    int dp, ring, ulysses;
    const char *strategy;
} places[] = {{1, 1, 1, "local"}, {2, 1, 1, "local"}, {1, 2, 2, "usp"}, {2, 1, 2, "ulysses"}, {1, 5, 1, "ring"}};

static const ls_saving savings[] = {{0}, {.drop = 4, .tile = LS_TILE_ALL, .tile_rows = 3}, {.drop = 1 << 20}};

static ls_target target_of(size_t place, int mode, size_t saving) {
    return (ls_target){.mesh = mesh_of(places[place].dp, places[place].ring, places[place].ulysses),
                       .strategy = places[place].strategy,
                       .threads = 1,
                       .shard = &ls_shard_modes[mode],
                       .saving = savings[saving]};
}

static void must(ls_status status) {
    if (status.code != LS_OK) fail_msg("%s", status.text);
}

/* --- values ------------------------------------------------------------------------------------------------------- */

static const ls_flat *find(const ls_image *image, const char *name) {
    for (int f = 0; f < image->n_flats; f++)
        if (strcmp(image->flats[f].name, name) == 0) return &image->flats[f];
    fail_msg("there is no parameter %s", name);
    return NULL;
}

/* Gradients of what is trained are those of the network of which all is. */
static void compare_trained(const network_result *frozen, const network_result *whole) {
    int trained = 0;
    for (int f = 0; f < frozen->image->n_flats; f++) {
        const ls_flat *flat = &frozen->image->flats[f], *same = find(whole->image, flat->name);
        if (!flat->trained) continue;
        trained++;
        for (int64_t i = 0; i < flat->count; i++)
            assert_true(frozen->gradient[flat->start + i] == whole->gradient[same->start + i]);
    }
    assert_true(trained > 0 && trained < frozen->image->n_flats);
    assert_true(frozen->loss == whole->loss);
}

static void test_gradients(void **state) {
    (void)state;
    for (size_t n = 0; n < LS_COUNT(networks); n++) {
        const ls_target alone = target_of(0, LS_SHARD_NONE, 0);
        network_result frozen, whole;
        must(network_accumulate(&networks[n].frozen, &alone, 1, &frozen));
        must(network_accumulate(&networks[n].whole, &alone, 1, &whole));
        compare_trained(&frozen, &whole);
        network_free(&frozen);
        network_free(&whole);
    }
}

typedef ls_status (*solver)(const network *n, const ls_target *target, int micro, network_result *out);

static ls_status two_steps(const network *n, const ls_target *target, int micro, network_result *out) {
    return network_train(n, target, micro, 2, out);
}

/* On every mesh, in every mode, what one rank finds; both verifiers accept the programs. */
static void compare_places(const network *n, solver solve, int micro) {
    const ls_target alone = target_of(0, LS_SHARD_NONE, 0);
    network_result one, many;
    const char *what = "";
    must(solve(n, &alone, micro, &one));
    for (size_t p = 0; p < LS_COUNT(places); p++) {
        for (int mode = 0; mode < LS_SHARD_MODES; mode++) {
            const ls_target target = target_of(p, mode, (p + (size_t)mode) % LS_COUNT(savings));
            must(solve(n, &target, micro, &many));
            if (!(network_difference(&many, &one, &what) < 1e-12))
                fail_msg("%s, place %zu, shard %s: %s is off", n->name, p, target.shard->name, what);
            network_free(&many);
        }
    }
    network_free(&one);
}

static void test_places(void **state) {
    (void)state;
    for (size_t n = 0; n < LS_COUNT(networks); n++) {
        compare_places(&networks[n].frozen, network_accumulate, 1 + (int)n % 2);
        compare_places(&networks[n].frozen, two_steps, 2 - (int)n % 2);
    }
}

/* Kept in bf16, under f64: every place has what one rank has, which is another number than with all of its digits. */
static void test_kept(void **state) {
    (void)state;
    static const network kept[] = {{"llama", kept_llama, .ids = V}, {"gpt2", kept_gpt2, .ids = V}};
    for (size_t n = 0; n < LS_COUNT(kept); n++) {
        compare_places(&kept[n], network_accumulate, 1 + (int)n % 2);
        compare_places(&kept[n], two_steps, 2 - (int)n % 2);
        const ls_target alone = target_of(0, LS_SHARD_NONE, 0);
        network_result rounded, exact;
        must(network_accumulate(&kept[n], &alone, 1, &rounded));
        must(network_accumulate(&networks[n].frozen, &alone, 1, &exact));
        assert_true(fabs(rounded.loss - exact.loss) < 1e-2 * exact.loss && rounded.loss != exact.loss);
        network_free(&rounded);
        network_free(&exact);
    }
    for (size_t p = 0; p < LS_COUNT(places); p++) {
        const ls_target target = target_of(p, (int)p % LS_SHARD_MODES, p % LS_COUNT(savings));
        must(network_verify(&kept[p % 2], &target, 1 + (int)p % 2));
    }
}

static void test_proofs(void **state) {
    (void)state;
    for (size_t p = 0; p < LS_COUNT(places); p++) {
        for (int mode = 0; mode < LS_SHARD_MODES; mode++) {
            const ls_target target = target_of(p, mode, (size_t)mode % LS_COUNT(savings));
            must(network_verify(&networks[p % LS_COUNT(networks)].frozen, &target, 1 + (int)p % 2));
        }
    }
}

/* --- once for the ranks of a host --------------------------------------------------------------------------------- */

/* Hosts of two ranks, and one host. */
static const int hosts[] = {2, LS_ONE_HOST};

/* Ranks that have values in common find what they find with their own, to the bit. */
static void compare_common(network n, solver solve, const ls_target *target, int micro) {
    network_result apart, common;
    must(solve(&n, target, micro, &apart));
    n.filled_together = true;
    must(solve(&n, target, micro, &common));
    const bool is = target->mesh.n > 0 && ls_mesh_ranks(&target->mesh) > 1 && !target->shard->parameters;
    assert_int_equal(apart.image->bytes[LS_COMMON], 0);
    assert_int_equal(common.image->bytes[LS_COMMON] > 0, is);
    if (is) assert_true(ls_image_mapped(common.image) < ls_image_mapped(apart.image));
    assert_true(apart.loss == common.loss);
    assert_memory_equal(apart.gradient, common.gradient, sizeof(double) * (size_t)common.image->whole_elements);
    network_free(&apart);
    network_free(&common);
    must(network_verify(&n, target, micro));
}

static void test_common(void **state) {
    (void)state;
    static const network nets[] = {{"llama", frozen_llama, .ids = V}, {"gpt2", kept_gpt2, .ids = V}};
    for (size_t p = 0; p < LS_COUNT(places) - 1; p++) {
        for (size_t h = 0; h < LS_COUNT(hosts); h++) {
            const int mode = (int)(p + 2 * h) % LS_SHARD_MODES;
            ls_target target = target_of(p, mode, (p + h) % LS_COUNT(savings));
            target.host_ranks = hosts[h];
            target.transfers = LS_TRANSFERS_PUT;
            compare_common(nets[(p + h) % 2], h == 0 ? two_steps : network_accumulate, &target, 1 + (int)h);
        }
    }
}

/* A program that writes what ranks have in common is refused. */
static void test_common_is_not_written(void **state) {
    (void)state;
    const network n = {"llama", frozen_llama, .ids = V, .filled_together = true};
    ls_target target = target_of(1, LS_SHARD_NONE, 0);
    target.host_ranks = LS_ONE_HOST;
    network_result r;
    must(network_accumulate(&n, &target, 1, &r));
    const ls_image *image = r.image;
    const int common = ls_image_find(image, LS_BIND_FROZEN)->operand.buffer;
    const ls_program *p = &image->programs[image->n_programs - 1];
    int written = 0;
    for (int i = 0; i < p->n_instrs; i++) {
        ls_instr *instr = &p->instrs[i];
        assert_null(ls_instr_unsound(image, instr));
        if (instr->kind != LS_INSTR_KERNEL || ls_operand_is_empty(&instr->out[0])) continue;
        const int buffer = instr->out[0].buffer;
        instr->out[0].buffer = common;
        const char *why = ls_instr_unsound(image, instr);
        assert_non_null(why);
        written += strcmp(why, "it writes what ranks of a host have in common") == 0;
        instr->out[0].buffer = buffer;
    }
    assert_true(written > 10);
    network_free(&r);
}

/* Who shares what on hosts of so many ranks, where replicas and ranks along tp have other parts. */
static void test_sharers(void **state) {
    (void)state;
    static const struct {
        const char *mesh;
        int host_ranks, least, rank;
        ls_sharers of;
    } cases[] = {
        {"dp=4", LS_ONE_HOST, 4, 3, {0, 4, 3}},        {"dp=4", 2, 2, 3, {2, 2, 1}},
        {"ring=2,tp=2", LS_ONE_HOST, 2, 3, {1, 2, 1}}, {"dp=2,ring=3,tp=2", 6, 3, 11, {7, 3, 2}},
        {"ring=3,tp=2", 4, 1, 2, {0, 2, 1}},           {"dp=4", 0, 1, 3, {3, 1, 0}},
    };
    for (size_t c = 0; c < LS_COUNT(cases); c++) {
        ls_image image = {.host_ranks = cases[c].host_ranks};
        must(ls_mesh_parse(cases[c].mesh, &image.mesh));
        image.owners = ls_mesh_team(&image.mesh, ls_mesh_shard_axes(&image.mesh));
        assert_int_equal(ls_least_sharers(&image.mesh, &image.owners, image.host_ranks), cases[c].least);
        const ls_sharers found = ls_image_sharers(&image, cases[c].rank);
        assert_int_equal(found.holder, cases[c].of.holder);
        assert_int_equal(found.n, cases[c].of.n);
        assert_int_equal(found.place, cases[c].of.place);
    }
}

/* --- along tp ----------------------------------------------------------------------------------------------------- */

static const struct {
    const char *mesh, *strategy;
} tp_places[] = {{"tp=2", "local"}, {"dp=2,tp=3", "local"}, {"ring=2,tp=2", "ring"}, {"ulysses=2,tp=2", "ulysses"}};

static ls_target tp_target(size_t place, int mode, size_t saving) {
    ls_target target = {
        .strategy = tp_places[place].strategy, .threads = 1, .shard = &ls_shard_modes[mode], .saving = savings[saving]};
    must(ls_mesh_parse(tp_places[place].mesh, &target.mesh));
    return target;
}

static image_set set_of(ls_tensor (*loss)(ls_graph *), const ls_target *target) {
    ls_graph *g = ls_graph_create(LS_F64);
    return images_of_loss(g, loss(g), target, true, NULL);
}

/* A bias kept in another type is added by one rank like any other: the product before it is cut along tp, as without.
 */
static void test_kept_biases_leave_the_cuts(void **state) {
    (void)state;
    for (size_t p = 0; p < LS_COUNT(tp_places); p++) {
        const ls_target target = tp_target(p, LS_SHARD_OPTIMIZER, p % LS_COUNT(savings));
        image_set kept = set_of(kept_biases, &target), frozen = set_of(frozen_biases, &target);
        const ls_flat *flat = find(kept.image[0], "h.0.mlp.proj.weight");
        assert_true(flat->count < 32 * 128);
        for (int f = 0; f < kept.image[0]->n_flats; f++) {
            const ls_flat *a = &kept.image[0]->flats[f], *b = find(frozen.image[0], a->name);
            if (a->count != b->count)
                fail_msg("%s: a rank has %lld elements of %s, expected %lld", tp_places[p].mesh, (long long)a->count,
                         a->name, (long long)b->count);
        }
        free_images(&kept);
        free_images(&frozen);
    }
}

static void test_kept_along_tp(void **state) {
    (void)state;
    static const network kept[] = {{"gpt2 with kept biases", kept_biases, .ids = V},
                                   {"gpt2", kept_gpt2, .ids = V},
                                   {"llama", kept_llama, .ids = V}};
    for (size_t n = 0; n < LS_COUNT(kept); n++) {
        const ls_target alone = target_of(0, LS_SHARD_NONE, 0);
        network_result one, many;
        must(network_train(&kept[n], &alone, 2, 2, &one));
        for (size_t p = 0; p < LS_COUNT(tp_places); p++) {
            const ls_target target = tp_target(p, (int)(p + n) % LS_SHARD_MODES, (p + n) % LS_COUNT(savings));
            const char *what = "";
            must(network_train(&kept[n], &target, 2, 2, &many));
            if (!(network_difference(&many, &one, &what) < 1e-12))
                fail_msg("%s, %s, shard %s: %s is off", kept[n].name, tp_places[p].mesh, target.shard->name, what);
            network_free(&many);
            must(network_verify(&kept[n], &target, 1 + (int)p % 2));
        }
        network_free(&one);
    }
}

/* --- bytes -------------------------------------------------------------------------------------------------------- */

static double persistent(const ls_image *image, ls_buffer_kind kind) {
    double bytes = 0;
    for (int i = 0; i < image->n_buffers; i++)
        if (image->buffers[i].program < 0 && image->buffers[i].kind == kind) bytes += (double)image->buffers[i].bytes;
    return bytes;
}

/* Bytes of a program's puts over channels whose names begin so. */
static double sent(const ls_image *image, int program, const char *channel) {
    const ls_program *p = &image->programs[program];
    double bytes = 0;
    for (int i = 0; i < p->n_instrs; i++) {
        const ls_instr *instr = &p->instrs[i];
        if (instr->kind == LS_INSTR_PUT && strncmp(p->channels[instr->channel].name, channel, strlen(channel)) == 0)
            bytes += (double)ls_view_bytes(&instr->in[0].view);
    }
    return bytes;
}

/*
 * Of n elements that are trained and all elements, a, of types T and G, on P ranks: a·T of values, or a·T/P; n·G of
 * gradients and n·3G of the optimiser, each whole or its shard. Of gradients (P-1)/P n·G are sent, and of what has been
 * updated (P-1)/P n·T, where values are whole. What is kept in another type counts in that.
 */
static void check_bytes(const ls_image *image, const ls_shard_mode *m) {
    const bool kept = image->n_typed_pieces < image->n_pieces;
    const double P = ls_mesh_ranks(&image->mesh), all = (double)image->flat_elements,
                 n = (double)image->trained_elements, T = (double)ls_dtype_bytes(image->dtype),
                 G = (double)ls_dtype_bytes(image->accumulator);
    const double F = kept ? (double)ls_dtype_bytes(image->flats[image->n_flats - 1].dtype) : T;
    const double states = image->dtype == image->accumulator ? 2 : 3; /* and a master */
    const int micro = ls_program_find(image, LS_PROGRAM_MICRO), step = ls_program_find(image, LS_PROGRAM_STEP);
    const double values = kept ? n * T + (all - n) * F : all * T;
    assert_true(persistent(image, LS_BUFFER_PARAMETER) == (m->parameters ? values / P : values));
    assert_true(persistent(image, LS_BUFFER_GRADIENT) == G * (m->gradients ? n / P : n + n / P));
    assert_true(persistent(image, LS_BUFFER_OPTIMIZER) == states * G * (m->state ? n / P : n));
    assert_true(sent(image, micro, "gradients.") == (m->gradients ? n * G * (P - 1) / P : 0));
    assert_true(sent(image, step, "gradients.") == n * G * (P - 1) / P);
    assert_true(sent(image, step, "sums.") == (m->state ? 0 : n * G * (P - 1) / P));
    if (m->parameters) {
        assert_true(sent(image, step, "parameters.") > values * (P - 1) / P); /* for both passes, but for one group */
        assert_true(sent(image, step, "parameters.") <= 2 * values * (P - 1) / P);
    } else {
        assert_true(sent(image, micro, "parameters.") == 0);
        assert_true(sent(image, step, "parameters.") == (m->state ? n * T * (P - 1) / P : 0));
    }
}

static image_set images_of(ls_dtype dtype, bool kept, const ls_target *target) {
    ls_graph *g = ls_graph_create(dtype);
    return images_of_loss(g, kept ? kept_llama(g) : frozen_llama(g), target, true, NULL);
}

static void test_bytes(void **state) {
    (void)state;
    static const struct {
        ls_dtype dtype;
        bool kept;
    } cases[] = {{LS_BF16, false}, {LS_F32, false}, {LS_F32, true}};
    for (int mode = 0; mode < LS_SHARD_MODES; mode++) {
        for (size_t d = 0; d < LS_COUNT(cases); d++) {
            const ls_target target = {.mesh = mesh_of(2, 1, 2),
                                      .strategy = "ulysses",
                                      .isa = LS_ISA_BASE,
                                      .threads = 1,
                                      .shard = &ls_shard_modes[mode]};
            image_set set = images_of(cases[d].dtype, cases[d].kept, &target);
            assert_true(set.image[0]->trained_elements < set.image[0]->flat_elements / 4);
            check_bytes(set.image[0], target.shard);
            free_images(&set);
        }
    }
}

/* --- shards ------------------------------------------------------------------------------------------------------- */

/* What a rank owns follows from the parameters and the number of ranks, not from how the mesh divides these. */
static void test_shards_follow_no_mesh(void **state) {
    (void)state;
    static const struct {
        int dp, ring, ulysses;
        const char *strategy;
    } meshes[] = {{8, 1, 1, "local"}, {1, 8, 1, "ring"}, {1, 2, 4, "usp"}};
    for (int mode = 0; mode < LS_SHARD_MODES; mode++) {
        image_set sets[LS_COUNT(meshes)];
        for (size_t i = 0; i < LS_COUNT(meshes); i++) {
            const ls_target target = {.mesh = mesh_of(meshes[i].dp, meshes[i].ring, meshes[i].ulysses),
                                      .strategy = meshes[i].strategy,
                                      .isa = LS_ISA_BASE,
                                      .threads = 1,
                                      .shard = &ls_shard_modes[mode]};
            ls_graph *g = ls_graph_create(LS_F32);
            sets[i] = images_of_loss(g, freeze(g, loss_of_layers(g, 8, 16, 2)), &target, true, NULL);
        }
        for (size_t i = 1; i < LS_COUNT(meshes); i++) {
            const ls_image *a = sets[0].image[0], *b = sets[i].image[0];
            assert_int_equal(a->n_pieces, b->n_pieces);
            for (int r = 0; r < 8; r++) {
                for (int k = 0; k < a->n_pieces; k++) {
                    const ls_flat_piece x = ls_image_piece(a, k, r), y = ls_image_piece(b, k, r);
                    assert_true(x.start == y.start && x.count == y.count && x.at == y.at);
                }
            }
        }
        for (size_t i = 0; i < LS_COUNT(meshes); i++) free_images(&sets[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_proofs),
        cmocka_unit_test(test_common),
        cmocka_unit_test(test_common_is_not_written),
        cmocka_unit_test(test_sharers),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_shards_follow_no_mesh),
        cmocka_unit_test(test_kept_biases_leave_the_cuts),
        cmocka_unit_test(test_kept_along_tp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
