#include "eval/positions.h"
#include "base/base.h"
#include "eval/score.h"

#include <math.h>
#include <string.h>

/* 0 for no token before, then bins that double and end with a power of two, as sequences do: 1, 2, 3-4, 5-8, ... */
static int bin_of(int64_t before) {
    int bin = before > 0;
    for (int64_t last = 1; last < before && bin + 1 < LS_LOSS_BINS; last *= 2) bin++;
    return bin;
}

static int64_t last_of(int bin) { return bin > 0 ? (int64_t)1 << (bin - 1) : 0; }

/* Another sequence's tokens of a bin. */
static void add_group(ls_loss_sum *sum, int64_t tokens, double loss) {
    if (tokens == 0) return;
    sum->sequences++;
    sum->tokens += tokens;
    sum->loss += loss;
    sum->squares += loss * loss;
    sum->cross += loss * (double)tokens;
    sum->counts += (double)tokens * (double)tokens;
}

void ls_loss_sums_add(ls_loss_sums *sums, int64_t S, const ls_sample *sample, const float *losses) {
    int64_t count[LS_LOSS_BINS] = {0}, counted = 0;
    double loss[LS_LOSS_BINS] = {0}, total = 0;
    for (int64_t i = 0; i < S; i++) {
        if (sample->labels[i] == LS_LABEL_IGNORED) continue;
        const int64_t before = sample->seen[i];
        sums->farthest = ls_max(sums->farthest, before);
        const int bin = bin_of(before);
        count[bin]++;
        counted++;
        loss[bin] += (double)losses[i];
        total += (double)losses[i];
    }
    for (int b = 0; b < LS_LOSS_BINS; b++) add_group(&sums->bin[b], count[b], loss[b]);
    add_group(&sums->all, counted, total);
}

/*
 * Tokens of one sequence are not independent, so sequences are the sample: the mean is a ratio of two sums over them, and its
 * standard error follows from what each adds to loss - mean·tokens.
 */
static ls_loss_bin finish(const ls_loss_sum *sum) {
    const double n = (double)sum->tokens, sample = (double)sum->sequences;
    ls_loss_bin bin = {.tokens = sum->tokens, .loss = n > 0 ? sum->loss / n : NAN, .error = NAN};
    if (sum->sequences < 2) return bin;
    const double scatter = sum->squares - 2 * bin.loss * sum->cross + bin.loss * bin.loss * sum->counts;
    bin.error = sqrt(fmax(scatter, 0) * sample / (sample - 1)) / n;
    return bin;
}

ls_loss_table ls_loss_sums_table(const ls_loss_sums *sums) {
    ls_loss_table table = {.all = finish(&sums->all), .sequences = sums->all.sequences};
    for (int b = 0; b < LS_LOSS_BINS; b++) {
        if (sums->bin[b].tokens == 0) continue;
        ls_loss_bin *bin = &table.bin[table.n++];
        *bin = finish(&sums->bin[b]);
        bin->first = b > 0 ? last_of(b - 1) + 1 : 0;
        bin->last = ls_min(last_of(b), sums->farthest);
    }
    table.all.last = sums->farthest;
    return table;
}
