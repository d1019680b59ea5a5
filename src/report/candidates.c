/* The candidates of a plan as a table and as JSON, and the printed description of an engine or an attention. */
#include "report/report.h"

#include "base/base.h"
#include "longspan/attention.h"

/*
 * Most rows of the table, for candidates that apply and for refused ones: with many ranks there are hundreds. JSON has
 * all.
 */
enum { MOST_APPLY = 40, MOST_REFUSED = 10 };

/* Columns that only some tables have. */
typedef struct columns {
    bool measured, offload, stages;
    bool features; /* axes of features, besides those of the sequence */
    bool rings;    /* the axis of rings */
    int axes;      /* width in bytes of the column with the sizes of axes */
    int strategy;  /* width of the column with strategies */
} columns;

static int size_along(const ls_mesh *mesh, const ls_axis *axis) {
    int i = 0;
    while (i < mesh->n && mesh->along[i].axis != axis) i++;
    return i < mesh->n ? mesh->along[i].size : 1;
}

/* Writes the axes that are shown: "ring×ulysses"; or their sizes in a mesh: "4×2". */
static void axes_text(const ls_mesh *mesh, const columns *shown, char *out, size_t bytes) {
    size_t used = 0;
    for (int i = 0; ls_axis_at(i) != NULL && used < bytes; i++) {
        const ls_axis *axis = ls_axis_at(i);
        const bool sequence = axis->kind == LS_AXIS_SEQUENCE && (!axis->of_rings || shown->rings);
        char size[16];
        if (!sequence && !(shown->features && axis->kind == LS_AXIS_FEATURE)) continue;
        if (mesh != NULL) snprintf(size, sizeof size, "%d", size_along(mesh, axis));
        used +=
            (size_t)snprintf(out + used, bytes - used, "%s%s", used > 0 ? "×" : "", mesh != NULL ? size : axis->name);
    }
}

static bool has_rings(const ls_mesh *mesh) {
    bool has = false;
    for (int i = 0; i < mesh->n; i++) has |= mesh->along[i].axis->of_rings && mesh->along[i].size > 1;
    return has;
}

static void pipeline_text(const ls_plan_candidate *c, char out[LS_PIPELINE_TEXT]) {
    ls_pipeline_print(&(ls_target){.mesh = c->mesh, .schedule = c->schedule, .stage_chunks = c->stage_chunks}, out);
}

/* Prints "2 1f1b". */
static void print_stages(const ls_plan_candidate *c, FILE *out) {
    char pipeline[LS_PIPELINE_TEXT], text[LS_PIPELINE_TEXT + 16];
    pipeline_text(c, pipeline);
    snprintf(text, sizeof text, "%d %s", ls_mesh_stages(&c->mesh), pipeline);
    fprintf(out, "%-16s ", ls_mesh_stages(&c->mesh) > 1 ? text : "1");
}

static void print_row(const ls_plan_candidate *c, const columns *shown, FILE *out) {
    char strategy[LS_STRATEGY_TEXT], mesh[64], time[LS_SECONDS_TEXT], sent[LS_BYTES_TEXT], memory[LS_BYTES_TEXT];
    axes_text(&c->mesh, shown, mesh, sizeof mesh);
    ls_strategies_print(&c->strategies, strategy);
    fprintf(out, "%-*s ", shown->strategy, strategy);
    if (shown->stages) print_stages(c, out);
    fprintf(out, "%-*s %-11s ", shown->axes, mesh, ls_layout_name(c->layout));
    if (c->refused[0] != 0) {
        fprintf(out, "%s\n", c->refused);
        return;
    }
    fprintf(out, "%s%10s", c->simulated ? "  " : "≥ ", ls_seconds_text(c->seconds, time));
    if (shown->measured) fprintf(out, " %12s", c->measured > 0 ? ls_seconds_text(c->measured, time) : "-");
    if (c->simulated)
        ls_print_to(out, " %7.1f %%", c->waiting * 100);
    else
        fprintf(out, " %9s", "-");
    ls_print_to(out, " %12s %12s %8.1f %% %10d", ls_bytes_text(c->bytes_sent + c->bytes_read, sent),
                ls_bytes_text((double)c->mapped, memory), c->imbalance * 100, c->saving.drop);
    if (shown->offload) {
        char offload[LS_OFFLOAD_TEXT];
        ls_offload_print(&c->saving, offload);
        fprintf(out, " %14s", offload);
    }
    fprintf(out, "  %s%s\n", ls_tile_name(c->saving.tile), c->fits ? "" : "  does not fit");
}

void ls_candidates_print(const ls_plan *plan, FILE *out) {
    columns shown = {.strategy = 11};
    char strategy[LS_STRATEGY_TEXT];
    int n[2] = {0, 0}; /* numbers of candidates that apply, and of refused ones */
    for (int i = 0; i < plan->n_candidates; i++) {
        const ls_plan_candidate *c = &plan->candidates[i];
        ls_strategies_print(&c->strategies, strategy);
        shown.strategy = (int)ls_max(shown.strategy, (int64_t)strlen(strategy));
        shown.measured |= c->measured > 0;
        shown.stages |= ls_mesh_stages(&c->mesh) > 1;
        shown.offload |= c->saving.offload != 0 || c->saving.offload_state;
        shown.rings |= has_rings(&c->mesh);
        shown.features |= ls_mesh_size(&c->mesh, ls_mesh_axes(&c->mesh, LS_AXIS_FEATURE)) > 1;
    }
    shown.axes = (shown.features ? 18 : 14) + (shown.rings ? 7 : 0);
    fprintf(out, "%s\n\n", plan->reason);
    char mesh[64];
    axes_text(NULL, &shown, mesh, sizeof mesh);
    fprintf(out, "%-*s %s%-*s %-11s %12s%s %9s %12s %12s %10s %10s%s  %s\n", shown.strategy, "strategy",
            shown.stages ? "stages           " : "", shown.axes, mesh, "layout", "predicted",
            shown.measured ? "     measured" : "", "waiting", "sent/read", "memory", "imbalance", "recompute",
            shown.offload ? "        offload" : "", "tiles");
    for (int i = 0; i < plan->n_candidates; i++) {
        const bool refused = plan->candidates[i].refused[0] != 0;
        if (n[refused]++ < (refused ? MOST_REFUSED : MOST_APPLY)) print_row(&plan->candidates[i], &shown, out);
    }
    if (n[false] > MOST_APPLY) fprintf(out, "%d more apply, and are no better\n", n[false] - MOST_APPLY);
    if (n[true] > MOST_REFUSED) fprintf(out, "%d more are refused\n", n[true] - MOST_REFUSED);
    if (!ls_plan_is_simulated(plan))
        fprintf(out,
                "\ntimes are lower bounds, without waiting: all classes of ranks have up to %lld instructions, "
                "and at most %d are simulated\n",
                (long long)plan->instrs, LS_PLAN_SIMULATED_INSTRS);
    fprintf(out, "\nrates: %s\n",
            plan->measured ? "measured on this machine" : "nominal; longspan bench machine measures this machine's");
}

static void put_candidate(ls_json_writer *w, const ls_plan_candidate *c) {
    char strategy[LS_STRATEGY_TEXT], offload[LS_OFFLOAD_TEXT], pipeline[LS_PIPELINE_TEXT];
    ls_strategies_print(&c->strategies, strategy);
    ls_offload_print(&c->saving, offload);
    ls_json_open_object(w, NULL);
    ls_json_put_text(w, "strategy", strategy);
    for (int a = 0; a < c->mesh.n; a++) ls_json_put_int(w, c->mesh.along[a].axis->name, c->mesh.along[a].size);
    ls_json_put_text(w, "layout", ls_layout_name(c->layout));
    pipeline_text(c, pipeline);
    ls_json_put_text(w, "pipeline", pipeline);
    if (c->shard != NULL) ls_json_put_text(w, "shard", c->shard->name);
    if (c->refused[0] != 0) {
        ls_json_put_text(w, "refused", c->refused);
    } else {
        ls_json_put_double(w, "seconds", c->seconds);
        ls_json_put_bool(w, "at_least", !c->simulated);
        if (c->measured > 0) ls_json_put_double(w, "measured_seconds", c->measured);
        ls_json_put_double(w, "waiting", c->waiting);
        ls_json_put_double(w, "bytes_sent", c->bytes_sent);
        ls_json_put_double(w, "bytes_read", c->bytes_read);
        ls_json_put_int(w, "private_bytes", (int64_t)c->bytes[LS_PRIVATE]);
        ls_json_put_int(w, "symmetric_bytes", (int64_t)c->bytes[LS_SYMMETRIC]);
        ls_json_put_int(w, "host_bytes", (int64_t)c->bytes[LS_HOST]);
        ls_json_put_int(w, "common_bytes", (int64_t)c->bytes[LS_COMMON]);
        ls_json_put_double(w, "imbalance", c->imbalance);
        ls_json_put_int(w, "recompute", c->saving.drop);
        ls_json_put_text(w, "offload", offload);
        ls_json_put_text(w, "tile", ls_tile_name(c->saving.tile));
        ls_json_put_bool(w, "fits", c->fits);
    }
    ls_json_close(w);
}

void ls_candidates_put(const ls_plan *plan, ls_json_writer *w) {
    ls_json_open_array(w, "candidates");
    for (int i = 0; i < plan->n_candidates; i++) put_candidate(w, &plan->candidates[i]);
    ls_json_close(w);
}

/* Prints the choice, the candidates and the programs of rank 0, as `detail` asks for. */
static void print_session(const ls_session *session, ls_detail detail, FILE *out) {
    const ls_plan *plan = ls_session_plan(session);
    if (detail == LS_PRINT_CHOICE)
        fprintf(out, "%s\n", plan->reason);
    else
        ls_candidates_print(plan, out);
    const ls_image *image = ls_session_image(session);
    for (int p = 0; p < image->n_programs && detail == LS_PRINT_PROGRAMS; p++) {
        fputc('\n', out);
        ls_program_print(image, p, 0, out);
    }
}

void ls_engine_print(const ls_engine *engine, ls_detail detail, FILE *out) {
    if (engine != NULL && out != NULL) print_session(ls_engine_session(engine), detail, out);
}

void ls_shared_attention_print(const ls_shared_attention *attention, ls_detail detail, FILE *out) {
    if (attention != NULL && out != NULL) print_session(ls_shared_attention_session(attention), detail, out);
}
