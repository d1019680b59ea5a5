/*
 * Each form of the products of src/kernel/cuda/ptx_sm90.h, alone: a kernel loads two tiles and multiplies them. It is
 * compiled for the host, where a form may break one of the rules of these instructions.
 */
#ifndef LS_TESTS_CUDA_WGMMA_FORMS_H
#define LS_TESTS_CUDA_WGMMA_FORMS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a form leaves out or does wrongly. */
typedef enum wgmma_fault {
    WGMMA_RIGHT,
    WGMMA_NO_PRODUCTS_FENCE,
    WGMMA_NO_COMMIT,
    WGMMA_NO_WAIT,
    WGMMA_NO_SHARED_FENCE,
    WGMMA_NO_BARRIER,
    WGMMA_NO_SWIZZLE,
    WGMMA_UNALIGNED,
    WGMMA_OVERWRITTEN,
    WGMMA_ONE_WARP,
    WGMMA_HALF_A_WARP,
    WGMMA_FAULTS
} wgmma_fault;

enum { WGMMA_FORMS = 12, WGMMA_SUMMED = 128, WGMMA_ROWS = 128 };

/*
 * Of a form: its name; columns N of the product; whether a row of the operand's matrix is an index that is summed over.
 * The product has WGMMA_ROWS rows and is over WGMMA_SUMMED indices.
 */
typedef struct wgmma_form {
    const char *name;
    int columns;
    int a_by_summed, b_by_summed;
} wgmma_form;
wgmma_form wgmma_form_of(int form);

/*
 * Launches the form; d f32 [WGMMA_ROWS][columns] = 0.5 + the product of bf16 matrices, both in memory of the device.
 * Returns 0, or an error of CUDA.
 */
int wgmma_launch(int form, wgmma_fault fault, const void *a, const void *b, float *d);

#ifdef __cplusplus
}
#endif

#endif
