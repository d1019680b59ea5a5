/*
 * Messages for people, on standard error, one line each. Standard output belongs to results.
 * A terminal gets a progress bar that redraws itself; a pipe gets plain lines.
 */
#ifndef LS_BASE_LOG_H
#define LS_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "longspan/status.h"

/* One line "longspan: ..." on standard error; clears a progress bar that stands on the line. */
void ls_log(const char *format, ...) LS_PRINTF(1, 2);

typedef struct ls_progress {
    const char *title; /* what is going on, e.g. "training" */
    int64_t total;
    int64_t before; /* units that were done when it began, of those; 0 unless a caller sets it afterwards */
    bool terminal;  /* stderr is a terminal */
    double started;
    double limit; /* ls_seconds() when the work stops even if it is not done; 0: never */
    double last_drawn;
} ls_progress;

/* Starts a progress display over `total` units. A caller whose work has a time limit sets `limit` afterwards. */
ls_progress ls_progress_start(const char *title, int64_t total);

/*
 * Shows that `done` units are finished, with `note` (e.g. "loss 2.31 · 8.1k tokens/s") and the time left.
 * A terminal is redrawn at most ten times a second (and always at the end); a pipe gets one line per call.
 */
void ls_progress_show(ls_progress *progress, int64_t done, const char *note);

/* Leaves the line so that what follows starts on a fresh one. */
void ls_progress_end(ls_progress *progress);

#endif
