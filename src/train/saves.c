/*
 * When a run's checkpoints are written, and what becomes of one that cannot be. No try that fails ends the training but the last: the older
 * ones stand, and it is tried again. Every rank decides alike: by the step, by a wish that all have heard, by a status that all have.
 */
#include "base/base.h"
#include "train/train_impl.h"

#include <math.h>
#include <string.h>

#define ASK_SECONDS 30.0     /* between looks at the free space */
#define RETRY_SECONDS 60.0   /* after a try that failed, where there is room for another */
#define REPEAT_SECONDS 600.0 /* between lines that say the same */

static bool is_first(const ls_saves *s) { return s->rank->rank == 0; }

/* --- room ------------------------------------------------------------------------------------------------------------------- */

/* The most checkpoints that this run still adds to the folder, one that is pruned only after the next among them; 1 where the clock decides. */
static int64_t most_to_come(const ls_training *t) {
    const ls_train_options *o = &t->options;
    const int64_t left = o->steps - t->start.step;
    int64_t n = o->save_every > 0 ? ls_ceil_div(left, o->save_every) : 1;
    if (o->keep > 0) n = ls_min(n, o->keep + 1);
    return ls_max(n, 1);
}

/* Says it once when room runs short for n checkpoints, and once when there is enough again. Only a warning: room may be made. */
static bool has_room(ls_saves *s, int64_t n) {
    const char *out = s->t->options.out;
    char missing[LS_BYTES_TEXT], each[LS_BYTES_TEXT], free_text[LS_BYTES_TEXT];
    int64_t available;
    s->asked = ls_seconds();
    if (ls_file_free_bytes(out, &available).code != LS_OK)
        return true; /* nobody knows; the save itself will tell */
    const double wanted = (double)n * (double)s->bytes, short_of = wanted - (double)available;
    if (short_of > 0 && !s->is_short)
        ls_log(
            "warning: %s has %s free, and up to %lld checkpoints to come take %s each: %s are missing; the training goes "
            "on, but what has no room is not saved",
            out, ls_bytes_text((double)available, free_text), (long long)n,
            ls_bytes_text((double)s->bytes, each), ls_bytes_text(short_of, missing));
    if (short_of <= 0 && s->is_short) ls_log("%s has room for a checkpoint again", out);
    s->is_short = short_of > 0;
    return short_of <= 0;
}

ls_status ls_saves_begin(ls_saves *s) {
    s->tried = ls_seconds();
    s->said = -INFINITY;
    for (size_t i = 0; i < LS_COUNT(s->timed); i++) s->timed[i] = -1;
    LS_TRY(ls_checkpoint_bytes(s->rank->image, ls_model_config_text(s->t->model), &s->bytes));
    if (is_first(s)) {
        (void)has_room(s, most_to_come(s->t));
        s->is_short = false; /* of one alone, it is said again */
    }
    return ls_ok();
}

bool ls_saves_wish(ls_saves *s) {
    const double every = s->t->options.save_seconds, now = ls_seconds();
    if (!is_first(s)) return false;
    const bool looks = now - s->asked >= ASK_SECONDS;
    if (looks && !has_room(s, 1)) return false;
    if (s->failed) return now - s->tried >= RETRY_SECONDS && (looks || has_room(s, 1));
    return every > 0 && now - s->tried >= every;
}

/* --- saving ------------------------------------------------------------------------------------------------------------------ */

/* Of those that the clock made the two newest stay, whatever else does: so many are no archive, and may not fill the disk. */
static void replace_timed(ls_saves *s, int64_t step) {
    const int64_t oldest = s->timed[0];
    for (size_t i = 1; i < LS_COUNT(s->timed); i++) s->timed[i - 1] = s->timed[i];
    s->timed[LS_COUNT(s->timed) - 1] = step;
    if (oldest < 0 || !is_first(s)) return;
    const ls_status removed = ls_checkpoint_remove(s->t->options.out, oldest);
    if (removed.code != LS_OK) ls_log("an old checkpoint stays: %s", removed.text);
}

static ls_status save(ls_saves *s, int64_t step, double loss) {
    const ls_train_options *o = &s->t->options;
    if (s->saved == step) return ls_ok();
    const ls_train_state state = {
        .step = step, .seed = o->seed, .sequences = step * o->batch, .last_loss = loss};
    const ls_status status = ls_checkpoint_save(s->rank->executor, s->rank->comm, o->out, &state,
                                                ls_model_config_text(s->t->model), (int)o->keep);
    s->tried = ls_seconds();
    s->failed = status.code != LS_OK;
    if (!s->failed) s->saved = step;
    return status;
}

/* What the run can be resumed from. */
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
    if (is_first(s) && s->tried - s->said >= REPEAT_SECONDS) {
        LS_TRY(name_kept(s, &kept));
        ls_log("warning: step %lld is not saved: %s; %s; the training goes on and tries again",
               (long long)step, status.text, kept);
        s->said = s->tried;
    }
    return ls_ok();
}

ls_status ls_saves_after(ls_saves *s, int64_t step, double loss, bool wished) {
    const int64_t every = s->t->options.save_every;
    const bool due = every > 0 && step % every == 0;
    if (step == s->t->options.steps) return ls_ok(); /* ls_saves_last follows */
    if (!due && !wished) return ls_ok();
    const bool by_clock = !due && s->saved != step;
    LS_TRY(ls_saves_try(s, step, loss));
    if (by_clock && s->saved == step) replace_timed(s, step);
    return ls_ok();
}

ls_status ls_saves_last(ls_saves *s, int64_t step, double loss) {
    LS_PATH kept = NULL;
    const ls_status status = save(s, step, loss);
    if (status.code != LS_OK) LS_TRY(name_kept(s, &kept));
    return ls_error_in(status, "step %lld, the last one, is not saved (%s)", (long long)step, kept);
}
