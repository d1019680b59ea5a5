/* What happens to documents that are too long: the choices by name. */
#include "data/corpus.h"

#include <string.h>

static const char *const too_long_names[] = {
    [LS_TOO_LONG_SPLIT] = "split", [LS_TOO_LONG_CUT] = "cut", [LS_TOO_LONG_DROP] = "drop"};

const char *ls_too_long_name(ls_too_long too_long) { return too_long_names[too_long]; }

ls_status ls_too_long_find(const char *name, bool learnt, ls_too_long *out) {
    const bool chosen = name == NULL || strcmp(name, "auto") == 0;
    if (chosen) *out = learnt ? LS_TOO_LONG_CUT : LS_TOO_LONG_SPLIT;
    for (size_t i = 0; i < LS_COUNT(too_long_names) && !chosen; i++) {
        if (strcmp(name, too_long_names[i]) != 0) continue;
        *out = (ls_too_long)i;
        return ls_ok();
    }
    return chosen ? ls_ok() : ls_error(LS_USAGE, "--too-long is '%s'; known are auto, drop, cut and split", name);
}
