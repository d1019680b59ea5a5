/* The state of an engine and of its workers, for engine.c and worker.c. */
#ifndef LS_SESSION_IMPL_H
#define LS_SESSION_IMPL_H

#include "longspan/engine.h"
#include "session/session.h"

struct ls_engine {
    ls_graph *graph;           /* borrowed */
    ls_engine_options options; /* defaults filled in; `read` is the engine's own copy, with the graph's shortfalls */
    int forward_nodes;         /* of the graph before its gradients were added */
    ls_job job;
    ls_session *session;
    bool ran;
    ls_work work; /* set, like input, while ls_engine_run is active */
    const void *input;
};

struct ls_worker_state {
    const ls_engine *engine;
    ls_rank *rank;
    int64_t updates; /* AdamW updates that were applied */
    int micro;       /* the micro-batch of a program whose inputs are being set */
    /* [n_bindings of the image] for inputs, by binding: 1 + the micro-batch for which it was set last; 0: not set */
    int *input_set;
    bool *parameter_set; /* [n_flats] */
};

#endif
