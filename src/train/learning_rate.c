/* The learning rate over the steps of a training: a linear warm-up, then one of the schedules in the table. */
#include "train/train_impl.h"

#include <math.h>
#include <string.h>

/* wsd ("warm-up, stable, decay"): the fraction of the steps, at the end, in which the rate falls. */
#define DECAY_PART 0.2

static double constant_height(double progress) {
    (void)progress;
    return 1.0;
}

static double linear_height(double progress) { return 1.0 - progress; }

static double cosine_height(double progress) { return 0.5 * (1.0 + cos(3.14159265358979323846 * progress)); }

static double wsd_height(double progress) { return fmin((1.0 - progress) / DECAY_PART, 1.0); }

/* progress: 0 after the warm-up, 1 at the last step. height: 1 is --lr, 0 is --min-lr. */
typedef struct schedule {
    const char *name;
    double (*height)(double progress);
} schedule;

static const schedule schedules[] = {
    {"cosine", cosine_height}, {"linear", linear_height}, {"constant", constant_height}, {"wsd", wsd_height}};

static const schedule *find_schedule(const char *name) {
    for (size_t i = 0; i < LS_COUNT(schedules); i++)
        if (strcmp(schedules[i].name, name) == 0) return &schedules[i];
    return NULL;
}

ls_status ls_schedule_check(const char *name) {
    if (find_schedule(name) != NULL) return ls_ok();
    return ls_error(LS_USAGE, "--schedule is %s; expected cosine, linear, constant or wsd", name);
}

double ls_schedule_lr(const ls_train_options *options, int64_t n) {
    if (n <= options->warmup) return options->lr * (double)n / (double)options->warmup;
    const int64_t after = ls_max(options->steps - options->warmup, 1);
    const double progress = fmin((double)(n - options->warmup) / (double)after, 1.0);
    const double lowest = options->min_lr;
    return lowest + (options->lr - lowest) * find_schedule(options->schedule)->height(progress);
}
