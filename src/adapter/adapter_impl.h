/* adapter: shared by the files of this folder. */
#ifndef LS_ADAPTER_IMPL_H
#define LS_ADAPTER_IMPL_H

#include "adapter/adapter.h"
#include "format/format.h"

/* A tensor of a module's adapter. */
typedef enum ls_adapter_part {
    LS_ADAPTER_A,
    LS_ADAPTER_B,
    LS_ADAPTER_TABLE_A, /* of an embedding: [r, rows] */
    LS_ADAPTER_TABLE_B, /* of an embedding: [width, r] */
    LS_ADAPTER_MAGNITUDE,
    LS_ADAPTER_PARTS
} ls_adapter_part;
/* The suffix after the module's name: ".lora_A.weight". */
extern const char *const ls_adapter_endings[LS_ADAPTER_PARTS];

/* A module with an adapter. */
typedef struct ls_adapted {
    const char *name;
    int64_t r;
    double scaling;
    bool table;      /* rows of its weight are looked up */
    bool transposed; /* its weight is [from, to] */
} ls_adapted;

/* A number for the modules that match a regular expression, as in peft. */
typedef struct ls_adapter_pattern {
    const char *key;
    double value;
} ls_adapter_pattern;

struct ls_adapter {
    ls_arena *arena;
    const char *source; /* origin of the adapter, for errors */
    bool dora, rslora;
    int64_t r;
    double alpha;
    bool is_new, all_linear;
    const char *scoring;           /* the head of a model that scores; NULL: the model does not score */
    const char **targets, **saves; /* patterns of a new adapter */
    int n_targets, n_saves;
    ls_adapter_pattern *alphas;
    int n_alphas;
    const char *text, *base; /* of an adapter of a folder */
    ls_st_file *file;        /* of an adapter of a folder */
    ls_adapted *modules;     /* modules of the model that have an adapter */
    const char **saved;      /* names of parameters that are trained whole */
    const char **others;     /* modules without an adapter */
    int n_modules, n_saved, n_others;
    size_t modules_room, saved_room, others_room;
    int64_t elements; /* number of trained elements */
};

/*
 * Finds the module and the part in a tensor's name, without the prefix of files; NULL: the tensor is not a part of an
 * adapter.
 */
const char *ls_adapter_module_of(ls_arena *arena, const char *name, ls_adapter_part *part);
/* The module with an adapter whose weight this parameter is; NULL: none. */
const ls_adapted *ls_adapter_of(const ls_adapter *adapter, const char *parameter);
/* The parameter of a module with this suffix: one of ls_adapter_endings, or ".weight". NULL: none. */
const ls_flat *ls_adapter_flat(const ls_image *image, const ls_adapted *module, const char *ending);
/* Whether a parameter of the model is trained whole. */
bool ls_adapter_saves(const ls_adapter *adapter, const char *parameter);
/* Whether a tensor of a file is a copy of one of the model's own, which peft writes beside some adapters. */
bool ls_adapter_is_copy(const char *name);
/* The name of a tensor of a file without prefixes such as base_model.model. */
const char *ls_adapter_plain_name(ls_arena *arena, const char *name);

/* adapter_config.json, and --lora (config.c). */
LS_MUST_USE ls_status ls_adapter_read_config(const char *folder, ls_adapter *adapter);
LS_MUST_USE ls_status ls_adapter_parse(const char *text, ls_adapter *adapter);
/* The scaling of a module, found by its name: alpha / r or alpha / sqrt(r). */
double ls_adapter_scaling(const ls_adapter *adapter, const char *module, int64_t r);

/* y = m ⊙ (base + scaling·(x Aᵀ)Bᵀ) / norms + bias; bias may be LS_NO_TENSOR (dora.c). */
typedef struct ls_dora {
    const ls_node *base; /* the product, with inputs of the graph that is being filled */
    const ls_adapted *module;
    ls_tensor product, low, a, b; /* x Wᵀ without its bias, (x Aᵀ)Bᵀ, A, B */
    ls_tensor magnitude, bias;
} ls_dora;
ls_tensor ls_dora_add(ls_graph *graph, const ls_dora *dora);

#endif
