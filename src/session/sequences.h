/* Sequences read into a batch and placed in a rank's inputs, and their losses, token by token. */
#ifndef LS_SESSION_SEQUENCES_H
#define LS_SESSION_SEQUENCES_H

#include "data/data.h"
#include "session/step.h"

/* A source of sequences. Its functions are pure functions of the index: each rank calls them for itself. */
typedef struct ls_sequences {
    /*
     * Writes sequence `index` >= 0: tokens[S], and labels[S] with the token that follows each; LS_LABEL_IGNORED: none.
     */
    void (*read)(const void *context, int64_t index, int32_t *tokens, int32_t *labels);
    const void *context;
    /*
     * If not NULL, called instead of `read`: writes positions and document bounds, too. If it fails, it fails on all
     * ranks.
     */
    ls_status (*sample)(const void *context, int64_t index, ls_sample *out);
} ls_sequences;

/* The sequences of one micro-batch, whole. */
typedef struct ls_batch {
    int64_t B, S;
    int32_t *tokens, *labels, *positions; /* [B,S] global */
    int32_t *ends;                        /* [B,S+1]: bounds of documents */
    int32_t *seen;                        /* [B,S] as in ls_sample; NULL: not needed */
    int *n_ends;                          /* [B] */
    bool apart;                           /* some sequence holds several documents */
} ls_batch;

/* seen: whether `seen` is needed. */
LS_MUST_USE ls_status ls_batch_make(int64_t B, int64_t S, bool seen, ls_batch *out);
void ls_batch_free(ls_batch *batch); /* a zeroed one is allowed */
/* Reads sequence `index` into row b. Row 0 is to be read first. */
LS_MUST_USE ls_status ls_batch_read(ls_batch *batch, int64_t b, const ls_sequences *from, int64_t index);
/*
 * Copies this rank's part of the batch into the programs' inputs (those of ls_language_model), and sets the document
 * bounds.
 */
LS_MUST_USE ls_status ls_batch_put(ls_batch *batch, const ls_rank *rank);

/*
 * Called on rank 0 for each sequence, in order. losses[S] are in the order of positions. The sample has tokens, labels
 * and seen.
 */
typedef void (*ls_scored)(void *context, int64_t index, const ls_sample *sample, const float *losses);

/* The name of the tensor of losses, f32[B,S], B of all dp ranks together; the job must fetch it. */
#define LS_SCORE_LOSSES "token_loss"

/*
 * Computes the losses of sequences 0 .. n-1, token by token, with a forward-only program of the image whose inputs are
 * those of ls_language_model. Collective. LS_INTERRUPTED on all ranks after a signal. progress: advanced on rank 0 by
 * sequences; NULL: none.
 */
LS_MUST_USE ls_status ls_score(const ls_rank *rank, int program, const ls_sequences *from, int64_t n,
                               ls_scored on_scored, void *context, ls_progress *progress);

#endif
