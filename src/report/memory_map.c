/* The memory map, drawn from the image alone. Lengths are in pixels. */
#include "report/report.h"

#include "base/base.h"
#include "format/format.h"
#include "program/program.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    WIDTH = 1320,
    HEIGHT = 960,
    LEFT = 92,
    PLOT = 900,   /* width of all programs together */
    GAP = 10,     /* gap between programs */
    ASIDE = 1020, /* x of the text about the peak */
    RIGHT = 1292, /* right end of that text */
    SMALL = 12,   /* font size */
    LARGEST = 9   /* number of buffers named at a peak */
};

static const char *const light_colours[LS_BUFFER_KINDS] = {"#c3cad1", "#dccfb5", "#5aa5e6", "#f09a5e", "#e3c353",
                                                           "#98a2ad", "#a6d8bd", "#b79be0", "#e79bc0"};
static const char *const dark_colours[LS_BUFFER_KINDS] = {"#4a525c", "#5f553d", "#1f5f9e", "#9a4d16", "#77620f",
                                                          "#69727d", "#1f6b4a", "#5b3f94", "#8a3566"};

/* The place of each program along the x axis. */
typedef struct columns {
    double *x, *step; /* by program: x of its first instruction, and width of an instruction */
} columns;

/* The part of the picture for one arena. */
typedef struct panel {
    FILE *out;
    const ls_image *image;
    const columns *columns;
    ls_space space;
    double top, bottom;
    double most; /* number of bytes at the top */
    ls_peak peak;
} panel;

typedef struct picture {
    const ls_image *image;
    int rank;
    const char *model;
} picture;

/* --- positions ---------------------------------------------------------------------------------------------------- */

/* Widths are proportional to the numbers of instructions, with a minimum that keeps short programs visible. */
static columns make_columns(const ls_image *image, ls_arena *arena) {
    double *weight = LS_NEW_ARRAY(arena, double, image->n_programs), sum = 0, all = 0;
    int n = 0;
    for (int p = 0; p < image->n_programs; p++) all += image->programs[p].n_instrs;
    for (int p = 0; p < image->n_programs; p++) {
        const int length = image->programs[p].n_instrs;
        weight[p] = length > 0 ? fmax(length, 0.14 * all) : 0;
        sum += weight[p];
        n += length > 0;
    }
    columns c = {LS_NEW_ARRAY(arena, double, image->n_programs), LS_NEW_ARRAY(arena, double, image->n_programs)};
    double x = LEFT;
    for (int p = 0; p < image->n_programs; p++) {
        if (weight[p] == 0) continue;
        const double width = (PLOT - GAP * (n - 1)) * weight[p] / sum;
        c.x[p] = x;
        c.step[p] = width / image->programs[p].n_instrs;
        x += width + GAP;
    }
    return c;
}

static double place_x(const panel *p, int program, double instr) {
    return p->columns->x[program] + instr * p->columns->step[program];
}

static double place_y(const panel *p, double bytes) { return p->bottom - bytes / p->most * (p->bottom - p->top); }

/* --- one arena ---------------------------------------------------------------------------------------------------- */

static void put_axes(const panel *p) {
    double step = 1;
    while (p->most / step > 8) step *= 2;
    for (int i = 0; i * step <= p->most; i++) {
        char text[LS_BYTES_TEXT];
        const double bytes = i * step;
        const double y = place_y(p, bytes);
        ls_svg_line(p->out, bytes > 0 ? "grid" : "axis", LEFT, y, LEFT + PLOT, y);
        ls_svg_text(p->out, "y small", LEFT - 10, y + 4, ls_bytes_text(bytes, text));
    }
    for (int i = 0; i < p->image->n_programs; i++) {
        const int n = p->image->programs[i].n_instrs;
        if (n == 0) continue;
        char text[64];
        const double x0 = place_x(p, i, 0), x1 = place_x(p, i, n);
        ls_svg_line(p->out, "axis", x0, p->bottom, x0, p->bottom + 6);
        ls_svg_line(p->out, "axis", x1, p->bottom, x1, p->bottom + 6);
        ls_svg_text(p->out, "x strong", (x0 + x1) / 2, p->bottom + 20, p->image->programs[i].name);
        snprintf(text, sizeof text, "%d instructions", n);
        ls_svg_text(p->out, "x small", (x0 + x1) / 2, p->bottom + 36, text);
    }
}

static void put_buffer(const panel *p, const ls_buffer *b) {
    char tip[300], bytes[LS_BYTES_TEXT], name[96], css[32];
    double x0 = LEFT, x1 = LEFT + PLOT;
    int used = snprintf(tip, sizeof tip, "%s · %s · %s at offset %zu", b->name, ls_buffer_kind_name(b->kind),
                        ls_bytes_text((double)b->bytes, bytes), b->offset);
    if (b->program >= 0) {
        x0 = place_x(p, b->program, b->first);
        x1 = place_x(p, b->program, b->last + 1);
        snprintf(tip + used, sizeof tip - (size_t)used, " · %s %d to %d", p->image->programs[b->program].name, b->first,
                 b->last);
    }
    const double y = place_y(p, (double)(b->offset + b->bytes)), height = place_y(p, (double)b->offset) - y;
    snprintf(css, sizeof css, "box k%d", (int)b->kind);
    ls_svg_box(p->out, css, x0, y, x1 - x0, height, tip);
    if (height < SMALL + 1 || x1 - x0 < 40) return;
    ls_svg_text(p->out, "on", x0 + 4, y + height / 2 + 4, ls_svg_fit(b->name, 11, x1 - x0 - 8, name, sizeof name));
}

static bool is_placed(const panel *p, const ls_buffer *b) {
    return b->space == p->space && b->bytes > 0 && (b->program < 0 || b->first >= 0);
}

static void put_level(const panel *p, double bytes, double text_below, const char *text) {
    const double y = place_y(p, bytes);
    ls_svg_line(p->out, "level", LEFT, y, LEFT + PLOT, y);
    ls_svg_text(p->out, "y small strong", LEFT + PLOT, y + text_below, text);
}

/* Draws the mapped bytes, and the lower bound of any placement, as one line if they are too close for two. */
static void put_levels(const panel *p) {
    char mapped[LS_BYTES_TEXT], least[LS_BYTES_TEXT], text[160];
    const double bytes = (double)p->image->bytes[p->space], bound = (double)p->image->least[p->space];
    (void)ls_bytes_text(bytes, mapped);
    (void)ls_bytes_text(bound, least);
    const bool apart = place_y(p, bound) - place_y(p, bytes) >= 4;
    if (bytes <= bound)
        snprintf(text, sizeof text, "mapped %s: the lower bound itself", mapped);
    else if (apart)
        snprintf(text, sizeof text, "mapped %s", mapped);
    else
        snprintf(text, sizeof text, "mapped %s, lower bound %s", mapped, least);
    put_level(p, bytes, -6, text);
    if (!apart) return;
    snprintf(text, sizeof text, "lower bound %s (most bytes live at once)", least);
    put_level(p, bound, 16, text);
}

/* Marks the peak, and lists beside the panel the largest buffers that are live there. */
static void put_peak(const panel *p) {
    char text[200], bytes[LS_BYTES_TEXT], name[96], css[32];
    int largest[LARGEST];
    const int n = ls_image_largest(p->image, p->space, &p->peak, largest, LARGEST);
    double y = p->top + 4, rest = (double)p->peak.bytes;
    snprintf(text, sizeof text, "peak: %s live", ls_bytes_text((double)p->peak.bytes, bytes));
    ls_svg_text(p->out, "strong", ASIDE, y, text);
    if (p->peak.program >= 0) {
        const double x = place_x(p, p->peak.program, p->peak.instr + 0.5);
        ls_svg_line(p->out, "peak", x, p->top - 4, x, p->bottom);
        ls_print_to(p->out, "<path class=\"mark\" d=\"M%.1f %.1fl-6 -10h12z\"/>\n", x, p->top - 3);
        snprintf(text, sizeof text, "in %s at %d, %s", p->image->programs[p->peak.program].name, p->peak.instr,
                 p->image->programs[p->peak.program].instrs[p->peak.instr].op);
        ls_svg_text(p->out, "small", ASIDE, y += 19, text);
    }
    const double row = 19;
    for (int i = 0; i < n && y + 2 * row < p->bottom; i++) {
        const ls_buffer *b = &p->image->buffers[largest[i]];
        y += row;
        snprintf(css, sizeof css, "k%d", (int)b->kind);
        ls_svg_box(p->out, css, ASIDE, y - 9, 11, 11, ls_buffer_kind_name(b->kind));
        ls_svg_text(p->out, "small", ASIDE + 18, y, ls_svg_fit(b->name, SMALL, RIGHT - ASIDE - 90, name, sizeof name));
        ls_svg_text(p->out, "y small", RIGHT, y, ls_bytes_text((double)b->bytes, bytes));
        rest -= (double)b->bytes;
    }
    if (rest <= 0) return;
    ls_svg_text(p->out, "small", ASIDE + 18, y + row, "all others");
    ls_svg_text(p->out, "y small", RIGHT, y + row, ls_bytes_text(rest, bytes));
}

static const char *const titles[LS_SPACES] = {
    [LS_PRIVATE] = "private memory",
    [LS_SYMMETRIC] = "symmetric heap: peers write and read here",
    [LS_HOST] = "host memory: what waits there",
    [LS_COMMON] = "common memory: what ranks of a host have once for all of them",
};

/* Positions of the panels, one below the other, by the number of panels beyond the usual ones. */
enum { USUAL = 2 };
static const struct {
    double top[LS_SPACES], bottom[LS_SPACES];
} panels[LS_SPACES - USUAL + 1] = {
    {{152, 658}, {552, 892}},
    {{152, 526, 776}, {420, 670, 892}},
    {{152, 436, 648, 804}, {330, 542, 698, 892}},
};

static bool has_panel(const ls_image *image, int space) {
    return ls_space_is_usual((ls_space)space) || image->bytes[space] > 0;
}

static void put_panel(FILE *out, const ls_image *image, const columns *where, ls_space space) {
    int all = 0, place = 0;
    for (int s = 0; s < LS_SPACES; s++) {
        place += s < (int)space && has_panel(image, s);
        all += has_panel(image, s);
    }
    if (!has_panel(image, (int)space)) return;
    const double top = panels[all - USUAL].top[place], bottom = panels[all - USUAL].bottom[place];
    const panel p = {.out = out,
                     .image = image,
                     .columns = where,
                     .space = space,
                     .top = top,
                     .bottom = bottom,
                     .most = fmax(1, (double)image->bytes[space]) * 1.06,
                     .peak = ls_image_peak(image, space)};
    ls_svg_text(out, "strong", LEFT, top - 18, titles[space]);
    put_axes(&p);
    for (int i = 0; i < image->n_buffers; i++) {
        if (is_placed(&p, &image->buffers[i])) put_buffer(&p, &image->buffers[i]);
    }
    put_levels(&p);
    put_peak(&p);
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static void put_legend(FILE *out, const ls_image *image, double y) {
    double x = LEFT;
    for (int kind = 0; kind < LS_BUFFER_KINDS; kind++) {
        bool used = false;
        for (int i = 0; i < image->n_buffers; i++) used = used || (int)image->buffers[i].kind == kind;
        if (!used) continue;
        char css[16];
        const char *name = ls_buffer_kind_name((ls_buffer_kind)kind);
        snprintf(css, sizeof css, "k%d", kind);
        ls_svg_box(out, css, x, y - 11, 14, 14, NULL);
        ls_svg_text(out, "small", x + 20, y, name);
        x += 20 + ls_svg_text_width(name, SMALL) + 22;
    }
}

static void draw(FILE *out, const void *context) {
    const picture *p = context;
    const ls_image *image = p->image;
    char text[300], mesh[64], bytes[LS_BYTES_TEXT];
    ls_mesh_print(&image->mesh, mesh, sizeof mesh);
    snprintf(text, sizeof text, "%s · rank %d of %d · %s · %s", p->model, p->rank, ls_mesh_ranks(&image->mesh), mesh,
             image->strategy);
    ls_svg_text(out, "title", LEFT, 42, text);
    snprintf(text, sizeof text, "memory map: %s · %s · S %lld · %s mapped in all · time runs in instructions",
             ls_layout_name(image->layout.kind), ls_dtype_name(image->dtype), (long long)image->layout.S,
             ls_bytes_text((double)ls_image_mapped(image), bytes));
    ls_svg_text(out, "", LEFT, 66, text);
    put_legend(out, image, 96);
    ls_arena *arena = ls_arena_create();
    const columns c = make_columns(image, arena);
    for (int s = 0; s < LS_SPACES; s++) put_panel(out, image, &c, (ls_space)s);
    ls_arena_destroy(arena);
}

ls_status ls_memory_map_write(const ls_image *image, int rank, const char *model, const char *path) {
    const ls_svg_palette palette = {"k", "fill", light_colours, dark_colours, LS_BUFFER_KINDS};
    const ls_svg_look look = {.width = WIDTH,
                              .height = HEIGHT,
                              .light = ".box{stroke:#fff;stroke-width:.6}.on{font-size:11px;fill:#1f2328}\n"
                                       ".peak{stroke:#cf222e;stroke-width:1.5}.mark{fill:#cf222e}\n",
                              .dark = ".box{stroke:#0d1117}.on{fill:#e6edf3}\n"
                                      ".peak{stroke:#ff7b72}.mark{fill:#ff7b72}\n",
                              .palettes = &palette,
                              .n_palettes = 1};
    return ls_svg_write(path, &look, draw, &(picture){image, rank, model});
}
