/* One queue of one rank over time. */
#include "report/timeline_impl.h"

#include "base/base.h"
#include "format/format.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double narrow = 1.5; /* pixels: what is not as wide is drawn together with its neighbours */

const char *const ls_timeline_kind_name[LS_TIMELINE_KINDS] = {
    "attention", "attention's gradient", "matrix products",       "other kernels", "puts",
    "signals",   "wait of one queue",    "idle: both queues wait"};

ls_timeline_kind ls_timeline_kind_of(const ls_instr *instr) {
    static const ls_timeline_kind own[] = {[LS_COST_BYTES] = LS_TIMELINE_KERNEL,
                                           [LS_COST_COPY] = LS_TIMELINE_KERNEL,
                                           [LS_COST_PRODUCT] = LS_TIMELINE_MATMUL,
                                           [LS_COST_ATTENTION] = LS_TIMELINE_ATTENTION,
                                           [LS_COST_ATTENTION_GRAD] = LS_TIMELINE_GRADIENT};
    static const ls_timeline_kind kinds[LS_INSTR_KINDS] = {[LS_INSTR_KERNEL] = LS_TIMELINE_KERNEL,
                                                           [LS_INSTR_PUT_SIGNAL] = LS_TIMELINE_PUT,
                                                           [LS_INSTR_SIGNAL] = LS_TIMELINE_SIGNAL,
                                                           [LS_INSTR_WAIT] = LS_TIMELINE_WAIT,
                                                           [LS_INSTR_QUIET] = LS_TIMELINE_SIGNAL};
    if (instr->kind == LS_INSTR_KERNEL) return own[ls_contracts[instr->kernel->id].cost];
    return kinds[instr->kind];
}

/* --- what is wide enough to be seen ------------------------------------------------------------------------------------------ */

/* Waits are no work: thin lines in the middle of the row. */
static void put_box(const ls_timeline_row *row, ls_timeline_kind kind, double x, double width, double full,
                    const char *tip) {
    char css[16];
    const bool thin = kind >= LS_TIMELINE_WAIT;
    const double height = thin ? row->height * 0.3 : row->height * full;
    const double y = thin ? row->y + (row->height - height) / 2 : row->y + row->height - height;
    snprintf(css, sizeof css, "k%d", (int)kind);
    ls_svg_box(row->out, css, x, y, width, height, tip);
}

static void put_span(const ls_timeline_row *row, ls_timeline_kind kind, const ls_span_time *span) {
    char tip[200], time[LS_SECONDS_TEXT];
    const double x = row->x + span->begin * row->per_second,
                 width = (span->end - span->begin) * row->per_second;
    (void)ls_seconds_text(span->end - span->begin, time);
    if (span->instr < 0) {
        snprintf(tip, sizeof tip, "idle · %s", time);
        put_box(row, kind, x, width, 1, tip);
        return;
    }
    const ls_instr *instr = &row->program->instrs[span->instr];
    const char *channel = instr->channel >= 0 ? row->program->channels[instr->channel].name : "";
    snprintf(tip, sizeof tip, "%d %s%s%s%s · %s", span->instr, instr->op, channel[0] != 0 ? " " : "", channel,
             instr->ready ? " free" : "", time);
    put_box(row, kind, x, width, 1, tip);
    if (kind < LS_TIMELINE_WAIT && ls_svg_text_width(instr->op, 10) + 6 <= width)
        ls_svg_text(row->out, "on", x + 3, row->y + row->height - 5, instr->op);
}

/* --- what is not ------------------------------------------------------------------------------------------------------------- */

/* A column of pixels: what began in it. */
typedef struct cell {
    double seconds[LS_TIMELINE_KINDS];
    int n;
} cell;

static double sum_of(const cell *c) {
    double sum = 0;
    for (int k = 0; k < LS_TIMELINE_KINDS; k++) sum += c->seconds[k];
    return sum;
}

static ls_timeline_kind most_of(const cell *c) {
    int most = 0;
    for (int k = 1; k < LS_TIMELINE_KINDS; k++) most = c->seconds[k] > c->seconds[most] ? k : most;
    return (ls_timeline_kind)most;
}

/* Columns [from, to) of one kind. */
static void put_run(const ls_timeline_row *row, const cell *cells, int from, int to) {
    char tip[160], time[LS_SECONDS_TEXT], all[LS_SECONDS_TEXT];
    const ls_timeline_kind kind = most_of(&cells[from]);
    double sum = 0;
    int n = 0;
    for (int i = from; i < to; i++) {
        sum += sum_of(&cells[i]);
        n += cells[i].n;
    }
    const double wide = (to - from) / row->per_second;
    snprintf(tip, sizeof tip, "%d narrow ones, mostly %s · %s of %s", n, ls_timeline_kind_name[kind],
             ls_seconds_text(sum, time), ls_seconds_text(wide, all));
    put_box(row, kind, row->x + from, to - from, fmin(1, fmax(0.12, sum / wide)), tip);
}

static void put_cells(const ls_timeline_row *row, const cell *cells) {
    for (int from = 0, to; from < row->width; from = to) {
        to = from + 1;
        if (sum_of(&cells[from]) == 0) continue;
        while (to < row->width && sum_of(&cells[to]) > 0 && most_of(&cells[to]) == most_of(&cells[from]))
            to++;
        put_run(row, cells, from, to);
    }
}

/* --- the row ----------------------------------------------------------------------------------------------------------------- */

static bool is_shown(const ls_timeline_row *row, const ls_span_time *span, bool idle) {
    if (idle) return span->instr == LS_SPAN_ASLEEP;
    return span->instr >= 0 && row->program->instrs[span->instr].queue == row->queue;
}

static void put_spans(const ls_timeline_row *row, const ls_timeline_rank *rank, bool idle) {
    cell *cells = calloc((size_t)row->width, sizeof *cells);
    LS_ASSERT(cells != NULL);
    for (size_t i = 0; i < rank->n; i++) {
        const ls_span_time *span = &rank->spans[i];
        if (!is_shown(row, span, idle) || (span->end - span->begin) * row->per_second >= narrow) continue;
        const double middle = (span->begin + span->end) / 2 * row->per_second;
        cell *c = &cells[(int)fmin(fmax(middle, 0), row->width - 1)];
        c->seconds[idle ? LS_TIMELINE_IDLE : ls_timeline_kind_of(&row->program->instrs[span->instr])] +=
            span->end - span->begin;
        c->n++;
    }
    put_cells(row, cells);
    free(cells);
    for (size_t i = 0; i < rank->n; i++) {
        const ls_span_time *span = &rank->spans[i];
        if (!is_shown(row, span, idle) || (span->end - span->begin) * row->per_second < narrow) continue;
        put_span(row, idle ? LS_TIMELINE_IDLE : ls_timeline_kind_of(&row->program->instrs[span->instr]),
                 span);
    }
}

ls_timeline_sum ls_timeline_put_row(const ls_timeline_row *row, const ls_timeline_rank *rank) {
    ls_timeline_sum sum = {0, 0};
    put_spans(row, rank, false);
    if (row->queue == LS_COMPUTE) put_spans(row, rank, true);
    for (size_t i = 0; i < rank->n; i++) {
        const ls_span_time *span = &rank->spans[i];
        if (!is_shown(row, span, false)) continue;
        const bool waits = row->program->instrs[span->instr].kind == LS_INSTR_WAIT;
        *(waits ? &sum.waiting : &sum.working) += span->end - span->begin;
    }
    return sum;
}
