/* Whatever the text, a config.json is refused, or it makes a model with parameters and sizes that are counts. */
#include "fuzz/targets.h"
#include "model/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void run(const uint8_t *data, size_t bytes) {
    char *text = fuzz_text(data, bytes);
    ls_model *model;
    if (fuzz_done(ls_model_open_text("fuzz", text, &model))) {
        const ls_model_sizes n = ls_model_describe(model);
        LS_ASSERT(n.V > 0 && n.E > 0 && n.F > 0 && n.L > 0 && n.Hq > 0 && n.Hkv > 0 && n.D > 0 &&
                  n.longest > 0);
        LS_ASSERT(isfinite(n.initializer_range) && ls_model_parameters(model) > 0);
        LS_ASSERT(strcmp(ls_model_config_text(model), text) == 0);
        ls_model_close(model);
    }
    free(text);
}

const fuzz_target fuzz_config = {.name = "config", .run = run};
