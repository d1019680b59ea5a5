/*
 * The executor: polls the heads of all queues, and sleeps only when every one waits for other ranks or for puts to be
 * done. Kernels are prepared when it is created; while a program runs, nothing is allocated.
 */
#include "run/executor_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* --- the record of spans ------------------------------------------------------------------------------------------ */

ls_status ls_executor_record(ls_executor *ex, size_t spans) {
    LS_ASSERT(ex->trace == NULL && spans >= 1);
    ls_trace *trace = calloc(1, sizeof *trace);
    ls_span_time *ring = malloc(spans * sizeof *ring);
    if (trace == NULL || ring == NULL) {
        free(trace);
        free(ring);
        return ls_error(LS_NO_MEMORY, "cannot allocate %zu bytes for a trace of %zu spans", spans * sizeof *ring,
                        spans);
    }
    for (size_t i = 0; i < spans; i++) ring[i] = (ls_span_time){.instr = LS_SPAN_ASLEEP}; /* touches the pages */
    *trace = (ls_trace){.ring = ring, .capacity = spans};
    ex->trace = trace;
    return ls_ok();
}

static void trace_add(ls_trace *trace, ls_span_time span) { trace->ring[trace->count++ % trace->capacity] = span; }

static void trace_destroy(ls_trace *trace) {
    if (trace == NULL) return;
    free(trace->ring);
    free(trace);
}

size_t ls_executor_spans(const ls_executor *ex) {
    if (ex->trace == NULL) return 0;
    return ex->trace->count < ex->trace->capacity ? ex->trace->count : ex->trace->capacity;
}

const ls_span_time *ls_executor_span(const ls_executor *ex, size_t i) {
    const size_t n = ls_executor_spans(ex);
    LS_ASSERT(i < n);
    return &ex->trace->ring[(ex->trace->count - n + i) % ex->trace->capacity];
}

/* --- preparing ---------------------------------------------------------------------------------------------------- */

/* What the programs use, or the notes before they run. */
static size_t heap_for(const ls_image *image) {
    const size_t used = image->bytes[LS_SYMMETRIC], notes = ls_exchange_heap(image);
    return used > notes ? used : notes;
}

ls_status ls_world_for(const ls_image *image, const char *transports, bool may_spin, double wait_timeout,
                       ls_world **out) {
    const int ranks = ls_mesh_ranks(&image->mesh);
    const ls_world_options options = {.ranks = ranks,
                                      .heap_bytes = heap_for(image),
                                      .words = image->words,
                                      .may_spin = may_spin,
                                      .wait_timeout = wait_timeout};
    return ls_world_create(transports, &options, out);
}

void *ls_executor_address(const ls_executor *ex, const ls_operand *o) {
    const ls_buffer *b = &ex->image->buffers[o->buffer];
    return (char *)ex->base[b->space] + b->offset + o->offset +
           ls_operand_displacement(ex->image, o, ls_executor_rank(ex));
}

void *ls_executor_tensor(const ls_executor *ex, const char *name) {
    const ls_binding *binding = ls_image_find(ex->image, name);
    return binding == NULL ? NULL : ls_executor_address(ex, &binding->operand);
}

/* What the use's other end told. */
static const ls_address *address_of(const ls_executor *ex, int program, const ls_instr *instr) {
    const ls_prepared_program *prepared = &ex->programs[program];
    return &prepared->addresses[ls_use_of(&prepared->uses, &ex->image->programs[program], instr)];
}

/* *out: the address of bytes of another rank, in a block that is borrowed. */
static ls_status resolve_in_place(const ls_executor *ex, int program, const ls_operand *o, void **out) {
    const int peer = ls_peer_rank(ex->image, o->peer, ls_executor_rank(ex));
    const char *name = ex->image->buffers[o->buffer].name;
    char *heap = ls_comm_peer_heap(ex->comm, peer);
    if (heap == NULL)
        return ls_error(LS_UNSUPPORTED,
                        "\"%s\" of rank %d is read in place, but its memory cannot be addressed from here", name, peer);
    const ls_program *p = &ex->image->programs[program];
    const ls_instr *borrow = ls_borrow_of(p, &ex->programs[program].uses, o);
    if (borrow == NULL)
        return ls_error(LS_INVALID, "program %s reads \"%s\" of rank %d in place without borrowing it", p->name, name,
                        peer);
    *out = heap + ls_block_part(&borrow->out[0], &address_of(ex, program, borrow)->range, o).offset;
    return ls_ok();
}

/* *out: the operand's view with its address, which may lie in another rank's heap. */
static ls_status resolve(const ls_executor *ex, int program, const ls_operand *o, ls_view *out) {
    ls_view view = o->view;
    if (ls_peer_is_self(o->peer))
        view.data = ls_executor_address(ex, o);
    else if (!ls_operand_is_empty(o))
        LS_TRY(resolve_in_place(ex, program, o, &view.data));
    *out = view;
    return ls_ok();
}

static ls_status prepare_instr(ls_executor *ex, int program, const ls_instr *instr, ls_prepared *out) {
    out->peer = ls_peer_rank(ex->image, instr->peer, ls_executor_rank(ex));
    if (instr->kind == LS_INSTR_PUT) {
        out->from = ls_operand_range(ex->image, &instr->in[0], ls_executor_rank(ex));
        out->to = address_of(ex, program, instr)->range;
    }
    if (instr->kind != LS_INSTR_KERNEL) return ls_ok();
    ls_kernel_call *call = &out->call;
    call->n_in = instr->n_in;
    call->n_out = instr->n_out;
    for (int i = 0; i < instr->n_in; i++) LS_TRY(resolve(ex, program, &instr->in[i], &call->in[i]));
    for (int i = 0; i < instr->n_out; i++) LS_TRY(resolve(ex, program, &instr->out[i], &call->out[i]));
    call->params = instr->params;
    call->threads = ex->image->threads;
    if (instr->workspace->buffer >= 0) call->workspace = ls_executor_address(ex, instr->workspace);
    return instr->kernel->prepare != NULL ? instr->kernel->prepare(call, &out->state) : ls_ok();
}

static ls_status prepare_program(ls_executor *ex, int index) {
    const ls_program *p = &ex->image->programs[index];
    ls_prepared_program *prepared = &ex->programs[index];
    prepared->instrs = LS_NEW_ARRAY(ex->arena, ls_prepared, p->n_instrs);
    prepared->cursor = ls_cursor_make(p, ex->arena);
    prepared->held = LS_NEW_ARRAY(ex->arena, double, p->queues + 1);
    prepared->awaited = LS_NEW_ARRAY(ex->arena, ls_awaited, p->queues + 1);
    for (int i = 0; i < p->n_instrs; i++) LS_TRY(prepare_instr(ex, index, &p->instrs[i], &prepared->instrs[i]));
    return ls_ok();
}

/* Touches both arenas before their first use, unless the machine has less memory available than they need. */
static void touch_arenas(ls_executor *ex) {
    const size_t *bytes = ex->image->bytes;
    if (bytes[LS_PRIVATE] + bytes[LS_SYMMETRIC] > ls_machine_available()) return;
    for (int s = 0; s < LS_SPACES; s++) ls_touch(ex->base[s], bytes[s], ex->pool, ex->comm, &ex->touched);
}

static ls_status set_up(ls_executor *ex, bool may_spin) {
    const size_t heap = heap_for(ex->image);
    if (heap > ls_comm_heap_bytes(ex->comm))
        return ls_error(LS_INVALID, "the programs of rank %d need a heap of %zu bytes; the world's has %zu",
                        ls_executor_rank(ex), heap, ls_comm_heap_bytes(ex->comm));
    LS_TRY(ls_pool_create(ex->image->threads, may_spin, &ex->pool));
    LS_TRY(ls_memory_map(ex->image->bytes[LS_PRIVATE], &ex->base[LS_PRIVATE]));
    ex->base[LS_SYMMETRIC] = ls_comm_heap(ex->comm);
    touch_arenas(ex);
    LS_TRY(ls_executor_exchange(ex));
    for (int p = 0; p < ex->image->n_programs; p++) LS_TRY(prepare_program(ex, p));
    ls_executor_fill_tables(ex);
    return ls_ok();
}

ls_status ls_executor_create(const ls_image *image, ls_comm *comm, ls_executor **out) {
    ls_arena *arena = ls_arena_create();
    ls_executor *ex = LS_NEW(arena, ls_executor);
    ex->arena = arena;
    ex->image = image;
    ex->comm = comm;
    ex->programs = LS_NEW_ARRAY(arena, ls_prepared_program, image->n_programs);
    ex->last = LS_FIRST;
    ls_machine machine;
    ls_machine_detect(&machine);
    const ls_status status = set_up(ex, ls_comm_machine_ranks(comm) * image->threads <= machine.cores);
    if (status.code != LS_OK) {
        ls_executor_destroy(ex);
        return status;
    }
    *out = ex;
    return ls_ok();
}

void ls_executor_destroy(ls_executor *ex) {
    if (ex == NULL) return;
    for (int p = 0; p < ex->image->n_programs; p++) {
        for (int i = 0; i < ex->image->programs[p].n_instrs && ex->programs[p].instrs != NULL; i++) {
            const ls_kernel *kernel = ex->image->programs[p].instrs[i].kernel;
            if (kernel != NULL && kernel->release != NULL && ex->programs[p].instrs[i].state != NULL)
                kernel->release(ex->programs[p].instrs[i].state);
        }
    }
    ls_memory_unmap(ex->base[LS_PRIVATE], ex->image->bytes[LS_PRIVATE]);
    ls_pool_destroy(ex->pool);
    trace_destroy(ex->trace);
    ls_arena_destroy(ex->arena);
}

ls_run_times ls_executor_times(const ls_executor *ex) { return ex->times; }
ls_touched ls_executor_touched(const ls_executor *ex) { return ex->touched; }
int ls_executor_rank(const ls_executor *ex) { return ls_comm_rank(ex->comm); }
ls_pool *ls_executor_pool(const ls_executor *ex) { return ex->pool; }
const ls_image *ls_executor_image(const ls_executor *ex) { return ex->image; }

/* --- running ------------------------------------------------------------------------------------------------------ */

typedef struct run {
    ls_executor *ex;
    const ls_program *program;
    int index; /* of the program */
    ls_prepared_program *prepared;
    ls_cursor *cursor;
    int last_put;         /* the last one executed; -1: none */
    ls_result_place *bad; /* the first kernel result that is not finite; NULL: results are not inspected */
} run;

static int word_of(const run *r, const ls_instr *instr) { return ls_instr_word(r->program, instr); }

static uint64_t generation_of(const run *r, const ls_instr *instr) {
    return r->prepared->told[instr->channel] + ls_instr_generation(r->program, instr, r->cursor->runs);
}

static double number_at(const ls_view *v, int64_t i) {
    switch (v->dtype) {
    case LS_F32:
        return ((const float *)v->data)[i];
    case LS_F64:
        return ((const double *)v->data)[i];
    case LS_BF16:
        return (double)ls_bf16_to_f32(((const ls_bf16 *)v->data)[i]);
    default:
        return 0;
    }
}

/* Inspects dense results only. */
static void inspect(const run *r, const ls_instr *instr, const ls_kernel_call *call) {
    for (int o = 0; o < call->n_out && r->bad->instr < 0; o++) {
        const ls_view *v = &call->out[o];
        if (!ls_view_is_dense(v)) continue;
        const bool may_be_nothing = (ls_contracts[instr->kernel->id].minus_inf >> o & 1) != 0;
        for (int64_t i = 0, n = ls_view_elements(v); i < n; i++) {
            const double x = number_at(v, i);
            if (isfinite(x) || (may_be_nothing && x == -INFINITY)) continue;
            *r->bad = (ls_result_place){.instr = (int)(instr - r->program->instrs), .output = o};
            break;
        }
    }
}

static void execute(run *r, const ls_instr *instr, ls_prepared *prepared) {
    ls_executor *ex = r->ex;
    if (instr->kind == LS_INSTR_KERNEL) {
        instr->kernel->run(&prepared->call, prepared->state, ex->pool);
        if (r->bad != NULL && r->bad->instr < 0) inspect(r, instr, &prepared->call);
    } else if (instr->kind == LS_INSTR_PUT) {
        const double start = ls_seconds();
        const void *source = ex->base[ex->image->buffers[instr->in[0].buffer].space];
        prepared->ticket = ls_comm_put_signal(ex->comm, prepared->peer, &prepared->to, source, &prepared->from,
                                              word_of(r, instr), generation_of(r, instr));
        r->last_put = (int)(instr - r->program->instrs);
        ex->times.copying += ls_seconds() - start;
    } else if (ls_traits(instr)->sets) {
        ls_comm_signal(ex->comm, prepared->peer, word_of(r, instr), generation_of(r, instr));
    }
}

static void record(const run *r, int instr, double begin, double end) {
    trace_add(r->ex->trace, (ls_span_time){begin, end, r->index, instr, r->prepared->runs});
}

static void execute_traced(run *r, int queue, int i) {
    double *held = &r->prepared->held[queue];
    const double begin = *held > 0 ? *held : ls_seconds();
    execute(r, &r->program->instrs[i], &r->prepared->instrs[i]);
    record(r, i, begin, ls_seconds());
    *held = 0;
}

static uint64_t ticket_of(const run *r, int put) { return r->prepared->instrs[put].ticket; }

/* Whether nothing holds up the head of a queue; asks whether the puts are done that it comes after. */
static bool may_start(const run *r, int queue) {
    const ls_after *obstacle;
    while ((obstacle = ls_cursor_obstacle(r->cursor, queue)) != NULL) {
        if (!ls_cursor_awaits_puts(r->cursor, obstacle) || !ls_comm_done(r->ex->comm, ticket_of(r, obstacle->instr)))
            return false;
        ls_cursor_complete(r->cursor, obstacle->queue, obstacle->instr);
    }
    return true;
}

/* Executes the head of a queue if nothing blocks it; else returns false. */
static bool step(run *r, int queue) {
    const int i = ls_cursor_head(r->cursor, queue);
    if (i < 0 || !may_start(r, queue)) return false;
    const ls_instr *instr = &r->program->instrs[i];
    if (ls_traits(instr)->awaits && !ls_comm_test(r->ex->comm, word_of(r, instr), generation_of(r, instr))) {
        double *held = &r->prepared->held[queue];
        if (r->ex->trace != NULL && *held == 0) *held = ls_seconds();
        return false;
    }
    if (r->ex->trace == NULL)
        execute(r, instr, &r->prepared->instrs[i]);
    else
        execute_traced(r, queue, i);
    ls_comm_tick(r->ex->comm);
    ls_cursor_advance(r->cursor, queue);
    return true;
}

/*
 * Executes what can be executed now; false: nothing. Compute goes last and only one instruction far: other ranks wait
 * for puts.
 */
static bool step_all(run *r) {
    bool moved = false;
    for (int q = r->program->queues - 1; q > LS_COMPUTE; q--) {
        while (step(r, q)) moved = true;
    }
    return step(r, LS_COMPUTE) || moved;
}

/* What holds up a rank that can execute nothing. */
typedef struct standstill {
    int waits;     /* of the heads, for words or puts, in ls_prepared_program.awaited */
    int word, put; /* the last of these instructions that await a word, and the last put that is not done; -1: none */
} standstill;

/* Where no head waits, all queues are through and the last put is not done. */
static standstill find_standstill(const run *r) {
    standstill s = {.word = -1, .put = -1};
    ls_awaited *awaited = r->prepared->awaited;
    for (int q = 0; q < r->program->queues; q++) {
        const int i = ls_cursor_head(r->cursor, q);
        const ls_after *obstacle = i < 0 ? NULL : ls_cursor_obstacle(r->cursor, q);
        if (obstacle != NULL && ls_cursor_awaits_puts(r->cursor, obstacle)) {
            s.put = obstacle->instr;
            awaited[s.waits++] = (ls_awaited){-1, ticket_of(r, s.put)};
        } else if (i >= 0 && obstacle == NULL) {
            const ls_instr *instr = &r->program->instrs[i];
            s.word = i;
            awaited[s.waits++] = (ls_awaited){word_of(r, instr), generation_of(r, instr)};
        }
    }
    if (s.waits > 0) return s;
    s.put = r->last_put;
    awaited[s.waits++] = (ls_awaited){-1, ticket_of(r, s.put)};
    return s;
}

/*
 * Spins, then sleeps, until something arrives or a put is done. LS_PEER if the awaited peer has died or makes no
 * progress.
 */
static ls_status sleep_until_bell(run *r, uint32_t bell) {
    const standstill s = find_standstill(r);
    if (ls_comm_spin(r->ex->comm, r->prepared->awaited, s.waits)) return ls_ok();
    const int number = s.word >= 0 ? s.word : s.put;
    const ls_instr *instr = &r->program->instrs[number];
    char missing[64] = "not done", awaiting[256];
    if (s.word >= 0)
        snprintf(missing, sizeof missing, "expected generation %llu, seen %llu",
                 (unsigned long long)generation_of(r, instr),
                 (unsigned long long)ls_comm_word(r->ex->comm, word_of(r, instr)));
    snprintf(awaiting, sizeof awaiting, "program %s, instruction %d, %s \"%s\", %s", r->program->name, number,
             instr->op, r->program->channels[instr->channel].name, missing);
    return ls_comm_sleep(r->ex->comm, bell, r->prepared->instrs[number].peer, awaiting);
}

/* Whether all queues are through and all puts done. */
static bool has_ended(const run *r) {
    return ls_cursor_has_ended(r->cursor) && (r->last_put < 0 || ls_comm_done(r->ex->comm, ticket_of(r, r->last_put)));
}

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

static ls_status run_program(ls_executor *ex, int index, ls_result_place *bad) {
    LS_TRY(check_order(ex, index));
    ex->last = index;
    run r = {.ex = ex,
             .program = &ex->image->programs[index],
             .index = index,
             .prepared = &ex->programs[index],
             .cursor = &ex->programs[index].cursor,
             .last_put = -1,
             .bad = bad};
    const double start = ls_seconds();
    ls_cursor_begin(r.cursor, r.prepared->runs);
    for (;;) {
        const uint32_t bell = ls_comm_bell(ex->comm);
        if (step_all(&r)) continue;
        if (has_ended(&r)) break;
        const double asleep = ls_seconds();
        LS_TRY(sleep_until_bell(&r, bell));
        const double awake = ls_seconds();
        ex->times.waiting += awake - asleep;
        if (ex->trace != NULL) record(&r, LS_SPAN_ASLEEP, asleep, awake);
    }
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
