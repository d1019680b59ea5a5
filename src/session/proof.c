/* The programs of a session's ranks: compiled and proved by one process, or jointly by the processes of all ranks. */
#include "session/proof_impl.h"

#include "comm/comm.h"
#include "program/program.h"

/* Whether a buffer of this kind outlives a program. */
static bool is_persistent(ls_buffer_kind kind) {
    return kind != LS_BUFFER_ACTIVATION && kind != LS_BUFFER_WORKSPACE && kind != LS_BUFFER_SLOT;
}

static ls_rank_bytes count_bytes(const ls_image *image) {
    ls_rank_bytes bytes = {.words = image->words};
    for (int s = 0; s < LS_SPACES; s++) bytes.space[s] = (int64_t)image->bytes[s];
    bytes.on_host = image->host_apart ? bytes.space[LS_HOST] : (int64_t)ls_image_mapped(image);
    for (int i = 0; i < image->n_buffers; i++) {
        const ls_buffer *b = &image->buffers[i];
        if (b->space == LS_PRIVATE && b->program < 0 && is_persistent(b->kind)) bytes.persistent += (int64_t)b->bytes;
        if (b->space == LS_SYMMETRIC && b->program < 0 && is_persistent(b->kind)) bytes.slots -= (int64_t)b->bytes;
    }
    bytes.slots += bytes.space[LS_SYMMETRIC]; /* all of the heap except parameters */
    bytes.activations = bytes.space[LS_PRIVATE] - bytes.persistent;
    return bytes;
}

/* --- by this process ---------------------------------------------------------------------------------------------- */

/* Called for each class (ls_class_visit). */
static void note_bytes(void *context, int class, const ls_image *image) {
    ((ls_rank_bytes *)context)[class] = count_bytes(image);
}

/* --- by the processes of all ranks -------------------------------------------------------------------------------- */

/* What the first rank of a class sends to the others. */
typedef struct told {
    ls_proof_digest digest;
    ls_rank_bytes bytes;
} told;

/* Home compares the proofs of all classes, which names the ranks and the channel that do not fit together. */
static ls_status find_difference(const ls_job *job, const ls_target *target, ls_rank_bytes *bytes) {
    ls_image *first = NULL;
    const ls_status status = ls_is_home() ? ls_compile_proved(job, target, note_bytes, bytes, &first) : ls_ok();
    ls_image_destroy(first);
    LS_TRY(ls_home_agree(status));
    return ls_error(LS_INVALID, "the ranks compiled programs that do not fit together; expected one build and one job "
                                "on all ranks");
}

static ls_status prove_together(const ls_job *job, const ls_target *target, const ls_launched *launched,
                                ls_arena *arena, ls_proved *out) {
    told mine = {.digest = {0}}, *all = LS_NEW_ARRAY(arena, told, launched->ranks);
    ls_proof_digest *digests = LS_NEW_ARRAY(arena, ls_proof_digest, out->classes.n);
    LS_TRY(ls_home_agree(ls_compile_share(job, target, launched->rank, &mine.digest, &out->image)));
    out->class = ls_class_of(&out->classes, launched->rank);
    mine.bytes = count_bytes(out->image);
    LS_TRY(ls_launched_gather("proofs", &mine, sizeof mine, all));
    for (int c = 0; c < out->classes.n; c++) {
        const told *first = &all[ls_class_first(&out->classes, c)];
        digests[c] = first->digest;
        out->bytes[c] = first->bytes;
    }
    return ls_proof_digests_agree(digests, out->classes.n) ? ls_ok() : find_difference(job, target, out->bytes);
}

ls_status ls_prove_programs(const ls_job *job, const ls_target *target, ls_arena *arena, ls_proved *out) {
    ls_launched launched;
    LS_TRY(ls_launched_find(&launched));
    *out = (ls_proved){.class = 0};
    LS_TRY(ls_classes_find(job, target, &out->classes));
    out->bytes = LS_NEW_ARRAY(arena, ls_rank_bytes, out->classes.n);
    if (launched.ranks > 0) return prove_together(job, target, &launched, arena, out);
    return ls_compile_proved(job, target, note_bytes, out->bytes, &out->image);
}
