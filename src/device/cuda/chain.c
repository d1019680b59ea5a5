/*
 * The works of a recording, queue by queue. A queue does not write its number after each work, but only when somebody
 * needs it:
 *   - after a work that works of other queues come after, after a message, and after the last work of a graph;
 *   - before a work that waits, so that while the queue waits, its earlier works are known to have been executed;
 *   - after each CUDA_SILENT works, so that the progress of a long computation is seen.
 */
#include "device/cuda/chain.h"

#include <string.h>

enum { CUDA_SILENT = 32, CUDA_SEGMENT = 256 };

static cuda_chains *make_chains(int queues, ls_device_recording *recording) {
    ls_arena *memory = ls_arena_create();
    cuda_chains *made = LS_NEW(memory, cuda_chains);
    *made = (cuda_chains){memory, LS_NEW_ARRAY(memory, cuda_chain, queues)};
    for (size_t i = 0; i < recording->n; i++) made->of[recording->list[i].work.event.queue].n++;
    for (int q = 0; q < queues; q++) {
        cuda_chain *chain = &made->of[q];
        chain->memory = memory;
        chain->queue = q;
        chain->works = LS_NEW_ARRAY(memory, ls_recorded *, chain->n + 1);
        chain->told = LS_NEW_ARRAY(memory, bool, chain->n + 1);
        chain->n_segments = (chain->n + CUDA_SEGMENT - 1) / CUDA_SEGMENT;
        chain->segments = LS_NEW_ARRAY(memory, cuda_segment, chain->n_segments + 1);
        for (size_t i = 0; i < chain->n_segments; i++) {
            cuda_segment *s = &chain->segments[i];
            s->first = i * CUDA_SEGMENT;
            s->past = ls_min(chain->n, s->first + CUDA_SEGMENT);
            s->end = &s->words;
        }
        chain->n = 0;
    }
    for (size_t i = 0; i < recording->n; i++) {
        cuda_chain *chain = &made->of[recording->list[i].work.event.queue];
        chain->works[chain->n++] = &recording->list[i];
    }
    return made;
}

/* Leaves out events for which an earlier work of this queue has waited, and events of the queue itself. */
static void leave_out_implied(const cuda_chain *chain, int queues) {
    uint64_t *waited = LS_NEW_ARRAY(chain->memory, uint64_t, queues); /* by queue: the highest number so far */
    for (size_t i = 0; i < chain->n; i++) {
        ls_recorded *r = chain->works[i];
        int n = 0;
        for (int k = 0; k < r->work.n_after; k++) {
            const ls_event after = r->after[k];
            if (after.queue == chain->queue || after.number <= waited[after.queue]) continue;
            waited[after.queue] = after.number;
            r->after[n++] = after;
        }
        r->work.n_after = n;
    }
}

/* The index of the first work of a chain with this number or a higher one. */
static size_t find_work(const cuda_chain *chain, uint64_t number) {
    size_t first = 0, past = chain->n;
    while (first < past) {
        const size_t middle = first + (past - first) / 2;
        if (chain->works[middle]->work.event.number < number)
            first = middle + 1;
        else
            past = middle;
    }
    return first;
}

/* Marks the works of other queues that works of this chain come after: their numbers are written. */
static void tell_others(const cuda_chains *all, const cuda_chain *chain) {
    for (size_t i = 0; i < chain->n; i++) {
        const ls_recorded *r = chain->works[i];
        for (int k = 0; k < r->work.n_after; k++) {
            const cuda_chain *other = &all->of[r->after[k].queue];
            const size_t awaited = find_work(other, r->after[k].number);
            LS_ASSERT(awaited < other->n);
            other->told[awaited] = true;
        }
    }
}

static bool waits(const ls_device_work *work) {
    const bool hold = work->submit == NULL && work->message == NULL;
    return work->n_after > 0 || hold || (work->message != NULL && work->message->awaits);
}

static void tell_host(const cuda_chain *chain) {
    size_t silent = 0;
    for (size_t i = 0; i < chain->n; i++) {
        const ls_device_work *work = &chain->works[i]->work;
        silent++;
        if (i + 1 == chain->n || (i + 1) % CUDA_SEGMENT == 0 || work->message != NULL ||
            waits(&chain->works[i + 1]->work) || silent == CUDA_SILENT)
            chain->told[i] = true;
        if (chain->told[i]) silent = 0;
    }
}

cuda_chains *ls_cuda_chains_make(int queues, ls_device_recording *recording) {
    cuda_chains *all = make_chains(queues, recording);
    for (int q = 0; q < queues; q++) leave_out_implied(&all->of[q], queues);
    for (int q = 0; q < queues; q++) tell_others(all, &all->of[q]);
    for (int q = 0; q < queues; q++) tell_host(&all->of[q]);
    return all;
}

uint64_t ls_cuda_last_number(const cuda_chain *chain, const cuda_segment *s) {
    return chain->works[s->past - 1]->work.event.number;
}

const ls_device_work *ls_cuda_work_after(const cuda_chain *chain, uint64_t shift, uint64_t number) {
    const size_t i = number < shift ? 0 : find_work(chain, number - shift + 1);
    return i < chain->n ? &chain->works[i]->work : NULL;
}

bool ls_cuda_has_message_after(const cuda_chain *chain, uint64_t shift, uint64_t number) {
    bool any = false;
    for (size_t i = 0; i < chain->n; i++) {
        const ls_device_work *work = &chain->works[i]->work;
        any |= work->message != NULL && work->event.number + shift > number;
    }
    return any;
}

void ls_cuda_note_words(cuda_chain *chain, ls_cuda_node node, const cuda_submission *s) {
    cuda_chain_words *w = LS_NEW(chain->memory, cuda_chain_words);
    *w = (cuda_chain_words){.node = node,
                            .work = s->work,
                            .n = s->n,
                            .words = LS_NEW_ARRAY(chain->memory, ls_cuda_word_op, s->n),
                            .growth = LS_NEW_ARRAY(chain->memory, cuda_growth, s->n)};
    memcpy(w->words, s->words, sizeof *s->words * s->n);
    memcpy(w->growth, s->growth, sizeof *s->growth * s->n);
    *chain->captured->end = w;
    chain->captured->end = &w->next;
}
