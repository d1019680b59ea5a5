/*
 * How much workspace a call needs: the most that its kernel, or a kernel that may take the call in its place, needs.
 * Asking a kernel can be slow (oneDNN describes the whole product), and layers are alike, so answers are kept while a
 * rank is compiled.
 */
#include "compile/compile_impl.h"

#include <string.h>

typedef struct answer {
    const ls_kernel *kernel;
    ls_kernel_call call;
    size_t params_bytes;
    size_t bytes;
} answer;

struct ls_workspaces {
    answer *list;
    int n;
    size_t capacity;
};

/*
 * Params are compared with their padding. If only the padding differs, the kernel is asked again: slower, never wrong.
 */
static bool is_about(const answer *a, const ls_kernel *kernel, const ls_kernel_call *call, size_t params_bytes) {
    return a->kernel == kernel && a->params_bytes == params_bytes && a->call.threads == call->threads &&
           ls_kernel_same_forms(&a->call, call) &&
           (params_bytes == 0 || memcmp(a->call.params, call->params, params_bytes) == 0);
}

/* The most that the kernel needs, or any kernel that takes the call if this one refuses it. */
static size_t ask(const ls_kernel *kernel, const ls_kernel_request *request) {
    size_t most = 0;
    for (; kernel != NULL; kernel = kernel->refuses ? ls_kernel_next(request, kernel) : NULL)
        if (kernel->workspace != NULL) most = (size_t)ls_max((int64_t)most, (int64_t)kernel->workspace(request->call));
    return most;
}

size_t ls_workspace_bytes(ls_builder *b, const ls_kernel *kernel, const ls_kernel_request *request,
                          size_t params_bytes) {
    if (kernel->workspace == NULL && !kernel->refuses) return 0;
    if (b->workspaces == NULL) b->workspaces = LS_NEW(b->image->arena, ls_workspaces);
    ls_workspaces *known = b->workspaces;
    for (int i = 0; i < known->n; i++) {
        if (is_about(&known->list[i], kernel, request->call, params_bytes)) return known->list[i].bytes;
    }
    answer *a = LS_PUSH(b->image->arena, known->list, known->n, known->capacity);
    *a = (answer){kernel, *request->call, params_bytes, ask(kernel, request)};
    return a->bytes;
}
