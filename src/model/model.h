/* model: models, read from a config.json or a graph.json and built as graphs. */
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

/* Sizes and other facts of a model that other folders need. What a graph.json does not say is 0. */
typedef struct ls_model_sizes {
    int64_t V; /* ids that tokens may have */
    int64_t E, F, L, Hq, Hkv, D;
    int64_t outputs; /* numbers in the logits of a token, and ids that labels may have */
    int64_t longest; /* max_position_embeddings */
    bool learned;    /* positions are learned, so that no sequence may be longer than `longest` */
    bool tied;       /* the head is the embedding table */
    bool pads;       /* there is a padding id, `pad`: looking it up adds nothing to the gradient of its row */
    int64_t pad;
    double initializer_range;
} ls_model_sizes;

/* What the sum of the losses of a step is divided by: its labels that count, all its tokens, nothing, or a sum. */
typedef enum ls_mean { LS_MEAN_LABELS, LS_MEAN_TOKENS, LS_MEAN_NOTHING, LS_MEAN_WEIGHTS } ls_mean;
/* Of all but LS_MEAN_WEIGHTS, which a model has only with other inputs. */
static inline int64_t ls_mean_divisor(ls_mean mean, int64_t labels, int64_t tokens) {
    return mean == LS_MEAN_LABELS ? labels : mean == LS_MEAN_TOKENS ? tokens : 1;
}

/* An input that neither tokens nor labels nor positions are, so that the user must give it. */
typedef struct ls_model_input {
    const char *name;
    ls_dtype dtype; /* LS_I32 or LS_F32; in the graph, real numbers have its accumulator type */
    int64_t words;  /* > 0: of integers, ids of so many words, or LS_LABEL_IGNORED */
    bool of_loss; /* the losses of tokens do not depend on it, so that it may be missing where these alone are wanted */
} ls_model_input;

/* Of LS_MEAN_WEIGHTS: the sum over tokens of a product of other inputs, but at least `least`, and `plus`. */
enum { LS_MOST_WEIGHTS = 4 };
typedef struct ls_mean_weights {
    int n;
    struct ls_mean_weight {
        int input;     /* its number among the others */
        int64_t shift; /* for token i it counts what it is for token i + shift; 0 outside of the sequence */
    } of[LS_MOST_WEIGHTS];
    bool labels; /* tokens whose label is ignored are left out */
    double least, plus;
} ls_mean_weights;

/* Documents that are found in the tokens: a document begins at each token `id` (first), or behind it (last). */
typedef enum ls_mark_kind { LS_MARK_NOT, LS_MARK_FIRST, LS_MARK_LAST } ls_mark_kind;
typedef struct ls_marks {
    ls_mark_kind kind; /* LS_MARK_NOT: documents are told apart from the tokens */
    int32_t id;
} ls_marks;
/* The bounds of the documents of S tokens: 0 = ends[0] < ... < ends[n - 1] = S; ends has room for S + 1. Returns n. */
int ls_marks_find(const ls_marks *marks, const int32_t *tokens, int64_t S, int32_t *ends);

typedef struct ls_model_inputs {
    bool labels, positions; /* the graph has such an input; it always has tokens */
    bool shifts;            /* the user's own labels stand one token further left than the graph's */
    bool documents;         /* attention may be told of documents that do not see each other */
    ls_marks marks;
    ls_mean mean;
    ls_mean_weights weights;
    const ls_model_input *others; /* of the model */
    int n_others;
} ls_model_inputs;

/*
 * path: a config.json or a graph.json, or a folder with one of them and, if the model has trained weights,
 * *.safetensors; or the folder of an adapter, or of a checkpoint of its training: then the model that its
 * adapter_config.json names in base_model_name_or_path, with that adapter. Every field is checked: the error names the
 * file, the field, its value and what was expected. An unknown architecture, activation, rope type or op is
 * LS_UNSUPPORTED. docs/graph-format.md describes graph.json.
 */
LS_MUST_USE ls_status ls_model_open(const char *path, ls_model **out);
/*
 * The same with the rotary positions in the text of config.json changed; yarn and llama3 also raise
 * max_position_embeddings in it to the length that they reach. LS_USAGE: the change cannot be read, or the model has no
 * rotary positions, or is a graph.json, whose rotary positions are part of its nodes.
 */
LS_MUST_USE ls_status ls_model_open_changed(const char *path, const ls_rope_change *change, ls_model **out);
/*
 * The same from the text of a config.json, or of a graph.json, which its field "format" tells; errors call it `name`,
 * and its folder is "". text NULL: as ls_model_open(name).
 */
LS_MUST_USE ls_status ls_model_open_text(const char *name, const char *text, ls_model **out);
/*
 * Gives the model an adapter, where the choice has one: from then on it is built with that, and its weights are those
 * of both, of which its own must be trained; and its matrices the type that the choice says. A model that scores has
 * its head among what the adapter trains; one whose folder has such a head makes a language model score. LS_USAGE: it
 * has an adapter already.
 */
LS_MUST_USE ls_status ls_model_adapt(ls_model *model, const ls_adapter_choice *choice);
/*
 * From now on the model's own matrices that are not trained are kept in that type (model/base.c); LS_DTYPES: in that of
 * the run. ls_model_adapt has called it.
 */
void ls_model_keep(ls_model *model, ls_dtype type);
/*
 * LS_USAGE: matrices are kept in another type, and no adapter is trained on them; the message says what is expected.
 */
LS_MUST_USE ls_status ls_model_check_trained(const ls_model *model);
/*
 * From now on the model is built with another loss: the sum over all tokens of the token's loss, times its weight in
 * the input LS_MODEL_WEIGHTS, G[B,S], divided by nothing. LS_UNSUPPORTED: the model is a graph.json, whose loss is part
 * of its nodes.
 */
#define LS_MODEL_WEIGHTS "weights"
LS_MUST_USE ls_status ls_model_weigh(ls_model *model);
/*
 * From now on the token's loss is that of smoothed labels, (1 - smoothing) of a label's and the rest shared by all V
 * words (Szegedy et al., arXiv 1512.00567, section 7), plus z · (log Σ exp logits)² (Chowdhery et al., "PaLM", arXiv
 * 2204.02311, section 5). LS_UNSUPPORTED: the model is a graph.json.
 */
LS_MUST_USE ls_status ls_model_smooth(ls_model *model, double smoothing, double z);
/*
 * From now on the embeddings of tokens have uniform noise within ±alpha/√(S·E) (Jain et al., "NEFTune", arXiv
 * 2310.05914, section 2), of sequences of S tokens. It is a function of a token's key in the input LS_MODEL_NOISE,
 * i32[B,S], and an element's number; a token with key 0 has none. LS_UNSUPPORTED: the model is a graph.json.
 */
#define LS_MODEL_NOISE "noise"
LS_MUST_USE ls_status ls_model_noise(ls_model *model, double alpha);
/*
 * From now on the model has a head of one number in the place of words, LS_SCORE_WEIGHT [1,E], as the Hugging Face
 * library's XForSequenceClassification with one label has it, and as its text says; a token's loss is minus its number.
 * ls_model_weights makes the head's parameter by random numbers. Nothing changes in a model that was opened as one of
 * that form, or that an adapter has made one whose files have the head. LS_UNSUPPORTED: the library has no such form of
 * the architecture, or the model has an adapter.
 */
LS_MUST_USE ls_status ls_model_score(ls_model *model);
/* LS_UNSUPPORTED: the model has such a head. */
LS_MUST_USE ls_status ls_model_check_words(const ls_model *model);
/* Whether that head is a new one, or an adapter's: that of the model's files, if they have one, is not read. */
bool ls_model_head_apart(const ls_model *model);
/*
 * From now on a token's loss is how far the model is from a teacher, of which the k likeliest words of each token are
 * given (k from 1 to LS_MOST_TEACHER): weight · T² · Σ p (log p - log q) over these words and all others together
 * (Hinton et al., arXiv 1503.02531, section 2, with the tail as one word), where p is the teacher's and q the model's
 * softmax(logits/T) at the temperature T, and 1 - weight (weight above 0, 1 at most) of the label's own loss; where the
 * label is ignored, 0. Inputs: "teacher_ids.0" .. i32[B,S] (-100: no word) and "teacher_logprobs.0" .. G[B,S], log p,
 * for each of the k. LS_UNSUPPORTED: the model is a graph.json.
 */
#define LS_MODEL_TEACHER_IDS "teacher_ids"
#define LS_MODEL_TEACHER_LOGPROBS "teacher_logprobs"
typedef struct ls_distillation {
    int k;
    double weight, temperature;
} ls_distillation;
LS_MUST_USE ls_status ls_model_distil(ls_model *model, const ls_distillation *distillation);
/*
 * What a teacher says: the k likeliest of the first `words` words for each token, the likeliest first and of equal ones
 * that with the lowest id, and their log-probabilities at a temperature: those of softmax(logits/temperature) over all
 * words of the model. Two tensors of the graph, which it names: LS_MODEL_TOP_IDS i32[B,S,k], LS_MODEL_TOP_LOGPROBS
 * G[B,S,k].
 */
#define LS_MODEL_TOP_IDS "top_ids"
#define LS_MODEL_TOP_LOGPROBS "top_logprobs"
typedef struct ls_likeliest {
    ls_tensor ids, logprobs;
} ls_likeliest;
ls_likeliest ls_model_likeliest(ls_graph *graph, ls_tensor logits, int k, int64_t words, double temperature);
/* One line about the adapter; false: there is none. */
bool ls_model_print_adapter(const ls_model *model, char *out, size_t room);
/*
 * Raises max_position_embeddings in the text of config.json to S, so that a model trained with sequences of S tokens is
 * exported with that length. *longer: the text was changed. Nothing changes if it is at least S, if positions are
 * learned, or if the scaling is computed from it (dynamic; yarn without the original length). Nothing changes in a
 * graph.json: it has no such field.
 */
LS_MUST_USE ls_status ls_model_lengthen(ls_model *model, int64_t S, bool *longer);
/*
 * Whether the model can read sequences of S tokens that hold several documents which do not see each other.
 * LS_UNSUPPORTED with rope scaling "dynamic" and S beyond the length that it starts from: it goes by the length of the
 * sequence, but a document by itself would have frequencies of its own length.
 */
LS_MUST_USE ls_status ls_model_check_apart(const ls_model *model, int64_t S);
/* LS_UNSUPPORTED names an input of the model that no data has. */
LS_MUST_USE ls_status ls_model_check_fed(const ls_model *model);
void ls_model_close(ls_model *model); /* NULL is allowed */
ls_model_sizes ls_model_describe(const ls_model *model);
ls_model_inputs ls_model_takes(const ls_model *model);
const char *ls_model_architecture(const ls_model *model); /* "LlamaForCausalLM", "imported graph" */
/* The folder of the model's file, for tokenizer.json and weights. */
const char *ls_model_folder(const ls_model *model);

/* What a model was read from: the name of its file, "config.json" or "graph.json", and its text. */
typedef struct ls_model_text {
    const char *file, *text;
    const char *adapter; /* text of the adapter_config.json of its adapter; NULL: it has none */
    uint64_t base;       /* with an adapter: identifies the files of the weights that it is on */
} ls_model_text;
/* With all its fields, and with the changes of the two functions above. Borrowed from the model. */
ls_model_text ls_model_written(const ls_model *model);
/* The names of the files that models are written in; NULL past the end. */
const char *ls_model_file(int index);

/* One line for people: what it is, its parameters and sizes. */
void ls_model_print(const ls_model *model, char *out, size_t room);
/* The same as members of the open object. */
void ls_model_put(const ls_model *model, ls_json_writer *w);
/* A second name under which files may hold a parameter, as a tied head has; NULL past the end. */
const ls_weight_copy *ls_model_copy(const ls_model *model, int index);
int64_t ls_model_parameters(const ls_model *model); /* number of trained elements */

/* Tensors of a language model's graph. */
typedef struct ls_language_model {
    /* Inputs i32[B,S] with these names. The model may have no labels or positions. */
    ls_tensor tokens, labels, positions;
    ls_tensor logits;     /* G[B,S,V], named "logits"; a graph.json may have none */
    ls_tensor token_loss; /* G[B,S], named "token_loss"; none where the loss of a graph.json is no sum of that shape */
    ls_tensor loss;       /* G[1]: the sum over all tokens */
    int forward_nodes;    /* for ls_job */
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
 * LS_UNSUPPORTED: the model has no logits, or no loss for each token, which `what` needs.
 */
LS_MUST_USE ls_status ls_model_need_logits(const ls_model *model, const ls_language_model *lm, const char *what);
LS_MUST_USE ls_status ls_model_need_token_loss(const ls_model *model, const ls_language_model *lm, const char *what);

/*
 * The model's weights: from *.safetensors in its folder if there are any, otherwise random with standard deviation
 * initializer_range; of a graph.json, LS_INVALID: nothing says how its parameters are made. Close with
 * ls_weights_close.
 */
LS_MUST_USE ls_status ls_model_weights(const ls_model *model, const ls_image *image, uint64_t seed,
                                       ls_weight_source *out);
/*
 * The weights of a model whose own parameters, those that a checkpoint keeps, come from another source, which is owned,
 * also when this fails. Without an adapter these are all.
 */
LS_MUST_USE ls_status ls_model_weights_with(const ls_model *model, const ls_image *image, const ls_weight_source *own,
                                            ls_weight_source *out);

/* Of a model with an adapter: ls_adapter_merged. */
LS_MUST_USE ls_status ls_model_merged(const ls_model *model, const ls_image *image, const ls_weight_source *with,
                                      ls_weight_source *out);

#endif
