/* The learning rate over the steps. */
#include "train/train_impl.h"

#include <math.h>
#include <string.h>

/* wsd ("warm-up, stable, decay"): the last part of the steps in which the rate falls. */
#define DECAY_PART 0.2

static double constant(double progress) {
    (void)progress;
    return 1.0;
}

static double linear(double progress) { return 1.0 - progress; }

static double cosine(double progress) { return 0.5 * (1.0 + cos(3.14159265358979323846 * progress)); }

static double wsd(double progress) { return fmin((1.0 - progress) / DECAY_PART, 1.0); }

/* progress: 0 after the warm-up, 1 at the last step. height: 1 is the full rate, 0 the lowest one. */
static const struct {
    const char *name;
    double (*height)(double progress);
} schedules[] = {{"cosine", cosine}, {"linear", linear}, {"constant", constant}, {"wsd", wsd}};

bool ls_schedule_known(const char *name) {
    for (size_t i = 0; i < LS_COUNT(schedules); i++)
        if (strcmp(schedules[i].name, name) == 0) return true;
    return false;
}

double ls_schedule_lr(const ls_train_options *options, int64_t n) {
    if (n <= options->warmup) return options->lr * (double)n / (double)options->warmup;
    const int64_t after = ls_max(options->steps - options->warmup, 1);
    const double progress = fmin((double)(n - options->warmup) / (double)after, 1.0);
    const double lowest = fmax(options->min_lr, 0.0);
    for (size_t i = 0; i < LS_COUNT(schedules); i++)
        if (strcmp(schedules[i].name, options->schedule) == 0)
            return lowest + (options->lr - lowest) * schedules[i].height(progress);
    return options->lr;
}
