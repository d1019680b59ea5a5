/* model: what its own files share. */
#ifndef LS_MODEL_IMPL_H
#define LS_MODEL_IMPL_H

#include "format/format.h"
#include "model/model.h"

/* Everything that a config.json says and a builder needs, checked. Texts are literals. */
typedef struct ls_model_config {
    ls_model_sizes sizes;
    double epsilon; /* of the norms */
    ls_rope rope;
    bool attention_bias, mlp_bias;
} ls_model_config;

/* An architecture is one file with one const row; the visible table is in model.c. */
typedef struct ls_architecture {
    const char *name;       /* as in "architectures" */
    const char *model_type; /* as in "model_type" */
    /* Reads and checks the fields of a config.json. */
    ls_status (*configure)(ls_json_value root, ls_model_config *out);
    /* i32[B,S] ids and positions -> logits G[B,S,V]. Mistakes stay in the graph. */
    ls_tensor (*build)(const ls_model_config *config, ls_graph *graph, ls_tensor tokens, ls_tensor positions);
    /* Endings of the names of tensors that files may hold and that are not trained; NULL at the end. */
    const char *const *derived;
    /* Names of the head and of the embedding table that a tied head is: files may hold both. */
    const char *head, *table;
    const char *prefix; /* that files of the model without its head leave out of all names; NULL: none */
} ls_architecture;

extern const ls_architecture ls_architecture_llama;
ls_status ls_llama_configure(ls_json_value root, ls_model_config *out);

struct ls_model {
    const ls_architecture *architecture;
    ls_model_config config;
    int64_t parameters;
    char directory[LS_FILE_PATH];
    char *text; /* of config.json */
};

#endif
