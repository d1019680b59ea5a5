/* Drawn from spans alone; lengths in the picture are pixels. */
#include "report/timeline_impl.h"

#include "base/base.h"
#include "format/format.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    WIDTH = 1320,
    LEFT = 156, /* where time begins */
    PLOT = 912,
    WORKS = LEFT + PLOT + 76, /* right ends of the columns of sums */
    WAITS = WORKS + 72,
    IDLE = WAITS + 72,
    TOP = 186,    /* of the first rank */
    HEADING = 20, /* above the rows of a rank */
    ROW = 18,
    SMALL = 12, /* font size */
    BELOW = 64  /* the last rank: the axis, and one end */
};

/* Space beneath a row: to the other row of its queue, to the next queue, to the next rank. */
enum { BESIDE = 2, BETWEEN = 8, APART = 16 };

static const char *const light_colours[LS_TIMELINE_KINDS] = {"#93c6f2", "#4f96d8", "#8fcfae", "#d9c9a3",
                                                             "#f09a5e", "#b79be0", "#eda7a2", "#cf222e"};
static const char *const dark_colours[LS_TIMELINE_KINDS] = {"#1b4f85", "#2f7cc4", "#1f6b4a", "#6b5f41",
                                                            "#b55f22", "#5b3f94", "#8c4743", "#ff6a61"};

typedef struct picture {
    const ls_timeline *timeline;
    double predicted, measured; /* seconds of the whole; measured -1: it was not run */
    double per_second;          /* pixels */
    bool copies;                /* there is a copy queue to show */
} picture;

double ls_timeline_end(const ls_timeline_rank *ranks, int n) {
    double end = 0;
    for (int r = 0; r < n; r++) {
        for (size_t i = 0; i < ranks[r].n; i++) end = fmax(end, ranks[r].spans[i].end);
    }
    return end;
}

static double idle_of(const ls_timeline_rank *rank) {
    double sum = 0;
    for (size_t i = 0; i < rank->n; i++) {
        if (rank->spans[i].instr == LS_SPAN_ASLEEP) sum += rank->spans[i].end - rank->spans[i].begin;
    }
    return sum;
}

static const ls_program *program_of(const picture *p, int rank) {
    return &p->timeline->images[rank]->programs[p->timeline->program];
}

static bool uses_copies(const picture *p) {
    for (int r = 0; r < p->timeline->ranks; r++) {
        const ls_program *program = program_of(p, r);
        for (int i = 0; i < program->n_instrs; i++) {
            if (program->instrs[i].queue == LS_COPY) return true;
        }
    }
    return false;
}

/* --- where things lie -------------------------------------------------------------------------------------------------------- */

static int rows_of_queue(const picture *p) { return p->measured >= 0 ? 2 : 1; }

static double height_of_queue(const picture *p) { return rows_of_queue(p) * (ROW + BESIDE) - BESIDE; }

static double height_of_rank(const picture *p) {
    return HEADING + height_of_queue(p) + (p->copies ? BETWEEN + height_of_queue(p) : 0);
}

static double bottom_of(const picture *p) {
    return TOP + p->timeline->shown * (height_of_rank(p) + APART) - APART;
}

/* --- time -------------------------------------------------------------------------------------------------------------------- */

static void put_axis(FILE *out, const picture *p) {
    static const struct {
        double seconds;
        const char *name;
    } units[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}};
    const double span = PLOT / p->per_second, step = ls_svg_round_step(span, 10), bottom = bottom_of(p);
    size_t u = 0;
    while (u + 1 < LS_COUNT(units) && span < 2 * units[u].seconds) u++;
    for (int i = 0; i * step <= span * (1 + 1e-9); i++) {
        char text[48];
        const double x = LEFT + i * step * p->per_second;
        ls_svg_line(out, i == 0 ? "axis" : "grid", x, TOP - 4, x, bottom + 6);
        snprintf(text, sizeof text, "%.6g %s", i * step / units[u].seconds, units[u].name);
        ls_svg_text(out, "x small", x, TOP - 10, text);
        ls_svg_text(out, "x small", x, bottom + 22, text);
    }
}

/* When the last rank is through. */
static void put_end(FILE *out, const picture *p, double end, const char *what, double y) {
    char text[80], time[LS_SECONDS_TEXT];
    const double x = LEFT + end * p->per_second;
    const bool left = end * p->per_second > PLOT / 2.0;
    ls_svg_line(out, "level", x, TOP - 4, x, y + 4);
    snprintf(text, sizeof text, "%s: through after %s", what, ls_seconds_text(end, time));
    ls_svg_text(out, left ? "y small strong" : "small strong", left ? x - 6 : x + 6, y, text);
}

/* --- a rank ------------------------------------------------------------------------------------------------------------------ */

/* One of the sums beside a row. */
static void put_sum(FILE *out, double seconds, double x, double y) {
    char text[LS_SECONDS_TEXT];
    ls_svg_text(out, "y small", x, y, seconds > 0 ? ls_seconds_text(seconds, text) : "0");
}

static void put_row(FILE *out, const picture *p, int rank, ls_queue queue, bool measured, double y) {
    char text[96];
    const ls_timeline_rank *times = measured ? &p->timeline->measured[rank] : &p->timeline->predicted[rank];
    const ls_timeline_row row = {.out = out,
                                 .program = program_of(p, rank),
                                 .queue = queue,
                                 .x = LEFT,
                                 .y = y,
                                 .height = ROW,
                                 .per_second = p->per_second,
                                 .width = PLOT};
    snprintf(text, sizeof text, "%s · %s", queue == LS_COMPUTE ? "compute" : "copy",
             measured ? "measured" : "predicted");
    ls_svg_text(out, "y small", LEFT - 8, y + 13, text);
    ls_svg_box(out, "bed", LEFT, y, PLOT, ROW, NULL);
    const ls_timeline_sum sum = ls_timeline_put_row(&row, times);
    put_sum(out, sum.working, WORKS, y + 13);
    put_sum(out, sum.waiting, WAITS, y + 13);
    if (queue == LS_COMPUTE) put_sum(out, idle_of(times), IDLE, y + 13);
}

static void put_rank(FILE *out, const picture *p, int rank, double y) {
    char text[32];
    snprintf(text, sizeof text, "rank %d", rank);
    ls_svg_text(out, "strong", 24, y + 14, text);
    y += HEADING;
    for (ls_queue q = LS_COMPUTE; q <= (p->copies ? LS_COPY : LS_COMPUTE); q++) {
        put_row(out, p, rank, q, false, y);
        if (p->measured >= 0) put_row(out, p, rank, q, true, y + ROW + BESIDE);
        y += height_of_queue(p) + BETWEEN;
    }
}

/* --- the whole --------------------------------------------------------------------------------------------------------------- */

static void put_title(FILE *out, const picture *p) {
    const ls_timeline *t = p->timeline;
    const ls_image *image = t->images[0];
    char text[300], mesh[64], some[48] = "", time[LS_SECONDS_TEXT];
    ls_mesh_print(&image->mesh, mesh, sizeof mesh);
    if (t->shown < t->ranks)
        snprintf(some, sizeof some, " (%d to %d are shown)", t->first, t->first + t->shown - 1);
    snprintf(text, sizeof text, "%s · %d rank%s%s · %s · %s", t->model, t->ranks, t->ranks > 1 ? "s" : "",
             some, mesh, image->strategy);
    ls_svg_text(out, "title", 24, 42, text);
    snprintf(text, sizeof text,
             "schedule of program %s: %d instructions · %s · %s · S %lld · isa %s · threads of a rank: %d",
             ls_program_name(t->program), program_of(p, t->first)->n_instrs,
             ls_layout_name(image->layout.kind), ls_dtype_name(image->dtype), (long long)image->layout.S,
             ls_isa_name(image->isa), image->threads);
    ls_svg_text(out, "", 24, 66, text);
    int used = snprintf(text, sizeof text, "predicted %s, by %s rates", ls_seconds_text(p->predicted, time),
                        t->host_measured ? "this machine's own" : "nominal");
    if (p->measured >= 0)
        snprintf(text + used, sizeof text - (size_t)used, " · measured %s, %.2f times as long",
                 ls_seconds_text(p->measured, time), p->measured / fmax(p->predicted, 1e-12));
    ls_svg_text(out, "strong", 24, 92, text);
}

static void put_legend(FILE *out, double y) {
    double x = 24;
    for (int k = 0; k < LS_TIMELINE_KINDS; k++) {
        char css[16];
        const bool thin = k >= LS_TIMELINE_WAIT;
        snprintf(css, sizeof css, "k%d", k);
        ls_svg_box(out, css, x, thin ? y - 6.5 : y - 11, 14, thin ? 5 : 14, NULL);
        ls_svg_text(out, "small", x + 20, y, ls_timeline_kind_name[k]);
        x += 20 + ls_svg_text_width(ls_timeline_kind_name[k], SMALL) + 18;
    }
    ls_svg_text(
        out, "small", 24, y + 22,
        "A low box: instructions too narrow to be drawn, together; in the colour of what took most of the time, as "
        "high as they fill it.");
}

static void draw(FILE *out, const void *context) {
    const picture *p = context;
    const double bottom = bottom_of(p);
    put_title(out, p);
    put_legend(out, 122);
    put_axis(out, p);
    ls_svg_text(out, "y small strong", WORKS, TOP - 10, "works");
    ls_svg_text(out, "y small strong", WAITS, TOP - 10, "waits");
    ls_svg_text(out, "y small strong", IDLE, TOP - 10, "idle");
    for (int i = 0; i < p->timeline->shown; i++)
        put_rank(out, p, p->timeline->first + i, TOP + i * (height_of_rank(p) + APART));
    put_end(out, p, p->predicted, "predicted", bottom + 44);
    if (p->measured >= 0) put_end(out, p, p->measured, "measured", bottom + 64);
}

ls_status ls_timeline_write(const ls_timeline *timeline, const char *path) {
    LS_ASSERT(timeline->shown >= 1 && timeline->shown <= LS_TIMELINE_RANKS && timeline->first >= 0 &&
              timeline->first + timeline->shown <= timeline->ranks);
    picture p = {.timeline = timeline,
                 .predicted = ls_timeline_end(timeline->predicted, timeline->ranks),
                 .measured =
                     timeline->measured != NULL ? ls_timeline_end(timeline->measured, timeline->ranks) : -1};
    p.per_second = PLOT / (1.02 * fmax(fmax(p.predicted, p.measured), 1e-9));
    p.copies = uses_copies(&p);
    const ls_svg_palette palette = {"k", "fill", light_colours, dark_colours, LS_TIMELINE_KINDS};
    const ls_svg_look look = {.width = WIDTH,
                              .height = (int)bottom_of(&p) + BELOW + (p.measured >= 0 ? 20 : 0),
                              .light = ".bed{fill:#f3f5f7}.on{font-size:10px;fill:#1f2328}\n",
                              .dark = ".bed{fill:#161b22}.on{fill:#e6edf3}\n",
                              .palettes = &palette,
                              .n_palettes = 1};
    return ls_svg_write(path, &look, draw, &p);
}
