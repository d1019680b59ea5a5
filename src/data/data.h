/*
 * data: training sequences from text files or token shards, and token shards from text (build.h). The header for other
 * folders.
 *
 * A document is a text file, a record of a JSON file, or a document of a shard. A frame of tokens surrounds it: those
 * that the tokenizer puts before a text, and its end of document (in shards: those chosen when they were built). A
 * packer decides which tokens each sequence of S inputs holds; the label of each input is the token that follows it:
 *
 *   join    Windows of S + 1 tokens. Neighbouring windows share one token, so every token but the first is a label
 *           exactly once per epoch. A document of L >= S + 1 tokens (with its end) gives floor((L - 1) / S) whole
 *           windows, from its start on. The tails of long documents (from the token that was only a label on) and the
 *           short documents are joined in the order of the files and cut in the same way. Documents in one window see
 *           each other, and a label that lies in the next document is valid, because the model sees the end of document
 *           before it. Fewer than S + 1 tokens at the end are left out.
 *   best    Documents are apart: none sees another, and positions begin at 0 in each. A document of more than S inputs
 *           is cut into pieces of S, each of which is a document of its own for attention and positions. The remaining
 *           pieces and all shorter documents are put into sequences by best-fit-decreasing, uncut. The last token of a
 *           document is only a label. Unused places hold the end of document and have ignored labels.
 *   stream  Documents are apart, in the order of the files, and cut where a sequence is full.
 *   pairs   Documents are apart, in the order of the files; the two of a pair of answers are whole and in the same
 *           sequence.
 *   auto    best if some tokens are learnt and others not (conversations, completions), else join.
 *
 * Of a document of more than S + 1 tokens, --too-long cut packs only the beginning, and --too-long drop packs nothing.
 *
 * The order of the sequences is a pure function of (seed, epoch, index) and, with `group`, of the lengths of documents
 * in them, so that attention has a similar amount of work for all sequences of a step. Therefore any rank can read its
 * part of any step, and a resumed run needs only its step number. Texts are held in memory in 1, 2 or 4 bytes per
 * token, depending on the vocabulary; shards stay in their files.
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
     * Files, folders and patterns: either only text and JSON, or only token shards (folders that `longspan data build`
     * made, or *.tokens). Folders of text are read with everything below them, in byte order of the paths; only regular
     * files are read, and symbolic links inside a folder are not followed. Empty files and files that are not text are
     * skipped. A file of a format that cannot be read is an error if the user named this file.
     */
    const char *const *paths;
    int n_paths;
    const ls_tokenizer *tokenizer; /* borrowed during ls_data_open; shards must have been made with it */
    const char *folder;            /* folder of the tokenizer, for its chat template; NULL: none */
    ls_text_form form;             /* how texts become documents; not used for shards */
    int64_t sequence;              /* S >= 1 */
    uint64_t seed;                 /* seed of the order */
    bool shuffle;                  /* false: the packer's own order (for evaluation); join: whole windows first */
    /* sequences of a step, which then have similar amounts of work; 0: random sequences */
    int64_t group;
    const char *pack; /* "auto", "join", "best", "stream", "pairs"; NULL: auto */
    /*
     * For answers: each is scored by the number of its last token that is not `pad` (-1: no such id); the label of that
     * token is the only one of its document.
     */
    bool scored;
    int32_t pad;
    bool imitated; /* for pairs: the prompts of wanted answers are also learnt (ls_data_answers distinguishes them) */
    bool verify;   /* reads all of the shards and compares them with their checksums */
    /*
     * If several processes open the same data and agree on the outcome: the number of this process, and how many there
     * are. Each verifies its share of the shards. processes 0: there is one.
     */
    int process, processes;
} ls_data_options;

typedef struct ls_data_summary {
    int64_t documents;
    int64_t binary_files;     /* number of skipped files */
    int64_t empty, bad;       /* number of left-out texts and records */
    int64_t tokens;           /* including the frames */
    int64_t windows;          /* sequences per epoch, >= 1 */
    int64_t whole_windows;    /* number of sequences that lie inside one document */
    int64_t longest_document; /* in tokens */
    int64_t padding;          /* places of an epoch's sequences that hold no document */
    int64_t shards;           /* 0: the data is text */
    double seconds;           /* seconds that ls_data_open took */
} ls_data_summary;

/*
 * Reads all texts, or maps the shards. LS_INVALID names the path: no paths, no text in them, text and shards mixed,
 * shards of another tokenizer, or fewer tokens than one sequence needs.
 */
LS_MUST_USE ls_status ls_data_open(const ls_data_options *options, ls_data **out);
void ls_data_close(ls_data *data); /* NULL is allowed */
const ls_data_summary *ls_data_summarise(const ls_data *data);
/* Whether the documents of a sequence do not see each other; if so, ls_sample.ends says where they end. */
bool ls_data_apart(const ls_data *data);
/* Whether each sequence holds whole pairs of answers: documents 2n, which are wanted, and 2n + 1. */
bool ls_data_pairs(const ls_data *data);
/*
 * Whether documents 2n are answers that are judged one by one, wanted or not, and documents 2n + 1 are the same
 * prompts, each with the answer of another record.
 */
bool ls_data_judges(const ls_data *data);
/*
 * For data with a `group`: how unevenly the work of attention is distributed over the replicas of a step (that of the
 * busiest divided by the mean), in the order of the data, and in random order. NaN if an epoch has no whole step.
 */
LS_MUST_USE ls_status ls_data_balance(const ls_data *data, int64_t micro_batches, int replicas, double *grouped,
                                      double *shuffled);
/*
 * The number of a teacher's words for each learnt token, K of ls_sample; 0: there is no teacher. *temperature (may be
 * NULL): that of the log-probabilities.
 */
int ls_data_teacher(const ls_data *data, double *temperature);
/* The name of the packer. */
const char *ls_data_pack(const ls_data *data);
/* Logs a row for each reason why something is left out or not learnt, and one for sequences without a label. */
void ls_data_log_left_out(const ls_data *data);
/* Logs a table: documents, tokens, learnt tokens, and the rows of ls_data_log_left_out. */
void ls_data_log_table(const ls_data *data);
/* If the documents are apart, logs the packer and the share of padding. */
void ls_data_log_packing(const ls_data *data);

/*
 * Several data sets read in one order (mixture.c). A round has as many sequences as the sum of the weights. In it, each
 * set is read as often as its weight says, in an order that the seed decides. Each set goes through its own epochs.
 */
typedef struct ls_mixed_set {
    const char *name, *path; /* NULL: the only set, which has all paths */
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
 * Opens the paths of the options as one set or, if they are words NAME@WEIGHT=PATH, each as a set. LS_USAGE names a
 * wrong word. *out must be zeroed before the call, and must be closed also after an error.
 */
LS_MUST_USE ls_status ls_mixture_open(const ls_data_options *options, ls_mixture *out);
/* The number of the set that has sequence `index` >= 0. *own: its index in that set. */
int ls_mixture_find(const ls_mixture *mixture, int64_t index, int64_t *own);
/* Identifies all documents and the weights. For a single set it is ls_data_content. */
uint64_t ls_mixture_content(const ls_mixture *mixture);
void ls_mixture_close(ls_mixture *mixture); /* a zeroed one is allowed */

/* Some of the inputs 0 .. S - 1 of a sequence, in ascending order. The inputs of a rank are the runs of its layout. */
typedef struct ls_data_part {
    const ls_layout_run *runs;
    int n_runs;
} ls_data_part;

/*
 * Inputs of a sequence: n of them, where the first array element is the first input of the requested part. The arrays
 * belong to the caller. Labels that are not learnt are LS_LABEL_IGNORED.
 */
typedef struct ls_sample {
    int32_t *tokens, *labels; /* [n]; both NULL: not wanted, and no tokens are read */
    int32_t *positions;       /* [n] or NULL: from 0 in each document that is apart */
    int32_t *seen;            /* [n] or NULL: tokens of the label's document before it in the sequence */
    int32_t *teacher_ids;     /* [n,K] or NULL: a teacher's likeliest words for the place of the label, K for each */
    float *teacher_logprobs;  /* [n,K] or NULL: their log-probabilities */
    int32_t *ends;            /* [S + 1] or NULL: cumulative lengths 0 = ends[0] < ... < ends[n_ends - 1] = S */
    int n_ends;               /* 0 without ends */
    int64_t bytes;            /* bytes that were read from files: tokens, and marks of what is learnt */
} ls_sample;

/*
 * Reads inputs of sequence `index` >= 0 of an endless series of epochs: epoch index / windows, place index % windows.
 * part NULL: all inputs. Training step t (from 0) with a batch of B uses indices t*B ... t*B + B - 1. In a shard, only
 * the tokens of the part and the one after each of its runs are read. Several threads may call it. LS_INVALID: a shard
 * holds an id outside the vocabulary.
 */
LS_MUST_USE ls_status ls_data_read(const ls_data *data, int64_t index, const ls_data_part *part, ls_sample *out);

/*
 * For sequences that can only be made as a whole: copies a part of the whole sequence of S inputs, as ls_data_read
 * would write it. whole->positions NULL: the sequence is one document; otherwise its documents are apart.
 */
void ls_sample_take(const ls_sample *whole, int64_t S, const ls_data_part *part, ls_sample *out);

/* The S + 1 ids of a joined window. An id outside the vocabulary is replaced by the end of document. */
void ls_data_sequence(const ls_data *data, int64_t index, int32_t *out);

/* Inputs place .. place + length - 1 of a sequence are the tokens of a document from `offset` on. */
typedef struct ls_data_piece {
    int64_t place, document, offset, length;
} ls_data_piece;
/* Writes the pieces of a sequence to out[S + 1], and their number to *pieces. */
LS_MUST_USE ls_status ls_data_pieces(const ls_data *data, int64_t index, ls_data_piece *out, int64_t *pieces);

/* For each input of a sequence, whether its label is a token of an answer: out[S], 0 where the label is ignored. */
LS_MUST_USE ls_status ls_data_answers(const ls_data *data, int64_t index, uint8_t *out);

/*
 * The margin of a pair, which is given by its first document: by how much the wanted answer is better according to the
 * record; 0: the record does not say.
 */
double ls_data_margin(const ls_data *data, int64_t document);
/* The number of pairs with a margin. */
int64_t ls_data_margins(const ls_data *data);

/* Whether this document, of records that compare answers, is the wanted answer. */
LS_MUST_USE ls_status ls_data_wanted(const ls_data *data, int64_t document, bool *out);

/*
 * Identifies what a step is trained on: the sum, modulo 2^64, over its inputs, of a hash of the input's place in the
 * step, its token and its label. Each rank therefore adds up its part, and the sum over the ranks does not depend on
 * how the step is cut. This function gives the sum over a part of one sequence; first: place of the sequence's first
 * input in the step.
 */
uint64_t ls_data_hash(int64_t first, const ls_data_part *part, const int32_t *tokens, const int32_t *labels);

/*
 * Identifies all documents in their order, which tokens are learnt, the margins, and a teacher's words. For shards it
 * is computed from their checksums.
 */
uint64_t ls_data_content(const ls_data *data);

/*
 * The entropy in nats of the distribution of single tokens: the loss of a model that only knows how often each token
 * occurs.
 */
double ls_data_unigram_nats(const ls_data *data);

#endif
