/*
 * embedding: looks up rows of the table by id. embedding_grad adds the dy of each token to the row of its id: the
 * tokens are sorted by id (a stable counting sort), and each row is summed in the order of its tokens, so that the bits
 * do not depend on the threads.
 */
#include "kernel/cpu/cpu_impl.h"

static void gather_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const int64_t E = last_size(&call->out[0]);
    const int32_t *ids = call->in[0].data;
    for (int64_t i = start; i < end; i++) {
        element *row = (element *)call->out[0].data + i * E;
        LS_ASSERT(ids[i] >= LS_ID_ELSEWHERE && ids[i] < call->in[1].size[0]);
        if (ids[i] >= 0)
            memcpy(row, (const element *)call->in[1].data + ids[i] * E, sizeof(element) * (size_t)E);
        else
            memset(row, 0, sizeof(element) * (size_t)E);
    }
}

static void gather_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    run_elements(call, pool, ls_view_elements(&call->in[0]), last_size(&call->out[0]), gather_part);
}

/* int32 order[n]: tokens sorted by id; then int32 ends[V]: end of each id's tokens in `order`. */
static size_t gradient_workspace(const ls_kernel_call *call) {
    return sizeof(int32_t) * (size_t)(ls_view_elements(&call->in[0]) + call->out[0].size[0]);
}

static void gradient_part(const void *context, int part, int64_t start, int64_t end) {
    (void)part;
    const ls_kernel_call *call = context;
    const ls_embedding_params *params = call->params;
    const int64_t E = last_size(&call->in[1]), V = call->out[0].size[0];
    const int32_t *order = call->workspace, *ends = order + ls_view_elements(&call->in[0]);
    for (int64_t id = 0; id < V; id++) {
        const int32_t first = id > 0 ? ends[id - 1] : 0;
        if (first == ends[id] || id == params->padding) continue;
        for (int64_t block = start; block < end; block++) {
            const int64_t c = block * COLUMN_BLOCK;
            sum_rows((float *)call->out[0].data + id * E + c, call->in[1].data, false, c, E, order + first,
                     ends[id] - first, ls_min(COLUMN_BLOCK, E - c));
        }
    }
}

static void gradient_run(const ls_kernel_call *call, void *state, ls_pool *pool) {
    (void)state;
    const int64_t n = ls_view_elements(&call->in[0]), V = call->out[0].size[0];
    const int32_t *ids = call->in[0].data;
    int32_t *order = call->workspace, *ends = order + n;
    memset(ends, 0, sizeof *ends * (size_t)V);
    for (int64_t i = 0; i < n; i++) {
        LS_ASSERT(ids[i] >= LS_ID_ELSEWHERE && ids[i] < V);
        if (ids[i] >= 0) ends[ids[i]]++;
    }
    int32_t start = 0;
    for (int64_t id = 0; id < V;
         id++) { /* ends[id] = the start of the id's tokens; the next loop moves it to the end */
        const int32_t count = ends[id];
        ends[id] = start;
        start += count;
    }
    for (int64_t i = 0; i < n; i++)
        if (ids[i] >= 0) order[ends[ids[i]]++] = (int32_t)i;
    const int64_t blocks = ls_ceil_div(last_size(&call->in[1]), COLUMN_BLOCK);
    ls_cpu_split(pool, blocks, ls_cpu_parts(blocks, 1, call->threads), gradient_part, call);
}

static ls_status prepare_gather(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_EMBEDDING, call, state);
}

static ls_status prepare_gradient(const ls_kernel_call *call, void **state) {
    return check_only(LS_KERNEL_EMBEDDING_GRAD, call, state);
}

const ls_kernel LS_CPU_NAME(embedding) = {
    .id = LS_KERNEL_EMBEDDING, LS_CPU_VARIANT, .prepare = prepare_gather, .run = gather_run};
const ls_kernel LS_CPU_NAME(embedding_grad) = {.id = LS_KERNEL_EMBEDDING_GRAD,
                                               LS_CPU_VARIANT,
                                               .workspace = gradient_workspace,
                                               .prepare = prepare_gradient,
                                               .run = gradient_run};
