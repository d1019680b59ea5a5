/*
 * contract: y[m,n,i,j] = the sum over k and l of a[m,n,i,k,l] b[m,n,k,l,j], for many small products. A vector has
 * columns j; or it has terms, if these are adjacent in both operands and columns are not. In each lane, sums over FLUSH
 * terms are in f32, and these are added in f64, because long sums are over tokens.
 */
#include "kernel/cpu/cpu_impl.h"

enum { COLUMNS = 64, VECTORS = COLUMNS / V_LANES, FLUSH = 64 };

typedef struct row_of {
    const element *a, *b;
    const ls_view *of_a, *of_b;
} row_of;

/* `count` columns, at most COLUMNS, of b at term t. */
V_INLINE void load_columns(const row_of *r, int64_t t, int64_t count, v_f32 out[VECTORS]) {
    const int64_t L = r->of_a->size[4], stride = r->of_b->stride[4];
    const element *b = r->b + t / L * r->of_b->stride[2] + t % L * r->of_b->stride[3];
    for (int v = 0; v < VECTORS; v++) {
        if (stride == 1) {
            out[v] = v_load(b + v * V_LANES, count - v * V_LANES);
            continue;
        }
        out[v] = (v_f32){0};
        for (int l = 0; l < V_LANES && v * V_LANES + l < count; l++)
            out[v][l] = element_to_f32(b[(v * V_LANES + l) * stride]);
    }
}

/* The sums of a row of a and `count` columns. */
static void sum_terms(const row_of *r, int64_t count, double total[COLUMNS]) {
    const int64_t L = r->of_a->size[4], terms = r->of_a->size[3] * L;
    for (int j = 0; j < COLUMNS; j++) total[j] = 0;
    for (int64_t first = 0; first < terms; first += FLUSH) {
        v_f32 sum[VECTORS] = {{0}}, column[VECTORS];
        for (int64_t t = first; t < ls_min(terms, first + FLUSH); t++) {
            const float x = element_to_f32(r->a[t / L * r->of_a->stride[3] + t % L * r->of_a->stride[4]]);
            load_columns(r, t, count, column);
            for (int v = 0; v < VECTORS; v++) sum[v] += column[v] * x;
        }
        for (int v = 0; v < VECTORS; v++)
            for (int l = 0; l < V_LANES; l++) total[v * V_LANES + l] += (double)sum[v][l];
    }
}

/* How terms lie in memory: `inner` of them are adjacent in both operands; inner 0: in one operand they are not. */
typedef struct terms_of {
    int64_t outer, inner, a_outer, b_outer;
} terms_of;

static terms_of terms_of_call(const ls_view *a, const ls_view *b) {
    if (a->size[4] == 1) /* the terms are those of k alone */
        return (terms_of){1, a->stride[3] == 1 && b->stride[2] == 1 ? a->size[3] : 0, 0, 0};
    return (terms_of){a->size[3], a->stride[4] == 1 && b->stride[3] == 1 ? a->size[4] : 0, a->stride[3], b->stride[2]};
}

/* The sum of a row of a and a column of b. */
static double sum_vectors(const terms_of *t, const element *a, const element *b) {
    enum { STEP = FLUSH * V_LANES };
    double total = 0;
    for (int64_t k = 0; k < t->outer; k++) {
        const element *x = a + k * t->a_outer, *y = b + k * t->b_outer;
        for (int64_t first = 0; first < t->inner; first += STEP) {
            const int64_t past = ls_min(t->inner, first + STEP);
            v_f32 sum = {0};
            for (int64_t l = first; l < past; l += V_LANES) sum += v_load(x + l, past - l) * v_load(y + l, past - l);
            total += (double)v_sum_lanes(sum);
        }
    }
    return total;
}

static void store(const ls_view *y, int64_t i, float value, bool adds) {
    if (y->dtype == LS_F32) {
        float *to = (float *)y->data + i;
        *to = adds ? *to + value : value;
    } else {
        element *to = (element *)y->data + i;
        *to = element_from_f32(adds ? element_to_f32(*to) + value : value);
    }
}

/* Rows first .. last-1 of all [M,N,I]. */
static void contract_part(const void *context, int part, int64_t first, int64_t last) {
    (void)part;
    const ls_kernel_call *call = context;
    const ls_view *a = &call->in[0], *b = &call->in[1], *y = &call->out[0];
    const bool adds = ((const ls_contract_params *)call->params)->accumulate;
    const terms_of terms = terms_of_call(a, b);
    const bool by_terms = terms.inner >= V_LANES && (b->stride[4] != 1 || y->size[3] == 1);
    for (int64_t row = first; row < last; row++) {
        const int64_t i = row % y->size[2], n = row / y->size[2] % y->size[1], m = row / y->size[2] / y->size[1];
        const int64_t to = m * y->stride[0] + n * y->stride[1] + i * y->stride[2];
        for (int64_t j = 0; j < y->size[3]; j += COLUMNS) {
            const row_of r = {(const element *)a->data + m * a->stride[0] + n * a->stride[1] + i * a->stride[2],
                              (const element *)b->data + m * b->stride[0] + n * b->stride[1] + j * b->stride[4], a, b};
            const int64_t count = ls_min(COLUMNS, y->size[3] - j);
            double total[COLUMNS];
            for (int64_t k = 0; k < count && by_terms; k++) total[k] = sum_vectors(&terms, r.a, r.b + k * b->stride[4]);
            if (!by_terms) sum_terms(&r, count, total);
            for (int64_t k = 0; k < count; k++) store(y, to + (j + k) * y->stride[3], (float)total[k], adds);
        }
    }
}

static ls_status contract_prepare(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_CONTRACT, call, state);
}

static void contract_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const ls_view *y = &call->out[0], *a = &call->in[0];
    run_elements(call, pool, y->size[0] * y->size[1] * y->size[2], y->size[3] * a->size[3] * a->size[4], contract_part);
}

const ls_kernel LS_CPU_NAME(contract) = {
    .id = LS_KERNEL_CONTRACT, LS_CPU_VARIANT, .prepare = contract_prepare, .run = contract_run};
