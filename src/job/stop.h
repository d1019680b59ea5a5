/* The tokens that a text ends with. */
#ifndef LS_JOB_STOP_H
#define LS_JOB_STOP_H

#include "eval/trained.h"

enum { LS_MOST_STOPS = 64 };

typedef struct ls_stops {
    int32_t id[LS_MOST_STOPS];
    int n;
} ls_stops;

/*
 * "eos_token_id", a number or several, of the folder's generation_config.json, or else of its config.json; where neither says it,
 * the tokenizer's end of document. LS_INVALID naming the file and what is no token of the model.
 */
LS_MUST_USE ls_status ls_stops_read(const ls_trained *trained, ls_stops *out);
bool ls_stops_have(const ls_stops *stops, int32_t id);

#endif
