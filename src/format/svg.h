/*
 * Pictures in SVG: text, lines and boxes in one style, and a line chart made of them. A picture has its own background
 * and follows the reader's colour scheme, so that it is readable in light and dark mode.
 *
 * The argument css has one or more classes: "title", "strong" and "small" for text; "x" for centred text, "y" for text
 * that ends at the point; "grid", "axis", "level" and "paper" for lines and boxes; and the classes of the picture's
 * palettes.
 */
#ifndef LS_FORMAT_SVG_H
#define LS_FORMAT_SVG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "longspan/status.h"

/* The colours of the classes NAME0, NAME1, ..., in light and dark mode. */
typedef struct ls_svg_palette {
    const char *name;
    const char *property; /* "fill" or "stroke" */
    const char *const *light, *const *dark;
    int n;
} ls_svg_palette;

typedef struct ls_svg_look {
    int width, height;
    const char *light, *dark; /* further CSS rules: for both modes, and for dark mode only; NULL: none */
    const ls_svg_palette *palettes;
    int n_palettes;
} ls_svg_look;

typedef void (*ls_svg_draw)(FILE *out, const void *context);

/* Writes a picture atomically: the background, then what `draw` prints. LS_IO errors name the file. */
LS_MUST_USE ls_status ls_svg_write(const char *path, const ls_svg_look *look, ls_svg_draw draw, const void *context);

void ls_svg_text(FILE *out, const char *css, double x, double y, const char *text);
/* The same, rotated about (x,y) to read upwards. */
void ls_svg_text_upwards(FILE *out, const char *css, double x, double y, const char *text);
void ls_svg_line(FILE *out, const char *css, double x1, double y1, double x2, double y2);
/* tip: a text that is shown when the pointer is on the box; NULL: none. */
void ls_svg_box(FILE *out, const char *css, double x, double y, double width, double height, const char *tip);

/*
 * The distance of ticks: the smallest of 1, 2 and 5 times a power of ten that cuts the span > 0 into at most `most`
 * parts.
 */
double ls_svg_round_step(double span, int most);

/* The approximate width of a text. */
double ls_svg_text_width(const char *text, double font_size);
/* The first characters of a text that fit into a width. Written to `out`, which has `room` bytes, and returned. */
const char *ls_svg_fit(const char *text, double font_size, double width, char *out, size_t room);

/* ---- a line chart ---- */

/* Points in ascending x. A point whose x or y is not finite is skipped and interrupts the line. */
typedef struct ls_chart_series {
    const char *name;
    const double *x, *y; /* [n], borrowed */
    int64_t n;
    const double *error; /* [n]: an error bar from y - error to y + error if it is finite; NULL: no bars */
} ls_chart_series;

/* A dashed horizontal line with a name, e.g. the entropy of unigrams. */
typedef struct ls_chart_level {
    const char *name;
    double y;
} ls_chart_level;

typedef struct ls_chart {
    const char *title, *x_label, *y_label; /* NULL: none */
    bool doubling; /* x > 0 on a logarithmic scale with ticks at powers of two, and with marked points */
    const ls_chart_series *series;
    int n_series; /* at most LS_CHART_SERIES */
    const ls_chart_level *levels;
    int n_levels;
} ls_chart;

#define LS_CHART_SERIES 6

/* Writes the chart atomically. Without a finite point it shows "no data yet". */
LS_MUST_USE ls_status ls_svg_write_chart(const char *path, const ls_chart *chart);

#endif
