/* The table of strategies, and the questions that other files ask about it. */
#include "compile/attention/attention.h"

#include <stdio.h>
#include <string.h>

#define ROW(name) &ls_strategy_##name
static const ls_strategy *const table[] = {LS_STRATEGIES(ROW)};

const char *ls_strategy_name(int i) { return i >= 0 && i < (int)LS_COUNT(table) ? table[i]->name : NULL; }
const char *ls_strategy_about(int i) { return i >= 0 && i < (int)LS_COUNT(table) ? table[i]->about : NULL; }

/* The row of that name, or NULL. */
static const ls_strategy *row_of(const char *name) {
    for (size_t i = 0; i < LS_COUNT(table); i++) {
        if (strcmp(table[i]->name, name) == 0) return table[i];
    }
    return NULL;
}

ls_status ls_strategy_find(const char *name, const ls_strategy **out) {
    char known[200] = "";
    const ls_strategy *found = row_of(name);
    if (found != NULL) {
        *out = found;
        return ls_ok();
    }
    for (size_t i = 0; i < LS_COUNT(table); i++) {
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", table[i]->name);
    }
    return ls_error(LS_USAGE, "strategy \"%s\" is not known, expected one of %s", name, known);
}

ls_status ls_strategy_applicable(const char *name, const ls_attention_problem *problem) {
    const ls_strategy *strategy;
    LS_TRY(ls_strategy_find(name, &strategy));
    return strategy->applicable(strategy, problem);
}

ls_status ls_strategy_under(const ls_target *target, const ls_mask *mask, const ls_strategy **out) {
    const bool apart = target->window_strategy != NULL && ls_mask_has(mask, LS_MASK_WINDOW);
    return ls_strategy_find(apart ? target->window_strategy : target->strategy, out);
}

/* --- which are tried ---------------------------------------------------------------------------------------------- */

static bool is_same_way(const ls_strategy *a, const ls_strategy *b) {
    return a->across_forward == b->across_forward && a->query_schedule == b->query_schedule;
}

int ls_strategies_for(const ls_mesh *mesh, const char *out[LS_STRATEGIES_MOST]) {
    const ls_attention_problem any_heads = {.B = 1, .S = 1, .Hq = INT64_MAX, .Hkv = 1, .D = 1, .E = 1, .mesh = *mesh};
    const ls_strategy *found[LS_STRATEGIES_MOST];
    const ls_axes blocks = ls_mesh_block_axes(mesh);
    const bool rings = ls_mesh_size(mesh, blocks) > ls_mesh_inner_size(mesh, blocks);
    int n = 0;
    for (size_t i = 0; i < LS_COUNT(table) && n < LS_STRATEGIES_MOST; i++) {
        /* With a single block all strategies do the same. Most strategies treat two rings as one. */
        bool known = (blocks == 0 && n > 0) || table[i]->two_rings != rings;
        for (int k = 0; k < n; k++) known |= is_same_way(found[k], table[i]);
        if (known || table[i]->applicable(table[i], &any_heads).code != LS_OK) continue;
        out[n] = table[i]->name;
        found[n++] = table[i];
    }
    return n;
}

ls_status ls_strategy_reads_in_place(const char *name, bool *out) {
    const ls_strategy *strategy;
    LS_TRY(ls_strategy_find(name, &strategy));
    *out = strategy->reads_in_place;
    return ls_ok();
}
