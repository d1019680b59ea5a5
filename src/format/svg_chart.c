/* A line chart: title, labelled axes with ticks at round numbers, named series. */
#include "format/format_impl.h"
#include "format/svg.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = 960,
    HEIGHT = 540,
    LEFT = 84,
    RIGHT = 40,
    TOP = 84,
    BOTTOM = 68,
    FONT = 14,
    COLUMNS = WIDTH - LEFT - RIGHT
};

/*
 * The colours of the series in light and dark mode. People with colour blindness can tell them apart (after Okabe and
 * Ito).
 */
static const char *const light_colours[LS_CHART_SERIES] = {"#0067b8", "#c04a00", "#007a57",
                                                           "#a3468f", "#7a6300", "#3d8bbd"};
static const char *const dark_colours[LS_CHART_SERIES] = {"#5cb3f5", "#ff9a52", "#3fcf9f",
                                                          "#e394cf", "#e3c94b", "#a8d8f5"};

/* An axis with the values [low, high] and ticks at multiples of `step`. */
typedef struct axis {
    double low, high, step;
    int decimals;
} axis;

typedef struct picture {
    FILE *out;
    const ls_chart *chart;
    axis x, y;
} picture;

static axis make_axis(double low, double high, int most, bool widen) {
    if (!(high > low)) { /* a single value: widen the axis around it */
        double room = fmax(1, fabs(low) * 0.1);
        low -= room;
        high += room;
    }
    axis a = {low, high, ls_svg_round_step(high - low, most), 0};
    if (widen) {
        a.low = floor(low / a.step + 1e-9) * a.step;
        a.high = ceil(high / a.step - 1e-9) * a.step;
    }
    a.decimals = (int)fmax(0, fmin(9, -floor(log10(a.step) + 1e-9)));
    return a;
}

static bool finite_point(const ls_chart_series *s, int64_t i) { return isfinite(s->x[i]) && isfinite(s->y[i]); }

static double error_of(const ls_chart_series *s, int64_t i) {
    return s->error != NULL && isfinite(s->error[i]) ? s->error[i] : 0;
}

/* The position of a value along the x axis, in units of its scale. */
static double along(const ls_chart *chart, double x) { return chart->doubling ? log2(x) : x; }

/* Sets axes that contain all finite points and levels; false without a point. */
static bool find_axes(const ls_chart *chart, axis *x, axis *y) {
    double x0 = INFINITY, x1 = -INFINITY, y0 = INFINITY, y1 = -INFINITY;
    for (int k = 0; k < chart->n_series; k++) {
        const ls_chart_series *s = &chart->series[k];
        for (int64_t i = 0; i < s->n; i++) {
            if (!finite_point(s, i)) continue;
            const double x_at = along(chart, s->x[i]), error = error_of(s, i);
            x0 = fmin(x0, x_at), x1 = fmax(x1, x_at);
            y0 = fmin(y0, s->y[i] - error), y1 = fmax(y1, s->y[i] + error);
        }
    }
    if (x0 > x1) return false;
    for (int k = 0; k < chart->n_levels; k++) {
        if (!isfinite(chart->levels[k].y)) continue;
        y0 = fmin(y0, chart->levels[k].y), y1 = fmax(y1, chart->levels[k].y);
    }
    *x = chart->doubling ? (axis){floor(x0), fmax(ceil(x1), floor(x0) + 1), 1, 0} : make_axis(x0, x1, 10, false);
    *y = make_axis(y0, y1, 7, true);
    return true;
}

static double place_x(const picture *p, double x) {
    return LEFT + (along(p->chart, x) - p->x.low) / (p->x.high - p->x.low) * COLUMNS;
}

static double place_y(const picture *p, double y) {
    return HEIGHT - BOTTOM - (y - p->y.low) / (p->y.high - p->y.low) * (HEIGHT - TOP - BOTTOM);
}

static void tick_text(const axis *a, double value, char *out, size_t room) {
    double largest = fmax(fabs(a->low), fabs(a->high));
    if (fabs(value) < a->step * 1e-6) value = 0;
    if (largest >= 1e7 || a->step < 1e-6)
        ls_print(out, room, "%.4g", value);
    else
        ls_print(out, room, "%.*f", a->decimals, value);
}

/* Prints 2^exponent as 512, 1K, 2K, ... */
static void power_text(double exponent, char *out, size_t room) {
    static const char *const units[] = {"", "K", "M", "G", "T"};
    const int last = LS_COUNT(units) - 1;
    const int unit = (int)fmin(last, fmax(0, floor(exponent / 10)));
    ls_print(out, room, "%g%s", exp2(exponent - 10 * unit), units[unit]);
}

static void draw_x_ticks(const picture *p) {
    char number[40];
    for (double i = ceil(p->x.low / p->x.step - 1e-9); i * p->x.step <= p->x.high + p->x.step * 1e-6; i++) {
        const double value = p->chart->doubling ? exp2(i) : i * p->x.step, x = place_x(p, value);
        ls_svg_line(p->out, "axis", x, HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 5);
        if (p->chart->doubling)
            power_text(i, number, sizeof number);
        else
            tick_text(&p->x, value, number, sizeof number);
        ls_svg_text(p->out, "x", x, HEIGHT - BOTTOM + 23, number);
    }
}

static void draw_axes(const picture *p) {
    FILE *out = p->out;
    char number[40];
    for (double i = ceil(p->y.low / p->y.step - 1e-9); i * p->y.step <= p->y.high + p->y.step * 1e-6; i++) {
        double y = place_y(p, i * p->y.step);
        ls_svg_line(out, "grid", LEFT, y, WIDTH - RIGHT, y);
        tick_text(&p->y, i * p->y.step, number, sizeof number);
        ls_svg_text(out, "y", LEFT - 10, y + 5, number);
    }
    ls_svg_line(out, "axis", LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM);
    draw_x_ticks(p);
    const ls_chart *chart = p->chart;
    if (chart->x_label) ls_svg_text(out, "x", LEFT + COLUMNS / 2.0, HEIGHT - 18, chart->x_label);
    if (chart->y_label) ls_svg_text_upwards(out, "x", 24, floor((TOP + HEIGHT - BOTTOM) / 2.0), chart->y_label);
}

/* The points that fall into one column of pixels: the first, the last and the extremes are enough to draw them. */
typedef struct column {
    int64_t first, least, most, last;
} column;

static void draw_column(const picture *p, const ls_chart_series *s, const column *c, char *command) {
    int64_t order[4] = {c->first, c->least < c->most ? c->least : c->most, c->least < c->most ? c->most : c->least,
                        c->last};
    for (int i = 0; i < 4; i++) {
        if (i > 0 && order[i] == order[i - 1]) continue;
        ls_print_to(p->out, "%c%.1f %.1f", *command, place_x(p, s->x[order[i]]), place_y(p, s->y[order[i]]));
        *command = 'L';
    }
}

static void draw_point(const picture *p, int series, int64_t i) {
    const ls_chart_series *s = &p->chart->series[series];
    const double x = place_x(p, s->x[i]), error = error_of(s, i);
    ls_print_to(p->out, "<circle class=\"d%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>\n", series, x, place_y(p, s->y[i]));
    if (error > 0)
        ls_print_to(p->out, "<path class=\"line l%d bar\" d=\"M%.1f %.1fV%.1f\"/>\n", series, x,
                    place_y(p, s->y[i] - error), place_y(p, s->y[i] + error));
}

/* Draws s->[from, to), all finite. */
static void draw_run(const picture *p, const ls_chart_series *s, int series, int64_t from, int64_t to) {
    for (int64_t i = from; i < to && (p->chart->doubling || to - from == 1); i++) draw_point(p, series, i);
    if (to - from == 1) return;
    char command = 'M';
    const char *dense = to - from > 2 * COLUMNS ? " dense" : "";
    fprintf(p->out, "<path class=\"line l%d%s\" d=\"", series, dense);
    column c = {from, from, from, from};
    for (int64_t i = from + 1; i <= to; i++) {
        if (i == to || floor(place_x(p, s->x[i])) != floor(place_x(p, s->x[c.first]))) {
            draw_column(p, s, &c, &command);
            c = (column){i, i, i, i};
            continue;
        }
        if (s->y[i] < s->y[c.least]) c.least = i;
        if (s->y[i] > s->y[c.most]) c.most = i;
        c.last = i;
    }
    fputs("\"/>\n", p->out);
}

static void draw_series(const picture *p, int series) {
    const ls_chart_series *s = &p->chart->series[series];
    int64_t from = 0;
    for (int64_t i = 0; i <= s->n; i++) {
        if (i < s->n && finite_point(s, i)) continue;
        if (i > from) draw_run(p, s, series, from, i);
        from = i + 1;
    }
}

static void draw_legend(const picture *p) {
    double x = LEFT;
    for (int i = 0; i < p->chart->n_series; i++) {
        const char *name = p->chart->series[i].name;
        ls_print_to(p->out, "<path class=\"line l%d\" d=\"M%.1f %dh20\"/>\n", i, x, TOP - 24);
        ls_svg_text(p->out, "name", x + 28, TOP - 19, name);
        x += 28 + ls_svg_text_width(name, FONT) + 26;
    }
    for (int i = 0; i < p->chart->n_levels; i++) {
        const ls_chart_level *level = &p->chart->levels[i];
        if (!isfinite(level->y)) continue;
        double y = place_y(p, level->y);
        ls_svg_line(p->out, "level", LEFT, y, WIDTH - RIGHT, y);
        ls_svg_text(p->out, "y", WIDTH - RIGHT - 6, y - 7, level->name);
    }
}

static void draw_chart(FILE *out, const void *context) {
    const ls_chart *chart = context;
    picture p = {.out = out, .chart = chart};
    if (chart->title) ls_svg_text(out, "title", LEFT, 38, chart->title);
    if (find_axes(chart, &p.x, &p.y)) {
        draw_axes(&p);
        draw_legend(&p);
        for (int i = 0; i < chart->n_series; i++) draw_series(&p, i);
    } else {
        ls_svg_text(out, "middle", WIDTH / 2.0, HEIGHT / 2.0, "no data yet");
    }
}

ls_status ls_svg_write_chart(const char *path, const ls_chart *chart) {
    LS_ASSERT(chart->n_series >= 0 && chart->n_series <= LS_CHART_SERIES);
    const ls_svg_palette palettes[] = {{"l", "stroke", light_colours, dark_colours, LS_CHART_SERIES},
                                       {"d", "fill", light_colours, dark_colours, LS_CHART_SERIES}};
    const ls_svg_look look = {.width = WIDTH,
                              .height = HEIGHT,
                              .light = ".line{fill:none;stroke-width:2.25;stroke-linejoin:round;stroke-linecap:round}\n"
                                       ".dense{stroke-width:1}\n.bar{stroke-width:1.25}\n",
                              .palettes = palettes,
                              .n_palettes = LS_COUNT(palettes)};
    return ls_svg_write(path, &look, draw_chart, chart);
}
