/* What the files of engines share: an engine, and a worker's state. */
#ifndef LS_SESSION_IMPL_H
#define LS_SESSION_IMPL_H

#include "longspan/engine.h"
#include "session/session.h"

struct ls_engine {
    ls_graph *graph;           /* borrowed */
    ls_engine_options options; /* defaults filled in; `read` is the engine's own copy */
    ls_job job;
    ls_session *session;
    bool ran;
    ls_work work; /* while it runs */
    void *context;
    void *exchange; /* ranks put together here what is read; zeros in between */
    size_t exchange_bytes;
};

struct ls_worker_state {
    const ls_engine *engine;
    ls_rank *rank;
    int64_t updates;     /* of AdamW, applied */
    bool *input_set;     /* [n_bindings of the image] */
    bool *parameter_set; /* [n_flats] */
};

/* LS_INVALID: not the worker that ls_engine_run gives to `work`. */
ls_status ls_worker_check(const ls_worker *worker);
/* LS_USAGE: nothing of that kind has that name; lists those that do. */
ls_status ls_worker_unknown(const ls_worker *worker, const char *kind, const char *name, ls_role role);
/* The parameter of that name, or NULL. */
const ls_flat *ls_worker_flat(const ls_worker *worker, const char *name);

#endif
