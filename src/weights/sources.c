/* The sources of weights: files, or random numbers. */
#include "weights/weights_impl.h"

#include <stdlib.h>

typedef struct source_state {
    ls_weight_files *files; /* NULL: random */
    uint64_t seed;
    double deviation;
} source_state;

static ls_status read_source(void *context, const ls_flat *flat, int64_t start, int64_t count, double *out) {
    const source_state *state = context;
    if (state->files != NULL) return ls_weight_files_read(state->files, flat, start, count, out);
    ls_weights_random(flat, state->seed, state->deviation, start, count, out);
    return ls_ok();
}

/* Takes files over. */
static ls_status make_source(ls_weight_files *files, uint64_t seed, double deviation, ls_weight_source *out) {
    source_state *state = malloc(sizeof *state);
    if (state == NULL) {
        ls_weight_files_close(files);
        return ls_error(LS_NO_MEMORY, "no memory for a source of weights");
    }
    *state = (source_state){files, seed, deviation};
    *out = (ls_weight_source){read_source, state};
    return ls_ok();
}

ls_status ls_weights_open_directory(const char *directory, const ls_image *image, const char *const *derived,
                                    ls_weight_source *out) {
    ls_file_names paths;
    ls_weight_files *files = NULL;
    ls_status status = ls_ok();
    LS_TRY(ls_weight_files_list(directory, &paths));
    const bool any = paths.count > 0;
    if (any)
        status = ls_weight_files_open(directory, (const char *const *)paths.name, (int)paths.count, image,
                                      derived, &files);
    ls_file_names_free(&paths);
    LS_TRY(status);
    *out = (ls_weight_source){NULL, NULL};
    return any ? make_source(files, 0, 0, out) : ls_ok();
}

ls_status ls_weights_open_random(uint64_t seed, double deviation, ls_weight_source *out) {
    return make_source(NULL, seed, deviation, out);
}

ls_status ls_weights_open_file(const char *path, const ls_image *image, ls_weight_source *out) {
    ls_weight_files *files = NULL;
    LS_TRY(ls_weight_files_open(path, &path, 1, image, NULL, &files));
    return make_source(files, 0, 0, out);
}

void ls_weights_close(ls_weight_source *source) {
    if (source == NULL || source->context == NULL) return;
    source_state *state = source->context;
    ls_weight_files_close(state->files);
    free(state);
    *source = (ls_weight_source){NULL, NULL};
}

bool ls_weights_from_file(const ls_weight_source *source) {
    const source_state *state = source->context;
    return state->files != NULL;
}
