/* Chooses the way by which states reach the ranks of a sequence. */
#include "compile/redistribute/redistribute.h"

#include <stdio.h>
#include <string.h>

static ls_status unknown(const char *name, const char *what, const ls_state_way *const *ways, int n) {
    char known[64] = "";
    size_t used = 0;
    for (int i = 0; i < n; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", ways[i]->name);
    LS_ASSERT(used < sizeof known);
    return ls_error(LS_USAGE, "way of %s: \"%s\", expected %s", what, name, known);
}

ls_status ls_state_way_of(const ls_builder *b, const char *name, const char *what, const ls_state_way *const *ways,
                          int n, const void *site, const ls_state_way **out) {
    ls_status refused = ls_ok();
    *out = NULL;
    double least = 0;
    for (int i = 0; i < n; i++) {
        const ls_state_way *way = ways[i];
        if (name != NULL && strcmp(name, way->name) != 0) continue;
        const ls_status can = way->applicable(b, site);
        if (can.code != LS_OK) {
            if (refused.code == LS_OK) refused = can;
            continue;
        }
        const double cost = way->cost(b, site);
        if (*out == NULL || cost < least) {
            *out = way;
            least = cost;
        }
    }
    if (*out != NULL) return ls_ok();
    return refused.code != LS_OK ? refused : unknown(name, what, ways, n);
}
