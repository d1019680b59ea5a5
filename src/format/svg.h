/*
 * A line chart as SVG: title, labelled axes with ticks at round numbers, named series. Readable on white
 * and on dark backgrounds (it carries its own background and follows the reader's colour scheme).
 */
#ifndef LS_FORMAT_SVG_H
#define LS_FORMAT_SVG_H

#include <stdbool.h>
#include <stdint.h>

#include "longspan/status.h"

/* Points in ascending x. A point whose x or y is not finite is left out and interrupts the line. */
typedef struct ls_chart_series {
    const char *name;
    const double *x, *y; /* [n], borrowed */
    int64_t n;
    const double *error; /* [n]: a bar from y - error to y + error where it is finite; NULL: none */
} ls_chart_series;

/* A dashed horizontal line with a name, e.g. the unigram entropy. */
typedef struct ls_chart_level {
    const char *name;
    double y;
} ls_chart_level;

typedef struct ls_chart {
    const char *title; /* NULL: none; also for the labels */
    const char *x_label, *y_label;
    bool doubling; /* x > 0 on a scale whose ticks are powers of two; points are marked */
    const ls_chart_series *series;
    int n_series; /* at most LS_CHART_SERIES */
    const ls_chart_level *levels;
    int n_levels;
} ls_chart;

#define LS_CHART_SERIES 6

/* Writes the chart atomically. Without a finite point it says "no data yet". */
LS_MUST_USE ls_status ls_svg_write_chart(const char *path, const ls_chart *chart);

#endif
