#include "spread.h"
#include "support/worlds.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

static int micro_batches(const spread_job *job) { return job->micro > 0 ? job->micro : 1; }

/* Shared by the ranks. A result that every rank has whole is written by each of them, one at a time. */
typedef struct shared_job {
    const spread_job *job;
    pthread_mutex_t results;
} shared_job;

static ls_status gather(shared_job *shared, const ls_executor *executor, const spread_array *out) {
    const ls_binding *binding = ls_image_find(ls_executor_image(executor), out->name);
    if (binding == NULL) return ls_error(LS_INVALID, "no binding \"%s\"", out->name);
    pthread_mutex_lock(&shared->results);
    const ls_status status = ls_executor_gather(executor, binding, out->data);
    pthread_mutex_unlock(&shared->results);
    return status;
}

/* What ranks have in common one of them writes. */
static ls_status write_inputs(ls_executor *executor, ls_comm *comm, const spread_job *job) {
    const ls_image *image = ls_executor_image(executor);
    const bool holds = ls_image_sharers(image, ls_comm_rank(comm)).holder == ls_comm_rank(comm);
    for (int i = 0; i < job->n_in; i++) {
        const ls_binding *binding = ls_image_find(image, job->in[i].name);
        if (binding == NULL) return ls_error(LS_INVALID, "no binding \"%s\"", job->in[i].name);
        if (holds || image->buffers[binding->operand.buffer].space != LS_COMMON)
            LS_TRY(ls_executor_scatter(executor, binding, job->in[i].data));
    }
    return image->bytes[LS_COMMON] > 0 ? ls_comm_barrier(comm) : ls_ok();
}

static ls_status rank_main(ls_comm *comm, void *context) {
    shared_job *shared = context;
    const spread_job *job = shared->job;
    ls_target target = job->target;
    target.rank = ls_comm_rank(comm);
    ls_image *image;
    LS_TRY(ls_compile(&job->job, &target, &image));
    ls_executor *executor;
    LS_TRY(ls_executor_create(image, comm, &executor));
    LS_TRY(write_inputs(executor, comm, job));
    const int micro = ls_program_find(image, LS_PROGRAM_MICRO), step = ls_program_find(image, LS_PROGRAM_STEP);
    ls_status status = ls_ok();
    for (int i = 0, n = micro_batches(job); i < n * ls_max(job->steps, 1) && status.code == LS_OK; i++)
        status = ls_executor_run(executor, job->update && i % n + 1 == n ? step : micro);
    for (int i = 0; i < job->n_out && status.code == LS_OK; i++) status = gather(shared, executor, &job->out[i]);
    if (job->gradient != NULL && status.code == LS_OK)
        status = ls_executor_gather(executor, ls_image_find(image, LS_BIND_SHARD), job->gradient);
    ls_executor_destroy(executor);
    ls_image_destroy(image);
    return status;
}

ls_status spread_run(const spread_job *job) {
    ls_world *world;
    LS_TRY(world_of_job(&job->job, &job->target, job->transport, 20, &world));
    shared_job shared = {.job = job, .results = PTHREAD_MUTEX_INITIALIZER};
    const ls_status status = ls_launch(world, ls_mesh_ranks(&job->target.mesh), true, rank_main, &shared);
    ls_world_destroy(world);
    return status;
}

double relative_error(const double *a, const double *b, int64_t n, double floor) {
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        norm += b[i] * b[i];
    }
    return sqrt(difference) / fmax(sqrt(norm), floor);
}
