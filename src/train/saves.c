/*
 * Decides when checkpoints are written, and handles failures to write one: the older ones stay, the training continues,
 * and the checkpoint is tried again later. Only a failure of the last checkpoint ends the training. All ranks decide
 * the same, because they decide by the step number, by wishes that are exchanged after each step, and by a status that
 * all ranks agree on.
 */
#include "base/base.h"
#include "train/train_impl.h"

#include <math.h>
#include <string.h>

#define MEASURE_SECONDS 30.0 /* between measurements of the free space */
#define RETRY_SECONDS 60.0   /* from a failed attempt to the next one, if there is space */
#define REPEAT_SECONDS 600.0 /* between repetitions of the same warning */

static bool is_first(const ls_saves *s) { return s->rank->rank == 0; }

/* --- space -------------------------------------------------------------------------------------------------------- */

/*
 * The most checkpoints that this run will add to the folder; 1 if they are due by time. With --keep n the number is n +
 * 1, because the oldest is removed only after the newest is written.
 */
static int64_t checkpoints_to_come(const ls_training *t) {
    const ls_train_options *o = &t->options;
    const int64_t left = o->steps - t->start.step;
    int64_t n = o->save_every > 0 ? ls_ceil_div(left, o->save_every) : 1;
    if (o->keep > 0) n = ls_min(n, o->keep + 1);
    return ls_max(n, 1);
}

/*
 * Whether the disk has space for n checkpoints. Logs once when space becomes short and once when it suffices again.
 * This is only a warning, because the user may free some space.
 */
static bool has_space(ls_saves *s, int64_t n) {
    const char *out = s->t->options.out;
    char missing[LS_BYTES_TEXT], each[LS_BYTES_TEXT], free_text[LS_BYTES_TEXT];
    int64_t available;
    s->measured = ls_seconds();
    if (ls_file_free_bytes(out, &available).code != LS_OK)
        return true; /* unknown: writing the checkpoint will show whether there is space */
    const double wanted = (double)n * (double)s->bytes, short_of = wanted - (double)available;
    if (short_of > 0 && !s->is_short)
        ls_log("warning: %s has %s free, and up to %lld checkpoints to come take %s each: %s are missing; the training "
               "continues, but checkpoints that do not fit are not saved",
               out, ls_bytes_text((double)available, free_text), (long long)n, ls_bytes_text((double)s->bytes, each),
               ls_bytes_text(short_of, missing));
    if (short_of <= 0 && s->is_short) ls_log("%s has room for a checkpoint again", out);
    s->is_short = short_of > 0;
    return short_of <= 0;
}

ls_status ls_saves_begin(ls_saves *s) {
    s->tried = ls_seconds();
    s->warned = -INFINITY;
    for (size_t i = 0; i < LS_COUNT(s->timed); i++) s->timed[i] = -1;
    const ls_model_text model = ls_model_written(s->t->model);
    LS_TRY(ls_checkpoint_bytes(s->rank->image, &model, &s->bytes));
    if (is_first(s)) {
        (void)has_space(s, checkpoints_to_come(s->t));
        s->is_short = false; /* so that a lack of space for one checkpoint is logged too */
    }
    return ls_ok();
}

bool ls_saves_wanted(ls_saves *s) {
    const double every = s->t->options.save_seconds, now = ls_seconds();
    if (!is_first(s)) return false;
    const bool measures = now - s->measured >= MEASURE_SECONDS;
    if (measures && !has_space(s, 1)) return false;
    if (s->failed) return now - s->tried >= RETRY_SECONDS && (measures || has_space(s, 1));
    return every > 0 && now - s->tried >= every;
}

/* --- saving ------------------------------------------------------------------------------------------------------- */

/*
 * Keeps only the two newest of the checkpoints that were due by time, whatever --keep says, so that they do not fill
 * the disk.
 */
static void replace_timed(ls_saves *s, int64_t step) {
    const int64_t oldest = s->timed[0];
    for (size_t i = 1; i < LS_COUNT(s->timed); i++) s->timed[i - 1] = s->timed[i];
    s->timed[LS_COUNT(s->timed) - 1] = step;
    if (oldest < 0 || !is_first(s)) return;
    const ls_status removed = ls_checkpoint_remove(s->t->options.out, oldest);
    if (removed.code != LS_OK) ls_log("an old checkpoint cannot be removed: %s", removed.text);
}

/* If there is an average, it is saved in place of the weights, and the weights in place of the average. */
static ls_status save(ls_saves *s, int64_t step, double loss) {
    const ls_train_options *o = &s->t->options;
    if (s->saved == step) return ls_ok();
    const ls_train_state state = {.step = step,
                                  .seed = o->seed,
                                  .sequences = step * o->batch,
                                  .last_loss = loss,
                                  .origin = ls_train_origin_of(s->t)};
    const ls_model_text model = ls_model_written(s->t->model);
    LS_TRY(ls_rank_exchange(s->rank));
    const ls_status status = ls_checkpoint_save(s->rank->executor, s->rank->comm, o->out, &state, &model, (int)o->keep);
    if (status.code == LS_OK || status.code == LS_IO) LS_TRY(ls_rank_exchange(s->rank));
    s->tried = ls_seconds();
    s->failed = status.code != LS_OK;
    if (!s->failed) s->saved = step;
    return status;
}

/* Writes a clause about the checkpoint that the run can be resumed from. */
static ls_status name_kept(const ls_saves *s, char **out) {
    LS_PATH newest = NULL;
    if (ls_checkpoint_find(s->t->options.out, &newest).code != LS_OK)
        return ls_path_print(out, "there is no checkpoint of this run");
    return ls_path_print(out, "kept: %s", newest);
}

ls_status ls_saves_try(ls_saves *s, int64_t step, double loss) {
    LS_PATH kept = NULL;
    const bool again = s->failed;
    const ls_status status = save(s, step, loss);
    if (status.code == LS_OK && again && is_first(s))
        ls_log("step %lld is saved; there is room again", (long long)step);
    if (status.code != LS_IO) return status;
    if (is_first(s) && s->tried - s->warned >= REPEAT_SECONDS) {
        LS_TRY(name_kept(s, &kept));
        ls_log("warning: step %lld is not saved: %s; %s; the training continues and tries again", (long long)step,
               status.text, kept);
        s->warned = s->tried;
    }
    return ls_ok();
}

ls_status ls_saves_after(ls_saves *s, int64_t step, double loss, bool wanted) {
    const int64_t every = s->t->options.save_every;
    const bool due = every > 0 && step % every == 0;
    if (step == s->t->options.steps) return ls_ok(); /* ls_saves_last follows */
    if (!due && !wanted) return ls_ok();
    const bool by_time = !due && s->saved != step;
    LS_TRY(ls_saves_try(s, step, loss));
    if (by_time && s->saved == step) replace_timed(s, step);
    return ls_ok();
}

ls_status ls_saves_last(ls_saves *s, int64_t step, double loss) {
    LS_PATH kept = NULL;
    const ls_status status = save(s, step, loss);
    if (status.code != LS_OK) LS_TRY(name_kept(s, &kept));
    return ls_error_in(status, "step %lld, the last one, is not saved (%s)", (long long)step, kept);
}
