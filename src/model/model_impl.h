/* model: for the files of this folder: kinds of models, the architecture's row, reading a config, building layers. */
#ifndef LS_MODEL_IMPL_H
#define LS_MODEL_IMPL_H

#include "format/format.h"
#include "model/model.h"

#define LS_MOST_LAYERS (1 << 12)

/* A function of one element within a feed-forward block. */
typedef ls_tensor (*ls_activation)(ls_graph *graph, ls_tensor x);

/* Which layers attend to a window if the config has no layer_types: first, first + every, first + 2·every, ... */
typedef struct ls_window_rule {
    bool on;              /* false: no layer has a window */
    int64_t first, every; /* every 0: no layer has a window, and layer_types is not read */
} ls_window_rule;

/* All of a config.json that a builder needs, checked. Texts are literals. */
typedef struct ls_model_config {
    ls_model_sizes sizes;
    double epsilon;     /* of the norms */
    double norm_offset; /* added to the weights of norms; 1 for weights that are trained around 0 */
    ls_rope rope;       /* theta 0: positions are learned */
    ls_activation activation;
    bool qkv_bias, output_bias; /* of attention's projections */
    bool mlp_bias;
    bool head_norms;                      /* heads of queries and keys are normalised before they are rotated */
    double query_scalar;                  /* attention_scale is 1/sqrt(query_scalar); 0: 1/sqrt(head size) */
    bool scaled;                          /* GPT-2: attention_scale is 1/sqrt(head size); otherwise 1 */
    double attention_scale;               /* factor of q·k */
    bool scale_by_layer;                  /* attention_scale is divided by the layer's number, counted from 1 */
    double attention_cap, final_cap;      /* soft caps of attention's logits and of the model's logits; 0: none */
    int64_t window;                       /* in tokens; 0: no layer has a window */
    ls_window_rule windows;               /* which layers have the window */
    uint8_t windowed[LS_MOST_LAYERS / 8]; /* the result of that: a bit for each layer */
} ls_model_config;

typedef struct ls_config_field ls_config_field;
typedef struct ls_config_rule ls_config_rule;

/* What a family of architectures has in common in its config.json and in its files of weights. */
typedef struct ls_form {
    const ls_config_field *fields; /* ends with LS_CONFIG_END */
    const ls_config_rule *rules;
    /* Reads the rest, computes what follows from the fields, and checks them together. */
    ls_status (*complete)(ls_json_value root, ls_model_config *out);
    /* Suffixes of the names of tensors in files that are no parameters and are not read; NULL at the end. */
    const char *const *derived;
    /* Names of the head and of the embedding table. A file of a model whose head is tied may hold both. */
    ls_weight_copy tie;
    const char *prefix; /* of all names; files of a model without its head may leave it out. NULL: none */
} ls_form;

extern const ls_form ls_decoder_form; /* decoder.c */

/* An architecture is one const row; the table of all is in architectures.c. */
typedef struct ls_architecture {
    const char *name;       /* as in "architectures" */
    const char *model_type; /* as in "model_type" */
    const ls_form *form;
    ls_model_config initial; /* defaults of missing fields. Hkv 0: like Hq; D 0: E/Hq */
    const char *activation_field;
    const ls_config_field *fields; /* fields besides those of the form, read after them; NULL: none */
    const ls_config_rule *rules;   /* rules besides those of the form; NULL: none */
    /* i32[B,S] ids and positions -> logits G[B,S,V]. The graph keeps mistakes. */
    ls_tensor (*build)(const ls_model_config *config, ls_graph *graph, ls_tensor tokens, ls_tensor positions);
} ls_architecture;

/* All architectures: the row of X is ls_architecture_X. */
#define LS_ARCHITECTURES(X) X(llama), X(mistral), X(qwen2), X(qwen3), X(gpt2), X(gemma2)
#define LS_ARCHITECTURE_ROW(name) ls_architecture_##name
extern const ls_architecture LS_ARCHITECTURES(LS_ARCHITECTURE_ROW);

/*
 * The row of the architecture that a config names, by "architectures" or, if that is missing, by "model_type"; they
 * must agree. LS_UNSUPPORTED lists the known architectures.
 */
LS_MUST_USE ls_status ls_architecture_find(ls_json_value root, const ls_architecture **out);

/* --- models, however they are written down ------------------------------------------------------------------------ */

typedef struct ls_imported ls_imported;

/* What a builder is told of the sequences. */
typedef struct ls_model_lengths {
    int64_t B, S;
    int64_t known; /* tokens before the first one that is generated; 0: nothing is generated */
} ls_model_lengths;

/* A way in which models are written down is one const row; the table of all is in model.c. */
typedef struct ls_model_kind {
    const char *file;   /* its name in the folder of a model and in checkpoints */
    const char *format; /* what the field "format" of such a file says; NULL: the file has no such field */
    size_t most_bytes;
    /* Reads a document and checks it: sets what the rest needs, model->sizes, inputs and parameters. Owns the document.
     */
    ls_status (*read)(ls_json *document, ls_model *model);
    /* Changes the rotary positions in model->text and reads it again; name: for errors. */
    ls_status (*change_rope)(const char *name, const ls_rope_change *change, ls_model *model);
    ls_status (*lengthen)(ls_model *model, int64_t S, bool *longer);
    ls_status (*check_apart)(const ls_model *model, int64_t S);
    /* Builds inputs, logits and the loss of each token and in sum. */
    ls_status (*build)(const ls_model *model, ls_graph *graph, const ls_model_lengths *lengths, ls_language_model *out);
    ls_weight_rules (*rules)(const ls_model *model);
    /* Random weights; NULL: there is no rule for them. */
    ls_status (*random)(const ls_model *model, uint64_t seed, ls_weight_source *out);
    const char *(*name)(const ls_model *model);
    void (*print)(const ls_model *model, char *out, size_t room);
    void (*put)(const ls_model *model, ls_json_writer *w);
    void (*free)(ls_model *model); /* of what `read` made */
} ls_model_kind;

extern const ls_model_kind ls_model_kind_config, ls_model_kind_graph;

struct ls_model {
    const ls_model_kind *kind;
    ls_model_sizes sizes;
    ls_model_inputs inputs;
    int64_t parameters;
    char *folder; /* NULL: the model was opened from a text */
    char *text;   /* of its file, with changes */
    /* Of a config.json: */
    const ls_architecture *architecture;
    ls_model_config config;
    /* Of a graph.json: */
    ls_imported *imported;
};

/* --- reading a config (config.c, config_rope.c) ------------------------------------------------------------------- */

typedef enum ls_field_kind { LS_FIELD_INT, LS_FIELD_REAL, LS_FIELD_FLAG } ls_field_kind;

/* A field of a config.json and the member of ls_model_config that it sets. A missing field leaves the default there. */
struct ls_config_field {
    const char *key; /* NULL: the end of a table */
    ls_field_kind kind;
    size_t at; /* of an int64_t, double or bool in ls_model_config */
    double least, most;
    bool required;
    bool null_is_zero; /* null means 0; otherwise the default */
};

#define LS_CONFIG_INT(name, member, from, to, needed)                                                          \
    {                                                                                                          \
        .key = name, .kind = LS_FIELD_INT, .at = offsetof(ls_model_config, member), .least = from, .most = to, \
        .required = needed                                                                                     \
    }
#define LS_CONFIG_INT_OR_NULL(name, member, from, to)                                                          \
    {                                                                                                          \
        .key = name, .kind = LS_FIELD_INT, .at = offsetof(ls_model_config, member), .least = from, .most = to, \
        .null_is_zero = true                                                                                   \
    }
#define LS_CONFIG_REAL(name, member, from, to, needed)                                                          \
    {                                                                                                           \
        .key = name, .kind = LS_FIELD_REAL, .at = offsetof(ls_model_config, member), .least = from, .most = to, \
        .required = needed                                                                                      \
    }
#define LS_CONFIG_REAL_OR_NULL(name, member, from, to)                                                          \
    {                                                                                                           \
        .key = name, .kind = LS_FIELD_REAL, .at = offsetof(ls_model_config, member), .least = from, .most = to, \
        .null_is_zero = true                                                                                    \
    }
#define LS_CONFIG_FLAG(name, member) \
    { .key = name, .kind = LS_FIELD_FLAG, .at = offsetof(ls_model_config, member) }
#define LS_CONFIG_WINDOW LS_CONFIG_INT_OR_NULL("sliding_window", window, 1, LS_MOST_POSITIONS)
#define LS_CONFIG_END \
    { .key = NULL }

/* Defaults that decoders with rotary positions share, for a row's `initial`. */
#define LS_DECODER_DEFAULTS .sizes.initializer_range = 0.02, .epsilon = 1e-6, .rope.theta = 10000

/* Limits far above any model, and small enough that products of a few of them do not overflow. */
#define LS_MOST_WIDTH 0x1p20
#define LS_MOST_HEADS 0x1p14
#define LS_MOST_HEAD_SIZE 0x1p12
#define LS_MOST_VOCABULARY 0x1p24
#define LS_MOST_POSITIONS 0x1.fffffffcp30 /* INT32_MAX */
#define LS_LEAST_POSITIVE 1e-30

/* A field that may have only one value, because any other value means a model that is not supported. */
struct ls_config_rule {
    const char *key; /* NULL: the end of a table */
    enum { LS_RULE_NUMBER, LS_RULE_FLAG, LS_RULE_ABSENT } kind;
    double value; /* the only supported value, and the default of a missing field. Flags: 0 or 1 */
    const char *expected;
};

/* Whether the object has the field; null counts. */
bool ls_config_is_written(ls_json_value root, const char *key);
/* LS_UNSUPPORTED names the field that breaks its rule. rules NULL: none. */
LS_MUST_USE ls_status ls_config_check(ls_json_value root, const ls_config_rule *rules);

/* Reads and checks a whole config.json by the tables of its architecture. */
LS_MUST_USE ls_status ls_config_read(ls_json_value root, const ls_architecture *architecture, ls_model_config *out);

/* Reads rope_theta and rope_scaling, or rope_parameters of newer files. out->rope.theta holds the default. */
LS_MUST_USE ls_status ls_config_rope(ls_json_value root, ls_model_config *out);

/*
 * Marks the layers with a window by layer_types, or by out->windows if that is missing. If out->window is 0, the marks
 * have no effect, and a window in layer_types is an error.
 */
LS_MUST_USE ls_status ls_config_windows(ls_json_value root, ls_model_config *out);

/* --- context extension (rope_change.c) ---------------------------------------------------------------------------- */

/* Changes the rotary positions in *text, the malloc'ed text of the config.json from which `config` was read. */
LS_MUST_USE ls_status ls_rope_change_text(const ls_model_config *config, const ls_rope_change *change, char **text);
/* Changes only max_position_embeddings. */
LS_MUST_USE ls_status ls_config_set_longest(int64_t longest, char **text);
/*
 * For a config with changed positions: raises max_position_embeddings to the length that yarn or llama3 reach. *longer:
 * it was less.
 */
LS_MUST_USE ls_status ls_rope_change_length(const ls_model_config *config, bool *longer, char **text);

/* --- building (build.c, decoder.c) -------------------------------------------------------------------------------- */

/* State of a builder while it builds a layer. */
typedef struct ls_layer {
    const ls_model_config *config;
    ls_graph *g;
    const char *prefix; /* of the names of the layers' parameters: "model.layers" */
    ls_tensor rope;     /* table of rotations, shared by all layers; empty if positions are learned */
    int64_t layer, S;   /* the layer's number, and the length of the sequence */
} ls_layer;

ls_layer ls_layer_begin(const ls_model_config *config, ls_graph *graph, const char *prefix, ls_tensor tokens);
/* Rows of the table by id; looking up the padding id adds nothing to the gradient. */
ls_tensor ls_layer_embed(const ls_layer *b, ls_tensor tokens, ls_tensor table);
/* Sets b->rope. */
void ls_layer_rotary(ls_layer *b, ls_tensor positions);
/* Parameter PREFIX.N.WHAT. */
ls_tensor ls_layer_parameter(const ls_layer *b, const char *what, int ndim, const int64_t *size);
ls_tensor ls_layer_rmsnorm(const ls_layer *b, ls_tensor x, const char *what); /* weight WHAT */
/* x·Wᵀ (+ bias) with the weight BLOCK.NAME.weight [to, from]. */
ls_tensor ls_layer_project(const ls_layer *b, ls_tensor x, const char *block, const char *name, int64_t to,
                           int64_t from, bool biased);
/* Attention under the layer's mask, of rotated heads [..,Hq,D] and [..,Hkv,D] -> [..,Hq*D]. */
ls_tensor ls_layer_attention(const ls_layer *b, ls_tensor q, ls_tensor k, ls_tensor v);
/* The block self_attn: projections, norms of heads, rotation, attention, and the output projection. */
ls_tensor ls_layer_self_attention(const ls_layer *b, ls_tensor x);
/* The block mlp: down(activation(gate(x))·up(x)). */
ls_tensor ls_layer_gated(const ls_layer *b, ls_tensor x);

/* A model of a config.json around its architecture's logits. known: see ls_model_lengths. */
LS_MUST_USE ls_status ls_layers_build(const ls_model *model, ls_graph *graph, const ls_model_lengths *lengths,
                                      ls_language_model *out);

/* `build` of Llama, Mistral and Qwen: norm before each block, rotary positions, a gated feed-forward block. */
ls_tensor ls_decoder_build(const ls_model_config *config, ls_graph *graph, ls_tensor tokens, ls_tensor positions);

#endif
