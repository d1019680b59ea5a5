/*
 * Text that reaches a terminal: messages and progress on standard error, one line each, and the filter for text that
 * Longspan did not write itself. Standard output belongs to results.
 *
 * Text from files, file names and models may hold control characters, which can move the cursor, change the window's
 * title or send input in the user's name, marks that reorder a line, and bytes that are not UTF-8. Every message and
 * every page that holds such text passes through the filter.
 */
#ifndef LS_BASE_TERMINAL_H
#define LS_BASE_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "longspan/status.h"

/*
 * The length in bytes of the character at the start of text[0, bytes); 0 when it is no valid character, or one that
 * must not be printed. Newline and tab must not be printed.
 */
size_t ls_printable_at(const char *text, size_t bytes);

/* Replaces each byte that must not be printed by '?', so that a message stays one line. */
void ls_printable_line(char *text);

/* Formats like printf, filters the result, and prints it with a newline. */
void ls_print_line(FILE *out, const char *format, ...) LS_PRINTF(2, 3);

/* Prints one filtered line "longspan: ..." on standard error, and clears a progress bar that stands on the line. */
void ls_log(const char *format, ...) LS_PRINTF(1, 2);

/*
 * From now on ls_log and progress print nothing in this process, because another process of the same job prints for
 * all. This cannot be undone.
 */
void ls_log_silence(void);

/* A terminal gets a progress bar that redraws itself; a pipe gets plain lines. */
typedef struct ls_progress {
    const char *title; /* the work that is done, e.g. "training" */
    int64_t total;     /* units of work */
    int64_t before;    /* units that were done before the start, counted in total; 0 unless the caller sets it after the
                          start */
    bool terminal;     /* stderr is a terminal */
    double started;    /* ls_seconds() */
    double limit;      /* the ls_seconds() at which the work stops even if it is not done; 0: never */
    double last_drawn; /* ls_seconds(); 0: nothing is drawn yet */
} ls_progress;

/* Starts a progress display over `total` units. A caller whose work has a time limit sets `limit` afterwards. */
ls_progress ls_progress_start(const char *title, int64_t total);

/*
 * Shows that `done` units are finished, with `note` (e.g. "loss 2.31 · 8.1k tokens/s") and the time left.
 * A terminal is redrawn at most ten times a second (and always at the end); a pipe gets one line per call.
 */
void ls_progress_show(ls_progress *progress, int64_t done, const char *note);

/* Ends the display: text that is printed afterwards starts on a new line. */
void ls_progress_end(ls_progress *progress);

#endif
