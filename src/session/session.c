/* A session: checks the request, plans, compiles and verifies the job, and runs its ranks. */
#include "session/session.h"

#include "device/device.h"
#include "plan/plan.h"
#include "program/program.h"
#include "session/proof_impl.h"
#include "session/spread_impl.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT_TIMEOUT_SECONDS = 600, MOST_SLICES = 1 << 20 };

/* The share of a machine's memory that its ranks may map together; the rest is for the system and the page cache. */
static const double usable_memory = 0.9;

struct ls_session {
    const ls_job *job; /* borrowed */
    ls_plan plan;
    ls_arena *arena; /* holds the layout that all ranks compile with */
    ls_layout layout;
    ls_proved proved; /* with the image of one class; ranks of other classes compile their own */
    ls_world *world;
    bool may_spin;        /* there are enough cores for all threads */
    double prove_seconds; /* time until all classes were compiled and proved */
    double wait_timeout;
    bool as_threads;
    ls_rank_work work; /* set, like the members that follow, while ls_session_run is active */
    const void *input;
    void *result; /* [result_bytes] of rank 0; kept here because the caller's memory is written on success only */
    size_t result_bytes;
    bool came;          /* rank 0 returned, and its result is in `result` */
    ls_crew *crew;      /* NULL unless ls_session_start was called */
    ls_executor *first; /* rank 0's executor, while rank 0 works in this process */
};

/* --- requests ----------------------------------------------------------------------------------------------------- */

static ls_status resolve_isa(const char *name, ls_isa *out) {
    ls_isa isa = LS_ISA_REF;
    LS_TRY(ls_isa_limit(&isa));
    if (name != NULL) {
        LS_TRY(ls_isa_parse(name, &isa));
        LS_TRY(ls_isa_check(isa));
    }
    *out = isa;
    return ls_ok();
}

ls_status ls_limit_isa(const char *name) {
    ls_isa isa = LS_ISA_REF;
    LS_TRY(resolve_isa(name, &isa));
    if (setenv(LS_ISA_VARIABLE, ls_isa_name(isa), 1) != 0)
        return ls_error(LS_NO_MEMORY, "no memory to limit the instruction set to %s", ls_isa_name(isa));
    return ls_ok();
}

ls_status ls_limit_transports(const char *names) {
    LS_NEED(names, "names");
    LS_TRY(ls_transports_check(names));
    if (setenv(LS_TRANSPORTS_VARIABLE, names, 1) != 0)
        return ls_error(LS_NO_MEMORY, "no memory to limit the transports to %s", names);
    return ls_ok();
}

ls_status ls_spread_resolve(const ls_spread *spread, ls_plan_request *out) {
    ls_plan_request request = {.strategy = spread->strategy, .layout = spread->layout};
    ls_machine machine;
    ls_machine_detect(&machine);
    if (spread->mesh != NULL) LS_TRY(ls_mesh_parse(spread->mesh, &request.mesh));
    int64_t ranks = spread->ranks;
    int launched;
    LS_TRY(ls_home_find(&launched));
    if (ranks == 0) ranks = launched;
    if (ranks == 0) ranks = ls_mesh_ranks(&request.mesh);
    if (ranks < 1 || ranks > INT_MAX)
        return ls_error(LS_USAGE, "%lld ranks; expected 1 to %d", (long long)ranks, INT_MAX);
    if (spread->threads < 0 || spread->threads > LS_MOST_THREADS)
        return ls_error(LS_USAGE, "--threads %lld; expected 1 to %d", (long long)spread->threads, LS_MOST_THREADS);
    if (!(spread->wait_timeout >= 0))
        return ls_error(LS_USAGE, "--wait-timeout %g; expected a number of seconds", spread->wait_timeout);
    LS_TRY(ls_plan_memory_options(spread, &request));
    LS_TRY(ls_transfers_parse(spread->transfers, &request.transfers));
    LS_TRY(ls_shard_parse(spread->shard, &request.shard));
    LS_TRY(ls_canonical_parse(spread->sums, &request.canonical));
    LS_TRY(ls_pipeline_parse(spread->pipeline, &request.schedule, &request.stage_chunks));
    if (spread->slices < 0 || spread->slices > MOST_SLICES)
        return ls_error(LS_USAGE, "--slices %lld; expected 1 to %d", (long long)spread->slices, MOST_SLICES);
    request.slices = (int)spread->slices;
    ls_hosts hosts;
    LS_TRY(ls_hosts_find((int)ranks, &hosts));
    request.host_ranks = hosts.block == (int)ranks ? LS_ONE_HOST : hosts.block;
    request.machine_ranks = hosts.machine_ranks;
    request.ranks = (int)ranks;
    /*
     * Canonical sums use one thread: a share of the cores depends on the number of ranks, and the order of a kernel's
     * sums on the threads.
     */
    const int64_t usual = request.canonical ? 1 : ls_max(1, machine.cores / request.machine_ranks);
    request.threads = (int)(spread->threads != 0 ? spread->threads : usual);
    LS_TRY(resolve_isa(spread->isa, &request.isa));
    ls_device_traits device;
    LS_TRY(ls_device_choose(spread->device, &request.device, &device));
    if (device.submits) request.host_ranks = 0; /* kernels of this device read only the rank's own memory */
    request.host_apart = !device.host_memory;
    ls_host_of of;
    ls_row_rates rows;
    LS_TRY(ls_host_assume(request.device, request.isa, &of));
    request.measured = ls_host_load(&of, &request.host, &rows);
    request.device_memory = of.facts.memory;
    if (spread->kernels != NULL)
        LS_TRY(ls_kernel_choices_parse(spread->kernels, of.device, request.isa, &request.kernels));
    else
        request.kernels = ls_row_choices(&of, &rows);
    LS_TRY(ls_spread_agree(spread, of.device, &request));
    *out = request;
    return ls_ok();
}

int ls_spread_stages(const ls_spread *spread) {
    ls_mesh mesh = {0};
    return spread->mesh != NULL && ls_mesh_parse(spread->mesh, &mesh).code == LS_OK ? ls_mesh_stages(&mesh) : 1;
}

ls_status ls_step_size_check(int64_t seq, int64_t batch) {
    enum { MOST_SEQ = 1 << 30, MOST_BATCH = 1 << 24 };
    if (seq >= 1 && seq <= MOST_SEQ && batch >= 1 && batch <= MOST_BATCH) return ls_ok();
    return ls_error(LS_USAGE, "--seq %lld and --batch %lld; expected 1 to %d and 1 to %d", (long long)seq,
                    (long long)batch, MOST_SEQ, MOST_BATCH);
}

/* Bytes of a GPU's memory for one rank, if ranks share the GPU. */
static int64_t share_of_device(const ls_plan_request *r) {
    const int64_t ranks = ls_ceil_div(r->machine_ranks, (int64_t)r->host.devices);
    return (int64_t)((double)r->device_memory * usable_memory / (double)ranks);
}

ls_status ls_session_request(const ls_spread *spread, ls_plan_request *out) {
    ls_plan_request request = {0};
    LS_TRY(ls_spread_resolve(spread, &request));
    ls_machine machine;
    ls_machine_detect(&machine);
    const int64_t share = (int64_t)((double)machine.memory_bytes * usable_memory / request.machine_ranks);
    if (request.host_apart) request.host_memory = share;
    if (request.memory == 0 && (request.device_memory > 0 || !request.host_apart)) {
        request.memory = request.device_memory > 0 ? share_of_device(&request) : share;
        request.machine = request.memory > 0; /* if the machine's memory is unknown, there is no budget */
    }
    *out = request;
    return ls_ok();
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

static ls_status make_world(ls_session *s) {
    ls_machine machine;
    ls_machine_detect(&machine);
    ls_hosts hosts;
    LS_TRY(ls_hosts_find(ls_session_ranks(s), &hosts));
    s->may_spin = hosts.machine_ranks * s->plan.target.threads <= machine.cores;
    const int ranks = ls_session_ranks(s);
    ls_rank_needs *needs = LS_NEW_ARRAY(s->arena, ls_rank_needs, ranks);
    for (int r = 0; r < ranks; r++) {
        const ls_rank_bytes *bytes = ls_session_bytes(s, r);
        needs[r] = (ls_rank_needs){(size_t)bytes->space[LS_SYMMETRIC], (size_t)bytes->space[LS_COMMON], bytes->words};
    }
    return ls_world_for(s->proved.image, needs, NULL, s->may_spin, s->wait_timeout, &s->world);
}

static ls_status set_up(ls_session *s, const ls_spread *spread) {
    const double began = ls_seconds();
    s->arena = ls_arena_create();
    LS_TRY(ls_compile_layout(s->job, &s->plan.target, s->arena, &s->layout));
    s->plan.target.made = &s->layout;
    LS_TRY(ls_prove_programs(s->job, &s->plan.target, s->arena, &s->proved));
    s->prove_seconds = ls_seconds() - began;
    s->wait_timeout = spread->wait_timeout > 0 ? spread->wait_timeout : WAIT_TIMEOUT_SECONDS;
    s->as_threads = spread->as_threads;
    return make_world(s);
}

ls_status ls_session_open_planned(const ls_job *job, const ls_plan *plan, const ls_spread *spread, ls_session **out) {
    ls_session *s = calloc(1, sizeof *s);
    if (s == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate %zu bytes for a session", sizeof *s);
    s->job = job;
    s->plan = ls_plan_copy(plan);
    const ls_status status = set_up(s, spread);
    if (status.code != LS_OK) {
        ls_session_close(s);
        return status;
    }
    *out = s;
    return ls_ok();
}

void ls_session_close(ls_session *s) {
    if (s == NULL) return;
    ls_crew_end(s->crew);
    if (s->world != NULL) ls_world_destroy(s->world);
    ls_image_destroy(s->proved.image);
    ls_plan_free(&s->plan);
    ls_arena_destroy(s->arena);
    free(s);
}

const ls_plan *ls_session_plan(const ls_session *s) { return &s->plan; }
const ls_image *ls_session_image(const ls_session *s) { return s->proved.image; }
const ls_rank_bytes *ls_session_bytes(const ls_session *s, int rank) {
    return &s->proved.bytes[ls_class_of(&s->proved.classes, rank)];
}
int ls_session_ranks(const ls_session *s) { return ls_mesh_ranks(&s->plan.target.mesh); }

ls_spread_result ls_session_describe(const ls_session *s) {
    const ls_plan_candidate *chosen = &s->plan.candidates[0];
    ls_spread_result r = {.bytes_sent_forward = (int64_t)chosen->bytes_forward,
                          .bytes_sent_backward = (int64_t)(chosen->bytes_sent - chosen->bytes_forward),
                          .predicted_bytes = (int64_t)chosen->mapped};
    ls_strategies_print(&chosen->strategies, r.strategy);
    ls_mesh_text(&chosen->mesh, LS_ALL_AXES, r.mesh, sizeof r.mesh);
    snprintf(r.layout, sizeof r.layout, "%s", ls_layout_name(chosen->layout));
    r.bytes_read_forward = (int64_t)chosen->read_forward;
    r.bytes_read_backward = (int64_t)(chosen->bytes_read - chosen->read_forward);
    snprintf(r.transfers, sizeof r.transfers, "%s", ls_transfers_of(s->proved.image));
    snprintf(r.shard, sizeof r.shard, "%s", s->plan.target.shard->name);
    ls_pipeline_print(&s->plan.target, r.pipeline);
    r.slices = s->proved.image->slices;
    snprintf(r.sums, sizeof r.sums, "%s", s->plan.target.canonical ? "canonical" : "fast");
    r.recompute = chosen->saving.drop;
    ls_offload_print(&chosen->saving, r.offload);
    r.tile_rows = chosen->saving.tile_rows;
    snprintf(r.tile, sizeof r.tile, "%s", ls_tile_name(chosen->saving.tile));
    snprintf(r.isa, sizeof r.isa, "%s", ls_isa_name(s->plan.target.isa));
    snprintf(r.device, sizeof r.device, "%s", s->plan.target.device);
    ls_kernel_choices_text(&s->plan.target.kernels, r.kernels);
    return r;
}

/* --- running ------------------------------------------------------------------------------------------------------ */

/* LS_INVALID unless all ranks have the same program. Collective. */
static ls_status compare_images(const ls_image *image, ls_comm *comm) {
    const uint64_t mine = ls_image_frame(image);
    uint64_t first = mine;
    LS_TRY(ls_comm_broadcast(comm, &first, sizeof first));
    ls_status status = ls_ok();
    if (mine != first)
        status = ls_error(LS_INVALID,
                          "compiled another program than rank 0 (%016llx, %016llx); expected one build and one "
                          "job on all ranks",
                          (unsigned long long)mine, (unsigned long long)first);
    return ls_comm_agree(comm, status);
}

/* *out becomes NULL if there is no result. */
static ls_status new_result(size_t bytes, void **out) {
    *out = bytes > 0 ? calloc(1, bytes) : NULL;
    if (*out == NULL && bytes > 0) return ls_error(LS_NO_MEMORY, "no memory for a result of %zu bytes", bytes);
    return ls_ok();
}

static bool ended_well(ls_status status) { return status.code == LS_OK || status.code == LS_INTERRUPTED; }

/* Rank 0 writes s->result, or a forked process's copy of it, which is sent to the process of the session. */
static ls_status work_for_home(ls_session *s, ls_rank *rank) {
    static const bool came = true;
    const ls_status status = s->work(rank, s->input, s->result);
    if (!ended_well(status)) return status;
    LS_TRY(ls_comm_send_home(rank->comm, s->result, s->result, s->result_bytes));
    LS_TRY(ls_comm_send_home(rank->comm, &s->came, &came, sizeof came));
    return status;
}

static ls_status call_work(ls_session *s, ls_rank *rank) {
    if (rank->rank == 0) return work_for_home(s, rank);
    void *result;
    LS_TRY(new_result(s->result_bytes, &result));
    const ls_status status = s->work(rank, s->input, result);
    free(result);
    return status;
}

static ls_status work_on_image(ls_session *s, const ls_image *image, ls_comm *comm, double compile_seconds) {
    LS_TRY(compare_images(image, comm));
    LS_TRY(ls_comm_max_f64(comm, &compile_seconds, 1));
    const double compared = ls_seconds();
    ls_rank rank = {.rank = ls_comm_rank(comm),
                    .ranks = ls_comm_size(comm),
                    .comm = comm,
                    .image = image,
                    .micro = ls_program_find(image, LS_PROGRAM_MICRO),
                    .step = ls_program_find(image, LS_PROGRAM_STEP),
                    .evaluate = ls_program_find(image, LS_PROGRAM_EVALUATE),
                    .exchange = ls_program_find(image, LS_PROGRAM_EXCHANGE),
                    .compile_seconds = compile_seconds,
                    .crew = s->crew};
    LS_TRY(ls_executor_create(image, comm, &rank.executor));
    rank.prepare_seconds = ls_seconds() - compared;
    if (rank.rank == 0) s->first = rank.executor;
    const ls_status status = call_work(s, &rank);
    if (!ended_well(status)) ls_executor_fail(rank.executor);
    ls_executor_destroy(rank.executor);
    return status;
}

/*
 * A rank that this process started compiles its class again, because neither it nor the session holds the images of all
 * classes.
 */
static ls_status rank_main(ls_comm *comm, void *context) {
    ls_session *s = context;
    ls_target target = s->plan.target;
    const int class = ls_class_of(&s->proved.classes, ls_comm_rank(comm));
    if (class == s->proved.class) return work_on_image(s, s->proved.image, comm, 0);
    target.rank = ls_class_first(&s->proved.classes, class);
    const double began = ls_seconds();
    ls_image *image;
    LS_TRY(ls_compile(s->job, &target, &image));
    const ls_status status = work_on_image(s, image, comm, ls_seconds() - began);
    ls_image_destroy(image);
    return status;
}

ls_status ls_session_run(ls_session *s, ls_rank_work work, const void *input, void *result, size_t bytes) {
    s->work = work;
    s->input = input;
    s->result_bytes = bytes;
    s->came = false;
    LS_TRY(new_result(bytes, &s->result));
    const ls_status status = ls_launch(s->world, ls_session_ranks(s), s->as_threads, rank_main, s);
    if (s->came && bytes > 0 && ended_well(status)) memcpy(result, s->result, bytes);
    free(s->result);
    s->result = NULL;
    return status;
}

ls_status ls_session_start(ls_session *s, ls_rank_work work, const void *input) {
    if (!ls_home_starts_ranks())
        return ls_error(LS_USAGE,
                        "ranks that stay are threads of one process, and this one was launched as one of %d "
                        "ranks; " LS_BOOT_VARIABLE "=local in its environment lets it start its own",
                        ls_session_ranks(s));
    s->work = work;
    s->input = input;
    const char *name;
    ls_device_traits device;
    LS_TRY(ls_device_choose(s->plan.target.device, &name, &device));
    return ls_crew_start(s->world, device.at_once, s->may_spin, rank_main, s, &s->crew);
}

ls_status ls_session_call(ls_session *s, const void *task) { return ls_crew_call(s->crew, task); }

ls_executor *ls_session_first_executor(const ls_session *s) { return s->first; }

ls_status ls_session_renew(ls_session *s) {
    ls_world_destroy(s->world);
    s->world = NULL;
    return make_world(s);
}

double ls_session_prove_seconds(const ls_session *s) { return s->prove_seconds; }

bool ls_session_stop_requested(const ls_session *s) { return ls_world_stop_requested(s->world); }
