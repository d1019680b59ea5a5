/* Reads safetensors files, checking the whole header when a file is opened, and converts their elements. */
#include "format/safetensors.h"
#include "format/file.h"
#include "format/format_impl.h"
#include "format/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct dtype_row {
    const char *name;
    size_t bytes;
} dtype_row;

static const dtype_row dtypes[LS_ST_DTYPES] = {
    [LS_ST_F64] = {"F64", 8},   [LS_ST_F32] = {"F32", 4},         [LS_ST_F16] = {"F16", 2},
    [LS_ST_BF16] = {"BF16", 2}, [LS_ST_I64] = {"I64", 8},         [LS_ST_I32] = {"I32", 4},
    [LS_ST_I16] = {"I16", 2},   [LS_ST_I8] = {"I8", 1},           [LS_ST_U64] = {"U64", 8},
    [LS_ST_U32] = {"U32", 4},   [LS_ST_U16] = {"U16", 2},         [LS_ST_U8] = {"U8", 1},
    [LS_ST_BOOL] = {"BOOL", 1}, [LS_ST_F8_E4M3] = {"F8_E4M3", 1}, [LS_ST_F8_E5M2] = {"F8_E5M2", 1},
};

const char *ls_st_dtype_name(ls_st_dtype dtype) { return dtypes[dtype].name; }
size_t ls_st_dtype_bytes(ls_st_dtype dtype) { return dtypes[dtype].bytes; }

ls_st_dtype ls_st_dtype_of(ls_dtype dtype) {
    static const ls_st_dtype same[LS_DTYPES] = {
        [LS_F32] = LS_ST_F32, [LS_F64] = LS_ST_F64, [LS_BF16] = LS_ST_BF16, [LS_I32] = LS_ST_I32};
    return same[dtype];
}

struct ls_st_file {
    char *path;
    ls_file_map map;
    ls_json *header; /* owns the names and metadata */
    int64_t count;
    ls_st_tensor *tensor;         /* [count], in the order of the data */
    const ls_st_tensor **by_name; /* [count], sorted */
};

/* The limit of the format's reference implementation. */
#define MOST_HEADER 100000000u

static ls_status read_dtype(ls_json_value value, ls_st_dtype *out) {
    const char *name;
    LS_TRY(ls_json_text(value, "dtype", &name));
    for (int d = 0; d < LS_ST_DTYPES; d++) {
        if (strcmp(name, dtypes[d].name) == 0) {
            *out = (ls_st_dtype)d;
            return ls_ok();
        }
    }
    return ls_json_error(ls_json_field(value, "dtype"), "a known dtype such as F32 or BF16");
}

static ls_status read_shape(ls_json_value value, ls_st_tensor *tensor) {
    ls_json_value shape;
    LS_TRY(ls_json_array(value, "shape", &shape));
    if (ls_json_count(shape) > LS_ST_DIMS) return ls_json_error(shape, "at most %d dimensions", LS_ST_DIMS);
    tensor->ndim = (int)ls_json_count(shape);
    tensor->count = 1;
    bool fits = true;
    for (int i = 0; i < tensor->ndim; i++) {
        LS_TRY(ls_json_as_int(ls_json_item(shape, (size_t)i), 0, INT64_MAX, &tensor->shape[i]));
        fits = fits && ls_multiply(tensor->count, tensor->shape[i], &tensor->count);
    }
    int64_t bytes;
    fits = fits && ls_multiply(tensor->count, (int64_t)dtypes[tensor->dtype].bytes, &bytes);
    if (!fits) return ls_json_error(shape, "a size in bytes that fits 63 bits");
    tensor->bytes = (size_t)bytes;
    return ls_ok();
}

/* Reads one member of the header. data, bytes: the data section of the file. */
static ls_status read_tensor(const char *name, ls_json_value value, const uint8_t *data, size_t bytes,
                             ls_st_tensor *out) {
    ls_st_tensor tensor = {.name = name};
    LS_TRY(ls_json_as_object(value));
    LS_TRY(read_dtype(value, &tensor.dtype));
    LS_TRY(read_shape(value, &tensor));
    ls_json_value offsets;
    int64_t begin, end;
    LS_TRY(ls_json_array(value, "data_offsets", &offsets));
    if (ls_json_count(offsets) != 2) return ls_json_error(offsets, "two offsets: begin and end");
    LS_TRY(ls_json_as_int(ls_json_item(offsets, 0), 0, (int64_t)bytes, &begin));
    LS_TRY(ls_json_as_int(ls_json_item(offsets, 1), begin, (int64_t)bytes, &end));
    if ((size_t)(end - begin) != tensor.bytes) {
        char shape[160];
        ls_shape_text(tensor.ndim, tensor.shape, shape, sizeof shape);
        return ls_error(LS_INVALID, "%s: tensor '%s' has data offsets [%lld, %lld], but %s of %s takes %zu bytes",
                        value.file, name, (long long)begin, (long long)end, shape, dtypes[tensor.dtype].name,
                        tensor.bytes);
    }
    tensor.data = data + begin;
    *out = tensor;
    return ls_ok();
}

static ls_status check_metadata(ls_json_value value) {
    LS_TRY(ls_json_as_object(value));
    void *cursor = NULL;
    const char *key, *text;
    ls_json_value member;
    while (ls_json_next(value, &cursor, &key, &member)) LS_TRY(ls_json_as_text(member, &text));
    return ls_ok();
}

static int by_place(const void *a, const void *b) {
    const ls_st_tensor *x = a, *y = b;
    if (x->data != y->data) return (const uint8_t *)x->data < (const uint8_t *)y->data ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1; /* empty tensors first */
    return strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(const ls_st_tensor *const *)a)->name, (*(const ls_st_tensor *const *)b)->name);
}

/* The tensors, sorted by place, must fill the data section without overlaps and gaps. */
static ls_status check_places(const ls_st_file *file, const uint8_t *data, size_t bytes) {
    size_t at = 0;
    for (int64_t i = 0; i < file->count; i++) {
        const ls_st_tensor *tensor = &file->tensor[i];
        size_t begin = (size_t)((const uint8_t *)tensor->data - data);
        if (begin < at)
            return ls_error(LS_INVALID, "%s: tensors '%s' and '%s' overlap at data offset %zu", file->path,
                            file->tensor[i - 1].name, tensor->name, begin);
        if (begin > at)
            return ls_error(LS_INVALID, "%s: data bytes %zu to %zu, before tensor '%s', belong to no tensor",
                            file->path, at, begin, tensor->name);
        at = begin + tensor->bytes;
    }
    if (at != bytes)
        return ls_error(LS_INVALID, "%s: the tensors take %zu bytes of data, but the file has %zu", file->path, at,
                        bytes);
    return ls_ok();
}

static ls_status read_tensors(ls_st_file *file, const uint8_t *data, size_t bytes) {
    ls_json_value root = ls_json_root(file->header), value;
    LS_TRY(ls_json_as_object(root));
    size_t most = ls_json_count(root);
    file->tensor = calloc(most + 1, sizeof *file->tensor);
    file->by_name = calloc(most + 1, sizeof *file->by_name);
    if (!file->tensor || !file->by_name)
        return ls_error(LS_NO_MEMORY, "no memory for the %zu tensors of %s", most, file->path);
    void *cursor = NULL;
    const char *name;
    while (ls_json_next(root, &cursor, &name, &value)) {
        if (strcmp(name, "__metadata__") == 0)
            LS_TRY(check_metadata(value));
        else
            LS_TRY(read_tensor(name, value, data, bytes, &file->tensor[file->count++]));
    }
    qsort(file->tensor, (size_t)file->count, sizeof *file->tensor, by_place);
    for (int64_t i = 0; i < file->count; i++) file->by_name[i] = &file->tensor[i];
    qsort(file->by_name, (size_t)file->count, sizeof *file->by_name, by_name);
    return check_places(file, data, bytes);
}

static ls_status read_file(ls_st_file *file) {
    const uint8_t *bytes = file->map.data;
    size_t total = file->map.bytes;
    if (total < 8)
        return ls_error(LS_INVALID, "%s: %zu bytes long, a safetensors file has at least 8", file->path, total);
    uint64_t length = 0;
    for (int i = 8; i-- > 0;) length = length << 8 | bytes[i];
    if (length > MOST_HEADER || length > total - 8)
        return ls_error(LS_INVALID, "%s: the header says it is %llu bytes long, but %zu are left in the file%s",
                        file->path, (unsigned long long)length, total - 8,
                        length > MOST_HEADER ? " (100000000 are allowed)" : "");
    if (length == 0 || bytes[8] != '{')
        return ls_error(LS_INVALID, "%s: the safetensors header does not begin with {", file->path);
    LS_TRY(ls_json_parse(file->path, (const char *)bytes + 8, length, &file->header));
    return read_tensors(file, bytes + 8 + length, total - 8 - length);
}

ls_status ls_st_open(const char *path, ls_st_file **out) {
    ls_st_file *file = calloc(1, sizeof *file);
    if (!file || !(file->path = strdup(path))) {
        free(file);
        return ls_error(LS_NO_MEMORY, "no memory to open %s", path);
    }
    ls_status status = ls_file_map_open(path, &file->map);
    if (status.code == LS_OK) status = read_file(file);
    if (status.code == LS_OK)
        *out = file;
    else
        ls_st_close(file);
    return status;
}

void ls_st_close(ls_st_file *file) {
    if (!file) return;
    ls_json_free(file->header);
    ls_file_map_close(&file->map);
    free(file->tensor);
    free(file->by_name);
    free(file->path);
    free(file);
}

const char *ls_st_path(const ls_st_file *file) { return file->path; }
int64_t ls_st_count(const ls_st_file *file) { return file->count; }

const ls_st_tensor *ls_st_at(const ls_st_file *file, int64_t i) {
    LS_ASSERT(i >= 0 && i < file->count);
    return &file->tensor[i];
}

const ls_st_tensor *ls_st_find(const ls_st_file *file, const char *name) {
    const ls_st_tensor wanted = {.name = name}, *key = &wanted;
    const ls_st_tensor **found = bsearch(&key, file->by_name, (size_t)file->count, sizeof *file->by_name, by_name);
    return found ? *found : NULL;
}

void ls_st_forget(const ls_st_tensor *tensor, int64_t first, int64_t count) {
    const size_t size = ls_st_dtype_bytes(tensor->dtype);
    ls_file_forget((const char *)tensor->data + (size_t)first * size, (size_t)count * size);
}

const char *ls_st_metadata(const ls_st_file *file, const char *key) {
    ls_json_value all = ls_json_field(ls_json_root(file->header), "__metadata__");
    const char *text = NULL;
    if (!ls_json_has(all, key)) return NULL;
    ls_status status = ls_json_text(all, key, &text);
    LS_ASSERT(status.code == LS_OK); /* checked when the file was opened */
    return text;
}

ls_status ls_st_need(const ls_st_file *file, const char *name, int ndim, const int64_t *shape,
                     const ls_st_tensor **out) {
    const ls_st_tensor *tensor = ls_st_find(file, name);
    if (!tensor) return ls_error(LS_INVALID, "%s: tensor '%s' is missing", file->path, name);
    if (tensor->ndim != ndim || memcmp(tensor->shape, shape, sizeof *shape * (size_t)ndim) != 0) {
        char found[160], wanted[160];
        ls_shape_text(tensor->ndim, tensor->shape, found, sizeof found);
        ls_shape_text(ndim, shape, wanted, sizeof wanted);
        return ls_error(LS_INVALID, "%s: tensor '%s' has shape %s, expected %s", file->path, name, found, wanted);
    }
    *out = tensor;
    return ls_ok();
}

/* ---- conversion ---- */

/*
 * Elements are converted through f32, a block at a time: each dtype has a function that reads it as f32, and one that
 * writes it from f32. F64 is rounded to odd in f32 (the last bit is set when the result is not exact), so that the
 * second rounding gives the same result as a single rounding.
 */

enum { BLOCK = 2048 }; /* elements: 8 KiB as f32 */

/* Elements in a file have any alignment. */

static void read_f16(const uint8_t *from, int64_t n, float *to) {
    for (int64_t i = 0; i < n; i++) {
        ls_f16 x;
        memcpy(&x, from + 2 * i, sizeof x);
        to[i] = ls_f16_to_f32(x);
    }
}

static void read_bf16(const uint8_t *from, int64_t n, float *to) {
    for (int64_t i = 0; i < n; i++) {
        ls_bf16 x;
        memcpy(&x, from + 2 * i, sizeof x);
        to[i] = ls_bf16_to_f32(x);
    }
}

static void read_f32(const uint8_t *from, int64_t n, float *to) { memcpy(to, from, sizeof *to * (size_t)n); }

/* x as f32, rounded to odd. */
static float to_odd(double x) {
    float f = (float)x;
    if ((double)f == x || isnan(x)) return f;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (fabs((double)f) > fabs(x)) bits--;
    bits |= 1;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static void read_f64(const uint8_t *from, int64_t n, float *to) {
    for (int64_t i = 0; i < n; i++) {
        double x;
        memcpy(&x, from + 8 * i, sizeof x);
        to[i] = to_odd(x);
    }
}

static void write_f16(const float *from, int64_t n, void *out) {
    ls_f16 *to = out;
    for (int64_t i = 0; i < n; i++) to[i] = ls_f16_from_f32(from[i]);
}

static void write_bf16(const float *from, int64_t n, void *out) {
    ls_bf16 *to = out;
    for (int64_t i = 0; i < n; i++) to[i] = ls_bf16_from_f32(from[i]);
}

static void write_f32(const float *from, int64_t n, void *out) { memcpy(out, from, sizeof *from * (size_t)n); }

static void write_f64(const float *from, int64_t n, void *out) {
    double *to = out;
    for (int64_t i = 0; i < n; i++) to[i] = (double)from[i];
}

typedef struct conversion {
    void (*read)(const uint8_t *from, int64_t n, float *to);
    void (*write)(const float *from, int64_t n, void *out);
} conversion;

/* The floating-point dtypes. */
static const conversion conversions[LS_ST_DTYPES] = {[LS_ST_F64] = {read_f64, write_f64},
                                                     [LS_ST_F32] = {read_f32, write_f32},
                                                     [LS_ST_F16] = {read_f16, write_f16},
                                                     [LS_ST_BF16] = {read_bf16, write_bf16}};

/* Rounds to nearest, because no second rounding follows. */
static void f64_to_f32(const uint8_t *from, int64_t n, float *to) {
    for (int64_t i = 0; i < n; i++) {
        double x;
        memcpy(&x, from + 8 * i, sizeof x);
        to[i] = (float)x;
    }
}

static void convert(ls_st_dtype dtype, const uint8_t *from, int64_t n, ls_st_dtype to, uint8_t *out) {
    if (to == dtype) {
        if (n > 0) memcpy(out, from, (size_t)n * ls_st_dtype_bytes(dtype));
    } else if (to == LS_ST_F32) {
        (dtype == LS_ST_F64 ? f64_to_f32 : conversions[dtype].read)(from, n, (float *)(void *)out);
    } else {
        const int64_t size = (int64_t)ls_st_dtype_bytes(dtype), wide = (int64_t)ls_st_dtype_bytes(to);
        float block[BLOCK];
        for (int64_t i = 0; i < n; i += BLOCK) {
            const int64_t part = ls_min(BLOCK, n - i);
            conversions[dtype].read(from + i * size, part, block);
            conversions[to].write(block, part, out + i * wide);
        }
    }
}

ls_status ls_st_convert_to(const ls_st_tensor *tensor, int64_t first, int64_t count, ls_st_dtype to, void *out) {
    LS_ASSERT(first >= 0 && count >= 0 && first <= tensor->count - count);
    if (conversions[tensor->dtype].read == NULL || conversions[to].write == NULL)
        return ls_error(LS_UNSUPPORTED,
                        "tensor '%s' of dtype %s cannot be converted to %s, expected F64, F32, F16 or BF16",
                        tensor->name, ls_st_dtype_name(tensor->dtype), ls_st_dtype_name(to));
    const size_t size = ls_st_dtype_bytes(tensor->dtype);
    convert(tensor->dtype, (const uint8_t *)tensor->data + (size_t)first * size, count, to, out);
    return ls_ok();
}

ls_status ls_st_convert(const ls_st_tensor *tensor, int64_t first, int64_t count, ls_dtype to, void *out) {
    return ls_st_convert_to(tensor, first, count, ls_st_dtype_of(to), out);
}
