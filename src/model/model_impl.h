/* model: what its own files share. */
#ifndef LS_MODEL_IMPL_H
#define LS_MODEL_IMPL_H

#include "format/format.h"
#include "model/model.h"

#define LS_MOST_LAYERS (1 << 12)

/* A function of one element within a feed-forward block. */
typedef ls_tensor (*ls_activation)(ls_graph *graph, ls_tensor x);

/* Which layers see a window where layer_types does not say so: of `first` and those after it every so many. */
typedef struct ls_window_rule {
    bool on;              /* off: there are no windows */
    int64_t first, every; /* every 0: no layer does, and layer_types means nothing */
} ls_window_rule;

/* Everything that a config.json says and a builder needs, checked. Texts are literals. */
typedef struct ls_model_config {
    ls_model_sizes sizes;
    double epsilon;     /* of the norms */
    double norm_offset; /* is added to the weights of norms, which are trained around it */
    ls_rope rope;       /* theta 0: positions are learned */
    ls_activation activation;
    bool qkv_bias, output_bias; /* of attention's projections */
    bool mlp_bias;
    bool head_norms;                      /* each query's and key's head is normalised before it is rotated */
    double query_scalar;                  /* attention_scale is 1/sqrt of it; 0: of the head size */
    bool scaled;                          /* GPT-2: attention_scale is not 1 */
    double attention_scale;               /* of q·k */
    bool scale_by_layer;                  /* and divided by the number of the layer, from 1 */
    double attention_cap, final_cap;      /* soft caps of attention's logits and of the model's; 0: none */
    int64_t window;                       /* tokens that layers marked below see; 0: there are none */
    ls_window_rule windows;               /* which layers those are */
    uint8_t windowed[LS_MOST_LAYERS / 8]; /* a bit for each layer */
} ls_model_config;

typedef struct ls_config_field ls_config_field;
typedef struct ls_config_rule ls_config_rule;

/* What architectures share whose files are written alike. */
typedef struct ls_form {
    const ls_config_field *fields; /* that all of them read; ends with LS_CONFIG_END */
    const ls_config_rule *rules;
    /* What follows from the fields, and what else is read. */
    ls_status (*complete)(ls_json_value root, ls_model_config *out);
    /* Endings of the names of tensors that files may hold and that are not trained; NULL at the end. */
    const char *const *derived;
    /* Names of the head and of the embedding table that a tied head is: files may hold both. */
    const char *head, *table;
    const char *prefix; /* that files of the model without its head leave out of all names; NULL: none */
} ls_form;

extern const ls_form ls_decoder_form; /* config_decoder.c */

/* An architecture is one const row; the visible table is in architectures.c. */
typedef struct ls_architecture {
    const char *name;       /* as in "architectures" */
    const char *model_type; /* as in "model_type" */
    const ls_form *form;
    ls_model_config initial; /* what fields mean that are missing. Hkv 0: as many as query heads; D 0: E/Hq */
    const char *activation_field;
    const ls_config_field *fields; /* of its own, read after those of the form; NULL: none */
    const ls_config_rule *rules;   /* of its own; NULL: none */
    /* i32[B,S] ids and positions -> logits G[B,S,V]. Mistakes stay in the graph. */
    ls_tensor (*build)(const ls_model_config *config, ls_graph *graph, ls_tensor tokens, ls_tensor positions);
} ls_architecture;

extern const ls_architecture ls_architecture_llama, ls_architecture_mistral, ls_architecture_qwen2,
    ls_architecture_qwen3, ls_architecture_gpt2, ls_architecture_gemma2;

/*
 * The row that a config is about: by "architectures", or where that is missing by "model_type"; given both, they must agree.
 * LS_UNSUPPORTED error listing those there are.
 */
LS_MUST_USE ls_status ls_architecture_find(ls_json_value root, const ls_architecture **out);

struct ls_model {
    const ls_architecture *architecture;
    ls_model_config config;
    int64_t parameters;
    char *directory; /* NULL: it was made from a text */
    char *text;      /* of config.json */
};

/* --- reading a config (config.c, config_decoder.c, config_rope.c, config_windows.c) --------------------------------------- */

typedef enum ls_field_kind { LS_FIELD_INT, LS_FIELD_REAL, LS_FIELD_FLAG } ls_field_kind;

/* A field of a config.json and where it goes. One that is missing leaves what is there, its default. */
struct ls_config_field {
    const char *key; /* NULL: the end of a table */
    ls_field_kind kind;
    size_t at; /* of an int64_t, double or bool in ls_model_config */
    double least, most;
    bool required;
    bool null_is_zero; /* null is not the default, but 0 */
};

#define LS_CONFIG_INT(name, member, from, to, needed)                                              \
    {                                                                                              \
        .key = name, .kind = LS_FIELD_INT, .at = offsetof(ls_model_config, member), .least = from, \
        .most = to, .required = needed                                                             \
    }
#define LS_CONFIG_INT_OR_NULL(name, member, from, to)                                              \
    {                                                                                              \
        .key = name, .kind = LS_FIELD_INT, .at = offsetof(ls_model_config, member), .least = from, \
        .most = to, .null_is_zero = true                                                           \
    }
#define LS_CONFIG_REAL(name, member, from, to, needed)                                              \
    {                                                                                               \
        .key = name, .kind = LS_FIELD_REAL, .at = offsetof(ls_model_config, member), .least = from, \
        .most = to, .required = needed                                                              \
    }
#define LS_CONFIG_REAL_OR_NULL(name, member, from, to)                                              \
    {                                                                                               \
        .key = name, .kind = LS_FIELD_REAL, .at = offsetof(ls_model_config, member), .least = from, \
        .most = to, .null_is_zero = true                                                            \
    }
#define LS_CONFIG_FLAG(name, member) \
    { .key = name, .kind = LS_FIELD_FLAG, .at = offsetof(ls_model_config, member) }
#define LS_CONFIG_WINDOW LS_CONFIG_INT_OR_NULL("sliding_window", window, 1, LS_MOST_POSITIONS)
#define LS_CONFIG_END \
    { .key = NULL }

/* What the decoders' missing fields mean, but for those in which they differ; for a row's `initial`. */
#define LS_DECODER_DEFAULTS .sizes.initializer_range = 0.02, .epsilon = 1e-6, .rope.theta = 10000

/* Far above any model, and small enough that no product of a few of them overflows. */
#define LS_MOST_WIDTH 0x1p20
#define LS_MOST_HEADS 0x1p14
#define LS_MOST_HEAD_SIZE 0x1p12
#define LS_MOST_VOCABULARY 0x1p24
#define LS_MOST_POSITIONS 0x1.fffffffcp30 /* INT32_MAX */
#define LS_LEAST_POSITIVE 1e-30

/* A field whose other values would make it another model than the one that is built: a number, true or false, or left out. */
struct ls_config_rule {
    const char *key; /* NULL: the end of a table */
    enum { LS_RULE_NUMBER, LS_RULE_FLAG, LS_RULE_ABSENT } kind;
    double value; /* the only one that is supported; it is also what a missing field means. Flags: 0 or 1 */
    const char *expected;
};

/* Whether a field is there, were it null. */
bool ls_config_is_written(ls_json_value root, const char *key);
/* LS_UNSUPPORTED error naming the field that breaks its rule. rules NULL: none. */
LS_MUST_USE ls_status ls_config_obey(ls_json_value root, const ls_config_rule *rules);

/* The whole of a config.json, as the row says. */
LS_MUST_USE ls_status ls_config_read(ls_json_value root, const ls_architecture *architecture,
                                     ls_model_config *out);

/* rope_theta and rope_scaling, or what newer files call rope_parameters; out->rope.theta is the default. */
LS_MUST_USE ls_status ls_config_rope(ls_json_value root, ls_model_config *out);

/*
 * Marks the layers with a window: as layer_types says, or else out->windows. Without a window (0) the mark means nothing, and
 * layer_types may not ask for one.
 */
LS_MUST_USE ls_status ls_config_windows(ls_json_value root, ls_model_config *out);

/* --- context extension (rope_change.c) --------------------------------------------------------------------------------------- */

/* Replaces the text of a config.json, which `config` was read from, by one with these rotary positions. */
LS_MUST_USE ls_status ls_rope_change_text(const ls_model_config *config, const ls_rope_change *change,
                                          char **text);
/* Only max_position_embeddings. */
LS_MUST_USE ls_status ls_config_set_longest(int64_t longest, char **text);
/* And, of a config read from that, with the length that yarn and llama3 stretch to, where it says a smaller one. */
LS_MUST_USE ls_status ls_rope_change_length(const ls_model_config *config, bool *longer, char **text);

/* --- building (blocks.c, decoder.c) ------------------------------------------------------------------------------------------ */

/* A builder at work on a layer. */
typedef struct ls_layer {
    const ls_model_config *config;
    ls_graph *g;
    const char *prefix; /* of the names of layers: "model.layers" */
    ls_tensor rope;     /* made once, shared by all layers; none where positions are learned */
    int64_t layer, S;
} ls_layer;

ls_layer ls_layer_begin(const ls_model_config *config, ls_graph *graph, const char *prefix, ls_tensor tokens);
/* The table's rows by id; the row of a padding id is not trained by that. */
ls_tensor ls_layer_embed(const ls_layer *b, ls_tensor tokens, ls_tensor table);
/* The table of rotations for all layers. */
void ls_layer_rotary(ls_layer *b, ls_tensor positions);
/* Parameter PREFIX.N.WHAT. */
ls_tensor ls_layer_parameter(const ls_layer *b, const char *what, int ndim, const int64_t *size);
ls_tensor ls_layer_rmsnorm(const ls_layer *b, ls_tensor x, const char *what); /* weight WHAT */
/* x·Wᵀ (+ bias) with the weight BLOCK.NAME.weight [to, from]. */
ls_tensor ls_layer_project(const ls_layer *b, ls_tensor x, const char *block, const char *name, int64_t to,
                           int64_t from, bool biased);
/* Heads [..,Hq,D] and [..,Hkv,D], rotated already, under the layer's mask -> [..,Hq*D]. */
ls_tensor ls_layer_attention(const ls_layer *b, ls_tensor q, ls_tensor k, ls_tensor v);
/* self_attn: projections, norms of heads, rotation, attention, and the projection of its result. */
ls_tensor ls_layer_self_attention(const ls_layer *b, ls_tensor x);
/* mlp: down(activation(gate(x))·up(x)). */
ls_tensor ls_layer_gated(const ls_layer *b, ls_tensor x);

/* Llama and its like: norm before each block, rotary positions, a gated feed-forward block. As a row's `build`. */
ls_tensor ls_decoder_build(const ls_model_config *config, ls_graph *graph, ls_tensor tokens,
                           ls_tensor positions);

#endif
