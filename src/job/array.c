/* Arrays between .npy files and the memory that ranks share. */
#include "job/job_impl.h"

#include <stdio.h>
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
    LS_TRY(ls_shared_map(a.bytes > 0 ? a.bytes : 1, &a.data));
    *out = a;
    return ls_ok();
}

void ls_array_free(ls_array *a) {
    if (a == NULL || a->data == NULL) return;
    ls_shared_unmap(a->data, a->bytes > 0 ? a->bytes : 1);
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
        return ls_error(LS_INVALID, "%s: elements are %s, expected f4 or f8", path,
                        ls_npy_type_name(file->type));
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
            return ls_error(LS_INVALID, "%s: element %lld is %lld, expected a number of 32 bits", path,
                            (long long)i, (long long)wide[i]);
        out[i] = (int32_t)wide[i];
    }
    return ls_ok();
}

static ls_status read_integers(const char *path, const ls_npy *file, ls_array *out) {
    if (file->type != LS_NPY_I4 && file->type != LS_NPY_I8)
        return ls_error(LS_INVALID, "%s: elements are %s, expected i4 or i8", path,
                        ls_npy_type_name(file->type));
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

ls_status ls_array_write(const ls_array *a, const char *directory, const char *name) {
    LS_PATH path = NULL;
    char file[64];
    snprintf(file, sizeof file, "%s.npy", name);
    LS_TRY(ls_path_join(directory, file, &path));
    if (a->dtype == LS_F64) return ls_npy_write(path, LS_NPY_F8, a->ndim, a->size, a->data);
    if (a->dtype == LS_F32) return ls_npy_write(path, LS_NPY_F4, a->ndim, a->size, a->data);
    ls_array wide;
    LS_TRY(ls_array_make(LS_F32, a->ndim, a->size, &wide));
    ls_status status = convert(ls_st_dtype_of(a->dtype), a->data, a->count, LS_F32, wide.data);
    if (status.code == LS_OK) status = ls_npy_write(path, LS_NPY_F4, wide.ndim, wide.size, wide.data);
    ls_array_free(&wide);
    return status;
}
