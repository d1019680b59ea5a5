/*
 * Stands in for libcublasLt. A description that the library itself would refuse, or that the caller of a product of
 * Longspan's has no reason for, is a mistake (fake.h). The heuristic's first answer is one that must not be taken.
 */
#include "base/base.h"
#include "cuda/fake/fake.h"
#include "kernel/cuda/cublaslt.h"

#include <stdlib.h>

extern fake_library fake_cublaslt;
fake_library fake_cublaslt;

enum { SPACE = 1000, PLACE = 256, MAGIC = 0x5eed };

struct cublasLtContext {
    long life; /* of the context in which it was made */
};
struct cublasLtMatmulDescriptor {
    int32_t first, second; /* operations */
    uint32_t epilogue;
    const void *bias;
};
struct cublasLtLayoutDescriptor {
    cudaDataType type;
    uint64_t rows, columns;
    int64_t ld;
};
struct cublasLtPreferenceDescriptor {
    uint64_t workspace;
    uint32_t reductions, alignment[4];
};

/* What an algorithm is for, in its bits. */
typedef struct chosen {
    uint64_t magic;
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t desc;
    uint32_t alignment[4];
} chosen;
_Static_assert(sizeof(chosen) <= sizeof(cublasLtMatmulAlgo_t), "room in an algorithm");

#define EXPECT(is) \
    if (!fake_expect(&fake_cublaslt, (is), __func__, #is)) return CUBLAS_STATUS_NOT_SUPPORTED
#define MAY_FAIL() \
    if (fake_fails(&fake_cublaslt, __func__)) return CUBLAS_STATUS_NOT_SUPPORTED

static void *create(size_t bytes) {
    fake_cublaslt.objects++;
    return calloc(1, bytes);
}

static cublasStatus_t destroy(void *object) {
    fake_cublaslt.objects--;
    free(object);
    return CUBLAS_STATUS_SUCCESS;
}

/* --- descriptions ------------------------------------------------------------------------------------------------- */

size_t fake_version(void) { return 130100; }

size_t cublasLtGetVersion(void) { return fake_version(); }

const char *cublasLtGetStatusName(cublasStatus_t status) {
    return status == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED" : "CUBLAS_STATUS_SUCCESS";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    MAY_FAIL();
    const long life = fake_life(__func__);
    *handle = create(sizeof **handle);
    (*handle)->life = life;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    fake_need_life(__func__, handle->life);
    return destroy(handle);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute, cudaDataType scale) {
    MAY_FAIL();
    EXPECT(compute == CUBLAS_COMPUTE_32F);
    EXPECT(scale == CUDA_R_32F);
    *desc = create(sizeof **desc);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return destroy(desc); }

/* Where an attribute is kept; *bytes: its size in the library. */
static void *place_in_desc(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name, size_t *bytes) {
    *bytes = name == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? sizeof desc->bias : sizeof desc->first;
    switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return &desc->first;
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return &desc->second;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return &desc->epilogue;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return &desc->bias;
    }
    return NULL;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name,
                                              const void *value, size_t bytes) {
    MAY_FAIL();
    size_t expected;
    void *const place = place_in_desc(desc, name, &expected);
    EXPECT(place != NULL && bytes == expected);
    memcpy(place, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
    MAY_FAIL();
    EXPECT(type == CUDA_R_32F || type == CUDA_R_16BF);
    EXPECT(rows > 0 && columns > 0 && ld >= (int64_t)rows);
    *layout = create(sizeof **layout);
    **layout = (struct cublasLtLayoutDescriptor){type, rows, columns, ld};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return destroy(layout); }

/* --- the choice of an algorithm ----------------------------------------------------------------------------------- */

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
    MAY_FAIL();
    *preference = create(sizeof **preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) { return destroy(preference); }

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t name, const void *value,
                                                    size_t bytes) {
    MAY_FAIL();
    const bool alignment =
        name >= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES && name <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES;
    void *place = NULL;
    if (alignment) place = &preference->alignment[name - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES];
    if (name == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) place = &preference->workspace;
    if (name == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) place = &preference->reductions;
    EXPECT(place != NULL);
    EXPECT(bytes == (place == &preference->workspace ? sizeof(uint64_t) : sizeof(uint32_t)));
    memcpy(place, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

/* Sizes of op(layout). */
static uint64_t rows_of(cublasLtMatrixLayout_t l, int32_t op) { return op == CUBLAS_OP_T ? l->columns : l->rows; }
static uint64_t columns_of(cublasLtMatrixLayout_t l, int32_t op) { return op == CUBLAS_OP_T ? l->rows : l->columns; }

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t results[], int *found) {
    MAY_FAIL();
    EXPECT(handle != NULL);
    fake_need_life(__func__, handle->life);
    EXPECT(rows_of(a, desc->first) == d->rows && columns_of(b, desc->second) == d->columns);
    EXPECT(columns_of(a, desc->first) == rows_of(b, desc->second));
    EXPECT(c == d);
    EXPECT(a->type == b->type && (d->type == a->type || d->type == CUDA_R_32F));
    EXPECT(desc->epilogue == 0 || (desc->epilogue == CUBLASLT_EPILOGUE_BIAS && desc->bias != NULL));
    EXPECT(preference->workspace >= SPACE && most > 2);
    EXPECT(preference->reductions == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    *found = 0;
    if (fake_fails(&fake_cublaslt, "no algorithm")) return CUBLAS_STATUS_SUCCESS;
    chosen right = {.magic = MAGIC, .handle = handle, .desc = desc};
    memcpy(right.alignment, preference->alignment, sizeof right.alignment);
    memset(results, 0xff, sizeof *results * 3);
    results[0].state = CUBLAS_STATUS_NOT_SUPPORTED;
    results[0].workspaceSize = 0;
    results[1].state = CUBLAS_STATUS_SUCCESS;
    results[1].workspaceSize = preference->workspace + 1;
    results[2].state = CUBLAS_STATUS_SUCCESS;
    results[2].workspaceSize = SPACE;
    memcpy(&results[2].algo, &right, sizeof right);
    *found = 3;
    return CUBLAS_STATUS_SUCCESS;
}

/* --- the product -------------------------------------------------------------------------------------------------- */

static double element(const void *data, cudaDataType type, int64_t at) {
    return type == CUDA_R_16BF ? (double)ls_bf16_to_f32(((const ls_bf16 *)data)[at])
                               : (double)((const float *)data)[at];
}

static double element_of(cublasLtMatrixLayout_t l, const void *data, int32_t op, uint64_t row, uint64_t column) {
    const int64_t i = (int64_t)(op == CUBLAS_OP_T ? column : row), j = (int64_t)(op == CUBLAS_OP_T ? row : column);
    return element(data, l->type, i + j * l->ld);
}

static void multiply(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, const void *A, cublasLtMatrixLayout_t b,
                     const void *B, float beta, cublasLtMatrixLayout_t d, void *D) {
    for (uint64_t j = 0; j < d->columns; j++) {
        for (uint64_t i = 0; i < d->rows; i++) {
            const int64_t at = (int64_t)(i + j * (uint64_t)d->ld);
            double sum = desc->epilogue == CUBLASLT_EPILOGUE_BIAS ? element(desc->bias, d->type, (int64_t)i) : 0;
            if (beta != 0) sum += (double)beta * element(D, d->type, at);
            for (uint64_t k = 0; k < columns_of(a, desc->first); k++)
                sum += element_of(a, A, desc->first, i, k) * element_of(b, B, desc->second, k, j);
            if (d->type == CUDA_R_16BF)
                ((ls_bf16 *)D)[at] = ls_bf16_from_f32((float)sum);
            else
                ((float *)D)[at] = (float)sum;
        }
    }
}

static void touch_ends(cublasLtMatrixLayout_t l, const void *data) {
    const int64_t bytes = l->type == CUDA_R_16BF ? 2 : 4;
    fake_touch_ends(data, bytes * ((int64_t)l->rows + ((int64_t)l->columns - 1) * l->ld) - 1);
}

static bool aligned(const void *p, uint32_t bytes) { return bytes > 0 && (uintptr_t)p % bytes == 0; }

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *A,
                              cublasLtMatrixLayout_t a, const void *B, cublasLtMatrixLayout_t b, const void *beta,
                              const void *C, cublasLtMatrixLayout_t c, void *D, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspace_bytes,
                              cudaStream_t stream) {
    MAY_FAIL();
    chosen is;
    float factor, before;
    memcpy(&is, algorithm, sizeof is);
    memcpy(&factor, alpha, sizeof factor);
    memcpy(&before, beta, sizeof before);
    EXPECT(is.magic == MAGIC && is.handle == handle && is.desc == desc);
    fake_need_life(__func__, handle->life);
    EXPECT(factor == 1 && (before == 0 || before == 1));
    EXPECT(C == D && c == d && stream == NULL);
    EXPECT(aligned(A, is.alignment[0]) && aligned(B, is.alignment[1]));
    EXPECT(aligned(C, is.alignment[2]) && aligned(D, is.alignment[3]));
    EXPECT(workspace_bytes >= SPACE && (uintptr_t)workspace % PLACE == 0);
    memset(workspace, 0xee, workspace_bytes);
    if (!fake_ends_only()) {
        multiply(desc, a, A, b, B, before, d, D);
        return CUBLAS_STATUS_SUCCESS;
    }
    touch_ends(a, A);
    touch_ends(b, B);
    touch_ends(d, D);
    return CUBLAS_STATUS_SUCCESS;
}
