/*
 * score: losses of given sequences under a model, token by token. The ranks run forward passes; rank 0 is handed each sequence with
 * its losses in the order of positions, whatever the layout.
 */
#ifndef LS_EVAL_SCORE_H
#define LS_EVAL_SCORE_H

#include "data/data.h"
#include "plan/session.h"

/*
 * Where sequences come from. Gives sequence `index` >= 0 as tokens[S] and labels[S] (the token that follows; -100:
 * ignored). A pure function of the index: each rank calls it for itself.
 */
typedef struct ls_sequences {
    void (*read)(const void *context, int64_t index, int32_t *tokens, int32_t *labels);
    const void *context;
    /* NULL, or what is called instead: gives positions and the bounds of documents too, and may fail, on all ranks alike. */
    ls_status (*sample)(const void *context, int64_t index, ls_sample *out);
} ls_sequences;

/* Room for the sequences of a batch, as they are read. */
typedef struct ls_batch {
    int64_t B, S;
    int32_t *tokens, *labels, *positions; /* [B,S] global */
    int32_t *ends;                        /* [B,S+1]: bounds of documents */
    int32_t *seen;                        /* [B,S] (ls_sample); NULL: not asked for */
    int *n_ends;                          /* [B] */
    bool apart;                           /* a sequence that was read holds several documents */
} ls_batch;

/* seen: asked for. */
LS_MUST_USE ls_status ls_batch_make(int64_t B, int64_t S, bool seen, ls_batch *out);
void ls_batch_free(ls_batch *batch); /* a zeroed one is allowed */
/* Sequence `index` as row b, beginning with row 0. */
LS_MUST_USE ls_status ls_batch_read(ls_batch *batch, int64_t b, const ls_sequences *from, int64_t index);
/* Puts this rank's part where the image's programs read it: the inputs of ls_language_model, and the bounds of documents. */
LS_MUST_USE ls_status ls_batch_put(ls_batch *batch, const ls_rank *rank);

/* What the ranks of a scoring share; made before they start. B sequences of a pass over all dp ranks, the B of the graph. */
typedef struct ls_score_room {
    int64_t B, S;
    float *losses; /* [B,S] global */
    size_t bytes;
} ls_score_room;

LS_MUST_USE ls_status ls_score_room_make(int64_t B, int64_t S, ls_score_room *out);
void ls_score_room_free(ls_score_room *room); /* NULL and a zeroed one are allowed */

/* On rank 0, for each sequence in its order; the sample has tokens, labels and what of their documents was seen. */
typedef void (*ls_scored)(void *context, int64_t index, const ls_sample *sample, const float *losses);

/* The tensor that must be among the job's fetched ones, in type f32. */
#define LS_SCORE_LOSSES "token_loss"

/*
 * Sequences 0 .. n-1 by that program of the image (forward alone, its inputs those of ls_language_model). Collective. LS_INTERRUPTED
 * on all ranks after a signal. progress: of rank 0, advanced by sequences; NULL: none.
 */
LS_MUST_USE ls_status ls_score(const ls_rank *rank, int program, const ls_score_room *room,
                               const ls_sequences *from, int64_t n, ls_scored see, void *context,
                               ls_progress *progress);

#endif
