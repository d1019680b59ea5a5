#include "session/session.h"

#include <stdlib.h>

ls_status ls_score_room_make(int64_t B, int64_t S, ls_score_room *out) {
    ls_score_room room = {.B = B, .S = S, .bytes = sizeof(float) * (size_t)(B * S)};
    void *shared;
    LS_TRY(ls_shared_map(room.bytes, &shared));
    room.losses = shared;
    *out = room;
    return ls_ok();
}

void ls_score_room_free(ls_score_room *room) {
    if (room != NULL) ls_shared_unmap(room->losses, room->bytes);
}

typedef struct scoring {
    const ls_rank *rank;
    int program;
    const ls_score_room *room;
    const ls_sequences *from;
    int64_t n;
    ls_batch batch;
} scoring;

/* Sequences first .. first+B-1; those past the end are sequence 0 again, which nobody looks at. */
static ls_status put_batch(scoring *s, int64_t first) {
    for (int64_t b = 0; b < s->room->B; b++) {
        const int64_t index = first + b < s->n ? first + b : 0;
        LS_TRY(ls_batch_read(&s->batch, b, s->from, index));
        ls_comm_tick(s->rank->comm);
    }
    return ls_batch_put(&s->batch, s->rank);
}

/* All ranks go on, or none does. Nobody returns before each has come here. */
static ls_status agree_to_go_on(const scoring *s, int64_t done) {
    ls_status wish = ls_ok();
    if (ls_comm_stop_requested(s->rank->comm))
        wish = ls_error(LS_INTERRUPTED, "stopped after %lld of %lld sequences", (long long)done,
                        (long long)s->n);
    return ls_comm_agree(s->rank->comm, wish);
}

static ls_status score_all(scoring *s, ls_scored see, void *context, ls_progress *progress) {
    const ls_score_room *room = s->room;
    const ls_binding *losses = ls_image_find(s->rank->image, LS_SCORE_LOSSES);
    LS_ASSERT(losses != NULL && losses->operand.view.dtype == LS_F32);
    for (int64_t first = 0; first < s->n; first += room->B) {
        LS_TRY(agree_to_go_on(s, first)); /* so that rank 0 is done with what is overwritten now */
        LS_TRY(put_batch(s, first));
        LS_TRY(ls_executor_run(s->rank->executor, s->program));
        ls_executor_gather(s->rank->executor, losses, room->losses);
        LS_TRY(ls_comm_barrier(s->rank->comm));
        if (s->rank->rank != 0) continue;
        const int64_t last = ls_min(first + room->B, s->n);
        for (int64_t i = first; i < last; i++) {
            const int64_t at = (i - first) * room->S;
            const ls_batch *batch = &s->batch;
            const ls_sample sample = {
                .tokens = batch->tokens + at, .labels = batch->labels + at, .seen = batch->seen + at};
            see(context, i, &sample, room->losses + at);
        }
        if (progress != NULL) ls_progress_show(progress, last, "");
    }
    return ls_ok();
}

ls_status ls_score(const ls_rank *rank, int program, const ls_score_room *room, const ls_sequences *from,
                   int64_t n, ls_scored see, void *context, ls_progress *progress) {
    scoring s = {.rank = rank, .program = program, .room = room, .from = from, .n = n};
    ls_status status = ls_comm_agree(rank->comm, ls_batch_make(room->B, room->S, true, &s.batch));
    if (status.code == LS_OK) status = score_all(&s, see, context, progress);
    ls_batch_free(&s.batch);
    return status;
}
