/* A view as text. */
#include <stdio.h>

#include "kernel/kernel_impl.h"

ls_view_text ls_kernel_view_text(const ls_view *view) {
    ls_view_text out;
    size_t used = (size_t)snprintf(out.text, sizeof out.text, "%s[", ls_dtype_name(view->dtype));
    for (int d = 0; d < view->ndim; d++)
        used += (size_t)snprintf(out.text + used, sizeof out.text - used, "%s%lld", d > 0 ? "," : "",
                                 (long long)view->size[d]);
    snprintf(out.text + used, sizeof out.text - used, "]");
    return out;
}
