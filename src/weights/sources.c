/* The two sources of weights: random numbers and safetensors files. */
#include "weights/weights_impl.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct source_state {
    ls_weight_files *files; /* NULL: random */
    ls_weight_random rule;
    _Atomic int64_t bytes_read; /* bytes read from the files */
    pthread_mutex_t lock;       /* protects rounding */
    ls_weights_rounding rounding;
} source_state;

/* ---- random numbers ---- */

/* A number in (0, 1), without 0 and 1, so that its logarithm is finite. */
static double to_unit(uint32_t word) { return ((double)word + 0.5) * 0x1p-32; }

static void normal_pair(uint32_t a, uint32_t b, double deviation, double out[2]) {
    const double two_pi = 6.283185307179586476925286766559;
    const double radius = deviation * sqrt(-2.0 * log(to_unit(a)));
    double sine, cosine;
    sincos(two_pi * to_unit(b), &sine, &cosine);
    out[0] = radius * cosine;
    out[1] = radius * sine;
}

static void normal_block(uint64_t seed, uint64_t stream, uint64_t block, double deviation, double out[4]) {
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)};
    uint32_t words[4];
    ls_philox(key, counter, words);
    normal_pair(words[0], words[1], deviation, out);
    normal_pair(words[2], words[3], deviation, out + 2);
}

static void fill_constant(double value, int64_t count, double *out) {
    for (int64_t i = 0; i < count; i++) out[i] = value;
}

static bool ends_with(const char *name, const char *suffix) {
    const size_t length = strlen(name), n = strlen(suffix);
    return length >= n && strcmp(name + length - n, suffix) == 0;
}

/* The row of the rule's table for the parameter; NULL: none. */
static const ls_weight_initial *find_initial(const ls_flat *flat, const ls_weight_random *rule) {
    for (const ls_weight_initial *row = rule->others; row != NULL && row->suffix != NULL; row++)
        if (ends_with(flat->name, row->suffix)) return row;
    return NULL;
}

static void make_initial(const ls_flat *flat, const ls_weight_random *rule, const ls_weight_initial *is, int64_t start,
                         int64_t count, double *out) {
    const uint64_t stream = ls_rng_stream(flat->name);
    if (!(is->most > 0)) fill_constant(is->value, count, out);
    for (int64_t i = 0; i < count && is->most > 0; i++) {
        const double unit = to_unit((uint32_t)ls_rng_below(rule->seed, stream, (uint64_t)(start + i), 1ULL << 32));
        out[i] = log(is->least + unit * (is->most - is->least));
    }
}

/*
 * Norms and biases are constant. Numbers 4b .. 4b+3 of a parameter come from one Philox block (key: the seed; counter:
 * b and the parameter's name) by two Box-Muller pairs. Each number depends only on (seed, name, index), so any range
 * can be computed without the rest.
 */
static void make_random(const ls_flat *flat, const ls_weight_random *rule, int64_t start, int64_t count, double *out) {
    const ls_weight_initial *initial = find_initial(flat, rule);
    if (initial != NULL) {
        make_initial(flat, rule, initial, start, count, out);
        return;
    }
    if (flat->shape.ndim < 2) {
        fill_constant(ends_with(flat->name, ".bias") ? 0.0 : rule->norm, count, out);
        return;
    }
    const uint64_t stream = ls_rng_stream(flat->name);
    for (int64_t i = 0; i < count;) {
        const int64_t at = start + i, within = at % 4;
        double four[4];
        normal_block(rule->seed, stream, (uint64_t)(at / 4), rule->deviation, four);
        const int64_t n = ls_min(4 - within, count - i);
        memcpy(out + i, four + within, sizeof *out * (size_t)n);
        i += n;
    }
}

static ls_status read_random(void *context, const ls_flat *flat, int64_t start, int64_t count, double *out) {
    const source_state *state = context;
    make_random(flat, &state->rule, start, count, out);
    return ls_ok();
}

/* ---- files ---- */

static int64_t bytes_read(void *context) { return atomic_load(&((source_state *)context)->bytes_read); }

/*
 * Finds the tensor for numbers [start, start + count) of a parameter, and compares a copy with it; LS_INVALID: the copy
 * differs.
 */
static ls_status find_part(source_state *state, const ls_flat *flat, int64_t start, int64_t count,
                           const ls_st_tensor **out) {
    const ls_st_tensor *t = ls_weight_files_of(state->files, flat);
    LS_ASSERT(start + count <= t->count);
    int64_t bytes = count * (int64_t)ls_st_dtype_bytes(t->dtype);
    LS_TRY(ls_weight_files_check_copy(state->files, t, start, count, &bytes));
    atomic_fetch_add(&state->bytes_read, bytes);
    *out = t;
    return ls_ok();
}

enum { NUMBERS = 4096 }; /* numbers converted at a time as f32, between files and blocks */

static ls_weights_rounding rounding(void *context) {
    source_state *state = context;
    pthread_mutex_lock(&state->lock);
    const ls_weights_rounding sums = state->rounding;
    pthread_mutex_unlock(&state->lock);
    return sums;
}

/* Adds up the rounding error of at most NUMBERS numbers in blocks. */
static void note_rounding(source_state *state, const float *numbers, int64_t n, ls_dtype to, const void *blocks) {
    float decoded[NUMBERS];
    ls_weights_rounding sums = {.numbers = (double)n};
    ls_blocks_decode(to, blocks, n / ls_dtype_values(to), decoded);
    for (int64_t i = 0; i < n; i++) {
        const double change = (double)decoded[i] - (double)numbers[i];
        sums.squares += (double)numbers[i] * (double)numbers[i];
        sums.change += change * change;
    }
    pthread_mutex_lock(&state->lock);
    state->rounding.numbers += sums.numbers;
    state->rounding.squares += sums.squares;
    state->rounding.change += sums.change;
    pthread_mutex_unlock(&state->lock);
}

/* Converts n numbers, at most NUMBERS, to elements of *out, from number `at` on. */
static void put_numbers(source_state *state, const float *numbers, int64_t n, ls_dtype to, int64_t at, void *out) {
    char *elements = (char *)out + ls_dtype_bytes(to) * (size_t)(at / ls_dtype_values(to));
    ls_weights_from_f32(numbers, n, to, elements);
    if (ls_dtype_is_block(to)) note_rounding(state, numbers, n, to, elements);
}

static ls_status convert_part(source_state *state, const ls_st_tensor *t, int64_t start, int64_t count, ls_dtype to,
                              void *out) {
    float block[NUMBERS];
    /* F64 becomes bf16 by way of f32, because parameters are also made from f32 masters. */
    if (!ls_dtype_is_block(to) && (t->dtype != LS_ST_F64 || to != LS_BF16))
        return ls_st_convert(t, start, count, to, out);
    for (int64_t i = 0; i < count; i += NUMBERS) {
        const int64_t n = ls_min(NUMBERS, count - i);
        LS_TRY(ls_st_convert(t, start + i, n, LS_F32, block));
        put_numbers(state, block, n, to, i, out);
    }
    return ls_ok();
}

/* Converts a matrix in few bytes: copies its blocks, or converts its numbers to another type. */
static void convert_stored(source_state *state, const ls_stored *stored, int64_t start, int64_t count, ls_dtype to,
                           void *out) {
    const int64_t values = ls_dtype_values(to), from = ls_dtype_values(ls_stored_dtype(stored));
    float block[NUMBERS];
    atomic_fetch_add(&state->bytes_read, count / from * (int64_t)ls_dtype_bytes(ls_stored_dtype(stored)));
    if (ls_stored_dtype(stored) == to) {
        ls_stored_blocks(stored, start / values, count / values, out);
        return;
    }
    for (int64_t i = 0; i < count; i += NUMBERS) {
        const int64_t n = ls_min(NUMBERS, count - i);
        ls_stored_numbers(stored, start + i, n, block);
        put_numbers(state, block, n, to, i, out);
    }
}

static ls_status convert_files(void *context, const ls_flat *flat, int64_t start, int64_t count, ls_dtype to,
                               void *out) {
    source_state *state = context;
    const ls_stored *stored = ls_weight_files_stored(state->files, flat);
    const ls_st_tensor *t;
    if (stored != NULL) {
        convert_stored(state, stored, start, count, to, out);
        return ls_ok();
    }
    LS_TRY(find_part(state, flat, start, count, &t));
    LS_TRY(convert_part(state, t, start, count, to, out));
    ls_st_forget(t, start, count);
    return ls_ok();
}

/* Reads a parameter in blocks: the numbers that the blocks decode to. */
static ls_status read_blocks(source_state *state, const ls_flat *flat, int64_t start, int64_t count, double *out) {
    const int64_t values = ls_dtype_values(flat->dtype);
    unsigned char block[LS_BLOCK_MOST_BYTES];
    float numbers[LS_BLOCK_MOST_VALUES];
    for (int64_t at = start, n; at < start + count; at += n) {
        n = ls_min(values - at % values, start + count - at);
        LS_TRY(convert_files(state, flat, at - at % values, values, flat->dtype, block));
        ls_blocks_decode(flat->dtype, block, 1, numbers);
        for (int64_t i = 0; i < n; i++) out[at - start + i] = (double)numbers[at % values + i];
    }
    return ls_ok();
}

static ls_status read_files(void *context, const ls_flat *flat, int64_t start, int64_t count, double *out) {
    source_state *state = context;
    const ls_st_tensor *t;
    if (ls_dtype_is_block(flat->dtype)) return read_blocks(state, flat, start, count, out);
    if (ls_weight_files_stored(state->files, flat) != NULL)
        return convert_files(state, flat, start, count, LS_F64, out);
    LS_TRY(find_part(state, flat, start, count, &t));
    return ls_st_convert(t, start, count, LS_F64, out);
}

/* ---- opening ---- */

static void close_state(void *context) {
    source_state *state = context;
    ls_weight_files_close(state->files);
    pthread_mutex_destroy(&state->lock);
    free(state);
}

/* The source owns files, also on failure. files NULL: random numbers. */
static ls_status make_source(ls_weight_files *files, ls_weight_random rule, ls_weight_source *out) {
    source_state *state = malloc(sizeof *state);
    if (state == NULL) {
        ls_weight_files_close(files);
        return ls_error(LS_NO_MEMORY, "no memory for a source of weights");
    }
    *state = (source_state){.files = files, .rule = rule, .lock = PTHREAD_MUTEX_INITIALIZER};
    *out = files == NULL ? (ls_weight_source){.read = read_random, .context = state, .close = close_state}
                         : (ls_weight_source){.read = read_files,
                                              .context = state,
                                              .convert = convert_files,
                                              .bytes_read = bytes_read,
                                              .rounding = rounding,
                                              .left_out = ls_weight_files_left_out(files),
                                              .close = close_state};
    return ls_ok();
}

ls_status ls_weights_open_folder(const char *folder, const ls_image *image, const ls_weight_rules *rules,
                                 ls_weight_source *out) {
    ls_weight_files *files = NULL;
    LS_TRY(ls_weight_files_open_folder(folder, image, rules, &files));
    if (files != NULL) return make_source(files, (ls_weight_random){.norm = 1}, out);
    *out = (ls_weight_source){.context = NULL};
    return ls_ok();
}

ls_status ls_weights_open_file(const char *path, const ls_image *image, const ls_weight_rules *rules,
                               ls_weight_source *out) {
    ls_weight_files *files = NULL;
    LS_TRY(ls_weight_files_open_file(path, image, rules, &files));
    return make_source(files, (ls_weight_random){.norm = 1}, out);
}

ls_status ls_weights_open_random(uint64_t seed, double deviation, ls_weight_source *out) {
    return ls_weights_open_random_as(&(ls_weight_random){.seed = seed, .deviation = deviation, .norm = 1}, out);
}

ls_status ls_weights_open_random_as(const ls_weight_random *rule, ls_weight_source *out) {
    return make_source(NULL, *rule, out);
}

void ls_weights_close(ls_weight_source *source) {
    if (source == NULL || source->context == NULL) return;
    if (source->close != NULL) source->close(source->context);
    *source = (ls_weight_source){.context = NULL};
}

bool ls_weights_from_file(const ls_weight_source *source) { return source->bytes_read != NULL; }

/* ---- two sources ---- */

typedef struct composed {
    ls_weight_source base, own;
    bool (*has)(const ls_flat *flat); /* whether `own` has the parameter */
} composed;

static const ls_weight_source *source_of(const composed *c, const ls_flat *flat) {
    return c->has(flat) ? &c->own : &c->base;
}

static ls_status read_composed(void *context, const ls_flat *flat, int64_t start, int64_t count, double *out) {
    const ls_weight_source *s = source_of(context, flat);
    return s->read(s->context, flat, start, count, out);
}

static ls_status convert_composed(void *context, const ls_flat *flat, int64_t start, int64_t count, ls_dtype to,
                                  void *out) {
    enum { BLOCK = 1024 };
    const ls_weight_source *s = source_of(context, flat);
    if (s->convert != NULL) return s->convert(s->context, flat, start, count, to, out);
    double block[BLOCK];
    for (int64_t i = 0; i < count; i += BLOCK) {
        const int64_t n = ls_min(BLOCK, count - i);
        LS_TRY(s->read(s->context, flat, start + i, n, block));
        ls_weights_narrow(block, n, to, (char *)out + (size_t)(i / ls_dtype_values(to)) * ls_dtype_bytes(to));
    }
    return ls_ok();
}

static int64_t bytes_of_composed(void *context) {
    const composed *c = context;
    const ls_weight_source *const both[] = {&c->base, &c->own};
    int64_t bytes = 0;
    for (size_t i = 0; i < LS_COUNT(both); i++)
        if (both[i]->bytes_read != NULL) bytes += both[i]->bytes_read(both[i]->context);
    return bytes;
}

static ls_weights_rounding rounding_of_composed(void *context) {
    const composed *c = context;
    return c->base.rounding != NULL ? c->base.rounding(c->base.context) : (ls_weights_rounding){0};
}

static void close_composed(void *context) {
    composed *c = context;
    ls_weights_close(&c->base);
    ls_weights_close(&c->own);
    free(c);
}

ls_status ls_weights_compose(const ls_weight_source *base, const ls_weight_source *own,
                             bool (*has)(const ls_flat *flat), ls_weight_source *out) {
    composed *c = malloc(sizeof *c);
    composed both = {*base, *own, has};
    if (c == NULL) {
        ls_weights_close(&both.base);
        ls_weights_close(&both.own);
        return ls_error(LS_NO_MEMORY, "no memory for a source of weights");
    }
    *c = both;
    *out = (ls_weight_source){.read = read_composed,
                              .context = c,
                              .convert = convert_composed,
                              .bytes_read = bytes_of_composed,
                              .rounding = rounding_of_composed,
                              .left_out = base->left_out,
                              .close = close_composed};
    return ls_ok();
}
