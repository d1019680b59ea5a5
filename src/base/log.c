#include "base/base.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define ERASE_LINE "\r\033[K"

void ls_log(const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "%slongspan: %s\n", isatty(STDERR_FILENO) ? ERASE_LINE : "", text);
}

ls_progress ls_progress_start(const char *title, int64_t total) {
    return (ls_progress){
        .title = title, .total = total, .terminal = isatty(STDERR_FILENO), .started = ls_seconds()};
}

/* "2:05 left" or "1:02:05 left"; empty before anything is done and at the end. */
static void print_time_left(const ls_progress *progress, int64_t done, double now, char *out, size_t bytes) {
    out[0] = 0;
    if (done <= 0 || done >= progress->total) return;
    double left = (now - progress->started) * (double)(progress->total - done) / (double)done;
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
    fprintf(stderr, ERASE_LINE "%s", all);
    fflush(stderr);
}

void ls_progress_show(ls_progress *progress, int64_t done, const char *note) {
    const double now = ls_seconds();
    if (progress->terminal && done < progress->total && now - progress->last_drawn < 0.1) return;
    progress->last_drawn = now;
    char left[40], line[900];
    print_time_left(progress, done, now, left, sizeof left);
    snprintf(line, sizeof line, "%s %lld/%lld%s%s%s", progress->title, (long long)done,
             (long long)progress->total, note && note[0] ? " · " : "", note ? note : "", left);
    if (progress->terminal)
        draw_bar(progress, done, line);
    else
        fprintf(stderr, "longspan: %s\n", line);
}

void ls_progress_end(ls_progress *progress) {
    if (progress->terminal && progress->last_drawn > 0) fputc('\n', stderr);
    progress->last_drawn = 0;
}
