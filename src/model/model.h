/* model: architectures, read from a config.json and built as graphs. */
#ifndef LS_MODEL_H
#define LS_MODEL_H

#include "compile/compile.h"
#include "longspan/graph.h"
#include "longspan/spread.h"
#include "weights/weights.h"

typedef struct ls_model ls_model;

/* Sizes and other facts of a config.json that other folders need. */
typedef struct ls_model_sizes {
    int64_t V, E, F, L, Hq, Hkv, D;
    int64_t longest; /* max_position_embeddings */
    bool learned;    /* positions are learned, so that no sequence may be longer than `longest` */
    bool tied;       /* the head is the embedding table */
    bool pads;       /* there is a padding id, `pad`: looking it up adds nothing to the gradient of its row */
    int64_t pad;
    double initializer_range;
} ls_model_sizes;

/*
 * path: a config.json, or a folder with one and, if the model has trained weights, *.safetensors. Every field is
 * checked: the error names the file, the field, its value and what was expected. An unknown architecture, activation or
 * rope type is LS_UNSUPPORTED.
 */
LS_MUST_USE ls_status ls_model_open(const char *path, ls_model **out);
/*
 * The same with the rotary positions in the text of config.json changed; yarn and llama3 also raise
 * max_position_embeddings in it to the length that they reach. LS_USAGE: the change cannot be read, or the model has no
 * rotary positions.
 */
LS_MUST_USE ls_status ls_model_open_changed(const char *path, const ls_rope_change *change, ls_model **out);
/*
 * The same from the text of a config.json; errors call it `name`, and its folder is "". text NULL: as
 * ls_model_open(name).
 */
LS_MUST_USE ls_status ls_model_open_text(const char *name, const char *text, ls_model **out);
/*
 * Raises max_position_embeddings in the text of config.json to S, so that a model trained with sequences of S tokens is
 * exported with that length. *longer: the text was changed. Nothing changes if it is at least S, if positions are
 * learned, or if the scaling is computed from it (dynamic; yarn without the original length).
 */
LS_MUST_USE ls_status ls_model_lengthen(ls_model *model, int64_t S, bool *longer);
/*
 * Whether the model can read sequences of S tokens that hold several documents which do not see each other.
 * LS_UNSUPPORTED with rope scaling "dynamic" and S beyond the length that it starts from: it goes by the length of the
 * sequence, but a document by itself would have frequencies of its own length.
 */
LS_MUST_USE ls_status ls_model_check_apart(const ls_model *model, int64_t S);
void ls_model_close(ls_model *model); /* NULL is allowed */
ls_model_sizes ls_model_describe(const ls_model *model);
const char *ls_model_architecture(const ls_model *model); /* "LlamaForCausalLM" */
/* The folder of the config, for tokenizer.json and weights. */
const char *ls_model_folder(const ls_model *model);
/* The text of config.json with all its fields, and with the changes of the two functions above. */
const char *ls_model_config_text(const ls_model *model);
/* Whether the head is the embedding table; *head and *table are their names in the model's files. */
bool ls_model_tied(const ls_model *model, const char **head, const char **table);
int64_t ls_model_parameters(const ls_model *model); /* number of trained elements */

/* Tensors of a language model's graph. */
typedef struct ls_language_model {
    ls_tensor tokens, labels, positions; /* inputs i32[B,S] with these names */
    ls_tensor logits;                    /* G[B,S,V] */
    ls_tensor token_loss;                /* G[B,S] */
    ls_tensor loss;                      /* G[1]: the sum of token_loss */
    int forward_nodes;                   /* for ls_job */
} ls_language_model;

/*
 * Builds the model for B sequences of S tokens into an empty graph. Accumulator LS_BIND_LOSS sums the loss over
 * micro-batches. gradients: the graph is differentiated too (ls_graph_differentiate_loss); without, the caller may
 * freeze parameters first. Parameters have the published names and shapes, in the order of the layers.
 */
LS_MUST_USE ls_status ls_model_build(const ls_model *model, ls_graph *graph, int64_t B, int64_t S, bool gradients,
                                     ls_language_model *out);

/*
 * Builds the forward graph for generation: one sequence of `known` tokens (at least 1), to which tokens are added one
 * by one, up to S. Rope scaling "dynamic" depends on the length of the sequence; as in the Hugging Face library's
 * generation, each token is rotated by the length that the sequence had when the token was added.
 */
LS_MUST_USE ls_status ls_model_build_growing(const ls_model *model, ls_graph *graph, int64_t known, int64_t S,
                                             ls_language_model *out);

/*
 * The model's weights: from *.safetensors in its folder if there are any, otherwise random with standard deviation
 * initializer_range. Close with ls_weights_close.
 */
LS_MUST_USE ls_status ls_model_weights(const ls_model *model, const ls_image *image, uint64_t seed,
                                       ls_weight_source *out);

#endif
