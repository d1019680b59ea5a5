/* Any config.json is refused, or gives a model with positive sizes and a graph that builds. */
#include "fuzz/fuzz.h"
#include "graph/graph.h"
#include "graph/graph_impl.h"
#include "model/model.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rotary frequencies and magnitudes are finite and not negative. */
static void check_rope(const ls_graph *graph) {
    for (int n = 0; n < graph->n_nodes; n++) {
        const ls_node *node = &graph->nodes[n];
        if (node->op != &ls_op_rope_table) continue;
        const ls_rope_params *params = node->params;
        const int64_t D = ls_graph_tensor(graph, node->out[0])->shape.dim[2].size;
        LS_ASSERT(isfinite(ls_rope_magnitude(params)) && ls_rope_magnitude(params) > 0);
        for (int64_t i = 0; i < D / 2; i++) {
            const float frequency = ls_rope_frequency(params, i, D);
            LS_ASSERT(isfinite(frequency) && frequency >= 0);
        }
    }
}

/* Builds the graph of a small model's training step. */
static void build(const ls_model *model) {
    const int64_t S = ls_min(3, ls_model_describe(model).longest);
    ls_graph *graph = ls_graph_create(LS_F32);
    ls_language_model lm;
    LS_ASSERT(fuzz_done(ls_model_build(model, graph, 2, S, true, &lm)));
    LS_ASSERT(lm.forward_nodes > 0);
    check_rope(graph);
    ls_graph_destroy(graph);
}

static void run(const uint8_t *data, size_t bytes) {
    char *text = fuzz_text(data, bytes);
    ls_model *model;
    if (fuzz_read(ls_model_open_text("fuzz", text, &model), "fuzz")) {
        LS_ASSERT(strcmp(ls_model_written(model).text, text) == 0);
        const ls_model_sizes n = ls_model_describe(model);
        const bool config = strcmp(ls_model_written(model).file, "config.json") == 0; /* or a graph.json: imported.c */
        LS_ASSERT(!config ||
                  (n.V > 0 && n.E > 0 && n.F > 0 && n.L > 0 && n.Hq > 0 && n.Hkv > 0 && n.D > 0 && n.longest > 0));
        LS_ASSERT(isfinite(n.initializer_range) && ls_model_parameters(model) > 0);
        if (config && n.L <= 4) build(model);
        ls_model_close(model);
    }
    free(text);
}

const fuzz_target fuzz_config = {.name = "config", .run = run};
