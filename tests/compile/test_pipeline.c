/*
 * Pipelines: stages of ranks have some layers each, and micro-batches go through them. Loss, gradients and updated
 * parameters are those of one rank with as many micro-batches, for every schedule, mesh within a stage, shard mode and
 * saving; both verifiers accept the programs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../examples/graphs/graphs.h"
#include "support/meshes.h"
#include "support/network.h"

enum { V = 17 };

#define MODEL(type, heads, kv_heads, more)                                                               \
    "{\"architectures\": [\"" type "\"], \"vocab_size\": 17, \"hidden_size\": 24, \"n_embd\": 24,"       \
    " \"intermediate_size\": 22, \"n_inner\": 22, \"num_hidden_layers\": 4, \"n_layer\": 4,"             \
    " \"num_attention_heads\": " heads ", \"n_head\": " heads ", \"num_key_value_heads\": " kv_heads "," \
    " \"max_position_embeddings\": 64" more "}"

/* Tables that are head and embedding at once belong to the first stage, and the last one reads them. */
static const network networks[] = {
    {"Llama", .config = MODEL("LlamaForCausalLM", "6", "3", ", \"tie_word_embeddings\": false"), .ids = V, .B = 2,
     .S = 36},
    {"GPT-2", .config = MODEL("GPT2LMHeadModel", "6", "6", ""), .ids = V, .B = 2, .S = 24},
    {"Llama with biases",
     .config = MODEL("LlamaForCausalLM", "4", "2",
                     ", \"tie_word_embeddings\": true, \"attention_bias\": true, \"mlp_bias\": true"),
     .ids = V, .B = 2, .S = 24},
};

static const struct {
    const char *mesh, *strategy;
    int micro, own;
    int schedule;
    int slices;
} places[] = {
    {"pp=2", "local", 1, 1, 0, 1},
    {"pp=2", "local", 2, 1, 0, 1},
    {"pp=2", "local", 4, 2, 1, 1},
    {"pp=3", "local", 4, 1, 0, 1},
    {"pp=4", "local", 5, 1, 2, 1},
    {"pp=2,dp=2", "local", 3, 1, 0, 1},
    {"pp=2,ring=2", "ring", 2, 2, 1, 1},
    {"pp=2,ulysses=2", "ulysses", 3, 1, 2, 1},
    {"pp=2,tp=2", "local", 3, 1, 0, 1},
    {"pp=2,dp=2,ring=2", "ring", 2, 1, 0, 1},
    {"pp=3,ring=2,tp=2", "ring", 3, 1, 2, 1},
    {"pp=3,tp=2", "local", 3, 2, 1, 1},
    {"pp=2", "local", 1, 1, 0, 2},
    {"pp=2", "local", 2, 1, 2, 4},
    {"pp=2", "local", 1, 2, 1, 4},
    {"pp=3", "local", 1, 1, 0, 3},
    {"pp=2,ring=2", "ring", 1, 1, 0, 3},
    {"pp=2,ulysses=2", "ulysses", 2, 2, 1, 2},
    {"pp=2,dp=2,ring=2", "gather", 1, 1, 2, 3},
    {"pp=2,ring=2,ulysses=2", "usp", 1, 1, 0, 4},
    {"pp=4,tp=2", "local", 2, 1, 2, 4},
};

static const ls_saving savings[] = {{0},
                                    {.drop = 1 << 20},
                                    {.drop = 3, .tile = LS_TILE_ALL, .tile_rows = 3},
                                    {.offload = 1 << 20, .offload_state = true},
                                    {.drop = 5, .offload = 4}};

/* As one rank has it: gradients of a step, parameters after two; and both verifiers accept the programs. */
static void check_target(const network *n, const ls_target *target, int micro, const char *name) {
    const ls_target alone = {.mesh = mesh_of(1, 1, 1), .strategy = "local", .threads = 1};
    network_result one, all;
    const char *what = "";
    ls_status status = network_accumulate(n, &alone, micro, &one);
    if (status.code == LS_OK) status = network_accumulate(n, target, micro, &all);
    if (status.code != LS_OK) fail_msg("%s: %s", name, status.text);
    const double gradients = network_difference(&all, &one, &what);
    if (!(gradients <= 1e-12)) fail_msg("%s: %s is off by %g", name, what, gradients);
    network_free(&one);
    network_free(&all);
    status = network_train(n, &alone, micro, 2, &one);
    if (status.code == LS_OK) status = network_train(n, target, micro, 2, &all);
    if (status.code != LS_OK) fail_msg("%s: %s", name, status.text);
    const double parameters = network_difference(&all, &one, &what);
    if (!(parameters <= 1e-12)) fail_msg("%s: %s is off by %g after two steps", name, what, parameters);
    network_free(&one);
    network_free(&all);
    status = network_verify(n, target, micro);
    if (status.code != LS_OK) fail_msg("%s: %s", name, status.text);
}

static void check(const network *n, int place, int shard, const ls_saving *saving) {
    ls_target target = {.strategy = places[place].strategy,
                        .threads = 1,
                        .stage_chunks = places[place].own,
                        .schedule = ls_pipeline_schedule_at(places[place].schedule),
                        .slices = places[place].slices,
                        .shard = &ls_shard_modes[shard],
                        .saving = *saving};
    char name[200];
    const int micro = places[place].micro;
    snprintf(name, sizeof name, "%s on %s, %s, %d micro-batches of %d slices, shard %s", n->name, places[place].mesh,
             ls_pipeline_schedule_name(target.schedule), micro, target.slices, ls_shard_modes[shard].name);
    assert_int_equal(ls_mesh_parse(places[place].mesh, &target.mesh).code, LS_OK);
    check_target(n, &target, micro, name);
}

static void test_every_place(void **state) {
    (void)state;
    for (size_t i = 0; i < 2 * LS_COUNT(places); i++)
        check(&networks[i % LS_COUNT(networks)], (int)(i / 2), (int)i % LS_SHARD_MODES,
              &savings[i / 2 % LS_COUNT(savings)]);
}

/* Which parameters are whole matrices is known of those of other stages, too. */
static void test_matrices_of_stages(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        network n = networks[i % 2];
        n.optimizer = &ls_optimizer_muon;
        check(&n, 2 + i, i % LS_SHARD_MODES, &savings[0]);
    }
}

static void test_chaos_changes_nothing(void **state) {
    (void)state;
    ls_target target = {.strategy = "ring", .threads = 1};
    assert_int_equal(ls_mesh_parse("pp=2,ring=2", &target.mesh).code, LS_OK);
    const ls_status status = network_under_chaos(&networks[1], &target, 3);
    if (status.code != LS_OK) fail_msg("%s", status.text);
    target.slices = 4;
    const ls_status sliced = network_under_chaos(&networks[1], &target, 2);
    if (sliced.code != LS_OK) fail_msg("in slices: %s", sliced.text);
}

/* Attention that does not look ahead of a slice, by windows too, and gradients of sinks. */
static void test_masks_of_slices(void **state) {
    (void)state;
    static const ls_mask_term window = {.kind = LS_MASK_WINDOW, .window = 7},
                              wide = {.kind = LS_MASK_WINDOW, .window = 20, .first = 2};
    const ls_mask masks[] = {{.n = 1, .term = {window}}, {.n = 1, .term = {wide}}};
    for (size_t m = 0; m < LS_COUNT(masks); m++) {
        for (int slices = 2; slices <= 6; slices++) {
            network n = networks[0];
            n.mask = &masks[m];
            ls_target target = {.strategy = slices % 2 == 0 ? "ring" : "gather", .threads = 1, .slices = slices};
            if (n.S % slices != 0) continue;
            assert_int_equal(ls_mesh_parse("pp=2,ring=2", &target.mesh).code, LS_OK);
            check_target(&n, &target, 1, "masks of slices");
        }
    }
}

/* Two tensors go through all layers, so that no place is crossed by one alone but near the ends. */
static ls_tensor two_streams(ls_graph *g) {
    enum { B = 2, S = 8, E = 4 };
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S);
    ls_tensor x = ls_embedding(g, tokens, ls_parameter(g, "first", 2, (int64_t[]){V, E})),
              y = ls_embedding(g, tokens, ls_parameter(g, "second", 2, (int64_t[]){V, E}));
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        const ls_tensor w = ls_parameter(g, name, 2, (int64_t[]){E, E});
        x = ls_linear(g, x, w, LS_NO_TENSOR);
        y = ls_linear(g, y, w, LS_NO_TENSOR);
    }
    return ls_sum(g, ls_mul(g, x, y));
}

static void refused(const network *n, const char *mesh, int slices, const char *words) {
    ls_target target = {.strategy = "local", .threads = 1, .slices = slices};
    network_result result;
    assert_int_equal(ls_mesh_parse(mesh, &target.mesh).code, LS_OK);
    const ls_status status = network_accumulate(n, &target, 2, &result);
    assert_int_equal(status.code, LS_UNSUPPORTED);
    if (strstr(status.text, words) == NULL) fail_msg("expected \"%s\" in: %s", words, status.text);
}

static void test_what_cannot_be_cut_is_refused(void **state) {
    (void)state;
    static const network streams = {"two streams", two_streams, .ids = V};
    static const network timemix = {"timemix", timemix_loss, .ids = V};
    static const ls_mask full = {.n = 0};
    network sees_all = networks[0];
    sees_all.mask = &full;
    refused(&networks[0], "pp=100", 1, "expected 99 at least");
    refused(&streams, "pp=4", 1, "several tensors cross");
    refused(&timemix, "pp=2", 23, "needs neighbouring tokens of a sequence; expected attention");
    refused(&sees_all, "pp=2", 2, "sees token 35, of a later slice; expected a causal mask");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_place), cmocka_unit_test(test_matrices_of_stages),
                                       cmocka_unit_test(test_chaos_changes_nothing),
                                       cmocka_unit_test(test_masks_of_slices),
                                       cmocka_unit_test(test_what_cannot_be_cut_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
