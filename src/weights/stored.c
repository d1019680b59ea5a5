/*
 * Matrices in few bytes, in the forms of bitsandbytes (0.50), transformers (FP8 with blocks of scales) and MXFP4
 * checkpoints. Each form is one row, with the names of its tensors, their check, and how a block is read.
 */
#include "weights/stored.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/kernel.h"

enum { MOST_TENSORS = 6, MOST_NAME = 512, FP8_SIDE = 128 };

/* How the name of a tensor is made from that of the parameter: `cut` is removed from its end, and `end` is appended. */
typedef struct tensor_name {
    const char *cut, *end;
    bool optional;
} tensor_name;

typedef struct form {
    const char *name;
    ls_dtype dtype;
    tensor_name tensors[MOST_TENSORS]; /* the codes; the tensor by which the form is recognised; others */
    ls_status (*check)(ls_stored *s);
    void (*block)(const ls_stored *s, int64_t i, unsigned char *block);
} form;

struct ls_stored {
    const form *form;
    char *name;
    const char *path[MOST_TENSORS]; /* paths of files, for errors */
    const ls_st_tensor *tensor[MOST_TENSORS];
    int64_t rows, columns;
    int64_t each;           /* number of blocks that share a scale */
    int64_t nested_each;    /* number of scales that share a scale */
    float offset, map[256]; /* for nested scales */
    int64_t scale_columns;  /* scales per row; 0: one scale for all */
};

/* --- what the rows share ------------------------------------------------------------------------------------------ */

static const unsigned char *bytes_of(const ls_stored *s, int tensor) { return s->tensor[tensor]->data; }

/* Element i of a tensor of floating-point numbers, at any alignment. */
static float number_in(const ls_stored *s, int tensor, int64_t i) {
    float x = NAN;
    const ls_status status = ls_st_convert(s->tensor[tensor], i, 1, LS_F32, &x);
    LS_ASSERT(status.code == LS_OK);
    return x;
}

static void put_scale(unsigned char *block, int bytes, float scale) { memcpy(block + bytes, &scale, sizeof scale); }

/* expected: the text after the word "expected". */
LS_PRINTF(3, 4) static ls_status refuse(const ls_stored *s, int tensor, const char *expected, ...) {
    char what[200];
    va_list arguments;
    va_start(arguments, expected);
    ls_vprint(what, sizeof what, expected, arguments);
    va_end(arguments);
    const ls_st_tensor *t = s->tensor[tensor];
    return ls_error(LS_INVALID, "%s: tensor %s of %s in %s is %s of %lld elements, expected %s", s->path[tensor],
                    t->name, s->name, s->form->name, ls_st_dtype_name(t->dtype), (long long)t->count, what);
}

static ls_status need(const ls_stored *s, int tensor, ls_st_dtype dtype, int64_t count) {
    const ls_st_tensor *t = s->tensor[tensor];
    if (t->dtype == dtype && t->count == count) return ls_ok();
    return refuse(s, tensor, "%s of %lld elements", ls_st_dtype_name(dtype), (long long)count);
}

static bool is_float(const ls_st_tensor *t) { return t->dtype <= LS_ST_BF16; }

static int64_t elements(const ls_stored *s) { return s->rows * s->columns; }

/* --- nf4 of bitsandbytes ------------------------------------------------------------------------------------------ */

enum { NF4_CODES, NF4_STATE, NF4_ABSMAX, NF4_MAP, NF4_NESTED_ABSMAX, NF4_NESTED_MAP };

static ls_status read_state(ls_stored *s, ls_json_value state, const int64_t *nested) {
    int64_t each = 0, size[2] = {0};
    const char *type = NULL;
    ls_json_value shape;
    LS_TRY(ls_json_text(state, "quant_type", &type));
    if (strcmp(type, "nf4") != 0) return ls_json_error(ls_json_field(state, "quant_type"), "nf4");
    LS_TRY(ls_json_int(state, "blocksize", 1, 4096, &each));
    if (each % 64 != 0) return ls_json_error(ls_json_field(state, "blocksize"), "a multiple of 64");
    LS_TRY(ls_json_array(state, "shape", &shape));
    for (size_t d = 0; d < 2 && ls_json_count(shape) == 2; d++)
        LS_TRY(ls_json_as_int(ls_json_item(shape, d), 1, INT64_MAX, &size[d]));
    if (size[0] != s->rows || size[1] != s->columns) {
        char expected[64];
        snprintf(expected, sizeof expected, "[%lld,%lld]", (long long)s->rows, (long long)s->columns);
        return ls_json_error(ls_json_field(state, "shape"), "%s", expected);
    }
    s->each = each / 64;
    if (nested == NULL) return ls_ok();
    double offset = 0;
    LS_TRY(ls_json_int(state, "nested_blocksize", 1, 4096, &s->nested_each));
    LS_TRY(ls_json_double(state, "nested_offset", -1e30, 1e30, &offset));
    s->offset = (float)offset;
    return ls_ok();
}

static ls_status check_map(const ls_stored *s) {
    LS_TRY(need(s, NF4_MAP, LS_ST_F32, 16));
    for (int i = 0; i < 16; i++)
        if (number_in(s, NF4_MAP, i) != ls_nf4_values[i])
            return refuse(s, NF4_MAP, "the 16 values of nf4 (value %d is %.9g, of nf4 %.9g)", i,
                          (double)number_in(s, NF4_MAP, i), (double)ls_nf4_values[i]);
    return ls_ok();
}

static ls_status check_nf4(ls_stored *s) {
    const bool nested = s->tensor[NF4_NESTED_ABSMAX] != NULL;
    char name[MOST_NAME];
    ls_json *document = NULL;
    ls_print(name, sizeof name, "%s: %s", s->path[NF4_STATE], s->tensor[NF4_STATE]->name);
    LS_TRY(ls_json_parse(name, s->tensor[NF4_STATE]->data, s->tensor[NF4_STATE]->bytes, &document));
    const ls_status status = read_state(s, ls_json_root(document), nested ? &s->nested_each : NULL);
    ls_json_free(document);
    LS_TRY(status);
    LS_TRY(check_map(s));
    if (s->tensor[NF4_CODES]->bytes != (size_t)elements(s) / 2)
        return refuse(s, NF4_CODES, "%lld bytes", (long long)elements(s) / 2);
    const int64_t scales = ls_ceil_div(elements(s), s->each * 64);
    LS_TRY(need(s, NF4_ABSMAX, nested ? LS_ST_U8 : LS_ST_F32, scales));
    if (!nested) return ls_ok();
    if (s->tensor[NF4_NESTED_MAP] == NULL) return refuse(s, NF4_NESTED_ABSMAX, "a tensor nested_quant_map beside it");
    LS_TRY(need(s, NF4_NESTED_MAP, LS_ST_F32, 256));
    for (int i = 0; i < 256; i++) s->map[i] = number_in(s, NF4_NESTED_MAP, i);
    return need(s, NF4_NESTED_ABSMAX, LS_ST_F32, ls_ceil_div(scales, s->nested_each));
}

static void nf4_block(const ls_stored *s, int64_t i, unsigned char *block) {
    const int64_t scale = i / s->each;
    memcpy(block, bytes_of(s, NF4_CODES) + i * 32, 32);
    if (s->tensor[NF4_NESTED_ABSMAX] == NULL) {
        put_scale(block, 32, number_in(s, NF4_ABSMAX, scale));
        return;
    }
    const float nested =
        s->map[bytes_of(s, NF4_ABSMAX)[scale]] * number_in(s, NF4_NESTED_ABSMAX, scale / s->nested_each);
    put_scale(block, 32, nested + s->offset);
}

/* --- int8 of bitsandbytes ----------------------------------------------------------------------------------------- */

enum { INT8_CODES, INT8_SCALE, INT8_FORMAT };

static ls_status check_int8(ls_stored *s) {
    LS_TRY(need(s, INT8_CODES, LS_ST_I8, elements(s)));
    LS_TRY(need(s, INT8_SCALE, LS_ST_F32, s->rows));
    if (s->tensor[INT8_FORMAT] == NULL) return ls_ok();
    LS_TRY(need(s, INT8_FORMAT, LS_ST_U8, 1));
    return bytes_of(s, INT8_FORMAT)[0] == 0 ? ls_ok() : refuse(s, INT8_FORMAT, "0 in it, codes by rows");
}

static void int8_block(const ls_stored *s, int64_t i, unsigned char *block) {
    memcpy(block, bytes_of(s, INT8_CODES) + i * 64, 64);
    put_scale(block, 64, number_in(s, INT8_SCALE, i * 64 / s->columns));
}

/* --- fp8 with scales of squares ----------------------------------------------------------------------------------- */

enum { FP8_CODES, FP8_SCALE };

static ls_status check_fp8(ls_stored *s) {
    const ls_st_tensor *scale = s->tensor[FP8_SCALE];
    const int64_t down = ls_ceil_div(s->rows, FP8_SIDE), across = ls_ceil_div(s->columns, FP8_SIDE);
    LS_TRY(need(s, FP8_CODES, LS_ST_F8_E4M3, elements(s)));
    const bool squares = scale->ndim == 2 && scale->shape[0] == down && scale->shape[1] == across;
    if (!is_float(scale) || (!squares && scale->count != 1))
        return refuse(s, FP8_SCALE, "F32 or BF16 [%lld,%lld], a scale for each 128 x 128, or one for all",
                      (long long)down, (long long)across);
    s->scale_columns = squares ? across : 0;
    return ls_ok();
}

static void fp8_block(const ls_stored *s, int64_t i, unsigned char *block) {
    const int64_t row = i * 64 / s->columns, column = i * 64 % s->columns;
    memcpy(block, bytes_of(s, FP8_CODES) + i * 64, 64);
    put_scale(
        block, 64,
        number_in(s, FP8_SCALE, s->scale_columns == 0 ? 0 : row / FP8_SIDE * s->scale_columns + column / FP8_SIDE));
}

/* --- mxfp4 -------------------------------------------------------------------------------------------------------- */

enum { MXFP4_CODES, MXFP4_SCALE };

static ls_status check_mxfp4(ls_stored *s) {
    LS_TRY(need(s, MXFP4_CODES, LS_ST_U8, elements(s) / 2));
    return need(s, MXFP4_SCALE, LS_ST_U8, elements(s) / 32);
}

static void mxfp4_block(const ls_stored *s, int64_t i, unsigned char *block) {
    memcpy(block, bytes_of(s, MXFP4_CODES) + i * 16, 16);
    block[16] = bytes_of(s, MXFP4_SCALE)[i];
}

/* --- the forms ---------------------------------------------------------------------------------------------------- */

static const form forms[] = {
    {"nf4",
     LS_NF4,
     {{"", "", false},
      {"", ".quant_state.bitsandbytes__nf4", false},
      {"", ".absmax", false},
      {"", ".quant_map", false},
      {"", ".nested_absmax", true},
      {"", ".nested_quant_map", true}},
     check_nf4,
     nf4_block},
    {"int8", LS_INT8, {{"", "", false}, {"weight", "SCB", false}, {"", "_format", true}}, check_int8, int8_block},
    {"fp8", LS_FP8, {{"", "", false}, {"", "_scale_inv", false}}, check_fp8, fp8_block},
    {"mxfp4", LS_MXFP4, {{"", "_blocks", false}, {"", "_scales", false}}, check_mxfp4, mxfp4_block},
};

/* Writes the name of a form's tensor for a parameter; false: the parameter's name does not fit. */
static bool name_of(const tensor_name *as, const char *parameter, char *out, size_t room) {
    const size_t n = strlen(parameter), cut = strlen(as->cut);
    if (n < cut || strcmp(parameter + n - cut, as->cut) != 0) return false;
    ls_print(out, room, "%.*s%s", (int)(n - cut), parameter, as->end);
    return true;
}

static const ls_st_tensor *find(const ls_stored_lookup *l, const tensor_name *as, const char *parameter,
                                const char **path) {
    char name[MOST_NAME];
    return name_of(as, parameter, name, sizeof name) ? l->find(l->files, name, path) : NULL;
}

static ls_status fill(ls_stored *s, const ls_stored_lookup *l, const ls_shape *shape) {
    const int64_t values = ls_dtype_values(s->form->dtype);
    for (int i = 0; i < MOST_TENSORS && s->form->tensors[i].end != NULL; i++) {
        s->tensor[i] = find(l, &s->form->tensors[i], s->name, &s->path[i]);
        if (s->tensor[i] == NULL && !s->form->tensors[i].optional)
            return ls_error(LS_INVALID, "%s: tensor %s%s is missing, expected it beside %s%s in %s", s->path[1],
                            s->name, s->form->tensors[i].end, s->name, s->form->tensors[1].end, s->form->name);
    }
    if (shape->ndim != 2 || shape->dim[1].size % values != 0) {
        char text[64];
        ls_shape_print(shape, text, sizeof text);
        return ls_error(LS_UNSUPPORTED, "%s: %s in %s is %s, expected a matrix with rows of a multiple of %lld numbers",
                        s->path[1], s->name, s->form->name, text, (long long)values);
    }
    s->rows = shape->dim[0].size;
    s->columns = shape->dim[1].size;
    return s->form->check(s);
}

ls_status ls_stored_open(const ls_stored_lookup *lookup, const char *name, const ls_shape *shape, ls_stored **out) {
    const char *path = NULL;
    *out = NULL;
    for (size_t f = 0; f < LS_COUNT(forms); f++) {
        const ls_st_tensor *known = find(lookup, &forms[f].tensors[1], name, &path);
        if (known == NULL) continue;
        ls_stored *s = calloc(1, sizeof *s);
        if (s != NULL) s->name = strdup(name);
        if (s == NULL || s->name == NULL) {
            free(s);
            return ls_error(LS_NO_MEMORY, "no memory to open %s", path);
        }
        s->form = &forms[f];
        s->path[1] = path;
        s->tensor[1] = known;
        const ls_status status = fill(s, lookup, shape);
        if (status.code == LS_OK)
            *out = s;
        else
            ls_stored_close(s);
        return status;
    }
    return ls_ok();
}

void ls_stored_close(ls_stored *s) {
    if (s == NULL) return;
    free(s->name);
    free(s);
}

const char *ls_stored_name(const ls_stored *s) { return s->name; }
ls_dtype ls_stored_dtype(const ls_stored *s) { return s->form->dtype; }

int64_t ls_stored_bytes(const ls_stored *s) {
    int64_t bytes = 0;
    for (int i = 0; i < MOST_TENSORS; i++) bytes += s->tensor[i] != NULL ? (int64_t)s->tensor[i]->bytes : 0;
    return bytes;
}

int ls_stored_rules(void) { return (int)LS_COUNT(forms) * MOST_TENSORS; }

bool ls_stored_belongs(const char *tensor, char *of, size_t room, int rule) {
    const tensor_name *as = &forms[rule / MOST_TENSORS].tensors[rule % MOST_TENSORS];
    const size_t n = strlen(tensor), end = as->end != NULL ? strlen(as->end) : 0;
    if (end == 0 || n < end || strcmp(tensor + n - end, as->end) != 0) return false;
    ls_print(of, room, "%.*s%s", (int)(n - end), tensor, as->cut);
    return true;
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

void ls_stored_blocks(const ls_stored *s, int64_t first, int64_t n, void *blocks) {
    unsigned char *block = blocks;
    for (int64_t i = first; i < first + n; i++, block += ls_dtype_bytes(s->form->dtype)) s->form->block(s, i, block);
}

void ls_stored_numbers(const ls_stored *s, int64_t start, int64_t count, float *numbers) {
    unsigned char block[LS_BLOCK_MOST_BYTES];
    float decoded[LS_BLOCK_MOST_VALUES];
    const int64_t values = ls_dtype_values(s->form->dtype);
    for (int64_t at = start, n; at < start + count; at += n) {
        n = ls_min(values - at % values, start + count - at);
        s->form->block(s, at / values, block);
        ls_blocks_decode(s->form->dtype, block, 1, decoded);
        memcpy(numbers + (at - start), decoded + at % values, sizeof *decoded * (size_t)n);
    }
}
