/*
 * How much scratch kernels ask for. Asking may be dear (oneDNN describes the whole product), and layers are alike, so
 * answers are kept for as long as a rank is compiled.
 */
#include "compile/compile_impl.h"

#include <string.h>

struct ls_workspace_answer {
    const ls_kernel *kernel;
    ls_kernel_call call;
    size_t params_bytes;
    size_t bytes;
};

/* Padding of params that differs makes two questions of one; that costs time alone. */
static bool is_about(const ls_workspace_answer *a, const ls_kernel *kernel, const ls_kernel_call *call,
                     size_t params_bytes) {
    return a->kernel == kernel && a->params_bytes == params_bytes && a->call.threads == call->threads &&
           ls_kernel_same_forms(&a->call, call) &&
           (params_bytes == 0 || memcmp(a->call.params, call->params, params_bytes) == 0);
}

size_t ls_workspace_bytes(ls_builder *b, const ls_kernel *kernel, const ls_kernel_call *call, size_t params_bytes) {
    if (kernel->workspace == NULL) return 0;
    for (int i = 0; i < b->n_answers; i++) {
        if (is_about(&b->answers[i], kernel, call, params_bytes)) return b->answers[i].bytes;
    }
    ls_workspace_answer *a = LS_PUSH(b->image->arena, b->answers, b->n_answers, b->answer_capacity);
    *a = (ls_workspace_answer){kernel, *call, params_bytes, kernel->workspace(call)};
    return a->bytes;
}
