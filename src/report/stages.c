/* The effect of each choice on a step: the job is compiled repeatedly, each time with one more choice. */
#include "base/base.h"
#include "program/program.h"
#include "report/report.h"

#include <stdio.h>

/* Adds one choice to the target of the previous stage. */
typedef struct stage {
    const char *name;
    const char *about;
    void (*add)(ls_target *target, const ls_target *chosen);
} stage;

static void one_device(ls_target *t, const ls_target *chosen) {
    *t = *chosen;
    t->rank = 0;
    t->mesh = (ls_mesh){0};
    t->strategy = "local";
    t->window_strategy = t->recurrence_way = t->rnn_way = NULL;
    t->layout = LS_LAYOUT_CONTIGUOUS;
    t->saving = (ls_saving){0};
    t->transfers = LS_TRANSFERS_PUT;
    t->shard = &ls_shard_modes[LS_SHARD_NONE];
}

static void spread(ls_target *t, const ls_target *chosen) {
    t->rank = chosen->rank;
    t->mesh = chosen->mesh;
    t->strategy = chosen->strategy;
    t->window_strategy = chosen->window_strategy;
    t->recurrence_way = chosen->recurrence_way;
    t->rnn_way = chosen->rnn_way;
    t->layout = chosen->layout;
}

static void divide(ls_target *t, const ls_target *chosen) { t->shard = chosen->shard; }

static void recompute(ls_target *t, const ls_target *chosen) { t->saving.drop = chosen->saving.drop; }

static void offload(ls_target *t, const ls_target *chosen) {
    t->saving.offload = chosen->saving.offload;
    t->saving.offload_state = chosen->saving.offload_state;
}

static void tile(ls_target *t, const ls_target *chosen) { t->saving = chosen->saving; }

static void transfers(ls_target *t, const ls_target *chosen) { t->transfers = chosen->transfers; }

static const stage stages[] = {
    {"one device", "the whole graph on one rank", one_device},
    {"mesh", "spread over the mesh", spread},
    {"shard", "what of the parameters is cut over the ranks", divide},
    {"recompute", "results computed again in the backward pass", recompute},
    {"offload", "what waits in memory of the host", offload},
    {"tile", "runs of token-wise ops computed in tiles", tile},
    {"transfers", "blocks read in place, if the plan says so", transfers},
};

/* Sums over the programs of a rank, each counted as often as it runs in a step. */
typedef struct figures {
    double flops, sent, read, moved;
    int64_t instructions;
    size_t mapped;
} figures;

static figures measure(const ls_image *image) {
    figures f = {.mapped = ls_image_mapped(image)};
    for (int p = 0; p < image->n_programs; p++) {
        const int64_t runs = image->programs[p].runs;
        const ls_program_cost cost = ls_program_measure(image, p);
        ls_op_account ops[LS_OP_ACCOUNTS];
        const int n = ls_program_ops(image, p, ops);
        for (int i = 0; i < n; i++) f.moved += (double)runs * ops[i].bytes;
        f.flops += (double)runs * cost.flops;
        f.sent += (double)runs * cost.bytes_sent;
        f.read += (double)runs * cost.bytes_read;
        f.instructions += runs * image->programs[p].n_instrs;
    }
    return f;
}

static ls_status figures_at(const ls_job *job, const ls_target *target, figures *out) {
    ls_image *image;
    LS_TRY(ls_compile(job, target, &image));
    *out = measure(image);
    ls_image_destroy(image);
    return ls_ok();
}

static void print(const stage *s, const figures *f, FILE *out) {
    char sent[LS_BYTES_TEXT], read[LS_BYTES_TEXT], moved[LS_BYTES_TEXT], mapped[LS_BYTES_TEXT];
    ls_print_to(out, "%-11s %13lld %12.3f %12s %12s %12s %12s  %s\n", s->name, (long long)f->instructions,
                f->flops * 1e-9, ls_bytes_text(f->moved, moved), ls_bytes_text(f->sent, sent),
                ls_bytes_text(f->read, read), ls_bytes_text((double)f->mapped, mapped), s->about);
}

ls_status ls_stages_print(const ls_job *job, const ls_target *chosen, FILE *out) {
    ls_target target = *chosen;
    fprintf(out, "%-11s %13s %12s %12s %12s %12s %12s\n", "added", "instructions", "GFLOP", "moved", "sent", "in place",
            "mapped");
    for (size_t i = 0; i < LS_COUNT(stages); i++) {
        figures f;
        stages[i].add(&target, chosen);
        LS_TRY(figures_at(job, &target, &f));
        print(&stages[i], &f, out);
    }
    return ls_ok();
}

ls_status ls_stages_put(const ls_job *job, const ls_target *chosen, ls_json_writer *w) {
    ls_target target = *chosen;
    ls_json_open_array(w, "stages");
    for (size_t i = 0; i < LS_COUNT(stages); i++) {
        figures f;
        stages[i].add(&target, chosen);
        LS_TRY(figures_at(job, &target, &f));
        ls_json_open_object(w, NULL);
        ls_json_put_text(w, "with", stages[i].name);
        ls_json_put_int(w, "instructions", f.instructions);
        ls_json_put_double(w, "flops", f.flops);
        ls_json_put_double(w, "bytes_moved", f.moved);
        ls_json_put_double(w, "bytes_sent", f.sent);
        ls_json_put_double(w, "bytes_read", f.read);
        ls_json_put_int(w, "mapped", (int64_t)f.mapped);
        ls_json_close(w);
    }
    ls_json_close(w);
    return ls_ok();
}
