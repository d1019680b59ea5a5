/* What every rank will map, known before anything runs; and whether it fits. */
#include "train/train_impl.h"

#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

static bool lasts(ls_buffer_kind kind) {
    return kind != LS_BUFFER_ACTIVATION && kind != LS_BUFFER_WORKSPACE && kind != LS_BUFFER_SLOT;
}

static ls_rank_bytes measure(const ls_image *image) {
    ls_rank_bytes bytes = {{0}, 0, 0, 0};
    for (int s = 0; s < LS_SPACES; s++) bytes.space[s] = (int64_t)image->bytes[s];
    for (int i = 0; i < image->n_buffers; i++) {
        const ls_buffer *b = &image->buffers[i];
        if (b->space == LS_PRIVATE && b->program < 0 && lasts(b->kind)) bytes.persistent += (int64_t)b->bytes;
        if (b->space == LS_SYMMETRIC && lasts(b->kind)) bytes.slots -= (int64_t)b->bytes;
    }
    bytes.slots += bytes.space[LS_SYMMETRIC]; /* all of the heap that is no parameter */
    bytes.activations = bytes.space[LS_PRIVATE] - bytes.persistent;
    return bytes;
}

static int64_t total(const ls_rank_bytes *bytes) {
    return bytes->space[LS_PRIVATE] + bytes->space[LS_SYMMETRIC];
}

static ls_status check_fits(const ls_training *t) {
    const int ranks = ls_session_ranks(t->session);
    int64_t all = 0, most = 0;
    for (int r = 0; r < ranks; r++) {
        all += total(&t->ranks[r]);
        most = ls_max(most, total(&t->ranks[r]));
    }
    ls_machine machine;
    ls_machine_detect(&machine);
    if (all > (int64_t)machine.memory_bytes)
        return ls_error(
            LS_NO_MEMORY,
            "%d ranks need %lld bytes together (%lld the largest), but this machine has %zu; use a "
            "shorter --seq or a larger --accumulate",
            ranks, (long long)all, (long long)most, machine.memory_bytes);
    return ls_ok();
}

static ls_status measure_rank(ls_training *t, const ls_target *target) {
    const ls_image *kept = ls_session_image(t->session, target->rank);
    if (kept != NULL) {
        t->ranks[target->rank] = measure(kept);
        return ls_ok();
    }
    ls_image *image;
    LS_TRY(ls_compile(&t->job, target, &image));
    t->ranks[target->rank] = measure(image);
    ls_image_destroy(image);
    return ls_ok();
}

ls_status ls_train_memory(ls_training *t) {
    const int ranks = ls_session_ranks(t->session);
    t->ranks = calloc((size_t)ranks, sizeof *t->ranks);
    if (t->ranks == NULL) return ls_error(LS_NO_MEMORY, "no memory for the sizes of %d ranks", ranks);
    ls_target target = ls_session_plan(t->session)->target;
    for (target.rank = 0; target.rank < ranks; target.rank++) LS_TRY(measure_rank(t, &target));
    ls_image *alone;
    LS_TRY(ls_compile_alone(&t->job, &target, &alone));
    const ls_rank_bytes bytes = measure(alone);
    t->one_rank_bytes = total(&bytes);
    ls_image_destroy(alone);
    return check_fits(t);
}
