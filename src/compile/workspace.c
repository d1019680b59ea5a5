/*
 * How much scratch kernels ask for. Asking may be dear (oneDNN describes the whole product), and layers are alike, so answers are
 * kept for as long as a rank is compiled.
 */
#include "compile/compile_impl.h"

#include <string.h>

struct ls_workspace_answer {
    const ls_kernel *kernel;
    ls_kernel_call call; /* without params */
    const void *params;
    size_t params_bytes;
    size_t bytes;
};

/* Padding that differs makes two calls of what is one question; that costs time alone. */
static bool is_about(const ls_workspace_answer *a, const ls_kernel *kernel, const ls_kernel_call *call,
                     const void *params, size_t params_bytes) {
    return a->kernel == kernel && a->params_bytes == params_bytes &&
           memcmp(&a->call, call, sizeof *call) == 0 &&
           (params_bytes == 0 || memcmp(a->params, params, params_bytes) == 0);
}

size_t ls_workspace_bytes(ls_builder *b, const ls_instr *instr, size_t params_bytes) {
    const ls_kernel *kernel = instr->kernel;
    if (kernel->workspace == NULL) return 0;
    ls_kernel_call call;
    memset(&call, 0, sizeof call);
    call.n_in = instr->n_in;
    call.n_out = instr->n_out;
    call.threads = b->target->threads;
    for (int i = 0; i < instr->n_in; i++) call.in[i] = instr->in[i].view;
    for (int i = 0; i < instr->n_out; i++) call.out[i] = instr->out[i].view;
    for (int i = 0; i < b->n_answers; i++) {
        if (is_about(&b->answers[i], kernel, &call, instr->params, params_bytes)) return b->answers[i].bytes;
    }
    ls_workspace_answer *a = LS_PUSH(b->image->arena, b->answers, b->n_answers, b->answer_capacity);
    *a = (ls_workspace_answer){
        .kernel = kernel, .call = call, .params = instr->params, .params_bytes = params_bytes};
    memcpy(&a->call, &call, sizeof call); /* with its padding */
    call.params = instr->params;
    a->bytes = kernel->workspace(&call);
    return a->bytes;
}
