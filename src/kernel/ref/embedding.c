/*
 * embedding: looks up rows of a table by id. The host has checked that ids lie in [0, V); with a part of a table they
 * may be LS_ID_ELSEWHERE (from local_ids).
 */
#include <string.h>

#include "kernel/ref/ref_impl.h"

static ls_status prepare_gather(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_EMBEDDING, LS_REAL, call);
}

static void run_gather(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state, (void)pool;
    const int32_t *ids = call->in[0].data;
    const int64_t n = ls_view_elements(&call->in[0]), V = call->in[1].size[0], E = call->in[1].size[1];
    const real *table = call->in[1].data;
    real *y = call->out[0].data;
    for (int64_t i = 0; i < n; i++) {
        LS_ASSERT(ids[i] >= LS_ID_ELSEWHERE && ids[i] < V);
        if (ids[i] >= 0)
            memcpy(y + i * E, table + ids[i] * E, sizeof(real) * (size_t)E);
        else
            memset(y + i * E, 0, sizeof(real) * (size_t)E);
    }
}

static ls_status prepare_local(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_LOCAL_IDS, LS_REAL, call);
}

static void run_local(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state, (void)pool;
    const ls_embedding_params *params = call->params;
    const int32_t *ids = call->in[0].data, *part = call->in[1].data;
    int32_t *local = call->out[0].data;
    for (int64_t i = 0; i < ls_view_elements(&call->in[0]); i++) {
        const int32_t at = ids[i] - part[0];
        const bool here = at >= 0 && at < part[1] && ids[i] != params->padding;
        local[i] = ids[i] == LS_LABEL_IGNORED ? ids[i] : here ? at : LS_ID_ELSEWHERE;
    }
}

/* Rows of dy sorted by id, stable: those of id v are order[start[v] .. start[v+1]). */
typedef struct groups {
    const ls_kernel_call *call;
    int64_t *start, *order;
} groups;

static size_t grad_workspace(const ls_kernel_call *call) {
    return sizeof(int64_t) * (size_t)(call->out[0].size[0] + 1 + ls_view_elements(&call->in[0]));
}

static ls_status prepare_grad(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_EMBEDDING_GRAD, LS_REAL, call);
}

/* Counting sort. Placing the rows advances start[v] to the first row of v + 1; then the array is shifted back. */
static void group_by_id(const groups *g) {
    const int32_t *ids = g->call->in[0].data;
    const int64_t n = ls_view_elements(&g->call->in[0]), V = g->call->out[0].size[0];
    memset(g->start, 0, sizeof(int64_t) * (size_t)(V + 1));
    for (int64_t i = 0; i < n; i++) {
        LS_ASSERT(ids[i] >= LS_ID_ELSEWHERE && ids[i] < V);
        if (ids[i] >= 0) g->start[ids[i] + 1]++;
    }
    for (int64_t v = 0; v < V; v++) g->start[v + 1] += g->start[v];
    for (int64_t i = 0; i < n; i++)
        if (ids[i] >= 0) g->order[g->start[ids[i]]++] = i;
    memmove(g->start + 1, g->start, sizeof(int64_t) * (size_t)V);
    g->start[0] = 0;
}

static void add_groups(const void *context, int64_t first, int64_t last) {
    const groups *g = context;
    const ls_embedding_params *params = g->call->params;
    const int64_t E = g->call->out[0].size[1];
    const real *dy = g->call->in[1].data;
    for (int64_t v = first; v < last; v++) {
        real *row = (real *)g->call->out[0].data + v * E;
        if (g->start[v] == g->start[v + 1] || v == params->padding) continue;
        for (int64_t e = 0; e < E; e++) {
            double sum = 0;
            for (int64_t i = g->start[v]; i < g->start[v + 1]; i++) sum += (double)dy[g->order[i] * E + e];
            row[e] = (real)((double)row[e] + sum);
        }
    }
}

static void run_grad(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const int64_t V = call->out[0].size[0];
    groups g = {.call = call, .start = call->workspace};
    g.order = g.start + V + 1;
    group_by_id(&g);
    ref_split(pool, V, add_groups, &g);
}

const ls_kernel REF(local_ids) = {
    .id = LS_KERNEL_LOCAL_IDS, .dtype = LS_REAL, .prepare = prepare_local, .run = run_local};
const ls_kernel REF(embedding) = {
    .id = LS_KERNEL_EMBEDDING, .dtype = LS_REAL, .prepare = prepare_gather, .run = run_gather};
const ls_kernel REF(embedding_grad) = {.id = LS_KERNEL_EMBEDDING_GRAD,
                                       .dtype = LS_REAL,
                                       .workspace = grad_workspace,
                                       .prepare = prepare_grad,
                                       .run = run_grad};
#if !LS_REAL_IS_F64
static ls_status prepare_local_bf16(const ls_kernel_call *call, void **state) {
    *state = NULL;
    return ls_kernel_check(LS_KERNEL_LOCAL_IDS, LS_BF16, call);
}
const ls_kernel REF(local_ids_bf16) = {
    .id = LS_KERNEL_LOCAL_IDS, .dtype = LS_BF16, .prepare = prepare_local_bf16, .run = run_local};
#endif
