/* What kernels of attention are told of their masks (ls_attention_band), against the spans that they are given. */
#ifndef TESTS_ATTENTION_BANDS_H
#define TESTS_ATTENTION_BANDS_H

#include "run/run.h"

/* Every call in all programs of an executor whose tables have been filled. LS_FAULT names the first pair that is wrong.
 */
LS_MUST_USE ls_status attention_bands_check(const ls_executor *executor);

#endif
