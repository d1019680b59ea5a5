#include "kernel/cpu/matmul_impl.h"

#include <dnnl.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/base.h"

/*
 * Debian's oneDNN is built with OpenMP. Its loops read the number of threads that the calling thread may use, a setting
 * of that thread only; with 1 they run inline. The functions are weak because a oneDNN built without OpenMP does not
 * link libgomp.
 */
int omp_get_max_threads(void) __attribute__((weak));
void omp_set_num_threads(int) __attribute__((weak));

static int begin_single_thread(void) {
    if (omp_get_max_threads == NULL || omp_set_num_threads == NULL) return 0;
    const int before = omp_get_max_threads();
    omp_set_num_threads(1);
    return before;
}

static void end_single_thread(int before) {
    if (before > 0) omp_set_num_threads(before);
}

enum { A, B, C, SCRATCH, BIAS, ARGUMENTS };
static const int argument_name[ARGUMENTS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD,
                                             DNNL_ARG_BIAS};

struct ls_onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_desc_t description;
    dnnl_primitive_t primitive;
    int n_arguments;
    dnnl_exec_arg_t arguments[ARGUMENTS];
};

/* Makes a call if all calls before it succeeded. */
#define STEP(status, call) \
    if ((status) == dnnl_success) (status) = (call)

/*
 * If there is only one row, or only one column, the stride between rows, or columns, has no effect; it is then derived
 * from the sizes. oneDNN caches the descriptions that it has made, and treats two descriptions as equal that differ
 * only in such a stride. But it may have chosen another implementation for each, with another size of scratch memory.
 * Then the memory that a product needs would depend on which one was described first.
 */
static dnnl_status_t matrix(dnnl_memory_desc_t *out, int64_t rows, int64_t columns, int64_t row, int64_t column,
                            ls_dtype dtype) {
    if (columns == 1) column = row == 1 ? rows : 1;
    if (rows == 1) row = column == 1 ? columns : 1;
    const dnnl_dims_t size = {rows, columns}, stride = {row, column};
    return dnnl_memory_desc_init_by_strides(out, 2, size, dtype == LS_BF16 ? dnnl_bf16 : dnnl_f32, stride);
}

/* Sets oneDNN's own limit from LONGSPAN_ISA; it must be set before oneDNN is first used. */
static void limit_isa(void) {
    /* The last row that the limit allows is taken. */
    static const struct {
        ls_features needs;
        dnnl_cpu_isa_t most;
    } limits[] = {{0, dnnl_cpu_isa_sse41},
                  {LS_FEATURE_AVX2, dnnl_cpu_isa_avx2},
                  {LS_FEATURE_AVX512, dnnl_cpu_isa_avx512_core},
                  {LS_FEATURE_AVX512_BF16, dnnl_cpu_isa_avx512_core_bf16},
                  {LS_FEATURE_AMX_BF16, dnnl_cpu_isa_all}};
    ls_isa isa = LS_ISA_REF;
    if (getenv(LS_ISA_VARIABLE) == NULL) return;
    if (ls_isa_limit(&isa).code != LS_OK) return; /* reported where kernels are chosen */
    size_t i = LS_COUNT(limits) - 1;
    while (!ls_isa_allows(isa, limits[i].needs)) i--;
    const dnnl_status_t status = dnnl_set_max_cpu_isa(limits[i].most);
    if (status != dnnl_success)
        ls_log("this oneDNN cannot limit its instruction set: " LS_ISA_VARIABLE
               " has no effect on its matrix products");
}

static void set_limit_once(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, limit_isa);
}

static dnnl_status_t make_attributes(bool accumulate, dnnl_primitive_attr_t *out) {
    dnnl_post_ops_t after = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(out);
    STEP(status, dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user));
    STEP(status, dnnl_post_ops_create(&after));
    if (accumulate) STEP(status, dnnl_post_ops_append_sum(after, 1.0f));
    STEP(status, dnnl_primitive_attr_set_post_ops(*out, after));
    dnnl_post_ops_destroy(after);
    return status;
}

static dnnl_status_t describe(const ls_cpu_product *p, ls_onednn *o, dnnl_memory_desc_t md[ARGUMENTS]) {
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_matmul_desc_t desc;
    set_limit_once();
    dnnl_status_t status = dnnl_engine_create(&o->engine, dnnl_cpu, 0);
    STEP(status, matrix(&md[A], p->M, p->K, p->a_row, p->a_column, p->in));
    STEP(status, matrix(&md[B], p->K, p->N, p->b_row, p->b_column, p->in));
    STEP(status, matrix(&md[C], p->M, p->N, p->c_row, 1, p->out));
    STEP(status, matrix(&md[BIAS], 1, p->N, p->N, 1, p->in));
    STEP(status, make_attributes(p->accumulate, &attributes));
    STEP(status, dnnl_matmul_desc_init(&desc, &md[A], &md[B], p->bias ? &md[BIAS] : NULL, &md[C]));
    STEP(status, dnnl_primitive_desc_create(&o->description, &desc, attributes, o->engine, NULL));
    if (status == dnnl_success)
        md[SCRATCH] = *dnnl_primitive_desc_query_md(o->description, dnnl_query_scratchpad_md, 0);
    if (attributes) dnnl_primitive_attr_destroy(attributes);
    return status;
}

static void clear(ls_onednn *o) {
    for (int i = 0; i < o->n_arguments; i++) dnnl_memory_destroy(o->arguments[i].memory);
    if (o->primitive) dnnl_primitive_destroy(o->primitive);
    if (o->description) dnnl_primitive_desc_destroy(o->description);
    if (o->stream) dnnl_stream_destroy(o->stream);
    if (o->engine) dnnl_engine_destroy(o->engine);
}

static ls_status refusal(const ls_cpu_product *p, dnnl_status_t status) {
    return ls_error(LS_UNSUPPORTED, "matmul: oneDNN refuses %s [%lld,%lld]·[%lld,%lld] to %s (its status %d)",
                    ls_dtype_name(p->in), (long long)p->M, (long long)p->K, (long long)p->K, (long long)p->N,
                    ls_dtype_name(p->out), (int)status);
}

ls_status ls_onednn_scratch(const ls_cpu_product *product, size_t *bytes) {
    ls_onednn o = {0};
    dnnl_memory_desc_t md[ARGUMENTS];
    const int before = begin_single_thread();
    const dnnl_status_t status = describe(product, &o, md);
    if (status == dnnl_success) *bytes = dnnl_memory_desc_get_size(&md[SCRATCH]);
    clear(&o);
    end_single_thread(before);
    return status == dnnl_success ? ls_ok() : refusal(product, status);
}

static dnnl_status_t create(const ls_cpu_product *p, ls_onednn *o) {
    dnnl_memory_desc_t md[ARGUMENTS];
    dnnl_status_t status = describe(p, o, md);
    STEP(status, dnnl_primitive_create(&o->primitive, o->description));
    STEP(status, dnnl_stream_create(&o->stream, o->engine, dnnl_stream_default_flags));
    for (int i = 0; i < (p->bias ? ARGUMENTS : BIAS) && status == dnnl_success; i++) {
        o->arguments[i].arg = argument_name[i];
        status = dnnl_memory_create(&o->arguments[i].memory, &md[i], o->engine, DNNL_MEMORY_NONE);
        if (status == dnnl_success) o->n_arguments++;
    }
    return status;
}

ls_status ls_onednn_create(const ls_cpu_product *product, ls_onednn **out) {
    ls_onednn *o = calloc(1, sizeof *o);
    if (!o) return ls_error(LS_NO_MEMORY, "matmul: no memory for the description of a product");
    const int before = begin_single_thread();
    const dnnl_status_t status = create(product, o);
    end_single_thread(before);
    if (status != dnnl_success) {
        ls_onednn_destroy(o);
        return refusal(product, status);
    }
    *out = o;
    return ls_ok();
}

void ls_onednn_destroy(ls_onednn *product) {
    if (!product) return;
    clear(product);
    free(product);
}

/* oneDNN's handles are not const, but it writes only to C and scratch. */
static void *writable(const void *p) { return (void *)(uintptr_t)p; }

void ls_onednn_run(ls_onednn *product, const ls_onednn_data *data) {
    void *const handle[ARGUMENTS] = {writable(data->a), writable(data->b), data->c, data->scratch,
                                     writable(data->bias)};
    const int before = begin_single_thread();
    dnnl_status_t status = dnnl_success;
    for (int i = 0; i < product->n_arguments; i++) {
        STEP(status, dnnl_memory_set_data_handle(product->arguments[i].memory, handle[i]));
    }
    STEP(status, dnnl_primitive_execute(product->primitive, product->stream, product->n_arguments, product->arguments));
    end_single_thread(before);
    LS_ASSERT(status == dnnl_success);
}
