/* What is said of an option that a command does not have: what other programs call by that name, or the nearest name. */
#include "base/options_impl.h"

#include <string.h>

#include "base/base.h"

int ls_edit_distance(const char *a, size_t a_length, const char *b) {
    enum { LONGEST = 40 };
    if (a == NULL || b == NULL) return LONGEST;
    const size_t b_length = strlen(b);
    if (a_length > LONGEST || b_length > LONGEST) return LONGEST;
    int row[LONGEST + 1];
    for (size_t j = 0; j <= b_length; j++) row[j] = (int)j;
    for (size_t i = 1; i <= a_length; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= b_length; j++) {
            const int replace = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = (int)ls_min(replace, ls_min(row[j], row[j - 1]) + 1);
        }
    }
    return row[b_length];
}

/* Names of other programs, with - where they may have _, and what stands for them here: an option, with its value where that follows. */
static const struct {
    const char *theirs, *ours, *value;
} others[] = {
    {"learning-rate", "lr", ""},
    {"max-lr", "lr", ""},
    {"max-steps", "steps", ""},
    {"max-iters", "steps", ""},
    {"train-iters", "steps", ""},
    {"iterations", "steps", ""},
    {"num-epochs", "epochs", ""},
    {"num-train-epochs", "epochs", ""},
    {"n-epochs", "epochs", ""},
    {"batch-size", "batch", ""},
    {"global-batch-size", "batch", ""},
    {"per-device-train-batch-size", "batch", ""},
    {"gradient-accumulation-steps", "accumulate", ""},
    {"grad-accum", "accumulate", ""},
    {"context-length", "seq", ""},
    {"context-size", "seq", ""},
    {"ctx-size", "seq", ""},
    {"block-size", "seq", ""},
    {"max-seq-len", "seq", ""},
    {"max-seq-length", "seq", ""},
    {"max-length", "seq", ""},
    {"seq-len", "seq", ""},
    {"seq-length", "seq", ""},
    {"sequence-length", "seq", ""},
    {"output", "out", ""},
    {"output-dir", "out", ""},
    {"save-dir", "out", ""},
    {"model-name-or-path", "model", ""},
    {"config", "model", ""},
    {"train-data", "data", ""},
    {"train-file", "data", ""},
    {"dataset", "data", ""},
    {"text", "data", ""},
    {"validation-file", "eval-data", ""},
    {"valid-data", "eval-data", ""},
    {"val-data", "eval-data", ""},
    {"eval-steps", "eval-every", ""},
    {"eval-interval", "eval-every", ""},
    {"save-steps", "save-every", ""},
    {"save-interval", "save-every", ""},
    {"save-total-limit", "keep", ""},
    {"load-best-model-at-end", "keep-best", ""},
    {"warmup-steps", "warmup", ""},
    {"lr-scheduler-type", "schedule", ""},
    {"lr-decay-style", "schedule", ""},
    {"adam-beta1", "beta1", ""},
    {"adam-beta2", "beta2", ""},
    {"adam-epsilon", "eps", ""},
    {"max-grad-norm", "clip", ""},
    {"grad-clip", "clip", ""},
    {"clip-grad", "clip", ""},
    {"bf16", "dtype", " bf16"},
    {"fp32", "dtype", " f32"},
    {"precision", "dtype", ""},
    {"resume-from-checkpoint", "resume", ""},
    {"nproc-per-node", "ranks", ""},
    {"nproc", "ranks", ""},
    {"world-size", "ranks", ""},
    {"num-threads", "threads", ""},
    {"max-new-tokens", "tokens", ""},
    {"max-tokens", "tokens", ""},
    {"n-predict", "tokens", ""},
    {"time-limit", "max-seconds", ""},
};

static bool has_option(const ls_option *table, int rows, const char *name) {
    for (int i = 0; i < rows; i++)
        if (strcmp(table[i].name, name) == 0) return true;
    return false;
}

/* _ and - are the same here. */
static bool same_name(const char *known, const char *name, size_t length) {
    if (strlen(known) != length) return false;
    for (size_t i = 0; i < length; i++)
        if ((name[i] == '_' ? '-' : name[i]) != known[i]) return false;
    return true;
}

ls_status ls_option_unknown(const ls_option *table, int rows, const char *name, size_t length) {
    for (size_t i = 0; i < LS_COUNT(others); i++) {
        if (!same_name(others[i].theirs, name, length) || !has_option(table, rows, others[i].ours)) continue;
        return ls_error(LS_USAGE, "unknown option --%.*s; did you mean --%s%s?", (int)length, name,
                        others[i].ours, others[i].value);
    }
    int best = -1, best_distance = (int)ls_max(2, (int64_t)length / 3) + 1;
    for (int i = 0; i < rows; i++) {
        const int distance = ls_edit_distance(name, length, table[i].name);
        if (distance < best_distance) {
            best = i;
            best_distance = distance;
        }
    }
    if (best < 0)
        return ls_error(LS_USAGE, "unknown option --%.*s; --help lists the known ones", (int)length, name);
    return ls_error(LS_USAGE, "unknown option --%.*s; did you mean --%s?", (int)length, name,
                    table[best].name);
}
