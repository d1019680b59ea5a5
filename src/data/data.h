/*
 * data: text files or token shards to training sequences, and text to token shards (build.h). The header for other
 * folders.
 *
 * A document is a text file, a record of a JSON file, or a document of a shard. A frame of tokens stands around it:
 * those that the tokenizer puts before a text, and its end of document (in shards: those chosen when they were built).
 * A packer decides which tokens each sequence of S inputs holds; each input has the token that follows it as its label:
 *
 *   join    Windows of S + 1 tokens. Neighbouring windows share one token, so every token but the first is a label
 *           exactly once per epoch. A document of L >= S + 1 tokens (with its end) gives floor((L - 1) / S) whole
 *           windows, from its start on. The tails of long documents (from the token that was only a label on) and the
 *           short documents are joined in the order of the files and cut in the same way. Documents in one window see
 *           each other, and a label that lies in the next document is valid, because the model sees the end of document
 *           before it. Fewer than S + 1 tokens at the end are left out.
 *   best    Documents apart: none sees another, and positions begin at 0 in each. A document of more than S inputs is
 *           cut into pieces of S, each of which is a document by itself for attention and positions. The rests and all
 *           shorter documents are put into sequences by best-fit-decreasing, uncut. The last token of a document is a
 *           label only. Unused places hold the end of document and have ignored labels.
 *   stream  Documents apart, in the order of the files, cut where a sequence is full.
 *   pairs   Documents apart, those of a pair of answers whole and in one sequence, in the order of the files.
 *   auto    best where some tokens are learnt and others not (conversations, completions), else join.
 *
 * Of a document of more than S + 1 tokens, --too-long cut packs only the beginning, and --too-long drop nothing.
 *
 * The order of the sequences is a pure function of (seed, epoch, index); with `group` also of the lengths of documents
 * in them, so that attention has similarly much to do for all sequences of a step. So any rank can read its part of any
 * step, and a resumed run needs only its step. Texts are held in memory in 1, 2 or 4 bytes per token, depending on the
 * vocabulary; shards stay in their files.
 */
#ifndef LS_DATA_H
#define LS_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include "data/build.h"
#include "data/corpus.h"
#include "longspan/data.h"
#include "longspan/status.h"
#include "tensor/tensor.h"
#include "text/text.h"

typedef struct ls_data ls_data;

typedef struct ls_data_options {
    /*
     * Files, folders and patterns: either all of text and JSON, or all of token shards (folders that `longspan data
     * build` made, or *.tokens). Folders of text are read with everything below them, in byte order of the paths; only
     * regular files, and no symbolic links inside a folder. Empty files and files that are no text are skipped. A file
     * of a format that cannot be read is an error if it was named itself.
     */
    const char *const *paths;
    int n_paths;
    const ls_tokenizer *tokenizer; /* borrowed during ls_data_open; shards must be made by it */
    const char *folder;            /* of the tokenizer, for its chat template; NULL: it has none */
    ls_text_form form;             /* how texts become documents; not used for shards */
    int64_t sequence;              /* S >= 1 */
    uint64_t seed;                 /* of the order */
    bool shuffle;                  /* false: the packer's own order (for evaluation); join: whole windows first */
    int64_t group;                 /* sequences of a step, which then have similar lengths; 0: random ones */
    const char *pack;              /* "auto", "join", "best", "stream"; NULL: auto */
    /*
     * Of answers: each is scored by the number of its last token that is not `pad` (-1: none), whose label is the only
     * one of its document.
     */
    bool scored;
    int32_t pad;
    bool imitated; /* of pairs: the prompts of wanted answers are learnt, too (ls_data_answers tells them apart) */
    bool verify;   /* reads all of the shards and compares them with their checksums */
    /*
     * Of several processes that open the same data and agree on the outcome, the number of this one: each verifies its
     * share of the shards. processes 0: there is one.
     */
    int process, processes;
} ls_data_options;

typedef struct ls_data_summary {
    int64_t documents;
    int64_t binary_files;     /* skipped */
    int64_t empty, bad;       /* texts and records left out */
    int64_t tokens;           /* with the frames */
    int64_t windows;          /* sequences per epoch, >= 1 */
    int64_t whole_windows;    /* those that lie inside one document */
    int64_t longest_document; /* tokens */
    int64_t padding;          /* places of an epoch's sequences that hold no document */
    int64_t shards;           /* 0: text */
    double seconds;           /* that ls_data_open took */
} ls_data_summary;

/*
 * Reads all texts, or maps the shards. LS_INVALID names the path: no paths, no text in them, text and shards mixed,
 * shards of another tokenizer, or fewer tokens than one sequence needs.
 */
LS_MUST_USE ls_status ls_data_open(const ls_data_options *options, ls_data **out);
void ls_data_close(ls_data *data); /* NULL is allowed */
const ls_data_summary *ls_data_summarise(const ls_data *data);
/* Whether the documents of a sequence do not see each other; then ls_sample.ends says where they end. */
bool ls_data_apart(const ls_data *data);
/* Whether each sequence holds pairs of answers, whole: documents 2n, which is wanted, and 2n + 1. */
bool ls_data_pairs(const ls_data *data);
/*
 * Whether documents 2n are answers that are judged by themselves, wanted or not, and 2n + 1 the same prompts, each with
 * the answer of another record.
 */
bool ls_data_judges(const ls_data *data);
/*
 * Of data with a `group`: how unevenly attention's work is spread over the replicas of a step (the work of the busiest
 * over the mean), in the order of the data, and in random order. NaN where an epoch has no whole step.
 */
LS_MUST_USE ls_status ls_data_balance(const ls_data *data, int64_t micro_batches, int replicas, double *grouped,
                                      double *shuffled);
/*
 * How many words of a teacher each learnt token has, K of ls_sample; 0: there is no teacher. *temperature (may be
 * NULL): that of the log-probabilities.
 */
int ls_data_teacher(const ls_data *data, double *temperature);
/* The name of the packer. */
const char *ls_data_pack(const ls_data *data);
/* Logs a row for each reason for which something is left out or not learnt, and one for sequences without a label. */
void ls_data_log_left_out(const ls_data *data);
/* Logs a table: documents, tokens, learnt tokens, and the rows of ls_data_log_left_out. */
void ls_data_log_table(const ls_data *data);
/* If the documents are apart, logs the packer and the share of padding. */
void ls_data_log_packing(const ls_data *data);

/*
 * Several data sets read in one order (mixture.c). In each round of as many sequences as the weights add up to, each
 * set is read as often as its weight says, in an order that the seed decides; each goes through its own epochs.
 */
typedef struct ls_mixed_set {
    const char *name, *path; /* NULL: the only set, of all paths */
    int64_t weight;
    ls_data *data;
    char *word; /* owned; name and path point into it */
} ls_mixed_set;
typedef struct ls_mixture {
    int n;
    ls_mixed_set *set;
    int64_t period; /* sum of the weights */
    uint64_t seed;
} ls_mixture;

/*
 * Opens the paths of the options as one set, or, where they are words NAME@WEIGHT=PATH, each as a set. LS_USAGE names a
 * word that is wrong. *out, which is zeroed before, is to be closed also after an error.
 */
LS_MUST_USE ls_status ls_mixture_open(const ls_data_options *options, ls_mixture *out);
/* The number of the set that has sequence `index` >= 0. *own: its index in that set. */
int ls_mixture_find(const ls_mixture *mixture, int64_t index, int64_t *own);
/* Identifies all documents, and the weights. Of one set it is ls_data_content. */
uint64_t ls_mixture_content(const ls_mixture *mixture);
void ls_mixture_close(ls_mixture *mixture); /* a zeroed one is allowed */

/* Some of the inputs 0 .. S - 1 of a sequence, in ascending order: those of a rank are the runs of its layout. */
typedef struct ls_data_part {
    const ls_layout_run *runs;
    int n_runs;
} ls_data_part;

/*
 * Inputs of a sequence: n of them, the first array element being the first input that was asked for. The arrays belong
 * to the caller. Labels that are not learnt are LS_LABEL_IGNORED.
 */
typedef struct ls_sample {
    int32_t *tokens, *labels; /* [n]; both NULL: not wanted, and no token is read */
    int32_t *positions;       /* [n] or NULL: from 0 in each document that is apart */
    int32_t *seen;            /* [n] or NULL: tokens of the label's document before it in the sequence */
    int32_t *teacher_ids;     /* [n,K] or NULL: a teacher's likeliest words in the place of the label, K for each */
    float *teacher_logprobs;  /* [n,K] or NULL: their log-probabilities */
    int32_t *ends;            /* [S + 1] or NULL: cumulative lengths 0 = ends[0] < ... < ends[n_ends - 1] = S */
    int n_ends;               /* 0 without ends */
    int64_t bytes;            /* that were read from files: the tokens, and the marks of what is learnt */
} ls_sample;

/*
 * Reads inputs of sequence `index` >= 0 of an endless series of epochs: epoch index / windows, place index % windows.
 * part NULL: all. Training step t (from 0) with a batch of B uses indices t*B ... t*B + B - 1. Of a shard only the
 * tokens of the part are touched, and the one after each run of them. Several threads may call it. LS_INVALID: a shard
 * holds an id outside of the vocabulary.
 */
LS_MUST_USE ls_status ls_data_read(const ls_data *data, int64_t index, const ls_data_part *part, ls_sample *out);

/*
 * For sequences that can only be made whole: copies a part of the whole sequence of S inputs, as ls_data_read would
 * fill it in. whole->positions NULL: it is one document; otherwise its documents are apart.
 */
void ls_sample_take(const ls_sample *whole, int64_t S, const ls_data_part *part, ls_sample *out);

/* The S + 1 ids of a joined window. An id outside of the vocabulary is replaced by the end of document. */
void ls_data_sequence(const ls_data *data, int64_t index, int32_t *out);

/* Inputs place .. place + length - 1 of a sequence are the tokens of a document from offset on. */
typedef struct ls_data_piece {
    int64_t place, document, offset, length;
} ls_data_piece;
/* Writes the pieces of a sequence to out[S + 1], and their number to *pieces. */
LS_MUST_USE ls_status ls_data_pieces(const ls_data *data, int64_t index, ls_data_piece *out, int64_t *pieces);

/* For each input of a sequence, whether its label is a token of an answer: out[S], 0 where the label is ignored. */
LS_MUST_USE ls_status ls_data_answers(const ls_data *data, int64_t index, uint8_t *out);

/*
 * By how much the record of a pair, which is named by its first document, says that the wanted answer is better; 0: it
 * does not say.
 */
double ls_data_margin(const ls_data *data, int64_t document);
/* How many pairs have a margin. */
int64_t ls_data_margins(const ls_data *data);

/* Whether a document of records that compare answers is the wanted answer. */
LS_MUST_USE ls_status ls_data_wanted(const ls_data *data, int64_t document, bool *out);

/*
 * Identifies what a step is trained on: the sum, modulo 2^64, over its inputs, of a hash of the input's place in the
 * step, its token and its label. So each rank adds up its part, and the sum over the ranks does not depend on how the
 * step is cut. This is the sum over a part of one sequence; first: the place of the sequence's first input in the step.
 */
uint64_t ls_data_hash(int64_t first, const ls_data_part *part, const int32_t *tokens, const int32_t *labels);

/* Identifies all documents in their order, which tokens are learnt, margins, and a teacher's words. Of shards it is
 * made of their checksums. */
uint64_t ls_data_content(const ls_data *data);

/*
 * The entropy in nats of the distribution of single tokens: the loss of a model that only knows how often each token
 * occurs.
 */
double ls_data_unigram_nats(const ls_data *data);

#endif
