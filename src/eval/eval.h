/*
 * eval: losses of a model by position, recall, and generation token by token.
 */
#ifndef LS_EVAL_H
#define LS_EVAL_H

#include "data/data.h"
#include "format/format.h"
#include "graph/graph.h"
#include "longspan/eval.h"
#include "model/model.h"
#include "session/session.h"
#include "text/text.h"

/* --- trained.c ---------------------------------------------------------------------------------------------------- */

/* A model with its config and tokenizer, and with weights of its own or of a checkpoint. */

typedef struct ls_trained {
    ls_model *model;
    ls_tokenizer *tokenizer;
    char *checkpoint; /* NULL: the model's own weights */
} ls_trained;

/*
 * model: config.json or a folder with one; NULL: that of the checkpoint. checkpoint: a folder with model.safetensors,
 * or a training run, whose newest checkpoint is used; NULL: none. LS_USAGE if both are NULL; LS_INVALID if the
 * tokenizer has more tokens than the model. Collective if the ranks were launched: LS_USAGE names a file that differs.
 */
LS_MUST_USE ls_status ls_trained_open(const char *model, const char *checkpoint, ls_trained *out);
/*
 * ls_trained_open with changes to the config's rotary positions, and with an adapter. The checkpoint of a model with an
 * adapter brings its own adapter. rope, adapter NULL: none.
 */
LS_MUST_USE ls_status ls_trained_open_changed(const char *model, const char *checkpoint, const ls_rope_change *rope,
                                              const ls_adapter_choice *adapter, ls_trained *out);
void ls_trained_close(ls_trained *trained); /* a zeroed one is allowed */

/*
 * Loads the weights into the ranks' memory. Collective; all ranks return the same failure. A model without weights gets
 * random ones from `seed`, and rank 0 logs this.
 */
LS_MUST_USE ls_status ls_trained_fill(const ls_trained *trained, const ls_rank *rank, uint64_t seed);

/* --- text.c ------------------------------------------------------------------------------------------------------- */

/*
 * If the ranks were launched: compares a text that each process has opened as `name`, e.g. "--data". opened: the status
 * of opening it. Collective; LS_USAGE if the texts differ. data may be NULL if `opened` is a failure.
 */
LS_MUST_USE ls_status ls_text_alike(const char *name, const ls_data *data, ls_status opened);

/* Sequences of a text, for training and evaluation. */

typedef struct ls_text_sequences {
    const ls_data *data;
    int64_t some;   /* > 0: this number of sequences, evenly spread over the text; 0: all, in order */
    ls_marks marks; /* how documents are found in the tokens, if they are not those of the text */
    int64_t S;      /* tokens of a sequence, needed with marks */
} ls_text_sequences;

/* Several ranks may read the sequences at the same time. The struct is borrowed. */
ls_sequences ls_text_sequences_of(const ls_text_sequences *text);

/* The documents of a few sequences, spread over a text, as examples of the content of a batch. */
typedef struct ls_typical {
    ls_mask_term *terms; /* LS_MASK_DOCUMENTS, for ls_job.documents; NULL: tokens may see other documents */
    int n;
} ls_typical;
/* marks: those of the model. */
LS_MUST_USE ls_status ls_typical_read(const ls_data *data, ls_marks marks, int64_t S, ls_typical *out);
void ls_typical_free(ls_typical *typical); /* a zeroed one is allowed */

/* --- evaluate.c --------------------------------------------------------------------------------------------------- */

/*
 * The loss of a model on data that is already open, for the eval command and the end of a training. Of the options it
 * uses seq and pack (equal to the data's), batch, sequences, dtype, seed, out and spread; all except the fields of the
 * spread must be set. Everything is borrowed for the call.
 */
LS_MUST_USE ls_status ls_evaluate_text(const ls_eval_options *options, const ls_trained *trained, const ls_data *data,
                                       ls_eval_result *result);

/* --- positions.c -------------------------------------------------------------------------------------------------- */

/* Losses by the distance from the beginning of the document, which show whether the model uses a long context. */

/*
 * Sums over tokens: of their loss and loss². Sums over sequences, each with n tokens of total loss L: of L², L·n and
 * n².
 */
typedef struct ls_loss_sum {
    int64_t sequences, tokens;
    double loss, token_squares;    /* loss, loss² */
    double squares, cross, counts; /* L², L·n, n² */
} ls_loss_sum;

/* Must be zeroed before the first sequence is added. */
typedef struct ls_loss_sums {
    ls_loss_sum bins[LS_LOSS_BINS][LS_LOSS_BINS]; /* [first][last]: over all tokens in bins first to last */
    int64_t farthest;                             /* the largest number of tokens before a predicted one */
} ls_loss_sums;

/*
 * Adds the losses[S] of a sequence whose labels are not LS_LABEL_IGNORED to the bins given by sample->seen. If the
 * sequence begins inside a document, the tokens before its beginning do not count as seen.
 */
void ls_loss_sums_add(ls_loss_sums *sums, int64_t S, const ls_sample *sample, const float *losses);

/*
 * Joins neighbouring bins until each has enough tokens for a mean whose standard error, estimated from the scatter of
 * the tokens, is at most `error` nats. INFINITY joins no bins.
 */
ls_loss_table ls_loss_sums_table(const ls_loss_sums *sums, double error);
#define LS_LOSS_BIN_ERROR 0.05

/* Writes "loss", "tokens", "sequences", "perplexity" and the array "by_position" into the open object. */
void ls_loss_table_put(const ls_loss_table *table, ls_json_writer *writer);
/* Writes folder/loss_by_position.svg. */
LS_MUST_USE ls_status ls_loss_table_draw(const ls_loss_table *table, const char *folder);
/* Prints a line for each bin. */
void ls_loss_table_print(const ls_loss_table *table, FILE *out);

/* --- decoder.c ---------------------------------------------------------------------------------------------------- */

/*
 * A model that reads a prompt at once and continues it token by token. The prefill (program evaluate) computes the keys
 * and values of the prompt, whose tokens are distributed over the ranks; each rank keeps those of its tokens. Each
 * further token (program decode) attends to them and adds its own key and value. The programs are compiled for a
 * largest sequence; no token sees positions after the current one.
 */

typedef struct ls_decoder {
    int64_t most; /* largest number of tokens in a sequence */
    ls_graph *model, *graph;
    ls_decoding decoding;
    const char *logits; /* the name of the logits */
    ls_job job;
    ls_session *session; /* the caller runs it, once */
    int decode;          /* index of the program `decode` */
} ls_decoder;

/*
 * For prompts of `known` tokens that grow to at most `most`. dtype: "f32" or "bf16", NULL: f32; another one is
 * LS_USAGE. The model is borrowed for the call. `out` must stay at its address until it is closed, because the session
 * borrows its job.
 */
LS_MUST_USE ls_status ls_decoder_open(const ls_model *model, int64_t known, int64_t most, const char *dtype,
                                      const ls_spread *spread, ls_decoder *out);
void ls_decoder_close(ls_decoder *decoder); /* a zeroed one is allowed */

/* Bytes of keys and values that the image's rank holds. */
int64_t ls_decoder_cache_bytes(const ls_decoder *decoder, const ls_image *image);

/*
 * Makes ids[0, n), 0 <= n <= most, the sequence, and computes its keys and values. Called before the first
 * ls_decoder_next. Collective, with equal arguments on every rank.
 */
LS_MUST_USE ls_status ls_decoder_prefill(const ls_decoder *decoder, const ls_rank *rank, const int32_t *ids, int64_t n);
/*
 * Adds token `id` at `place`, which is the number of tokens before it. logits[V] become those of the next token, with
 * equal bits on every rank. Collective. If a logit is not finite: LS_INVALID on every rank, naming the weight that is
 * the cause.
 */
LS_MUST_USE ls_status ls_decoder_next(const ls_decoder *decoder, const ls_rank *rank, int32_t id, int64_t place,
                                      float *logits);

/* --- generation.c ------------------------------------------------------------------------------------------------- */

/*
 * Drawing the next token from its logits, in the order of the Hugging Face library: logits are divided by the
 * temperature; top_k keeps the k most likely tokens and those as likely as the k-th; top_p keeps the fewest of these,
 * most likely first, whose total probability reaches top_p.
 */

typedef struct ls_sampling {
    double temperature; /* 0: always the most likely token */
    double top_p;       /* the probability to be reached, see above; 0 and 1: all tokens */
    int64_t top_k;      /* 0: all tokens */
    uint64_t seed;
} ls_sampling;

typedef struct ls_sampler ls_sampler;
LS_MUST_USE ls_status ls_sampler_create(const ls_sampling *sampling, int64_t V, ls_sampler **out);
void ls_sampler_destroy(ls_sampler *sampler); /* NULL is allowed */

/*
 * The token of draw `number`: a pure function of the sampling, the logits [V] and the number. Of equal logits, the
 * smaller id counts as more likely. A token whose logit is not finite is not drawn; if no logit is finite, the result
 * is id 0.
 */
int32_t ls_sampler_draw(ls_sampler *sampler, const float *logits, uint64_t number);

/* The tokens that end a text. */

enum { LS_MOST_STOPS = 64 };

typedef struct ls_stops {
    int32_t id[LS_MOST_STOPS];
    int n;
} ls_stops;

/*
 * Reads "eos_token_id", a number or an array, from generation_config.json in the model folder, or else from its
 * config.json; if neither has it, uses the tokenizer's end of document. LS_INVALID names the file and a value that is
 * not a token of the model.
 */
LS_MUST_USE ls_status ls_stops_read(const ls_trained *trained, ls_stops *out);
bool ls_stops_have(const ls_stops *stops, int32_t id);

/* Converts tokens to printable text as they arrive, in whole characters. */

typedef struct ls_generated_text {
    const ls_tokenizer *tokenizer;
    void (*out)(void *context, const char *bytes, size_t n);
    void *context;
    ls_token_stream *tokens;
    ls_text text; /* bytes not yet passed to `out` */
} ls_generated_text;

/*
 * Begins after the tokens ids[0, n). Their text is not passed to `out`; they are needed because a token's text may
 * depend on the tokens before it. The caller sets stream->tokenizer, out and context, leaves the rest zero, and must
 * call ls_generated_free also after a failure.
 */
LS_MUST_USE ls_status ls_generated_begin(ls_generated_text *stream, const int32_t *ids, size_t n);
/*
 * Passes the text that the token adds to `out`; special tokens add none. Bytes of an incomplete character wait for the
 * next token.
 */
LS_MUST_USE ls_status ls_generated_put(ls_generated_text *stream, int32_t id);
/* Called after the last token: passes the waiting bytes to `out`. */
LS_MUST_USE ls_status ls_generated_end(ls_generated_text *stream);
void ls_generated_free(ls_generated_text *stream); /* a zeroed one is allowed */

/* --- recall.c ----------------------------------------------------------------------------------------------------- */

/* Prints one line for each depth, with a column for each length. */
void ls_recall_print(const ls_recall_result *result, FILE *out);
void ls_recall_result_json(const ls_recall_result *result, FILE *out);

#endif
