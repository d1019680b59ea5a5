/* Runs of positions. Kernels that need neighbours, or a state of all tokens before, are called once for each run. */
#include "compile/redistribute/redistribute.h"

ls_layout ls_runs_of(const ls_builder *b) {
    ls_layout out = b->image->layout;
    if (!b->target->canonical) return out;
    const int chunks = ls_chunk_count(out.S), each = chunks / out.P;
    int *first = LS_NEW_ARRAY(b->scratch, int, out.P + 1);
    ls_layout_run *runs = LS_NEW_ARRAY(b->scratch, ls_layout_run, chunks);
    for (int p = 0; p <= out.P; p++) first[p] = p * each;
    for (int c = 0; c < chunks; c++) {
        const int64_t start = ls_chunk_start(b, c);
        runs[c] = (ls_layout_run){start, ls_chunk_start(b, c + 1) - start, 1};
    }
    out.first_run = first;
    out.runs = runs;
    return out;
}

int ls_my_runs(const ls_builder *b, const ls_layout_run **runs) {
    const ls_layout layout = ls_runs_of(b);
    return ls_layout_runs(&layout, ls_mesh_sequence_index(&b->target->mesh, b->target->rank), runs);
}

int ls_most_runs(const ls_builder *b) {
    const ls_layout layout = ls_runs_of(b);
    return ls_layout_most_runs(&layout);
}
