/* The programs and phase tables of the usual jobs. */
#include "compile/compile_impl.h"

/*
 * From a table with every program and row that such a job can have: the programs that are kept, and the rows between
 * them.
 */
static ls_job_programs choose(ls_arena *arena, const ls_job_programs *all, const bool *kept) {
    ls_job_program *list = LS_NEW_ARRAY(arena, ls_job_program, all->n);
    ls_phase *phases = LS_NEW_ARRAY(arena, ls_phase, all->n_phases);
    int *place = LS_NEW_ARRAY(arena, int, all->n);
    ls_job_programs out = {.list = list, .phases = phases};
    for (int p = 0; p < all->n; p++) {
        place[p] = out.n;
        if (kept[p]) list[out.n++] = all->list[p];
    }
    for (int i = 0; i < all->n_phases; i++) {
        const ls_phase *row = &all->phases[i];
        if ((row->from != LS_FIRST && !kept[row->from]) || !kept[row->to]) continue;
        phases[out.n_phases++] =
            (ls_phase){row->from == LS_FIRST ? LS_FIRST : place[row->from], place[row->to], row->sums};
    }
    return out;
}

static ls_job_programs training(const ls_graph *graph, int forward_nodes, ls_update update, int more, bool exchanges) {
    enum { MICRO, STEP, EVALUATE, EXCHANGE, PROGRAMS };
    const ls_sums used = update == LS_UPDATE_APPLY ? LS_SUMS_CLEARED : LS_SUMS_ADDED;
    const ls_job_program list[PROGRAMS] = {
        [MICRO] = {LS_PROGRAM_MICRO, 0, LS_LAST_NODE, .sums = LS_SUMS_ADDED, .runs = more},
        [STEP] = {LS_PROGRAM_STEP, 0, LS_LAST_NODE, .update = update, .runs = 1,
                  .sums = more > 0 ? used : LS_SUMS_BEGUN},
        [EVALUATE] = {LS_PROGRAM_EVALUATE, 0, forward_nodes},
        [EXCHANGE] = {LS_PROGRAM_EXCHANGE, 0, 0, .exchanges = true}};
    /*
     * An update leaves its sums zero. If there is no update, the host clears the sums, as it clears those of an
     * evaluation.
     */
    const ls_phase_sums next = update == LS_UPDATE_APPLY ? LS_PHASE_ZERO : LS_PHASE_CLEARED;
    /* A step that has begun must be finished before any other program runs. */
    const ls_phase phases[] = {{LS_FIRST, MICRO, LS_PHASE_ZERO},
                               {LS_FIRST, STEP, LS_PHASE_ZERO},
                               {LS_FIRST, EVALUATE, LS_PHASE_ZERO},
                               {MICRO, MICRO, LS_PHASE_GOES_ON},
                               {MICRO, STEP, LS_PHASE_GOES_ON},
                               {STEP, MICRO, next},
                               {STEP, STEP, next},
                               {STEP, EVALUATE, next},
                               {EVALUATE, EVALUATE, LS_PHASE_GOES_ON},
                               {EVALUATE, MICRO, LS_PHASE_CLEARED},
                               {EVALUATE, STEP, LS_PHASE_CLEARED},
                               {LS_FIRST, EXCHANGE, LS_PHASE_ZERO},
                               {STEP, EXCHANGE, next},
                               {EVALUATE, EXCHANGE, LS_PHASE_GOES_ON},
                               {EXCHANGE, EXCHANGE, LS_PHASE_GOES_ON},
                               {EXCHANGE, EVALUATE, LS_PHASE_GOES_ON},
                               {EXCHANGE, MICRO, LS_PHASE_CLEARED},
                               {EXCHANGE, STEP, LS_PHASE_CLEARED}};
    LS_ASSERT(update != LS_UPDATE_NONE);
    return choose(
        graph->arena, &(ls_job_programs){list, PROGRAMS, phases, LS_COUNT(phases)},
        (bool[PROGRAMS]){[MICRO] = more > 0, [STEP] = true, [EVALUATE] = forward_nodes > 0, [EXCHANGE] = exchanges});
}

ls_job_programs ls_training_programs(const ls_graph *graph, int forward_nodes, ls_update update, int more) {
    return training(graph, forward_nodes, update, more, false);
}

ls_job_programs ls_step_programs(const ls_graph *graph, int forward_nodes, int more, double average) {
    return training(graph, forward_nodes, LS_UPDATE_APPLY, more, average > 0);
}

ls_job_programs ls_plain_programs(const ls_graph *graph, int forward_nodes) {
    enum { MICRO, EVALUATE, PROGRAMS };
    const ls_job_program list[PROGRAMS] = {
        [MICRO] = {LS_PROGRAM_MICRO, 0, LS_LAST_NODE, .runs = 1}, [EVALUATE] = {LS_PROGRAM_EVALUATE, 0, forward_nodes}};
    static const ls_phase phases[] = {{LS_FIRST, MICRO, LS_PHASE_ZERO},       {LS_FIRST, EVALUATE, LS_PHASE_ZERO},
                                      {MICRO, MICRO, LS_PHASE_GOES_ON},       {MICRO, EVALUATE, LS_PHASE_CLEARED},
                                      {EVALUATE, EVALUATE, LS_PHASE_GOES_ON}, {EVALUATE, MICRO, LS_PHASE_CLEARED}};
    return choose(graph->arena, &(ls_job_programs){list, PROGRAMS, phases, LS_COUNT(phases)},
                  (bool[PROGRAMS]){[MICRO] = true, [EVALUATE] = forward_nodes > 0});
}

ls_job_programs ls_apart_programs(const ls_graph *graph, int forward_nodes, const char *second) {
    enum { FORWARD, SECOND, PROGRAMS };
    const ls_job_program list[PROGRAMS] = {[FORWARD] = {LS_PROGRAM_EVALUATE, 0, forward_nodes, .runs = 1},
                                           [SECOND] = {second, forward_nodes, LS_LAST_NODE, .runs = 1}};
    static const ls_phase phases[] = {{LS_FIRST, FORWARD, LS_PHASE_ZERO},
                                      {FORWARD, FORWARD, LS_PHASE_GOES_ON},
                                      {FORWARD, SECOND, LS_PHASE_ZERO},
                                      {SECOND, SECOND, LS_PHASE_ZERO},
                                      {SECOND, FORWARD, LS_PHASE_CLEARED}};
    return choose(graph->arena, &(ls_job_programs){list, PROGRAMS, phases, LS_COUNT(phases)},
                  (bool[PROGRAMS]){[FORWARD] = true, [SECOND] = graph->n_nodes > forward_nodes});
}

ls_job_programs ls_forward_programs(const ls_graph *graph) { return ls_apart_programs(graph, LS_LAST_NODE, ""); }

ls_job_programs ls_joined_programs(const ls_job_programs *programs, ls_arena *arena) {
    bool *kept = LS_NEW_ARRAY(arena, bool, programs->n), updates = false;
    for (int p = 0; p < programs->n; p++) updates |= programs->list[p].update != LS_UPDATE_NONE;
    for (int p = 0; p < programs->n; p++)
        kept[p] = !updates || programs->list[p].update != LS_UPDATE_NONE || programs->list[p].sums != LS_SUMS_ADDED;
    const ls_job_programs joined = choose(arena, programs, kept);
    ls_job_program *list = ls_arena_copy(arena, joined.list, sizeof *list * (size_t)joined.n);
    for (int p = 0; p < joined.n; p++)
        if (list[p].update != LS_UPDATE_NONE) list[p].sums = LS_SUMS_BEGUN;
    return (ls_job_programs){list, joined.n, joined.phases, joined.n_phases};
}

bool ls_program_reduces(const ls_builder *b, const ls_job_program *row) {
    return row->update != LS_UPDATE_NONE || (b->packing->cut->gradients && row->sums == LS_SUMS_ADDED);
}

bool ls_job_fetches(const ls_job *job, ls_tensor storage) {
    bool fetches = false;
    for (int i = 0; i < job->n_fetch; i++)
        fetches |= ls_graph_tensor(job->graph, job->fetch[i])->storage.id == storage.id;
    return fetches;
}

bool ls_job_updates(const ls_job *job, ls_update least) {
    for (int p = 0; p < job->programs.n; p++) {
        if (job->programs.list[p].update >= least) return true;
    }
    return false;
}
