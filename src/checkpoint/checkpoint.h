/*
 * checkpoint: the state of a training on disk. Files hold global tensors by global name, so that any mesh can read what
 * any other wrote.
 *
 * DIR/checkpoint-00000010/
 *     model.safetensors      masters in type G (f32 or f64) under their published names
 *     optimizer.safetensors  moments in type G, named "m NAME" and "v NAME"; and where weights have an average, which
 *                            model.safetensors has then, the last weights, "last NAME"
 *     config.json            of the model, if it has one; of an imported one, graph.json
 *     adapter_config.json    of a model with an adapter, whose model.safetensors lacks what is not trained
 *     state.json             the record: step, seed, data position, how steps are taken, and a hash of each piece of
 *                            the other files
 * All ranks write into a folder that ends in .partial. It is synced and then renamed, so that readers see complete
 * checkpoints only.
 *
 * Paths returned in *out are heap memory. *out begins as NULL or as another such path, which is freed; the caller frees
 * it (LS_PATH).
 */
#ifndef LS_CHECKPOINT_H
#define LS_CHECKPOINT_H

#include "checkpoint/export.h"
#include "model/model.h"
#include "weights/weights.h"

/* How steps are taken. A checkpoint says it to who goes on. */
typedef struct ls_train_origin {
    const ls_optimizer *optimizer; /* NULL: nothing is said, as in checkpoints of older versions */
    ls_hyperparameters hyper;
    int64_t seq, batch; /* tokens of a sequence, sequences of a step */
} ls_train_origin;

typedef struct ls_train_state {
    int64_t step; /* number of steps done */
    uint64_t seed;
    int64_t sequences; /* training sequences consumed: the position in the data */
    double last_loss;
    uint64_t base; /* of an adapter's training: identifies the files of the model below it; 0: there is none */
    ls_train_origin origin;
} ls_train_state;

/* ---- saving and loading ---- */

/*
 * Called by all ranks; each writes its shard. If any rank fails (a full disk, for example), all ranks return the same
 * error, the partial folder is removed, and earlier checkpoints are unchanged. Keeps the newest `keep` checkpoints and
 * the best one (0: keeps all). model: what the model was read from, or NULL.
 */
LS_MUST_USE ls_status ls_checkpoint_save(ls_executor *executor, ls_comm *comm, const char *folder,
                                         const ls_train_state *state, const ls_model_text *model, int keep);

/* Bytes of a checkpoint of this image on disk, without state.json, which is small. model: or NULL. */
LS_MUST_USE ls_status ls_checkpoint_bytes(const ls_image *image, const ls_model_text *model, int64_t *out);

/*
 * Loads parameters and optimiser state into the executor's buffers, at any mesh. Called by all ranks. Every piece is
 * compared with its hash, by one of them: a corrupted file is LS_INVALID and names the file and the piece. as: how the
 * next steps are taken. LS_USAGE: by another optimiser, or on other files of the model that an adapter is on; other
 * differences are logged on rank 0. model: whose checkpoint it is; as, figures: may be NULL.
 */
LS_MUST_USE ls_status ls_checkpoint_load(ls_executor *executor, ls_comm *comm, const char *path, const ls_model *model,
                                         const ls_train_origin *as, ls_train_state *out, ls_weights_figures *figures);

/*
 * The weights of a checkpoint as a source, for jobs that do not train. With comm, called by all ranks: each checks its
 * share of the file, so the weights are good only if it succeeds on every rank. NULL: checks all. model: whose
 * checkpoint it is; with an adapter, what the checkpoint lacks comes from the model's files.
 */
LS_MUST_USE ls_status ls_checkpoint_weights(const char *path, const ls_model *model, const ls_image *image,
                                            ls_comm *comm, ls_weight_source *out);

/* ---- the checkpoints in a folder; functions that change it are called by one rank ---- */

/* Removes the checkpoint of a step, unless it is the best one. It is no error if there is none. */
LS_MUST_USE ls_status ls_checkpoint_remove(const char *folder, int64_t step);
/* Removes all but the newest `keep` checkpoints (0: removes none). The one of `step` and the best one always stay. */
LS_MUST_USE ls_status ls_checkpoint_prune(const char *folder, int64_t step, int keep);
/* Removes partial folders, which killed processes leave while they save or remove a checkpoint. */
LS_MUST_USE ls_status ls_checkpoint_remove_partial(const char *folder);

/* Points the link "best" to the checkpoint of this step, which pruning then keeps. */
LS_MUST_USE ls_status ls_checkpoint_mark_best(const char *folder, int64_t step);
/* The step that the link "best" points to; -1: there is no link. */
int64_t ls_checkpoint_best(const char *folder);

/* Where the checkpoint of a step is, or would be. */
LS_MUST_USE ls_status ls_checkpoint_path(const char *folder, int64_t step, char **out);
/* The step of the newest checkpoint; -1: there is none, or no folder. LS_IO if the folder cannot be read. */
LS_MUST_USE ls_status ls_checkpoint_newest(const char *folder, int64_t *step);
/* The path of the newest checkpoint. LS_INVALID if there is none. */
LS_MUST_USE ls_status ls_checkpoint_find(const char *folder, char **out);
/* Several processes that check a checkpoint together: each some of its pieces. */
typedef struct ls_checkpoint_share {
    int process, processes;                       /* the number of this one, and of all; 1 or more */
    ls_status (*agree)(ls_status mine);           /* the same on all: LS_OK, or the failure of one of them */
    ls_status (*tell)(void *value, size_t bytes); /* *value becomes that of process 0 */
} ls_checkpoint_share;

/*
 * The path of the newest checkpoint that is intact (every byte agrees with its hash), to resume from. Logs a warning
 * for each newer one that is damaged. If none is intact, returns the error of the newest. LS_UNSUPPORTED at the first
 * that is whole, but of another version's format: it must not be overwritten. Collective among the
 * processes of the share, and equal on all.
 */
LS_MUST_USE ls_status ls_checkpoint_find_whole(const char *folder, const ls_checkpoint_share *share, char **out);
/* The checkpoint that a user's path means: the path itself if it is a checkpoint, else the newest one in it. */
LS_MUST_USE ls_status ls_checkpoint_resolve(const char *path, char **out);

/* Whether a folder is a checkpoint of a model with an adapter. path may be NULL. */
bool ls_checkpoint_has_adapter(const char *path);

/* ---- reading a checkpoint without ranks ---- */

/* The state alone. */
LS_MUST_USE ls_status ls_checkpoint_state(const char *path, ls_train_state *out);

#define LS_CHECKPOINT_MOST_FILES 6

typedef struct ls_checkpoint_file {
    const char *name; /* static */
    int64_t bytes, pieces;
    int64_t bad;      /* pieces that differ from the record */
    ls_status status; /* the error of the first bad piece, or why the file cannot be read */
} ls_checkpoint_file;

typedef struct ls_checkpoint_info {
    ls_train_state state;
    char type[8];  /* of masters and moments: "F32", "F64" */
    bool averaged; /* its weights are an average */
    int n_files;
    ls_checkpoint_file file[LS_CHECKPOINT_MOST_FILES]; /* state.json first */
} ls_checkpoint_info;

/* Reads state.json only; bad and status of the files are not set. */
LS_MUST_USE ls_status ls_checkpoint_describe(const char *path, ls_checkpoint_info *out);

/*
 * Compares every byte with its hash and shows progress. LS_OK means that the check was made, not that the checkpoint is
 * intact: see bad and status of each file. If state.json itself is bad, it is the only file in *out.
 */
LS_MUST_USE ls_status ls_checkpoint_verify(const char *path, ls_checkpoint_info *out);

#endif
