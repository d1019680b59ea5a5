#include "base/base.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- printable text ---- */

/* Everything but the control characters (C0, DEL, C1) and the marks that reorder a line. */
static bool is_printed(uint32_t code) {
    return code >= 0x20 && (code < 0x7f || code >= 0xa0) && !(code >= 0x202a && code <= 0x202e) &&
           !(code >= 0x2066 && code <= 0x2069);
}

size_t ls_printable_at(const char *text, size_t bytes) {
    uint32_t code;
    const int length = ls_utf8_decode(text, bytes, &code);
    return length > 0 && is_printed(code) ? (size_t)length : 0;
}

void ls_printable_line(char *text) {
    for (size_t left = strlen(text), n; left > 0; text += n, left -= n) {
        n = ls_printable_at(text, left);
        if (n > 0) continue;
        *text = '?';
        n = 1;
    }
}

void ls_print_line(FILE *out, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *line = ls_vprint_new(format, args);
    va_end(args);
    if (line == NULL) return; /* no memory for the line: it is lost */
    ls_printable_line(line);
    fprintf(out, "%s\n", line);
    free(line);
}

/* ---- messages and progress ---- */

#define ERASE_LINE "\r\033[K"

/* ls_log_silence was called. Global because standard error belongs to the whole process. */
static atomic_bool silent;

void ls_log_silence(void) { atomic_store(&silent, true); }

/*
 * Writes to standard error. When it is a pipe whose reader is gone, the text is lost but the process continues:
 * SIGPIPE, which would end it, is blocked during the write, and a SIGPIPE from the write is removed from the thread's
 * pending signals.
 */
static void print_on_stderr(const char *text) {
    if (atomic_load(&silent)) return;
    const struct timespec at_once = {0, 0};
    sigset_t closed, pending, mask;
    sigemptyset(&closed);
    sigaddset(&closed, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &closed, &mask);
    const bool written = fputs(text, stderr) >= 0 && fflush(stderr) == 0;
    if (!written && !sigismember(&pending, SIGPIPE)) (void)sigtimedwait(&closed, NULL, &at_once);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

void ls_log(const char *format, ...) {
    char text[1024], line[1100];
    va_list args;
    va_start(args, format);
    ls_vprint(text, sizeof text, format, args);
    va_end(args);
    ls_printable_line(text);
    snprintf(line, sizeof line, "%slongspan: %s\n", isatty(STDERR_FILENO) ? ERASE_LINE : "", text);
    print_on_stderr(line);
}

ls_progress ls_progress_start(const char *title, int64_t total) {
    return (ls_progress){.title = title, .total = total, .terminal = isatty(STDERR_FILENO), .started = ls_seconds()};
}

/* " · 2:05 left" or " · 1:02:05 left"; empty before the first unit, after the last, and from 100 hours on. */
static void print_time_left(const ls_progress *progress, int64_t done, double now, char *out, size_t bytes) {
    out[0] = 0;
    if (done <= progress->before || done >= progress->total) return;
    double left = (now - progress->started) * (double)(progress->total - done) / (double)(done - progress->before);
    if (progress->limit > 0) left = fmin(left, fmax(progress->limit - now, 0));
    if (left >= 100.0 * 3600) return;
    const int s = (int)(left + 0.5);
    if (s >= 3600)
        snprintf(out, bytes, " · %d:%02d:%02d left", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, bytes, " · %d:%02d left", s / 60, s % 60);
}

/* Cuts text to `columns` characters (UTF-8 sequences count as one). */
static void cut_to_width(char *text, int columns) {
    for (; *text; text++) {
        const bool starts_character = ((unsigned char)*text & 0xc0) != 0x80;
        if (starts_character && columns-- == 0) {
            *text = 0;
            return;
        }
    }
}

static void draw_bar(const ls_progress *progress, int64_t done, const char *line) {
    enum { CELLS = 24 };
    struct winsize window = {0};
    const int columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col ? window.ws_col : 80;
    const int64_t total = ls_max(progress->total, 1);
    const int filled = (int)(CELLS * ls_min(ls_max(done, 0), total) / total);
    char bar[3 * CELLS + 1] = "";
    for (int i = 0; i < CELLS; i++) strcat(bar, i < filled ? "█" : "░");
    char all[1024];
    snprintf(all, sizeof all, "%s %s", bar, line);
    cut_to_width(all, columns - 1);
    print_on_stderr(ERASE_LINE);
    print_on_stderr(all);
}

void ls_progress_show(ls_progress *progress, int64_t done, const char *note) {
    const double now = ls_seconds();
    if (progress->terminal && done < progress->total && now - progress->last_drawn < 0.1) return;
    progress->last_drawn = now;
    char left[40], line[900], whole[920];
    print_time_left(progress, done, now, left, sizeof left);
    snprintf(line, sizeof line, "%s %lld/%lld%s%s%s", progress->title, (long long)done, (long long)progress->total,
             note && note[0] ? " · " : "", note ? note : "", left);
    if (progress->terminal)
        draw_bar(progress, done, line);
    else {
        snprintf(whole, sizeof whole, "longspan: %s\n", line);
        print_on_stderr(whole);
    }
}

void ls_progress_end(ls_progress *progress) {
    if (progress->terminal && progress->last_drawn > 0) print_on_stderr("\n");
    progress->last_drawn = 0;
}
