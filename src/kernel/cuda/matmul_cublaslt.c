/*
 * matmul by cuBLASLt. Its matrices are column-major, so the library computes the transposed product: a matrix that is
 * row-major here is its transpose there, C^T = op(B)^T op(A)^T, and the bias of C's columns is a bias of rows there.
 *
 * The algorithm is chosen once, in prepare, by the library's own heuristic: the best one that fits in the workspace and
 * that, if it splits sums, adds the parts in f32, in a separate step. The choice depends on sizes, on types and on
 * whether operands begin at multiples of ALIGNMENT, so the same call gives the same bits.
 */
#include "kernel/cuda/cublaslt.h"
#include "kernel/cuda/library.h"

#include <stdlib.h>

/*
 * WORKSPACE: the size that NVIDIA recommends for its larger GPUs. It must begin at a multiple of PLACE. ALIGNMENT: no
 * algorithm loads more bytes than this at a time.
 */
enum { WORKSPACE = 32 << 20, PLACE = 256, ALIGNMENT = 16, MOST_ALGORITHMS = 8 };

typedef struct cublaslt {
    CUBLASLT_FUNCTIONS(LS_LIBRARY_MEMBER)
} cublaslt;

static const char *const files[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
static const char *const functions[] = {CUBLASLT_FUNCTIONS(LS_LIBRARY_NAME) NULL};
const ls_cuda_library ls_cuda_library_cublaslt = {
    .name = "cuBLASLt", .files = files, .functions = functions, .version = "cublasLtGetVersion"};
_Static_assert(sizeof(cublaslt) == sizeof functions - sizeof *functions, "a pointer for each function");

/* A product, in the library's order: `first` is B here, `second` is A. */
typedef struct product {
    cublaslt lt;
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t first, second, result;
    cublasLtMatmulPreference_t preference; /* exists until the algorithm is chosen */
    cublasLtMatmulAlgo_t algorithm;
} product;

static ls_status told(const product *p, const char *function, cublasStatus_t status) {
    if (status == CUBLAS_STATUS_SUCCESS) return ls_ok();
    return ls_error(LS_FAULT, "kernel matmul: %s of cuBLASLt fails: %s", function, p->lt.cublasLtGetStatusName(status));
}

/* Calls a function of the library; returns from the caller with a message if it fails. */
#define CALL(p, function, ...) LS_TRY(told(p, #function, (p)->lt.function(__VA_ARGS__)))

/* --- what is supported -------------------------------------------------------------------------------------------- */

/* The library's bias has the type of the result. The library does not support empty matrices. */
static bool supports(const ls_kernel_call *call) {
    cublaslt lt;
    if (call->n_in > 2 && call->in[2].dtype != call->out[0].dtype) return false;
    if (ls_view_elements(&call->in[0]) == 0 || ls_view_elements(&call->in[1]) == 0) return false;
    return ls_cuda_library_find(&ls_cuda_library_cublaslt, &lt, NULL).code == LS_OK;
}

static size_t workspace(const ls_kernel_call *call) {
    (void)call;
    return WORKSPACE + PLACE;
}

/* --- preparing ---------------------------------------------------------------------------------------------------- */

static ls_status make_layout(const product *p, const ls_view *view, cublasLtMatrixLayout_t *out) {
    const ls_view rows = ls_view_is_dense(view) ? ls_view_rows(*view) : *view;
    const cudaDataType type = view->dtype == LS_BF16 ? CUDA_R_16BF : CUDA_R_32F;
    CALL(p, cublasLtMatrixLayoutCreate, out, type, (uint64_t)rows.size[1], (uint64_t)rows.size[0], rows.stride[0]);
    return ls_ok();
}

static ls_status set_bias(const product *p, const ls_kernel_call *call) {
    if (call->n_in < 3) return ls_ok();
    const void *const bias = call->in[2].data;
    CALL(p, cublasLtMatmulDescSetAttribute, p->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    return ls_ok();
}

static ls_status describe(product *p, const ls_kernel_call *call) {
    const ls_matmul_params *params = call->params;
    const int32_t first = params->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                  second = params->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    CALL(p, cublasLtMatmulDescCreate, &p->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    CALL(p, cublasLtMatmulDescSetAttribute, p->operation, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
    CALL(p, cublasLtMatmulDescSetAttribute, p->operation, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
    if (call->n_in > 2) {
        const uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
        CALL(p, cublasLtMatmulDescSetAttribute, p->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
             sizeof epilogue);
    }
    LS_TRY(set_bias(p, call)); /* the heuristic looks at its alignment */
    LS_TRY(make_layout(p, &call->in[1], &p->first));
    LS_TRY(make_layout(p, &call->in[0], &p->second));
    return make_layout(p, &call->out[0], &p->result);
}

static bool is_aligned(const ls_view *view) {
    const size_t row = view->ndim < 2 ? 0 : (size_t)view->stride[view->ndim - 2] * ls_dtype_bytes(view->dtype);
    return (uintptr_t)view->data % ALIGNMENT == 0 && (ls_view_is_dense(view) || row % ALIGNMENT == 0);
}

static ls_status ask_alignment(const product *p, cublasLtMatmulPreferenceAttributes_t of, const ls_view *view) {
    const uint32_t bytes = is_aligned(view) ? ALIGNMENT : (uint32_t)ls_dtype_bytes(view->dtype);
    CALL(p, cublasLtMatmulPreferenceSetAttribute, p->preference, of, &bytes, sizeof bytes);
    return ls_ok();
}

static ls_status prefer(product *p, const ls_kernel_call *call) {
    const uint64_t bytes = WORKSPACE;
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    CALL(p, cublasLtMatmulPreferenceCreate, &p->preference);
    CALL(p, cublasLtMatmulPreferenceSetAttribute, p->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
         sizeof bytes);
    CALL(p, cublasLtMatmulPreferenceSetAttribute, p->preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         &reductions, sizeof reductions);
    LS_TRY(ask_alignment(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &call->in[1]));
    LS_TRY(ask_alignment(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &call->in[0]));
    LS_TRY(ask_alignment(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &call->out[0]));
    return ask_alignment(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &call->out[0]);
}

static ls_status choose(product *p, const ls_kernel_call *call) {
    cublasLtMatmulHeuristicResult_t found[MOST_ALGORITHMS];
    int n = 0;
    CALL(p, cublasLtMatmulAlgoGetHeuristic, p->handle, p->operation, p->first, p->second, p->result, p->result,
         p->preference, MOST_ALGORITHMS, found, &n);
    for (int i = 0; i < n; i++) {
        if (found[i].state != CUBLAS_STATUS_SUCCESS || found[i].workspaceSize > WORKSPACE) continue;
        p->algorithm = found[i].algo;
        return ls_ok();
    }
    return ls_error(LS_UNSUPPORTED, "kernel matmul: cuBLASLt has no algorithm for A %s, B %s, C %s",
                    ls_kernel_view_text(&call->in[0]).text, ls_kernel_view_text(&call->in[1]).text,
                    ls_kernel_view_text(&call->out[0]).text);
}

static void release(void *state) {
    product *p = state;
    if (p == NULL) return;
    if (p->preference != NULL) p->lt.cublasLtMatmulPreferenceDestroy(p->preference);
    if (p->result != NULL) p->lt.cublasLtMatrixLayoutDestroy(p->result);
    if (p->second != NULL) p->lt.cublasLtMatrixLayoutDestroy(p->second);
    if (p->first != NULL) p->lt.cublasLtMatrixLayoutDestroy(p->first);
    if (p->operation != NULL) p->lt.cublasLtMatmulDescDestroy(p->operation);
    if (p->handle != NULL) p->lt.cublasLtDestroy(p->handle);
    free(p);
}

static ls_status create(product *p, const ls_kernel_call *call) {
    LS_TRY(describe(p, call));
    LS_TRY(prefer(p, call));
    CALL(p, cublasLtCreate, &p->handle);
    return choose(p, call);
}

/*
 * The state is for operands at the addresses of this call. A handle belongs to one GPU and costs little, so each state
 * has its own.
 */
static ls_status prepare(ls_dtype T, const ls_kernel_call *call, void **state) {
    LS_TRY(ls_kernel_check(LS_KERNEL_MATMUL, T, call));
    product *p = calloc(1, sizeof *p);
    if (p == NULL) return ls_error(LS_NO_MEMORY, "kernel matmul: no memory for the description of a product");
    const ls_status found = ls_cuda_library_find(&ls_cuda_library_cublaslt, &p->lt, NULL);
    const ls_status status =
        found.code == LS_OK ? create(p, call) : ls_error(LS_UNSUPPORTED, "kernel matmul: no cuBLASLt: %s", found.text);
    if (status.code == LS_OK)
        *state = p;
    else
        release(p);
    return status;
}

static ls_status prepare_f32(const ls_kernel_call *call, void **state) { return prepare(LS_F32, call, state); }
static ls_status prepare_bf16(const ls_kernel_call *call, void **state) { return prepare(LS_BF16, call, state); }

/* Whether C is added to may differ: each launch passes it. */
static bool shares(const ls_kernel_call *one, const ls_kernel_call *other) {
    const ls_matmul_params *a = one->params, *b = other->params;
    bool same = ls_kernel_same_forms(one, other) && a->transpose_a == b->transpose_a &&
                a->transpose_b == b->transpose_b && is_aligned(&one->out[0]) == is_aligned(&other->out[0]);
    for (int i = 0; same && i < one->n_in; i++) same = is_aligned(&one->in[i]) == is_aligned(&other->in[i]);
    return same;
}

/* --- launching ---------------------------------------------------------------------------------------------------- */

static ls_status launch(const ls_kernel_call *call, void *state, void *stream) {
    const product *p = state;
    const float one = 1, before = ((const ls_matmul_params *)call->params)->accumulate ? 1 : 0;
    void *const C = call->out[0].data, *const space = (void *)ls_round_up((size_t)call->workspace, PLACE);
    LS_TRY(set_bias(p, call));
    CALL(p, cublasLtMatmul, p->handle, p->operation, &one, call->in[1].data, p->first, call->in[0].data, p->second,
         &before, C, p->result, C, p->result, &p->algorithm, space, WORKSPACE, stream);
    return ls_ok();
}

#define MATMUL(T)                                                                                     \
    .id = LS_KERNEL_MATMUL, .dtype = T, .device = LS_DEVICE_CUDA, .row = "cublaslt", .refuses = true, \
    .supports = supports, .workspace = workspace, .release = release, .shares = shares, .launch = launch
extern const ls_kernel ls_cuda_f32_matmul_cublaslt, ls_cuda_bf16_matmul_cublaslt;
const ls_kernel ls_cuda_f32_matmul_cublaslt = {MATMUL(LS_F32), .prepare = prepare_f32};
const ls_kernel ls_cuda_bf16_matmul_cublaslt = {MATMUL(LS_BF16), .prepare = prepare_bf16};
