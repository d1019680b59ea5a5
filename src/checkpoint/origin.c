/* How the steps before a checkpoint were taken: recorded in state.json, and compared with the steps that follow it. */
#include "checkpoint/checkpoint_impl.h"

#include <math.h>
#include <string.h>

#define ORIGIN "origin"

/* The numbers of an optimiser by their names in run.json and in flags. */
static const struct number {
    const char *name;
    size_t at;
} numbers[] = {
    {"beta1", offsetof(ls_hyperparameters, beta1)},       {"beta2", offsetof(ls_hyperparameters, beta2)},
    {"eps", offsetof(ls_hyperparameters, epsilon)},       {"weight_decay", offsetof(ls_hyperparameters, weight_decay)},
    {"momentum", offsetof(ls_hyperparameters, momentum)}, {"nesterov", offsetof(ls_hyperparameters, nesterov)},
};

static double *number_at(ls_hyperparameters *hyper, const struct number *n) {
    return (double *)(void *)((char *)hyper + n->at);
}

void ls_origin_write(ls_json_writer *w, const ls_train_origin *origin) {
    ls_hyperparameters hyper = origin->hyper;
    if (origin->optimizer == NULL) return;
    ls_json_open_object(w, ORIGIN);
    ls_json_put_text(w, "optimizer", origin->optimizer->name);
    for (size_t i = 0; i < LS_COUNT(numbers); i++)
        if (ls_optimizer_has(origin->optimizer, numbers[i].at))
            ls_json_put_double(w, numbers[i].name, *number_at(&hyper, &numbers[i]));
    ls_json_put_int(w, "seq", origin->seq);
    ls_json_put_int(w, "batch", origin->batch);
    ls_json_close(w);
}

static ls_status read_optimizer(ls_json_value object, const ls_optimizer **out) {
    const char *name;
    LS_TRY(ls_json_text(object, "optimizer", &name));
    const ls_status found = ls_optimizer_find(name, out);
    return found.code == LS_OK ? found
                               : ls_json_error(ls_json_field(object, "optimizer"), "an optimiser: %s", found.text);
}

ls_status ls_origin_read(ls_json_value root, ls_train_origin *out) {
    ls_train_origin origin = {.optimizer = NULL};
    ls_json_value object;
    *out = origin;
    if (!ls_json_has(root, ORIGIN)) return ls_ok();
    LS_TRY(ls_json_object(root, ORIGIN, &object));
    LS_TRY(read_optimizer(object, &origin.optimizer));
    for (size_t i = 0; i < LS_COUNT(numbers); i++)
        if (ls_optimizer_has(origin.optimizer, numbers[i].at))
            LS_TRY(ls_json_double(object, numbers[i].name, 0, INFINITY, number_at(&origin.hyper, &numbers[i])));
    LS_TRY(ls_json_int(object, "seq", 1, INT64_MAX, &origin.seq));
    LS_TRY(ls_json_int(object, "batch", 1, INT64_MAX, &origin.batch));
    *out = origin;
    return ls_ok();
}

/* --- continuing from a checkpoint --------------------------------------------------------------------------------- */

static void tell(const char *file, const char *name, double was, double is) {
    if (was != is) ls_log("%s: %s is %.15g; from here on it is %.15g", file, name, was, is);
}

ls_status ls_origin_compare(const char *file, const ls_train_origin *was, const ls_train_origin *is, bool tells) {
    ls_hyperparameters before = was->hyper, now = is->hyper;
    if (was->optimizer == NULL || is->optimizer == NULL) return ls_ok();
    if (was->optimizer != is->optimizer)
        return ls_error(LS_USAGE, "%s: optimizer is \"%s\"; expected \"%s\", which goes on from it", file,
                        was->optimizer->name, is->optimizer->name);
    for (size_t i = 0; i < LS_COUNT(numbers) && tells; i++)
        if (ls_optimizer_has(is->optimizer, numbers[i].at))
            tell(file, numbers[i].name, *number_at(&before, &numbers[i]), *number_at(&now, &numbers[i]));
    if (tells) tell(file, "seq", (double)was->seq, (double)is->seq);
    if (tells) tell(file, "batch", (double)was->batch, (double)is->batch);
    return ls_ok();
}
