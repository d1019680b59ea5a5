/*
 * Executes a program. Kernels are launched on the queues of the device; an instruction that communicates is executed by
 * the rank's own thread when it is the head of its queue. While a program runs, nothing is allocated.
 *
 * How far ahead kernels are launched depends on the device:
 *   - If launches are executed at once, a kernel is launched when it is the head of its queue and nothing holds it up.
 *   - Otherwise a kernel is launched as soon as all that it comes after has been launched. An instruction that
 *     communicates is a hold on its queue of the device, which is released when the instruction has been executed. A
 * put is also a hold on another queue, from its execution until it is done, so that what overwrites its source comes
 *     after an event.
 *   - If the device has messages, it executes the instructions that communicate as well, and the rank's thread only
 *     watches.
 *   - If a device that executes later has neither holds nor messages, a kernel is launched only when the communicating
 *     instructions in front of it have been executed, and the puts that it comes after are done.
 *
 * If the device records, all programs are launched into recordings before the first run, and each run launches a whole
 * recording. A run that is traced, or whose results are inspected, launches each instruction by itself.
 *
 * The loop polls all queues, and sleeps only when every queue waits for other ranks, for puts or for the device.
 */
#include "run/executor_impl.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

typedef struct run {
    ls_executor *ex;
    const ls_program *program;
    int index; /* of the program */
    ls_prepared_program *prepared;
    ls_cursor *cursor;
    uint64_t first_event; /* the number of instruction 0 on its queue */
    bool ahead;           /* instructions are launched ahead of the heads of their queues */
    bool holds;           /* also past instructions that communicate, which are holds on the device's queues */
    bool messages;        /* also past instructions that communicate, which the device executes */
    bool recording;       /* launches are recorded: what they come after is in the same recording */
    int last_put;         /* the last one executed; -1: none */
    ls_result_place *bad; /* the first kernel result that is not finite; NULL: results are not inspected */
} run;

static int word_of(const run *r, const ls_instr *instr) { return ls_instr_word(r->program, instr); }

static uint64_t generation_of(const run *r, const ls_instr *instr) {
    return r->prepared->told[ls_instr_end(instr)] + ls_instr_generation(r->program, instr, r->cursor->runs);
}

static uint64_t ticket_of(const run *r, int put) { return r->prepared->instrs[put].ticket; }

/* The event that the instruction has been executed; the event that the put is done. */
static ls_event event_of(const run *r, int queue, int instr) {
    return (ls_event){queue, r->first_event + (uint64_t)instr};
}
static ls_event done_event_of(const run *r, int queue, int put) { return event_of(r, r->ex->queues + queue, put); }

static ls_status named(const run *r, int i, ls_status status) {
    return ls_error_in(status, "program %s, instruction %d, %s", r->program->name, i, r->program->instrs[i].op);
}

static void record(const run *r, int instr, double begin, double end) {
    ls_trace_add(r->ex->trace, (ls_span_time){begin, end, r->index, instr, r->prepared->runs});
}

/* --- results that are not finite ---------------------------------------------------------------------------------- */

/* Whether a number of a dense result is not finite. may_be_nothing: -INFINITY is allowed. */
static ls_status find_bad(const run *r, const ls_operand *result, bool may_be_nothing, bool *found) {
    enum { AT_A_TIME = 512 };
    double numbers[AT_A_TIME];
    ls_operand part = *result;
    const int64_t n = ls_view_elements(&result->view);
    for (int64_t first = 0; first < n && !*found; first += AT_A_TIME) {
        const int64_t count = ls_min(AT_A_TIME, n - first);
        part.offset = result->offset + (size_t)first * ls_dtype_bytes(result->view.dtype);
        part.view = ls_view_dense(NULL, result->view.dtype, 1, &count);
        LS_TRY(ls_executor_read(r->ex, &part, numbers));
        for (int64_t i = 0; i < count; i++) {
            const double x = ls_number_at(numbers, result->view.dtype, i);
            *found |= !isfinite(x) && !(may_be_nothing && x == -INFINITY);
        }
    }
    return ls_ok();
}

/*
 * Inspects the dense results of a kernel that has been executed. Blocks are only copied: a number in them that is not
 * finite shows in what is computed from it.
 */
static ls_status inspect(const run *r, int i) {
    const ls_instr *instr = &r->program->instrs[i];
    for (int o = 0; o < instr->n_out && r->bad->instr < 0; o++) {
        const ls_operand *result = &instr->out[o];
        bool found = false;
        const bool counted = (ls_contracts[instr->kernel->id].counted >> o & 1) != 0; /* only a part of it is written */
        const bool blocks = ls_dtype_is_block(result->view.dtype);
        if (!ls_view_is_dense(&result->view) || ls_operand_is_empty(result) || counted || blocks) continue;
        LS_TRY(find_bad(r, result, (ls_contracts[instr->kernel->id].minus_inf >> o & 1) != 0, &found));
        if (found) *r->bad = (ls_result_place){.instr = i, .output = o};
    }
    return ls_ok();
}

/* --- what an instruction comes after ------------------------------------------------------------------------------ */

/* Whether what an instruction comes after has happened; if it is a put, asks whether the put is done. */
static bool has_happened(const run *r, const ls_after *after) {
    if (ls_cursor_happened(r->cursor, after)) return true;
    if (!ls_cursor_awaits_puts(r->cursor, after) || !ls_comm_done(r->ex->comm, ticket_of(r, after->instr)))
        return false;
    ls_cursor_complete(r->cursor, after->queue, after->instr);
    return true;
}

/* Whether all that an instruction comes after has happened. */
static bool may_start(const run *r, int i) {
    const ls_instr *instr = &r->program->instrs[i];
    for (int k = 0; k < instr->n_after; k++) {
        if (!has_happened(r, &instr->after[k])) return false;
    }
    return true;
}

/* Whether the next instruction of a queue may be launched on a device that executes later. */
static bool may_launch_ahead(const run *r, int i) {
    const ls_instr *instr = &r->program->instrs[i];
    const int opening = r->prepared->instrs[i].opening;
    if (opening >= 0 && r->cursor->ahead[r->program->instrs[opening].queue] <= opening) return false;
    for (int k = 0; k < instr->n_after; k++) {
        const ls_after *after = &instr->after[k];
        if (has_happened(r, after)) continue;
        if (!ls_cursor_launched(r->cursor, after) || (after->done && !r->holds && !r->messages)) return false;
    }
    return true;
}

/* --- launching ---------------------------------------------------------------------------------------------------- */

static void run_kernel(void *context, ls_pool *pool) {
    const ls_prepared *prepared = context;
    prepared->kernel->run(&prepared->call, prepared->state, pool);
}

static ls_status submit_kernel(void *context, void *stream) {
    const ls_prepared *prepared = context;
    return prepared->kernel->launch(&prepared->call, prepared->state, stream);
}

/* Whether it has happened, and the device has reported this or has nothing launched for it. */
static bool device_knows(const run *r, const ls_after *after) {
    return ls_cursor_happened(r->cursor, after) && (r->prepared->instrs[after->instr].kernel != NULL || !r->holds);
}

/*
 * Collects the events that an instruction comes after and that the device does not know to have happened: a hold that
 * has been released may still be on its queue. Returns their number. An instruction that takes bytes back comes after
 * the one that gave them to others (opening) by the signals of these, which the device does not see.
 */
static int events_after(const run *r, const ls_instr *instr, int opening) {
    int n = 0;
    if (opening >= 0) r->prepared->events[n++] = event_of(r, r->program->instrs[opening].queue, opening);
    for (int k = 0; k < instr->n_after; k++) {
        const ls_after *after = &instr->after[k];
        if (!r->recording && device_knows(r, after)) continue;
        /* A message is executed when its copy is done. */
        r->prepared->events[n++] = after->done && !r->messages ? done_event_of(r, after->queue, after->instr)
                                                               : event_of(r, after->queue, after->instr);
    }
    return n;
}

/*
 * Launches the two holds of a put: one until it is executed, and one, on another queue, from then until it is done.
 * Only the second one counts as reading the source.
 */
static ls_status launch_put(const run *r, ls_device_work *hold) {
    const ls_event executed = hold->event;
    ls_device_work reading = *hold;
    hold->n_accesses = 0;
    LS_TRY(ls_device_launch(r->ex->device, hold));
    reading.event.queue += r->ex->queues;
    reading.after = &executed;
    reading.n_after = 1;
    return ls_device_launch(r->ex->device, &reading);
}

/* The message that the device executes for an instruction that communicates. */
static ls_device_message message_of(const run *r, int i) {
    const ls_instr *instr = &r->program->instrs[i];
    const ls_prepared *prepared = &r->prepared->instrs[i];
    const bool awaits = ls_traits(instr)->awaits;
    const ls_device_remote *at = &r->ex->remotes[prepared->peer];
    ls_device_message message = {.word = (awaits ? at->own : at->words) + word_of(r, instr),
                                 .generation = generation_of(r, instr),
                                 .rise = ls_instr_uses(r->program, instr),
                                 .peer = prepared->peer,
                                 .awaits = awaits,
                                 .carries = instr->kind == LS_INSTR_PUT || instr->kind == LS_INSTR_RECEIVE};
    if (instr->kind == LS_INSTR_PUT) {
        message.source = r->ex->arena[r->ex->image->buffers[instr->in[0].buffer].space]->source;
        message.target = at->heap;
        message.from = prepared->from;
        message.to = prepared->to;
        message.count = prepared->count;
    }
    return message;
}

static ls_status launch(const run *r, int queue, int i) {
    const ls_instr *instr = &r->program->instrs[i];
    ls_prepared *prepared = &r->prepared->instrs[i];
    ls_device_message message;
    ls_device_work work = {.name = instr->op,
                           .event = event_of(r, queue, i),
                           .after = r->prepared->events,
                           .n_after = events_after(r, instr, prepared->opening),
                           .accesses = prepared->accesses,
                           .n_accesses = prepared->n_accesses,
                           .context = prepared};
    if (prepared->kernel == NULL && r->messages) {
        message = message_of(r, i);
        work.message = &message;
    } else if (prepared->kernel != NULL && prepared->kernel->launch != NULL) {
        work.submit = submit_kernel;
    } else if (prepared->kernel != NULL) {
        work.run = run_kernel;
    }
    if (r->ex->trace != NULL) prepared->launched = ls_seconds();
    const bool held = r->holds && instr->kind == LS_INSTR_PUT;
    const ls_status status = held ? launch_put(r, &work) : ls_device_launch(r->ex->device, &work);
    return status.code == LS_OK ? status : named(r, i, status);
}

/* Whether the instruction is launched; else the rank's thread executes it. */
static bool is_launched(const run *r, int i) {
    return r->prepared->instrs[i].kernel != NULL || r->holds || r->messages;
}

/* Whether the device has room for an instruction; with holds, a put is on two queues. */
static bool has_room(const run *r, int queue, int i) {
    return ls_device_has_room(r->ex->device, queue) && (!r->holds || r->program->instrs[i].kind != LS_INSTR_PUT ||
                                                        ls_device_has_room(r->ex->device, r->ex->queues + queue));
}

/* Whether the instruction must not be launched before it may start, even if others are launched ahead. */
static bool is_large(const run *r, int i) {
    return r->program->instrs[i].kind == LS_INSTR_PUT && r->messages &&
           ls_device_is_large(r->ex->device, &r->prepared->instrs[i].to);
}

/*
 * Launches the next instruction of a queue, if this is possible. If the device has no room, the queue's head has been
 * launched and is still to be executed, so the rank will be woken to try again.
 */
static ls_status launch_next(const run *r, int queue, bool *moved) {
    const int i = ls_cursor_ahead(r->cursor, queue);
    if (i < 0 || !is_launched(r, i) || !has_room(r, queue, i)) return ls_ok();
    const bool ahead = r->ahead && !is_large(r, i);
    const bool may = ahead ? may_launch_ahead(r, i) : i == ls_cursor_head(r->cursor, queue) && may_start(r, i);
    if (!may) return ls_ok();
    LS_TRY(launch(r, queue, i));
    ls_cursor_launch(r->cursor, queue);
    *moved = true;
    return ls_ok();
}

/* Launches all instructions that may be launched. */
static ls_status launch_ahead(const run *r, bool *moved) {
    bool launched;
    do {
        launched = false;
        for (int q = 0; q < r->program->queues; q++) LS_TRY(launch_next(r, q, &launched));
        *moved |= launched;
    } while (launched);
    return ls_ok();
}

/* Records all launches of the program, in the order of its list. */
static ls_status record_launches(const run *r) {
    LS_TRY(ls_device_record_begin(r->ex->device));
    for (int i = 0; i < r->program->n_instrs; i++) LS_TRY(launch(r, r->program->instrs[i].queue, i));
    return ls_device_record_end(r->ex->device, &r->prepared->recording);
}

/* Launches the whole program as a recording. */
static ls_status launch_recorded(const run *r) {
    LS_TRY(
        ls_device_replay(r->ex->device, r->prepared->recording, r->first_event - LS_RECORDED_EVENT, r->prepared->runs));
    for (int q = 0; q < r->program->queues; q++)
        while (ls_cursor_ahead(r->cursor, q) >= 0) ls_cursor_launch(r->cursor, q);
    return ls_ok();
}

/* --- the head of a queue ------------------------------------------------------------------------------------------ */

static ls_status put_signal(run *r, int i) {
    const ls_instr *instr = &r->program->instrs[i];
    ls_prepared *prepared = &r->prepared->instrs[i];
    const double start = ls_seconds();
    const void *source = r->ex->arena[r->ex->image->buffers[instr->in[0].buffer].space]->source;
    ls_range from = prepared->from, to = prepared->to;
    LS_TRY(ls_device_count_rows(&prepared->count, prepared->peer, &from, &to));
    prepared->ticket =
        ls_comm_put_signal(r->ex->comm, prepared->peer, &to, source, &from, word_of(r, instr), generation_of(r, instr));
    r->last_put = i;
    r->ex->times.sent += (double)ls_range_bytes(&from);
    r->ex->times.copying += ls_seconds() - start;
    return ls_ok();
}

/* Executes the head of a queue, which communicates, if it may start and the word that it waits for has come. */
static ls_status communicate(run *r, int queue, int i, bool *executed) {
    const ls_instr *instr = &r->program->instrs[i];
    ls_comm *comm = r->ex->comm;
    double *held = &r->prepared->held[queue];
    const bool traced = r->ex->trace != NULL;
    if (!may_start(r, i)) return ls_ok();
    if (ls_traits(instr)->awaits && !ls_comm_test(comm, word_of(r, instr), generation_of(r, instr))) {
        if (traced && *held == 0) *held = ls_seconds();
        return ls_ok();
    }
    const double begin = !traced ? 0 : *held > 0 ? *held : ls_seconds();
    if (instr->kind == LS_INSTR_PUT)
        LS_TRY(put_signal(r, i));
    else if (ls_traits(instr)->sets)
        ls_comm_signal(comm, r->prepared->instrs[i].peer, word_of(r, instr), generation_of(r, instr));
    if (traced) record(r, i, begin, ls_seconds());
    *held = 0;
    *executed = true;
    return r->holds ? ls_device_release(r->ex->device, event_of(r, queue, i)) : ls_ok();
}

static bool is_executed_by_device(const run *r, int i) { return r->prepared->instrs[i].kernel != NULL || r->messages; }

/* Finds out whether the head of a queue, which the device executes, has been executed. */
static ls_status look_for_end(run *r, int queue, int i, bool *executed) {
    const bool kernel = r->prepared->instrs[i].kernel != NULL;
    LS_TRY(ls_device_happened(r->ex->device, event_of(r, queue, i), executed));
    if (!*executed) return ls_ok();
    if (r->ex->trace != NULL) record(r, i, r->prepared->instrs[i].launched, ls_seconds());
    if (!kernel && r->program->instrs[i].kind == LS_INSTR_PUT) ls_cursor_complete(r->cursor, queue, i);
    return kernel && r->bad != NULL && r->bad->instr < 0 ? inspect(r, i) : ls_ok();
}

/* Advances a queue past its head if the head has been executed, or executes the head. */
static ls_status advance(run *r, int queue, bool *moved) {
    const int i = ls_cursor_head(r->cursor, queue);
    if (i < 0) return ls_ok();
    if (is_launched(r, i) && ls_cursor_ahead(r->cursor, queue) == i) return ls_ok();
    bool executed = false;
    const bool device = is_executed_by_device(r, i);
    const ls_status status = device ? look_for_end(r, queue, i, &executed) : communicate(r, queue, i, &executed);
    if (status.code != LS_OK) return named(r, i, status);
    if (!executed) return ls_ok();
    LS_TRY(ls_comm_check_stop(r->ex->comm));
    ls_comm_tick(r->ex->comm);
    ls_cursor_advance(r->cursor, queue);
    *moved = true;
    return ls_ok();
}

/* Releases the holds of puts that are done. */
static ls_status finish_puts(run *r) {
    for (int q = 0; q < r->program->queues && r->holds; q++) {
        int *i = &r->prepared->unfinished[q];
        for (; *i <= r->cursor->executed[q]; *i = r->cursor->next[*i]) {
            if (r->program->instrs[*i].kind != LS_INSTR_PUT) continue;
            if (!ls_comm_done(r->ex->comm, ticket_of(r, *i))) break;
            ls_cursor_complete(r->cursor, q, *i);
            LS_TRY(ls_device_release(r->ex->device, done_event_of(r, q, *i)));
        }
    }
    return ls_ok();
}

static ls_status step(run *r, int queue, bool *moved) {
    LS_TRY(launch_next(r, queue, moved));
    return advance(r, queue, moved);
}

/*
 * Executes what can be executed of each queue. The compute queue is last, and executes only one instruction, because
 * other ranks wait for puts.
 */
static ls_status step_all(run *r, bool *moved) {
    if (r->ahead) LS_TRY(launch_ahead(r, moved));
    LS_TRY(finish_puts(r));
    for (int q = r->program->queues - 1; q > LS_COMPUTE; q--) {
        for (bool more = true; more; *moved |= more) {
            more = false;
            LS_TRY(step(r, q, &more));
        }
    }
    return step(r, LS_COMPUTE, moved);
}

/* --- waiting ------------------------------------------------------------------------------------------------------ */

/* What a rank that can execute nothing waits for. */
typedef struct standstill {
    int waits;     /* number of waits of the heads, for words or puts, in ls_prepared_program.awaited */
    int word, put; /* the last head that awaits a word, and the last put that is not done; -1: none */
    int kernel;    /* the last head that the device executes; -1: none */
} standstill;

/* Whether the instruction awaits a word that has not come. */
static bool is_missing(const run *r, int i) {
    const ls_instr *instr = &r->program->instrs[i];
    return ls_traits(instr)->awaits && !ls_comm_test(r->ex->comm, word_of(r, instr), generation_of(r, instr));
}

/* If no head waits, all queues are through and the last put is not done. */
static standstill find_standstill(const run *r) {
    standstill s = {.word = -1, .put = -1, .kernel = -1};
    ls_awaited *awaited = r->prepared->awaited;
    for (int q = 0; q < r->program->queues; q++) {
        const int i = ls_cursor_head(r->cursor, q);
        const ls_after *obstacle = i < 0 ? NULL : ls_cursor_obstacle(r->cursor, q);
        if (obstacle != NULL && ls_cursor_awaits_puts(r->cursor, obstacle)) {
            s.put = obstacle->instr;
            awaited[s.waits++] = (ls_awaited){-1, ticket_of(r, s.put)};
        } else if (i >= 0 && obstacle == NULL && is_executed_by_device(r, i) && !is_missing(r, i)) {
            s.kernel = i;
        } else if (i >= 0 && obstacle == NULL && !ls_traits(&r->program->instrs[i])->awaits) {
            s.put = r->prepared->unfinished[q]; /* there is no room for another put until this one is done */
            awaited[s.waits++] = (ls_awaited){-1, ticket_of(r, s.put)};
        } else if (i >= 0 && obstacle == NULL) {
            const ls_instr *instr = &r->program->instrs[i];
            s.word = i;
            awaited[s.waits++] = (ls_awaited){word_of(r, instr), generation_of(r, instr)};
        }
    }
    if (s.waits > 0 || s.kernel >= 0) return s;
    s.put = r->last_put;
    awaited[s.waits++] = (ls_awaited){-1, ticket_of(r, s.put)};
    return s;
}

/* Whether the word has come, or comes within 0.1 s: a message may still be under way when its sender has left. */
static bool comes_late(const run *r, int i) {
    for (int naps = 0; naps < 100 && is_missing(r, i); naps++) usleep(1000);
    return !is_missing(r, i);
}

/*
 * Spins, then sleeps, until something arrives, a put is done or the device has executed something. LS_PEER if the
 * awaited peer has died or makes no progress.
 */
static ls_status sleep_until_bell(run *r, uint32_t bell) {
    const standstill s = find_standstill(r);
    if (s.waits == 0) {
        const ls_status status =
            ls_device_await(r->ex->device, event_of(r, r->program->instrs[s.kernel].queue, s.kernel));
        return status.code == LS_OK ? status : named(r, s.kernel, status);
    }
    /* Progress of the device rings the bell, but does not end ls_comm_spin. */
    if (s.kernel < 0 && ls_comm_spin(r->ex->comm, r->prepared->awaited, s.waits)) return ls_ok();
    const int number = s.word >= 0 ? s.word : s.put;
    const ls_instr *instr = &r->program->instrs[number];
    char missing[64] = "not done", awaiting[256];
    if (s.word >= 0)
        snprintf(missing, sizeof missing, "expected generation %llu, seen %llu",
                 (unsigned long long)generation_of(r, instr),
                 (unsigned long long)ls_comm_word(r->ex->comm, word_of(r, instr)));
    snprintf(awaiting, sizeof awaiting, "program %s, instruction %d, %s \"%s\", %s", r->program->name, number,
             instr->op, r->program->channels[instr->channel].name, missing);
    const ls_status status = ls_comm_sleep(r->ex->comm, bell, r->prepared->instrs[number].peer, awaiting);
    /* A word that a device sets rings no bell, so it may have come before its peer left. */
    return status.code != LS_OK && r->messages && comes_late(r, number) ? ls_ok() : status;
}

/* Whether all queues are through and all puts done. */
static bool has_ended(const run *r) {
    return ls_cursor_has_ended(r->cursor) && (r->last_put < 0 || ls_comm_done(r->ex->comm, ticket_of(r, r->last_put)));
}

/* --- a run -------------------------------------------------------------------------------------------------------- */

/* LS_INVALID unless the phase table has the program after the one that ran last. */
static ls_status check_order(const ls_executor *ex, int program) {
    if (ls_phase_exists(ex->image, ex->last, program)) return ls_ok();
    const ls_program *p = ex->image->programs;
    if (ex->last == LS_FIRST)
        return ls_error(LS_INVALID, "program \"%s\" may not run first: the phase table does not have it",
                        p[program].name);
    return ls_error(LS_INVALID, "program \"%s\" may not run after \"%s\": the phase table does not have it",
                    p[program].name, p[ex->last].name);
}

static ls_status run_to_end(run *r) {
    ls_executor *ex = r->ex;
    for (;;) {
        const uint32_t bell = ls_comm_bell(ex->comm);
        bool moved = false;
        LS_TRY(step_all(r, &moved));
        if (moved) continue;
        if (has_ended(r)) break;
        const double asleep = ls_seconds();
        LS_TRY(sleep_until_bell(r, bell));
        const double awake = ls_seconds();
        ex->times.waiting += awake - asleep;
        if (ex->trace != NULL) record(r, LS_SPAN_ASLEEP, asleep, awake);
    }
    LS_TRY(finish_puts(r));
    return ls_device_join(ex->device);
}

static run make_run(ls_executor *ex, int index, uint64_t first_event, ls_result_place *bad) {
    const ls_device_traits *device = ls_device_traits_of(ex->device);
    return (run){.ex = ex,
                 .program = &ex->image->programs[index],
                 .index = index,
                 .prepared = &ex->programs[index],
                 .cursor = &ex->programs[index].cursor,
                 .first_event = first_event,
                 .ahead = !device->at_once && bad == NULL,
                 .holds = device->holds && !device->messages && bad == NULL,
                 .messages = device->messages,
                 .last_put = -1,
                 .bad = bad};
}

static ls_status run_program(ls_executor *ex, int index, ls_result_place *bad) {
    LS_TRY(check_order(ex, index));
    ex->last = index;
    run r = make_run(ex, index, ex->event + 1, bad);
    const double start = ls_seconds();
    ls_cursor_begin(r.cursor, r.prepared->runs);
    ex->event += (uint64_t)r.program->n_instrs;
    for (int q = 0; q < r.program->queues; q++) r.prepared->unfinished[q] = r.cursor->first[q];
    const bool recorded = r.prepared->recording != NULL && bad == NULL && ex->trace == NULL;
    ls_status status = recorded ? launch_recorded(&r) : ls_ok();
    if (status.code == LS_OK) status = run_to_end(&r);
    ex->failed |= status.code != LS_OK;
    LS_TRY(status);
    const double end = ls_seconds();
    if (ex->trace != NULL) record(&r, LS_SPAN_PROGRAM, start, end);
    r.prepared->runs++;
    ex->times.total += end - start;
    return ls_ok();
}

ls_status ls_executor_run(ls_executor *ex, int program) { return run_program(ex, program, NULL); }

ls_status ls_executor_run_checked(ls_executor *ex, int program, ls_result_place *bad) {
    ls_result_place found = {.instr = -1};
    LS_TRY(run_program(ex, program, &found));
    *bad = found;
    return ls_ok();
}

ls_status ls_executor_record_programs(ls_executor *ex) {
    for (int p = 0; p < ex->image->n_programs; p++) {
        run r = make_run(ex, p, LS_RECORDED_EVENT, NULL);
        r.recording = true;
        const ls_status status = record_launches(&r);
        if (status.code != LS_OK) return ls_error_in(status, "program %s", r.program->name);
    }
    return ls_ok();
}

int64_t ls_executor_recorded(const ls_executor *ex) {
    int64_t bytes = 0;
    for (int p = 0; p < ex->image->n_programs; p++)
        if (ex->programs[p].recording != NULL) bytes += (int64_t)ls_device_recording_bytes(ex->programs[p].recording);
    return bytes;
}
