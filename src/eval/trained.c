/* A model with its tokenizer and weights. */
#include "checkpoint/checkpoint.h"
#include "eval/eval.h"
#include "format/format.h"

#include <stdlib.h>
#include <string.h>

/*
 * *out: the folder itself if it has model.safetensors, otherwise the newest checkpoint of the run; NULL if nothing is
 * given.
 */
static ls_status find_checkpoint(const char *given, char **out) {
    if (given == NULL) return ls_ok();
    LS_PATH weights = NULL;
    LS_TRY(ls_path_join(given, "model.safetensors", &weights));
    if (!ls_file_exists(weights)) return ls_checkpoint_find(given, out);
    return ls_path_print(out, "%s", given);
}

static ls_status open_all(const char *model, const char *checkpoint, const ls_rope_change *rope,
                          const ls_adapter_choice *adapter, ls_trained *t) {
    LS_TRY(find_checkpoint(checkpoint, &t->checkpoint));
    if (model == NULL && checkpoint == NULL) return ls_error(LS_USAGE, "neither --model nor --checkpoint is given");
    LS_TRY(ls_model_open_changed(model != NULL ? model : t->checkpoint, rope, &t->model));
    if (model != NULL && ls_checkpoint_has_adapter(t->checkpoint))
        LS_TRY(ls_model_adapt(t->model, &(ls_adapter_choice){.folder = t->checkpoint}));
    if (adapter != NULL) LS_TRY(ls_model_adapt(t->model, adapter));
    LS_TRY(ls_model_check_fed(t->model));
    LS_TRY(ls_model_check_words(t->model));
    LS_TRY(ls_tokenizer_open_model(ls_model_folder(t->model), &t->tokenizer));
    const int64_t V = ls_model_describe(t->model).V;
    const int32_t known = ls_tokenizer_vocabulary(t->tokenizer);
    if (V < known)
        return ls_error(LS_INVALID, "vocab_size is %lld, but the tokenizer \"%s\" has %d tokens", (long long)V,
                        ls_tokenizer_name(t->tokenizer), (int)known);
    ls_tokenizer_log(t->tokenizer, V);
    return ls_ok();
}

/* All processes of launched ranks must have opened the same files; `mine`: the status of opening them. */
static ls_status compare_processes(const ls_trained *t, ls_status mine) {
    ls_alike *alike;
    LS_TRY(ls_alike_begin(&alike));
    if (mine.code == LS_OK) {
        ls_alike_add_model(alike, t->model);
        ls_alike_add_folder(alike, "--model", ls_model_folder(t->model));
        ls_alike_add_folder(alike, "--checkpoint", t->checkpoint);
    }
    return ls_alike_end(alike, mine);
}

ls_status ls_trained_open(const char *model, const char *checkpoint, ls_trained *out) {
    return ls_trained_open_changed(model, checkpoint, NULL, NULL, out);
}

ls_status ls_trained_open_changed(const char *model, const char *checkpoint, const ls_rope_change *rope,
                                  const ls_adapter_choice *adapter, ls_trained *out) {
    ls_trained trained = {.model = NULL};
    const ls_status status = compare_processes(&trained, open_all(model, checkpoint, rope, adapter, &trained));
    if (status.code != LS_OK) {
        ls_trained_close(&trained);
        return status;
    }
    *out = trained;
    return ls_ok();
}

void ls_trained_close(ls_trained *t) {
    ls_tokenizer_close(t->tokenizer);
    ls_model_close(t->model);
    free(t->checkpoint);
    *t = (ls_trained){.model = NULL};
}

ls_status ls_trained_fill(const ls_trained *t, const ls_rank *rank, uint64_t seed) {
    ls_weight_source source;
    LS_TRY(ls_comm_agree(rank->comm, t->checkpoint != NULL ? ls_checkpoint_weights(t->checkpoint, t->model, rank->image,
                                                                                   rank->comm, &source)
                                                           : ls_model_weights(t->model, rank->image, seed, &source)));
    if (rank->rank == 0 && t->checkpoint == NULL && !ls_weights_from_file(&source))
        ls_log("%s has no *.safetensors: random weights from seed %llu", ls_model_folder(t->model),
               (unsigned long long)seed);
    const ls_status status = ls_weights_fill_shared(rank->executor, rank->comm, &source, NULL);
    ls_weights_close(&source);
    return status;
}
