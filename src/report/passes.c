/* What each pass of the compiler did, and the ops of the resulting program, as text and as JSON. */
#include "base/base.h"
#include "program/program.h"
#include "report/report.h"

/* Bytes that the buffers of an arena would need if no two used ones shared memory. */
static size_t bytes_apart(const ls_image *image, ls_space space) {
    size_t sum = 0;
    for (int i = 0; i < image->n_buffers; i++) {
        const ls_buffer *b = &image->buffers[i];
        if (b->space == space && (b->program < 0 || b->first >= 0)) sum += b->bytes;
    }
    return sum;
}

/* --- as text ------------------------------------------------------------------------------------------------------ */

static void print_row(FILE *out, const char *pass, const char *of) { fprintf(out, "%-14s %-10s ", pass, of); }

static void print_lowering(const ls_passes *passes, int program, FILE *out) {
    const ls_program_account a = ls_program_account_of(passes->image, program);
    const char *between = "";
    print_row(out, "lower", passes->image->programs[program].name);
    fprintf(out, "%d nodes → %d instructions: ", passes->image->programs[program].n_nodes,
            passes->image->programs[program].n_instrs);
    for (int k = 0; k < LS_INSTR_KINDS; k++) {
        if (a.kinds[k] == 0) continue;
        fprintf(out, "%s%d %s", between, a.kinds[k], ls_instr_traits_of[k].name);
        between = ", ";
    }
    fputc('\n', out);
}

static void print_program_passes(const ls_program *p, FILE *out) {
    for (int i = 0; i < p->n_passes; i++) {
        const ls_program_pass *pass = &p->passes[i];
        print_row(out, pass->name, p->name);
        fprintf(out, "%d nodes put in: %s\n", pass->nodes, pass->about);
    }
}

static void print_placing(const ls_image *image, int space, FILE *out) {
    char apart[LS_BYTES_TEXT], mapped[LS_BYTES_TEXT], least[LS_BYTES_TEXT];
    const double bytes = (double)image->bytes[space], bound = (double)image->least[space];
    print_row(out, "place", ls_space_texts[space].name);
    ls_print_to(out, "%s without reuse → %s mapped, %.2f %% over the lower bound of %s\n",
                ls_bytes_text((double)bytes_apart(image, (ls_space)space), apart), ls_bytes_text(bytes, mapped),
                bound > 0 ? (bytes / bound - 1) * 100 : 0, ls_bytes_text(bound, least));
}

/* The number of factors of a graph, and how many of them some node needs whole. */
typedef struct factor_count {
    int all, whole;
} factor_count;

static factor_count count_factors(const ls_graph *g) {
    ls_arena *arena = ls_arena_create();
    ls_factors factors;
    ls_factors_find(g, arena, &factors);
    factor_count count = {.all = factors.n};
    for (int f = 0; f < factors.n; f++) count.whole += factors.list[f].whole;
    ls_arena_destroy(arena);
    return count;
}

void ls_passes_print(const ls_passes *passes, FILE *out) {
    const factor_count factors = count_factors(passes->graph);
    print_row(out, "differentiate", "graph");
    fprintf(out, "%d nodes → %d nodes\n", passes->forward_nodes, passes->graph->n_nodes);
    print_row(out, "factors", "graph");
    fprintf(out, "dimensions of %d tensors → %d factors, of which some op needs %d whole\n",
            passes->graph->n_tensors - 1, factors.all, factors.whole);
    for (int p = 0; p < passes->image->n_programs; p++) {
        print_program_passes(&passes->image->programs[p], out);
        print_lowering(passes, p, out);
    }
    for (int p = 0; p < passes->image->n_programs; p++) {
        print_row(out, "name", passes->image->programs[p].name);
        fprintf(out, "%d reads name the value that they expect\n", ls_program_account_of(passes->image, p).reads);
    }
    for (int s = 0; s < LS_SPACES; s++)
        if (ls_space_is_usual((ls_space)s) || passes->image->bytes[s] > 0) print_placing(passes->image, s, out);
    for (int p = 0; p < passes->image->n_programs; p++) {
        print_row(out, "order", passes->image->programs[p].name);
        fprintf(out, "%d instructions wait for another queue\n", ls_program_account_of(passes->image, p).joins);
    }
}

static void print_op(const ls_op_account *row, FILE *out) {
    char bytes[LS_BYTES_TEXT];
    ls_print_to(out, "%-22s %7d %14.6f %12s\n", row->op, row->count, row->flops * 1e-9,
                ls_bytes_text(row->bytes, bytes));
}

void ls_program_ops_print(const ls_image *image, int program, FILE *out) {
    ls_op_account ops[LS_OP_ACCOUNTS], sum = {.op = "all"};
    const int n = ls_program_ops(image, program, ops);
    fprintf(out, "program %s\n%-22s %7s %14s %12s\n", image->programs[program].name, "op", "count", "GFLOP", "moved");
    for (int i = 0; i < n; i++) {
        print_op(&ops[i], out);
        sum.count += ops[i].count;
        sum.flops += ops[i].flops;
        sum.bytes += ops[i].bytes;
    }
    print_op(&sum, out);
}

/* --- as JSON ------------------------------------------------------------------------------------------------------ */

static void put_program_pass(const ls_passes *passes, int program, ls_json_writer *w) {
    const ls_program_account a = ls_program_account_of(passes->image, program);
    ls_json_open_object(w, passes->image->programs[program].name);
    ls_json_put_int(w, "nodes", passes->image->programs[program].n_nodes);
    ls_json_open_object(w, "put_in");
    for (int i = 0; i < passes->image->programs[program].n_passes; i++)
        ls_json_put_int(w, passes->image->programs[program].passes[i].name,
                        passes->image->programs[program].passes[i].nodes);
    ls_json_close(w);
    ls_json_put_int(w, "instructions", passes->image->programs[program].n_instrs);
    for (int k = 0; k < LS_INSTR_KINDS; k++) ls_json_put_int(w, ls_instr_traits_of[k].name, a.kinds[k]);
    ls_json_put_int(w, "named_reads", a.reads);
    ls_json_put_int(w, "joins", a.joins);
    ls_json_put_int(w, "buffers", a.buffers);
    ls_json_close(w);
}

void ls_passes_put(const ls_passes *passes, ls_json_writer *w) {
    ls_json_open_object(w, "passes");
    ls_json_put_int(w, "forward_nodes", passes->forward_nodes);
    ls_json_put_int(w, "nodes", passes->graph->n_nodes);
    const factor_count factors = count_factors(passes->graph);
    ls_json_put_int(w, "factors", factors.all);
    ls_json_put_int(w, "factors_needed_whole", factors.whole);
    for (int p = 0; p < passes->image->n_programs; p++) put_program_pass(passes, p, w);
    for (int s = 0; s < LS_SPACES; s++) {
        ls_json_open_object(w, ls_space_texts[s].name);
        ls_json_put_int(w, "side_by_side", (int64_t)bytes_apart(passes->image, (ls_space)s));
        ls_json_put_int(w, "mapped", (int64_t)passes->image->bytes[s]);
        ls_json_put_int(w, "lower_bound", (int64_t)passes->image->least[s]);
        ls_json_close(w);
    }
    ls_json_close(w);
}

void ls_program_ops_put(const ls_image *image, int program, ls_json_writer *w) {
    ls_op_account ops[LS_OP_ACCOUNTS];
    const int n = ls_program_ops(image, program, ops);
    ls_json_open_array(w, "ops");
    for (int i = 0; i < n; i++) {
        ls_json_open_object(w, NULL);
        ls_json_put_text(w, "op", ops[i].op);
        ls_json_put_int(w, "count", ops[i].count);
        ls_json_put_double(w, "flops", ops[i].flops);
        ls_json_put_double(w, "bytes", ops[i].bytes);
        ls_json_close(w);
    }
    ls_json_close(w);
}
