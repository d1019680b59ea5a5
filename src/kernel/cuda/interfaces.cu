/*
 * What cublaslt.h says, compared with the toolkit's own header where nvcc compiles this folder: the values of names and
 * the sizes of structs that the library reads or fills.
 */
#if defined __CUDACC__ && __has_include(<cublasLt.h>)
#include <cublasLt.h>

namespace here {
#include "kernel/cuda/cublaslt.h"
}

#define SAME(name) static_assert((long)here::name == (long)::name, #name " differs from the library's")
SAME(CUBLAS_STATUS_SUCCESS);
SAME(CUBLAS_STATUS_NOT_SUPPORTED);
SAME(CUDA_R_32F);
SAME(CUDA_R_16BF);
SAME(CUBLAS_COMPUTE_32F);
SAME(CUBLAS_OP_N);
SAME(CUBLAS_OP_T);
SAME(CUBLASLT_EPILOGUE_BIAS);
SAME(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
SAME(CUBLASLT_MATMUL_DESC_TRANSA);
SAME(CUBLASLT_MATMUL_DESC_TRANSB);
SAME(CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME(CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);

static_assert(sizeof(here::cublasLtMatmulAlgo_t) == sizeof(::cublasLtMatmulAlgo_t), "an algorithm");
static_assert(sizeof(here::cublasLtMatmulHeuristicResult_t) == sizeof(::cublasLtMatmulHeuristicResult_t) &&
                  offsetof(here::cublasLtMatmulHeuristicResult_t, workspaceSize) ==
                      offsetof(::cublasLtMatmulHeuristicResult_t, workspaceSize) &&
                  offsetof(here::cublasLtMatmulHeuristicResult_t, state) ==
                      offsetof(::cublasLtMatmulHeuristicResult_t, state),
              "a result of the heuristic");
#endif
