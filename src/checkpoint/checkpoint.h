/*
 * checkpoint: the state of a training on disk. Files hold global tensors under their global names, so that any mesh can
 * read what any other mesh wrote.
 *
 * DIR/checkpoint-00000010/
 *     model.safetensors      masters in type G (f32 or f64) under their published names
 *     optimizer.safetensors  moments in type G, named "m NAME" and "v NAME"; if weights have an average, which
 *                            model.safetensors then contains, also the last weights, "last NAME"
 *     config.json            of the model, if it has one; of an imported model, graph.json
 *     adapter_config.json    of a model with an adapter; model.safetensors then lacks parameters that are not trained
 *     state.json             the record: step, seed, data position, how steps are taken, and a hash of each piece of
 *                            the other files
 * All ranks write into a folder that ends in .partial. It is synced and then renamed, so that readers see only complete
 * checkpoints.
 *
 * Paths returned in *out are heap memory. *out must be NULL, or another such path, which is freed; the caller frees it
 * (LS_PATH).
 */
#ifndef LS_CHECKPOINT_H
#define LS_CHECKPOINT_H

#include "checkpoint/export.h"
#include "model/model.h"
#include "weights/weights.h"

/* How steps are taken. A checkpoint records it for a training that continues from it. */
typedef struct ls_train_origin {
    const ls_optimizer *optimizer; /* NULL: not recorded, as in checkpoints of older versions */
    ls_hyperparameters hyper;
    int64_t seq, batch; /* tokens of a sequence, sequences of a step */
} ls_train_origin;

typedef struct ls_train_state {
    int64_t step; /* number of steps done */
    uint64_t seed;
    int64_t sequences; /* training sequences consumed so far: the position in the data */
    double last_loss;
    uint64_t base; /* for the training of an adapter: identifies the files of the base; 0: no adapter */
    ls_train_origin origin;
} ls_train_state;

/* ---- saving and loading ---- */

/*
 * Called by all ranks; each writes its shard. If any rank fails (because a disk is full, for example), all ranks return
 * the same error, the partial folder is removed, and earlier checkpoints do not change. Keeps the newest `keep`
 * checkpoints and the best one (0: keeps all). model: what the model was read from, or NULL.
 */
LS_MUST_USE ls_status ls_checkpoint_save(ls_executor *executor, ls_comm *comm, const char *folder,
                                         const ls_train_state *state, const ls_model_text *model, int keep);

/* Bytes of a checkpoint of this image on disk, without state.json, which is small. model: may be NULL. */
LS_MUST_USE ls_status ls_checkpoint_bytes(const ls_image *image, const ls_model_text *model, int64_t *out);

/*
 * Loads parameters and optimiser state into the executor's buffers, at any mesh. Called by all ranks. Every piece is
 * compared with its hash by one of them; a corrupted file is LS_INVALID, which names the file and the piece. as: how
 * the next steps are taken. LS_USAGE: they use another optimiser, or, for an adapter, other files of the base; other
 * differences are logged on rank 0. model: the model of the checkpoint. as, figures: may be NULL.
 */
LS_MUST_USE ls_status ls_checkpoint_load(ls_executor *executor, ls_comm *comm, const char *path, const ls_model *model,
                                         const ls_train_origin *as, ls_train_state *out, ls_weights_figures *figures);

/*
 * The weights of a checkpoint as a source, for jobs that do not train. With comm, all ranks call it, and each checks
 * its share of the file, so the weights are valid only if it succeeds on every rank. comm NULL: checks the whole file.
 * model: the model of the checkpoint; if it has an adapter, weights that the checkpoint lacks come from the model's
 * files.
 */
LS_MUST_USE ls_status ls_checkpoint_weights(const char *path, const ls_model *model, const ls_image *image,
                                            ls_comm *comm, ls_weight_source *out);

/* ---- the checkpoints in a folder; functions that change it are called by one rank ---- */

/* Removes the checkpoint of a step, unless it is the best one. It is not an error if there is none. */
LS_MUST_USE ls_status ls_checkpoint_remove(const char *folder, int64_t step);
/*
 * Removes all but the newest `keep` checkpoints (0: removes none). The one of `step` and the best one are never
 * removed.
 */
LS_MUST_USE ls_status ls_checkpoint_prune(const char *folder, int64_t step, int keep);
/* Removes partial folders, which remain if a process is killed while it saves or removes a checkpoint. */
LS_MUST_USE ls_status ls_checkpoint_remove_partial(const char *folder);

/* Points the link "best" to the checkpoint of this step, which pruning then keeps. */
LS_MUST_USE ls_status ls_checkpoint_mark_best(const char *folder, int64_t step);
/* The step that the link "best" points to; -1: there is no link. */
int64_t ls_checkpoint_best(const char *folder);

/* The path that the checkpoint of a step has or would have. */
LS_MUST_USE ls_status ls_checkpoint_path(const char *folder, int64_t step, char **out);
/* The step of the newest checkpoint; -1: there is none, or no folder. LS_IO if the folder cannot be read. */
LS_MUST_USE ls_status ls_checkpoint_newest(const char *folder, int64_t *step);
/* The path of the newest checkpoint. LS_INVALID if there is none. */
LS_MUST_USE ls_status ls_checkpoint_find(const char *folder, char **out);
/* Several processes that check a checkpoint together, each of them some of its pieces. */
typedef struct ls_checkpoint_share {
    int process, processes;                       /* the number of this process, and how many there are, at least 1 */
    ls_status (*agree)(ls_status mine);           /* returns the same on all: LS_OK, or the failure of one of them */
    ls_status (*tell)(void *value, size_t bytes); /* *value becomes that of process 0 on all */
} ls_checkpoint_share;

/*
 * The path of the newest checkpoint that is intact (every byte agrees with its hash), to resume from. Logs a warning
 * for each newer one that is damaged. If none is intact, returns the error of the newest. LS_UNSUPPORTED if it meets
 * one that is intact but has another version's format: it must not be overwritten. Collective among the processes of
 * the share, with the same result on all.
 */
LS_MUST_USE ls_status ls_checkpoint_find_whole(const char *folder, const ls_checkpoint_share *share, char **out);
/* The checkpoint that a user's path means: the path itself if it is a checkpoint, otherwise the newest one in it. */
LS_MUST_USE ls_status ls_checkpoint_resolve(const char *path, char **out);

/* Whether a folder is a checkpoint of a model with an adapter. path may be NULL. */
bool ls_checkpoint_has_adapter(const char *path);

/* ---- reading a checkpoint without ranks ---- */

/* Reads only the state. */
LS_MUST_USE ls_status ls_checkpoint_state(const char *path, ls_train_state *out);

#define LS_CHECKPOINT_MOST_FILES 6

typedef struct ls_checkpoint_file {
    const char *name; /* a string literal */
    int64_t bytes, pieces;
    int64_t bad;      /* number of pieces that differ from the record */
    ls_status status; /* the error of the first bad piece, or why the file cannot be read */
} ls_checkpoint_file;

typedef struct ls_checkpoint_info {
    ls_train_state state;
    char type[8];  /* type of masters and moments: "F32" or "F64" */
    bool averaged; /* its weights are an average */
    int n_files;
    ls_checkpoint_file file[LS_CHECKPOINT_MOST_FILES]; /* state.json first */
} ls_checkpoint_info;

/* Reads only state.json; `bad` and `status` of the files are not set. */
LS_MUST_USE ls_status ls_checkpoint_describe(const char *path, ls_checkpoint_info *out);

/*
 * Compares every byte with its hash, and shows progress. LS_OK means that the check was made, not that the checkpoint
 * is intact: see `bad` and `status` of each file. If state.json itself is bad, it is the only file in *out.
 */
LS_MUST_USE ls_status ls_checkpoint_verify(const char *path, ls_checkpoint_info *out);

#endif
