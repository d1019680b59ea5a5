/* Puts a work on a stream of a CUDA device, behind waits for the events that it comes after. */
#include "device/cuda/cuda_impl.h"

ls_status ls_cuda_submit(cuda_submission *s) {
    const cuda *c = s->c;
    const ls_device_work *work = s->work;
    const ls_cuda_address words = c->queues[work->event.queue].words_at;
    const cuda_growth as_events = {.shifts = true};
    ls_cuda_stream stream;
    for (int i = 0; i < work->n_after; i++) {
        const ls_event after = work->after[i];
        if (s->chain == NULL && ls_cuda_executed(&c->queues[after.queue]) >= after.number) continue;
        LS_TRY(ls_cuda_await_word(s, c->queues[after.queue].words_at + offsetof(cuda_words, executed), after.number,
                                  as_events));
    }
    if (work->message != NULL) {
        LS_TRY(ls_cuda_message(s));
    } else if (work->submit != NULL) {
        LS_TRY(ls_cuda_stream_of(s, &stream));
        LS_TRY(work->submit(work->context, stream));
    } else {
        LS_TRY(ls_cuda_await_word(s, words + offsetof(cuda_words, released), work->event.number, as_events));
    }
    if (!s->told) return ls_ok();
    return ls_cuda_set_word(s, words + offsetof(cuda_words, executed), work->event.number, as_events);
}
