/* Sequences read into a batch and placed in a rank's inputs. */
#ifndef LS_SESSION_SEQUENCES_H
#define LS_SESSION_SEQUENCES_H

#include "data/data.h"
#include "session/step.h"

/* A source of sequences, from which each rank reads what it needs. */
typedef struct ls_sequences {
    /* Like ls_data_read, and a pure function of its arguments: writes the inputs of sequence `index` >= 0. */
    ls_status (*sample)(const void *context, int64_t index, const ls_data_part *part, ls_sample *out);
    const void *context;
} ls_sequences;

/*
 * A rank's part of a micro-batch: the sequences of its dp replica, and in each of them the inputs that its layout
 * assigns.
 */
typedef struct ls_batch {
    const ls_rank *rank;
    int64_t S;
    int64_t first, rows; /* sequences first .. first + rows - 1 of the micro-batch */
    ls_data_part part;   /* the part of a sequence; the batch owns its runs */
    ls_layout_run *runs;
    int64_t inputs;                       /* inputs per sequence, slice after slice */
    int32_t *tokens, *labels, *positions; /* [rows,inputs] */
    int32_t *ends;                        /* [rows,S+1]: bounds of documents */
    int *n_ends;                          /* [rows] */
    int32_t *keys;                        /* [rows,inputs]: keys of noise; 0: none */
    int words;                            /* number of a teacher's words per token that the programs read; 0: none */
    int32_t *teacher_ids;                 /* [rows,inputs,words] */
    float *teacher_logprobs;              /* [rows,inputs,words] */
    int32_t *word;                        /* [rows,inputs]: room for one word of each token, id or log-probability */
    bool noisy;                           /* ls_batch_noise was called */
    uint64_t noise;                       /* seed of the noise */
    bool apart;                           /* some sequence holds several documents */
    int64_t bytes;                        /* bytes read from files so far */
} ls_batch;

/* B: number of sequences in the micro-batch, over all dp ranks. The rank is borrowed. */
LS_MUST_USE ls_status ls_batch_make(const ls_rank *rank, int64_t B, int64_t S, ls_batch *out);
void ls_batch_free(ls_batch *batch); /* a zeroed one is allowed */
/*
 * From now on, tokens that are read get keys of noise (LS_MODEL_NOISE). A key is a function of seed, sequence and
 * position, so it is the same for any number of ranks and in a resumed run. Without this call there is no noise.
 */
void ls_batch_noise(ls_batch *batch, uint64_t seed);
/*
 * Reads this rank's part of sequences first .. first + B - 1. Each sequence from `end` on is replaced by sequence 0
 * with all labels ignored. Not collective: it may fail on one rank alone.
 */
LS_MUST_USE ls_status ls_batch_read(ls_batch *batch, const ls_sequences *from, int64_t first, int64_t end);
/*
 * Whether this rank is the first of those that have the same tokens, such as ranks along tp. Only the first counts
 * them.
 */
bool ls_batch_counts(const ls_batch *batch);
/* The labels of this rank's part that are not ignored; 0 if another rank counts them. */
int64_t ls_batch_labels(const ls_batch *batch);
/*
 * Copies the batch into the inputs of the rank's programs (those of ls_language_model), and sets document bounds. If a
 * program runs several micro-batches, micro_batch says which one of the step this is.
 */
LS_MUST_USE ls_status ls_batch_put(const ls_batch *batch, int64_t micro_batch);

#endif
