/* The folder of a run: its lock, leftovers of killed runs, and the case that it is removed during a run. */
#include "train/train_impl.h"

#include "checkpoint/checkpoint.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRIAL_SECONDS 2.0 /* within which a file of another process must be visible */

/* --- the lock ----------------------------------------------------------------------------------------------------- */

ls_status ls_folder_claim(ls_training *t) {
    if (t->lock != NULL || !ls_file_is_folder(t->options.out)) return ls_ok();
    return ls_lock_take(t->options.out, &t->lock);
}

ls_status ls_folder_refuse_existing(const ls_training *t) {
    LS_PATH found = NULL;
    int64_t newest;
    /* A folder that cannot be listed is an error, because it may hold a run. */
    LS_TRY(ls_checkpoint_newest(t->options.out, &newest));
    if (newest < 0) return ls_ok();
    LS_TRY(ls_checkpoint_path(t->options.out, newest, &found));
    return ls_error(LS_USAGE, "%s already holds a run (%s); continue it with --resume, or use another --out",
                    t->options.out, found);
}

ls_status ls_folder_make(ls_training *t) {
    if (t->lock != NULL) return ls_ok();
    LS_TRY(ls_file_make_folders(t->options.out));
    LS_TRY(ls_folder_claim(t));
    return ls_folder_refuse_existing(t); /* another run may have created it meanwhile */
}

/* --- whether all processes can write ------------------------------------------------------------------------------ */

/* The file that a process of launched ranks writes to test the folder. */
static ls_status path_of_trial(const ls_training *t, int rank, char **out) {
    return ls_path_print(out, "%s/.rank-%d.tried", t->options.out, rank);
}

static ls_status write_trial(const ls_training *t, int rank) {
    static const char text[] = "written by a rank to see whether it can, and removed at once\n";
    LS_PATH path = NULL;
    LS_TRY(path_of_trial(t, rank, &path));
    return ls_error_in(ls_file_write(path, text, sizeof text - 1), "rank %d cannot write to --out", rank);
}

/*
 * At home: the files that all processes have written must be visible here. A network file system may show them a moment
 * later.
 */
static ls_status find_trials(const ls_training *t, int ranks) {
    const double until = ls_seconds() + TRIAL_SECONDS;
    for (int r = 0; r < ranks; r++) {
        LS_PATH path = NULL;
        LS_TRY(path_of_trial(t, r, &path));
        while (!ls_file_exists(path) && ls_seconds() < until) usleep(10000);
        if (!ls_file_exists(path))
            return ls_error(LS_IO, "rank %d writes to another folder than rank 0 as --out %s; expected a shared one", r,
                            t->options.out);
    }
    return ls_ok();
}

ls_status ls_folder_try(const ls_training *t) {
    ls_launched launched;
    LS_PATH mine = NULL;
    LS_TRY(ls_launched_find(&launched));
    if (launched.ranks <= 1) return ls_ok();
    LS_TRY(path_of_trial(t, launched.rank, &mine));
    const ls_status written = write_trial(t, launched.rank);
    ls_status status = ls_home_agree(written);
    if (status.code == LS_OK) status = ls_home_agree(ls_is_home() ? find_trials(t, launched.ranks) : ls_ok());
    const ls_status removed = written.code == LS_OK ? ls_file_remove_tree(mine) : ls_ok();
    LS_TRY(status);
    return ls_home_agree(removed);
}

/* --- leftovers ---------------------------------------------------------------------------------------------------- */

/* Whether a name is that of a file that a killed run left unfinished: "loss.svg.tmp-4711" (ls_file_write). */
static bool is_unfinished(const char *name) {
    static const char *const files[] = {"run.json", "metrics.jsonl", "loss.svg", "eval.json", "loss_by_position.svg"};
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
    LS_TRY(ls_record_export_path(t, &model));
    LS_TRY(remove_unfinished(t));
    LS_TRY(ls_checkpoint_remove_partial(t->options.out));
    LS_TRY(ls_checkpoint_prune(t->options.out, t->start.step, (int)t->options.keep));
    return ls_export_remove_leftovers(model);
}

void ls_folder_clean(const ls_training *t) {
    const ls_status status = clean(t);
    if (status.code != LS_OK)
        ls_log("leftovers of an earlier run in %s cannot be removed: %s", t->options.out, status.text);
}

/* --- a folder that is removed during a run ------------------------------------------------------------------------ */

ls_status ls_folder_watch(const ls_training *t, ls_lock **lock, bool *remade) {
    const char *out = t->options.out;
    LS_PATH moved = NULL;
    *remade = !ls_lock_is_valid(*lock);
    if (!*remade) return ls_ok();
    LS_TRY(ls_lock_folder(*lock, &moved));
    LS_TRY(ls_file_make_folders(out));
    ls_lock *taken = NULL;
    LS_TRY(ls_error_in(ls_lock_take(out, &taken),
                       "%s was removed or replaced while this run wrote to it, and now belongs to another run", out));
    *lock = taken;
    if (moved != NULL)
        ls_log("warning: %s was moved to %s: the training continues in a new %s, and saves a checkpoint at once", out,
               moved, out);
    else
        ls_log(
            "warning: %s was removed, and its contents are lost: it is created again, and the training continues with a checkpoint at once",
            out);
    return ls_record_run(t);
}

ls_status ls_folder_reclaim(ls_training *t) {
    if (ls_lock_is_valid(t->lock)) return ls_ok();
    ls_lock_release(t->lock);
    t->lock = NULL;
    LS_TRY(ls_file_make_folders(t->options.out));
    return ls_folder_claim(t);
}
