/* safetensors: reading with every mistake, planning, writing by several processes, converting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/scratch.h"

#include <math.h>
#include <signal.h>
#include <sys/resource.h>

/* A file from a header, which is given its length, and data. */
static const char *make(void **state, const char *name, const char *header, size_t data_bytes) {
    char file[4096] = {0};
    size_t length = strlen(header);
    for (int i = 0; i < 8; i++) file[i] = (char)((uint64_t)length >> (8 * i) & 0xff);
    memcpy(file + 8, header, length);
    for (size_t i = 0; i < data_bytes; i++) file[8 + length + i] = (char)i;
    return scratch_file(state, name, file, 8 + length + data_bytes);
}

static void reads(void **state) {
    const char *path = make(state, "r.safetensors",
                            "{\"__metadata__\":{\"format\":\"pt\"},"
                            "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]},"
                            "\"empty\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[8,8]},"
                            "\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
                            "\"scalar\":{\"dtype\":\"I16\",\"shape\":[],\"data_offsets\":[11,13]}}  ",
                            13);
    ls_st_file *file;
    assert_ok(ls_st_open(path, &file));
    assert_string_equal(ls_st_path(file), path);
    assert_int_equal(ls_st_count(file), 4);
    static const char *const order[] = {"a", "empty", "b", "scalar"};
    for (int64_t i = 0; i < 4; i++) assert_string_equal(ls_st_at(file, i)->name, order[i]);
    const ls_st_tensor *b = ls_st_find(file, "b"), *a = NULL;
    assert_int_equal(b->dtype, LS_ST_U8);
    assert_int_equal(b->bytes, 3);
    assert_memory_equal(b->data, "\x08\x09\x0a", 3);
    assert_null(ls_st_find(file, "c"));
    assert_string_equal(ls_st_metadata(file, "format"), "pt");
    assert_null(ls_st_metadata(file, "other"));
    assert_ok(ls_st_need(file, "a", 2, (const int64_t[]){2, 1}, &a));
    assert_int_equal(a->count, 2);
    assert_error(ls_st_need(file, "c", 0, NULL, &a), LS_INVALID, "tensor 'c' is missing", path);
    assert_error(ls_st_need(file, "a", 2, (const int64_t[]){1, 2}, &a), LS_INVALID,
                 "tensor 'a' has shape [2, 1], expected [1, 2]", path);
    ls_st_close(file);
    ls_st_close(NULL);
}

#define F32_2 "\"dtype\":\"F32\",\"shape\":[2]"

static void names_what_is_wrong(void **state) {
    static const struct {
        const char *header;
        size_t bytes;
        const char *word;
    } cases[] = {
        {"", 0, "does not begin with {"},
        {"[]", 0, "does not begin with {"},
        {" {}", 0, "does not begin with {"},
        {"{", 0, "not valid JSON"},
        {"{}x", 0, "not valid JSON"},
        {"{\"a\xff\":{" F32_2 ",\"data_offsets\":[0,8]}}", 8, "UTF-8"},
        {"{\"a\":{" F32_2 ",\"data_offsets\":[0,8]},\"a\":{" F32_2 ",\"data_offsets\":[0,8]}}", 8, "duplicate"},
        {"{\"a\":1}", 0, "a is 1, expected an object"},
        {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "a.dtype is missing"},
        {"{\"a\":{\"dtype\":\"F33\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "a.dtype is \"F33\""},
        {"{\"a\":{\"dtype\":4,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "a.dtype is 4"},
        {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, "a.shape is missing"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}", 8, "a.shape is 2"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8, "a.shape[0] is -2"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}", 8, "a.shape[0] is 2.0"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,8]}}", 8, "at most 8"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0, "63 bits"},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[2305843009213693952],\"data_offsets\":[0,0]}}", 0, "63 bits"},
        {"{\"a\":{" F32_2 "}}", 8, "a.data_offsets is missing"},
        {"{\"a\":{" F32_2 ",\"data_offsets\":[0]}}", 8, "two offsets"},
        {"{\"a\":{" F32_2 ",\"data_offsets\":[0,8,9]}}", 8, "two offsets"},
        {"{\"a\":{" F32_2 ",\"data_offsets\":[-1,7]}}", 8, "data_offsets[0] is -1"},
        {"{\"a\":{" F32_2 ",\"data_offsets\":[8,0]}}", 8, "data_offsets[1] is 0"},
        {"{\"a\":{" F32_2 ",\"data_offsets\":[0,9]}}", 8, "data_offsets[1] is 9"},
        {"{\"a\":{" F32_2 ",\"data_offsets\":[0,9223372036854775807]}}", 8, "data_offsets[1] is 9223372036854775807"},
        {"{\"a\":{" F32_2 ",\"data_offsets\":[0,18446744073709551616]}}", 8,
         "data_offsets[1] is 1.8446744073709552e19"},
        {"{\"a\":{" F32_2 ",\"data_offsets\":[0,7]}}", 8, "takes 8 bytes"},
        {"{\"a\":{" F32_2 ",\"data_offsets\":[0,8]}}", 7, "data_offsets[1] is 8"},
        {"{\"a\":{" F32_2 ",\"data_offsets\":[0,8]}}", 9, "take 8 bytes of data, but the file has 9"},
        {"{\"a\":{" F32_2 ",\"data_offsets\":[1,9]}}", 9, "bytes 0 to 1, before tensor 'a'"},
        {"{\"a\":{" F32_2 ",\"data_offsets\":[0,8]},\"b\":{" F32_2 ",\"data_offsets\":[4,12]}}", 12,
         "'a' and 'b' overlap at data offset 4"},
        {"{\"a\":{" F32_2 ",\"data_offsets\":[0,8]},\"b\":{" F32_2 ",\"data_offsets\":[0,8]}}", 8,
         "'a' and 'b' overlap at data offset 0"},
        {"{\"a\":{" F32_2 ",\"data_offsets\":[0,8]},\"b\":{" F32_2 ",\"data_offsets\":[9,17]}}", 17,
         "bytes 8 to 9, before tensor 'b'"},
        {"{\"a\":{" F32_2 ",\"data_offsets\":[0,8]},"
         "\"e\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[4,4]}}",
         8, "'a' and 'e' overlap"},
        {"{\"a\":{" F32_2 ",\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, "duplicate"},
        {"{\"a\":{" F32_2 ",\"data_offsets\":[8,16]},\"b\":{" F32_2 ",\"data_offsets\":[0,12]}}", 16, "takes 8 bytes"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[9223372036854775807,4],\"data_offsets\":[0,0]}}", 0, "63 bits"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[9223372036854775808],\"data_offsets\":[0,0]}}", 0,
         "shape[0] is 9.2233720368547758e18"},
        {"{\"a\":{" F32_2 ",\"data_offsets\":[18446744073709551608,0]}}", 8,
         "data_offsets[0] is 1.8446744073709552e19"},
        {"{\"a\":{" F32_2 ",\"data_offsets\":[0,1e3]}}", 8, "data_offsets[1] is 1000.0"},
        {"{\"a\":[" F32_2 "]}", 8, "not valid JSON"},
        {"{\"__metadata__\":[]}", 0, "__metadata__ is an array"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__.a is 1"},
    };
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        ls_st_file *file = NULL;
        assert_error(ls_st_open(make(state, "w.safetensors", cases[i].header, cases[i].bytes), &file), LS_INVALID,
                     "w.safetensors: ", cases[i].word);
        assert_null(file);
    }
    ls_st_file *file = NULL;
    assert_error(ls_st_open(scratch_file(state, "x", "\x7f\0\0\0\0\0\0\0{}", 10), &file), LS_INVALID,
                 "127 bytes long, but 2 are left", "x: ");
    assert_error(ls_st_open(scratch_file(state, "x", "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10), &file), LS_INVALID,
                 "18446744073709551615 bytes long", "x: ");
    assert_error(ls_st_open(scratch_file(state, "x", "\1\xe1\xf5\5\0\0\0\0{}", 10), &file), LS_INVALID,
                 "100000001 bytes long", "100000000 are allowed");
    assert_error(ls_st_open(scratch_path(state, "none"), &file), LS_IO, "none", "No such file");
}

/* Neither the parser nor what comes after it walks down without end. */
static void refuses_deep_nesting(void **state) {
    enum { DEEP = 100000 };
    static const char *const ways[] = {"[", "{\"a\":"};
    for (size_t w = 0; w < LS_COUNT(ways); w++) {
        const size_t each = strlen(ways[w]), length = 5 + DEEP * each;
        char *text = malloc(8 + length);
        ls_st_file *file = NULL;
        assert_non_null(text);
        for (int i = 0; i < 8; i++) text[i] = (char)(length >> (8 * i) & 0xff);
        memcpy(text + 8, "{\"a\":", 5);
        for (int i = 0; i < DEEP; i++) memcpy(text + 13 + (size_t)i * each, ways[w], each);
        assert_error(ls_st_open(scratch_file(state, "deep", text, 8 + length), &file), LS_INVALID, "deep: ", "depth");
        assert_null(file);
        free(text);
    }
}

static const ls_st_entry entries[] = {
    {"model.z", LS_ST_F32, 2, {3, 5}},
    {"model.a", LS_ST_BF16, 1, {7}},
    {"none", LS_ST_F64, 2, {0, 9}},
    {"scalar", LS_ST_F64, 0, {0}},
};
static const ls_st_pair metadata[] = {{"step", "12"}, {"format", "pt"}};

static ls_st_plan *plan(void) {
    ls_st_plan *made = NULL;
    assert_ok(ls_st_plan_create(entries, LS_COUNT(entries), metadata, LS_COUNT(metadata), &made));
    return made;
}

static void fill(uint8_t *bytes, size_t n, int seed) {
    for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)ls_rng_bits((uint64_t)seed, 0, i);
}

static const char *write_whole(void **state, const char *name) {
    const char *path = scratch_path(state, name);
    ls_st_plan *p = plan();
    ls_st_writer *first, *second;
    assert_ok(ls_st_create(path, p, &first));
    assert_ok(ls_st_join(path, p, &second));
    for (int64_t i = 0; i < (int64_t)LS_COUNT(entries); i++) {
        uint8_t data[64];
        int64_t bytes = ls_st_plan_bytes(p, i), half = bytes / 2;
        fill(data, sizeof data, (int)i);
        assert_ok(ls_st_write(second, i, half, data + half, bytes - half));
        assert_ok(ls_st_write(first, i, 0, data, half));
    }
    assert_ok(ls_st_finish(second));
    assert_ok(ls_st_finish(first));
    ls_st_plan_destroy(p);
    return path;
}

static void several_writers_fill_one_file(void **state) {
    const char *path = write_whole(state, "filled.safetensors");
    ls_st_file *file;
    assert_ok(ls_st_open(path, &file));
    assert_int_equal(ls_st_count(file), LS_COUNT(entries));
    assert_string_equal(ls_st_metadata(file, "step"), "12");
    for (size_t i = 0; i < LS_COUNT(entries); i++) {
        const ls_st_tensor *tensor = NULL;
        uint8_t data[64];
        fill(data, sizeof data, (int)i);
        assert_ok(ls_st_need(file, entries[i].name, entries[i].ndim, entries[i].shape, &tensor));
        assert_int_equal(tensor->dtype, entries[i].dtype);
        assert_memory_equal(tensor->data, data, tensor->bytes);
    }
    assert_int_equal((uintptr_t)ls_st_at(file, 0)->data % 64, 0);
    ls_st_close(file);

    char *once, *again;
    size_t n, m;
    assert_ok(ls_file_read(path, 10000, &once, &n));
    assert_ok(ls_file_read(write_whole(state, "again.safetensors"), 10000, &again, &m));
    assert_int_equal(n, m);
    assert_memory_equal(once, again, n); /* the same bytes every time */
    static const char order[] = "{\"__metadata__\":{\"step\":\"12\",\"format\":\"pt\"},"
                                "\"model.z\":{\"dtype\":\"F32\",\"shape\":[3,5],\"data_offsets\":[0,60]},"
                                "\"model.a\":{\"dtype\":\"BF16\",\"shape\":[7],\"data_offsets\":[60,74]},";
    assert_memory_equal(once + 8, order, strlen(order));
    free(once);
    free(again);
}

static void survives_truncation_and_noise(void **state) {
    char *text;
    size_t bytes;
    ls_st_file *file;
    assert_ok(ls_file_read(write_whole(state, "n.safetensors"), 10000, &text, &bytes));
    for (size_t n = 0; n < bytes; n++)
        assert_error(ls_st_open(scratch_file(state, "cut", text, n), &file), LS_INVALID, "cut: ", "");
    for (size_t i = 0; i < bytes; i++) {
        static const char noise[] = {0, 1, -1, '9', '"', ',', '}', ' '};
        for (size_t k = 0; k < sizeof noise; k++) {
            char before = text[i];
            text[i] = noise[k];
            ls_status status = ls_st_open(scratch_file(state, "noise", text, bytes), &file);
            text[i] = before;
            if (status.code != LS_OK) continue;
            unsigned sum = 0; /* whatever was accepted lies inside the file */
            for (int64_t t = 0; t < ls_st_count(file); t++)
                for (size_t b = 0; b < ls_st_at(file, t)->bytes; b++)
                    sum += ((const uint8_t *)ls_st_at(file, t)->data)[b];
            assert_true(sum < 256 * bytes);
            ls_st_close(file);
        }
    }
    free(text);
}

static void refuses_bad_plans(void **state) {
    (void)state;
    ls_st_plan *p = NULL;
    const ls_st_entry twice[] = {{"a", LS_ST_F32, 0, {0}}, {"a", LS_ST_F32, 0, {0}}};
    const ls_st_entry odd[] = {{"", LS_ST_F32, 0, {0}},
                               {"\xff", LS_ST_F32, 0, {0}},
                               {"__metadata__", LS_ST_F32, 0, {0}},
                               {"negative", LS_ST_F32, 1, {-1}},
                               {"large", LS_ST_F32, 2, {INT64_MAX / 2, 3}}};
    static const char *const words[] = {"empty", "not UTF-8", "may not be called", "[-1]", "[4611686018427387903, 3]"};
    assert_error(ls_st_plan_create(twice, 2, NULL, 0, &p), LS_INVALID, "tensor name 'a' is given twice", "");
    for (size_t i = 0; i < LS_COUNT(odd); i++)
        assert_error(ls_st_plan_create(&odd[i], 1, NULL, 0, &p), LS_INVALID, words[i], "");
    const ls_st_entry sum[] = {{"a", LS_ST_U8, 1, {INT64_MAX / 3}}, {"b", LS_ST_U8, 1, {INT64_MAX / 3}}};
    assert_error(ls_st_plan_create(sum, 2, NULL, 0, &p), LS_INVALID, "'b' makes the file longer", "");
    const ls_st_pair pairs[] = {{"k", "v"}, {"k", "w"}, {"x", "\xff"}};
    assert_error(ls_st_plan_create(NULL, 0, pairs, 2, &p), LS_INVALID, "metadata key 'k' is given twice", "");
    assert_error(ls_st_plan_create(NULL, 0, pairs + 2, 1, &p), LS_INVALID, "metadata key 'x'", "UTF-8");
    assert_null(p);
    assert_ok(ls_st_plan_create(NULL, 0, NULL, 0, &p)); /* an empty file is a file */
    assert_int_equal(ls_st_plan_file_bytes(p), 64);
    ls_st_plan_destroy(p);
    ls_st_plan_destroy(NULL);
}

static void a_full_disk_is_seen_at_once(void **state) {
    const char *path = scratch_path(state, "full.safetensors");
    const ls_st_entry large = {"large", LS_ST_U8, 1, {1 << 20}};
    ls_st_plan *p;
    ls_st_writer *writer = NULL;
    assert_ok(ls_st_plan_create(&large, 1, NULL, 0, &p));
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){4096, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    ls_status status = ls_st_create(path, p, &writer);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_error(status, LS_IO, path, "cannot reserve 1048704 bytes");
    assert_null(writer);
    assert_false(ls_file_exists(path));
    assert_error(ls_st_create(scratch_path(state, "no/where"), p, &writer), LS_IO, "no/where", "No such file");
    ls_st_plan_destroy(p);
}

static void joining_checks_the_plan(void **state) {
    const char *path = write_whole(state, "j.safetensors");
    const ls_st_entry other = {"other", LS_ST_F32, 0, {0}};
    ls_st_plan *p;
    ls_st_writer *writer = NULL;
    assert_ok(ls_st_plan_create(&other, 1, NULL, 0, &p));
    assert_error(ls_st_join(path, p, &writer), LS_INVALID, path, "by this rank's plan");
    ls_st_plan_destroy(p);
    ls_st_entry renamed[LS_COUNT(entries)];
    memcpy(renamed, entries, sizeof entries);
    renamed[0].name = "model.y";
    assert_ok(ls_st_plan_create(renamed, LS_COUNT(entries), metadata, LS_COUNT(metadata), &p));
    assert_error(ls_st_join(path, p, &writer), LS_INVALID, path, "not that of this rank's plan");
    assert_error(ls_st_join(scratch_path(state, "none"), p, &writer), LS_IO, "none", "No such file");
    assert_null(writer);
    ls_st_abandon(NULL);
    ls_st_plan_destroy(p);
}

/* Converts one element given by its bytes. */
static ls_status convert(ls_st_dtype dtype, const void *bytes, ls_dtype to, void *out) {
    const ls_st_tensor tensor = {.name = "t", .dtype = dtype, .count = 1, .data = bytes};
    return ls_st_convert(&tensor, 0, 1, to, out);
}

static void converts_every_f16(void **state) {
    (void)state;
    for (unsigned bits = 0; bits < 65536; bits++) {
        uint16_t half = (uint16_t)bits;
        _Float16 expected;
        float got;
        memcpy(&expected, &half, sizeof half);
        assert_ok(convert(LS_ST_F16, &half, LS_F32, &got));
        if (isnan((float)expected))
            assert_true(isnan(got));
        else
            assert_true((float)expected == got && !signbit((float)expected) == !signbit(got));
    }
}

/* Every number of f16 and what lies between two: as the compiler's own conversion has it, from each type. */
static void converts_to_f16(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 2000000; i++) {
        /* All patterns of the upper bits, so that subnormals, halves of units, infinities and NaN are among them. */
        const uint32_t bits = (uint32_t)(i * 2147483647u) ^ (uint32_t)(i % 3 == 0 ? 0x1000 : 0);
        float x;
        memcpy(&x, &bits, sizeof x);
        const _Float16 expected = (_Float16)x;
        uint16_t want, got, again;
        memcpy(&want, &expected, sizeof want);
        const ls_st_tensor narrow = {.name = "t", .dtype = LS_ST_F32, .count = 1, .data = &x};
        assert_ok(ls_st_convert_to(&narrow, 0, 1, LS_ST_F16, &got));
        const double wide = (double)x;
        const ls_st_tensor doubles = {.name = "t", .dtype = LS_ST_F64, .count = 1, .data = &wide};
        assert_ok(ls_st_convert_to(&doubles, 0, 1, LS_ST_F16, &again));
        if (isnan(x))
            assert_true((got & 0x7fff) > 0x7c00 && (again & 0x7fff) > 0x7c00);
        else if (got != want || again != want)
            fail_msg("%a is %04x and %04x, expected %04x", (double)x, got, again, want);
    }
    for (unsigned bits = 0; bits < 65536; bits++) { /* there and back */
        const uint16_t half = (uint16_t)bits;
        float wide;
        uint16_t back;
        assert_ok(convert(LS_ST_F16, &half, LS_F32, &wide));
        const ls_st_tensor tensor = {.name = "t", .dtype = LS_ST_F32, .count = 1, .data = &wide};
        assert_ok(ls_st_convert_to(&tensor, 0, 1, LS_ST_F16, &back));
        const bool signalling = (half & 0x7e00) == 0x7c00 && (half & 0x1ff) != 0; /* becomes quiet */
        assert_int_equal(back, half | (signalling ? 0x200 : 0));
    }
    /* 1 + 2^-11 is a tie; a little more is not, and a rounding to f32 on the way would lose it. */
    const double above = 1 + 0x1p-11 + 0x1p-40;
    const ls_st_tensor tie = {.name = "t", .dtype = LS_ST_F64, .count = 1, .data = &above};
    uint16_t half;
    assert_ok(ls_st_convert_to(&tie, 0, 1, LS_ST_F16, &half));
    assert_int_equal(half, 0x3c01);
}

/* Blocks, ends of blocks and odd addresses make no difference. */
static void converts_many(void **state) {
    (void)state;
    enum { N = 5003 };
    static const ls_st_dtype types[] = {LS_ST_F64, LS_ST_F32, LS_ST_F16, LS_ST_BF16};
    static uint8_t from[8 * N + 1];
    static double to[N];
    for (size_t i = 0; i < sizeof from; i++) from[i] = (uint8_t)ls_rng_bits(3, 0, i);
    for (size_t c = 0; c < LS_COUNT(types) * LS_COUNT(types); c++) {
        const ls_st_dtype a = types[c / LS_COUNT(types)], b = types[c % LS_COUNT(types)];
        const ls_st_tensor tensor = {.name = "t", .dtype = a, .count = N, .data = from + 1};
        const size_t size = ls_st_dtype_bytes(b);
        assert_ok(ls_st_convert_to(&tensor, 3, N - 3, b, to));
        for (int64_t i = 3; i < N; i += 7) {
            double one;
            assert_ok(ls_st_convert_to(&tensor, i, 1, b, &one));
            assert_memory_equal(&one, (char *)to + (size_t)(i - 3) * size, size);
        }
    }
}

static void converts_once_rounded(void **state) {
    (void)state;
    static const struct {
        double from;
        uint16_t bf16;
    } cases[] = {
        {1, 0x3f80},
        {-2, 0xc000},
        {0, 0},
        {-0.0, 0x8000},
        {INFINITY, 0x7f80},
        {1e300, 0x7f80},
        {-1e300, 0xff80},
        {1 + 0x1p-8, 0x3f80},               /* a tie, to even */
        {1 + 0x1p-8 + 0x1p-40, 0x3f81},     /* just above it: rounding to f32 first would lose that */
        {1 + 3 * 0x1p-8 - 0x1p-40, 0x3f81}, /* just below a tie */
        {1e-300, 0},
        {0x1p-133, 0x0001},
    };
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        ls_bf16 got;
        assert_ok(convert(LS_ST_F64, &cases[i].from, LS_BF16, &got));
        assert_int_equal(got, cases[i].bf16);
    }
    double nan = NAN, back;
    ls_bf16 bf16;
    assert_ok(convert(LS_ST_F64, &nan, LS_BF16, &bf16));
    assert_true(isnan(ls_bf16_to_f32(bf16)));
    float third = 1.0f / 3;
    assert_ok(convert(LS_ST_F32, &third, LS_F64, &back));
    assert_true(back == (double)third);
    int32_t integer = 3;
    assert_error(convert(LS_ST_I32, &integer, LS_F32, &third), LS_UNSUPPORTED, "'t' of dtype I32", "to F32");
    assert_error(convert(LS_ST_F32, &third, LS_I32, &integer), LS_UNSUPPORTED, "'t' of dtype F32", "to I32");
    const float numbers[] = {1, 2, 3, 4};
    const ls_st_tensor tensor = {.name = "t", .dtype = LS_ST_F32, .count = 4, .data = numbers};
    double part[2];
    assert_ok(ls_st_convert(&tensor, 1, 2, LS_F64, part));
    assert_true(part[0] == 2 && part[1] == 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads),
        cmocka_unit_test(names_what_is_wrong),
        cmocka_unit_test(refuses_deep_nesting),
        cmocka_unit_test(several_writers_fill_one_file),
        cmocka_unit_test(survives_truncation_and_noise),
        cmocka_unit_test(refuses_bad_plans),
        cmocka_unit_test(a_full_disk_is_seen_at_once),
        cmocka_unit_test(joining_checks_the_plan),
        cmocka_unit_test(converts_every_f16),
        cmocka_unit_test(converts_to_f16),
        cmocka_unit_test(converts_many),
        cmocka_unit_test(converts_once_rounded),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
