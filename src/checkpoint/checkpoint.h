/*
 * checkpoint: training state on disk, global tensors by global name, so that any mesh can read what any other wrote.
 *
 * DIR/checkpoint-00000010/
 *     model.safetensors      masters in type G (f32 or f64), published names: also what `export` starts from
 *     optimizer.safetensors  "m NAME", "v NAME" in type G
 *     state.json             step, seed, data position, and a hash of each piece of both files
 * Written by all ranks into a directory ending in .partial, synced, then renamed: a reader sees whole checkpoints only.
 */
#ifndef LS_CHECKPOINT_H
#define LS_CHECKPOINT_H

#include "weights/weights.h"

typedef struct ls_train_state {
    int64_t step; /* steps done */
    uint64_t seed;
    int64_t sequences; /* training sequences consumed: the data's position */
    double last_loss;
} ls_train_state;

/*
 * All ranks call it; each writes its shard. On failure on any rank (a full disk, say) every rank returns the same error, the
 * partial directory is removed, and earlier checkpoints are as they were. Keeps the newest `keep` checkpoints (0: all).
 * config: text of config.json to lay beside, or NULL.
 */
LS_MUST_USE ls_status ls_checkpoint_save(ls_executor *executor, ls_comm *comm, const char *directory,
                                         const ls_train_state *state, const char *config, int keep);

/* The bytes of its tensors and of config (text or NULL), which is nearly all that a checkpoint of such an image takes. */
LS_MUST_USE ls_status ls_checkpoint_bytes(const ls_image *image, const char *config, int64_t *out);

/* Removes the checkpoint of a step, unless it is the best one. Missing: no error. One rank calls it. */
LS_MUST_USE ls_status ls_checkpoint_remove(const char *directory, int64_t step);

/* Removes all but the newest `keep` (0: none is removed); the one of `step` and the best one stay in any case. One rank calls it. */
LS_MUST_USE ls_status ls_checkpoint_prune(const char *directory, int64_t step, int keep);
/* Removes what is left of checkpoints that were being written, or removed, when a process was killed. One rank calls it. */
LS_MUST_USE ls_status ls_checkpoint_remove_partial(const char *directory);

/* The link "best" of a directory: its checkpoint of this step stays, whatever `keep` says. One rank calls it. */
LS_MUST_USE ls_status ls_checkpoint_mark_best(const char *directory, int64_t step);
/* The step that it leads to; -1: there is none. */
int64_t ls_checkpoint_best(const char *directory);

/* Paths are heap memory: *out begins as NULL or as another path, and is the caller's to free (LS_PATH). */

/* Where the checkpoint of a step is, or would be. */
LS_MUST_USE ls_status ls_checkpoint_path(const char *directory, int64_t step, char **out);

/* The step of the newest checkpoint in a directory; -1: it has none, or is not there. LS_IO where that cannot be known. */
LS_MUST_USE ls_status ls_checkpoint_newest(const char *directory, int64_t *step);

/* The newest checkpoint in a directory; LS_INVALID "no checkpoint in DIR" when there is none. Leftover .partial ones are ignored. */
LS_MUST_USE ls_status ls_checkpoint_find(const char *directory, char **out);

/*
 * The newest checkpoint in a directory of which every byte is as it was written, for a run that goes on from it. Each newer one that is not is
 * told by a line, with the reason; where none is, that of the newest is the error.
 */
LS_MUST_USE ls_status ls_checkpoint_find_whole(const char *directory, char **out);

/* The folder that a user means: a checkpoint itself, or the newest one in a directory. */
LS_MUST_USE ls_status ls_checkpoint_resolve(const char *path, char **out);

/* The state alone, for resolving options before ranks start. */
LS_MUST_USE ls_status ls_checkpoint_state(const char *path, ls_train_state *out);

/*
 * Loads parameters and optimiser state into the executor's buffers, at any mesh. Every piece is checked against its hash: a corrupted
 * file is an LS_INVALID error naming the file and the piece. All ranks call it.
 */
LS_MUST_USE ls_status ls_checkpoint_load(ls_executor *executor, ls_comm *comm, const char *path,
                                         ls_train_state *out);

/* The weights of a checkpoint as a source (for eval, generate). */
LS_MUST_USE ls_status ls_checkpoint_weights(const char *path, const ls_image *image, ls_weight_source *out);

#endif
