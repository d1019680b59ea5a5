/* The table of optimisers, and queries of it. */
#include "compile/optimizer/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ROW(name) &ls_optimizer_##name
static const ls_optimizer *const table[] = {LS_OPTIMIZERS(ROW)};

const ls_optimizer *ls_optimizer_at(int i) { return i >= 0 && i < (int)LS_COUNT(table) ? table[i] : NULL; }

/* The hyperparameter at byte offset `at`. */
static double value_at(const ls_hyperparameters *all, size_t at) {
    return *(const double *)(const void *)((const char *)all + at);
}

bool ls_optimizer_has(const ls_optimizer *optimizer, size_t at) { return value_at(&optimizer->initial, at) >= 0; }

double ls_optimizer_initial(const ls_optimizer *optimizer, size_t at) {
    return ls_optimizer_has(optimizer, at) ? value_at(&optimizer->initial, at) : 0;
}

ls_hyperparameters ls_optimizer_defaults(const ls_optimizer *optimizer) {
    const ls_hyperparameters *o = &optimizer->initial;
    return (ls_hyperparameters){fmax(o->beta1, 0),        fmax(o->beta2, 0),    fmax(o->epsilon, 0),
                                fmax(o->weight_decay, 0), fmax(o->momentum, 0), fmax(o->nesterov, 0)};
}

enum { ALL = sizeof(ls_hyperparameters) }; /* an offset at which there is no hyperparameter */

/* Lists the names of the optimisers that have the hyperparameter; with ALL, the names of all optimisers. */
static void list_names(size_t having, char *out, size_t room) {
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < LS_COUNT(table) && used < room; i++) {
        if (having != ALL && !ls_optimizer_has(table[i], having)) continue;
        used += (size_t)snprintf(out + used, room - used, "%s%s", used > 0 ? ", " : "", table[i]->name);
    }
}

ls_status ls_optimizer_find(const char *name, const ls_optimizer **out) {
    if (name == NULL) name = table[0]->name;
    for (size_t i = 0; i < LS_COUNT(table); i++) {
        if (strcmp(table[i]->name, name) != 0) continue;
        *out = table[i];
        return ls_ok();
    }
    char known[200];
    list_names(ALL, known, sizeof known);
    return ls_error(LS_USAGE, "optimizer \"%s\" is not known; expected one of %s", name, known);
}

const ls_optimizer *ls_job_optimizer(const ls_job *job) { return job->optimizer != NULL ? job->optimizer : table[0]; }

ls_status ls_optimizer_lacks(const ls_optimizer *optimizer, size_t at, const char *option) {
    char having[200];
    list_names(at, having, sizeof having);
    return ls_error(LS_USAGE, "%s: optimizer %s does not have it; expected only with %s", option, optimizer->name,
                    having);
}
