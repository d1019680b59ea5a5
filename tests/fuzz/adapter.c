/*
 * Any --lora, and any adapter_config.json with any adapter_model.safetensors, are refused, or make an adapter of a
 * small graph, whose own config can be read again. The input is the three of them, separated by the byte 0x1e.
 */
#include "adapter/adapter.h"
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

/* A table, a product, and a head that is the table again. */
static ls_tensor build(ls_graph *g) {
    const ls_tensor ids = ls_tokens(g, "tokens", 1, 3);
    const ls_tensor table = ls_parameter(g, "table.weight", 2, (int64_t[]){5, 4});
    const ls_tensor weight = ls_parameter(g, "layers.0.up.weight", 2, (int64_t[]){4, 4});
    const ls_tensor x = ls_linear(g, ls_embedding(g, ids, table), weight, LS_NO_TENSOR);
    return ls_linear_wide(g, x, table);
}

static void check_text(const ls_adapter *adapter) {
    ls_json *document;
    char *text;
    LS_ASSERT(fuzz_done(ls_adapter_text(adapter, "base", &text)));
    LS_ASSERT(fuzz_done(ls_json_parse("text", text, strlen(text), &document)));
    const char *base = NULL;
    LS_ASSERT(fuzz_done(ls_json_text(ls_json_root(document), "base_model_name_or_path", &base)));
    LS_ASSERT(strcmp(base, "base") == 0);
    ls_json_free(document);
    free(text);
}

static void open(const ls_adapter_choice *choice) {
    ls_adapter *adapter;
    char line[300];
    if (!fuzz_done(ls_adapter_open(choice, &adapter))) return;
    ls_graph *g = ls_graph_create(LS_F32);
    const ls_tensor logits = build(g);
    const ls_weight_copy copy = {"head.weight", "table.weight"};
    if (fuzz_done(ls_adapter_resolve(adapter, g, logits, &copy, 1))) {
        ls_adapter_print(adapter, line, sizeof line);
        check_text(adapter);
    }
    ls_graph_destroy(g);
    ls_adapter_close(adapter);
}

static void run(const uint8_t *data, size_t bytes) {
    fuzz_bytes rest = {data, bytes};
    const fuzz_bytes lora = fuzz_part(&rest), config = fuzz_part(&rest);
    char *text = fuzz_text(lora.at, lora.n);
    fuzz_folder folder = fuzz_folder_make();
    fuzz_folder_put(&folder, LS_ADAPTER_CONFIG, config.at, config.n);
    fuzz_folder_put(&folder, LS_ADAPTER_WEIGHTS, rest.at, rest.n);
    open(&(ls_adapter_choice){.lora = text});
    open(&(ls_adapter_choice){.folder = folder.path});
    fuzz_folder_remove(&folder);
    free(text);
}

const fuzz_target fuzz_adapter = {.name = "adapter", .run = run};
