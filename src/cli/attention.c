/*
 * longspan attention: reads q, k, v (a sink, and the gradient of the output) from files, runs one attention op as a
 * graph, and writes its results in the order of the input.
 */
#include "cli/cli_impl.h"

#include "session/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct attention_run {
    const ls_attention_job *job;
    ls_dtype dtype;
    const char *path[LS_ATTENTION_INPUTS]; /* NULL: not given */
    ls_array in[LS_ATTENTION_INPUTS];
    ls_array out[LS_ATTENTION_RESULTS];
    ls_mask_text mask;
    ls_attention_graph graph;
} attention_run;

/* --- inputs ------------------------------------------------------------------------------------------------------- */

static ls_status shape_error(const char *path, const ls_npy *file, const char *expected) {
    char shape[96];
    ls_sizes_print(file->ndim, file->shape, shape, sizeof shape);
    return ls_error(LS_INVALID, "%s: shape is %s, expected %s", path, shape, expected);
}

/*
 * k has the shape of q except for the number of heads; v has the shape of k except for the head size; grad_o has the
 * shape of q with the head size of v; the sink has one element per head of q.
 */
static ls_status check_shapes(const char *const path[], const ls_npy file[]) {
    char expected[128];
    for (int i = LS_Q; i <= LS_GRAD_O; i++) {
        if (path[i] == NULL) continue;
        if (file[i].ndim != 4) return shape_error(path[i], &file[i], "four dimensions [B,S,H,D]");
        if (file[i].count == 0) return shape_error(path[i], &file[i], "no dimension of size 0");
    }
    const int64_t *q = file[LS_Q].shape, *k = file[LS_K].shape, *v = file[LS_V].shape;
    for (int i = LS_K; i <= LS_GRAD_O; i++) {
        if (path[i] == NULL) continue;
        const int64_t heads = i == LS_GRAD_O ? q[2] : i == LS_V ? k[2] : file[i].shape[2];
        const int64_t wanted[] = {q[0], q[1], heads, i == LS_K ? q[3] : v[3]};
        if (memcmp(wanted, file[i].shape, sizeof wanted) == 0) continue;
        ls_sizes_print(4, wanted, expected, sizeof expected);
        return shape_error(path[i], &file[i], expected);
    }
    if (path[LS_SINK] != NULL && (file[LS_SINK].ndim != 1 || file[LS_SINK].shape[0] != q[2])) {
        ls_sizes_print(1, &q[2], expected, sizeof expected);
        return shape_error(path[LS_SINK], &file[LS_SINK], expected);
    }
    if (q[2] % k[2] != 0)
        return ls_error(LS_INVALID,
                        "%s has %lld heads and %s has %lld; expected query heads to be a multiple of KV heads",
                        path[LS_Q], (long long)q[2], path[LS_K], (long long)k[2]);
    return ls_ok();
}

static ls_status read_files(attention_run *r, ls_npy file[]) {
    for (int i = 0; i < LS_ATTENTION_INPUTS; i++) {
        if (r->path[i] != NULL) LS_TRY(ls_npy_open(r->path[i], &file[i]));
    }
    LS_TRY(check_shapes(r->path, file));
    LS_TRY(ls_job_dtype(r->job->dtype, file[LS_Q].type == LS_NPY_F8 ? LS_F64 : LS_F32, &r->dtype));
    for (int i = 0; i < LS_ATTENTION_INPUTS; i++) {
        if (r->path[i] != NULL) LS_TRY(ls_array_from_npy(r->path[i], &file[i], r->dtype, &r->in[i]));
    }
    return ls_ok();
}

static ls_status read_inputs(attention_run *r) {
    const char *const path[LS_ATTENTION_INPUTS] = {r->job->q, r->job->k, r->job->v, r->job->grad_o, r->job->sink};
    ls_npy file[LS_ATTENTION_INPUTS] = {{0}};
    memcpy(r->path, path, sizeof path);
    const ls_status status = read_files(r, file);
    for (int i = 0; i < LS_ATTENTION_INPUTS; i++) ls_npy_close(&file[i]);
    LS_TRY(status);
    return ls_mask_text_read(r->job->mask, r->in[LS_Q].size[1], &r->mask);
}

/*
 * Checks that all processes of launched ranks have read the same inputs. mine: the status of reading them in this
 * process.
 */
static ls_status compare_inputs(const attention_run *r, ls_status mine) {
    static const char *const flag[LS_ATTENTION_INPUTS] = {"--q", "--k", "--v", "--do", "--sink"};
    ls_alike *alike;
    LS_TRY(ls_alike_begin(&alike));
    for (int i = 0; i < LS_ATTENTION_INPUTS && mine.code == LS_OK; i++)
        if (r->path[i] != NULL) ls_alike_add_bytes(alike, flag[i], r->in[i].data, r->in[i].bytes);
    for (int i = 0; i < r->mask.n_ends && mine.code == LS_OK; i++)
        ls_alike_add_bytes(alike, "--mask", r->mask.ends[i].data, r->mask.ends[i].bytes);
    return ls_alike_end(alike, mine);
}

/* --- the graph ---------------------------------------------------------------------------------------------------- */

static ls_status build(attention_run *r) {
    const int64_t *q = r->in[LS_Q].size;
    return ls_attention_graph_build(&(ls_attention_options){.dtype = r->dtype,
                                                            .batch = q[0],
                                                            .seq = q[1],
                                                            .heads = q[2],
                                                            .kv_heads = r->in[LS_K].size[2],
                                                            .head_size = q[3],
                                                            .value_size = r->in[LS_V].size[3],
                                                            .mask = &r->mask.mask,
                                                            .scale = r->job->scale,
                                                            .softcap = r->job->softcap,
                                                            .sink = r->path[LS_SINK] != NULL,
                                                            .gradients = r->path[LS_GRAD_O] != NULL},
                                    &r->graph);
}

static ls_status make_outputs(attention_run *r) {
    for (int i = 0; i < r->graph.n_results; i++) {
        const ls_tensor_info *info = ls_graph_tensor(r->graph.graph, r->graph.result[i]);
        int64_t size[LS_MAX_DIMS];
        for (int d = 0; d < info->shape.ndim; d++) size[d] = info->shape.dim[d].size;
        LS_TRY(ls_array_make(info->dtype, info->shape.ndim, size, &r->out[i]));
    }
    return ls_ok();
}

/* --- on a rank ---------------------------------------------------------------------------------------------------- */

static ls_status on_rank(ls_rank *rank, const void *input, void *result) {
    const attention_run *r = input;
    double *seconds = result;
    ls_comm_end_at_stop(rank->comm, true);
    for (int i = 0; i < LS_ATTENTION_INPUTS; i++) {
        if (r->path[i] != NULL)
            LS_TRY(
                ls_executor_scatter(rank->executor, ls_image_find(rank->image, ls_attention_input[i]), r->in[i].data));
    }
    LS_TRY(ls_comm_barrier(rank->comm)); /* so that the seconds do not include waiting for other ranks to start */
    LS_TRY(ls_executor_run(rank->executor, rank->micro));
    for (int i = 0; i < r->graph.n_results; i++) {
        const ls_binding *made = ls_image_find(rank->image, ls_attention_result[i]);
        LS_TRY(ls_rank_gather_tensor_home(rank, made, r->out[i].data));
    }
    *seconds = ls_executor_times(rank->executor).total;
    return ls_comm_max_f64(rank->comm, seconds, 1);
}

static ls_status run_ranks(const attention_run *r, ls_session *session, ls_spread_result *result) {
    *result = ls_session_describe(session);
    return ls_session_run(session, on_rank, r, &result->seconds, sizeof result->seconds);
}

/* Called at home. */
static ls_status write_outputs(const attention_run *r) {
    for (int i = 0; i < r->graph.n_results; i++)
        LS_TRY(ls_array_write(&r->out[i], r->job->out, ls_attention_result[i]));
    return ls_ok();
}

static ls_status compute(attention_run *r, ls_spread_result *result) {
    LS_TRY(compare_inputs(r, read_inputs(r)));
    LS_TRY(build(r));
    LS_TRY(make_outputs(r));
    const ls_job job = ls_attention_graph_job(&r->graph, false);
    ls_session *session;
    LS_TRY(ls_session_open(&job, &r->job->spread, &session));
    /* Before the work, so that its result is not lost if the folder cannot be made. */
    ls_status status = ls_home_agree(ls_is_home() ? ls_file_make_folders(r->job->out) : ls_ok());
    if (status.code == LS_OK) status = run_ranks(r, session, result);
    ls_session_close(session);
    LS_TRY(status);
    return ls_home_agree(ls_is_home() ? write_outputs(r) : ls_ok());
}

ls_status ls_run_attention(const ls_attention_job *job, ls_spread_result *result) {
    LS_NEED(job, "job");
    LS_NEED(result, "result");
    LS_NEED(job->q, "job->q");
    LS_NEED(job->k, "job->k");
    LS_NEED(job->v, "job->v");
    LS_NEED(job->mask, "job->mask");
    LS_NEED(job->out, "job->out");
    attention_run r = {.job = job};
    ls_spread_result done = {.seconds = 0};
    const ls_status status = compute(&r, &done);
    for (int i = 0; i < LS_ATTENTION_INPUTS; i++) ls_array_free(&r.in[i]);
    for (int i = 0; i < LS_ATTENTION_RESULTS; i++) ls_array_free(&r.out[i]);
    ls_mask_text_free(&r.mask);
    ls_graph_destroy(r.graph.graph);
    if (status.code == LS_OK) *result = done;
    return status;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

typedef struct attention_flags {
    cli_common common;
    ls_attention_job job;
} attention_flags;

#define AT(field) offsetof(attention_flags, job.field)
static const ls_option options[] = {
    CLI_REQUIRED_TEXT("q", "FILE", AT(q), "queries [B,S,Hq,D], f4 or f8 .npy"),
    CLI_REQUIRED_TEXT("k", "FILE", AT(k), "keys [B,S,Hkv,D]; Hq is a multiple of Hkv"),
    CLI_REQUIRED_TEXT("v", "FILE", AT(v), "values [B,S,Hkv,E]; E may be D or another size"),
    CLI_TEXT("do", "FILE", AT(grad_o), "gradient of the output [B,S,Hq,E]; with it the gradients are computed"),
    CLI_TEXT("sink", "FILE", AT(sink),
             "an additional logit for each query head [Hq], seen by all its queries, with value 0"),
    CLI_REQUIRED_TEXT("mask", "MASK", AT(mask), "which keys a query sees: see above"),
    CLI_FLOAT("scale", "X", NULL, 1e-30, CLI_ANY, AT(scale), "factor of q·k; 1/sqrt(D) when left out"),
    CLI_FLOAT("softcap", "X", NULL, 1e-30, CLI_ANY, AT(softcap),
              "replace each logit by X·tanh(logit/X), as in Gemma 2"),
    CLI_CHOICE("dtype", "TYPE", "f32|f64|bf16", NULL, AT(dtype),
               "element type; that of the file of queries when left out"),
    CLI_REQUIRED_TEXT("out", "DIR", AT(out),
                      "folder for o.npy, lse.npy and, with --do, dq.npy dk.npy dv.npy (and dsink.npy, with --sink)"),
};
#undef AT

static ls_status run(void *context) {
    attention_flags *flags = context;
    ls_spread_result result;
    flags->job.spread = cli_spread_of(&flags->common);
    LS_TRY(ls_run_attention(&flags->job, &result));
    if (flags->common.json) {
        ls_spread_result_json(&result, stdout);
        return ls_ok();
    }
    cli_print_spread(&result);
    const bool gradients = flags->job.grad_o != NULL;
    printf("wrote %s/{o,lse%s%s}.npy\n", flags->job.out, gradients ? ",dq,dk,dv" : "",
           gradients && flags->job.sink != NULL ? ",dsink" : "");
    return ls_ok();
}

const cli_command cli_attention = {
    .name = "attention",
    .summary = "distributed attention on arrays, and its gradients",
    .usage = "--q FILE --k FILE --v FILE [--do FILE] --mask MASK --out DIR [options]",
    .about =
        "Reads .npy arrays, spreads them over the ranks, and writes the results in the order of the input: o [B,S,Hq,E], lse [B,Hq,S] "
        "(natural logarithm; for a query that sees no key it is -inf, and o is 0), dq, dk, dv. With --sink s, exp(s[h]) is added to the "
        "softmax's denominator of each query of head h, and to its lse; dsink [Hq] is the gradient.\n"
        "MASK: full; causal; window:W (a query sees itself and the W-1 before it); window:W:N (and the first N tokens, for all "
        "later ones); prefix:N (causal, and the first N are seen by all); documents:FILE.npy (ascending cumulative lengths from 0 "
        "to S); joined by + for the intersection.",
    .spreads = true,
    .runs = true,
    CLI_OWN(options, run, attention_flags),
};
