/*
 * Any graph.json is refused, or gives a model with positive sizes, a graph that builds again in each type or is refused
 * by name, and that is made longer to generate or refused by name.
 */
#include "fuzz/fuzz.h"
#include "graph/graph.h"
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

/* At the sizes at which opening has built it, f32 must build; bf16 and other sizes may be refused. */
static void build(const ls_model *model, ls_dtype dtype, int64_t S) {
    ls_graph *graph = ls_graph_create(dtype);
    ls_language_model lm = {0};
    const bool built = fuzz_done(ls_model_build(model, graph, 2, S, true, &lm));
    LS_ASSERT(built || dtype != LS_F32 || S != 16);
    if (built) {
        LS_ASSERT(lm.forward_nodes > 0 && ls_graph_has(graph, lm.loss) && ls_graph_has(graph, lm.tokens));
        const ls_shape *loss = &ls_graph_tensor(graph, lm.loss)->shape;
        LS_ASSERT(loss->ndim == 1 && loss->dim[0].size == 1);
    }
    ls_graph_destroy(graph);
}

static void decode(const ls_model *model) {
    ls_graph *graph = ls_graph_create(LS_F32), *longer = ls_graph_create(LS_F32);
    ls_language_model lm = {0};
    ls_decoding decoding;
    if (fuzz_done(ls_model_build_growing(model, graph, 3, 16, &lm)) && lm.logits.id != 0 &&
        fuzz_done(ls_graph_decode(graph, lm.logits, longer, &decoding)))
        LS_ASSERT(ls_graph_has(longer, decoding.logits));
    ls_graph_destroy(graph);
    ls_graph_destroy(longer);
}

static void run(const uint8_t *data, size_t bytes) {
    char *text = fuzz_text(data, bytes);
    ls_model *model;
    if (fuzz_read(ls_model_open_text("fuzz", text, &model), "fuzz")) {
        const ls_model_sizes n = ls_model_describe(model);
        char line[400];
        LS_ASSERT(n.V > 0 && n.outputs > 0 && n.longest > 0 && ls_model_parameters(model) > 0);
        LS_ASSERT(strcmp(ls_model_written(model).text, text) == 0);
        ls_model_print(model, line, sizeof line);
        if (strcmp(ls_model_written(model).file, "graph.json") == 0) { /* or a config.json: config.c */
            build(model, LS_F32, 16);
            build(model, LS_BF16, 7);
            decode(model);
        }
        ls_model_close(model);
    }
    free(text);
}

const fuzz_target fuzz_imported = {.name = "imported", .run = run};
