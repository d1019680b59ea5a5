/*
 * data: text files to training sequences. The header for other folders.
 *
 * Each file is a document; its tokens are followed by the tokenizer's end of document. A sequence is a
 * window of S + 1 tokens: the inputs are its first S, the label of input i is token i + 1. Neighbouring
 * windows share one token, so every token but the first of a stretch is a label exactly once per epoch.
 *
 * Long-range structure is kept where there is some:
 *   whole windows   A document of L >= S + 1 tokens (its end counted) gives floor((L - 1) / S) windows that
 *                   lie inside it; the first begins at the document's start.
 *   joined windows  What is left, the tails of long documents (from the last token that was only a label)
 *                   and the short documents, is joined in the order of the files and cut into windows the
 *                   same way. These may hold several documents; a label that lies in another document is
 *                   valid (the model sees the end of document before it). Fewer than S + 1 tokens at the
 *                   end are left out.
 *
 * The order is a pure function of (seed, epoch, index); so any rank can make any step's batch at once, and
 * a resumed run needs nothing but its step. Tokens are held in 1, 2 or 4 bytes each, by the size of the
 * vocabulary.
 */
#ifndef LS_DATA_H
#define LS_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include "data/permutation.h"
#include "longspan/status.h"
#include "text/text.h"

typedef struct ls_data ls_data;

typedef struct ls_data_options {
    /*
     * Files and folders. Folders are read with all below them, in byte order of the paths; regular files
     * only, symbolic links inside a folder are not followed. Files that hold a NUL byte are taken for
     * binary and skipped, as are empty ones.
     */
    const char *const *paths;
    int n_paths;
    const ls_tokenizer *tokenizer; /* borrowed during ls_data_open */
    int64_t sequence;              /* S >= 1 */
    uint64_t seed;                 /* of the order */
    bool shuffle; /* false: whole windows, then joined ones, in the order of the files (evaluation) */
} ls_data_options;

typedef struct ls_data_summary {
    int64_t documents;
    int64_t binary_files, empty_files; /* skipped */
    int64_t tokens;                    /* with the ends of documents */
    int64_t windows;                   /* sequences per epoch, >= 1 */
    int64_t whole_windows;             /* those that lie inside one document */
    int64_t longest_document;          /* tokens */
    double seconds;                    /* that ls_data_open took */
} ls_data_summary;

/*
 * Reads everything. Errors name the path: none given or nothing but skipped files, unreadable, fewer tokens
 * than one sequence needs (with both numbers).
 */
LS_MUST_USE ls_status ls_data_open(const ls_data_options *options, ls_data **out);
void ls_data_close(ls_data *data); /* NULL is allowed */
const ls_data_summary *ls_data_summarise(const ls_data *data);

/*
 * Sequence `index` >= 0 of an endless run of epochs: epoch index / windows, place index % windows. Writes S
 * + 1 ids to out. Training step t (from 0) with a batch of B takes indices t*B ... t*B + B - 1. Any number
 * of threads may call it.
 */
void ls_data_sequence(const ls_data *data, int64_t index, int32_t *out);

/* Entropy of the distribution of single tokens, in nats: the loss of a model that knows only how often each
 * one occurs. */
double ls_data_unigram_nats(const ls_data *data);

#endif
