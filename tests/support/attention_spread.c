#include "attention_spread.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention_bands.h"
#include "program/program.h"
#include "run/run.h"
#include "support/worlds.h"

static const char *const in_name[PLAIN_INPUTS] = {"q", "k", "v", "grad_o"};
static const char *const out_name[PLAIN_OUTPUTS] = {"o", "lse", "dq", "dk", "dv"};
/* The last run is on another device, if there is to be one (attention_spread.h). */
enum { RUNS = 2, ALL_RUNS = 3, MOST_RANKS = 16 };

/* A problem compiled for all ranks. */
typedef struct images {
    ls_graph *graph;
    int ranks;
    ls_image *image[MOST_RANKS];
} images;

/* --- compiling ---------------------------------------------------------------------------------------------------- */

static ls_tensor add_sink(ls_graph *g, const plain_attention *problem) {
    if (problem->sink == NULL) return LS_NO_TENSOR;
    const ls_shape shape = {1, {{problem->n.Hq, LS_FACTOR_NONE}}};
    return ls_graph_leaf(g, LS_ROLE_INPUT, "sink", g->dtype, &shape);
}

static ls_tensor add_input(ls_graph *g, const plain_sizes *n, int i) {
    const int64_t heads = i == PLAIN_K || i == PLAIN_V ? n->Hkv : n->Hq,
                  size = i == PLAIN_V || i == PLAIN_GRAD_O ? plain_value_size(n) : n->D;
    const ls_shape shape = {
        4, {{n->B, LS_FACTOR_BATCH}, {n->S, LS_FACTOR_SEQUENCE}, {heads, LS_FACTOR_NONE}, {size, LS_FACTOR_NONE}}};
    return ls_graph_leaf(g, LS_ROLE_INPUT, in_name[i], g->dtype, &shape);
}

static void destroy(images *set) {
    for (int r = 0; r < set->ranks; r++) ls_image_destroy(set->image[r]);
    ls_graph_destroy(set->graph);
}

static ls_status compile(const plain_attention *problem, const ls_target *target, ls_dtype dtype, images *out) {
    ls_graph *g = out->graph = ls_graph_create(dtype);
    ls_tensor in[PLAIN_INPUTS], fetch[PLAIN_OUTPUTS];
    for (int i = 0; i < PLAIN_INPUTS; i++) in[i] = add_input(g, &problem->n, i);
    fetch[PLAIN_O] = ls_attention_with_sink(g, in[PLAIN_Q], in[PLAIN_K], in[PLAIN_V], add_sink(g, problem),
                                            &problem->mask, problem->scale, problem->softcap);
    fetch[PLAIN_LSE] = ls_attention_lse(g, fetch[PLAIN_O]);
    LS_TRY(ls_graph_status(g));
    const int forward = g->n_nodes;
    ls_derivative d = {.n_roots = 1, .root = {fetch[PLAIN_O]}, .seed = {in[PLAIN_GRAD_O]}, .n_wanted = 3};
    memcpy(d.wanted, in, sizeof in[0] * 3);
    LS_TRY(ls_differentiate(g, &d));
    memcpy(&fetch[PLAIN_DQ], d.gradient, sizeof in[0] * 3);
    for (int i = 0; i < PLAIN_OUTPUTS; i++) (void)ls_named(g, fetch[i], "%s", out_name[i]);
    const ls_job job = {
        .graph = g, .programs = ls_plain_programs(g, forward), .fetch = fetch, .n_fetch = PLAIN_OUTPUTS};
    for (int ranks = ls_mesh_ranks(&target->mesh); out->ranks < ranks; out->ranks++) {
        ls_target mine = *target;
        mine.rank = out->ranks;
        LS_TRY(ls_compile(&job, &mine, &out->image[out->ranks]));
    }
    LS_TRY(ls_verify((const ls_image *const *)out->image, out->ranks));
    return ls_verify_local((const ls_image *const *)out->image, out->ranks);
}

static attention_traffic measure(const images *set) {
    attention_traffic most = {0};
    const int micro = ls_program_find(set->image[0], LS_PROGRAM_MICRO),
              evaluate = ls_program_find(set->image[0], LS_PROGRAM_EVALUATE);
    for (int r = 0; r < set->ranks; r++) {
        const ls_image *image = set->image[r];
        const ls_program_cost forward = ls_program_measure(image, evaluate), both = ls_program_measure(image, micro);
        double slots = 0;
        for (int b = 0; b < image->n_buffers; b++) {
            const ls_buffer *buffer = &image->buffers[b];
            if (buffer->kind == LS_BUFFER_SLOT && buffer->program == micro) slots += (double)buffer->bytes;
        }
        most.sent_forward = fmax(most.sent_forward, forward.bytes_sent);
        most.sent_backward = fmax(most.sent_backward, both.bytes_sent - forward.bytes_sent);
        most.read_forward = fmax(most.read_forward, forward.bytes_read);
        most.read_backward = fmax(most.read_backward, both.bytes_read - forward.bytes_read);
        most.slot_bytes = fmax(most.slot_bytes, slots);
        most.sent_by_all += both.bytes_sent;
    }
    return most;
}

ls_status attention_traffic_of(const plain_attention *problem, const ls_target *target, ls_dtype dtype,
                               attention_traffic *out) {
    images set = {0};
    const ls_status status = compile(problem, target, dtype, &set);
    if (status.code == LS_OK) *out = measure(&set);
    destroy(&set);
    return status;
}

/* --- running ------------------------------------------------------------------------------------------------------ */

/* What the ranks share: dense global arrays in the types of the graph. */
typedef struct shared_run {
    const images *set;
    void *in[PLAIN_INPUTS], *sink; /* NULL: none */
    void *out[ALL_RUNS][PLAIN_OUTPUTS];
    int first, end; /* the runs of this launch */
} shared_run;

/*
 * All buffers except the tables, which were filled when the executor was made, and those that nothing touches, which
 * lie nowhere.
 */
static ls_status poison(ls_executor *executor) {
    const ls_image *image = ls_executor_image(executor);
    for (int b = 0; b < image->n_buffers; b++) {
        const int64_t words = (int64_t)(image->buffers[b].bytes / sizeof(int32_t));
        const ls_operand all = ls_operand_dense(b, 0, LS_I32, 1, &words);
        const bool unused = image->buffers[b].program >= 0 && image->buffers[b].first < 0;
        if (image->buffers[b].kind == LS_BUFFER_TABLE || words == 0 || unused) continue;
        void *bytes = malloc(image->buffers[b].bytes);
        memset(bytes, 0xff, image->buffers[b].bytes);
        const ls_status status = ls_executor_write(executor, &all, bytes);
        free(bytes);
        LS_TRY(status);
    }
    return ls_ok();
}

static ls_status run_once(const shared_run *shared, ls_comm *comm, ls_executor *executor, void *const out[]) {
    const ls_image *image = ls_executor_image(executor);
    LS_TRY(ls_comm_barrier(comm)); /* a run must not read what the run before left here */
    LS_TRY(poison(executor));
    for (int i = 0; i < PLAIN_INPUTS; i++)
        LS_TRY(ls_executor_scatter(executor, ls_image_find(image, in_name[i]), shared->in[i]));
    if (shared->sink != NULL) LS_TRY(ls_executor_scatter(executor, ls_image_find(image, "sink"), shared->sink));
    LS_TRY(ls_executor_run(executor, ls_program_find(ls_executor_image(executor), LS_PROGRAM_MICRO)));
    for (int i = 0; i < PLAIN_OUTPUTS; i++)
        LS_TRY(ls_executor_gather(executor, ls_image_find(image, out_name[i]), out[i]));
    return ls_ok();
}

static ls_status rank_main(ls_comm *comm, void *context) {
    const shared_run *shared = context;
    ls_executor *executor;
    LS_TRY(ls_executor_create(shared->set->image[ls_comm_rank(comm)], comm, &executor));
    ls_status status = attention_bands_check(executor);
    for (int i = shared->first; i < shared->end && status.code == LS_OK; i++)
        status = run_once(shared, comm, executor, shared->out[i]);
    ls_executor_destroy(executor);
    return status;
}

static ls_status launch(shared_run *shared, int first, int end) {
    ls_world *world;
    shared->first = first;
    shared->end = end;
    LS_TRY(world_of_images(shared->set->image, shared->set->ranks, NULL, 60, &world));
    const ls_status status = ls_launch(world, shared->set->ranks, true, rank_main, shared);
    ls_world_destroy(world);
    return status;
}

/* --- arrays ------------------------------------------------------------------------------------------------------- */

static void *typed(const double *x, int64_t n, ls_dtype dtype) {
    void *out = malloc(ls_dtype_bytes(dtype) * (size_t)n);
    LS_ASSERT(out != NULL);
    for (int64_t i = 0; i < n; i++) {
        if (dtype == LS_F64)
            ((double *)out)[i] = x[i];
        else if (dtype == LS_F32)
            ((float *)out)[i] = (float)x[i];
        else
            ((ls_bf16 *)out)[i] = ls_bf16_from_f32((float)x[i]);
    }
    return out;
}

static double *widened(const void *x, int64_t n, ls_dtype dtype) {
    double *out = malloc(sizeof *out * (size_t)n);
    LS_ASSERT(out != NULL);
    for (int64_t i = 0; i < n; i++) {
        if (dtype == LS_F64)
            out[i] = ((const double *)x)[i];
        else
            out[i] = dtype == LS_F32 ? (double)((const float *)x)[i] : (double)ls_bf16_to_f32(((const ls_bf16 *)x)[i]);
    }
    return out;
}

static ls_dtype type_of(int output, ls_dtype dtype) {
    return output == PLAIN_LSE ? ls_dtype_accumulator(dtype) : dtype;
}

static void make_inputs(const plain_attention *problem, ls_dtype dtype, shared_run *out) {
    for (int i = 0; i < PLAIN_INPUTS; i++) out->in[i] = typed(problem->in[i], plain_input_count(&problem->n, i), dtype);
    if (problem->sink != NULL) out->sink = typed(problem->sink, problem->n.Hq, dtype);
}

static void free_inputs(const shared_run *shared) {
    for (int i = 0; i < PLAIN_INPUTS; i++) free(shared->in[i]);
    free(shared->sink);
}

static ls_status run(const plain_attention *problem, const images *set, ls_dtype dtype, attention_result *out) {
    shared_run shared = {.set = set};
    size_t bytes[PLAIN_OUTPUTS];
    make_inputs(problem, dtype, &shared);
    for (int i = 0; i < PLAIN_OUTPUTS; i++) {
        bytes[i] = ls_dtype_bytes(type_of(i, dtype)) * (size_t)plain_output_count(&problem->n, i);
        for (int k = 0; k < ALL_RUNS; k++) {
            shared.out[k][i] = malloc(bytes[i]);
            memset(shared.out[k][i], 0xff, bytes[i]);
        }
    }
    const char *other = getenv("LS_TEST_DEVICE");
    ls_status status = launch(&shared, 0, RUNS);
    if (status.code == LS_OK && other != NULL) {
        setenv("LONGSPAN_DEVICE", other, 1);
        status = launch(&shared, RUNS, ALL_RUNS);
        unsetenv("LONGSPAN_DEVICE");
    }
    *out = (attention_result){.same_bits = true, .transfers = ls_transfers_of(set->image[0]), .traffic = measure(set)};
    for (int i = 0; i < PLAIN_OUTPUTS; i++) {
        for (int k = 1; k < (other != NULL ? ALL_RUNS : RUNS); k++)
            out->same_bits &= memcmp(shared.out[0][i], shared.out[k][i], bytes[i]) == 0;
        out->out[i] = widened(shared.out[0][i], plain_output_count(&problem->n, i), type_of(i, dtype));
        for (int k = 0; k < ALL_RUNS; k++) free(shared.out[k][i]);
    }
    free_inputs(&shared);
    return status;
}

ls_status attention_spread(const plain_attention *problem, const ls_target *target, ls_dtype dtype,
                           attention_result *out, ls_status *refused) {
    images set = {0};
    *out = (attention_result){0};
    *refused = ls_ok();
    ls_status status = compile(problem, target, dtype, &set);
    if (status.code == LS_USAGE || status.code == LS_UNSUPPORTED) {
        *refused = status;
        status = ls_ok();
    } else if (status.code == LS_OK) {
        status = run(problem, &set, dtype, out);
    }
    destroy(&set);
    return status;
}

/* --- digests ------------------------------------------------------------------------------------------------------ */

typedef struct digest_run {
    shared_run shared; /* without outputs: each rank has its own */
    size_t bytes[PLAIN_OUTPUTS];
    uint64_t digest; /* by rank 0 */
} digest_run;

static ls_status digest_main(ls_comm *comm, void *context) {
    digest_run *d = context;
    const int rank = ls_comm_rank(comm);
    uint64_t mine[PLAIN_OUTPUTS], all[MOST_RANKS * PLAIN_OUTPUTS];
    void *out[PLAIN_OUTPUTS];
    ls_executor *executor;
    LS_TRY(ls_executor_create(d->shared.set->image[rank], comm, &executor));
    for (int i = 0; i < PLAIN_OUTPUTS; i++) {
        out[i] = malloc(d->bytes[i]);
        memset(out[i], 0xff, d->bytes[i]);
    }
    ls_status status = run_once(&d->shared, comm, executor, out);
    for (int i = 0; i < PLAIN_OUTPUTS; i++) {
        mine[i] = ls_hash_bytes(out[i], d->bytes[i]);
        free(out[i]);
    }
    if (status.code == LS_OK) status = ls_comm_exchange(comm, mine, sizeof mine, all);
    if (status.code == LS_OK && rank == 0) d->digest = ls_hash_bytes(all, (size_t)ls_comm_size(comm) * sizeof mine);
    ls_executor_destroy(executor);
    return status;
}

ls_status attention_digest(const plain_attention *problem, const ls_target *target, ls_dtype dtype, uint64_t *digest,
                           ls_status *refused) {
    images set = {0};
    digest_run d = {.shared = {.set = &set}};
    ls_world *world;
    *refused = ls_ok();
    ls_status status = compile(problem, target, dtype, &set);
    if (status.code == LS_USAGE || status.code == LS_UNSUPPORTED) {
        *refused = status;
        status = ls_ok();
    } else if (status.code == LS_OK) {
        make_inputs(problem, dtype, &d.shared);
        for (int i = 0; i < PLAIN_OUTPUTS; i++)
            d.bytes[i] = ls_dtype_bytes(type_of(i, dtype)) * (size_t)plain_output_count(&problem->n, i);
        status = world_of_images(set.image, set.ranks, NULL, 60, &world);
        if (status.code == LS_OK) {
            status = ls_launch(world, set.ranks, true, digest_main, &d);
            ls_world_destroy(world);
        }
        free_inputs(&d.shared);
        *digest = d.digest;
    }
    destroy(&set);
    return status;
}

void attention_result_free(attention_result *result) {
    for (int i = 0; i < PLAIN_OUTPUTS; i++) free(result->out[i]);
}
