/*
 * model: architectures built from graph ops.
 */
#ifndef LS_MODEL_H
#define LS_MODEL_H

#include "compile/compile.h"
#include "longspan/graph.h"
#include "longspan/job.h"
#include "weights/weights.h"

typedef struct ls_model ls_model;

/* What a model is, as its config.json says. */
typedef struct ls_model_sizes {
    int64_t V, E, F, L, Hq, Hkv, D;
    int64_t longest; /* max_position_embeddings */
    bool learned;    /* positions are: there are no more than `longest` */
    bool tied;       /* the head is the embedding table */
    bool pads; /* there is an id whose row of the embedding table gets no gradient from being looked up: */
    int64_t pad;
    double initializer_range;
} ls_model_sizes;

/*
 * path: a config.json, or a directory with one (and, if it has trained weights, *.safetensors). Every field is
 * checked: the error names the file, the field, its value and what was expected; unknown architectures, activations and rope
 * types are refused by name.
 */
LS_MUST_USE ls_status ls_model_open(const char *path, ls_model **out);
/*
 * The same with other rotary positions, as if config.json said so; its text is then the changed one, and of yarn and llama3 it has the
 * longer max_position_embeddings too. LS_USAGE for a change that cannot be read, or a model without rotary positions.
 */
LS_MUST_USE ls_status ls_model_open_changed(const char *path, const ls_rope_change *change, ls_model **out);
/* The same for the text of a config.json, which errors call `name`; its directory is "". text NULL: name is the path. */
LS_MUST_USE ls_status ls_model_open_text(const char *name, const char *text, ls_model **out);
/*
 * Makes max_position_embeddings S in the text of config.json where it is less and the positions are rotary: what is saved after training
 * with such sequences says so. *longer: it was done. A scaling that is made from that number (dynamic; yarn without the original length)
 * keeps it.
 */
LS_MUST_USE ls_status ls_model_lengthen(ls_model *model, int64_t S, bool *longer);
void ls_model_close(ls_model *model); /* NULL is allowed */
ls_model_sizes ls_model_describe(const ls_model *model);
const char *ls_model_architecture(const ls_model *model); /* "LlamaForCausalLM" */
/* The directory of the config, for tokenizer.json and weights. */
const char *ls_model_directory(const ls_model *model);
/* The text of config.json as it was read, unknown fields included, or as it was changed. */
const char *ls_model_config_text(const ls_model *model);
int64_t ls_model_parameters(const ls_model *model); /* number of trained elements */

/* A language model's graph, for training or evaluation. */
typedef struct ls_language_model {
    ls_tensor tokens, labels, positions; /* inputs i32[B,S]; bound as "tokens", "labels", "positions" */
    ls_tensor logits;                    /* G[B,S,V] */
    ls_tensor token_loss;                /* G[B,S] */
    ls_tensor loss;                      /* G[1]: their sum */
    ls_tensor seed;                      /* input G[1], bound as "seed": 1/N; only with gradients */
    int forward_nodes;                   /* for ls_job */
} ls_language_model;

/*
 * Builds the model into an empty graph: B sequences of S tokens. The sum of the losses is accumulated under LS_BIND_LOSS.
 * gradients: differentiated with seed. Parameters carry the published names and shapes, in the order of the layers.
 */
LS_MUST_USE ls_status ls_model_build(const ls_model *model, ls_graph *graph, int64_t B, int64_t S,
                                     bool gradients, ls_language_model *out);
/* The gradients of a graph that was built without, of the parameters that are not frozen by now. */
LS_MUST_USE ls_status ls_model_differentiate(ls_graph *graph, ls_language_model *lm);

/*
 * The same, forward alone, for one sequence of `known` tokens (at least 1) that others are added to one by one, up to S. What
 * depends on a sequence's length (rope scaling "dynamic") is of each token what it was when the token came, as in the Hugging Face
 * library's generation.
 */
LS_MUST_USE ls_status ls_model_build_growing(const ls_model *model, ls_graph *graph, int64_t known, int64_t S,
                                             ls_language_model *out);

/*
 * The model's own weights: from *.safetensors in its directory when there are any, otherwise random with deviation
 * initializer_range. Close with ls_weights_close.
 */
LS_MUST_USE ls_status ls_model_weights(const ls_model *model, const ls_image *image, uint64_t seed,
                                       ls_weight_source *out);

#endif
