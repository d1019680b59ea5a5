/* The folder of a run: who may write to it, what others left in it, and what becomes of it while the run goes on. */
#include "train/train_impl.h"

#include "checkpoint/checkpoint.h"

#include <stdlib.h>
#include <string.h>

/* --- the lock --------------------------------------------------------------------------------------------------------------- */

ls_status ls_folder_claim(ls_training *t) {
    if (t->lock != NULL || !ls_file_is_directory(t->options.out)) return ls_ok();
    return ls_lock_take(t->options.out, &t->lock);
}

ls_status ls_folder_refuse_existing(const ls_training *t) {
    LS_PATH found = NULL;
    int64_t newest;
    /* A folder that cannot be listed may well hold one. */
    LS_TRY(ls_checkpoint_newest(t->options.out, &newest));
    if (newest < 0) return ls_ok();
    LS_TRY(ls_checkpoint_path(t->options.out, newest, &found));
    return ls_error(LS_USAGE, "%s already holds a run (%s); continue it with --resume, or use another --out",
                    t->options.out, found);
}

ls_status ls_folder_make(ls_training *t) {
    if (t->lock != NULL) return ls_ok();
    LS_TRY(ls_file_make_directories(t->options.out));
    LS_TRY(ls_folder_claim(t));
    return ls_folder_refuse_existing(t); /* another run may have been faster */
}

/* --- leftovers -------------------------------------------------------------------------------------------------------------- */

/* What is left of a file that a run was writing when it was killed (ls_file_write): "loss.svg.tmp-4711". */
static bool is_unfinished(const char *name) {
    static const char *const files[] = {"run.json", "metrics.jsonl", "loss.svg", "eval.json",
                                        "loss_by_position.svg"};
    static const char end[] = ".tmp-";
    for (size_t i = 0; i < LS_COUNT(files); i++) {
        const size_t n = strlen(files[i]);
        if (strncmp(name, files[i], n) != 0 || strncmp(name + n, end, sizeof end - 1) != 0) continue;
        const char *process = name + n + sizeof end - 1;
        return *process != 0 && process[strspn(process, "0123456789")] == 0;
    }
    return false;
}

static ls_status remove_unfinished(const ls_training *t) {
    ls_file_names names;
    LS_PATH path = NULL;
    LS_TRY(ls_file_list(t->options.out, &names));
    ls_status status = ls_ok();
    for (size_t i = 0; i < names.count && status.code == LS_OK; i++) {
        if (!is_unfinished(names.name[i])) continue;
        status = ls_record_path(t, names.name[i], &path);
        if (status.code == LS_OK) status = ls_file_remove_tree(path);
    }
    ls_file_names_free(&names);
    return status;
}

static ls_status clean(const ls_training *t) {
    LS_PATH model = NULL;
    LS_TRY(ls_record_path(t, "model", &model));
    LS_TRY(remove_unfinished(t));
    LS_TRY(ls_checkpoint_remove_partial(t->options.out));
    LS_TRY(ls_checkpoint_prune(t->options.out, t->start.step, (int)t->options.keep));
    return ls_export_remove_leftovers(model);
}

void ls_folder_clean(const ls_training *t) {
    const ls_status status = clean(t);
    if (status.code != LS_OK) ls_log("what an earlier run left in %s stays: %s", t->options.out, status.text);
}

/* --- a folder that is gone -------------------------------------------------------------------------------------------------- */

ls_status ls_folder_watch(const ls_training *t, ls_lock **lock, bool *again) {
    const char *out = t->options.out;
    LS_PATH moved = NULL;
    *again = !ls_lock_is_valid(*lock);
    if (!*again) return ls_ok();
    LS_TRY(ls_lock_folder(*lock, &moved));
    LS_TRY(ls_file_make_directories(out));
    ls_lock *taken = NULL;
    LS_TRY(ls_error_in(ls_lock_take(out, &taken),
                       "%s was removed or replaced while this run wrote to it, and is not its own any more",
                       out));
    *lock = taken;
    if (moved != NULL)
        ls_log("warning: what was %s is now %s: the training goes on in a new %s, and saves at once", out,
               moved, out);
    else
        ls_log(
            "warning: %s was removed: it is made again, the training goes on and saves at once; what it held is lost",
            out);
    return ls_record_run(t);
}

ls_status ls_folder_reclaim(ls_training *t) {
    if (ls_lock_is_valid(t->lock)) return ls_ok();
    ls_lock_release(t->lock);
    t->lock = NULL;
    LS_TRY(ls_file_make_directories(t->options.out));
    return ls_folder_claim(t);
}
