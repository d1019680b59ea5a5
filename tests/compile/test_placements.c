/*
 * The placements that are found for the six architectures, of every parameter and of what every node makes and wants,
 * held against tests/compile/placements.txt: Megatron's cuts along tp, Ulysses' tokens along ulysses. With the argument
 * "print" the page is printed anew.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compile/compile_impl.h"
#include "model/model.h"

#define MODEL(type, more)                                                                                   \
    "{\"architectures\": [\"" type "\"], \"vocab_size\": 32, \"hidden_size\": 16, \"n_embd\": 16,"          \
    " \"intermediate_size\": 24, \"n_inner\": 24, \"num_hidden_layers\": 1, \"n_layer\": 1, \"n_head\": 4," \
    " \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 64" more "}"

static const struct {
    const char *name, *config;
} models[] = {
    {"Llama", MODEL("LlamaForCausalLM", "")},
    {"Mistral", MODEL("MistralForCausalLM", ", \"sliding_window\": 12")},
    {"Qwen2", MODEL("Qwen2ForCausalLM", ", \"tie_word_embeddings\": true")},
    {"Qwen3", MODEL("Qwen3ForCausalLM", ", \"head_dim\": 4")},
    {"GPT-2", MODEL("GPT2LMHeadModel", "")},
    {"Gemma 2", MODEL("Gemma2ForCausalLM", ", \"head_dim\": 4, \"sliding_window\": 12, \"query_pre_attn_scalar\": 4,"
                                           " \"attn_logit_softcapping\": 2, \"final_logit_softcapping\": 3")},
};

static const char *const meshes[] = {"tp=2", "ulysses=2", "dp=2,ring=2,tp=2", "ring=2,ulysses=2,tp=2"};

/* "[ring, tp]": the axes that cut each dimension, "-" where none does; behind it those along which it is a sum. */
static void print_placements(const ls_mesh *mesh, const ls_placements *p, int ndim, FILE *out) {
    char axes[64];
    for (int d = 0; d < ndim; d++) {
        char *at = axes;
        ls_mesh_text(mesh, p->cut[d], axes, sizeof axes);
        for (char *from = axes; *from != 0; from++) /* the names without the sizes */
            if (*from != '=' && (*from < '0' || *from > '9')) *at++ = *from == ',' ? '+' : *from;
        *at = 0;
        fprintf(out, "%s%s", d == 0 ? "[" : ", ", axes[0] != 0 ? axes : "-");
    }
    fprintf(out, ndim == 0 ? "[]" : "]");
    ls_mesh_text(mesh, p->partial, axes, sizeof axes);
    if (p->partial != 0) fprintf(out, " sum over %s", axes);
}

static void print_node(const ls_graph *g, const ls_mesh *mesh, const ls_sharding *s, int n, FILE *out) {
    const ls_node *node = &g->nodes[n];
    fprintf(out, "  %s:", node->op->name);
    for (int o = 0; o < node->n_out; o++) {
        fprintf(out, o == 0 ? " " : "; ");
        print_placements(mesh, &s->tensor[node->out[o].id], ls_graph_tensor(g, node->out[o])->shape.ndim, out);
    }
    fputc('\n', out);
    for (int i = 0; i < node->n_in; i++) {
        const ls_placements *have = &s->tensor[node->in[i].id], *want = &s->wanted[n * LS_NODE_INPUTS + i];
        const ls_tensor_info *info = ls_graph_tensor(g, node->in[i]);
        if (ls_placements_equal(have, want)) continue;
        fprintf(out, "    input %d: ", i);
        print_placements(mesh, have, info->shape.ndim, out);
        fprintf(out, " -> ");
        print_placements(mesh, want, info->shape.ndim, out);
        fputc('\n', out);
    }
}

static void print_model(const char *name, const char *config, const char *text, FILE *out) {
    ls_model *model;
    ls_language_model lm;
    ls_mesh mesh;
    ls_sharding s;
    ls_arena *arena = ls_arena_create();
    ls_graph *g = ls_graph_create(LS_F32);
    ls_status status = ls_model_open_text(name, config, &model);
    if (status.code == LS_OK) status = ls_model_build(model, g, 4, 16, true, &lm);
    ls_model_close(model);
    if (status.code == LS_OK) status = ls_mesh_parse(text, &mesh);
    if (status.code == LS_OK) status = ls_shard(g, g->n_nodes, &mesh, arena, &s);
    if (status.code != LS_OK) fail_msg("%s, %s: %s", name, text, status.text);
    fprintf(out, "\n%s, --mesh %s\n", name, text);
    for (int t = 1; t < g->n_tensors; t++) {
        if (g->tensors[t].role != LS_ROLE_PARAMETER) continue;
        fprintf(out, "  %s ", g->tensors[t].name);
        print_placements(&mesh, &s.tensor[t], g->tensors[t].shape.ndim, out);
        fputc('\n', out);
    }
    for (int n = 0; n < g->n_nodes; n++) {
        if (n == g->forward_nodes) fprintf(out, "  backward\n");
        print_node(g, &mesh, &s, n, out);
    }
    ls_graph_destroy(g);
    ls_arena_destroy(arena);
}

static void print_all(FILE *out) {
    fprintf(out, "Placements of parameters, and of what nodes make and want: the axes that cut each dimension.\n");
    for (size_t m = 0; m < LS_COUNT(models); m++)
        for (size_t i = 0; i < LS_COUNT(meshes); i++) print_model(models[m].name, models[m].config, meshes[i], out);
}

static void test_golden(void **state) {
    (void)state;
    char *page = NULL, is[256], expected[256];
    size_t bytes;
    FILE *out = open_memstream(&page, &bytes), *golden = fopen(LS_TEST_REFERENCE "/../compile/placements.txt", "r");
    assert_non_null(golden);
    print_all(out);
    fclose(out);
    FILE *in = fmemopen(page, bytes, "r");
    int line = 0;
    for (;;) {
        const char *a = fgets(is, sizeof is, in), *b = fgets(expected, sizeof expected, golden);
        line++;
        if (a == NULL && b == NULL) break;
        if (a == NULL || b == NULL || strcmp(a, b) != 0)
            fail_msg("placements.txt, line %d: \"%s\", found \"%s\"", line, b != NULL ? expected : "",
                     a != NULL ? is : "");
    }
    assert_true(line > 100);
    fclose(in);
    fclose(golden);
    free(page);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "print") == 0) {
        print_all(stdout);
        return 0;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
