/*
 * linear_recurrence by chunks; linear_recurrence_map: what some tokens make of any state; linear_recurrence_follow:
 * several of these maps, one after the other. Threads split the heads.
 */
#include "kernel/cpu/linear_recurrence.h"

/* --- results from a state ----------------------------------------------------------------------------------------- */

static views forward_views(const ls_kernel_call *call) {
    return sized((views){.q = &call->in[0],
                         .k = &call->in[1],
                         .v = &call->in[2],
                         .decay = &call->in[3],
                         .beta = &call->in[4],
                         .places = &call->in[5]},
                 call);
}

typedef struct forward_room {
    chunk c;
    rows S, written, o;
} forward_room;

static forward_room take_forward(const views *x, room *at) {
    return (forward_room){.c = take_chunk(x, at),
                          .S = take(at, x->D, x->LE),
                          .written = take(at, CHUNK, x->LE),
                          .o = take(at, CHUNK, x->LE)};
}

static int64_t forward_elements(const views *x) {
    room at = {NULL, 0};
    (void)take_forward(x, &at);
    return at.used;
}

static size_t forward_workspace(const ls_kernel_call *call) {
    const views x = forward_views(call);
    return (size_t)(lr_parts(x.B * x.H, call->threads) * forward_elements(&x)) * sizeof(float);
}

static ls_status forward_prepare(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_LINEAR_RECURRENCE, call, state);
}

/* All tokens read the same state. */
static void read_state(const ls_kernel_call *call, const views *x, forward_room *r, int64_t b, int64_t h) {
    for (int64_t first = 0; first < x->N; first += CHUNK) {
        const int64_t n = ls_min(CHUNK, x->N - first);
        load_rows(r->c.q, x->q, b, first, n, h / (x->H / x->K));
        product(r->o, n, x->LE, as_it_is(r->c.q), r->S, x->D, PUT);
        store_rows(r->o, &call->out[0], b, first, n, h);
    }
}

static void head_forward(const ls_kernel_call *call, const views *x, forward_room *r, int64_t b, int64_t h) {
    for (int64_t first = 0, end; first < x->N; first = end) {
        end = chunk_end(x, b, first);
        make_chunk(x, &r->c, b, h, first, end);
        if (r->c.fresh) clear(r->S, x->D);
        find_written(x, &r->c, r->S, r->written);
        product(r->o, r->c.n, x->LE, as_it_is(r->c.qe), r->S, x->D, PUT);
        lower_product(r->o, r->c.n, x->LE, r->c.P, r->written);
        store_rows(r->o, &call->out[0], b, first, r->c.n, h);
        advance(x, &r->c, r->S, r->written);
    }
}

static void forward_part(const void *context, int part, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const views x = forward_views(call);
    room at = room_of_part(call, part, forward_elements(&x));
    forward_room r = take_forward(&x, &at);
    for (int64_t i = first; i < last; i++) {
        float *state = (float *)call->out[1].data + i * x.D * x.E;
        load_dense(r.S, state, x.D, x.E);
        (x.unmasked ? read_state : head_forward)(call, &x, &r, i / x.H, i % x.H);
        store_dense(r.S, state, x.D, x.E);
    }
}

static void forward_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const views x = forward_views(call);
    ls_cpu_split(pool, x.B * x.H, lr_parts(x.B * x.H, call->threads), forward_part, call);
}

/* --- maps --------------------------------------------------------------------------------------------------------- */

static views map_views(const ls_kernel_call *call) {
    return sized(
        (views){
            .k = &call->in[0], .v = &call->in[1], .decay = &call->in[2], .beta = &call->in[3], .places = &call->in[4]},
        call);
}

/* S: [U | M], or U where M is a diagonal, which `factor` has. */
typedef struct map_room {
    chunk c;
    rows S, written;
    float *factor;
} map_room;

static map_room take_map(const views *x, room *at) {
    return (map_room){.c = take_chunk(x, at),
                      .S = take(at, x->D, solved_width(x)),
                      .written = take(at, CHUNK, solved_width(x)),
                      .factor = take(at, 1, x->LD).at};
}

static int64_t map_elements(const views *x) {
    room at = {NULL, 0};
    (void)take_map(x, &at);
    return at.used;
}

static size_t map_workspace(const ls_kernel_call *call) {
    const views x = map_views(call);
    return (size_t)(lr_parts(x.B * x.H, call->threads) * map_elements(&x)) * sizeof(float);
}

static ls_status map_prepare(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_LINEAR_RECURRENCE_MAP, call, state);
}

static void head_map(const views *x, map_room *r, int64_t b, int64_t h) {
    clear(r->S, x->D);
    for (int64_t d = 0; d < x->D && x->delta; d++) r->S.at[d * r->S.width + x->LE + d] = 1;
    for (int64_t d = 0; d < x->LD; d++) r->factor[d] = 1;
    for (int64_t first = 0, end; first < x->N; first = end) {
        end = chunk_end(x, b, first);
        make_chunk(x, &r->c, b, h, first, end);
        if (r->c.fresh) clear(r->S, x->D);
        find_written(x, &r->c, r->S, r->written);
        advance(x, &r->c, r->S, r->written);
        for (int64_t d = 0; d < x->LD; d++) r->factor[d] *= r->c.fresh ? 0 : r->c.last[d];
    }
}

static void map_part(const void *context, int part, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const views x = map_views(call);
    room at = room_of_part(call, part, map_elements(&x));
    map_room r = take_map(&x, &at);
    const int64_t size = call->out[0].size[2], factors = size - x.D * x.E;
    for (int64_t i = first; i < last; i++) {
        float *map = (float *)call->out[0].data + i * size;
        head_map(&x, &r, i / x.H, i % x.H);
        store_dense(r.S, map, x.D, x.E);
        if (x.delta)
            store_dense(column_from(r.S, x.LE), map + x.D * x.E, x.D, x.D);
        else
            memcpy(map + x.D * x.E, r.factor, (size_t)factors * sizeof(float));
    }
}

static void map_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const views x = map_views(call);
    ls_cpu_split(pool, x.B * x.H, lr_parts(x.B * x.H, call->threads), map_part, call);
}

/* --- maps one after the other ------------------------------------------------------------------------------------- */

typedef struct follow_room {
    rows S, next, M;
} follow_room;

static follow_room take_follow(const ls_view *state, room *at) {
    const int64_t D = state->size[2], LE = whole_vectors(state->size[3]);
    return (follow_room){.S = take(at, D, LE), .next = take(at, D, LE), .M = take(at, D, whole_vectors(D))};
}

static int64_t follow_elements(const ls_view *state) {
    room at = {NULL, 0};
    (void)take_follow(state, &at);
    return at.used;
}

static int follow_parts(const ls_kernel_call *call) {
    return lr_parts(call->out[0].size[0] * call->out[0].size[1], call->threads);
}

static size_t follow_workspace(const ls_kernel_call *call) {
    return (size_t)(follow_parts(call) * follow_elements(&call->out[0])) * sizeof(float);
}

static ls_status follow_prepare(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_LINEAR_RECURRENCE_FOLLOW, call, state);
}

/* S becomes M S + U. */
static void apply(const ls_kernel_call *call, follow_room *r, const float *map) {
    const ls_linear_recurrence_params *p = call->params;
    const int64_t D = call->out[0].size[2], E = call->out[0].size[3], factors = call->in[0].size[3] - D * E;
    const float *M = map + D * E;
    load_dense(r->next, map, D, E);
    if (p->delta) {
        load_dense(r->M, M, D, D);
        product(r->next, D, r->next.width, p->transposed ? turned(r->M) : as_it_is(r->M), r->S, D, PLUS);
    } else {
        for (int64_t d = 0; d < D; d++)
            subtract(r->next.at + d * r->next.width, -M[factors == 1 ? 0 : d], r->S.at + d * r->S.width, r->S.width);
    }
    const rows last = r->S;
    r->S = r->next;
    r->next = last;
}

static void follow_part(const void *context, int part, int64_t first, int64_t last) {
    const ls_kernel_call *call = context;
    const ls_view *maps = &call->in[0], *out = &call->out[0];
    const bool backwards = ((const ls_linear_recurrence_params *)call->params)->backwards;
    const int64_t H = out->size[1], D = out->size[2], E = out->size[3], n = maps->size[0];
    room at = room_of_part(call, part, follow_elements(out));
    follow_room r = take_follow(out, &at);
    for (int64_t i = first; i < last; i++) {
        float *state = (float *)out->data + i * D * E;
        load_dense(r.S, state, D, E);
        for (int64_t m = 0; m < n; m++)
            apply(call, &r, (const float *)maps->data + place_of(maps, backwards ? n - 1 - m : m, i / H, i % H));
        store_dense(r.S, state, D, E);
    }
}

static void follow_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ls_cpu_split(pool, call->out[0].size[0] * call->out[0].size[1], follow_parts(call), follow_part, call);
}

const ls_kernel LS_CPU_NAME(linear_recurrence) = {.id = LS_KERNEL_LINEAR_RECURRENCE,
                                                  LS_CPU_VARIANT,
                                                  .workspace = forward_workspace,
                                                  .prepare = forward_prepare,
                                                  .run = forward_run};
const ls_kernel LS_CPU_NAME(linear_recurrence_map) = {.id = LS_KERNEL_LINEAR_RECURRENCE_MAP,
                                                      LS_CPU_VARIANT,
                                                      .workspace = map_workspace,
                                                      .prepare = map_prepare,
                                                      .run = map_run};
const ls_kernel LS_CPU_NAME(linear_recurrence_follow) = {.id = LS_KERNEL_LINEAR_RECURRENCE_FOLLOW,
                                                         LS_CPU_VARIANT,
                                                         .workspace = follow_workspace,
                                                         .prepare = follow_prepare,
                                                         .run = follow_run};
