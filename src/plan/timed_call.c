/* Times a kernel by itself, on data of its own, on a device. */
#include "plan/plan_impl.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64, CHUNK = 1 << 20 };

/* --- the device --------------------------------------------------------------------------------------------------- */

int ls_timed_place_width(const ls_timed_place *place) {
    return place->of.device == LS_DEVICE_CPU ? 0 : (int)ls_max(1, place->of.facts.processors);
}

ls_status ls_timed_place_launch(ls_timed_place *place, ls_device_work work) {
    work.event = (ls_event){0, ++place->launched};
    return ls_device_launch(place->device, &work);
}

ls_status ls_timed_place_hold(ls_timed_place *place, ls_event *hold) {
    *hold = (ls_event){0, 0};
    if (!ls_device_traits_of(place->device)->holds) return ls_ok();
    LS_TRY(ls_timed_place_launch(place, (ls_device_work){.name = "hold"}));
    *hold = (ls_event){0, place->launched};
    return ls_ok();
}

ls_status ls_timed_place_release(ls_timed_place *place, ls_event hold) {
    return ls_device_traits_of(place->device)->holds ? ls_device_release(place->device, hold) : ls_ok();
}

ls_status ls_timed_place_await_launch(const ls_timed_place *place, uint64_t number) {
    bool happened;
    for (;;) {
        LS_TRY(ls_device_happened(place->device, (ls_event){0, number}, &happened));
        if (happened) return ls_ok();
        ls_pause();
    }
}

ls_status ls_timed_place_await(const ls_timed_place *place) {
    return ls_timed_place_await_launch(place, place->launched);
}

int ls_timed_launches(double seconds) {
    return seconds > LS_TIMED_SECONDS / LS_TIMED_LAUNCHES ? 1 + (int)(LS_TIMED_SECONDS / seconds) : LS_TIMED_LAUNCHES;
}

static void run(void *context, ls_pool *pool) {
    const ls_timed_call *t = context;
    t->kernel->run(&t->call, t->state, pool);
}

static ls_status submit(void *context, void *stream) {
    const ls_timed_call *t = context;
    return t->kernel->launch(&t->call, t->state, stream);
}

static ls_status launch_call(ls_timed_call *t) {
    const bool submits = ls_device_traits_of(t->place->device)->submits;
    return ls_timed_place_launch(t->place, (ls_device_work){.name = ls_kernel_name(t->kernel),
                                                            .run = submits ? NULL : run,
                                                            .submit = submits ? submit : NULL,
                                                            .context = t});
}

/* *seconds: from the start of the first of n launches to the end of the last. */
static ls_status time_launches(ls_timed_place *place, ls_timed_call *t, int n, double *seconds) {
    const double start = ls_seconds();
    for (int i = 0; i < n; i++) LS_TRY(launch_call(t));
    LS_TRY(ls_timed_place_await(place));
    *seconds = ls_seconds() - start;
    return ls_ok();
}

/*
 * The same if a queue can be held. A first launch, which is not timed, and the timed ones are launched behind a hold.
 * Time counts from the end of the first launch, because the work behind a hold may begin late (by a millisecond on an
 * H200).
 */
static ls_status time_held_launches(ls_timed_place *place, ls_timed_call *t, int n, double *seconds) {
    ls_event hold;
    LS_TRY(ls_timed_place_hold(place, &hold));
    LS_TRY(launch_call(t));
    const uint64_t lead = place->launched;
    for (int i = 0; i < n; i++) LS_TRY(launch_call(t));
    LS_TRY(ls_timed_place_release(place, hold));
    LS_TRY(ls_timed_place_await_launch(place, lead));
    const double start = ls_seconds();
    LS_TRY(ls_timed_place_await(place));
    *seconds = ls_seconds() - start;
    return ls_ok();
}

ls_status ls_timed_place_open(const ls_host_of *of, int unit, ls_pool *pool, ls_timed_place *out) {
    ls_timed_place place = {.of = *of, .pool = pool};
    const char *name = of->name != NULL ? of->name : ls_device_name(0);
    LS_TRY(ls_device_open(name, &(ls_device_options){.queues = 1, .machine_rank = unit, .pool = pool}, &place.device));
    *out = place;
    return ls_ok();
}

void ls_timed_place_close(ls_timed_place *place) { ls_device_close(place->device); }

/* --- one call ----------------------------------------------------------------------------------------------------- */

/* Bytes from the first element to the end of the last. */
static size_t extent(const ls_view *view) {
    int64_t last = 0;
    for (int d = 0; d < view->ndim; d++) {
        if (view->size[d] == 0) return 0;
        last += (view->size[d] - 1) * view->stride[d];
    }
    return (size_t)(last + 1) * ls_dtype_bytes(view->dtype);
}

static ls_status write_random(ls_timed_call *t, ls_dtype dtype, size_t at, size_t bytes) {
    char *numbers = malloc(CHUNK);
    if (numbers == NULL) return ls_error(LS_NO_MEMORY, "no memory for operands of %s", ls_kernel_name(t->kernel));
    const int64_t n = (int64_t)(CHUNK / ls_dtype_bytes(dtype));
    const ls_view view = ls_view_dense(numbers, dtype, 1, &n);
    ls_status status = ls_ok();
    ls_view_fill(&view, (uint32_t)at + 1);
    for (size_t done = 0; done < bytes && status.code == LS_OK; done += CHUNK) {
        const ls_range range = ls_range_flat(at + done, (size_t)ls_min(CHUNK, (int64_t)(bytes - done)));
        status = ls_device_write(t->place->device, t->arena, &range, numbers);
    }
    free(numbers);
    return status;
}

/* Places an operand at that offset of the arena. */
static ls_status place_operand(ls_timed_call *t, ls_view *view, size_t at) {
    const size_t bytes = extent(view);
    const void *data = view->data;
    const ls_range range = ls_range_flat(at, bytes);
    view->data = t->arena->base + at;
    if (bytes == 0) return ls_ok();
    if (data != NULL) return ls_device_write(t->place->device, t->arena, &range, data);
    return view->dtype == LS_I32 ? ls_ok() : write_random(t, view->dtype, at, bytes);
}

static ls_status place_operands(ls_timed_call *t, ls_view *views, int n, size_t *at) {
    for (int i = 0; i < n; i++) {
        const size_t bytes = extent(&views[i]);
        LS_TRY(place_operand(t, &views[i], *at));
        *at += ls_round_up(bytes, LINE);
    }
    return ls_ok();
}

static ls_status set_up(ls_timed_call *t) {
    ls_kernel_call *call = &t->call;
    size_t bytes = t->kernel->workspace != NULL ? t->kernel->workspace(call) : 0, at = 0;
    for (int i = 0; i < call->n_in; i++) bytes += ls_round_up(extent(&call->in[i]), LINE);
    for (int i = 0; i < call->n_out; i++) bytes += ls_round_up(extent(&call->out[i]), LINE);
    LS_TRY(ls_device_allocate(t->place->device, bytes, &t->arena));
    const ls_range all = ls_range_flat(0, bytes);
    if (bytes > 0) LS_TRY(ls_device_clear(t->place->device, t->arena, &all)); /* touches every page */
    LS_TRY(place_operands(t, call->in, call->n_in, &at));
    LS_TRY(place_operands(t, call->out, call->n_out, &at));
    call->workspace = t->arena->base + at;
    return t->kernel->prepare != NULL ? t->kernel->prepare(call, &t->state) : ls_ok();
}

ls_status ls_timed_kernel_open(ls_timed_place *place, const ls_kernel *kernel, const ls_kernel_call *call,
                               ls_timed_call *out) {
    ls_timed_call timed = {.place = place, .kernel = kernel, .call = *call};
    timed.call.threads = ls_pool_threads(place->pool);
    const ls_status status = set_up(&timed);
    if (status.code != LS_OK)
        ls_timed_call_close(&timed);
    else
        *out = timed;
    return status;
}

bool ls_timed_kernel_refused(ls_status status) { return status.code == LS_UNSUPPORTED || status.code == LS_FAULT; }

ls_status ls_timed_call_open(ls_timed_place *place, ls_kernel_id id, ls_dtype dtype, const ls_kernel_call *call,
                             ls_timed_call *out) {
    ls_kernel_call threaded = *call;
    const ls_kernel *rows[LS_KERNEL_ROWS];
    int n = 0;
    threaded.threads = ls_pool_threads(place->pool);
    LS_TRY(ls_kernel_find_rows(&(ls_kernel_request){.id = id,
                                                    .dtype = dtype,
                                                    .device = place->of.device,
                                                    .isa = place->of.isa,
                                                    .call = &threaded,
                                                    .choices = place->kernels},
                               rows, &n));
    LS_ASSERT(n > 0);
    ls_status status = ls_ok();
    for (int i = 0; i < n; i++) {
        status = ls_timed_kernel_open(place, rows[i], call, out);
        if (!ls_timed_kernel_refused(status)) break;
    }
    return status;
}

/* n launches one after the other. *seconds: of one of them. */
static ls_status run_launches(ls_timed_call *t, int n, double *seconds) {
    const bool holds = ls_device_traits_of(t->place->device)->holds;
    double all;
    LS_TRY(holds ? time_held_launches(t->place, t, n, &all) : time_launches(t->place, t, n, &all));
    *seconds = all / n;
    return ls_ok();
}

/*
 * The first launch of all may load code, which waits for all queues, so none is held. The second shows how many
 * launches to time.
 */
static ls_status run_first(ls_timed_call *t, double *seconds) {
    const bool at_once = ls_device_traits_of(t->place->device)->at_once;
    if (!at_once) LS_TRY(time_launches(t->place, t, 1, seconds));
    LS_TRY(run_launches(t, 1, seconds));
    t->launches = at_once ? 1 : ls_timed_launches(*seconds);
    return t->launches == 1 ? ls_ok() : run_launches(t, t->launches, seconds);
}

ls_status ls_timed_call_run(ls_timed_call *t, double *seconds) {
    return t->launches == 0 ? run_first(t, seconds) : run_launches(t, t->launches, seconds);
}

static ls_status record(ls_timed_call *t, int n) {
    t->recorded_at = t->place->launched;
    LS_TRY(ls_device_record_begin(t->place->device));
    for (int i = 0; i < n; i++) LS_TRY(launch_call(t));
    LS_TRY(ls_device_record_end(t->place->device, &t->recording));
    t->place->launched = t->recorded_at;
    return ls_ok();
}

static ls_status replay(ls_timed_call *t, int n, double *seconds) {
    const double start = ls_seconds();
    LS_TRY(ls_device_replay(t->place->device, t->recording, t->place->launched - t->recorded_at, 0));
    t->place->launched += (uint64_t)n;
    LS_TRY(ls_timed_place_await(t->place));
    *seconds = ls_seconds() - start;
    return ls_ok();
}

ls_status ls_timed_call_stream(ls_timed_call *t, double *seconds) {
    const ls_device_traits *can = ls_device_traits_of(t->place->device);
    const int n = can->at_once ? 1 : LS_TIMED_LAUNCHES;
    if (can->records && t->recording == NULL) LS_TRY(record(t, n));
    LS_TRY(can->records ? replay(t, n, seconds) : time_launches(t->place, t, n, seconds));
    *seconds /= n;
    return ls_ok();
}

void ls_timed_call_close(ls_timed_call *t) {
    if (t->state != NULL && t->kernel->release != NULL) t->kernel->release(t->state);
    if (t->arena != NULL) ls_device_free(t->place->device, t->arena);
}

/* --- on everything that computes concurrently --------------------------------------------------------------------- */

static ls_status open_one(ls_timed_calls *calls, ls_timed_place *place, ls_kernel_id id, ls_dtype dtype,
                          const ls_kernel_call *call) {
    ls_timed_place *mine = calls->places != NULL ? &calls->places[calls->n] : place;
    if (calls->places != NULL) LS_TRY(ls_timed_place_open(&place->of, 0, NULL, mine));
    const ls_status status = ls_timed_call_open(mine, id, dtype, call, &calls->call[calls->n]);
    if (status.code == LS_OK)
        calls->n++;
    else if (calls->places != NULL)
        ls_timed_place_close(mine);
    return status;
}

ls_status ls_timed_calls_open(ls_timed_place *place, ls_kernel_id id, ls_dtype dtype, const ls_kernel_call *call,
                              ls_timed_calls *out) {
    int n = ls_pool_threads(place->pool);
    ls_timed_calls calls = {.pool = place->pool};
    if (place->of.device == LS_DEVICE_CPU) calls.places = calloc((size_t)n, sizeof *calls.places);
    calls.call = calloc((size_t)n, sizeof *calls.call);
    calls.seconds = calloc((size_t)n, sizeof *calls.seconds);
    calls.status = calloc((size_t)n, sizeof *calls.status);
    LS_ASSERT(calls.call != NULL && calls.seconds != NULL && calls.status != NULL);
    ls_status status = ls_ok();
    while (status.code == LS_OK && calls.n < n) {
        status = open_one(&calls, place, id, dtype, call);
        if (calls.n != 1) continue;
        const size_t each = (size_t)ls_max(1, (int64_t)calls.call[0].arena->bytes), some = ls_machine_available() / 4;
        if (some > 0) n = (int)ls_max(1, ls_min(n, (int64_t)(some / each)));
    }
    if (status.code != LS_OK) {
        ls_timed_calls_close(&calls);
        return status;
    }
    *out = calls;
    return status;
}

typedef struct start {
    const ls_timed_calls *calls;
    atomic_int ready;
} start;

/* Each thread runs exactly one call, because it waits here until all calls have been taken. */
static void run_call(void *context, int i, int thread) {
    (void)thread;
    start *s = context;
    atomic_fetch_add(&s->ready, 1);
    while (atomic_load(&s->ready) < s->calls->n) {
    }
    s->calls->status[i] = ls_timed_call_run(&s->calls->call[i], &s->calls->seconds[i]);
}

ls_status ls_timed_calls_run(const ls_timed_calls *calls, double *seconds) {
    start s = {.calls = calls};
    double sum = 0;
    ls_pool_run(calls->pool, calls->n, run_call, &s);
    for (int i = 0; i < calls->n; i++) {
        LS_TRY(calls->status[i]);
        sum += calls->seconds[i];
    }
    *seconds = sum / calls->n;
    return ls_ok();
}

void ls_timed_calls_close(ls_timed_calls *calls) {
    for (int i = 0; i < calls->n; i++) {
        ls_timed_call_close(&calls->call[i]);
        if (calls->places != NULL) ls_timed_place_close(&calls->places[i]);
    }
    free(calls->places);
    free(calls->call);
    free(calls->seconds);
    free(calls->status);
}
