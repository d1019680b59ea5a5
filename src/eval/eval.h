/*
 * eval: how well a model does, and what it says: losses by position, recall, generation token by token.
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

/* --- trained.c ------------------------------------------------------------------------------------------------------------- */

/* A model as it is used: config, tokenizer, and weights of its own or of a checkpoint. */

typedef struct ls_trained {
    ls_model *model;
    ls_tokenizer *tokenizer;
    char *checkpoint; /* NULL: the model's own weights */
} ls_trained;

/*
 * model: config.json or a directory with one; NULL: the checkpoint's. checkpoint: a folder with model.safetensors, or a training run,
 * of which the newest is taken; NULL: none. At least one of them (LS_USAGE). The vocabularies are checked against each other.
 */
LS_MUST_USE ls_status ls_trained_open(const char *model, const char *checkpoint, ls_trained *out);
/* The same with other rotary positions than the config's; NULL: none. */
LS_MUST_USE ls_status ls_trained_open_changed(const char *model, const char *checkpoint,
                                              const ls_rope_change *rope, ls_trained *out);
void ls_trained_close(ls_trained *trained); /* a zeroed one is allowed */

/* The weights into a rank's memory; rank 0 says when they are random (from seed), as nothing else is there. */
LS_MUST_USE ls_status ls_trained_fill(const ls_trained *trained, const ls_rank *rank, uint64_t seed);

/* --- text.c ---------------------------------------------------------------------------------------------------------------- */

/* Sequences of a text, for training and evaluation. */

typedef struct ls_text_sequences {
    const ls_data *data;
    int64_t some; /* > 0: so many of the text's, evenly spread over it; 0: as they come */
} ls_text_sequences;

/* Any number of ranks may read them at once. The struct is borrowed. */
ls_sequences ls_text_sequences_of(const ls_text_sequences *text);

/* Documents of a few sequences, spread over a text: what its batches are like. */
typedef struct ls_typical {
    ls_mask_term *terms; /* of kind documents, as ls_job has them; NULL: documents do not stand apart */
    int n;
} ls_typical;
LS_MUST_USE ls_status ls_typical_read(const ls_data *data, int64_t S, ls_typical *out);
void ls_typical_free(ls_typical *typical); /* a zeroed one is allowed */

/* --- evaluate.c ------------------------------------------------------------------------------------------------------------ */

/* The loss of a model on a text that is open already: what the command and the end of a training share. */

/*
 * Of the options seq and pack (those of the data), batch, sequences, dtype, seed, out and spread count, and none is left to a default but those of
 * the spread. All is borrowed for the call.
 */
LS_MUST_USE ls_status ls_evaluate_text(const ls_eval_options *options, const ls_trained *trained,
                                       const ls_data *data, ls_eval_result *result);

/* --- positions.c ----------------------------------------------------------------------------------------------------------- */

/* Losses by distance into the document: the figure that shows whether a long context is of use. */

/* Sums over tokens of loss and loss²; and over sequences, each with n of the tokens and their loss L: of L², L·n and n². */
typedef struct ls_loss_sum {
    int64_t sequences, tokens;
    double loss, token_squares;
    double squares, cross, counts;
} ls_loss_sum;

/* Starts as zeros. */
typedef struct ls_loss_sums {
    ls_loss_sum bins[LS_LOSS_BINS][LS_LOSS_BINS]; /* [first][last]: of all tokens in bins first to last */
    int64_t farthest;                             /* most tokens before a predicted one */
} ls_loss_sums;

/*
 * Adds a sequence with the losses[S] of its labels (ignored ones: LS_LABEL_IGNORED) by sample->seen: what the model has not seen of a
 * document, because the sequence begins inside it, does not count.
 */
void ls_loss_sums_add(ls_loss_sums *sums, int64_t S, const ls_sample *sample, const float *losses);

/*
 * Neighbouring bins are joined until each holds so many tokens that their scatter leaves its mean a standard error of `error` nats at most:
 * no line of the table is noise. INFINITY joins none.
 */
ls_loss_table ls_loss_sums_table(const ls_loss_sums *sums, double error);
#define LS_LOSS_BIN_ERROR 0.05

/* "loss", "tokens", "sequences", "perplexity" and the array "by_position" of an open object. */
void ls_loss_table_put(const ls_loss_table *table, ls_json_writer *writer);
/* directory/loss_by_position.svg. what: a line that says of which text, e.g. "8 sequences of 4096 tokens". */
LS_MUST_USE ls_status ls_loss_table_draw(const ls_loss_table *table, const char *directory);
/* A line for each bin. */
void ls_loss_table_print(const ls_loss_table *table, FILE *out);

/* --- decoder.c ------------------------------------------------------------------------------------------------------------- */

/*
 * A model that reads a sequence once and goes on token by token: keys and values of the prompt are made at once, its tokens shared by the
 * ranks, and stay where they are made (prefill, program evaluate); a token is computed over them and adds its own (program decode).
 * The sequence is compiled for the most tokens that there will be; what stands behind the last one is seen by nobody.
 */

typedef struct ls_decoder {
    int64_t most; /* tokens of a sequence */
    ls_graph *model, *graph;
    ls_decoding decoding;
    const char *logits; /* name */
    ls_job job;
    ls_session *session; /* the caller's to run, once */
} ls_decoder;

/*
 * For texts of `known` tokens that grow up to `most`. dtype: "f32" or "bf16"; NULL: f32. LS_USAGE for another. The model is
 * borrowed for the call.
 */
LS_MUST_USE ls_status ls_decoder_open(const ls_model *model, int64_t known, int64_t most, const char *dtype,
                                      const ls_spread *spread, ls_decoder *out);
void ls_decoder_close(ls_decoder *decoder); /* a zeroed one is allowed */

/* Bytes of keys and values that the image's rank holds. */
int64_t ls_decoder_cache_bytes(const ls_decoder *decoder, const ls_image *image);

/* On every rank of its session alike: ids[0, n), n <= most, become the sequence; what was there before is forgotten. */
LS_MUST_USE ls_status ls_decoder_prefill(const ls_decoder *decoder, const ls_rank *rank, const int32_t *ids,
                                         int64_t n);
/*
 * The token `id` at `place`, the number of tokens before it: *logits [V] are those of the token that follows, the same bits on every rank;
 * valid until the next call. Where one is not finite: LS_INVALID that names the weight to blame, on every rank.
 */
LS_MUST_USE ls_status ls_decoder_next(const ls_decoder *decoder, const ls_rank *rank, int32_t id,
                                      int64_t place, const float **logits);

/* --- sample.c -------------------------------------------------------------------------------------------------------------- */

/*
 * Drawing the next token from its logits, in the Hugging Face library's order: logits are divided by the temperature, top_k keeps the
 * likeliest (all that are as likely as the k-th among them), top_p keeps of these the fewest that hold its share together.
 */

typedef struct ls_sampling {
    double temperature; /* 0: the likeliest */
    double top_p;       /* of what top_k leaves, the one that crosses the share included; 0 and 1: all */
    int64_t top_k;      /* 0: all */
    uint64_t seed;
} ls_sampling;

typedef struct ls_sampler ls_sampler;
LS_MUST_USE ls_status ls_sampler_create(const ls_sampling *sampling, int64_t V, ls_sampler **out);
void ls_sampler_destroy(ls_sampler *sampler); /* NULL is allowed */

/*
 * The token of draw `number`: a pure function of the sampling, the logits [V] and the number. Of equal logits the smaller id is the likelier.
 * Logits that are not finite are never drawn, unless none is: then it is id 0.
 */
int32_t ls_sampler_draw(ls_sampler *sampler, const float *logits, uint64_t number);

/* --- stop.c ---------------------------------------------------------------------------------------------------------------- */

/* The tokens that a text ends with. */

enum { LS_MOST_STOPS = 64 };

typedef struct ls_stops {
    int32_t id[LS_MOST_STOPS];
    int n;
} ls_stops;

/*
 * "eos_token_id", a number or several, of the folder's generation_config.json, or else of its config.json; where neither says it,
 * the tokenizer's end of document. LS_INVALID naming the file and what is no token of the model.
 */
LS_MUST_USE ls_status ls_stops_read(const ls_trained *trained, ls_stops *out);
bool ls_stops_have(const ls_stops *stops, int32_t id);

/* --- generated.c ----------------------------------------------------------------------------------------------------------- */

/* Tokens to text as they come: whole characters only, fit to be printed. */

typedef struct ls_generated_text {
    const ls_tokenizer *tokenizer;
    void (*out)(void *context, const char *bytes, size_t n);
    void *context;
    ls_token_stream *tokens;
    ls_text text; /* what has not been put out yet */
} ls_generated_text;

/*
 * Begins behind ids[0, n), of which nothing is put out: a token's text may depend on those before it. stream->tokenizer, out and context
 * are set by the caller, the rest is zero. ls_generated_free it whatever the status.
 */
LS_MUST_USE ls_status ls_generated_begin(ls_generated_text *stream, const int32_t *ids, size_t n);
/* Puts out what the token adds; special tokens add nothing. What may become a character with the next ones waits. */
LS_MUST_USE ls_status ls_generated_put(ls_generated_text *stream, int32_t id);
/* Nothing more comes: what has waited is put out. */
LS_MUST_USE ls_status ls_generated_end(ls_generated_text *stream);
void ls_generated_free(ls_generated_text *stream); /* a zeroed one is allowed */

/* --- recall_write.c -------------------------------------------------------------------------------------------------------- */

/* A line for each depth, a column for each length. */
void ls_recall_print(const ls_recall_result *result, FILE *out);
void ls_recall_result_json(const ls_recall_result *result, FILE *out);

#endif
