/* Which parameter is to blame for a result that is not finite. */
#include "weights/weights_impl.h"

#include <math.h>

static double number_at(const void *numbers, ls_dtype dtype, int64_t at) {
    if (dtype == LS_F64) return ((const double *)numbers)[at];
    if (dtype == LS_F32) return (double)((const float *)numbers)[at];
    return (double)ls_bf16_to_f32(((const ls_bf16 *)numbers)[at]);
}

ls_status ls_weights_not_finite(ls_executor *executor, const char *what) {
    const ls_image *image = ls_executor_image(executor);
    const void *parameters = ls_executor_tensor(executor, LS_BIND_PARAMETERS);
    for (int i = 0; parameters != NULL && i < image->n_flats; i++) {
        const ls_flat *flat = &image->flats[i];
        for (int64_t at = 0; at < flat->count; at++) {
            const double number = number_at(parameters, image->dtype, flat->start + at);
            if (!isfinite(number))
                return ls_error(LS_INVALID, "%s not finite: element %lld of tensor %s is %g", what,
                                (long long)at, flat->name, isnan(number) ? NAN : number);
        }
    }
    return ls_error(LS_INVALID, "%s not finite, though every weight is: numbers on the way exceed %s", what,
                    ls_dtype_name(image->dtype));
}
