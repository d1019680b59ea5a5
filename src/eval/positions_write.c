/* The table of losses by position as text, JSON and a picture. */
#include "base/base.h"
#include "eval/positions.h"

#include <math.h>

void ls_loss_table_print(const ls_loss_table *t, FILE *out) {
    if (t == NULL || out == NULL || t->n > LS_LOSS_BINS) return;
    fprintf(out, "%-20s %9s %9s %12s %10s\n", "tokens seen before", "loss", "+-", "perplexity", "tokens");
    for (int i = 0; i < t->n; i++) {
        const ls_loss_bin *b = &t->bin[i];
        char range[48], error[24] = "-";
        if (b->last > b->first)
            snprintf(range, sizeof range, "%lld to %lld", (long long)b->first, (long long)b->last);
        else
            snprintf(range, sizeof range, "%lld", (long long)b->first);
        if (isfinite(b->error)) snprintf(error, sizeof error, "%.4f", b->error);
        fprintf(out, "%-20s %9.4f %9s %12.5g %10lld\n", range, b->loss, error, exp(b->loss),
                (long long)b->tokens);
    }
}

static void put_bin(const ls_loss_bin *b, ls_json_writer *w) {
    ls_json_put_double(w, "loss", b->loss);
    ls_json_put_double(w, "error", b->error);
    ls_json_put_int(w, "tokens", b->tokens);
}

void ls_loss_table_put(const ls_loss_table *t, ls_json_writer *w) {
    put_bin(&t->all, w);
    ls_json_put_double(w, "perplexity", exp(t->all.loss));
    ls_json_put_int(w, "sequences", t->sequences);
    ls_json_open_array(w, "by_position");
    for (int i = 0; i < t->n && i < LS_LOSS_BINS; i++) {
        ls_json_open_object(w, NULL);
        ls_json_put_int(w, "first", t->bin[i].first);
        ls_json_put_int(w, "last", t->bin[i].last);
        put_bin(&t->bin[i], w);
        ls_json_close(w);
    }
    ls_json_close(w);
}

ls_status ls_loss_table_draw(const ls_loss_table *t, const char *directory) {
    LS_PATH path = NULL;
    double x[LS_LOSS_BINS], y[LS_LOSS_BINS], error[LS_LOSS_BINS];
    int n = 0;
    for (int i = 0; i < t->n; i++) {
        const ls_loss_bin *b = &t->bin[i];
        if (b->last == 0) continue; /* has no place on a scale of doublings */
        x[n] = sqrt((double)ls_max(b->first, 1) * (double)b->last);
        y[n] = b->loss;
        error[n++] = b->error;
    }
    char name[80];
    snprintf(name, sizeof name, "mean and standard error (all tokens: %.4f)", t->all.loss);
    const ls_chart_series series = {.name = name, .x = x, .y = y, .n = n, .error = error};
    const ls_chart chart = {.title = "Loss by position in the document",
                            .x_label = "tokens of the document seen before",
                            .y_label = "nats per token",
                            .doubling = true,
                            .series = &series,
                            .n_series = 1};
    LS_TRY(ls_path_join(directory, "loss_by_position.svg", &path));
    return ls_svg_write_chart(path, &chart);
}
