/* The timeline: what the queues of all ranks do at which time, drawn from spans alone. Lengths are in pixels. */
#include "report/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- kinds of instructions ---------------------------------------------------------------------------------------- */

/* The colour of a box. BOX_IDLE is not an instruction: all queues of the rank wait. */
typedef enum box_kind {
    BOX_ATTENTION,
    BOX_GRADIENT,
    BOX_MATMUL,
    BOX_KERNEL,
    BOX_PUT,
    BOX_SIGNAL,
    BOX_WAIT,
    BOX_IDLE,
    BOX_KINDS
} box_kind;

static const char *const kind_names[BOX_KINDS] = {
    "attention", "attention's gradient", "matrix products",      "other kernels", "puts",
    "signals",   "wait of one queue",    "idle: all queues wait"};

static box_kind kind_of(const ls_instr *instr) {
    static const box_kind own[] = {[LS_COST_BYTES] = BOX_KERNEL,        [LS_COST_PLAIN] = BOX_KERNEL,
                                   [LS_COST_COPY] = BOX_KERNEL,         [LS_COST_OFFLOAD] = BOX_KERNEL,
                                   [LS_COST_FETCH] = BOX_KERNEL,        [LS_COST_PRODUCT] = BOX_MATMUL,
                                   [LS_COST_RECURRENCE] = BOX_KERNEL,   [LS_COST_RECURRENCE_GRAD] = BOX_KERNEL,
                                   [LS_COST_ATTENTION] = BOX_ATTENTION, [LS_COST_ATTENTION_GRAD] = BOX_GRADIENT};
    if (instr->kind == LS_INSTR_KERNEL) return own[ls_contracts[instr->kernel->id].cost];
    if (ls_traits(instr)->awaits) return BOX_WAIT;
    return ls_traits(instr)->moves ? BOX_PUT : BOX_SIGNAL;
}

/* --- one row: a queue of a rank ----------------------------------------------------------------------------------- */

static const double narrow = 1.5; /* pixels: narrower spans are drawn together with their neighbours */

/* Seconds that a queue's instructions and its waits take. */
typedef struct queue_sum {
    double working, waiting;
} queue_sum;

/* A row of the picture: one queue of one rank. */
typedef struct queue_row {
    FILE *out;
    const ls_program *program;
    int queue;
    double x, y, height; /* x of time 0, and y of the top */
    double per_second;
    int width;
} queue_row;

/* --- wide spans --------------------------------------------------------------------------------------------------- */

/*
 * Waits are thin, in the middle of the row. Other boxes begin at the bottom of the row, and fill the fraction `full` of
 * its height.
 */
static void put_box(const queue_row *row, box_kind kind, double x, double width, double full, const char *tip) {
    char css[16];
    const bool thin = kind >= BOX_WAIT;
    const double height = thin ? row->height * 0.3 : row->height * full;
    const double y = thin ? row->y + (row->height - height) / 2 : row->y + row->height - height;
    snprintf(css, sizeof css, "k%d", (int)kind);
    ls_svg_box(row->out, css, x, y, width, height, tip);
}

static void put_span(const queue_row *row, box_kind kind, const ls_span_time *span) {
    char tip[200], time[LS_SECONDS_TEXT];
    const double x = row->x + span->begin * row->per_second, width = (span->end - span->begin) * row->per_second;
    (void)ls_seconds_text(span->end - span->begin, time);
    if (span->instr < 0) {
        snprintf(tip, sizeof tip, "idle · %s", time);
        put_box(row, kind, x, width, 1, tip);
        return;
    }
    const ls_instr *instr = &row->program->instrs[span->instr];
    const char *channel = instr->channel >= 0 ? row->program->channels[instr->channel].name : "";
    snprintf(tip, sizeof tip, "%d %s%s%s · %s", span->instr, instr->op, channel[0] != 0 ? " " : "", channel, time);
    put_box(row, kind, x, width, 1, tip);
    if (kind < BOX_WAIT && ls_svg_text_width(instr->op, 10) + 6 <= width)
        ls_svg_text(row->out, "on", x + 3, row->y + row->height - 5, instr->op);
}

/* --- narrow spans ------------------------------------------------------------------------------------------------- */

/* One column of pixels, for the narrow spans whose middle lies in it. */
typedef struct cell {
    double seconds[BOX_KINDS];
    int n;
} cell;

static double sum_of(const cell *c) {
    double sum = 0;
    for (int k = 0; k < BOX_KINDS; k++) sum += c->seconds[k];
    return sum;
}

static box_kind most_of(const cell *c) {
    int most = 0;
    for (int k = 1; k < BOX_KINDS; k++) most = c->seconds[k] > c->seconds[most] ? k : most;
    return (box_kind)most;
}

/* Draws columns [from, to), in which the same kind took most of the time, as one box. */
static void put_run(const queue_row *row, const cell *cells, int from, int to) {
    char tip[160], time[LS_SECONDS_TEXT], all[LS_SECONDS_TEXT];
    const box_kind kind = most_of(&cells[from]);
    double sum = 0;
    int n = 0;
    for (int i = from; i < to; i++) {
        sum += sum_of(&cells[i]);
        n += cells[i].n;
    }
    const double wide = (to - from) / row->per_second;
    snprintf(tip, sizeof tip, "%d narrow ones, mostly %s · %s of %s", n, kind_names[kind], ls_seconds_text(sum, time),
             ls_seconds_text(wide, all));
    put_box(row, kind, row->x + from, to - from, fmin(1, fmax(0.12, sum / wide)), tip);
}

static void put_cells(const queue_row *row, const cell *cells) {
    for (int from = 0, to; from < row->width; from = to) {
        to = from + 1;
        if (sum_of(&cells[from]) == 0) continue;
        while (to < row->width && sum_of(&cells[to]) > 0 && most_of(&cells[to]) == most_of(&cells[from])) to++;
        put_run(row, cells, from, to);
    }
}

/* --- both --------------------------------------------------------------------------------------------------------- */

static bool is_shown(const queue_row *row, const ls_span_time *span, bool idle) {
    if (idle) return span->instr == LS_SPAN_ASLEEP;
    return span->instr >= 0 && row->program->instrs[span->instr].queue == row->queue;
}

static void put_spans(const queue_row *row, const ls_timeline_rank *rank, bool idle) {
    cell *cells = calloc((size_t)row->width, sizeof *cells);
    LS_ASSERT(cells != NULL);
    for (size_t i = 0; i < rank->n; i++) {
        const ls_span_time *span = &rank->spans[i];
        if (!is_shown(row, span, idle) || (span->end - span->begin) * row->per_second >= narrow) continue;
        const double middle = (span->begin + span->end) / 2 * row->per_second;
        cell *c = &cells[(int)fmin(fmax(middle, 0), row->width - 1)];
        c->seconds[idle ? BOX_IDLE : kind_of(&row->program->instrs[span->instr])] += span->end - span->begin;
        c->n++;
    }
    put_cells(row, cells);
    free(cells);
    for (size_t i = 0; i < rank->n; i++) {
        const ls_span_time *span = &rank->spans[i];
        if (!is_shown(row, span, idle) || (span->end - span->begin) * row->per_second < narrow) continue;
        put_span(row, idle ? BOX_IDLE : kind_of(&row->program->instrs[span->instr]), span);
    }
}

/* Draws the spans of one queue; returns their sums. */
static queue_sum put_queue(const queue_row *row, const ls_timeline_rank *rank) {
    queue_sum sum = {0, 0};
    put_spans(row, rank, false);
    if (row->queue == LS_COMPUTE) put_spans(row, rank, true);
    for (size_t i = 0; i < rank->n; i++) {
        const ls_span_time *span = &rank->spans[i];
        if (!is_shown(row, span, false)) continue;
        const bool waits = ls_traits(&row->program->instrs[span->instr])->awaits;
        *(waits ? &sum.waiting : &sum.working) += span->end - span->begin;
    }
    return sum;
}

/* --- the picture -------------------------------------------------------------------------------------------------- */

enum {
    WIDTH = 1320,
    LEFT = 156, /* x at which time begins */
    PLOT = 912,
    WORKS = LEFT + PLOT + 76, /* right ends of the columns with sums */
    WAITS = WORKS + 72,
    IDLE = WAITS + 72,
    TOP = 186,    /* y of the first rank */
    HEADING = 20, /* height of the heading above the rows of a rank */
    ROW = 18,
    SMALL = 12, /* font size */
    BELOW = 64  /* space below the last rank, for the axis and one line of text */
};

/* Space below a row: before the other row of its queue, before the next queue, before the next rank. */
enum { BESIDE = 2, BETWEEN = 8, APART = 16 };

static const char *const light_colours[BOX_KINDS] = {"#93c6f2", "#4f96d8", "#8fcfae", "#d9c9a3",
                                                     "#f09a5e", "#b79be0", "#eda7a2", "#cf222e"};
static const char *const dark_colours[BOX_KINDS] = {"#1b4f85", "#2f7cc4", "#1f6b4a", "#6b5f41",
                                                    "#b55f22", "#5b3f94", "#8c4743", "#ff6a61"};

typedef struct picture {
    const ls_timeline *timeline;
    double predicted, measured; /* seconds until the last rank ends; measured -1: the program was not run */
    double per_second;          /* pixels per second */
    int queues;                 /* queues up to the last one that some rank uses */
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

static int used_queues(const picture *p) {
    int last = LS_COMPUTE;
    for (int r = 0; r < p->timeline->ranks; r++) {
        const ls_program *program = program_of(p, r);
        for (int i = 0; i < program->n_instrs; i++) last = (int)ls_max(last, program->instrs[i].queue);
    }
    return last + 1;
}

/* --- positions ---------------------------------------------------------------------------------------------------- */

static int rows_of_queue(const picture *p) { return p->measured >= 0 ? 2 : 1; }

static double height_of_queue(const picture *p) { return rows_of_queue(p) * (ROW + BESIDE) - BESIDE; }

static double height_of_rank(const picture *p) {
    return HEADING + p->queues * (height_of_queue(p) + BETWEEN) - BETWEEN;
}

static double bottom_of(const picture *p) { return TOP + p->timeline->shown * (height_of_rank(p) + APART) - APART; }

/* --- time --------------------------------------------------------------------------------------------------------- */

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
        ls_print(text, sizeof text, "%.6g %s", i * step / units[u].seconds, units[u].name);
        ls_svg_text(out, "x small", x, TOP - 10, text);
        ls_svg_text(out, "x small", x, bottom + 22, text);
    }
}

/* Draws a line at the end of the last rank. */
static void put_end(FILE *out, const picture *p, double end, const char *name, double y) {
    char text[80], time[LS_SECONDS_TEXT];
    const double x = LEFT + end * p->per_second;
    const bool left = end * p->per_second > PLOT / 2.0;
    ls_svg_line(out, "level", x, TOP - 4, x, y + 4);
    snprintf(text, sizeof text, "%s: ends after %s", name, ls_seconds_text(end, time));
    ls_svg_text(out, left ? "y small strong" : "small strong", left ? x - 6 : x + 6, y, text);
}

/* --- a rank ------------------------------------------------------------------------------------------------------- */

/* Writes a sum to the right of a row. */
static void put_sum(FILE *out, double seconds, double x, double y) {
    char text[LS_SECONDS_TEXT];
    ls_svg_text(out, "y small", x, y, seconds > 0 ? ls_seconds_text(seconds, text) : "0");
}

static void put_row(FILE *out, const picture *p, int rank, int queue, bool measured, double y) {
    char text[96];
    const ls_timeline_rank *times = measured ? &p->timeline->measured[rank] : &p->timeline->predicted[rank];
    const queue_row row = {.out = out,
                           .program = program_of(p, rank),
                           .queue = queue,
                           .x = LEFT,
                           .y = y,
                           .height = ROW,
                           .per_second = p->per_second,
                           .width = PLOT};
    snprintf(text, sizeof text, "%s · %s", ls_queue_name(queue), measured ? "measured" : "predicted");
    ls_svg_text(out, "y small", LEFT - 8, y + 13, text);
    ls_svg_box(out, "bed", LEFT, y, PLOT, ROW, NULL);
    const queue_sum sum = put_queue(&row, times);
    put_sum(out, sum.working, WORKS, y + 13);
    put_sum(out, sum.waiting, WAITS, y + 13);
    if (queue == LS_COMPUTE) put_sum(out, idle_of(times), IDLE, y + 13);
}

static void put_rank(FILE *out, const picture *p, int rank, double y) {
    char text[32];
    snprintf(text, sizeof text, "rank %d", rank);
    ls_svg_text(out, "strong", 24, y + 14, text);
    y += HEADING;
    for (int q = 0; q < p->queues; q++) {
        put_row(out, p, rank, q, false, y);
        if (p->measured >= 0) put_row(out, p, rank, q, true, y + ROW + BESIDE);
        y += height_of_queue(p) + BETWEEN;
    }
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

static void put_title(FILE *out, const picture *p) {
    const ls_timeline *t = p->timeline;
    const ls_image *image = t->images[0];
    char text[300], mesh[64], some[48] = "", time[LS_SECONDS_TEXT];
    ls_mesh_print(&image->mesh, mesh, sizeof mesh);
    if (t->shown < t->ranks) snprintf(some, sizeof some, " (%d to %d are shown)", t->first, t->first + t->shown - 1);
    snprintf(text, sizeof text, "%s · %d rank%s%s · %s · %s", t->model, t->ranks, t->ranks > 1 ? "s" : "", some, mesh,
             image->strategy);
    ls_svg_text(out, "title", 24, 42, text);
    snprintf(text, sizeof text,
             "schedule of program %s: %d instructions · %s · %s · S %lld · isa %s · threads of a rank: %d",
             image->programs[t->program].name, program_of(p, t->first)->n_instrs, ls_layout_name(image->layout.kind),
             ls_dtype_name(image->dtype), (long long)image->layout.S, ls_isa_name(image->isa), image->threads);
    ls_svg_text(out, "", 24, 66, text);
    int used = snprintf(text, sizeof text, "predicted %s, by %s rates", ls_seconds_text(p->predicted, time),
                        t->host_measured ? "this machine's own" : "nominal");
    if (p->measured >= 0)
        ls_print(text + used, sizeof text - (size_t)used, " · measured %s, %.2f times as long",
                 ls_seconds_text(p->measured, time), p->measured / fmax(p->predicted, 1e-12));
    ls_svg_text(out, "strong", 24, 92, text);
}

static void put_legend(FILE *out, double y) {
    double x = 24;
    for (int k = 0; k < BOX_KINDS; k++) {
        char css[16];
        const bool thin = k >= BOX_WAIT;
        snprintf(css, sizeof css, "k%d", k);
        ls_svg_box(out, css, x, thin ? y - 6.5 : y - 11, 14, thin ? 5 : 14, NULL);
        ls_svg_text(out, "small", x + 20, y, kind_names[k]);
        x += 20 + ls_svg_text_width(kind_names[k], SMALL) + 18;
    }
    ls_svg_text(
        out, "small", 24, y + 22,
        "A low box stands for instructions that are too narrow to draw: its colour is the kind that took most of the "
        "time, its height the share of the time that they fill.");
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
                 .measured = timeline->measured != NULL ? ls_timeline_end(timeline->measured, timeline->ranks) : -1};
    p.per_second = PLOT / (1.02 * fmax(fmax(p.predicted, p.measured), 1e-9));
    p.queues = used_queues(&p);
    const ls_svg_palette palette = {"k", "fill", light_colours, dark_colours, BOX_KINDS};
    const ls_svg_look look = {.width = WIDTH,
                              .height = (int)bottom_of(&p) + BELOW + (p.measured >= 0 ? 20 : 0),
                              .light = ".bed{fill:#f3f5f7}.on{font-size:10px;fill:#1f2328}\n",
                              .dark = ".bed{fill:#161b22}.on{fill:#e6edf3}\n",
                              .palettes = &palette,
                              .n_palettes = 1};
    return ls_svg_write(path, &look, draw, &p);
}
