/*
 * The cpu kernels of every instruction set of this machine, for f32 and bf16, against the reference in f64 on the
 * same inputs (rounded to the type first). Outputs and workspaces start as NaN. Each call runs twice and must give
 * the same bits.
 */
#include "support/kernel_call.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What an operand holds: T, G as in kernel.h; W f32 where a bf16 kernel may take T or f32; I i32; D f64. */
typedef enum contents {
    NORMAL,
    POSITIVE,
    IDS,
    LABELS,
    POSITIONS,
    CONTROL,
    SKIP,
    GROUPS, /* of limit many, in runs of several lengths; some units have none */
    SETTINGS,
    POISON
} contents;

typedef struct operand {
    char type;
    contents contents;
    int ndim;
    int64_t size[LS_MAX_DIMS];
    int64_t limit; /* of ids, labels and groups */
} operand;

typedef struct example {
    const char *name;
    const void *params;
    int n_in, n_out;
    operand in[LS_KERNEL_INPUTS], out[LS_KERNEL_OUTPUTS];
} example;

typedef struct array {
    double *exact; /* what the reference gets */
    void *typed;   /* the same values in the tested type */
    ls_dtype dtype;
    int64_t n;
} array;

static ls_dtype dtype_of(char type, ls_dtype T) {
    switch (type) {
    case 'T':
        return T;
    case 'I':
        return LS_I32;
    case 'D':
        return LS_F64;
    default:
        return T == LS_F64 ? LS_F64 : LS_F32;
    }
}

static double value_of(const operand *o, uint64_t stream, int64_t i) {
    static const double control[LS_CONTROLS] = {1, 0.7, 1e-2, 0.271, 0.0297, 3};
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
    case POSITIONS:
        return (double)(i * 37);
    case CONTROL:
        return control[i];
    case SKIP:
        return i == LS_CONTROL_APPLY ? 0 : control[i];
    case GROUPS:
        return (double)((i / 5 + i / 8) % (o->limit + 1) - 1);
    case SETTINGS:
        return i % 2 == 0 ? 1 - 0.25 * (double)i : 0.1 * (double)(i / 2);
    default:
        return NAN;
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
    return ((const double *)a->typed)[i];
}

static int64_t elements(const operand *o) {
    int64_t n = 1;
    for (int d = 0; d < o->ndim; d++) n *= o->size[d];
    return n;
}

static array make_array(const operand *o, ls_dtype T, uint64_t stream) {
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
    return ls_view_dense(exact ? (void *)a->exact : a->typed, dtype, o->ndim, o->size);
}

/* ‖a − exact‖ / ‖exact‖; infinity where one is NaN and the other is not. */
static double norm_error(const array *a, const double *exact) {
    double error = 0, norm = 0;
    for (int64_t i = 0; i < a->n; i++) {
        const double x = get(a, i), y = exact[i];
        if (isnan(x) != isnan(y)) return INFINITY;
        if (isnan(x) || x == y) continue;
        error += (x - y) * (x - y);
    }
    for (int64_t i = 0; i < a->n; i++) norm += isnan(exact[i]) ? 0 : exact[i] * exact[i];
    return error == 0 ? 0 : sqrt(error / norm);
}

/* One rounding to bf16 is 2^-8 at most. */
static double tolerance(ls_dtype dtype) { return dtype == LS_BF16 ? 0x1.01p-8 : dtype == LS_F32 ? 2e-6 : 1e-12; }

static ls_kernel_call make_call(const example *e, const array *in, const array *out, bool exact) {
    ls_kernel_call call = {.n_in = e->n_in, .n_out = e->n_out, .params = e->params};
    for (int i = 0; i < e->n_in; i++) call.in[i] = view_of(&e->in[i], &in[i], exact);
    for (int i = 0; i < e->n_out; i++) call.out[i] = view_of(&e->out[i], &out[i], exact);
    return call;
}

static void free_array(array *a) {
    free(a->exact);
    free(a->typed);
}

/* A second array of the same contents, without exact values. */
static array copy_array(const array *a) {
    const size_t bytes = ls_dtype_bytes(a->dtype) * (size_t)a->n;
    array copy = {.typed = aligned_alloc(64, ls_round_up(bytes, 64)), .dtype = a->dtype, .n = a->n};
    memcpy(copy.typed, a->typed, bytes);
    return copy;
}

/* Runs twice from the outputs' first contents and compares with their exact values, and with each other. */
static void run_example(const example *e, ls_dtype T, ls_isa isa, int threads, const array *in, const array *out) {
    array got[2][LS_KERNEL_OUTPUTS];
    for (int twice = 0; twice < 2; twice++) {
        for (int i = 0; i < e->n_out; i++) got[twice][i] = copy_array(&out[i]);
        run_kernel(e->name, T, isa, threads, make_call(e, in, got[twice], false));
    }
    for (int i = 0; i < e->n_out; i++) {
        const double error = norm_error(&got[0][i], out[i].exact);
        if (!(error <= tolerance(out[i].dtype)))
            fail_msg("%s %s %s, %d threads, output %d of %lld: error %g", e->name, ls_dtype_name(T), ls_isa_name(isa),
                     threads, i, (long long)out[i].n, error);
        if (memcmp(got[0][i].typed, got[1][i].typed, ls_dtype_bytes(out[i].dtype) * (size_t)out[i].n) != 0)
            fail_msg("%s %s %s, %d threads, output %d: other bits the second time", e->name, ls_dtype_name(T),
                     ls_isa_name(isa), threads, i);
        free_array(&got[0][i]);
        free_array(&got[1][i]);
    }
}

static void run_type(const example *e, ls_dtype T) {
    array in[LS_KERNEL_INPUTS], out[LS_KERNEL_OUTPUTS];
    for (int i = 0; i < e->n_in; i++) in[i] = make_array(&e->in[i], T, (uint64_t)i);
    for (int i = 0; i < e->n_out; i++) out[i] = make_array(&e->out[i], T, (uint64_t)(100 + i));
    run_kernel(e->name, LS_F64, LS_ISA_REF, 1, make_call(e, in, out, true));
    for (ls_isa isa = LS_ISA_BASE; isa < LS_ISA_COUNT; isa++) {
        if (ls_isa_check(isa).code != LS_OK) continue;
        for (int threads = 1; threads <= 3; threads++) run_example(e, T, isa, threads, in, out);
    }
    for (int i = 0; i < e->n_in; i++) free_array(&in[i]);
    for (int i = 0; i < e->n_out; i++) free_array(&out[i]);
}

static void run_everywhere(const example *e) {
    run_type(e, LS_F32);
    run_type(e, LS_BF16);
}

/* Rows and columns: one, odd, on and off the vector, enough for several tasks. */
static const int64_t sizes[][2] = {{1, 1}, {3, 5}, {7, 16}, {2, 33}, {130, 64}, {1, 4099}, {700, 96}};

static void elementwise(void **unused) {
    (void)unused;
    const ls_scale_params half = {0.37};
    const ls_combine_params both = {-1.3, 0.6};
    for (size_t s = 0; s < LS_COUNT(sizes); s++) {
        const int64_t n = sizes[s][0], E = sizes[s][1];
        const operand x = {'T', NORMAL, 2, {n, E}, 0}, y = {'T', POISON, 2, {n, E}, 0}, kept = x;
        const operand c = {'G', NORMAL, 1, {1}, 0}, wide = {'G', POISON, 2, {n, E}, 0};
        const example examples[] = {
            {"add", NULL, 2, 1, {x, x}, {y}},       {"mul", NULL, 2, 1, {x, x}, {y}},
            {"scale", &half, 1, 1, {x}, {y}},       {"scale_by", NULL, 2, 1, {x, c}, {y}},
            {"combine", &both, 1, 1, {x}, {kept}},  {"normalize", NULL, 1, 1, {x}, {y}},
            {"swiglu", NULL, 2, 1, {x, x}, {y}},    {"swiglu_grad", NULL, 3, 2, {x, x, x}, {y, y}},
            {"broadcast", NULL, 1, 1, {c}, {wide}}, {"cast", NULL, 1, 1, {x}, {y}},
            {"cast", NULL, 1, 1, {x}, {wide}},      {"copy", NULL, 1, 1, {x}, {y}},
            {"fill", NULL, 0, 1, {{0}}, {y}},
        };
        for (size_t i = 0; i < LS_COUNT(examples); i++) run_everywhere(&examples[i]);
    }
}

static void activations(void **unused) {
    (void)unused;
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
            for (size_t i = 0; i < LS_COUNT(examples); i++) run_everywhere(&examples[i]);
        }
    }
}

static void convolutions(void **unused) {
    (void)unused;
    static const int64_t shapes[][4] = {{1, 1, 1, 1}, {2, 5, 3, 7}, {1, 130, 4, 33}, {2, 300, 2, 64}};
    for (size_t s = 0; s < LS_COUNT(shapes); s++) {
        const int64_t B = shapes[s][0], n = shapes[s][1], W = shapes[s][2], E = shapes[s][3];
        const operand x = {'T', NORMAL, 3, {B, n + W - 1, E}, 0}, weight = {'T', NORMAL, 2, {W, E}, 0};
        const operand y = {'T', POISON, 3, {B, n, E}, 0}, dy = {'T', NORMAL, 3, {B, n, E}, 0};
        const operand dweight = {'G', NORMAL, 2, {W, E}, 0};
        for (int ahead = 0; ahead < 2; ahead++) {
            const ls_conv_params params = {.ahead = ahead != 0};
            const example examples[] = {
                {"conv", &params, 2, 1, {x, weight}, {y}},
                {"conv_dw", &params, 2, 1, {x, dy}, {dweight}},
            };
            for (size_t i = 0; i < LS_COUNT(examples); i++) run_everywhere(&examples[i]);
        }
    }
}

static void recurrences(void **unused) {
    (void)unused;
    static const int64_t shapes[][4] = {{1, 1, 1, 1}, {2, 5, 3, 7}, {1, 130, 4, 33}, {2, 300, 2, 64}};
    for (size_t s = 0; s < LS_COUNT(shapes); s++) {
        const int64_t B = shapes[s][0], n = shapes[s][1], M = shapes[s][2], E = shapes[s][3];
        const operand gate = {'T', POSITIVE, 3, {B, n, E}, 0}, x = {'T', NORMAL, 3, {B, n, E}, 0};
        const operand h = {'T', POISON, 3, {B, n, E}, 0}, start = {'G', NORMAL, 2, {B, E}, 0};
        const operand map = {'G', POISON, 3, {2, B, E}, 0}, maps = {'G', NORMAL, 4, {M, 2, B, E}, 0};
        for (int backwards = 0; backwards < 2; backwards++) {
            const ls_recurrence_params params = {.backwards = backwards != 0};
            const example examples[] = {
                {"recurrence", &params, 3, 1, {gate, x, start}, {h}},
                {"recurrence_map", &params, 2, 1, {gate, x}, {map}},
                {"recurrence_follow", &params, 1, 1, {maps}, {start}},
            };
            for (size_t i = 0; i < LS_COUNT(examples); i++) run_everywhere(&examples[i]);
        }
    }
}

static void norms(void **unused) {
    (void)unused;
    const ls_norm_params params = {.epsilon = 1e-5, .offset = 0.75};
    for (size_t s = 0; s < LS_COUNT(sizes); s++) {
        const int64_t n = sizes[s][0], E = sizes[s][1];
        const operand x = {'T', NORMAL, 2, {n, E}, 0}, y = {'T', POISON, 2, {n, E}, 0};
        const operand weight = {'T', NORMAL, 1, {E}, 0}, dweight = {'G', NORMAL, 1, {E}, 0};
        const operand rstd = {'G', POSITIVE, 1, {n}, 0}, rstd_out = {'G', POISON, 1, {n}, 0};
        const example examples[] = {
            {"rmsnorm", &params, 2, 2, {x, weight}, {y, rstd_out}},
            {"rmsnorm_grad", &params, 4, 2, {x, weight, rstd, x}, {y, dweight}},
            {"column_sum", NULL, 1, 1, {x}, {dweight}},
            {"layernorm", &params, 2, 3, {x, weight}, {y, rstd_out, rstd_out}},
            {"layernorm", &params, 3, 3, {x, weight, weight}, {y, rstd_out, rstd_out}},
            {"layernorm_grad", &params, 5, 2, {x, weight, rstd, rstd, x}, {y, dweight}},
        };
        for (size_t i = 0; i < LS_COUNT(examples); i++) run_everywhere(&examples[i]);
    }
}

static void sums(void **unused) {
    (void)unused;
    for (size_t s = 0; s < LS_COUNT(sizes); s++) {
        const int64_t n = sizes[s][0] * 9, E = sizes[s][1];
        const operand x = {'G', NORMAL, 2, {n, E}, 0}, one = {'G', NORMAL, 1, {1}, 0}, f64 = {'D', NORMAL, 1, {1}, 0};
        const operand narrow = {'T', NORMAL, 2, {n, E}, 0}, row = {'G', POISON, 1, {E}, 0};
        const example examples[] = {
            {"sum", NULL, 1, 1, {x}, {one}},      {"sum_squares", NULL, 1, 1, {x}, {f64}},
            {"accumulate", NULL, 1, 1, {x}, {x}}, {"accumulate", NULL, 1, 1, {narrow}, {x}},
            {"add_rows", NULL, 1, 1, {x}, {row}},
        };
        for (size_t i = 0; i < LS_COUNT(examples); i++) run_everywhere(&examples[i]);
    }
}

/* Sums over as many tokens as a rank may hold stay accurate. */
static void many_tokens(void **unused) {
    (void)unused;
    const ls_norm_params params = {.epsilon = 1e-5, .offset = 0.75};
    const ls_embedding_params every = {-1};
    const int64_t n = 16384, E = 33, V = 7;
    const operand x = {'T', POSITIVE, 2, {n, E}, 0}, y = {'T', POISON, 2, {n, E}, 0};
    const operand weight = {'T', NORMAL, 1, {E}, 0}, zero = {'G', NORMAL, 1, {E}, 0};
    const operand rstd = {'G', POSITIVE, 1, {n}, 0}, ids = {'I', IDS, 1, {n}, V}, dtable = {'G', NORMAL, 2, {V, E}, 0};
    const example examples[] = {
        {"rmsnorm_grad", &params, 4, 2, {x, weight, rstd, x}, {y, zero}},
        {"layernorm_grad", &params, 5, 2, {x, weight, rstd, rstd, x}, {y, zero}},
        {"column_sum", NULL, 1, 1, {x}, {zero}},
        {"embedding_grad", &every, 2, 1, {ids, x}, {dtable}},
    };
    for (size_t i = 0; i < LS_COUNT(examples); i++) run_everywhere(&examples[i]);
}

static void embeddings(void **unused) {
    (void)unused;
    const ls_embedding_params every = {-1}, padded = {3};
    for (size_t s = 0; s < LS_COUNT(sizes); s++) {
        const int64_t n = sizes[s][0], E = sizes[s][1], V = 11;
        const operand ids = {'I', IDS, 1, {n}, V}, table = {'T', NORMAL, 2, {V, E}, 0};
        const operand x = {'T', NORMAL, 2, {n, E}, 0}, y = {'T', POISON, 2, {n, E}, 0};
        const operand dtable = {'G', NORMAL, 2, {V, E}, 0};
        const example examples[] = {
            {"embedding", NULL, 2, 1, {ids, table}, {y}},
            {"embedding_grad", &every, 2, 1, {ids, x}, {dtable}},
            {"embedding_grad", &padded, 2, 1, {ids, x}, {dtable}},
        };
        for (size_t i = 0; i < LS_COUNT(examples); i++) run_everywhere(&examples[i]);
    }
}

static void rotations(void **unused) {
    (void)unused;
    const ls_rotate_params forward = {false}, backward = {true};
    const ls_rope_params rope = {.theta = 10000,
                                 .scaling = LS_ROPE_LLAMA3,
                                 .factor = 8,
                                 .low_factor = 1,
                                 .high_factor = 4,
                                 .original_length = 256};
    static const int64_t heads[][3] = {{1, 1, 2}, {5, 3, 6}, {3, 2, 64}, {300, 4, 80}};
    for (size_t s = 0; s < LS_COUNT(heads); s++) {
        const int64_t n = heads[s][0], H = heads[s][1], D = heads[s][2];
        const operand x = {'T', NORMAL, 3, {n, H, D}, 0}, y = {'T', POISON, 3, {n, H, D}, 0};
        const operand table = {'G', NORMAL, 2, {n, D}, 0}, positions = {'I', POSITIONS, 1, {n}, 0};
        const operand table_out = {'G', POISON, 2, {n, D}, 0};
        const example examples[] = {
            {"rotate", &forward, 2, 1, {x, table}, {y}},
            {"rotate", &backward, 2, 1, {x, table}, {y}},
            {"rope_table", &rope, 1, 1, {positions}, {table_out}},
        };
        for (size_t i = 0; i < LS_COUNT(examples); i++) run_everywhere(&examples[i]);
    }
}

static void cross_entropies(void **unused) {
    (void)unused;
    for (size_t s = 0; s < LS_COUNT(sizes); s++) {
        const int64_t n = sizes[s][0], V = sizes[s][1];
        const operand labels = {'I', LABELS, 1, {n}, V}, column = {'G', NORMAL, 1, {n}, 0};
        const operand out = {'G', POISON, 1, {n}, 0}, dlogits = {'T', POISON, 2, {n, V}, 0};
        for (const char *type = "TW"; *type; type++) {
            const operand logits = {*type, NORMAL, 2, {n, V}, 0};
            const example examples[] = {
                {"cross_entropy", NULL, 2, 2, {logits, labels}, {out, out}},
                {"cross_entropy_grad", NULL, 4, 1, {logits, labels, column, column}, {dlogits}},
            };
            for (size_t i = 0; i < LS_COUNT(examples); i++) run_everywhere(&examples[i]);
        }
    }
}

static const ls_adamw_params adamw_params = {0.9, 0.99, 1e-8};
static const ls_sgd_params sgd_params = {.momentum = 0.9}, nesterov_params = {.momentum = 0.8, .nesterov = true};
static const ls_lion_params lion_params = {0.9, 0.99};
static const ls_momentum_params momentum_params = {0.95};
static const ls_descend_params descend_params = {1.7};

/* The last size is enough for parameters to be written past the caches. */
static const int64_t units[] = {1, 2, 3, 21, 1300, 16563};

static void optimiser(void **unused) {
    (void)unused;
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
            {"adamw", &adamw_params, 4, 4, {x, control, one, settings}, {x, x, positive, param}},
            {"adamw", &adamw_params, 4, 4, {x, control, groups, settings}, {x, x, positive, param}},
            {"adamw", &adamw_params, 4, 4, {x, skip, groups, settings}, {x, x, positive, kept}},
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
        for (size_t i = 0; i < LS_COUNT(examples); i++) run_everywhere(&examples[i]);
    }
}

/* Elements from..from + n - 1 of the operands of a call of adamw, whose units have the groups given. */
static ls_kernel_call update_call(const array *arrays, int64_t from, int64_t n, int32_t *groups, double *control,
                                  double *settings, int64_t rows) {
    ls_kernel_call call = {.n_in = 4, .n_out = 4, .params = &adamw_params};
    ls_view view[5];
    for (int i = 0; i < 5; i++)
        view[i] = ls_view_dense((char *)arrays[i].typed + ls_dtype_bytes(arrays[i].dtype) * (size_t)from,
                                arrays[i].dtype, 1, &n);
    const int64_t controls = LS_CONTROLS, of_call = n / LS_FLAT_UNIT, table[] = {rows, 2};
    call.in[0] = view[0];
    call.in[1] = ls_view_dense(control, LS_F64, 1, &controls);
    call.in[2] = ls_view_dense(groups, LS_I32, 1, &of_call);
    call.in[3] = ls_view_dense(settings, LS_F64, 2, table);
    memcpy(call.out, &view[1], 4 * sizeof *view);
    return call;
}

/*
 * Where a parameter lies in a call, and what lies beside it, changes none of its bits; a unit without a group keeps its
 * own.
 */
static void one_update_of_many(ls_dtype T, ls_isa isa) {
    enum { UNITS = 700, N = UNITS * LS_FLAT_UNIT };
    static const contents of[] = {NORMAL, NORMAL, NORMAL, POSITIVE, NORMAL}; /* gradient, master, m, v, param */
    double control[LS_CONTROLS], settings[3][2];
    int32_t groups[UNITS], zeros[UNITS] = {0};
    array first[5], together[5], apart[5];
    for (int i = 0; i < LS_CONTROLS; i++) control[i] = value_of(&(operand){.contents = CONTROL}, 0, i);
    for (int i = 0; i < 6; i++) settings[i / 2][i % 2] = value_of(&(operand){.contents = SETTINGS}, 0, i);
    for (int i = 0; i < UNITS; i++) groups[i] = (int32_t)value_of(&(operand){.contents = GROUPS, .limit = 3}, 0, i);
    for (int i = 0; i < 5; i++) {
        first[i] = make_array(&(operand){i < 4 ? 'G' : 'T', of[i], 1, {N}, 0}, T, (uint64_t)i);
        together[i] = copy_array(&first[i]);
        apart[i] = copy_array(&first[i]);
    }
    run_kernel("adamw", T, isa, 3, update_call(together, 0, N, groups, control, settings[0], 3));
    for (int u = 0, end; u < UNITS; u = end) {
        for (end = u + 1; end < UNITS && groups[end] == groups[u];) end++;
        if (groups[u] < 0) continue;
        run_kernel(
            "adamw", T, isa, 1,
            update_call(apart, u * LS_FLAT_UNIT, (end - u) * LS_FLAT_UNIT, zeros, control, settings[groups[u]], 1));
    }
    for (int i = 0; i < 5; i++) {
        if (memcmp(together[i].typed, apart[i].typed, ls_dtype_bytes(apart[i].dtype) * N) != 0)
            fail_msg("adamw %s %s: operand %d differs from that of one call for each parameter", ls_dtype_name(T),
                     ls_isa_name(isa), i);
        free_array(&first[i]);
        free_array(&together[i]);
        free_array(&apart[i]);
    }
}

static void updates_of_many(void **unused) {
    (void)unused;
    ls_machine machine;
    ls_machine_detect(&machine);
    for (ls_isa isa = LS_ISA_REF; isa <= machine.isa; isa++) {
        one_update_of_many(LS_F32, isa);
        if (isa > LS_ISA_REF) one_update_of_many(LS_BF16, isa);
    }
}

static void deltas(void **unused) {
    (void)unused;
    static const int64_t heads[][4] = {{1, 1, 1, 2}, {2, 5, 3, 6}, {1, 3, 2, 64}, {2, 150, 4, 80}};
    for (size_t s = 0; s < LS_COUNT(heads); s++) {
        const int64_t B = heads[s][0], n = heads[s][1], H = heads[s][2], D = heads[s][3];
        const operand o = {'T', NORMAL, 4, {B, n, H, D}, 0}, delta = {'G', POISON, 3, {B, H, n}, 0};
        const example e = {"attention_delta", NULL, 2, 1, {o, o}, {delta}};
        run_everywhere(&e);
    }
}

/*
 * silu over its whole range, and beyond, in units in the last place: the exponential's 2, a quotient's 1 and two
 * roundings.
 */
static void sigmoids(void **unused) {
    (void)unused;
    enum { n = 40000 };
    float *x = malloc(sizeof(float) * n), *y = malloc(sizeof(float) * n);
    for (int i = 0; i < n; i++) x[i] = -86.0f + 186.0f * (float)i / n;
    static const ls_activation_params silu = {LS_ACTIVATION_SILU, 0};
    static const float ends[] = {-1000.0f, -88.0f, 88.0f, 1000.0f, INFINITY, NAN};
    const int64_t size = n;
    memcpy(x, ends, sizeof ends);
    for (ls_isa isa = LS_ISA_BASE; isa < LS_ISA_COUNT; isa++) {
        if (ls_isa_check(isa).code != LS_OK) continue;
        const ls_kernel_call call = {.n_in = 1,
                                     .n_out = 1,
                                     .params = &silu,
                                     .in = {ls_view_dense(x, LS_F32, 1, &size)},
                                     .out = {ls_view_dense(y, LS_F32, 1, &size)}};
        run_kernel("activation", LS_F32, isa, 1, call);
        double worst = 0;
        for (int i = LS_COUNT(ends); i < n; i++) {
            const double exact = (double)x[i] / (1 + exp(-(double)x[i]));
            int exponent;
            frexp(exact, &exponent);
            worst = fmax(worst, fabs((double)y[i] - exact) / ldexp(1, exponent - 24));
        }
        print_message("silu, %s: %.2f ulp\n", ls_isa_name(isa), worst);
        assert_true(worst <= 4);
        assert_true(fabsf(y[0]) < 1e-34f && fabsf(y[1]) < 1e-35f);
        assert_true(y[2] == 88.0f && y[3] == 1000.0f && y[4] == INFINITY && isnan(y[5]));
    }
    free(x);
    free(y);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolutions),    cmocka_unit_test(recurrences), cmocka_unit_test(activations),
        cmocka_unit_test(elementwise),     cmocka_unit_test(norms),       cmocka_unit_test(sums),
        cmocka_unit_test(many_tokens),     cmocka_unit_test(embeddings),  cmocka_unit_test(rotations),
        cmocka_unit_test(cross_entropies), cmocka_unit_test(optimiser),   cmocka_unit_test(updates_of_many),
        cmocka_unit_test(deltas),          cmocka_unit_test(sigmoids),
    };
    return cmocka_run_group_tests(tests, say_missing_isas, NULL);
}
