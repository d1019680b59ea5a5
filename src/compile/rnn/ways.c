/* The ways by which states of recurrent cells come to the ranks of a sequence, and which of them a node takes. */
#include "compile/rnn/rnn.h"

#include <stdio.h>
#include <string.h>

#define WAY(name) &ls_rnn_way_##name
static const ls_rnn_way *const ways[] = {LS_RNN_WAYS(WAY)};

static ls_status unknown(const char *name) {
    char known[64] = "";
    size_t used = 0;
    for (size_t i = 0; i < LS_COUNT(ways); i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", ways[i]->name);
    return ls_error(LS_USAGE, "way of recurrent cells: \"%s\", expected %s", name, known);
}

ls_status ls_rnn_way_of(const ls_builder *b, const ls_rnn_site *site, const ls_rnn_way **out) {
    const char *name = b->target->rnn_way;
    ls_status refused = ls_ok();
    *out = NULL;
    double least = 0;
    for (size_t i = 0; i < LS_COUNT(ways); i++) {
        const ls_rnn_way *way = ways[i];
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
    return refused.code != LS_OK ? refused : unknown(name);
}
