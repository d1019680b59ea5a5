/* Arrays, token ids and masks between files and memory. */
#include "cli/cli_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ls_status ls_job_dtype(const char *text, ls_dtype initial, ls_dtype *out) {
    static const ls_dtype known[] = {LS_F32, LS_F64, LS_BF16};
    if (text == NULL) {
        *out = initial;
        return ls_ok();
    }
    for (size_t i = 0; i < LS_COUNT(known); i++) {
        if (strcmp(text, ls_dtype_name(known[i])) != 0) continue;
        *out = known[i];
        return ls_ok();
    }
    return ls_error(LS_USAGE, "--dtype %s; expected f32, f64 or bf16", text);
}

void ls_sizes_print(int ndim, const int64_t *size, char *out, size_t bytes) {
    ls_shape shape = {.ndim = ndim};
    for (int i = 0; i < ndim; i++) shape.dim[i].size = size[i];
    ls_shape_print(&shape, out, bytes);
}

ls_status ls_array_make(ls_dtype dtype, int ndim, const int64_t *size, ls_array *out) {
    ls_array a = {.dtype = dtype, .ndim = ndim, .count = 1};
    for (int i = 0; i < ndim; i++) {
        a.size[i] = size[i];
        a.count *= size[i];
    }
    a.bytes = (size_t)a.count * ls_dtype_bytes(dtype);
    a.data = calloc(a.bytes > 0 ? a.bytes : 1, 1);
    if (a.data == NULL) return ls_error(LS_NO_MEMORY, "no memory for an array of %zu bytes", a.bytes);
    *out = a;
    return ls_ok();
}

void ls_array_free(ls_array *a) {
    if (a == NULL) return;
    free(a->data);
    a->data = NULL;
}

static ls_status convert(ls_st_dtype from, const void *source, int64_t count, ls_dtype to, void *target) {
    const ls_st_tensor tensor = {.name = "array",
                                 .dtype = from,
                                 .ndim = 1,
                                 .shape = {count},
                                 .count = count,
                                 .bytes = (size_t)count * ls_st_dtype_bytes(from),
                                 .data = source};
    return ls_st_convert(&tensor, 0, count, to, target);
}

ls_status ls_array_from_npy(const char *path, const ls_npy *file, ls_dtype dtype, ls_array *out) {
    if (file->type != LS_NPY_F4 && file->type != LS_NPY_F8)
        return ls_error(LS_INVALID, "%s: elements are %s, expected f4 or f8", path, ls_npy_type_name(file->type));
    ls_array a;
    LS_TRY(ls_array_make(dtype, file->ndim, file->shape, &a));
    const ls_status status =
        convert(file->type == LS_NPY_F8 ? LS_ST_F64 : LS_ST_F32, file->data, file->count, dtype, a.data);
    if (status.code != LS_OK) {
        ls_array_free(&a);
        return status;
    }
    *out = a;
    return ls_ok();
}

static ls_status copy_integers(const char *path, const ls_npy *file, int32_t *out) {
    if (file->type == LS_NPY_I4) {
        memcpy(out, file->data, sizeof *out * (size_t)file->count);
        return ls_ok();
    }
    const int64_t *wide = file->data;
    for (int64_t i = 0; i < file->count; i++) {
        if (wide[i] < INT32_MIN || wide[i] > INT32_MAX)
            return ls_error(LS_INVALID, "%s: element %lld is %lld, expected a number of 32 bits", path, (long long)i,
                            (long long)wide[i]);
        out[i] = (int32_t)wide[i];
    }
    return ls_ok();
}

static ls_status read_integers(const char *path, const ls_npy *file, ls_array *out) {
    if (file->type != LS_NPY_I4 && file->type != LS_NPY_I8)
        return ls_error(LS_INVALID, "%s: elements are %s, expected i4 or i8", path, ls_npy_type_name(file->type));
    ls_array a;
    LS_TRY(ls_array_make(LS_I32, file->ndim, file->shape, &a));
    const ls_status status = copy_integers(path, file, a.data);
    if (status.code != LS_OK) {
        ls_array_free(&a);
        return status;
    }
    *out = a;
    return ls_ok();
}

ls_status ls_array_read_integers(const char *path, ls_array *out) {
    ls_npy file;
    LS_TRY(ls_npy_open(path, &file));
    const ls_status status = read_integers(path, &file, out);
    ls_npy_close(&file);
    return status;
}

ls_status ls_array_write(const ls_array *a, const char *folder, const char *name) {
    LS_PATH path = NULL;
    char file[64];
    snprintf(file, sizeof file, "%s.npy", name);
    LS_TRY(ls_path_join(folder, file, &path));
    if (a->dtype == LS_F64) return ls_npy_write(path, LS_NPY_F8, a->ndim, a->size, a->data);
    if (a->dtype == LS_F32) return ls_npy_write(path, LS_NPY_F4, a->ndim, a->size, a->data);
    ls_array wide;
    LS_TRY(ls_array_make(LS_F32, a->ndim, a->size, &wide));
    ls_status status = convert(ls_st_dtype_of(a->dtype), a->data, a->count, LS_F32, wide.data);
    if (status.code == LS_OK) status = ls_npy_write(path, LS_NPY_F4, wide.ndim, wide.size, wide.data);
    ls_array_free(&wide);
    return status;
}

/* --- token ids ---------------------------------------------------------------------------------------------------- */

/*
 * Checks that each id is in [0,V), or, if the ids are labels, is the ignored label. The error names row and column of
 * the file.
 */
static ls_status check_ids(const char *path, const ls_array *ids, int64_t V, bool labels) {
    const int32_t *id = ids->data;
    for (int64_t i = 0; i < ids->count; i++) {
        if ((id[i] >= 0 && id[i] < V) || (labels && id[i] == LS_LABEL_IGNORED)) continue;
        return ls_error(LS_INVALID, "%s: row %lld, column %lld is %d; expected 0 to %lld%s", path,
                        (long long)(i / ids->size[1]), (long long)(i % ids->size[1]), id[i], (long long)(V - 1),
                        labels ? " or -100 (ignored)" : ", the model's vocabulary");
    }
    return ls_ok();
}

static ls_status check_shape(const char *path, const ls_array *ids, const ls_array *like) {
    char shape[96], expected[96] = "[B,S], both at least 1";
    ls_sizes_print(ids->ndim, ids->size, shape, sizeof shape);
    if (like != NULL) ls_sizes_print(like->ndim, like->size, expected, sizeof expected);
    const bool matrix = ids->ndim == 2 && ids->count > 0;
    if (matrix && (like == NULL || (ids->size[0] == like->size[0] && ids->size[1] == like->size[1]))) return ls_ok();
    return ls_error(LS_INVALID, "%s: shape is %s, expected %s%s", path, shape, expected,
                    like != NULL ? " like the tokens" : "");
}

/* Sets the label of each token to the next token of its row, and that of the last token to the ignored label. */
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

/* --- masks -------------------------------------------------------------------------------------------------------- */

static ls_status add_documents(const char *path, int64_t S, ls_mask_text *out) {
    if (out->mask.n == LS_MASK_TERMS)
        return ls_error(LS_USAGE, "mask term 'documents:%s': the mask has %d terms already, expected at most %d", path,
                        LS_MASK_TERMS, LS_MASK_TERMS);
    ls_array *ends = &out->ends[out->n_ends];
    LS_TRY(ls_array_read_integers(path, ends));
    out->n_ends++;
    if (ends->ndim != 1) {
        char shape[96];
        ls_sizes_print(ends->ndim, ends->size, shape, sizeof shape);
        return ls_error(LS_INVALID, "%s: shape is %s, expected one dimension: cumulative lengths from 0 to %lld", path,
                        shape, (long long)S);
    }
    ls_mask_term *term = &out->mask.term[out->mask.n++];
    *term = (ls_mask_term){.kind = LS_MASK_DOCUMENTS, .ends = ends->data, .n_ends = (int)ends->count};
    return ls_error_in(ls_mask_check(&out->mask, S), "%s", path);
}

static ls_status add_term(const char *term, int64_t S, ls_mask_text *out) {
    static const char documents[] = "documents:";
    if (strncmp(term, documents, sizeof documents - 1) == 0 && term[sizeof documents - 1] != 0)
        return add_documents(term + sizeof documents - 1, S, out);
    return ls_mask_add_term(&out->mask, term);
}

ls_status ls_mask_text_read(const char *text, int64_t S, ls_mask_text *out) {
    *out = (ls_mask_text){.mask = {.n = 0}};
    for (const char *at = text;;) {
        const size_t length = strcspn(at, "+");
        LS_PATH term = NULL;
        LS_TRY(ls_path_print(&term, "%.*s", (int)length, at));
        LS_TRY(add_term(term, S, out));
        if (at[length] == 0) return ls_ok();
        at += length + 1;
    }
}

void ls_mask_text_free(ls_mask_text *mask) {
    for (int i = 0; i < mask->n_ends; i++) ls_array_free(&mask->ends[i]);
    mask->n_ends = 0;
}
