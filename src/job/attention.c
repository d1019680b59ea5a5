/*
 * The attention command: q, k, v (a sink, and the gradient of the output) from files, one attention op as a graph, and its
 * results back in the caller's order.
 */
#include "job/job_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { Q, K, V, GRAD_O, SINK, INPUTS };
enum { O, LSE, DQ, DK, DV, DSINK, OUTPUTS };
static const char *const input_names[INPUTS] = {"q", "k", "v", "grad_o", "sink"};
static const char *const output_names[OUTPUTS] = {"o", "lse", "dq", "dk", "dv", "dsink"};

typedef struct attention_run {
    const ls_attention_job *job;
    ls_dtype dtype;
    const char *path[INPUTS]; /* NULL: not given */
    int n_out;                /* 2 without a gradient, 5 without a sink */
    ls_array in[INPUTS];
    ls_array out[OUTPUTS];
    ls_mask_text mask;
    double scale;
    ls_graph *graph;
    ls_tensor tensor[OUTPUTS];
    int forward_nodes;
    double *seconds; /* shared, by rank */
} attention_run;

/* --- inputs ------------------------------------------------------------------------------------------------------------------ */

static ls_status shape_error(const char *path, const ls_npy *file, const char *expected) {
    char shape[96];
    ls_sizes_print(file->ndim, file->shape, shape, sizeof shape);
    return ls_error(LS_INVALID, "%s: shape is %s, expected %s", path, shape, expected);
}

/* k like q but for the heads, v like k, grad_o like q, a sink for each head of q. */
static ls_status check_shapes(const char *const path[], const ls_npy file[]) {
    char expected[128];
    for (int i = Q; i <= GRAD_O; i++) {
        if (path[i] == NULL) continue;
        if (file[i].ndim != 4) return shape_error(path[i], &file[i], "four dimensions [B,S,H,D]");
        if (file[i].count == 0) return shape_error(path[i], &file[i], "no dimension of size 0");
    }
    const int64_t *q = file[Q].shape, *k = file[K].shape;
    for (int i = K; i <= GRAD_O; i++) {
        if (path[i] == NULL) continue;
        const int64_t heads = i == GRAD_O ? q[2] : i == V ? k[2] : file[i].shape[2];
        const int64_t wanted[] = {q[0], q[1], heads, q[3]};
        if (memcmp(wanted, file[i].shape, sizeof wanted) == 0) continue;
        ls_sizes_print(4, wanted, expected, sizeof expected);
        return shape_error(path[i], &file[i], expected);
    }
    if (path[SINK] != NULL && (file[SINK].ndim != 1 || file[SINK].shape[0] != q[2])) {
        ls_sizes_print(1, &q[2], expected, sizeof expected);
        return shape_error(path[SINK], &file[SINK], expected);
    }
    if (q[2] % k[2] != 0)
        return ls_error(
            LS_INVALID,
            "%s has %lld heads and %s has %lld; expected query heads to be a multiple of KV heads", path[Q],
            (long long)q[2], path[K], (long long)k[2]);
    return ls_ok();
}

static ls_status read_files(attention_run *r, ls_npy file[]) {
    for (int i = 0; i < INPUTS; i++) {
        if (r->path[i] != NULL) LS_TRY(ls_npy_open(r->path[i], &file[i]));
    }
    LS_TRY(check_shapes(r->path, file));
    LS_TRY(ls_job_dtype(r->job->dtype, file[Q].type == LS_NPY_F8 ? LS_F64 : LS_F32, &r->dtype));
    for (int i = 0; i < INPUTS; i++) {
        if (r->path[i] != NULL) LS_TRY(ls_array_from_npy(r->path[i], &file[i], r->dtype, &r->in[i]));
    }
    return ls_ok();
}

static ls_status read_inputs(attention_run *r) {
    const char *const path[INPUTS] = {r->job->q, r->job->k, r->job->v, r->job->grad_o, r->job->sink};
    ls_npy file[INPUTS] = {{0}};
    memcpy(r->path, path, sizeof path);
    const ls_status status = read_files(r, file);
    for (int i = 0; i < INPUTS; i++) ls_npy_close(&file[i]);
    LS_TRY(status);
    const double D = (double)r->in[Q].size[3];
    r->scale = r->job->scale != 0 ? r->job->scale : 1 / sqrt(D);
    return ls_mask_text_read(r->job->mask, r->in[Q].size[1], &r->mask);
}

/* --- the graph --------------------------------------------------------------------------------------------------------------- */

static ls_tensor add_input(attention_run *r, int i) {
    ls_shape shape = {.ndim = r->in[i].ndim};
    for (int d = 0; d < shape.ndim; d++) shape.dim[d].size = r->in[i].size[d];
    if (i != SINK) {
        shape.dim[0].factor = LS_FACTOR_BATCH;
        shape.dim[1].factor = LS_FACTOR_SEQUENCE;
    }
    return ls_graph_leaf(r->graph, LS_ROLE_INPUT, input_names[i], r->dtype, &shape);
}

static ls_status build(attention_run *r) {
    r->graph = ls_graph_create(r->dtype);
    ls_tensor in[INPUTS] = {LS_NO_TENSOR};
    for (int i = 0; i < INPUTS; i++) {
        if (r->path[i] != NULL) in[i] = add_input(r, i);
    }
    r->tensor[O] = ls_attention_with_sink(r->graph, in[Q], in[K], in[V], in[SINK], &r->mask.mask, r->scale,
                                          r->job->softcap);
    r->tensor[LSE] = ls_attention_lse(r->graph, r->tensor[O]);
    r->n_out = DQ;
    LS_TRY(ls_graph_status(r->graph));
    r->forward_nodes = r->graph->n_nodes;
    if (r->path[GRAD_O] != NULL) {
        ls_derivative d = {.n_roots = 1, .root = {r->tensor[O]}, .seed = {in[GRAD_O]}};
        d.n_wanted = r->path[SINK] != NULL ? 4 : 3;
        memcpy(d.wanted, (ls_tensor[]){in[Q], in[K], in[V], in[SINK]}, sizeof in[0] * 4);
        LS_TRY(ls_differentiate(r->graph, &d));
        memcpy(&r->tensor[DQ], d.gradient, sizeof in[0] * 4);
        r->n_out = DQ + d.n_wanted;
        /* Every rank has a part of it; a cast is of the whole, so the parts are added up. */
        if (r->path[SINK] != NULL) r->tensor[DSINK] = ls_cast(r->graph, r->tensor[DSINK], r->dtype);
    }
    for (int i = 0; i < r->n_out; i++) ls_named(r->graph, r->tensor[i], "%s", output_names[i]);
    return ls_graph_status(r->graph);
}

static ls_status make_outputs(attention_run *r) {
    for (int i = 0; i < r->n_out; i++) {
        const ls_tensor_info *info = ls_graph_tensor(r->graph, r->tensor[i]);
        int64_t size[LS_MAX_DIMS];
        for (int d = 0; d < info->shape.ndim; d++) size[d] = info->shape.dim[d].size;
        LS_TRY(ls_array_make(info->dtype, info->shape.ndim, size, &r->out[i]));
    }
    return ls_ok();
}

/* --- on a rank --------------------------------------------------------------------------------------------------------------- */

static ls_status on_rank(ls_rank *rank, void *context) {
    attention_run *r = context;
    for (int i = 0; i < INPUTS; i++) {
        if (r->path[i] != NULL)
            ls_executor_scatter(rank->executor, ls_image_find(rank->image, input_names[i]), r->in[i].data);
    }
    LS_TRY(ls_comm_barrier(rank->comm)); /* so that seconds are of the work alone */
    LS_TRY(ls_executor_run(rank->executor, LS_PROGRAM_MICRO));
    for (int i = 0; i < r->n_out; i++)
        ls_executor_gather(rank->executor, ls_image_find(rank->image, output_names[i]), r->out[i].data);
    r->seconds[rank->rank] = ls_executor_times(rank->executor).total;
    return ls_ok();
}

static ls_status run_ranks(attention_run *r, ls_session *session, ls_spread_result *result) {
    const int ranks = ls_session_ranks(session);
    const size_t bytes = sizeof *r->seconds * (size_t)ranks;
    void *shared;
    LS_TRY(ls_shared_map(bytes, &shared));
    r->seconds = shared;
    const ls_status status = ls_session_run(session, on_rank, r);
    *result = ls_session_describe(session);
    for (int i = 0; i < ranks; i++) result->seconds = fmax(result->seconds, r->seconds[i]);
    ls_shared_unmap(shared, bytes);
    return status;
}

static ls_status compute(attention_run *r, ls_spread_result *result) {
    LS_TRY(read_inputs(r));
    LS_TRY(build(r));
    LS_TRY(make_outputs(r));
    const ls_job job = {
        .graph = r->graph, .forward_nodes = r->forward_nodes, .fetch = r->tensor, .n_fetch = r->n_out};
    ls_session *session;
    LS_TRY(ls_session_open(&job, &r->job->spread, &session));
    /* Before the work, so that it is not done in vain. */
    ls_status status = ls_file_make_directories(r->job->out);
    if (status.code == LS_OK) status = run_ranks(r, session, result);
    ls_session_close(session);
    LS_TRY(status);
    for (int i = 0; i < r->n_out; i++) LS_TRY(ls_array_write(&r->out[i], r->job->out, output_names[i]));
    return ls_ok();
}

ls_status ls_run_attention(const ls_attention_job *job, ls_spread_result *result) {
    attention_run r = {.job = job};
    ls_spread_result done = {.seconds = 0};
    const ls_status status = compute(&r, &done);
    for (int i = 0; i < INPUTS; i++) ls_array_free(&r.in[i]);
    for (int i = 0; i < OUTPUTS; i++) ls_array_free(&r.out[i]);
    ls_mask_text_free(&r.mask);
    ls_graph_destroy(r.graph);
    if (status.code == LS_OK) *result = done;
    return status;
}
