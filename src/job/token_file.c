/* Token ids and labels from files, checked against the vocabulary. */
#include "job/job_impl.h"

#include <stdio.h>

/* Row and column, since that is how the user sees the file. */
static ls_status check_ids(const char *path, const ls_array *ids, int64_t V, bool labels) {
    const int32_t *id = ids->data;
    for (int64_t i = 0; i < ids->count; i++) {
        if ((id[i] >= 0 && id[i] < V) || (labels && id[i] == LS_LABEL_IGNORED)) continue;
        return ls_error(LS_INVALID, "%s: row %lld, column %lld is %d; expected 0 to %lld%s", path,
                        (long long)(i / ids->size[1]), (long long)(i % ids->size[1]), id[i],
                        (long long)(V - 1), labels ? " or -100 (ignored)" : ", the model's vocabulary");
    }
    return ls_ok();
}

static ls_status check_shape(const char *path, const ls_array *ids, const ls_array *like) {
    char shape[96], expected[96] = "[B,S], both at least 1";
    ls_sizes_print(ids->ndim, ids->size, shape, sizeof shape);
    if (like != NULL) ls_sizes_print(like->ndim, like->size, expected, sizeof expected);
    const bool matrix = ids->ndim == 2 && ids->count > 0;
    if (matrix && (like == NULL || (ids->size[0] == like->size[0] && ids->size[1] == like->size[1])))
        return ls_ok();
    return ls_error(LS_INVALID, "%s: shape is %s, expected %s%s", path, shape, expected,
                    like != NULL ? " like the tokens" : "");
}

/* The next token of each row; the last one has none. */
static void next_tokens(const ls_array *tokens, int32_t *labels) {
    const int32_t *token = tokens->data;
    const int64_t S = tokens->size[1];
    for (int64_t i = 0; i < tokens->count; i++) labels[i] = i % S == S - 1 ? LS_LABEL_IGNORED : token[i + 1];
}

ls_status ls_tokens_read(const char *path, int64_t V, ls_array *out) {
    LS_TRY(ls_array_read_integers(path, out));
    LS_TRY(check_shape(path, out, NULL));
    return check_ids(path, out, V, false);
}

ls_status ls_labels_read(const char *path, int64_t V, const ls_array *tokens, ls_array *out, int64_t *valid) {
    if (path == NULL) {
        LS_TRY(ls_array_make(LS_I32, 2, tokens->size, out));
        next_tokens(tokens, out->data);
    } else {
        LS_TRY(ls_array_read_integers(path, out));
        LS_TRY(check_shape(path, out, tokens));
        LS_TRY(check_ids(path, out, V, true));
    }
    *valid = 0;
    for (int64_t i = 0; i < out->count; i++) *valid += ((const int32_t *)out->data)[i] != LS_LABEL_IGNORED;
    return ls_ok();
}
