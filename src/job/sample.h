/*
 * Drawing the next token from its logits, in the Hugging Face library's order: logits are divided by the temperature, top_k keeps the
 * likeliest (all that are as likely as the k-th among them), top_p keeps of these the fewest that hold its share together.
 */
#ifndef LS_JOB_SAMPLE_H
#define LS_JOB_SAMPLE_H

#include <stdint.h>

#include "longspan/status.h"

typedef struct ls_sampling {
    double temperature; /* 0: the likeliest */
    double top_p;       /* of what top_k leaves, the one that crosses the share included; 0 and 1: all */
    int64_t top_k;      /* 0: all */
    uint64_t seed;
} ls_sampling;

typedef struct ls_sampler ls_sampler;
LS_MUST_USE ls_status ls_sampler_create(const ls_sampling *sampling, int64_t V, ls_sampler **out);
void ls_sampler_destroy(ls_sampler *sampler); /* NULL is allowed */

/*
 * The token of draw `number`: a pure function of the sampling, the logits [V] and the number. Of equal logits the smaller id is the likelier.
 * Logits that are not finite are never drawn, unless none is: then it is id 0.
 */
int32_t ls_sampler_draw(ls_sampler *sampler, const float *logits, uint64_t number);

#endif
