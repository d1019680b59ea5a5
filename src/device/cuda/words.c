/*
 * Words of a CUDA device: a stream waits for words and sets words between kernels and copies. Consecutive operations on
 * words are passed to the driver in one call. If the stream is captured, they become a node of a graph, which is noted,
 * because the values differ between runs.
 */
#include "device/cuda/cuda_impl.h"

/* The node that has just been captured. */
static ls_status find_node(const cuda_submission *s, ls_cuda_node *out) {
    const ls_cuda_node *last = NULL;
    unsigned status = 0;
    size_t n = 0;
    LS_TRY(ls_cuda_check_work(s->c, s->c->driver.cuStreamGetCaptureInfo_v3(s->to, &status, NULL, NULL, &last, NULL, &n),
                              "cuStreamGetCaptureInfo_v3", s->work));
    if (status != LS_CUDA_CAPTURE_ACTIVE || n != 1)
        return ls_error(LS_FAULT, "%s (queue %d) on %s: captured words are %zu nodes, state %u; expected one node",
                        s->work->name, s->work->event.queue, s->c->name, n, status);
    *out = last[0];
    return ls_ok();
}

ls_status ls_cuda_end_words(cuda_submission *s) {
    if (s->n == 0) return ls_ok();
    LS_TRY(ls_cuda_check_work(s->c, s->c->driver.cuStreamBatchMemOp_v2(s->to, s->n, s->words, 0),
                              "cuStreamBatchMemOp_v2", s->work));
    if (s->chain != NULL) {
        ls_cuda_node node;
        LS_TRY(find_node(s, &node));
        ls_cuda_note_words(s->chain, node, s);
    }
    s->n = 0;
    return ls_ok();
}

static ls_status add(cuda_submission *s, unsigned operation, ls_cuda_address at, uint64_t value, unsigned flags,
                     cuda_growth growth) {
    if (s->n == CUDA_WORDS) LS_TRY(ls_cuda_end_words(s));
    s->growth[s->n] = growth;
    s->words[s->n++] =
        (ls_cuda_word_op){.waitValue = {.operation = operation, .address = at, .value64 = value, .flags = flags}};
    return ls_ok();
}

ls_status ls_cuda_await_word(cuda_submission *s, ls_cuda_address at, uint64_t value, cuda_growth growth) {
    return add(s, LS_CUDA_WAIT_WORD, at, value, LS_CUDA_WAIT_GEQ, growth);
}

ls_status ls_cuda_set_word(cuda_submission *s, ls_cuda_address at, uint64_t value, cuda_growth growth) {
    return add(s, LS_CUDA_WRITE_WORD, at, value, LS_CUDA_WRITE_DEFAULT, growth);
}

ls_status ls_cuda_stream_of(cuda_submission *s, ls_cuda_stream *out) {
    LS_TRY(ls_cuda_end_words(s));
    *out = s->to;
    return ls_ok();
}
