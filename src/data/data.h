/*
 * data: text files or token shards to training sequences. The header for other folders.
 *
 * Each file of text is a document, each record of a file of JSON, and each document of a shard. Around a text's tokens stands what the tokenizer puts before a text,
 * which begins the document, and its end of document (shards: what their build was told). How documents come into sequences of S inputs, each with the token that follows as its label, is said by a packer:
 *
 *   join    Windows of S + 1 tokens; neighbouring windows share one token, so every token but the first of a stretch is a label
 *           exactly once per epoch. A document of L >= S + 1 tokens (its end counted) gives floor((L - 1) / S) whole windows that lie inside it;
 *           the first begins at the document's start. What is left, the tails of long documents (from the last token that was only
 *           a label) and the short documents, is joined in the order of the files and cut the same way. These may hold several documents,
 *           which see each other; a label that lies in another document is valid (the model sees the end of document before it).
 *           Fewer than S + 1 tokens at the end are left out.
 *   best    Documents apart: none sees another, positions begin at 0 in each. A document of more than S inputs is cut into pieces of S,
 *           each a document of its own as far as attention and positions go;
 *           what is left and all shorter ones go into sequences by best-fit-decreasing, uncut. The last token of a document is a label
 *           alone. Places that nothing fits into hold the end of document, with labels that are ignored.
 *   stream  Documents apart, in the order of the files, cut where a sequence is full.
 *
 * The order is a pure function of (seed, epoch, index); so any rank can make any step's batch at once, and
 * a resumed run needs nothing but its step. Texts are held in 1, 2 or 4 bytes per token, by the size of the
 * vocabulary; shards stay in their files.
 */
#ifndef LS_DATA_H
#define LS_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include "data/permutation.h"
#include "longspan/data.h"
#include "longspan/status.h"
#include "tensor/tensor.h"
#include "text/text.h"

typedef struct ls_data ls_data;

typedef struct ls_data_options {
    /*
     * Files, folders and patterns: all of text and JSON (source.h says which formats), or all token shards (folders that `longspan data build`
     * made, or *.tokens). Folders of text are read with all below them, in byte order of the paths; regular files only, symbolic links
     * inside a folder are not followed. Files that are no text are passed over, as are empty ones; one of a format that is not read is an
     * error where it is named itself.
     */
    const char *const *paths;
    int n_paths;
    const ls_tokenizer *tokenizer; /* borrowed during ls_data_open; of the shards too */
    const char *folder;            /* the tokenizer's, for its chat template; NULL: it has none */
    ls_text_form form;             /* how texts become documents; shards are made already */
    int64_t sequence;              /* S >= 1 */
    uint64_t seed;                 /* of the order */
    bool shuffle; /* false: the packer's own order (evaluation); of join: whole windows, then joined ones */
    const char *pack; /* "join", "best", "stream"; NULL: join */
    bool verify;      /* shards are compared with their checksums, which reads all of them */
} ls_data_options;

typedef struct ls_data_summary {
    int64_t documents;
    int64_t binary_files;     /* passed over */
    int64_t empty, bad;       /* texts and records left out */
    int64_t tokens;           /* with the ends of documents */
    int64_t windows;          /* sequences per epoch, >= 1 */
    int64_t whole_windows;    /* those that lie inside one document */
    int64_t longest_document; /* tokens */
    int64_t padding;          /* places of an epoch's sequences that hold no document */
    int64_t shards;           /* 0: text */
    double seconds;           /* that ls_data_open took */
} ls_data_summary;

/*
 * Reads everything, or maps the shards. Errors name the path: none given or nothing but skipped files, unreadable, text and shards
 * mixed, shards of another tokenizer, fewer tokens than one sequence needs (with both numbers).
 */
LS_MUST_USE ls_status ls_data_open(const ls_data_options *options, ls_data **out);
void ls_data_close(ls_data *data); /* NULL is allowed */
const ls_data_summary *ls_data_summarise(const ls_data *data);
/* Documents of a sequence do not see each other: ls_sample.ends says where they are. */
bool ls_data_apart(const ls_data *data);
/* A line of the log where they do not: how they were packed. */
void ls_data_tell_packed(const ls_data *data);

/* A sequence; the arrays are the caller's. Labels that are not to be learnt are LS_LABEL_IGNORED. */
typedef struct ls_sample {
    int32_t *tokens, *labels; /* [S] */
    int32_t *positions;       /* [S]: from 0 in each document that stands apart */
    int32_t *seen;            /* [S], or NULL: tokens of a label's own document before it in the sequence */
    int32_t *ends;            /* [S + 1]: cumulative lengths 0 = ends[0] < ... < ends[n_ends - 1] = S */
    int n_ends;
} ls_sample;

/*
 * Sequence `index` >= 0 of an endless run of epochs: epoch index / windows, place index % windows. Training step t (from 0) with a
 * batch of B takes indices t*B ... t*B + B - 1. Any number of threads may call it. positions and ends may both be NULL.
 * LS_INVALID: a shard holds an id that is none.
 */
LS_MUST_USE ls_status ls_data_read(const ls_data *data, int64_t index, ls_sample *out);

/* The S + 1 ids of a joined window, of text: a shard's ids that are none become the end of document. */
void ls_data_sequence(const ls_data *data, int64_t index, int32_t *out);

/* Which tokens a sequence holds: inputs `place` ... of the sequence are the document's tokens from offset on. */
typedef struct ls_data_piece {
    int64_t place, document, offset, length;
} ls_data_piece;
/* Into out[S + 1]. */
LS_MUST_USE ls_status ls_data_pieces(const ls_data *data, int64_t index, ls_data_piece *out, int64_t *pieces);

/* A number for what steps are trained on: folded over the sequences of a step in their order, from 0. */
uint64_t ls_data_hash(uint64_t so_far, const int32_t *tokens, const int32_t *labels, int64_t S);

/* A number for all documents in their order, and for what of them is learnt; of shards it is made of their checksums. */
uint64_t ls_data_content(const ls_data *data);

/* Entropy of the distribution of single tokens, in nats: the loss of a model that knows only how often each
 * one occurs. */
double ls_data_unigram_nats(const ls_data *data);

#endif
