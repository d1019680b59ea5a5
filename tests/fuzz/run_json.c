/* Resuming a training with any run.json is refused, or gives settings that the command line would accept. */
#include "fuzz/fuzz.h"
#include "train/train_impl.h"

#include <math.h>
#include <stdlib.h>

static void check_options(const ls_train_options *o) {
    LS_ASSERT(o->seq >= 1 && o->steps >= 1 && o->batch >= 1 && o->accumulate >= 1);
    LS_ASSERT(o->batch % o->accumulate == 0 && o->keep >= 0 && o->save_every >= 0 && o->warmup >= 0);
    LS_ASSERT(isfinite(ls_schedule_lr(o, 1)) && isfinite(ls_schedule_lr(o, o->steps)));
    LS_ASSERT(o->beta1 >= 0 && o->beta1 < 1 && o->beta2 >= 0 && o->beta2 < 1);
    ls_plan_request request;
    if (fuzz_done(ls_spread_resolve(&o->spread, &request))) LS_ASSERT(request.ranks >= 1);
}

static void run(const uint8_t *data, size_t bytes) {
    ls_training t = {.options = {.out = "fuzz", .resume = true, .eval_data = "text"}};
    if (!fuzz_done(ls_json_parse("run.json", (const char *)data, bytes, &t.record))) return;
    if (fuzz_done(ls_settings_resolve(&t))) check_options(&t.options);
    free(t.groups);
    ls_json_free(t.record);
}

const fuzz_target fuzz_run_json = {.name = "run_json", .run = run};
