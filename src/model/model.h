/* model: models that are read from a config.json or a graph.json and built as graphs. */
#ifndef LS_MODEL_H
#define LS_MODEL_H

#include "compile/compile.h"
#include "format/format.h"
#include "longspan/adapter.h"
#include "longspan/data.h"
#include "longspan/graph.h"
#include "longspan/spread.h"
#include "weights/weights.h"

typedef struct ls_model ls_model;

/* Sizes and other facts of a model that other folders need. A value that a graph.json does not give is 0. */
typedef struct ls_model_sizes {
    int64_t V; /* number of ids that tokens may have */
    int64_t E, F, L, Hq, Hkv, D;
    int64_t outputs; /* logits per token, and the number of ids that labels may have */
    int64_t longest; /* max_position_embeddings */
    bool learned;    /* positions are learned, so no sequence may be longer than `longest` */
    bool tied;       /* the head is the embedding table */
    bool pads;       /* there is a padding id, `pad`: looking it up adds nothing to the gradient of its row */
    int64_t pad;
    double initializer_range;
} ls_model_sizes;

/* What the sum of the losses of a step is divided by: the labels that count, all tokens, nothing, or a weighted sum. */
typedef enum ls_mean { LS_MEAN_LABELS, LS_MEAN_TOKENS, LS_MEAN_NOTHING, LS_MEAN_WEIGHTS } ls_mean;
/* The divisor, for all but LS_MEAN_WEIGHTS, which only a model with other inputs has. */
static inline int64_t ls_mean_divisor(ls_mean mean, int64_t labels, int64_t tokens) {
    return mean == LS_MEAN_LABELS ? labels : mean == LS_MEAN_TOKENS ? tokens : 1;
}

/* An input other than tokens, labels and positions, which the user must supply. */
typedef struct ls_model_input {
    const char *name;
    ls_dtype dtype; /* LS_I32 or LS_F32; real numbers have the accumulator type in the graph */
    int64_t words;  /* > 0: the integers are ids below this number, or LS_LABEL_IGNORED */
    bool of_loss;   /* the losses of tokens do not depend on it, so it may be missing if only these are wanted */
} ls_model_input;

/* For LS_MEAN_WEIGHTS: the sum over tokens of a product of other inputs; at least `least`, and then `plus` is added. */
enum { LS_MOST_WEIGHTS = 4 };
typedef struct ls_mean_weights {
    int n;
    struct ls_mean_weight {
        int input;     /* index among the other inputs */
        int64_t shift; /* token i uses the value of token i + shift; outside the sequence the value is 0 */
    } of[LS_MOST_WEIGHTS];
    bool labels; /* leaves out tokens whose label is ignored */
    double least, plus;
} ls_mean_weights;

/* Documents that are found from the tokens: a document begins at each token `id` (first), or after it (last). */
typedef enum ls_mark_kind { LS_MARK_NOT, LS_MARK_FIRST, LS_MARK_LAST } ls_mark_kind;
typedef struct ls_marks {
    ls_mark_kind kind; /* LS_MARK_NOT: documents are not found from the tokens */
    int32_t id;
} ls_marks;
/*
 * Finds the bounds of the documents of S tokens: 0 = ends[0] < ... < ends[n - 1] = S; ends has room for S + 1. Returns
 * n.
 */
int ls_marks_find(const ls_marks *marks, const int32_t *tokens, int64_t S, int32_t *ends);

typedef struct ls_model_inputs {
    bool labels, positions; /* the graph has this input; it always has tokens */
    bool shifts;            /* the user's own labels are one token to the left of the graph's */
    bool documents;         /* attention may be told about documents that do not see each other */
    ls_marks marks;
    ls_mean mean;
    ls_mean_weights weights;
    const ls_model_input *others; /* owned by the model */
    int n_others;
} ls_model_inputs;

/*
 * path: a config.json or a graph.json; a folder with one of them and, if the model has trained weights, *.safetensors;
 * or the folder of an adapter or of a checkpoint of its training. The last opens the model that adapter_config.json
 * names in base_model_name_or_path, with that adapter. Every field is checked: the error names the file, the field, its
 * value and what was expected. An unknown architecture, activation, rope type or op is LS_UNSUPPORTED.
 * docs/graph-format.md describes graph.json.
 */
LS_MUST_USE ls_status ls_model_open(const char *path, ls_model **out);
/*
 * The same, with the rotary positions in the text of config.json changed. yarn and llama3 also raise
 * max_position_embeddings in the text to the length that they reach. LS_USAGE: the change cannot be read, the model has
 * no rotary positions, or it is a graph.json, whose rotary positions are part of its nodes.
 */
LS_MUST_USE ls_status ls_model_open_changed(const char *path, const ls_rope_change *change, ls_model **out);
/*
 * The same from the text of a config.json or of a graph.json; the field "format" tells which. Errors call the text
 * `name`, and the model's folder is "". text NULL: as ls_model_open(name).
 */
LS_MUST_USE ls_status ls_model_open_text(const char *name, const char *text, ls_model **out);
/*
 * Gives the model an adapter, if the choice has one. From then on the model is built with the adapter, and its weights
 * are those of both; the model's own weights must come from trained files. Its matrices get the type that the choice
 * names. If the model scores, the adapter also trains its head; if the adapter's folder has such a head, a language
 * model becomes one that scores. LS_USAGE: the model has an adapter already.
 */
LS_MUST_USE ls_status ls_model_adapt(ls_model *model, const ls_adapter_choice *choice);
/*
 * From now on the model's own matrices that are not trained are kept in this type (model/base.c); LS_DTYPES: in the
 * type of the run. ls_model_adapt calls this function itself.
 */
void ls_model_keep(ls_model *model, ls_dtype type);
/* LS_USAGE: matrices are kept in another type, but no adapter is trained on them; the message says what is expected. */
LS_MUST_USE ls_status ls_model_check_trained(const ls_model *model);
/*
 * From now on the model is built with another loss: the sum over all tokens of the token's loss times its weight in the
 * input LS_MODEL_WEIGHTS, G[B,S]. The sum is not divided. LS_UNSUPPORTED: the model is a graph.json, whose loss is part
 * of its nodes.
 */
#define LS_MODEL_WEIGHTS "weights"
LS_MUST_USE ls_status ls_model_weigh(ls_model *model);
/*
 * From now on a token's loss uses smoothed labels: the label has probability 1 - smoothing, and the rest is shared by
 * all V words (Szegedy et al., arXiv 1512.00567, section 7). The loss also has the term z · (log Σ exp logits)²
 * (Chowdhery et al., "PaLM", arXiv 2204.02311, section 5). LS_UNSUPPORTED: the model is a graph.json.
 */
LS_MUST_USE ls_status ls_model_smooth(ls_model *model, double smoothing, double z);
/*
 * From now on uniform noise within ±alpha/√(S·E) is added to the embeddings of tokens, for sequences of S tokens (Jain
 * et al., "NEFTune", arXiv 2310.05914, section 2). The noise is a function of a token's key, in the input
 * LS_MODEL_NOISE, i32[B,S], and of the element's number; a token with key 0 has none. LS_UNSUPPORTED: the model is a
 * graph.json.
 */
#define LS_MODEL_NOISE "noise"
LS_MUST_USE ls_status ls_model_noise(ls_model *model, double alpha);
/*
 * From now on the model has a scoring head, which gives one number, in place of the head of words: LS_SCORE_WEIGHT
 * [1,E], as in the Hugging Face library's XForSequenceClassification with one label. The model's text says so too. A
 * token's loss is minus its number. ls_model_weights initialises the head's parameter with random numbers. Nothing
 * changes if the model already scores: because it was opened in that form, or because its adapter's files have the
 * head. LS_UNSUPPORTED: the library has no such form of the architecture, or the model has an adapter.
 */
LS_MUST_USE ls_status ls_model_score(ls_model *model);
/* LS_UNSUPPORTED: the model has a scoring head instead of a head of words. */
LS_MUST_USE ls_status ls_model_check_words(const ls_model *model);
/* Whether the scoring head is a new one or an adapter's. The one of the model's files, if any, is then not read. */
bool ls_model_head_apart(const ls_model *model);
/*
 * From now on a token's loss is the divergence of the model from a teacher whose k likeliest words are given for each
 * token (k from 1 to LS_MOST_TEACHER). The loss is weight · T² · Σ p (log p - log q) over these words and all others
 * taken as one word (Hinton et al., arXiv 1503.02531, section 2), where p is the teacher's and q the model's
 * softmax(logits/T) at the temperature T; plus 1 - weight (weight above 0, at most 1) times the label's own loss. Where
 * the label is ignored, the loss is 0. Inputs: "teacher_ids.0" .. i32[B,S] (-100: no word) and "teacher_logprobs.0" ..
 * G[B,S], log p, for each of the k. LS_UNSUPPORTED: the model is a graph.json.
 */
#define LS_MODEL_TEACHER_IDS "teacher_ids"
#define LS_MODEL_TEACHER_LOGPROBS "teacher_logprobs"
typedef struct ls_distillation {
    int k;
    double weight, temperature;
} ls_distillation;
LS_MUST_USE ls_status ls_model_distil(ls_model *model, const ls_distillation *distillation);
/*
 * A teacher's output for each token: the k likeliest of the first `words` words, the likeliest first and, of equally
 * likely ones, the lowest id first; and their log-probabilities at a temperature, those of softmax(logits/temperature)
 * over all words of the model. The function names the two tensors of the graph: LS_MODEL_TOP_IDS i32[B,S,k],
 * LS_MODEL_TOP_LOGPROBS G[B,S,k].
 */
#define LS_MODEL_TOP_IDS "top_ids"
#define LS_MODEL_TOP_LOGPROBS "top_logprobs"
typedef struct ls_likeliest {
    ls_tensor ids, logprobs;
} ls_likeliest;
ls_likeliest ls_model_likeliest(ls_graph *graph, ls_tensor logits, int k, int64_t words, double temperature);
/* Writes one line about the adapter; false: there is none. */
bool ls_model_print_adapter(const ls_model *model, char *out, size_t room);
/*
 * Raises max_position_embeddings in the text of config.json to S, so that a model trained with sequences of S tokens is
 * exported with that length. *longer: the text was changed. Nothing changes if the value is at least S already, if
 * positions are learned, or if the scaling is computed from the value (dynamic; yarn without the original length).
 * Nothing changes in a graph.json: it has no such field.
 */
LS_MUST_USE ls_status ls_model_lengthen(ls_model *model, int64_t S, bool *longer);
/*
 * Whether the model can read sequences of S tokens that hold several documents which do not see each other.
 * LS_UNSUPPORTED: rope scaling "dynamic" with S beyond the original length. That scaling depends on the length of the
 * sequence, while each document alone would have frequencies for its own length.
 */
LS_MUST_USE ls_status ls_model_check_apart(const ls_model *model, int64_t S);
/* LS_UNSUPPORTED names an input of the model that no data supplies. */
LS_MUST_USE ls_status ls_model_check_fed(const ls_model *model);
void ls_model_close(ls_model *model); /* NULL is allowed */
ls_model_sizes ls_model_describe(const ls_model *model);
ls_model_inputs ls_model_takes(const ls_model *model);
const char *ls_model_architecture(const ls_model *model); /* "LlamaForCausalLM", "imported graph" */
/* The folder of the model's file, where tokenizer.json and weights lie. */
const char *ls_model_folder(const ls_model *model);

/* What a model was read from: the name of its file, "config.json" or "graph.json", and its text. */
typedef struct ls_model_text {
    const char *file, *text;
    const char *adapter; /* text of its adapter's adapter_config.json; NULL: no adapter */
    uint64_t base;       /* with an adapter: identifies the files of the base's weights */
} ls_model_text;
/* The text has all fields, and the changes of ls_model_open_changed and ls_model_lengthen. Borrowed from the model. */
ls_model_text ls_model_written(const ls_model *model);
/* The possible names of a model's file; NULL past the end. */
const char *ls_model_file(int index);

/* Writes one line for people: the architecture, the number of parameters, and sizes. */
void ls_model_print(const ls_model *model, char *out, size_t room);
/* Writes the same as members of the JSON object that is open in w. */
void ls_model_put(const ls_model *model, ls_json_writer *w);
/* A second name under which files may hold a parameter, such as a tied head; NULL past the end. */
const ls_weight_copy *ls_model_copy(const ls_model *model, int index);
int64_t ls_model_parameters(const ls_model *model); /* number of elements of trained parameters */

/* Tensors of a language model's graph. */
typedef struct ls_language_model {
    /* Inputs i32[B,S] with these names. A model may lack labels or positions. */
    ls_tensor tokens, labels, positions;
    ls_tensor logits; /* G[B,S,V], named "logits"; a graph.json may have none */
    /* G[B,S], named "token_loss"; none if the loss of a graph.json is not a sum over terms of that shape */
    ls_tensor token_loss;
    ls_tensor loss;    /* G[1]: the sum over all tokens */
    int forward_nodes; /* for ls_job */
} ls_language_model;

/*
 * Builds the model for B sequences of S tokens into an empty graph. Accumulator LS_BIND_LOSS sums the loss over
 * micro-batches. gradients: also differentiates the graph (ls_graph_differentiate_loss); if false, the caller may
 * freeze parameters and differentiate it later. Parameters have the published names and shapes, in the order of the
 * layers.
 */
LS_MUST_USE ls_status ls_model_build(const ls_model *model, ls_graph *graph, int64_t B, int64_t S, bool gradients,
                                     ls_language_model *out);

/*
 * Builds the forward graph for generation: one sequence of `known` tokens (at least 1), to which tokens are added one
 * by one, up to S. Rope scaling "dynamic" depends on the length of the sequence. As in the Hugging Face library's
 * generation, each token is rotated for the length that the sequence had when the token was added.
 */
LS_MUST_USE ls_status ls_model_build_growing(const ls_model *model, ls_graph *graph, int64_t known, int64_t S,
                                             ls_language_model *out);

/* LS_UNSUPPORTED: the model lacks logits or a loss for each token, which `what` needs. */
LS_MUST_USE ls_status ls_model_need_logits(const ls_model *model, const ls_language_model *lm, const char *what);
LS_MUST_USE ls_status ls_model_need_token_loss(const ls_model *model, const ls_language_model *lm, const char *what);

/*
 * The model's weights: from *.safetensors in its folder if there are any, otherwise random with standard deviation
 * initializer_range. LS_INVALID: a graph.json without files, since nothing says how its parameters are initialised.
 * Close with ls_weights_close.
 */
LS_MUST_USE ls_status ls_model_weights(const ls_model *model, const ls_image *image, uint64_t seed,
                                       ls_weight_source *out);
/*
 * The weights of a model whose own parameters, those that a checkpoint holds, come from another source. That source is
 * owned from now on, also on failure. Without an adapter, all parameters come from it.
 */
LS_MUST_USE ls_status ls_model_weights_with(const ls_model *model, const ls_image *image, const ls_weight_source *own,
                                            ls_weight_source *out);

/* For a model with an adapter: ls_adapter_merged. */
LS_MUST_USE ls_status ls_model_merged(const ls_model *model, const ls_image *image, const ls_weight_source *with,
                                      ls_weight_source *out);

#endif
