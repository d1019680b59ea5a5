/*
 * The memory of a library's route: one allocation with the same layout on all ranks. What messages copy is sent from
 * there, in as few calls as the pieces of the target allow.
 */
#include "device/cuda/route.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- the layout --------------------------------------------------------------------------------------------------- */

/* What a rank tells the others about itself before the memory is allocated. */
typedef struct identity {
    ls_status status;
    size_t heap_bytes, word_bytes;
    struct CUuuid_st gpu;
    char host[64];
    pid_t process;
    const void *code; /* identifies the process too, because processes of other hosts may have the same number */
} identity;

static ls_status identify(const cuda *c, const ls_device_ranks *ranks, size_t heap_bytes, identity *out) {
    *out = (identity){.heap_bytes = heap_bytes, .process = getpid(), .code = &ls_cuda_route_driver};
    (void)ranks->words(ranks->context, ranks->rank, &out->word_bytes);
    (void)gethostname(out->host, sizeof out->host - 1);
    return ls_cuda_check(&c->driver, c->driver.cuDeviceGetUuid_v2(&out->gpu, c->handle), "cuDeviceGetUuid_v2", "%s",
                         c->name);
}

static bool same_process(const identity *a, const identity *b) {
    return a->process == b->process && a->code == b->code && strcmp(a->host, b->host) == 0;
}

static ls_status check_pair(const cuda *c, const identity *all, int a, int b, bool one_per_process) {
    if (memcmp(&all[a].gpu, &all[b].gpu, sizeof all[a].gpu) == 0)
        return ls_error(LS_UNSUPPORTED, "route %s: ranks %d and %d use one GPU; expected one for each rank",
                        c->route->name, a, b);
    if (one_per_process && same_process(&all[a], &all[b]))
        return ls_error(LS_UNSUPPORTED,
                        "route %s: ranks %d and %d are threads of one process; expected a process for each rank",
                        c->route->name, a, b);
    return ls_ok();
}

static size_t place(size_t *end, size_t bytes) {
    const size_t at = *end;
    *end = ls_round_up(at + bytes, 4096);
    return at;
}

/* Each part is as large as the largest of any rank. */
static ls_cuda_symmetric *lay_out(const cuda *c, const ls_device_ranks *ranks, const identity *all) {
    size_t heap = 0, words = 0, end = 0;
    for (int r = 0; r < ranks->ranks; r++) {
        if (all[r].heap_bytes > heap) heap = all[r].heap_bytes;
        if (all[r].word_bytes > words) words = all[r].word_bytes;
    }
    ls_cuda_symmetric *s = calloc(1, sizeof *s + 2 * words);
    LS_ASSERT(s != NULL);
    s->rank = ranks->rank;
    s->ranks = ranks->ranks;
    s->n_words = (int)(words / sizeof(uint64_t));
    words = (size_t)ls_cuda_probe_word(s, s->ranks, 0) * sizeof(uint64_t);
    (void)place(&end, heap);
    s->words = place(&end, words);
    s->values = place(&end, words);
    s->sent = place(&end, (size_t)s->ranks * CUDA_PROBE_BYTES);
    s->came = place(&end, (size_t)s->ranks * CUDA_PROBE_BYTES);
    s->packed = place(&end, (size_t)c->device->options.queues * CUDA_PACKED_BYTES);
    s->bytes = end;
    return s;
}

ls_status ls_cuda_symmetric_plan(cuda *c, const ls_device_ranks *ranks, size_t heap_bytes, bool one_per_process) {
    identity mine, *all = calloc((size_t)ranks->ranks, sizeof *all);
    LS_ASSERT(all != NULL);
    const ls_status own = identify(c, ranks, heap_bytes, &mine);
    mine.status = own;
    ls_status status = ranks->exchange(ranks->context, &mine, sizeof mine, all);
    for (int r = 0; r < ranks->ranks && status.code == LS_OK; r++) status = all[r].status;
    for (int r = 1; r < ranks->ranks; r++)
        for (int other = 0; other < r && status.code == LS_OK; other++)
            status = check_pair(c, all, other, r, one_per_process);
    c->symmetric = lay_out(c, ranks, all);
    free(all);
    return own.code != LS_OK ? own : status;
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

static ls_status prepare(cuda *c, const ls_device_ranks *ranks, ls_status made) {
    ls_cuda_symmetric *s = c->symmetric;
    size_t bytes;
    void *words = ranks->words(ranks->context, s->rank, &bytes);
    LS_TRY(made);
    LS_TRY(ls_cuda_set_zero(c, s->base, s->bytes));
    return words != NULL && bytes > 0 ? ls_cuda_pin_words(c, words, bytes, &s->seen) : ls_ok();
}

ls_status ls_cuda_symmetric_open(ls_device *device, const ls_device_ranks *ranks, ls_status made, ls_device_arena *heap,
                                 ls_device_remote *out) {
    cuda *c = device->state;
    const ls_cuda_symmetric *s = c->symmetric;
    LS_TRY(ls_device_agree(ranks, prepare(c, ranks, made)));
    heap->base = heap->source = (char *)(uintptr_t)s->base;
    device->traits.records = false; /* arguments and counts of library calls differ between runs */
    for (int r = 0; r < s->ranks; r++) {
        /* Messages of a rank to itself use the words that the host can read. */
        const ls_cuda_address words = r == s->rank ? s->seen : s->base + s->words;
        out[r] = (ls_device_remote){
            .heap = heap->base, .words = (uint64_t *)(uintptr_t)words, .own = (uint64_t *)(uintptr_t)words};
    }
    LS_TRY(ls_cuda_probe(c, ranks));
    __atomic_store_n(&c->open_route, c->route, __ATOMIC_RELEASE);
    return ls_ok();
}

ls_status ls_cuda_show(cuda_submission *s) {
    const ls_cuda_symmetric *m = s->c->symmetric;
    const int word = ls_cuda_word(m, s->work->message);
    if (m->seen == 0 || word >= m->n_words) return ls_ok();
    return ls_cuda_set_word(s, m->seen + (size_t)word * sizeof(uint64_t), s->work->message->generation,
                            (cuda_growth){.rise = s->work->message->rise});
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

/* The state of sending a message. */
typedef struct sending {
    cuda_submission *on;
    ls_cuda_put put;
    ls_cuda_walk to;
    size_t left; /* bytes of the message */
} sending;

/* Puts `bytes` contiguous bytes to the next pieces of the target. */
static ls_status put_next(sending *s, ls_cuda_address from, size_t bytes) {
    const ls_cuda_address target = (uintptr_t)s->on->work->message->target;
    ls_cuda_box b;
    for (size_t done = 0; done < bytes && ls_cuda_next_box(&s->to, bytes - done, &b);) {
        for (size_t row = 0; row < b.rows; row++, done += b.width) {
            s->left -= b.width;
            LS_TRY(s->put(s->on, target + b.at + row * b.pitch, from + done, b.width, s->left == 0));
        }
    }
    return ls_ok();
}

/*
 * Gathers and sends one part after the other: the queue's stream gathers the next part when it has sent the previous
 * one.
 */
static ls_status send_packed(sending *s) {
    const ls_device_message *m = s->on->work->message;
    const ls_cuda_symmetric *memory = s->on->c->symmetric;
    const ls_cuda_address source = (uintptr_t)m->source;
    const ls_cuda_address packed = memory->base + memory->packed + (size_t)s->on->work->event.queue * CUDA_PACKED_BYTES;
    ls_cuda_walk from = {.range = &m->from};
    while (s->left > 0) {
        size_t gathered = 0;
        for (ls_cuda_box b; ls_cuda_next_box(&from, CUDA_PACKED_BYTES - gathered, &b); gathered += b.width * b.rows)
            LS_TRY(ls_cuda_copy_rows(s->on, source + b.at, b.pitch, packed + gathered, b.width, b.width, b.rows));
        LS_TRY(put_next(s, packed, gathered));
    }
    return ls_ok();
}

static bool is_owned(const ls_cuda_symmetric *s, ls_cuda_address at, size_t bytes) {
    return at >= s->base && at + bytes <= s->base + s->bytes;
}

ls_status ls_cuda_send(cuda_submission *on, ls_cuda_put put) {
    const ls_device_message *m = on->work->message;
    const ls_cuda_address from = (uintptr_t)m->source + m->from.offset;
    sending s = {.on = on, .put = put, .to = {.range = &m->to}, .left = ls_range_bytes(&m->from)};
    if (ls_range_is_flat(&m->from) && is_owned(on->c->symmetric, from, s.left)) return put_next(&s, from, s.left);
    return send_packed(&s);
}
