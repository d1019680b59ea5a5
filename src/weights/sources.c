/* The sources of weights: files, or random numbers. */
#include "weights/weights_impl.h"

#include <stdlib.h>

typedef struct source_state {
    ls_weight_files *files; /* NULL: random */
    ls_random_rule rule;
} source_state;

/* ---- random numbers ---- */

static ls_status read_random(void *context, const ls_flat *flat, int64_t start, int64_t count, double *out) {
    const source_state *state = context;
    ls_weights_random(flat, &state->rule, start, count, out);
    return ls_ok();
}

/* ---- files ---- */

static ls_status read_files(void *context, const ls_flat *flat, int64_t start, int64_t count, double *out) {
    const source_state *state = context;
    const ls_st_tensor *t = ls_weight_files_of(state->files, flat);
    LS_ASSERT(start + count <= t->count); /* checked when they were opened */
    return ls_st_convert(t, start, count, LS_F64, out);
}

/* Of F64 that becomes bf16 each number is rounded twice, as parameters are made from their masters. */
static void round_twice(const ls_st_tensor *t, int64_t start, int64_t count, ls_bf16 *out) {
    enum { BLOCK = 1024 };
    float block[BLOCK];
    for (int64_t i = 0; i < count; i += BLOCK) {
        const int64_t n = ls_min(BLOCK, count - i);
        const ls_status status = ls_st_convert(t, start + i, n, LS_F32, block);
        LS_ASSERT(status.code == LS_OK); /* F64 it is */
        for (int64_t k = 0; k < n; k++) out[i + k] = ls_bf16_from_f32(block[k]);
    }
}

static ls_status convert_files(void *context, const ls_flat *flat, int64_t start, int64_t count, ls_dtype to,
                               void *out) {
    const source_state *state = context;
    const ls_st_tensor *t = ls_weight_files_of(state->files, flat);
    LS_ASSERT(start + count <= t->count);
    ls_status status = ls_ok();
    if (t->dtype == LS_ST_F64 && to == LS_BF16)
        round_twice(t, start, count, out);
    else
        status = ls_st_convert(t, start, count, to, out);
    ls_st_forget(t, start, count);
    return status;
}

/* ---- opening ---- */

/* Takes files over. */
static ls_status make_source(ls_weight_files *files, ls_random_rule rule, ls_weight_source *out) {
    source_state *state = malloc(sizeof *state);
    if (state == NULL) {
        ls_weight_files_close(files);
        return ls_error(LS_NO_MEMORY, "no memory for a source of weights");
    }
    *state = (source_state){files, rule};
    *out = files == NULL ? (ls_weight_source){.read = read_random, .context = state}
                         : (ls_weight_source){.read = read_files, .context = state, .convert = convert_files};
    return ls_ok();
}

static ls_status open_listed(const char *what, ls_weight_listing *listing, const ls_image *image,
                             const ls_weight_rules *rules, ls_weight_source *out) {
    ls_weight_files *files = NULL;
    const ls_status status = ls_weight_files_open(what, listing, image, rules, &files);
    ls_weight_listing_free(listing);
    return status.code == LS_OK ? make_source(files, (ls_random_rule){.norm = 1}, out) : status;
}

ls_status ls_weights_open_directory(const char *directory, const ls_image *image,
                                    const ls_weight_rules *rules, ls_weight_source *out) {
    ls_weight_listing listing;
    LS_TRY(ls_weight_listing_make(directory, &listing));
    if (listing.files.count > 0) return open_listed(directory, &listing, image, rules, out);
    ls_weight_listing_free(&listing);
    *out = (ls_weight_source){.context = NULL};
    return ls_ok();
}

ls_status ls_weights_open_random(uint64_t seed, double deviation, ls_weight_source *out) {
    return ls_weights_open_random_norms(seed, deviation, 1, out);
}

ls_status ls_weights_open_random_norms(uint64_t seed, double deviation, double norm, ls_weight_source *out) {
    return make_source(NULL, (ls_random_rule){seed, deviation, norm}, out);
}

ls_status ls_weights_open_file(const char *path, const ls_image *image, ls_weight_source *out) {
    ls_weight_listing listing;
    LS_TRY(ls_weight_listing_of_file(path, &listing));
    return open_listed(path, &listing, image, NULL, out);
}

void ls_weights_close(ls_weight_source *source) {
    if (source == NULL || source->context == NULL) return;
    source_state *state = source->context;
    ls_weight_files_close(state->files);
    free(state);
    *source = (ls_weight_source){.context = NULL};
}

bool ls_weights_from_file(const ls_weight_source *source) {
    const source_state *state = source->context;
    return state->files != NULL;
}
