/*
 * ls_st_convert: elements of one floating-point dtype as another. By way of f32, a block at a time: a loop that reads each dtype and one
 * that writes it. F64 is rounded to odd on the way, so that rounding once more rounds as if there had been one rounding.
 */
#include "base/base.h"
#include "format/format_impl.h"
#include "format/safetensors.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 2048 }; /* elements: 8 KiB as f32 */

/* ---- reading; elements lie at any alignment ---- */

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

/* ---- writing ---- */

static void write_f16(const float *from, int64_t n, void *out) {
    ls_f16 *to = out;
    for (int64_t i = 0; i < n; i++) to[i] = ls_f16_from_f32(from[i]);
}

static void write_bf16(const float *from, int64_t n, void *out) {
    ls_bf16 *to = out;
    for (int64_t i = 0; i < n; i++) to[i] = ls_bf16_from_f32(from[i]);
}

static void write_f32(const float *from, int64_t n, void *out) {
    memcpy(out, from, sizeof *from * (size_t)n);
}

static void write_f64(const float *from, int64_t n, void *out) {
    double *to = out;
    for (int64_t i = 0; i < n; i++) to[i] = (double)from[i];
}

typedef struct conversion {
    void (*read)(const uint8_t *from, int64_t n, float *to);
    void (*write)(const float *from, int64_t n, void *out);
} conversion;

/* Others are no floating-point types. */
static const conversion conversions[LS_ST_DTYPES] = {[LS_ST_F64] = {read_f64, write_f64},
                                                     [LS_ST_F32] = {read_f32, write_f32},
                                                     [LS_ST_F16] = {read_f16, write_f16},
                                                     [LS_ST_BF16] = {read_bf16, write_bf16}};

/* To the nearest: here nothing is rounded a second time. */
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

ls_status ls_st_convert_to(const ls_st_tensor *tensor, int64_t first, int64_t count, ls_st_dtype to,
                           void *out) {
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
