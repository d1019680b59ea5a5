/* Exporting: the folder around the files, whole at every moment. */
#include "checkpoint/export_impl.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char PARTIAL[] = ".partial-";

/* ---- where ---- */

/* The path without symbolic links; of what is not there yet, without slashes at its end. */
static ls_status resolve(const char *path, char **out) {
    if (path[0] == 0) return ls_error(LS_USAGE, "--out is empty; expected a folder");
    char *real = ls_file_exists(path) ? realpath(path, NULL) : NULL;
    const ls_status status = ls_path_print(out, "%s", real != NULL ? real : path);
    free(real);
    LS_TRY(status);
    for (size_t length = strlen(*out); length > 1 && (*out)[length - 1] == '/'; length--)
        (*out)[length - 1] = 0;
    return ls_ok();
}

static ls_status refuse_strangers(const char *folder) {
    ls_file_names names;
    ls_status status = ls_ok();
    LS_TRY(ls_file_list(folder, &names));
    for (size_t i = 0; i < names.count && status.code == LS_OK; i++)
        if (!ls_export_knows(names.name[i]))
            status = ls_error(
                LS_USAGE,
                "%s holds '%s', which is no part of an exported model; expected a new or empty folder, "
                "or one that was exported",
                folder, names.name[i]);
    ls_file_names_free(&names);
    return status;
}

ls_status ls_export_check(const char *out, const char *carry) {
    LS_PATH path = NULL;
    LS_PATH source = NULL;
    LS_TRY(ls_export_check_carried(carry));
    LS_TRY(resolve(out, &path));
    if (!ls_file_exists(path)) return ls_ok();
    if (!ls_file_is_directory(path)) return ls_error(LS_USAGE, "%s is a file, expected a folder", path);
    if (carry != NULL && carry[0] != 0) {
        LS_TRY(resolve(carry, &source));
        if (strcmp(path, source) == 0)
            return ls_error(LS_USAGE,
                            "%s is the model's own folder; expected another, so that its weights stay", path);
    }
    return refuse_strangers(path);
}

/* ---- the temporary folder ---- */

ls_status ls_export_remove_leftovers(const char *final) {
    LS_PATH folder = NULL;
    LS_PATH path = NULL;
    LS_PATH wanted = NULL;
    const char *slash = strrchr(final, '/');
    LS_TRY(ls_path_parent(final, &folder));
    LS_TRY(ls_path_print(&wanted, "%s%s", slash == NULL ? final : slash + 1, PARTIAL));
    ls_file_names names;
    LS_TRY(ls_file_list(folder, &names));
    ls_status status = ls_ok();
    for (size_t i = 0; i < names.count && status.code == LS_OK; i++) {
        const char *digits = names.name[i] + strlen(wanted);
        if (strncmp(names.name[i], wanted, strlen(wanted)) != 0) continue;
        const long process = strtol(digits, NULL, 10);
        if (process <= 0 || (process != getpid() && (kill((pid_t)process, 0) == 0 || errno != ESRCH)))
            continue;
        status = ls_path_join(folder, names.name[i], &path);
        if (status.code == LS_OK) status = ls_file_remove_tree(path);
    }
    ls_file_names_free(&names);
    return status;
}

static ls_status make_partial(ls_exporting *e) {
    LS_TRY(ls_path_print(&e->partial, "%s%s%ld", e->final, PARTIAL, (long)getpid()));
    LS_TRY(ls_file_make_directories(e->partial)); /* and the folders above it */
    LS_TRY(ls_export_remove_leftovers(e->final));
    return ls_file_make_directories(e->partial);
}

/* ---- all ---- */

static ls_status write_folder(ls_exporting *e) {
    LS_TRY(make_partial(e));
    LS_TRY(ls_export_config_write(e));
    LS_TRY(ls_export_carry(e));
    LS_TRY(ls_export_weights(e));
    LS_TRY(ls_file_sync(e->partial));
    return ls_checkpoint_publish(e->partial, e->final);
}

static ls_status export_to(ls_exporting *e) {
    LS_TRY(ls_record_read(e->options->checkpoint, e->arena, &e->record));
    LS_TRY(ls_export_config_read(e));
    LS_TRY(ls_export_check(e->options->out, e->options->carry));
    LS_TRY(resolve(e->options->out, &e->final));
    const ls_status status = write_folder(e);
    if (status.code != LS_OK && e->partial != NULL) {
        const ls_status removed = ls_file_remove_tree(e->partial);
        if (removed.code != LS_OK) ls_log("a part of an export stays behind: %s", removed.text);
    }
    return status;
}

ls_status ls_checkpoint_export(const ls_export_options *options, ls_export_result *result) {
    ls_exporting e = {.options = options, .arena = ls_arena_create()};
    const ls_status status = export_to(&e);
    if (status.code == LS_OK) *result = e.result;
    free(e.config);
    free(e.final);
    free(e.partial);
    ls_arena_destroy(e.arena);
    return status;
}
