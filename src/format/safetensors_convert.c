/* ls_st_convert: elements of one floating-point dtype as another. */
#include "format/format_impl.h"
#include "format/safetensors.h"

#include <math.h>
#include <string.h>

static double from_f64(const uint8_t *p) {
    double x;
    memcpy(&x, p, sizeof x);
    return x;
}

static double from_f32(const uint8_t *p) {
    float x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* IEEE binary16. NaN payloads are not kept. */
static double from_f16(const uint8_t *p) {
    unsigned bits = p[0] | (unsigned)p[1] << 8;
    unsigned exponent = bits >> 10 & 31u, fraction = bits & 1023u;
    double size = exponent == 31  ? (fraction ? (double)NAN : (double)INFINITY)
                  : exponent == 0 ? ldexp(fraction, -24)
                                  : ldexp(fraction + 1024u, (int)exponent - 25);
    return bits >> 15 ? -size : size;
}

static double from_bf16(const uint8_t *p) {
    ls_bf16 x;
    memcpy(&x, p, sizeof x);
    return ls_bf16_to_f32(x);
}

typedef double (*reader)(const uint8_t *element);

static const reader readers[LS_ST_DTYPES] = {
    [LS_ST_F64] = from_f64, [LS_ST_F32] = from_f32, [LS_ST_F16] = from_f16, [LS_ST_BF16] = from_bf16};

/* Rounds to odd into f32, so that rounding once more to bf16 rounds as if there had been one rounding. */
static ls_bf16 to_bf16(double x) {
    float f = (float)x;
    if ((double)f != x && !isnan(x)) {
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        if (fabs((double)f) > fabs(x)) bits--;
        bits |= 1;
        memcpy(&f, &bits, sizeof f);
    }
    return ls_bf16_from_f32(f);
}

ls_status ls_st_convert(const ls_st_tensor *tensor, int64_t first, int64_t count, ls_dtype to, void *out) {
    LS_ASSERT(first >= 0 && count >= 0 && first <= tensor->count - count);
    reader read = readers[tensor->dtype];
    if (!read || (to != LS_F32 && to != LS_F64 && to != LS_BF16))
        return ls_error(LS_UNSUPPORTED, "tensor '%s' of dtype %s cannot be converted to %s, expected %s",
                        tensor->name, ls_st_dtype_name(tensor->dtype), ls_st_dtype_name(ls_st_dtype_of(to)),
                        "F64, F32, F16 or BF16 to F32, F64 or BF16");
    size_t size = ls_st_dtype_bytes(tensor->dtype);
    const uint8_t *from = (const uint8_t *)tensor->data + (size_t)first * size;
    if (ls_st_dtype_of(to) == tensor->dtype) {
        if (count > 0) memcpy(out, from, (size_t)count * size);
        return ls_ok();
    }
    for (int64_t i = 0; i < count; i++) {
        double x = read(from + (size_t)i * size);
        if (to == LS_F32)
            ((float *)out)[i] = (float)x;
        else if (to == LS_F64)
            ((double *)out)[i] = x;
        else
            ((ls_bf16 *)out)[i] = to_bf16(x);
    }
    return ls_ok();
}
