/* The checkpoint folders in a folder: their names, finding the newest, publishing, pruning, marking the best. */
#include "checkpoint/checkpoint_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char PREFIX[] = "checkpoint-", PARTIAL[] = ".partial", BEST[] = "best", BEST_PARTIAL[] = "best.partial";

static ls_status path_of(const char *folder, int64_t step, const char *end, char **out) {
    char name[64];
    snprintf(name, sizeof name, "%s%08lld%s", PREFIX, (long long)step, end);
    return ls_path_join(folder, name, out);
}

ls_status ls_checkpoint_path(const char *folder, int64_t step, char **out) { return path_of(folder, step, "", out); }

ls_status ls_checkpoint_partial_path(const char *folder, int64_t step, char **out) {
    return path_of(folder, step, PARTIAL, out);
}

/* The step in "checkpoint-00000010" followed by `end`; -1 for any other name. */
static int64_t step_of(const char *name, const char *end) {
    const size_t n = sizeof PREFIX - 1;
    if (strncmp(name, PREFIX, n) != 0) return -1;
    const size_t digits = strspn(name + n, "0123456789");
    if (digits == 0 || digits > 18 || strcmp(name + n + digits, end) != 0) return -1;
    return strtoll(name + n, NULL, 10);
}

static int descending(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* The steps of the checkpoints in a folder, newest first; the caller frees *steps. */
static ls_status list_steps(const char *folder, int64_t **steps, size_t *n) {
    ls_file_names names;
    LS_TRY(ls_file_list(folder, &names));
    int64_t *found = malloc(sizeof *found * (names.count + 1));
    size_t count = 0;
    for (size_t i = 0; i < names.count && found != NULL; i++) {
        found[count] = step_of(names.name[i], "");
        count += found[count] >= 0;
    }
    ls_file_names_free(&names);
    if (found == NULL) return ls_error(LS_NO_MEMORY, "no memory to list the checkpoints in %s", folder);
    qsort(found, count, sizeof *found, descending);
    *steps = found;
    *n = count;
    return ls_ok();
}

static ls_status no_checkpoint(const char *folder) { return ls_error(LS_INVALID, "no checkpoint in %s", folder); }

ls_status ls_checkpoint_newest(const char *folder, int64_t *step) {
    int64_t *steps = NULL;
    size_t n = 0;
    if (ls_file_is_folder(folder)) LS_TRY(list_steps(folder, &steps, &n));
    *step = n > 0 ? steps[0] : -1;
    free(steps);
    return ls_ok();
}

ls_status ls_checkpoint_find(const char *folder, char **out) {
    int64_t newest;
    LS_TRY(ls_checkpoint_newest(folder, &newest));
    return newest < 0 ? no_checkpoint(folder) : ls_checkpoint_path(folder, newest, out);
}

/* Compares this process's share of the pieces with their hashes. */
static ls_status check_share(const char *path, const ls_checkpoint_share *share) {
    ls_checkpoint_info info;
    LS_TRY(ls_checkpoint_verify_some(path, share->process, share->processes, &info));
    for (int i = 0; i < info.n_files; i++) LS_TRY(info.file[i].status);
    return ls_ok();
}

/* Checks that the checkpoint of a step is intact, and finds its path. Collective: process 0 has the step. */
static ls_status check_whole(const char *folder, int64_t step, const ls_checkpoint_share *share, char **path) {
    LS_TRY(share->tell(&step, sizeof step));
    ls_status status = ls_checkpoint_path(folder, step, path);
    if (status.code == LS_OK) status = check_share(*path, share);
    return share->agree(status);
}

ls_status ls_checkpoint_find_whole(const char *folder, const ls_checkpoint_share *share, char **out) {
    const bool lists = share->process == 0 && ls_file_is_folder(folder);
    int64_t *steps = NULL;
    size_t n = 0;
    LS_PATH path = NULL;
    ls_status status = share->agree(lists ? list_steps(folder, &steps, &n) : ls_ok());
    if (status.code == LS_OK) status = share->tell(&n, sizeof n);
    if (status.code == LS_OK)
        status = no_checkpoint(folder);
    else
        n = 0;
    ls_status newest = status;
    for (size_t i = 0; i < n && status.code != LS_OK && newest.code != LS_PEER; i++) {
        status = check_whole(folder, steps != NULL ? steps[i] : 0, share, &path);
        if (i == 0 || status.code == LS_PEER) newest = status;
        if (status.code == LS_UNSUPPORTED) { /* intact, but of another version */
            newest = status;
            break;
        }
        if (status.code != LS_OK && i + 1 < n) ls_log("warning: %s; looking for an older checkpoint", status.text);
    }
    free(steps);
    return status.code == LS_OK ? ls_path_print(out, "%s", path) : newest;
}

ls_status ls_checkpoint_resolve(const char *path, char **out) {
    LS_PATH state = NULL;
    LS_TRY(ls_path_join(path, ls_record_name(), &state));
    return ls_file_exists(state) ? ls_path_print(out, "%s", path) : ls_checkpoint_find(path, out);
}

ls_status ls_checkpoint_remove_partial(const char *folder) {
    ls_file_names names;
    LS_PATH path = NULL;
    LS_TRY(ls_file_list(folder, &names));
    ls_status status = ls_ok();
    for (size_t i = 0; i < names.count && status.code == LS_OK; i++) {
        if (step_of(names.name[i], PARTIAL) < 0 && strcmp(names.name[i], BEST_PARTIAL) != 0) continue;
        status = ls_path_join(folder, names.name[i], &path);
        if (status.code == LS_OK) status = ls_file_remove_tree(path);
    }
    ls_file_names_free(&names);
    return status;
}

ls_status ls_checkpoint_publish(const char *partial, const char *final) {
    if (!ls_file_exists(final)) return ls_file_rename(partial, final);
    /* The step was saved before. Exchanging the names keeps a complete checkpoint at every moment. */
    if (renameat2(AT_FDCWD, partial, AT_FDCWD, final, RENAME_EXCHANGE) == 0) {
        LS_PATH folder = NULL;
        LS_TRY(ls_path_parent(final, &folder));
        LS_TRY(ls_file_sync(folder));
        return ls_file_remove_tree(partial);
    }
    if (errno != EINVAL && errno != ENOSYS)
        return ls_error(LS_IO, "cannot exchange %s and %s: %s", partial, final, strerror(errno));
    LS_TRY(ls_file_remove_tree(final)); /* the file system cannot exchange names */
    return ls_file_rename(partial, final);
}

/*
 * Renames the folder first, so that an interruption leaves a partial folder, which the next save removes, and never a
 * damaged checkpoint.
 */
static ls_status remove_checkpoint(const char *folder, int64_t step) {
    LS_PATH path = NULL;
    LS_PATH partial = NULL;
    LS_TRY(ls_checkpoint_path(folder, step, &path));
    if (!ls_file_exists(path)) return ls_ok();
    LS_TRY(ls_checkpoint_partial_path(folder, step, &partial));
    LS_TRY(ls_file_rename(path, partial));
    return ls_file_remove_tree(partial);
}

/* ---- the best checkpoint: the link "best" ---- */

ls_status ls_checkpoint_mark_best(const char *folder, int64_t step) {
    LS_PATH to = NULL;
    LS_PATH link = NULL;
    LS_PATH temporary = NULL;
    LS_TRY(ls_checkpoint_path(folder, step, &to));
    LS_TRY(ls_path_join(folder, BEST, &link));
    LS_TRY(ls_path_join(folder, BEST_PARTIAL, &temporary));
    LS_TRY(ls_file_remove_tree(temporary));
    if (symlink(strrchr(to, '/') + 1, temporary) != 0)
        return ls_error(LS_IO, "cannot make the link %s: %s", temporary, strerror(errno));
    return ls_file_rename(temporary, link);
}

int64_t ls_checkpoint_best(const char *folder) {
    LS_PATH link = NULL;
    char name[64];
    if (ls_path_join(folder, BEST, &link).code != LS_OK) return -1;
    const ssize_t length = readlink(link, name, sizeof name - 1);
    if (length < 0) return -1;
    name[length] = 0;
    return step_of(name, "");
}

ls_status ls_checkpoint_remove(const char *folder, int64_t step) {
    return step == ls_checkpoint_best(folder) ? ls_ok() : remove_checkpoint(folder, step);
}

ls_status ls_checkpoint_prune(const char *folder, int64_t step, int keep) {
    int64_t *steps = NULL;
    size_t n = 0;
    if (keep <= 0) return ls_ok();
    LS_TRY(list_steps(folder, &steps, &n));
    ls_status status = ls_ok();
    int others = 0;
    const int64_t best = ls_checkpoint_best(folder);
    for (size_t i = 0; i < n && status.code == LS_OK; i++)
        if (steps[i] != step && steps[i] != best && ++others >= keep) status = remove_checkpoint(folder, steps[i]);
    free(steps);
    return status;
}
