/* A value as JSON. */
#include "parquet/parquet_impl.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef __int128 wide;

/* ---- numbers ---- */

/* A signed integer of up to 16 bytes. big: the highest byte comes first. */
static wide integer_of(parquet_bytes v, bool big) {
    unsigned __int128 n = 0;
    const bool negative = v.n > 0 && v.at[big ? 0 : v.n - 1] >> 7;
    for (size_t i = 0; i < v.n; i++) n |= (unsigned __int128)v.at[big ? v.n - 1 - i : i] << 8 * i;
    if (negative && v.n < sizeof n) n |= ~(unsigned __int128)0 << 8 * v.n;
    return (wide)n;
}

/* Writes n / 10^scale, exactly. */
static ls_status write_decimal(wide n, int64_t scale, ls_json_buffer *out) {
    char digits[48], *at = digits + sizeof digits;
    const bool negative = n < 0;
    unsigned __int128 rest = negative ? -(unsigned __int128)n : (unsigned __int128)n;
    *--at = 0;
    for (int64_t i = 0; i <= scale || rest > 0; i++) {
        if (i == scale && scale > 0) *--at = '.';
        *--at = (char)('0' + (int)(rest % 10));
        rest /= 10;
    }
    return ls_json_buffer_print(out, "%s%s", negative ? "-" : "", at);
}

static ls_status write_real(double value, int digits, ls_json_buffer *out) {
    if (isnan(value)) return ls_json_buffer_print(out, "NaN");
    if (isinf(value)) return ls_json_buffer_print(out, value < 0 ? "-Infinity" : "Infinity");
    char text[40];
    (void)ls_print(text, sizeof text, "%.*g", digits, value);
    /* Without a point or an exponent it would be read as an integer. */
    return ls_json_buffer_print(out, "%s%s", text, strpbrk(text, ".e") == NULL ? ".0" : "");
}

/* ---- dates and times ---- */

/* Writes a time of day in units of 10^-digits seconds. Microseconds have 6 digits, as in Python; nanoseconds have 9. */
static ls_status write_clock(int64_t part, int64_t digits, ls_json_buffer *out) {
    const int64_t second = digits == 3 ? 1000 : digits == 6 ? 1000000 : 1000000000;
    const int64_t seconds = part / second, nanoseconds = part % second * (1000000000 / second);
    LS_TRY(ls_json_buffer_print(out, "%02d:%02d:%02d", (int)(seconds / 3600), (int)(seconds / 60 % 60),
                                (int)(seconds % 60)));
    if (nanoseconds == 0) return ls_ok();
    if (nanoseconds % 1000 != 0) return ls_json_buffer_print(out, ".%09" PRId64, nanoseconds);
    return ls_json_buffer_print(out, ".%06" PRId64, nanoseconds / 1000);
}

/* Writes the date in the Gregorian calendar, even for days before it was introduced. */
static ls_status write_date(int64_t days, ls_json_buffer *out) {
    const time_t seconds = (time_t)days * 86400;
    struct tm date;
    if (gmtime_r(&seconds, &date) == NULL) return ls_json_buffer_print(out, "day %" PRId64, days);
    return ls_json_buffer_print(out, "%04d-%02d-%02d", date.tm_year + 1900, date.tm_mon + 1, date.tm_mday);
}

static ls_status write_timestamp(int64_t days, int64_t part, int64_t digits, ls_json_buffer *out) {
    LS_TRY(ls_json_buffer_add(out, "\"", 1));
    LS_TRY(write_date(days, out));
    LS_TRY(ls_json_buffer_add(out, "T", 1));
    LS_TRY(write_clock(part, digits, out));
    return ls_json_buffer_add(out, "\"", 1);
}

static ls_status write_since_1970(int64_t n, int64_t digits, ls_json_buffer *out) {
    const int64_t day = 86400 * (digits == 3 ? INT64_C(1000) : digits == 6 ? INT64_C(1000000) : INT64_C(1000000000));
    const int64_t days = n / day - (n % day < 0);
    return write_timestamp(days, n - days * day, digits, out);
}

/* The older form of a timestamp: nanoseconds of the day, and the Julian day number. */
static ls_status write_int96(parquet_bytes v, ls_json_buffer *out) {
    int64_t nanoseconds;
    int32_t day;
    memcpy(&nanoseconds, v.at, sizeof nanoseconds);
    memcpy(&day, v.at + sizeof nanoseconds, sizeof day);
    if (nanoseconds < 0) return ls_json_buffer_print(out, "null");
    return write_timestamp((int64_t)day - 2440588, nanoseconds, 9, out);
}

/* ---- bytes ---- */

static ls_status write_base64(parquet_bytes v, ls_json_buffer *out) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    LS_TRY(ls_json_buffer_add(out, "\"", 1));
    for (size_t i = 0; i < v.n; i += 3) {
        const size_t n = v.n - i < 3 ? v.n - i : 3;
        uint32_t three = 0;
        for (size_t k = 0; k < 3; k++) three = three << 8 | (k < n ? v.at[i + k] : 0);
        char four[4] = {letters[three >> 18], letters[three >> 12 & 63], n > 1 ? letters[three >> 6 & 63] : '=',
                        n > 2 ? letters[three & 63] : '='};
        LS_TRY(ls_json_buffer_add(out, four, sizeof four));
    }
    return ls_json_buffer_add(out, "\"", 1);
}

static ls_status write_uuid(parquet_bytes v, ls_json_buffer *out) {
    LS_TRY(ls_json_buffer_add(out, "\"", 1));
    for (size_t i = 0; i < v.n; i++)
        LS_TRY(ls_json_buffer_print(out, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", v.at[i]));
    return ls_json_buffer_add(out, "\"", 1);
}

static ls_status write_bytes(const parquet_node *leaf, parquet_bytes v, ls_json_buffer *out) {
    const char *text = (const char *)v.at;
    if (leaf->meaning == PARQUET_DECIMAL && v.n <= sizeof(wide))
        return write_decimal(integer_of(v, true), leaf->scale, out);
    if (leaf->meaning == PARQUET_UUID && v.n == 16) return write_uuid(v, out);
    if (leaf->meaning == PARQUET_HALF && v.n == sizeof(ls_f16)) {
        ls_f16 half;
        memcpy(&half, v.at, sizeof half);
        return write_real((double)ls_f16_to_f32(half), 9, out);
    }
    /* Texts that are not UTF-8 are refused where records are read, with their place. */
    if (leaf->meaning == PARQUET_TEXT || ls_utf8_valid_prefix(text, v.n) == v.n)
        return ls_json_buffer_text(out, text, v.n);
    return write_base64(v, out);
}

/* ---- by type ---- */

static ls_status write_integer(const parquet_node *leaf, parquet_bytes v, ls_json_buffer *out) {
    const int64_t n = (int64_t)integer_of(v, false);
    switch (leaf->meaning) {
    case PARQUET_UNSIGNED:
        return ls_json_buffer_print(out, "%" PRIu64, v.n == 4 ? (uint64_t)(uint32_t)n : (uint64_t)n);
    case PARQUET_DECIMAL:
        return write_decimal(n, ls_min(leaf->scale, 38), out);
    case PARQUET_DATE:
        LS_TRY(ls_json_buffer_add(out, "\"", 1));
        LS_TRY(write_date(n, out));
        return ls_json_buffer_add(out, "\"", 1);
    case PARQUET_TIME:
        LS_TRY(ls_json_buffer_add(out, "\"", 1));
        LS_TRY(write_clock(n < 0 ? 0 : n, leaf->scale, out));
        return ls_json_buffer_add(out, "\"", 1);
    case PARQUET_TIMESTAMP:
        return write_since_1970(n, leaf->scale, out);
    default:
        return ls_json_buffer_print(out, "%" PRId64, n);
    }
}

ls_status parquet_scalar_write(const parquet_node *leaf, parquet_bytes v, ls_json_buffer *out) {
    float single;
    double number;
    switch (leaf->type) {
    case PARQUET_BOOLEAN:
        return ls_json_buffer_print(out, v.at[0] ? "true" : "false");
    case PARQUET_INT32:
    case PARQUET_INT64:
        return write_integer(leaf, v, out);
    case PARQUET_INT96:
        return write_int96(v, out);
    case PARQUET_FLOAT:
        memcpy(&single, v.at, sizeof single);
        return write_real((double)single, 9, out);
    case PARQUET_DOUBLE:
        memcpy(&number, v.at, sizeof number);
        return write_real(number, 17, out);
    default:
        return write_bytes(leaf, v, out);
    }
}
