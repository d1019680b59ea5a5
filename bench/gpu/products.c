/* Products by cuBLASLt: which of its algorithms is asked for, by alignment and reductions, and how fast each is. */
#include "micro.h"

#include "kernel/cuda/cublaslt.h"

#include <dlfcn.h>
#include <math.h>
#include <string.h>

enum { M = 8192, N = 4096, K = 4096, LAUNCHES = 10, MOST = 8, SPACE = 32 << 20 };

#define FIELD(name) __typeof__(name) *name;
typedef struct blas {
    CUBLASLT_FUNCTIONS(FIELD)
    cublasLtHandle_t handle;
    ls_cuda_stream stream;
    ls_cuda_address a, b, c, space;
} blas;

static bool find(blas *lt) {
    void *library = NULL;
    bool all = ls_library_open("libcublasLt.so.13", &library, NULL).code == LS_OK;
#define FIND(name)                                              \
    {                                                           \
        void *const found = all ? dlsym(library, #name) : NULL; \
        memcpy(&lt->name, &found, sizeof found);                \
        all &= found != NULL;                                   \
    }
    CUBLASLT_FUNCTIONS(FIND)
    return all;
}

/* Random numbers of bf16 near 1, of both signs, made by copying one piece again and again. */
static ls_cuda_address make_numbers(const micro *m, size_t n) {
    enum { PIECE = 1 << 19 };
    static ls_bf16 piece[PIECE];
    ls_cuda_address at;
    for (size_t i = 0; i < PIECE; i++) piece[i] = ls_bf16_from_f32((float)ls_rng_normal(1, 1, i));
    const ls_cuda_stream stream = micro_stream(m);
    MICRO_CALL(m, cuMemAlloc_v2, &at, 2 * n);
    for (size_t i = 0; i < n; i += PIECE)
        MICRO_CALL(m, cuMemcpyHtoDAsync_v2, at + 2 * i, piece, 2 * (size_t)ls_min(PIECE, (int64_t)(n - i)), stream);
    MICRO_CALL(m, cuStreamSynchronize, stream);
    return at;
}

typedef struct described {
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, c;
} described;

static described describe(const blas *lt, bool transposed) {
    described d;
    const int32_t first = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    (void)lt->cublasLtMatmulDescCreate(&d.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    (void)lt->cublasLtMatmulDescSetAttribute(d.operation, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
    (void)lt->cublasLtMatrixLayoutCreate(&d.a, CUDA_R_16BF, transposed ? K : N, transposed ? N : K, transposed ? K : N);
    (void)lt->cublasLtMatrixLayoutCreate(&d.b, CUDA_R_16BF, K, M, K);
    (void)lt->cublasLtMatrixLayoutCreate(&d.c, CUDA_R_16BF, N, M, N);
    return d;
}

/* TFLOP/s. */
static double time_algorithm(const micro *m, const blas *lt, const described *d,
                             const cublasLtMatmulAlgo_t *algorithm) {
    const float one = 1, zero = 0;
    double start = 0;
    for (int i = -2; i < LAUNCHES; i++) {
        if (i == 0) {
            MICRO_CALL(m, cuStreamSynchronize, lt->stream);
            start = ls_seconds();
        }
        if (lt->cublasLtMatmul(lt->handle, d->operation, &one, (void *)(uintptr_t)lt->a, d->a, (void *)(uintptr_t)lt->b,
                               d->b, &zero, (void *)(uintptr_t)lt->c, d->c, (void *)(uintptr_t)lt->c, d->c, algorithm,
                               (void *)(uintptr_t)lt->space, SPACE, (cudaStream_t)lt->stream) != CUBLAS_STATUS_SUCCESS)
            return 0;
    }
    MICRO_CALL(m, cuStreamSynchronize, lt->stream);
    return 2.0 * M * N * K * LAUNCHES / (ls_seconds() - start) * 1e-12;
}

static void try_preference(const micro *m, const blas *lt, bool transposed, int alignment, int reductions) {
    const described d = describe(lt, transposed);
    const uint64_t space = SPACE;
    const uint32_t bytes = (uint32_t)alignment, mask = (uint32_t)reductions;
    cublasLtMatmulPreference_t p;
    cublasLtMatmulHeuristicResult_t found[MOST];
    int n = 0, best = 0;
    double rate[MOST] = {0};
    (void)lt->cublasLtMatmulPreferenceCreate(&p);
    (void)lt->cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &space, sizeof space);
    if (reductions >= 0)
        (void)lt->cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &mask,
                                                       sizeof mask);
    for (int of = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES; of <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES; of++)
        (void)lt->cublasLtMatmulPreferenceSetAttribute(p, (cublasLtMatmulPreferenceAttributes_t)of, &bytes,
                                                       sizeof bytes);
    (void)lt->cublasLtMatmulAlgoGetHeuristic(lt->handle, d.operation, d.a, d.b, d.c, d.c, p, MOST, found, &n);
    for (int i = 0; i < n; i++) {
        rate[i] = time_algorithm(m, lt, &d, &found[i].algo);
        if (rate[i] > rate[best]) best = i;
    }
    micro_found(m, "%s, aligned to %d bytes, reductions %d: %d algorithms, the first %.0f TFLOP/s, the best (%d) %.0f",
                transposed ? "x w^T" : "x w", alignment, reductions, n, rate[0], best, rate[best]);
}

void micro_products(micro *m) {
    blas lt = {.stream = micro_stream(m)};
    if (!find(&lt) || lt.cublasLtCreate(&lt.handle) != CUBLAS_STATUS_SUCCESS) {
        micro_found(m, "cuBLASLt is not there");
        return;
    }
    lt.a = make_numbers(m, (size_t)N * K);
    lt.b = make_numbers(m, (size_t)M * K);
    lt.c = make_numbers(m, (size_t)M * N);
    MICRO_CALL(m, cuMemAlloc_v2, &lt.space, SPACE);
    for (int transposed = 0; transposed < 2; transposed++)
        for (int alignment = 16; alignment <= 256; alignment *= 4)
            for (int reductions = -1; reductions <= 2; reductions++)
                if (reductions != 1) try_preference(m, &lt, transposed == 1, alignment, reductions);
}
