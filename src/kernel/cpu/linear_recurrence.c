/* linear_recurrence, computed in chunks of tokens. A thread takes a bundle of heads at a time. */
#include "kernel/cpu/linear_recurrence.h"

static views forward_views(const ls_kernel_call *call) {
    return sized((views){.q = &call->in[0],
                         .k = &call->in[1],
                         .v = &call->in[2],
                         .decay = &call->in[3],
                         .beta = &call->in[4],
                         .places = &call->in[5],
                         .result = &call->out[0]},
                 call);
}

typedef struct forward_room {
    chunk c;
    rows S[BUNDLE], written, o;
} forward_room;

static forward_room take_forward(const views *x, room *at) {
    forward_room r = {.c = take_chunk(x, at), .written = take(at, CHUNK, x->LE), .o = take(at, CHUNK, x->LE)};
    for (int i = 0; i < BUNDLE; i++) r.S[i] = take(at, x->D, x->LE);
    return r;
}

static int64_t forward_elements(const views *x) {
    room at = {NULL, 0};
    (void)take_forward(x, &at);
    return at.used;
}

static size_t forward_workspace(const ls_kernel_call *call) {
    const views x = forward_views(call);
    return rooms_of(call, forward_elements(&x));
}

static ls_status forward_prepare(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_LINEAR_RECURRENCE, call, state);
}

/* Computes the results of a chunk of a head; S becomes the state behind the chunk. */
static void head_forward(const views *x, forward_room *r, int64_t h, rows S) {
    chunk *c = &r->c;
    make_head(x, c, h);
    if (c->fresh) clear(S, x->D);
    const rows written = find_written(x, c, S, r->written);
    product(r->o, c->n, as_it_is(c->qe.of), S, x->D, (finish){.sign = 1, .by = c->qe.by, .next = &c->next});
    product_of(LOWER, r->o, c->n, x->LE, as_it_is(c->P), written, c->n, plus(r->o));
    advance(x, c, S, S, written);
}

static void bundle_forward(const ls_kernel_call *call, const views *x, forward_room *r, const bundle *of) {
    for (int64_t first = 0, end; first < x->N; first = end) {
        end = chunk_end(x, of->b, first);
        begin_chunk(x, &r->c, of, first, end, false);
        for (int64_t h = of->first; h < of->past; h++) {
            const rows S = r->S[h - of->first];
            if (x->unmasked) /* all tokens read the same state */
                product(r->o, r->c.n, as_it_is(r->c.q), S, x->D, alone());
            else
                head_forward(x, r, h, S);
            store_rows(r->o, &call->out[0], of->b, first, r->c.n, h);
        }
    }
}

static void forward_body(const ls_kernel_call *call, const views *x, const bundle *of, room at) {
    forward_room r = take_forward(x, &at);
    float *const state = (float *)call->out[1].data + (of->b * x->H + of->first) * x->D * x->E;
    const int64_t n = of->past - of->first, size = x->D * x->E;
    for (int64_t i = 0; i < n; i++) load_dense(r.S[i], state + i * size, x->D, x->E);
    bundle_forward(call, x, &r, of);
    for (int64_t i = 0; i < n; i++) store_dense(r.S[i], state + i * size, x->D, x->E);
}

static void forward_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const views x = forward_views(call);
    run_bundles(&(bundle_work){call, &x, forward_elements(&x), forward_body}, pool);
}

const ls_kernel LS_CPU_NAME(linear_recurrence) = {.id = LS_KERNEL_LINEAR_RECURRENCE,
                                                  LS_CPU_VARIANT,
                                                  .workspace = forward_workspace,
                                                  .prepare = forward_prepare,
                                                  .run = forward_run};
