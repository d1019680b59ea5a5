/* Compares trainings on one rank and on several: a table, loss curves in characters, and a chart. */
#include "outcome.h"
#include "task.h"

#include "base/base.h"
#include "format/format.h"
#include "format/svg.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS = 56, BLOCK_BYTES = 3 };

/* The mean losses of CELLS equal parts of `steps` steps, each as a block character of one of eight heights. */
static void draw_cells(const outcome *o, int64_t steps, double highest, char out[CELLS * BLOCK_BYTES + 1]) {
    static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    out[0] = 0;
    for (int64_t c = 0; c < CELLS && ls_part_start(steps, CELLS, c) < o->steps; c++) {
        const int64_t from = ls_part_start(steps, CELLS, c);
        const int64_t to = ls_min(ls_max(ls_part_start(steps, CELLS, c + 1), from + 1), o->steps);
        double sum = 0;
        for (int64_t i = from; i < to; i++) sum += o->loss[i];
        const double height = sum / (double)(to - from) / highest * LS_COUNT(blocks);
        strcat(out, blocks[(int)fmin(height, LS_COUNT(blocks) - 1)]);
    }
}

static void print_row(const outcome *o) {
    char memory[LS_BYTES_TEXT], name[32];
    snprintf(name, sizeof name, o->ranks == 1 ? "1 rank, alone" : "%lld ranks", (long long)o->ranks);
    printf("  %-14s %6.1f %% right   after %4lld steps   %6.1f s   %10s in each rank\n", name, 100 * o->accuracy,
           (long long)o->steps, o->seconds, ls_bytes_text((double)o->measured, memory));
}

/* Prints the median and the largest difference of the two curves. */
static void print_difference(const outcome *one, const outcome *many, int64_t steps) {
    double *difference = calloc((size_t)steps + 1, sizeof *difference), most = 0;
    LS_ASSERT(difference != NULL);
    for (int64_t i = 0; i < steps; i++) {
        difference[i] = fabs(one->loss[i] - many->loss[i]);
        most = fmax(most, difference[i]);
    }
    printf("  One curve: the losses differ by %.1g nats in the median step, by at most %.1g (first loss: %.1f).\n",
           ls_median(difference, (int)steps), most, one->loss[0]);
    free(difference);
}

static void print_curves(const outcome *one, const outcome *many) {
    const int64_t both = ls_min(one->steps, many->steps), most = ls_max(one->steps, many->steps);
    const double highest =
        1.2 * log(RECALL_VALUES); /* a little above the loss of guessing, near which the curves stay longest */
    char cells[CELLS * BLOCK_BYTES + 1];
    draw_cells(one, most, highest, cells);
    printf("  loss, 1 rank   %s\n", cells);
    draw_cells(many, most, highest, cells);
    printf("  loss, %lld ranks  %s\n", (long long)many->ranks, cells);
    if (both > 0) print_difference(one, many, both);
}

/* Copies y with gaps (NAN), so that the line below is visible between the dashes. */
static void dash(const double *y, int64_t n, double *out) {
    enum { DASHES = 30 };
    for (int64_t i = 0; i < n; i++) out[i] = i * 2 * DASHES / n % 2 != 0 ? NAN : y[i];
}

static ls_status draw(const outcome *one, const outcome *many, const char *folder) {
    const int64_t most = ls_max(one->steps, many->steps);
    LS_PATH path = NULL;
    char name[40];
    LS_TRY(ls_path_join(folder, "curves.svg", &path));
    double *x = calloc((size_t)(2 * most) + 1, sizeof *x), *dashes = x + most;
    if (x == NULL) return ls_error(LS_NO_MEMORY, "no memory for a chart of %lld steps", (long long)most);
    for (int64_t i = 0; i < most; i++) x[i] = (double)i + 1;
    dash(many->loss, many->steps, dashes);
    snprintf(name, sizeof name, "%lld ranks (dashes)", (long long)many->ranks);
    const ls_chart_series series[] = {{"1 rank", x, one->loss, one->steps, NULL}, {name, x, dashes, many->steps, NULL}};
    const ls_chart_level level = {"guessing", log(RECALL_VALUES)};
    const ls_chart chart = {.title = "Recall: the same task on one rank and on several",
                            .x_label = "step",
                            .y_label = "loss of an answer, nats",
                            .series = series,
                            .n_series = LS_COUNT(series),
                            .levels = &level,
                            .n_levels = 1};
    const ls_status status = ls_svg_write_chart(path, &chart);
    free(x);
    return status;
}

ls_status outcome_compare(const outcome *one, const outcome *many, const char *folder) {
    print_row(one);
    print_row(many);
    print_curves(one, many);
    LS_TRY(ls_file_make_folders(folder));
    return draw(one, many, folder);
}
