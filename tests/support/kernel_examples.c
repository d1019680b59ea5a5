#include "support/kernel_examples.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GAP = 8 };

static ls_dtype dtype_of(char type, ls_dtype T) {
    switch (toupper((unsigned char)type)) {
    case 'T':
    case 'R':
    case 'C':
    case 'P':
        return T;
    case 'I':
        return LS_I32;
    case 'D':
        return LS_F64;
    default:
        return T == LS_F64 ? LS_F64 : LS_F32;
    }
}

enum { APART = 37 }; /* positions */

/* Element i of spans with four columns for each query: some of the first keys, and a run of later ones. */
static double end_of_span(int64_t i, int64_t keys) {
    const int64_t query = i / 4, middle = keys / 4;
    const bool blind = query % 5 == 2;
    const int64_t ends[4] = {0, blind ? 0 : 1 + query % 2, middle + 2, middle + 2 + (blind ? 0 : query % keys)};
    return (double)(ends[i % 4] * APART);
}

double value_of(const operand *o, uint64_t stream, int64_t i) {
    static const double control[LS_CONTROLS] = {1, 0.7, 1e-2, 0.271, 0.0297, 3};
    static const double hyper[LS_HYPERS] = {0.01, 0.5, 3, 0.9, 0.99};
    const double normal = ls_rng_normal(17, stream, (uint64_t)i);
    const int64_t random = (int64_t)(fabs(normal) * 1e6) % (o->limit > 0 ? o->limit : 1);
    switch (o->contents) {
    case NORMAL:
        return normal;
    case POSITIVE:
        return fabs(normal) + 0.01;
    case IDS:
        return (double)random;
    case LABELS:
        return i % 5 == 1 ? -100.0 : (double)random;
    case PART_IDS:
        return i % 4 == 2 ? LS_ID_ELSEWHERE : (double)random;
    case PART_LABELS:
        return i % 5 == 1 ? LS_LABEL_IGNORED : i % 5 == 3 ? LS_ID_ELSEWHERE : (double)random;
    case RUN:
        return i == 0 ? 3 : (double)o->limit;
    case KEYS:
        return normal / sqrt((double)o->limit);
    case DECAYS:
        return -0.3 * fabs(normal);
    case RATES:
        return fmod(fabs(normal), 2);
    case STARTS:
        return i % 23 == 7 || i % 31 == 30 ? 0 : 1;
    case ENDS:
        return (double)(i % o->limit * 3 - o->limit);
    case POSITIONS:
        return (double)(i * APART);
    case SPANS:
        return end_of_span(i, o->limit);
    case CONTROL:
        return control[i];
    case SKIP:
        return i == LS_CONTROL_APPLY ? 0 : control[i];
    case GROUPS:
        return (double)((i / 5 + i / 8) % (o->limit + 1) - 1);
    case SETTINGS:
        return i % 2 == 0 ? 1 - 0.25 * (double)i : 0.05 * (double)(i - 1);
    case HYPER:
        return hyper[i];
    case WORDS: { /* up to another word in each row, so that no sum is infinite */
        const int64_t row = i / LS_EXACT_WORDS, word = i % LS_EXACT_WORDS;
        return word <= 40 + row % 20 ? trunc(normal * 0x1p40) : 0;
    }
    case SPREAD:
        return ldexp(normal, (int)(i * 37 % 270) - 145);
    default:
        return o->type == 'I' ? -7 : NAN;
    }
}

/* Element i as the reference sees it, after rounding to the type. */
static double put(array *a, int64_t i, double value) {
    switch (a->dtype) {
    case LS_BF16:
        ((ls_bf16 *)a->typed)[i] = ls_bf16_from_f32((float)value);
        return (double)ls_bf16_to_f32(((ls_bf16 *)a->typed)[i]);
    case LS_F32:
        ((float *)a->typed)[i] = (float)value;
        return (double)(float)value;
    case LS_I32:
        ((int32_t *)a->typed)[i] = (int32_t)value;
        return value;
    default:
        ((double *)a->typed)[i] = value;
        return value;
    }
}

static double get(const array *a, int64_t i) {
    if (a->dtype == LS_BF16) return (double)ls_bf16_to_f32(((const ls_bf16 *)a->typed)[i]);
    if (a->dtype == LS_F32) return (double)((const float *)a->typed)[i];
    if (a->dtype == LS_I32) return (double)((const int32_t *)a->typed)[i];
    return ((const double *)a->typed)[i];
}

/* Of the last dimension and the gap behind it. */
static int64_t row_length(const operand *o) {
    return o->size[o->ndim - 1] + (islower((unsigned char)o->type) ? GAP : 0);
}

/* Those in gaps included, and what is repeated once. */
static int64_t elements(const operand *o) {
    int64_t n = o->type == 'C' ? 1 : row_length(o);
    for (int d = o->type == 'R' ? 1 : 0; d + 1 < o->ndim; d++) n *= o->size[d];
    return n;
}

array make_array(const operand *o, ls_dtype T, uint64_t stream) {
    array a = {.dtype = dtype_of(o->type, T), .n = elements(o)};
    a.exact = malloc(sizeof(double) * (size_t)a.n);
    a.typed = malloc(ls_dtype_bytes(a.dtype) * (size_t)a.n); /* no more: a sanitizer sees what goes beyond */
    for (int64_t i = 0; i < a.n; i++) {
        const double value = put(&a, i, value_of(o, stream, i));
        if (a.dtype == LS_I32)
            ((int32_t *)a.exact)[i] = (int32_t)value;
        else
            a.exact[i] = value;
    }
    return a;
}

static ls_view view_of(const operand *o, const array *a, bool exact) {
    const ls_dtype dtype = exact && a->dtype != LS_I32 ? LS_F64 : a->dtype;
    int64_t around[LS_MAX_DIMS]; /* of a dense view with the gaps in it */
    memcpy(around, o->size, sizeof around);
    around[o->ndim - 1] = row_length(o);
    if (o->type == 'P') around[o->ndim - 1] = o->size[o->ndim - 2], around[o->ndim - 2] = o->size[o->ndim - 1];
    ls_view view = ls_view_dense(exact ? (void *)a->exact : a->typed, dtype, o->ndim, around);
    view.size[o->ndim - 1] = o->size[o->ndim - 1];
    if (o->type == 'R') view.stride[0] = 0;
    if (o->type == 'P') {
        view.size[o->ndim - 2] = o->size[o->ndim - 2];
        view.stride[o->ndim - 2] = 1;
        view.stride[o->ndim - 1] = o->size[o->ndim - 2];
    }
    if (o->type == 'C') view.stride[0] = 1, view.stride[1] = 0;
    return view;
}

/* What the reference has found, of integers as such. */
static double exact_at(const array *a, const double *exact, int64_t i) {
    return a->dtype == LS_I32 ? (double)((const int32_t *)exact)[i] : exact[i];
}

double norm_error(const array *a, const double *exact) {
    double error = 0, norm = 0;
    for (int64_t i = 0; i < a->n; i++) {
        const double x = get(a, i), y = exact_at(a, exact, i);
        if (isnan(x) != isnan(y)) return INFINITY;
        if (isnan(x) || x == y) continue;
        error += (x - y) * (x - y);
    }
    for (int64_t i = 0; i < a->n; i++) {
        const double y = exact_at(a, exact, i);
        norm += isnan(y) ? 0 : y * y;
    }
    return error == 0 ? 0 : sqrt(error / norm);
}

/* One rounding to bf16 is 2^-8 at most. */
double tolerance(ls_dtype dtype) { return dtype == LS_BF16 ? 0x1.01p-8 : dtype == LS_F32 ? 2e-6 : 1e-12; }

ls_kernel_call make_call(const example *e, const array *in, const array *out, bool exact) {
    ls_kernel_call call = {.n_in = e->n_in, .n_out = e->n_out, .params = e->params};
    for (int i = 0; i < e->n_in; i++) call.in[i] = view_of(&e->in[i], &in[i], exact);
    for (int i = 0; i < e->n_out; i++) call.out[i] = view_of(&e->out[i], &out[i], exact);
    return call;
}

void free_array(array *a) {
    free(a->exact);
    free(a->typed);
}

array copy_array(const array *a) {
    const size_t bytes = ls_dtype_bytes(a->dtype) * (size_t)a->n;
    array copy = {.typed = aligned_alloc(64, ls_round_up(bytes, 64)), .dtype = a->dtype, .n = a->n};
    memcpy(copy.typed, a->typed, bytes);
    return copy;
}

/* --- examples ----------------------------------------------------------------------------------------------------- */

/* Rows and columns: none, one, odd, on and off the vector, long, enough for several tasks. */
static const int64_t sizes[][2] = {{0, 8},    {1, 1},    {3, 5},    {7, 16},  {2, 33},
                                   {130, 64}, {1, 4099}, {2, 2048}, {700, 96}};

static void elementwise(visit_example visit) {
    const ls_scale_params half = {0.37};
    const ls_combine_params both = {-1.3, 0.6};
    const ls_noise_params noisy = {0.7};
    for (size_t s = 0; s < LS_COUNT(sizes); s++) {
        const int64_t n = sizes[s][0], E = sizes[s][1];
        const operand x = {'T', NORMAL, 2, {n, E}, 0}, y = {'T', POISON, 2, {n, E}, 0}, kept = x;
        const operand c = {'G', NORMAL, 1, {1}, 0}, wide = {'G', POISON, 2, {n, E}, 0};
        const operand keys = {'I', LABELS, 1, {n}, INT32_MAX}, none = {'I', IDS, 1, {n}, 1};
        const example examples[] = {
            {"add", NULL, 2, 1, {x, x}, {y}},        {"mul", NULL, 2, 1, {x, x}, {y}},
            {"scale", &half, 1, 1, {x}, {y}},        {"scale_by", NULL, 2, 1, {x, c}, {y}},
            {"combine", &both, 1, 1, {x}, {kept}},   {"normalize", NULL, 1, 1, {x}, {y}},
            {"swiglu", NULL, 2, 1, {x, x}, {y}},     {"swiglu_grad", NULL, 3, 2, {x, x, x}, {y, y}},
            {"cast", NULL, 1, 1, {x}, {y}},          {"cast", NULL, 1, 1, {x}, {wide}},
            {"copy", NULL, 1, 1, {x}, {y}},          {"fill", NULL, 0, 1, {{0}}, {y}},
            {"offload", NULL, 1, 1, {x}, {y}},       {"fetch", NULL, 1, 1, {x}, {y}},
            {"noise", &noisy, 2, 1, {x, keys}, {y}}, {"noise", &noisy, 2, 1, {x, none}, {y}},
        };
        for (size_t i = 0; i < LS_COUNT(examples); i++) visit(&examples[i]);
    }
    const operand zero = {'T', POSITIONS, 1, {1}, 0}, result = {'T', POISON, 1, {1}, 0};
    const example no_direction = {"normalize", NULL, 1, 1, {zero}, {result}};
    visit(&no_direction);
}

/* Between rows that lie apart in one of the views, or in both. */
static void apart(visit_example visit) {
    for (size_t s = 0; s < LS_COUNT(sizes); s++) {
        const int64_t n = sizes[s][0], E = sizes[s][1];
        const operand x = {'T', NORMAL, 2, {n, E}, 0}, x_apart = {'t', NORMAL, 2, {n, E}, 0};
        const operand y = {'T', POISON, 2, {n, E}, 0}, y_apart = {'t', POISON, 2, {n, E}, 0};
        const operand wide = {'g', POISON, 2, {n, E}, 0}, sum = {'g', NORMAL, 2, {n, E}, 0};
        const operand f64 = {'D', POISON, 2, {n, E}, 0};
        const example examples[] = {
            {"copy", NULL, 1, 1, {x_apart}, {y}},       {"copy", NULL, 1, 1, {x}, {y_apart}},
            {"copy", NULL, 1, 1, {x_apart}, {y_apart}}, {"cast", NULL, 1, 1, {x_apart}, {wide}},
            {"cast", NULL, 1, 1, {x_apart}, {f64}},     {"accumulate", NULL, 1, 1, {x_apart}, {sum}},
        };
        for (size_t i = 0; i < LS_COUNT(examples); i++) visit(&examples[i]);
    }
}

static void activations(visit_example visit) {
    static const ls_activation_params kinds[] = {{LS_ACTIVATION_GELU, 0},      {LS_ACTIVATION_GELU_TANH, 0},
                                                 {LS_ACTIVATION_RELU, 0},      {LS_ACTIVATION_SILU, 0},
                                                 {LS_ACTIVATION_SOFTCAP, 1.5}, {LS_ACTIVATION_SOFTCAP, 30}};
    for (size_t s = 0; s < LS_COUNT(sizes); s++) {
        const int64_t n = sizes[s][0], E = sizes[s][1];
        const operand x = {'T', NORMAL, 2, {n, E}, 0}, y = {'T', POISON, 2, {n, E}, 0};
        const operand wide = {'W', NORMAL, 2, {n, E}, 0};
        for (size_t k = 0; k < LS_COUNT(kinds); k++) {
            const example examples[] = {
                {"activation", &kinds[k], 1, 1, {x}, {y}},
                {"activation_grad", &kinds[k], 2, 1, {x, x}, {y}},
                {"activation_grad", &kinds[k], 2, 1, {x, wide}, {y}},
            };
            for (size_t i = 0; i < LS_COUNT(examples); i++) visit(&examples[i]);
        }
    }
}

static void convolutions(visit_example visit) {
    static const int64_t shapes[][4] = {{1, 1, 1, 1}, {2, 5, 3, 7}, {1, 130, 4, 33}, {2, 300, 2, 64}, {1, 70, 6, 40}};
    for (size_t s = 0; s < LS_COUNT(shapes); s++) {
        const int64_t B = shapes[s][0], n = shapes[s][1], W = shapes[s][2], E = shapes[s][3], R = W + (s > 1);
        const operand x = {'T', NORMAL, 3, {B, n + W - 1, E}, 0}, weight = {'T', NORMAL, 2, {R, E}, 0};
        const operand y = {'T', POISON, 3, {B, n, E}, 0}, dy = {'T', NORMAL, 3, {B, n, E}, 0};
        const operand dweight = {'G', NORMAL, 2, {R, E}, 0}, apart = {'t', NORMAL, 3, {B, n + W - 1, E}, 0};
        const operand y_apart = {'t', POISON, 3, {B, n, E}, 0}, dy_apart = {'t', NORMAL, 3, {B, n, E}, 0};
        const operand all = {'T', NORMAL, 3, {B, n, 0}, 0}, reach = {'T', RATES, 3, {B, n, 2}, 0};
        for (int form = 0; form < 3; form++) {
            const ls_conv_params params = {.ahead = form == 1, .last_first = s % 2, .biased = s > 1, .silu = form == 2};
            const example examples[] = {
                {"conv", &params, 3, 1, {x, weight, all}, {y}},
                {"conv", &params, 3, 1, {apart, weight, reach}, {y_apart}},
                {"conv_silu_grad", &params, 4, 1, {x, weight, dy, all}, {y}},
                {"conv_silu_grad", &params, 4, 1, {apart, weight, dy_apart, reach}, {y_apart}},
                {"conv_dw", &params, 3, 1, {x, dy, all}, {dweight}},
                {"conv_dw", &params, 3, 1, {apart, dy_apart, reach}, {dweight}},
            };
            for (size_t i = 0; i < LS_COUNT(examples); i++) visit(&examples[i]);
        }
    }
}

static void recurrences(visit_example visit) {
    static const int64_t shapes[][5] = {{1, 1, 1, 1, 1},    {2, 5, 3, 1, 7}, {1, 130, 4, 1, 33}, {2, 300, 2, 1, 64},
                                        {2, 130, 3, 2, 33}, {1, 5, 2, 3, 7}, {2, 70, 1, 4, 17},  {1, 300, 1, 2, 64}};
    for (size_t s = 0; s < LS_COUNT(shapes); s++) {
        const int64_t B = shapes[s][0], n = shapes[s][1], M = shapes[s][2], K = shapes[s][3], E = shapes[s][4];
        const contents gates = K == 1 ? POSITIVE : KEYS;
        const operand gate = {'T', gates, 5, {B, n, K, K, E}, 2 * K}, x = {'T', NORMAL, 4, {B, n, K, E}, 0};
        const operand h = {'T', POISON, 4, {B, n, K, E}, 0}, start = {'G', NORMAL, 3, {B, K, E}, 0};
        const operand map = {'G', POISON, 4, {K + 1, B, K, E}, 0}, maps = {'G', NORMAL, 5, {M, K + 1, B, K, E}, 0};
        const operand gate_apart = {'t', gates, 5, {B, n, K, K, E}, 2 * K}, x_apart = {'t', NORMAL, 4, {B, n, K, E}, 0};
        const operand h_apart = {'t', POISON, 4, {B, n, K, E}, 0},
                      maps_apart = {'g', NORMAL, 5, {M, K + 1, B, K, E}, 0};
        for (int backwards = 0; backwards < 2; backwards++) {
            const ls_recurrence_params params = {.backwards = backwards != 0};
            const example examples[] = {
                {"recurrence", &params, 3, 1, {gate, x, start}, {h}},
                {"recurrence", &params, 3, 1, {gate_apart, x_apart, start}, {h_apart}},
                {"recurrence_map", &params, 2, 1, {gate, x}, {map}},
                {"recurrence_map", &params, 2, 1, {gate_apart, x}, {map}},
                {"recurrence_follow", &params, 1, 1, {maps}, {start}},
                {"recurrence_follow", &params, 1, 1, {maps_apart}, {start}},
            };
            for (size_t i = 0; i < LS_COUNT(examples); i++) visit(&examples[i]);
        }
    }
}

static void sums(visit_example visit) {
    for (size_t s = 0; s < LS_COUNT(sizes); s++) {
        const int64_t n = sizes[s][0] * 9, E = sizes[s][1];
        const operand x = {'G', NORMAL, 2, {n, E}, 0}, one = {'G', NORMAL, 1, {1}, 0}, f64 = {'D', NORMAL, 1, {1}, 0};
        const operand narrow = {'T', NORMAL, 2, {n, E}, 0}, row = {'G', POISON, 1, {E}, 0};
        const example examples[] = {
            {"sum", NULL, 1, 1, {x}, {one}},      {"sum_squares", NULL, 1, 1, {x}, {f64}},
            {"accumulate", NULL, 1, 1, {x}, {x}}, {"accumulate", NULL, 1, 1, {narrow}, {x}},
            {"add_rows", NULL, 1, 1, {x}, {row}},
        };
        const size_t kernels = LS_COUNT(examples) - (n == 0); /* add_rows begins with a row */
        for (size_t i = 0; i < kernels; i++) visit(&examples[i]);
    }
}

static void exact_sums(visit_example visit) {
    static const ls_exact_params numbers = {false}, squares = {true};
    static const contents of[] = {NORMAL, SPREAD, POISON};
    for (size_t s = 0; s < LS_COUNT(sizes); s++) {
        const int64_t n = sizes[s][0], E = sizes[s][1];
        const operand words = {'D', WORDS, 1, {LS_EXACT_WORDS}, 0};
        const operand rows = {'D', WORDS, 2, {n, LS_EXACT_WORDS}, 0}, values = {'D', POISON, 1, {n}, 0};
        for (size_t c = 0; c < LS_COUNT(of); c++) {
            const operand x = {'G', of[c], 2, {n, E}, 0};
            const example examples[] = {
                {"exact_sum", &numbers, 1, 1, {x}, {words}},
                {"exact_sum", &squares, 1, 1, {x}, {words}},
            };
            for (size_t i = 0; i < LS_COUNT(examples); i++) visit(&examples[i]);
        }
        const example value = {"exact_value", NULL, 1, 1, {rows}, {values}};
        visit(&value);
    }
}

/* Sums over as many tokens as a rank may hold stay accurate. */
static void many_tokens(visit_example visit) {
    const ls_embedding_params every = {-1};
    const int64_t n = 16384, E = 33, V = 7;
    const operand x = {'T', POSITIVE, 2, {n, E}, 0}, zero = {'G', NORMAL, 1, {E}, 0};
    const operand ids = {'I', IDS, 1, {n}, V}, dtable = {'G', NORMAL, 2, {V, E}, 0};
    const example examples[] = {
        {"column_sum", NULL, 1, 1, {x}, {zero}},
        {"embedding_grad", &every, 2, 1, {ids, x}, {dtable}},
    };
    for (size_t i = 0; i < LS_COUNT(examples); i++) visit(&examples[i]);
}

/* Ids that many tokens have and that few have, and more ids than tokens. */
static void embeddings(visit_example visit) {
    const ls_embedding_params every = {-1}, padded = {3};
    static const int64_t shapes[][3] = {{1, 1, 11},    {3, 5, 11},    {7, 16, 11},  {2, 33, 11},   {130, 64, 11},
                                        {1, 4099, 11}, {700, 96, 11}, {1500, 4, 2}, {1500, 8, 40}, {600, 33, 5000}};
    for (size_t s = 0; s < LS_COUNT(shapes); s++) {
        const int64_t n = shapes[s][0], E = shapes[s][1], V = shapes[s][2];
        const operand ids = {'I', IDS, 1, {n}, V}, table = {'T', NORMAL, 2, {V, E}, 0};
        const operand x = {'T', NORMAL, 2, {n, E}, 0}, y = {'T', POISON, 2, {n, E}, 0};
        const operand dtable = {'G', NORMAL, 2, {V, E}, 0};
        const operand of_part = {'I', PART_IDS, 1, {n}, V}, run = {'I', RUN, 1, {2}, V / 2};
        const operand local = {'I', POISON, 1, {n}, 0};
        const example examples[] = {
            {"local_ids", &every, 2, 1, {ids, run}, {local}},
            {"local_ids", &padded, 2, 1, {of_part, run}, {local}},
            {"embedding", NULL, 2, 1, {of_part, table}, {y}},
            {"embedding_grad", &every, 2, 1, {of_part, x}, {dtable}},
            {"embedding", NULL, 2, 1, {ids, table}, {y}},
            {"embedding_grad", &every, 2, 1, {ids, x}, {dtable}},
            {"embedding_grad", &padded, 2, 1, {ids, x}, {dtable}},
            {"scale_rows", NULL, 3, 1, {ids, x, table}, {y}},
            {"scale_rows", NULL, 3, 1, {of_part, x, table}, {y}},
        };
        for (size_t i = 0; i < LS_COUNT(examples); i++) visit(&examples[i]);
        for (int64_t room = n / 4; room <= 2 * n; room += n + n / 4) { /* too few, and more than enough */
            const operand numbers = {'I', POISON, 1, {1 + room}, 0}, rows = {'T', NORMAL, 2, {room, E}, 0};
            const example deal = {"deal_rows", NULL, 2, 2, {of_part, x}, {numbers, rows}};
            visit(&deal);
        }
        const example collect = {"collect_rows", NULL, 2, 1, {of_part, x}, {{'T', NORMAL, 2, {n, E}, 0}}};
        visit(&collect);
    }
}

/* The cache has some of the positions. */
static void caches(visit_example visit) {
    static const int64_t shapes[][5] = {{1, 1, 1, 1, 2}, {2, 3, 5, 2, 3}, {3, 40, 70, 2, 16}, {1, 2, 900, 3, 5}};
    for (size_t s = 0; s < LS_COUNT(shapes); s++) {
        const int64_t B = shapes[s][0], M = shapes[s][1], K = shapes[s][2], H = shapes[s][3], D = shapes[s][4];
        const operand x = {'T', NORMAL, 4, {B, M, H, D}, 0}, cache = {'T', NORMAL, 4, {B, K, H, D}, 0};
        const operand positions = {'I', POSITIONS, 2, {B, M}, 0}, kpos = {'I', POSITIONS, 1, {K}, 0};
        const example e = {"cache_write", NULL, 3, 1, {x, positions, kpos}, {cache}};
        visit(&e);
    }
}

static void rotations(visit_example visit) {
    const ls_rotate_params forward = {false}, backward = {true};
    const ls_rope_params rope = {.theta = 10000,
                                 .scaling = LS_ROPE_LLAMA3,
                                 .factor = 8,
                                 .low_factor = 1,
                                 .high_factor = 4,
                                 .original_length = 256};
    const ls_rope_params by_length = {
        .theta = 10000, .scaling = LS_ROPE_DYNAMIC, .factor = 4, .original_length = 256, .length = 512};
    static const int64_t heads[][3] = {{1, 1, 2}, {5, 3, 6}, {3, 2, 64}, {40, 4, 80}, {2, 1, 1100}, {300, 4, 80}};
    for (size_t s = 0; s < LS_COUNT(heads); s++) {
        const int64_t n = heads[s][0], H = heads[s][1], D = heads[s][2];
        const operand x = {'T', NORMAL, 3, {n, H, D}, 0}, y = {'T', POISON, 3, {n, H, D}, 0};
        const operand table = {'G', NORMAL, 2, {n, D}, 0}, positions = {'I', POSITIONS, 1, {n}, 0};
        const operand table_out = {'G', POISON, 2, {n, D}, 0};
        const example examples[] = {
            {"rotate", &forward, 2, 1, {x, table}, {y}},
            {"rotate", &backward, 2, 1, {x, table}, {y}},
            {"rope_table", &rope, 1, 1, {positions}, {table_out}},
            {"rope_table", &by_length, 1, 1, {positions}, {table_out}},
        };
        for (size_t i = 0; i < LS_COUNT(examples); i++) visit(&examples[i]);
    }
}

static void cross_entropies(visit_example visit) {
    /* Of V words; the share of each one would be the same part of them all. */
    const ls_cross_entropy_params smoothed = {0.9, 0.1 / 64, 0}, squared = {1, 0, 0.3}, both = {0.8, 0.2 / 64, 0.01};
    for (size_t s = 0; s < LS_COUNT(sizes); s++) {
        const int64_t n = sizes[s][0], V = sizes[s][1];
        const operand labels = {'I', LABELS, 1, {n}, V}, column = {'G', NORMAL, 1, {n}, 0};
        const operand out = {'G', POISON, 1, {n}, 0}, dlogits = {'T', POISON, 2, {n, V}, 0};
        const operand of_part = {'I', PART_LABELS, 1, {n}, V}, parts = {'G', NORMAL, 3, {3, 2, n}, 0};
        for (const char *type = "TW"; *type; type++) {
            const operand logits = {*type, NORMAL, 2, {n, V}, 0};
            const example examples[] = {
                {"cross_entropy", NULL, 2, 2, {logits, labels}, {out, out}},
                {"cross_entropy", NULL, 2, 2, {logits, of_part}, {out, out}},
                {"cross_entropy_merge", NULL, 2, 2, {parts, labels}, {out, out}},
                {"cross_entropy_grad", NULL, 4, 1, {logits, of_part, column, column}, {dlogits}},
                {"cross_entropy_grad", NULL, 4, 1, {logits, labels, column, column}, {dlogits}},
                {"cross_entropy", &smoothed, 2, 2, {logits, labels}, {out, out}},
                {"cross_entropy", &squared, 2, 2, {logits, of_part}, {out, out}},
                {"cross_entropy_merge", &squared, 2, 2, {parts, labels}, {out, out}},
                {"cross_entropy_grad", &smoothed, 4, 1, {logits, of_part, column, column}, {dlogits}},
                {"cross_entropy_grad", &both, 4, 1, {logits, labels, column, column}, {dlogits}},
            };
            for (size_t i = 0; i < LS_COUNT(examples); i++) visit(&examples[i]);
        }
    }
}

const ls_adamw_params example_adamw = {0.9, 0.99, 1e-8};
static const ls_sgd_params sgd_params = {.momentum = 0.9}, nesterov_params = {.momentum = 0.8, .nesterov = true};
static const ls_lion_params lion_params = {0.9, 0.99};
static const ls_momentum_params momentum_params = {0.95};
static const ls_descend_params descend_params = {1.7};

/* The last size is enough for parameters to be written past the caches. */
static const int64_t units[] = {1, 2, 3, 21, 1300, 16563};

static void controls(visit_example visit) {
    static const contents of[] = {POSITIVE, SETTINGS, POISON};
    const operand hyper = {'D', HYPER, 1, {LS_HYPERS}, 0}, control = {'D', POISON, 1, {LS_CONTROLS}, 0};
    for (size_t c = 0; c < LS_COUNT(of); c++) {
        const operand totals = {'D', of[c], 1, {LS_TOTALS}, 0};
        const example e = {"step_control", NULL, 2, 1, {totals, hyper}, {control}};
        visit(&e);
    }
}

static void optimiser(visit_example visit) {
    enum { GROUPS_USED = 3 };
    for (size_t s = 0; s < LS_COUNT(units); s++) {
        const int64_t n = units[s] * LS_FLAT_UNIT;
        const operand x = {'G', NORMAL, 1, {n}, 0}, positive = {'G', POSITIVE, 1, {n}, 0};
        const operand param = {'T', POISON, 1, {n}, 0}, kept = {'T', NORMAL, 1, {n}, 0};
        const operand control = {'D', CONTROL, 1, {LS_CONTROLS}, 0}, skip = {'D', SKIP, 1, {LS_CONTROLS}, 0};
        const operand groups = {'I', GROUPS, 1, {units[s]}, GROUPS_USED};
        const operand one = {'I', IDS, 1, {units[s]}, 1};
        const operand settings = {'D', SETTINGS, 2, {GROUPS_USED, 2}, 0};
        const example examples[] = {
            {"adamw", &example_adamw, 4, 4, {x, control, one, settings}, {x, x, positive, param}},
            {"adamw", &example_adamw, 4, 4, {x, control, groups, settings}, {x, x, positive, param}},
            {"adamw", &example_adamw, 4, 4, {x, skip, groups, settings}, {x, x, positive, kept}},
            {"sgd", &sgd_params, 4, 3, {x, control, groups, settings}, {x, x, param}},
            {"sgd", &nesterov_params, 4, 3, {x, control, groups, settings}, {x, x, param}},
            {"sgd", &sgd_params, 4, 3, {x, skip, groups, settings}, {x, x, kept}},
            {"lion", &lion_params, 4, 3, {x, control, groups, settings}, {x, x, param}},
            {"lion", &lion_params, 4, 3, {x, skip, groups, settings}, {x, x, kept}},
            {"momentum", &momentum_params, 4, 2, {x, control, groups, settings}, {x, kept}},
            {"momentum", &momentum_params, 4, 2, {x, skip, groups, settings}, {x, kept}},
            {"descend", &descend_params, 4, 2, {kept, control, groups, settings}, {x, param}},
            {"descend", &descend_params, 4, 2, {kept, skip, groups, settings}, {x, kept}},
        };
        for (size_t i = 0; i < LS_COUNT(examples); i++) visit(&examples[i]);
    }
}

static void attention_rows(visit_example visit) {
    static const int64_t heads[][4] = {{1, 1, 1, 2}, {2, 5, 3, 6}, {1, 3, 2, 64}, {2, 150, 4, 80}};
    for (size_t s = 0; s < LS_COUNT(heads); s++) {
        const int64_t B = heads[s][0], n = heads[s][1], H = heads[s][2], D = heads[s][3];
        const operand o = {'T', NORMAL, 4, {B, n, H, D}, 0}, wide = {'G', NORMAL, 4, {B, n, H, D}, 0};
        const operand lse = {'G', NORMAL, 3, {B, H, n}, 0}, delta = {'G', POISON, 3, {B, H, n}, 0};
        const operand sink = {'T', NORMAL, 1, {H}, 0}, dsink = {'G', NORMAL, 1, {H}, 0};
        const example examples[] = {
            {"attention_delta", NULL, 2, 1, {o, o}, {delta}},
            {"attention_merge", NULL, 2, 2, {wide, lse}, {wide, lse}},
            {"attention_sink", NULL, 1, 2, {sink}, {wide, lse}},
            {"attention_sink_grad", NULL, 3, 1, {sink, lse, lse}, {dsink}},
        };
        for (size_t i = 0; i < LS_COUNT(examples); i++) visit(&examples[i]);
    }
}

/* Ends within a tile, at its border and beyond; many steps, many tiles, few tiles and long sums; rows at multiples of
 * 16 bytes, and not. */
static void products(visit_example visit) {
    static const int64_t shapes[][3] = {{1, 1, 1},      {3, 5, 7},      {72, 40, 200}, {64, 136, 33},
                                        {136, 128, 64}, {1100, 130, 2}, {8, 24, 1606}};
    for (int variant = 0; variant < (int)LS_COUNT(shapes) << 3; variant++) {
        const int64_t M = shapes[variant >> 3][0], N = shapes[variant >> 3][1], K = shapes[variant >> 3][2];
        const bool ta = variant & 1, tb = variant & 2, accumulate = variant & 4;
        const ls_matmul_params params = {ta, tb, accumulate};
        const operand A = {'T', NORMAL, 2, {ta ? K : M, ta ? M : K}, 0}, bias = {'T', NORMAL, 1, {N}, 0};
        const operand B = {'T', NORMAL, 2, {tb ? N : K, tb ? K : N}, 0};
        const operand C = {'T', accumulate ? NORMAL : POISON, 2, {M, N}, 0};
        const operand wide = {'G', accumulate ? NORMAL : POISON, 2, {M, N}, 0};
        const example examples[] = {
            {"matmul", &params, 2, 1, {A, B}, {wide}},
            {"matmul", &params, 3, 1, {A, B, bias}, {C}},
        };
        for (size_t i = 0; i < LS_COUNT(examples); i++) visit(&examples[i]);
    }
}

void make_cuda_call(const example *e, ls_dtype T, int64_t most_elements, run_cuda_call run) {
    array in[LS_KERNEL_INPUTS], out[LS_KERNEL_OUTPUTS];
    for (int i = 0; i < e->n_in; i++)
        if (elements(&e->in[i]) > most_elements) return;
    for (int i = 0; i < e->n_in; i++) in[i] = make_array(&e->in[i], T, (uint64_t)i);
    for (int i = 0; i < e->n_out; i++) out[i] = make_array(&e->out[i], T, 100 + (uint64_t)i);
    const ls_kernel_call call = make_call(e, in, out, false);
    const ls_kernel_request request = {
        .id = ls_kernel_named(e->name), .dtype = T, .device = LS_DEVICE_CUDA, .isa = LS_ISA_REF, .call = &call};
    run(e, &request, in, out);
    for (int i = 0; i < e->n_in; i++) free_array(&in[i]);
    for (int i = 0; i < e->n_out; i++) free_array(&out[i]);
}

const example_group example_groups[] = {
    {"elementwise", elementwise, false},
    {"general ops", visit_general_examples, false},
    {"apart", apart, false},
    {"activations", activations, false},
    {"convolutions", convolutions, false},
    {"recurrences", recurrences, false},
    {"linear recurrences", visit_recurrence_examples, false},
    {"recurrent cells", visit_rnn_examples, false},
    {"norms", visit_norm_examples, false},
    {"norms of many tokens", visit_norms_of_many_tokens, false},
    {"sums", sums, false},
    {"exact sums", exact_sums, true},
    {"many tokens", many_tokens, false},
    {"embeddings", embeddings, false},
    {"caches", caches, false},
    {"rotations", rotations, false},
    {"cross entropies", cross_entropies, false},
    {"controls", controls, false},
    {"optimiser", optimiser, false},
    {"products", products, false},
    {"rows of attention", attention_rows, false},
    {"rows of scores", visit_score_examples, true},
};
const int n_example_groups = (int)LS_COUNT(example_groups);
