/* The table of where the time of a step went. */
#include "cli/bench/bench_impl.h"
#include "program/program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static ls_bench_row *row_of(ls_bench_table *t, const char *name) {
    for (int i = 0; i < t->n; i++)
        if (strcmp(t->row[i].name, name) == 0) return &t->row[i];
    if (t->n == LS_BENCH_ROWS) name = "others";
    ls_bench_row *row = &t->row[t->n < LS_BENCH_ROWS ? t->n++ : LS_BENCH_ROWS - 1];
    snprintf(row->name, sizeof row->name, "%s", name);
    return row;
}

/*
 * The name of an instruction's row: its op, and for products the shape of the weight, because many weights share an op.
 */
static void name_instr(const ls_instr *instr, char *out, size_t room) {
    snprintf(out, room, "%s", instr->op);
    if (instr->kind != LS_INSTR_KERNEL || instr->kernel->id != LS_KERNEL_MATMUL) return;
    const ls_matmul_params *params = instr->params;
    const ls_view weight = ls_view_rows(params->transpose_a ? instr->out[0].view : instr->in[1].view);
    snprintf(out, room, "%s %lldx%lld", instr->op, (long long)weight.size[0], (long long)weight.size[1]);
}

void ls_bench_table_add(ls_bench_table *t, const ls_image *image, int program, const double *seconds,
                        const double *predicted, int ranks) {
    const ls_program *p = &image->programs[program];
    for (int i = 0; i < p->n_instrs; i++) {
        const ls_instr *instr = &p->instrs[i];
        char name[sizeof t->row->name];
        if (ls_traits(instr)->awaits) continue;
        name_instr(instr, name, sizeof name);
        ls_bench_row *row = row_of(t, name);
        row->count++;
        row->seconds += seconds[i] / ranks;
        row->predicted += predicted[i] / ranks;
        row->flops += instr->flops / ranks;
        row->bytes += ls_instr_bytes(instr) / ranks;
    }
}

void ls_bench_table_add_row(ls_bench_table *t, const char *name, double seconds, double predicted) {
    ls_bench_row *row = row_of(t, name);
    row->seconds += seconds;
    row->predicted += predicted;
}

static int most_seconds_first(const void *x, const void *y) {
    const ls_bench_row *a = x, *b = y;
    return (a->seconds < b->seconds) - (a->seconds > b->seconds);
}

void ls_bench_table_end(ls_bench_table *t) { qsort(t->row, (size_t)t->n, sizeof *t->row, most_seconds_first); }

static double sum_of(const ls_bench_table *t) {
    double sum = 0;
    for (int i = 0; i < t->n; i++) sum += t->row[i].seconds;
    return sum;
}

static void print_row(const ls_bench_row *row, double all, FILE *out) {
    fprintf(out, "%-26s %6d %11.3f %7.2f %% %11.3f", row->name, row->count, row->seconds * 1e3,
            row->seconds / all * 100, row->predicted * 1e3);
    if (row->flops > 0 && row->seconds > 0)
        fprintf(out, " %9.1f", row->flops / row->seconds * 1e-9);
    else
        fprintf(out, " %9s", "");
    if (row->bytes > 0 && row->seconds > 0) fprintf(out, " %9.1f", row->bytes / row->seconds * 1e-9);
    fputc('\n', out);
}

void ls_bench_table_print(const ls_bench_table *t, FILE *out) {
    ls_bench_row all = {.name = "all"};
    fprintf(out, "%-26s %6s %11s %9s %11s %9s %9s\n", "of the step", "count", "ms", "", "predicted", "GFLOP/s", "GB/s");
    const double seconds = sum_of(t);
    for (int i = 0; i < t->n; i++) {
        print_row(&t->row[i], seconds, out);
        all.count += t->row[i].count;
        all.predicted += t->row[i].predicted;
        all.flops += t->row[i].flops;
        all.bytes += t->row[i].bytes;
    }
    all.seconds = seconds;
    print_row(&all, seconds, out);
}

void ls_bench_table_put(const ls_bench_table *t, ls_json_writer *w) {
    const double seconds = sum_of(t);
    ls_json_open_array(w, "rows");
    for (int i = 0; i < t->n; i++) {
        const ls_bench_row *row = &t->row[i];
        ls_json_open_object(w, NULL);
        ls_json_put_text(w, "name", row->name);
        ls_json_put_int(w, "count", row->count);
        ls_json_put_double(w, "seconds", row->seconds);
        ls_json_put_double(w, "predicted", row->predicted);
        ls_json_put_double(w, "share", row->seconds / seconds);
        ls_json_put_double(w, "flops", row->flops);
        ls_json_put_double(w, "bytes", row->bytes);
        ls_json_close(w);
    }
    ls_json_close(w);
}
