/* The table of packers. */
#include "data/pack_impl.h"

#include <stdlib.h>
#include <string.h>

static const ls_packer *const packers[] = {&ls_packer_join, &ls_packer_best, &ls_packer_stream, &ls_packer_pairs};

ls_status ls_packer_find(const char *name, bool learnt, bool compares, const ls_packer **out) {
    char known[120] = "";
    if (name == NULL || strcmp(name, "auto") == 0)
        name = compares ? ls_packer_pairs.name : learnt ? ls_packer_best.name : ls_packer_join.name;
    if (!compares && strcmp(name, ls_packer_pairs.name) == 0)
        return ls_error(LS_USAGE, "--pack pairs: the documents are no pairs of answers; expected --records preference");
    for (size_t i = 0, used = 0; i < LS_COUNT(packers); i++) {
        if (strcmp(packers[i]->name, name) == 0) {
            *out = packers[i];
            return ls_ok();
        }
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", packers[i]->name);
    }
    return ls_error(LS_USAGE, "--pack is '%s'; known are auto, %s", name, known);
}
