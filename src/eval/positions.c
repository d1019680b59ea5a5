/* Losses by the number of preceding tokens of the document: sums, a table with joined bins, and its output. */
#include "eval/eval.h"

#include <math.h>
#include <string.h>

/*
 * The bin of a number of preceding tokens: 0, 1, 2, 3-4, 5-8, ... Each bin ends with a power of two, as sequence
 * lengths do.
 */
static int bin_of(int64_t before) {
    int bin = before > 0;
    for (int64_t last = 1; last < before && bin + 1 < LS_LOSS_BINS; last *= 2) bin++;
    return bin;
}

static int64_t last_of(int bin) { return bin > 0 ? (int64_t)1 << (bin - 1) : 0; }

/* The tokens of one sequence in a run of bins: their number, and the sums of loss and loss². */
typedef struct part {
    int64_t tokens;
    double loss, squares;
} part;

static void add_part(ls_loss_sum *sum, const part *p) {
    const double n = (double)p->tokens;
    if (p->tokens == 0) return;
    sum->sequences++;
    sum->tokens += p->tokens;
    sum->loss += p->loss;
    sum->token_squares += p->squares;
    sum->squares += p->loss * p->loss;
    sum->cross += p->loss * n;
    sum->counts += n * n;
}

/*
 * Adds to the sums of every run of bins, because which bins are joined is known only at the end, and the L² of joined
 * bins is not the sum of their L².
 */
void ls_loss_sums_add(ls_loss_sums *sums, int64_t S, const ls_sample *sample, const float *losses) {
    part parts[LS_LOSS_BINS] = {{0}};
    for (int64_t i = 0; i < S; i++) {
        if (sample->labels[i] == LS_LABEL_IGNORED) continue;
        sums->farthest = ls_max(sums->farthest, sample->seen[i]);
        part *p = &parts[bin_of(sample->seen[i])];
        const double loss = (double)losses[i];
        *p = (part){p->tokens + 1, p->loss + loss, p->squares + loss * loss};
    }
    for (int first = 0; first < LS_LOSS_BINS; first++) {
        part run = {0};
        for (int last = first; last < LS_LOSS_BINS; last++) {
            const part *p = &parts[last];
            run = (part){run.tokens + p->tokens, run.loss + p->loss, run.squares + p->squares};
            add_part(&sums->bins[first][last], &run);
        }
    }
}

/*
 * Tokens of one sequence are not independent, so the sample consists of sequences: the mean is a ratio of two sums over
 * them, and its standard error follows from the scatter of L - mean·n over the sequences.
 */
static ls_loss_bin bin_between(const ls_loss_sums *sums, int first, int last) {
    const ls_loss_sum *sum = &sums->bins[first][last];
    const double n = (double)sum->tokens, sample = (double)sum->sequences;
    ls_loss_bin bin = {.first = first > 0 ? last_of(first - 1) + 1 : 0,
                       .last = ls_min(last_of(last), sums->farthest),
                       .tokens = sum->tokens,
                       .loss = n > 0 ? sum->loss / n : NAN,
                       .error = NAN};
    if (sum->sequences < 2) return bin;
    const double scatter = sum->squares - 2 * bin.loss * sum->cross + bin.loss * bin.loss * sum->counts;
    bin.error = sqrt(fmax(scatter, 0) * sample / (sample - 1)) / n;
    return bin;
}

enum { FEWEST = 32 }; /* the fewest tokens from which the scatter can be estimated */

/*
 * Whether a bin has enough tokens, which are treated as independent here. The scatter between a few sequences is too
 * rough an estimate for this decision, and much of it is the difference between texts, which joining bins does not
 * reduce.
 */
static bool is_enough(const ls_loss_sum *sum, double error) {
    const double n = (double)sum->tokens;
    if (isinf(error)) return sum->tokens > 0;
    if (sum->tokens < FEWEST) return false;
    const double mean = sum->loss / n, scatter = fmax(sum->token_squares / n - mean * mean, 0);
    return sqrt(scatter / (n - 1)) <= error;
}

ls_loss_table ls_loss_sums_table(const ls_loss_sums *sums, double error) {
    ls_loss_table table = {.all = bin_between(sums, 0, LS_LOSS_BINS - 1),
                           .sequences = sums->bins[0][LS_LOSS_BINS - 1].sequences};
    int first = 0, before = 0; /* the first bin of the run that is being built, and of the run before it */
    for (int last = 0; last < LS_LOSS_BINS; last++) {
        const ls_loss_sum *sum = &sums->bins[first][last];
        if (sum->tokens == 0) first = last + 1; /* a run does not begin with empty bins */
        if (!is_enough(sum, error)) continue;
        table.bin[table.n++] = bin_between(sums, first, last);
        before = first;
        first = last + 1;
    }
    if (first == LS_LOSS_BINS) return table;
    /* The remaining bins have too few tokens for a run of their own, and are joined to the last run. */
    if (table.n == 0) table.n = 1, before = first;
    table.bin[table.n - 1] = bin_between(sums, before, LS_LOSS_BINS - 1);
    return table;
}

/* --- as text, JSON and a picture ---------------------------------------------------------------------------------- */

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
        if (isfinite(b->error)) ls_print(error, sizeof error, "%.4f", b->error);
        ls_print_to(out, "%-20s %9.4f %9s %12.5g %10lld\n", range, b->loss, error, exp(b->loss), (long long)b->tokens);
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

ls_status ls_loss_table_draw(const ls_loss_table *t, const char *folder) {
    LS_PATH path = NULL;
    double x[LS_LOSS_BINS], y[LS_LOSS_BINS], error[LS_LOSS_BINS];
    int n = 0;
    for (int i = 0; i < t->n; i++) {
        const ls_loss_bin *b = &t->bin[i];
        if (b->last == 0) continue; /* 0 cannot be shown on a logarithmic axis */
        x[n] = sqrt((double)ls_max(b->first, 1) * (double)b->last);
        y[n] = b->loss;
        error[n++] = b->error;
    }
    char name[80];
    ls_print(name, sizeof name, "mean and standard error (all tokens: %.4f)", t->all.loss);
    const ls_chart_series series = {.name = name, .x = x, .y = y, .n = n, .error = error};
    const ls_chart chart = {.title = "Loss by position in the document",
                            .x_label = "tokens of the document seen before",
                            .y_label = "nats per token",
                            .doubling = true,
                            .series = &series,
                            .n_series = 1};
    LS_TRY(ls_path_join(folder, "loss_by_position.svg", &path));
    return ls_svg_write_chart(path, &chart);
}
