/*
 * linear_recurrence_map: the effect of some tokens on any state in front of them. linear_recurrence_back: their effect
 * on the gradient of any state behind them. linear_recurrence_follow: applies several of these maps one after the
 * other. Threads take bundles of heads, in linear_recurrence_follow single heads.
 */
#include "kernel/cpu/linear_recurrence.h"

/* S begins as [0 | I]; if M is a diagonal, S begins as 0 and `factor`, which holds the diagonal, as 1. */
static void begin_map(const views *x, rows S, rows factor) {
    clear(S, x->D);
    for (int64_t d = 0; d < x->D && x->delta; d++) S.at[d * S.width + x->LE + d] = 1;
    for (int64_t d = 0; d < x->LD; d++) factor.at[d] = 1;
}

static void decay_factor(const views *x, const chunk *c, rows factor) {
    for (int64_t d = 0; d < x->LD; d++) factor.at[d] *= c->fresh ? 0 : c->last[d];
}

/* --- of states ---------------------------------------------------------------------------------------------------- */

static views map_views(const ls_kernel_call *call) {
    return sized(
        (views){
            .k = &call->in[0], .v = &call->in[1], .decay = &call->in[2], .beta = &call->in[3], .places = &call->in[4]},
        call);
}

typedef struct map_room {
    chunk c;
    rows S[BUNDLE], factor[BUNDLE], written;
} map_room;

static map_room take_map(const views *x, room *at) {
    map_room r = {.c = take_chunk(x, at), .written = take(at, CHUNK, map_width(x))};
    for (int i = 0; i < BUNDLE; i++) {
        r.S[i] = take(at, x->D, map_width(x));
        r.factor[i] = take(at, 1, x->LD);
    }
    return r;
}

static int64_t map_elements(const views *x) {
    room at = {NULL, 0};
    (void)take_map(x, &at);
    return at.used;
}

static size_t map_workspace(const ls_kernel_call *call) {
    const views x = map_views(call);
    return rooms_of(call, map_elements(&x));
}

static ls_status map_prepare(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_LINEAR_RECURRENCE_MAP, call, state);
}

static void head_map(const views *x, map_room *r, int64_t h, int64_t i) {
    make_head(x, &r->c, h);
    if (r->c.fresh) clear(r->S[i], x->D);
    const rows written = find_written(x, &r->c, r->S[i], r->written);
    advance(x, &r->c, r->S[i], r->S[i], written);
    decay_factor(x, &r->c, r->factor[i]);
}

static void map_body(const ls_kernel_call *call, const views *x, const bundle *of, room at) {
    map_room r = take_map(x, &at);
    const int64_t n = of->past - of->first, size = call->out[0].size[2], factors = size - x->D * x->E;
    for (int64_t i = 0; i < n; i++) begin_map(x, r.S[i], r.factor[i]);
    for (int64_t first = 0, end; first < x->N; first = end) {
        end = chunk_end(x, of->b, first);
        begin_chunk(x, &r.c, of, first, end, false);
        for (int64_t i = 0; i < n; i++) head_map(x, &r, of->first + i, i);
    }
    for (int64_t i = 0; i < n; i++) {
        float *map = (float *)call->out[0].data + (of->b * x->H + of->first + i) * size, *M = map + x->D * x->E;
        store_dense(r.S[i], map, x->D, x->E);
        if (x->delta)
            store_dense(m_of(x, r.S[i]), M, x->D, x->D);
        else
            memcpy(M, r.factor[i].at, (size_t)factors * sizeof(float));
    }
}

static void map_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const views x = map_views(call);
    run_bundles(&(bundle_work){call, &x, map_elements(&x), map_body}, pool);
}

/* --- of gradients ------------------------------------------------------------------------------------------------- */

static views back_views(const ls_kernel_call *call) {
    return sized((views){.q = &call->in[0],
                         .k = &call->in[1],
                         .decay = &call->in[2],
                         .beta = &call->in[3],
                         .places = &call->in[4],
                         .grad_o = &call->in[5]},
                 call);
}

/* dS: [dS | M^T], or only dS if M is a diagonal. */
typedef struct back_room {
    chunk c;
    rows dS[BUNDLE], factor[BUNDLE], z, grad_o;
    int32_t *ends;
} back_room;

static back_room take_back(const views *x, room *at) {
    back_room r = {.c = take_chunk(x, at), .z = take(at, CHUNK, map_width(x)), .grad_o = take(at, CHUNK, x->LE)};
    for (int i = 0; i < BUNDLE; i++) {
        r.dS[i] = take(at, x->D, map_width(x));
        r.factor[i] = take(at, 1, x->LD);
    }
    r.ends = (int32_t *)take(at, 1, x->N + 1).at;
    return r;
}

static int64_t back_elements(const views *x) {
    room at = {NULL, 0};
    (void)take_back(x, &at);
    return at.used;
}

static size_t back_workspace(const ls_kernel_call *call) {
    const views x = back_views(call);
    return rooms_of(call, back_elements(&x));
}

static ls_status back_prepare(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_LINEAR_RECURRENCE_BACK, call, state);
}

static void head_back(const views *x, back_room *r, int64_t h, int64_t i) {
    chunk *c = &r->c;
    make_head(x, c, h);
    load_rows(r->grad_o, x->grad_o, c->of->b, c->first, c->n, h);
    if (x->delta) find_written_gradient(x, c, r->dS[i], r->grad_o, r->z);
    retreat(x, c, r->dS[i], r->grad_o, r->z);
    if (c->fresh) clear(r->dS[i], x->D);
    decay_factor(x, c, r->factor[i]);
}

static void back_body(const ls_kernel_call *call, const views *x, const bundle *of, room at) {
    back_room r = take_back(x, &at);
    const int64_t heads = of->past - of->first, size = call->out[0].size[2], factors = size - x->D * x->E;
    int64_t n = 0;
    for (int64_t first = 0; first < x->N; first = r.ends[n++]) r.ends[n] = (int32_t)chunk_end(x, of->b, first);
    for (int64_t i = 0; i < heads; i++) begin_map(x, r.dS[i], r.factor[i]);
    while (n-- > 0) {
        begin_chunk(x, &r.c, of, n > 0 ? r.ends[n - 1] : 0, r.ends[n], true);
        for (int64_t i = 0; i < heads; i++) head_back(x, &r, of->first + i, i);
    }
    for (int64_t i = 0; i < heads; i++) {
        float *map = (float *)call->out[0].data + (of->b * x->H + of->first + i) * size, *M = map + x->D * x->E;
        store_dense(r.dS[i], map, x->D, x->E);
        if (x->delta)
            for (int64_t m = 0; m < factors; m++) M[m] = m_of(x, r.dS[i]).at[m % x->D * r.dS[i].width + m / x->D];
        else
            memcpy(M, r.factor[i].at, (size_t)factors * sizeof(float));
    }
}

static void back_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const views x = back_views(call);
    run_bundles(&(bundle_work){call, &x, back_elements(&x), back_body}, pool);
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

static size_t follow_workspace(const ls_kernel_call *call) { return rooms_of(call, follow_elements(&call->out[0])); }

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
        product(r->next, D, p->transposed ? turned(r->M) : as_it_is(r->M), r->S, D, plus(r->next));
    } else {
        for (int64_t d = 0; d < D; d++) {
            float *to = r->next.at + d * r->next.width;
            const float *from = r->S.at + d * r->S.width;
            for (int64_t e = 0; e < r->S.columns; e += V_LANES)
                v_store_f32(to + e, load_whole(to + e) + v_set(M[factors == 1 ? 0 : d]) * load_whole(from + e),
                            V_LANES);
        }
    }
    const rows last = r->S;
    r->S = r->next;
    r->next = last;
}

static void follow_head(void *context, int i, int thread) {
    const ls_kernel_call *call = *(const ls_kernel_call **)context;
    const ls_view *maps = &call->in[0], *out = &call->out[0];
    const bool backwards = ((const ls_linear_recurrence_params *)call->params)->backwards;
    const int64_t H = out->size[1], D = out->size[2], E = out->size[3], n = maps->size[0];
    room at = {(float *)call->workspace + thread * follow_elements(out), 0};
    follow_room r = take_follow(out, &at);
    float *state = (float *)out->data + i * D * E;
    const uint32_t before = v_flush_begin();
    load_dense(r.S, state, D, E);
    for (int64_t m = 0; m < n; m++)
        apply(call, &r, (const float *)maps->data + place_of(maps, backwards ? n - 1 - m : m, i / H, i % H));
    store_dense(r.S, state, D, E);
    v_flush_end(before);
}

static void follow_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    ls_pool_run(pool, (int)(call->out[0].size[0] * call->out[0].size[1]), follow_head, &call);
}

const ls_kernel LS_CPU_NAME(linear_recurrence_map) = {.id = LS_KERNEL_LINEAR_RECURRENCE_MAP,
                                                      LS_CPU_VARIANT,
                                                      .workspace = map_workspace,
                                                      .prepare = map_prepare,
                                                      .run = map_run};
const ls_kernel LS_CPU_NAME(linear_recurrence_back) = {.id = LS_KERNEL_LINEAR_RECURRENCE_BACK,
                                                       LS_CPU_VARIANT,
                                                       .workspace = back_workspace,
                                                       .prepare = back_prepare,
                                                       .run = back_run};
const ls_kernel LS_CPU_NAME(linear_recurrence_follow) = {.id = LS_KERNEL_LINEAR_RECURRENCE_FOLLOW,
                                                         LS_CPU_VARIANT,
                                                         .workspace = follow_workspace,
                                                         .prepare = follow_prepare,
                                                         .run = follow_run};
