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

static bool is_same_call(const ls_kernel_call *a, const ls_kernel_call *b) {
    bool same = a->n_in == b->n_in && a->n_out == b->n_out && a->threads == b->threads;
    for (int i = 0; same && i < a->n_in; i++) same = ls_view_same_form(&a->in[i], &b->in[i]);
    for (int i = 0; same && i < a->n_out; i++) same = ls_view_same_form(&a->out[i], &b->out[i]);
    return same;
}

/* Padding of params that differs makes two questions of one; that costs time alone. */
static bool is_about(const ls_workspace_answer *a, const ls_kernel *kernel, const ls_kernel_call *call,
                     size_t params_bytes) {
    return a->kernel == kernel && a->params_bytes == params_bytes && is_same_call(&a->call, call) &&
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
