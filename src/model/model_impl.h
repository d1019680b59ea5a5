/* model, for the files of this folder: kinds of models, rows of architectures, reading a config, building layers. */
#ifndef LS_MODEL_IMPL_H
#define LS_MODEL_IMPL_H

#include "adapter/adapter.h"
#include "format/format.h"
#include "model/model.h"

#define LS_MOST_LAYERS (1 << 12)

/* An activation function of a feed-forward block, applied to single elements. */
typedef ls_tensor (*ls_activation)(ls_graph *graph, ls_tensor x);

/*
 * Which layers attend to a window if the config has no layer_types: first, first + every, first + 2·every, ..., except
 * each `full`-th layer, counted from 1.
 */
typedef struct ls_window_rule {
    bool on;              /* false: no layer has a window */
    int64_t first, every; /* every 0: no layer has a window, and layer_types is not read */
    int64_t full;         /* 0: no layer is excepted */
} ls_window_rule;

/* A set of layers, with one bit for each. */
typedef struct ls_layer_set {
    uint8_t bits[LS_MOST_LAYERS / 8];
} ls_layer_set;

/* Sizes of layers with a state. */
typedef struct ls_state_sizes {
    /* heads of keys and of values, the elements of each, and the taps of the convolution */
    int64_t K, H, D, E, width;
    double least_step, most_step; /* limits of the step size of a token (ls_layer_step) */
    bool biased, conv_biased;     /* whether the products and the convolution have biases */
} ls_state_sizes;

typedef struct ls_layer ls_layer;

/* Inputs of attention, [B,S,heads*D] each. The result is multiplied by sigmoid(gate); LS_NO_TENSOR: no gate. */
typedef struct ls_attention_inputs {
    ls_tensor q, k, v, gate;
} ls_attention_inputs;

/* Names of the norms of a layer; NULL: there is no norm in that place. */
typedef struct ls_layer_norms {
    const char *before_attention, *after_attention, *before_mlp, *after_mlp;
} ls_layer_norms;

#define LS_NORMS_BEFORE \
    { .before_attention = "input_layernorm", .before_mlp = "post_attention_layernorm" }
#define LS_NORMS_AROUND                                                                       \
    {                                                                                         \
        .before_attention = "input_layernorm", .after_attention = "post_attention_layernorm", \
        .before_mlp = "pre_feedforward_layernorm", .after_mlp = "post_feedforward_layernorm"  \
    }

/* What the layers of a decoder are made of (the parts are in decoder.c and build.c). */
typedef struct ls_decoder_parts {
    ls_tensor (*layer)(const ls_layer *b, ls_tensor x);
    ls_layer_norms norms;
    ls_tensor (*mixer)(const ls_layer *b, ls_tensor x); /* NULL: ls_layer_self_attention */
    /* The products with x; *out is empty before. */
    void (*projections)(const ls_layer *b, ls_tensor x, ls_attention_inputs *out);
    /* Splits queries or keys into H heads, and normalises them with the weight NAME.weight. */
    ls_tensor (*heads)(const ls_layer *b, ls_tensor x, int64_t H, const char *name);
    ls_tensor (*mlp)(const ls_layer *b, ls_tensor x);
} ls_decoder_parts;

/* Everything in a config.json that a builder needs, checked. Texts are literals. */
typedef struct ls_model_config {
    ls_model_sizes sizes;
    const ls_decoder_parts *parts;
    double epsilon;          /* epsilon of the norms */
    bool centred, norm_bias; /* norms are LayerNorms, and have a bias */
    double norm_offset;      /* added to the weights of norms; 1 for weights that are trained around 0 */
    ls_rope rope;            /* theta 0: positions are learned */
    /* the fraction of a head that is rotated; 0: all of it, and the config has no field for it */
    double rotary;
    /* element 2i of a head is rotated with 2i + 1, instead of i with i + half the rotated elements */
    bool interleaved;
    ls_layer_set unrotated; /* layers that do not rotate */
    /* Queries are multiplied by 1 + query_growth·ln(1 + floor(position/rope.original_length)). */
    double query_growth;
    int64_t said_longest;              /* max_position_embeddings in the object of rotary positions; it has no effect */
    int64_t rotated;                   /* rotated elements of a head, found from `rotary` */
    ls_rope local_rope;                /* of layers with a window; theta 0: as in the other layers */
    double embedding_scale;            /* factor of rows of the embedding table; 0: 1 */
    double residual_scale;             /* factor of what a block adds; 0: 1 */
    bool wide_residual;                /* the residual stream has type G (in ls_mixers_build) */
    double logit_scale, logit_divisor; /* factor and divisor of the model's logits; 0: 1 */
    bool embedding_by_width;           /* embedding_scale is sqrt(hidden size) */
    ls_activation activation;
    bool qkv_bias, output_bias; /* biases of attention's projections */
    bool mlp_bias;
    double query_scalar;             /* attention_scale is 1/sqrt(query_scalar); 0: 1/sqrt(head size) */
    bool scaled;                     /* GPT-2: attention_scale is 1/sqrt(head size); otherwise 1 */
    double attention_scale;          /* factor of q·k; 0: not given */
    bool scale_by_layer;             /* attention_scale is divided by the layer's number, counted from 1 */
    double noise;                    /* ls_model_noise */
    bool scored;                     /* the model has a scoring head (ls_model_score) */
    double attention_cap, final_cap; /* soft caps of attention's logits and of the model's logits; 0: none */
    int64_t window;                  /* in tokens; 0: no layer has a window */
    ls_window_rule windows;          /* rule for which layers have the window */
    ls_layer_set windowed;           /* layers with a window, by the rule or by layer_types */
    ls_state_sizes state;            /* sizes of layers with a state; width 0: there are none */
    ls_layer_set stateful;           /* layers with a state */
    ls_layer_set feeding;            /* layers that consist of a feed-forward block only */
} ls_model_config;

static inline bool ls_layer_is_in(const ls_layer_set *set, int64_t layer) {
    return (set->bits[layer / 8] >> layer % 8 & 1) != 0;
}
static inline bool ls_layer_is_any_in(const ls_layer_set *set) {
    for (size_t i = 0; i < sizeof set->bits; i++)
        if (set->bits[i] != 0) return true;
    return false;
}
static inline void ls_layer_put(ls_layer_set *set, int64_t layer) {
    set->bits[layer / 8] = (uint8_t)(set->bits[layer / 8] | 1u << layer % 8);
}

typedef struct ls_architecture ls_architecture;
typedef struct ls_config_field ls_config_field;
typedef struct ls_config_rule ls_config_rule;

/* What a family of architectures has in common in its config.json and in its files of weights. */
typedef struct ls_form {
    const ls_config_field *fields; /* ends with LS_CONFIG_END */
    const ls_config_rule *rules;
    /* Reads the remaining fields, computes what follows from the fields, and checks them together. */
    ls_status (*complete)(ls_json_value root, const ls_architecture *architecture, ls_model_config *out);
    /* Suffixes of the names of tensors in files that are not parameters and are not read; NULL at the end. */
    const char *const *derived;
    /* Names of the head and of the embedding table. A file of a model with a tied head may hold both. */
    ls_weight_copy tie;
    const ls_weight_spelling
        *spellings; /* files of a model without its head may leave out the common prefix of all names */
} ls_form;

extern const ls_form ls_decoder_form; /* decoder.c */
/* Parts of Llama's layers, and the same with norms of heads; decoder.c. */
extern const ls_decoder_parts ls_llama_parts, ls_head_norm_parts;

/* An architecture is one const row; architectures.c has the table of all. */
struct ls_architecture {
    const char *name;       /* as in "architectures" */
    const char *scored;     /* the same for its form with a scoring head; NULL: the library has none */
    const char *model_type; /* as in "model_type" */
    const ls_form *form;
    ls_model_config initial; /* defaults of missing fields. Hkv 0: equal to Hq; D 0: E/Hq */
    const char *activation_field;
    const ls_config_field *fields; /* fields besides those of the form, read after them; NULL: none */
    const ls_config_rule *rules;   /* rules besides those of the form; NULL: none */
    /* fields that only this architecture has in its object of rotary positions; NULL: none */
    const ls_config_field *rope_fields;
    /* fields that are ignored, which a line reports; ends with NULL. NULL: dropout is refused */
    const char *const *dropouts;
    /* called after the form's `complete`; NULL: nothing remains to do */
    ls_status (*complete)(ls_json_value root, ls_model_config *out);
    const ls_weight_initial *weights;    /* parameters whose random values differ from the others'; NULL: none */
    const ls_weight_spelling *spellings; /* in place of the form's; NULL: those of the form */
    /* i32[B,S] ids and positions -> logits G[B,S,V]. The graph keeps mistakes. */
    ls_tensor (*build)(const ls_model_config *config, ls_graph *graph, ls_tensor tokens, ls_tensor positions);
};

/* All architectures: the row of X is ls_architecture_X. */
#define LS_ARCHITECTURES(X)                                                                                           \
    X(llama), X(mistral), X(qwen2), X(qwen3), X(gpt2), X(gemma2), X(gemma3), X(phi3), X(olmo2), X(olmo3), X(smollm3), \
        X(granite), X(ministral3), X(glm4), X(cohere2), X(seed_oss), X(starcoder2), X(qwen3_5), X(mamba2),            \
        X(nemotron_h)
#define LS_ARCHITECTURE_ROW(name) ls_architecture_##name
extern const ls_architecture LS_ARCHITECTURES(LS_ARCHITECTURE_ROW);

/*
 * The row of the architecture that a config names in "architectures" or, if that is missing, in "model_type"; the two
 * must agree. LS_UNSUPPORTED lists the known architectures. *scored: the config names the form with a scoring head,
 * with one label.
 */
LS_MUST_USE ls_status ls_architecture_find(ls_json_value root, const ls_architecture **out, bool *scored);
/* The row of a model_type; NULL: none. */
const ls_architecture *ls_architecture_of_type(const char *type);

/* A model that handles more than text. Its config.json has the config of its text model in text_config; wrapped.c. */
typedef struct ls_wrapper {
    const char *name;       /* as in "architectures" */
    const char *model_type; /* as in "model_type" */
    const char *text_type;  /* model_type of its text model if text_config gives none */
    bool tied;              /* the head is tied if neither the config nor text_config says */
} ls_wrapper;

/*
 * *wrapper becomes the row for a config.json's model_type; NULL: there is none. If there is one, *text is freed and
 * replaced by a config of the text model alone.
 */
LS_MUST_USE ls_status ls_config_unwrap(ls_json_value root, char **text, const ls_wrapper **wrapper);
extern const ls_weight_spelling ls_wrapped_spellings[];
extern const char *const ls_wrapped_left_out[];

/* --- kinds of models ---------------------------------------------------------------------------------------------- */

typedef struct ls_imported ls_imported;

/* The lengths of the sequences, for a builder. */
typedef struct ls_model_lengths {
    int64_t B, S;
    int64_t known; /* tokens before the first one that is generated; 0: nothing is generated */
} ls_model_lengths;

/* A kind of model, that is, a way in which models are written down, is one const row; model.c has the table of all. */
typedef struct ls_model_kind {
    const char *file;   /* name of such a file in the folder of a model and in checkpoints */
    const char *format; /* value of the field "format" in such a file; NULL: the file has no such field */
    size_t most_bytes;
    /*
     * Reads and checks a document, and sets model->sizes, inputs, parameters and the members of its kind. Owns the
     * document.
     */
    ls_status (*read)(ls_json *document, ls_model *model);
    /* Changes the rotary positions in model->text and reads it again; name: for errors. */
    ls_status (*change_rope)(const char *name, const ls_rope_change *change, ls_model *model);
    ls_status (*lengthen)(ls_model *model, int64_t S, bool *longer);
    ls_status (*score)(ls_model *model); /* ls_model_score, for an architecture that has such a form */
    ls_status (*check_apart)(const ls_model *model, int64_t S);
    /* Builds inputs, logits, the loss of each token, and the sum of the losses. */
    ls_status (*build)(const ls_model *model, ls_graph *graph, const ls_model_lengths *lengths, ls_language_model *out);
    ls_weight_rules (*rules)(const ls_model *model);
    /* Random weights; NULL: the kind has no rule for them. */
    ls_status (*random)(const ls_model *model, uint64_t seed, ls_weight_source *out);
    const char *(*name)(const ls_model *model);
    void (*print)(const ls_model *model, char *out, size_t room);
    void (*put)(const ls_model *model, ls_json_writer *w);
    void (*free)(ls_model *model); /* frees what `read` made */
} ls_model_kind;

extern const ls_model_kind ls_model_kind_config, ls_model_kind_graph;

/* The inputs with a teacher's words: the ids first, then the log-probabilities. */
typedef struct ls_teacher_inputs {
    ls_model_input input[2 * LS_MOST_TEACHER];
    char name[2 * LS_MOST_TEACHER][24];
} ls_teacher_inputs;

struct ls_model {
    const ls_model_kind *kind;
    ls_model_sizes sizes;
    ls_model_inputs inputs;
    int64_t parameters;
    bool weighted;           /* ls_model_weigh */
    double smoothing, z;     /* ls_model_smooth */
    ls_distillation teacher; /* ls_model_distil; k 0: no teacher */
    struct ls_teacher_inputs *teacher_inputs;
    double noise;    /* ls_model_noise */
    bool head_apart; /* the scoring head is a new one, or an adapter's, and not that of the model's files */
    char *folder;    /* NULL: the model was opened from a text */
    char *text;      /* of its file, with the changes */
    /* Set for a config.json: */
    const ls_architecture *architecture;
    const ls_wrapper *wrapper; /* of the file that the model was opened from; NULL: that model handles text only */
    ls_model_config config;
    ls_dtype stored; /* the type of blocks that quantization_config names; LS_DTYPES: none */
    /* Set for a graph.json: */
    ls_imported *imported;
    ls_dtype kept;       /* the type of matrices that are not trained (base.c); LS_DTYPES: that of the run */
    ls_adapter *adapter; /* NULL: none */
    char *adapter_text;  /* its adapter_config.json */
    uint64_t base;       /* with an adapter: identifies the files of the base's weights */
};

/* The loss of each token against a teacher (distil.c). */
ls_tensor ls_distilled(const ls_model *model, ls_graph *g, const ls_language_model *lm);

/* The parameter of a scoring head. The files of a language model do not have it. */
#define LS_SCORE_WEIGHT "score.weight"

/* --- the type of matrices that are not trained (base.c) ----------------------------------------------------------- */

/* The type that the word of --base means. */
LS_MUST_USE ls_status ls_base_parse(const char *name, ls_dtype *out);
/* For a graph that is not differentiated yet. logits: a tensor of the graph, or none. An error: no matrix fits. */
LS_MUST_USE ls_status ls_base_keep(const ls_model *model, ls_graph *graph, ls_tensor logits);

/* --- files of matrices in few bytes (quantized.c) ----------------------------------------------------------------- */

/*
 * The type of blocks in which the files hold matrices, found from quantization_config; LS_DTYPES: they are floats.
 * LS_UNSUPPORTED names the field.
 */
LS_MUST_USE ls_status ls_quantized_read(ls_json_value root, ls_dtype *out);
/* Removes that field from the text of a config.json, because Longspan writes matrices as floats. */
LS_MUST_USE ls_status ls_quantized_forget(char **text);

/* --- reading a config (config.c, config_rope.c) ------------------------------------------------------------------- */

/* LS_FIELD_ANY: any value is accepted, because the field has no effect on a text model. */
typedef enum ls_field_kind { LS_FIELD_INT, LS_FIELD_REAL, LS_FIELD_FLAG, LS_FIELD_ANY } ls_field_kind;

/*
 * A field of a config.json and the member of ls_model_config that it sets. If the field is missing, the member keeps
 * its default.
 */
struct ls_config_field {
    const char *key; /* NULL: the end of a table */
    ls_field_kind kind;
    size_t at; /* offset of an int64_t, double or bool in ls_model_config */
    double least, most;
    bool required;
    bool null_is_zero; /* null means 0; if false, null means the default */
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
#define LS_CONFIG_ANY(name) \
    { .key = name, .kind = LS_FIELD_ANY }
#define LS_CONFIG_WINDOW LS_CONFIG_INT_OR_NULL("sliding_window", window, 1, LS_MOST_POSITIONS)
#define LS_CONFIG_END \
    { .key = NULL }

/* Defaults of a row's `initial` that decoders with rotary positions share. */
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
    double value; /* the only supported value, and the default if the field is missing. Flags: 0 or 1 */
    const char *expected;
};

/* Whether the object has the field, even if it is null. */
bool ls_config_is_written(ls_json_value root, const char *key);
/* LS_UNSUPPORTED names the field that breaks its rule. rules NULL: there are none. */
LS_MUST_USE ls_status ls_config_check(ls_json_value root, const ls_config_rule *rules);

/* Reads the fields of a table from an object. fields NULL: there are none. */
LS_MUST_USE ls_status ls_config_fields(ls_json_value object, const ls_config_field *fields, ls_model_config *out);

/* Reads and checks a whole config.json by the tables of its architecture. */
LS_MUST_USE ls_status ls_config_read(ls_json_value root, const ls_architecture *architecture, ls_model_config *out);

/*
 * Reads rope_theta and rope_scaling or, in newer files, rope_parameters. On entry, out->rope.theta holds the default,
 * and so does out->local_rope.theta if layers with a window have rotary positions of their own.
 */
LS_MUST_USE ls_status ls_config_rope(ls_json_value root, const ls_config_field *further, ls_model_config *out);

/*
 * Marks the layers with a window by layer_types, or by out->windows if that is missing. If out->window is 0, the marks
 * have no effect, and a window in layer_types is an error.
 */
LS_MUST_USE ls_status ls_config_windows(ls_json_value root, ls_model_config *out);

/* Checks that a field, if it is there, names silu: the convolution in front of a state applies no other function. */
LS_MUST_USE ls_status ls_config_silu(ls_json_value root, const char *key);
/* Reads time_step_limit (state_space.c). */
LS_MUST_USE ls_status ls_config_step_limits(ls_json_value root, ls_state_sizes *out);

/* --- context extension (rope_change.c) ---------------------------------------------------------------------------- */

/* Changes the rotary positions in *text, the malloc'ed text of the config.json from which `config` was read. */
LS_MUST_USE ls_status ls_rope_change_text(const ls_model_config *config, const ls_rope_change *change, char **text);
/* Changes only max_position_embeddings. */
LS_MUST_USE ls_status ls_config_set_longest(int64_t longest, char **text);
/*
 * For a config with changed positions: raises max_position_embeddings to the length that yarn or llama3 reaches.
 * *longer: the text was changed.
 */
LS_MUST_USE ls_status ls_rope_change_length(const ls_model_config *config, bool *longer, char **text);

/* --- building (build.c, decoder.c) -------------------------------------------------------------------------------- */

/* State of a builder while it builds one layer. */
struct ls_layer {
    const ls_model_config *config;
    ls_graph *g;
    const char *prefix;   /* prefix of the names of the layers' parameters: "model.layers" */
    ls_tensor rope;       /* table of rotations, shared by layers; empty if positions are learned */
    ls_tensor local_rope; /* table of rotations of layers with a window */
    ls_tensor query_rope; /* table of rotations of queries, if the config has query_growth */
    ls_tensor positions;  /* of tokens within their documents */
    ls_tensor reach;      /* taps within the document, for convolutions of layers with a state */
    int64_t layer, S;     /* the layer's number, and the length of the sequence */
};

ls_layer ls_layer_begin(const ls_model_config *config, ls_graph *graph, const char *prefix, ls_tensor tokens);
/* Rows of the table by id; looking up the padding id adds nothing to the gradient. */
ls_tensor ls_layer_embed(const ls_layer *b, ls_tensor tokens, ls_tensor table);
/* Adds the noise of config.noise to the embeddings x. The input LS_MODEL_NOISE has the keys of the tokens. */
ls_tensor ls_layer_noise(const ls_layer *b, ls_tensor tokens, ls_tensor x);
/*
 * The head's output, computed from the last layer's output: a number for each word, by the embedding table if the head
 * is tied; or one number if the model scores.
 */
ls_tensor ls_layer_head(const ls_layer *b, ls_tensor x, ls_tensor table);
/* Sets the tables of rotations that the layers read. */
void ls_layer_rotary(ls_layer *b, ls_tensor positions);
/* The parameter PREFIX.N.WHAT of layer N. */
ls_tensor ls_layer_parameter(const ls_layer *b, const char *what, int ndim, const int64_t *size);
ls_tensor ls_layer_norm(const ls_layer *b, ls_tensor x, const char *name); /* name NULL: returns x */
/* The norm after all layers, with the weight NAME.weight. */
ls_tensor ls_last_norm(const ls_layer *b, ls_tensor x, const char *name);
/* x·Wᵀ (+ bias) with the weight BLOCK.NAME.weight [to, from]. */
ls_tensor ls_layer_project(const ls_layer *b, ls_tensor x, const char *block, const char *name, int64_t to,
                           int64_t from, bool biased);
/* Attention under the layer's mask, of rotated heads: [..,Hq,D] and [..,Hkv,D] -> [..,Hq*D]. */
ls_tensor ls_layer_attention(const ls_layer *b, ls_tensor q, ls_tensor k, ls_tensor v);
/* The block self_attn: projections, norms of heads, rotation, attention, and the output projection. */
ls_tensor ls_layer_self_attention(const ls_layer *b, ls_tensor x);

ls_tensor ls_relu_squared(ls_graph *graph, ls_tensor x); /* max(x, 0)² */

/* Parts of decoders (ls_decoder_parts). */
/* x + attention, then that sum + mlp, with the norms before and after each block. */
ls_tensor ls_layer_in_turn(const ls_layer *b, ls_tensor x);
/* q_proj, k_proj and v_proj. */
void ls_layer_apart(const ls_layer *b, ls_tensor x, ls_attention_inputs *out);
/* Two ways to split heads: without norms, and with each head normalised by itself with one weight for all heads. */
ls_tensor ls_heads_plain(const ls_layer *b, ls_tensor x, int64_t H, const char *name);
ls_tensor ls_heads_normalised(const ls_layer *b, ls_tensor x, int64_t H, const char *name);
/* Normalises all heads together before they are split. */
ls_tensor ls_heads_normalised_together(const ls_layer *b, ls_tensor x, int64_t H, const char *name);
/* down(activation(gate(x))·up(x)). The products for gate and up are separate, or joined in gate_up_proj. */
ls_tensor ls_layer_gated(const ls_layer *b, ls_tensor x);
ls_tensor ls_layer_gated_joined(const ls_layer *b, ls_tensor x);

/* Parts of layers with a state (state_space.c), with parameters BLOCK.conv1d.weight and so on. */
/* silu of a convolution [..,channels] within documents. */
ls_tensor ls_layer_convolve(const ls_layer *b, ls_tensor x, const char *block, int64_t channels, bool biased);
/*
 * For each head, G[B,S,H]: the step size of a token, softplus(raw + dt_bias) within the config's limits; and the
 * logarithm of the factor by which the state decays, -exp(A_log)·step.
 */
void ls_layer_step(const ls_layer *b, ls_tensor raw, const char *block, ls_tensor *step, ls_tensor *decay);
/*
 * A model whose layers are one block each, x + block(norm(x)). The names of its parameters begin with PREFIX:
 * embeddings, layers.N.norm, norm_f; and lm_head.
 */
ls_tensor ls_mixers_build(const ls_model_config *config, ls_graph *graph, ls_tensor tokens, ls_tensor positions,
                          const char *prefix, ls_tensor (*block)(const ls_layer *b, ls_tensor x));
/* The mixer of Mamba-2. */
ls_tensor ls_layer_state_space(const ls_layer *b, ls_tensor x, const char *block);
/*
 * Random weights of such a mixer, named "mixer". They are close to the initial weights of the Transformers library,
 * where A is 1, 2, .. and steps are between 0.001 and 0.1.
 */
extern const ls_weight_initial ls_mixer_initial[];

/* Builds a model of a config.json around its architecture's logits. lengths->known: see ls_model_lengths. */
LS_MUST_USE ls_status ls_layers_build(const ls_model *model, ls_graph *graph, const ls_model_lengths *lengths,
                                      ls_language_model *out);

/* The row's `build` for decoders, from config->parts. */
ls_tensor ls_decoder_build(const ls_model_config *config, ls_graph *graph, ls_tensor tokens, ls_tensor positions);

#endif
