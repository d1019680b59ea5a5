/* Weights in safetensors files that are open. */
#include "weights/weights_impl.h"

#include <stdlib.h>
#include <string.h>

static bool begins_with(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

const char *ls_weight_files_name(const ls_weight_files *files, const char *parameter) {
    const bool cut = files->bare != NULL && begins_with(parameter, files->bare);
    return parameter + (cut ? strlen(files->bare) : 0);
}

const ls_st_tensor *ls_weight_files_find(const ls_weight_files *files, const char *name, int *times) {
    const ls_st_tensor *found = NULL;
    int n = 0;
    for (int i = 0; i < files->n; i++) {
        const ls_st_tensor *t = ls_st_find(files->file[i], name);
        if (t == NULL) continue;
        found = t;
        n++;
    }
    if (times != NULL) *times = n;
    return found;
}

const ls_st_tensor *ls_weight_files_of(const ls_weight_files *files, const ls_flat *flat) {
    const ls_st_tensor *t = ls_weight_files_find(files, ls_weight_files_name(files, flat->name), NULL);
    LS_ASSERT(t != NULL); /* checked when they were opened */
    return t;
}

/* Whether the files' names lack the prefix: none has it, and some parameter is there without it. */
static bool lack(const ls_weight_files *files, const ls_image *image, const char *prefix) {
    bool found = false;
    for (int f = 0; f < files->n; f++)
        for (int64_t t = 0; t < ls_st_count(files->file[f]); t++)
            if (begins_with(ls_st_at(files->file[f], t)->name, prefix)) return false;
    for (int i = 0; i < image->n_flats && !found; i++)
        found = begins_with(image->flats[i].name, prefix) &&
                ls_weight_files_find(files, image->flats[i].name + strlen(prefix), NULL) != NULL;
    return found;
}

ls_status ls_weight_files_open(const char *what, const ls_weight_listing *listing, const ls_image *image,
                               const ls_weight_rules *rules, ls_weight_files **out) {
    static const ls_weight_rules none = {.derived = NULL};
    const size_t n = listing->files.count;
    ls_weight_files *files = calloc(1, sizeof *files + sizeof(ls_st_file *) * n);
    if (files == NULL) return ls_error(LS_NO_MEMORY, "no memory to open %s", what);
    if (rules == NULL) rules = &none;
    ls_status status = ls_ok();
    for (; (size_t)files->n < n && status.code == LS_OK; files->n += status.code == LS_OK)
        status = ls_st_open(listing->files.name[files->n], &files->file[files->n]);
    if (rules->prefix != NULL && lack(files, image, rules->prefix)) files->bare = rules->prefix;
    if (status.code == LS_OK) status = ls_weight_files_check(files, what, listing, image, rules);
    if (status.code == LS_OK)
        *out = files;
    else
        ls_weight_files_close(files);
    return status;
}

void ls_weight_files_close(ls_weight_files *files) {
    if (files == NULL) return;
    for (int i = 0; i < files->n; i++) ls_st_close(files->file[i]);
    free(files);
}
