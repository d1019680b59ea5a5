/* The executor from its creation to its end: opens the device, exchanges addresses, prepares every kernel call once. */
#include "run/executor_impl.h"

#include <stdlib.h>
#include <unistd.h>

#define SECONDS_FOR_PUTS 0.5

/* --- preparing ---------------------------------------------------------------------------------------------------- */

/*
 * Bytes of a rank's heap in the world: for the programs, and for the notes before they run. If the device has messages,
 * programs use an arena of the device instead.
 */
static size_t find_heap(size_t used, int words, const ls_device_traits *device) {
    return ls_max(device->messages ? 0 : used, ls_exchange_heap(words));
}

static ls_status find_traits(const ls_image *image, ls_device_traits *out) {
    const char *name;
    return ls_device_choose(image->device, &name, out);
}

ls_status ls_world_for(const ls_image *image, const ls_rank_needs *needs, const char *transports, bool may_spin,
                       double wait_timeout, ls_world **out) {
    const int ranks = ls_mesh_ranks(&image->mesh);
    ls_device_traits device;
    LS_TRY(find_traits(image, &device));
    ls_rank_memory *all = calloc((size_t)ranks, sizeof *all);
    if (all == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate the sizes of %d heaps", ranks);
    const ls_rank_needs own = ls_needs_of(image);
    int words = 0;
    for (int r = 0; r < ranks; r++) words = (int)ls_max(words, needs != NULL ? needs[r].words : own.words);
    for (int r = 0; r < ranks; r++) {
        const ls_rank_needs *of = needs != NULL ? &needs[r] : &own;
        all[r].heap = find_heap(of->heap, words, &device);
        if (of->common > 0 && ls_image_sharers(image, r).holder == r) all[r].common = of->common;
    }
    const ls_world_options options = {
        .ranks = ranks, .memory = all, .words = words, .may_spin = may_spin, .wait_timeout = wait_timeout};
    const ls_status status = ls_world_create(transports, &options, out);
    free(all);
    return status;
}

/* The offset of an operand of this rank in its arena. */
static size_t place_of(const ls_executor *ex, const ls_operand *o) {
    return ex->image->buffers[o->buffer].offset + o->offset +
           ls_operand_displacement(ex->image, o, ls_executor_rank(ex));
}

/* The address of an operand for launches. */
static void *address_for_launch(const ls_executor *ex, const ls_operand *o) {
    return ex->arena[ex->image->buffers[o->buffer].space]->base + place_of(ex, o);
}

/* The address that the other end of the instruction's use told. */
static const ls_address *address_of(const ls_executor *ex, int program, const ls_instr *instr) {
    const ls_prepared_program *prepared = &ex->programs[program];
    return &prepared->addresses[ls_use_of(&prepared->uses, &ex->image->programs[program], instr)];
}

/* *out: the address of an operand in the memory of another rank, within a borrowed block. */
static ls_status resolve_in_place(const ls_executor *ex, int program, const ls_operand *o, void **out) {
    const int peer = ls_peer_rank(ex->image, o->peer, ls_executor_rank(ex));
    const char *name = ex->image->buffers[o->buffer].name;
    /* If the device has messages, the heap is in the device's own memory. */
    char *heap = ex->remotes == NULL ? ls_comm_peer_heap(ex->comm, peer) : NULL;
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

/* *out: the operand's view with its address, which may be in another rank's heap. */
static ls_status resolve(const ls_executor *ex, int program, const ls_operand *o, ls_view *out) {
    ls_view view = o->view;
    if (ls_peer_is_self(o->peer))
        view.data = address_for_launch(ex, o);
    else if (!ls_operand_is_empty(o))
        LS_TRY(resolve_in_place(ex, program, o, &view.data));
    *out = view;
    return ls_ok();
}

/* An earlier call whose state, or whose refusal by the kernel, is valid for this call too. NULL: there is none. */
static const ls_prepared *find_alike(const ls_executor *ex, const ls_kernel *wanted, const ls_kernel_call *call,
                                     uint64_t hash) {
    for (int i = ls_index_first(&ex->forms, hash); i >= 0; i = ls_index_next(&ex->forms, i))
        if (ex->form[i].wanted == wanted && wanted->shares(&ex->form[i].first->call, call)) return ex->form[i].first;
    return NULL;
}

/* Prepares the call by out->kernel; if it refuses, by the next kernel that fits, which becomes out->kernel. */
static ls_status prepare_call(const ls_executor *ex, ls_prepared *out) {
    for (;;) {
        const ls_kernel *kernel = out->kernel;
        const ls_status status = kernel->prepare != NULL ? kernel->prepare(&out->call, &out->state) : ls_ok();
        if (!kernel->refuses || (status.code != LS_UNSUPPORTED && status.code != LS_FAULT)) return status;
        const ls_kernel_request request = {.id = kernel->id,
                                           .dtype = kernel->dtype,
                                           .device = kernel->device,
                                           .isa = ex->image->isa,
                                           .call = &out->call,
                                           .choices = &ex->image->choices};
        out->kernel = ls_kernel_next(&request, kernel);
        if (out->kernel == NULL) return status;
        ls_log("%s; rank %d takes row %s for such calls", status.text, ls_executor_rank(ex),
               ls_kernel_row(out->kernel));
    }
}

/* Prepares the call by the wanted kernel; only once for all calls of a form if the kernel lets them share a state. */
static ls_status prepare_by(ls_executor *ex, const ls_kernel *wanted, ls_prepared *out) {
    out->kernel = wanted;
    if (wanted->shares == NULL) return prepare_call(ex, out);
    const uint64_t hash = ls_kernel_forms_hash(&out->call);
    const ls_prepared *alike = find_alike(ex, wanted, &out->call, hash);
    if (alike == NULL) {
        LS_TRY(prepare_call(ex, out));
        ls_index_add(&ex->forms, hash);
        *LS_PUSH(ex->memory, ex->form, ex->n_forms, ex->form_capacity) = (ls_call_form){wanted, out};
        return ls_ok();
    }
    out->kernel = alike->kernel;
    out->borrowed = alike->kernel == wanted;
    if (!out->borrowed) return prepare_call(ex, out);
    out->state = alike->state;
    return ls_ok();
}

/*
 * The image has the workspace that the kernel asked for at compile time; a kernel that needs more now would overrun it.
 */
static ls_status check_workspace(const ls_executor *ex, int program, const ls_instr *instr, const ls_prepared *p) {
    const size_t planned = instr->workspace->buffer >= 0 ? (size_t)ls_view_bytes(&instr->workspace->view) : 0;
    const size_t needed = p->kernel->workspace != NULL ? p->kernel->workspace(&p->call) : 0;
    if (needed <= planned) return ls_ok();
    return ls_error(LS_FAULT, "program %s, %s: its kernel needs a workspace of %zu bytes, and %zu are planned",
                    ex->image->programs[program].name, instr->op, needed, planned);
}

static ls_status prepare_kernel(ls_executor *ex, int program, const ls_instr *instr, ls_prepared *out) {
    ls_kernel_call *call = &out->call;
    const bool submits = ls_device_traits_of(ex->device)->submits;
    if ((instr->kernel->launch != NULL) != submits)
        return ls_error(LS_UNSUPPORTED,
                        "program %s, %s: its kernel is one for %s; expected one for %s, as the device is",
                        ex->image->programs[program].name, instr->op, submits ? "the host" : "a GPU",
                        submits ? "a GPU" : "the host");
    call->n_in = instr->n_in;
    call->n_out = instr->n_out;
    for (int i = 0; i < instr->n_in; i++) LS_TRY(resolve(ex, program, &instr->in[i], &call->in[i]));
    for (int i = 0; i < instr->n_out; i++) LS_TRY(resolve(ex, program, &instr->out[i], &call->out[i]));
    call->params = instr->params;
    call->threads = ex->image->threads;
    if (instr->workspace->buffer >= 0) call->workspace = address_for_launch(ex, instr->workspace);
    LS_TRY(prepare_by(ex, instr->kernel, out));
    return out->borrowed ? ls_ok() : check_workspace(ex, program, instr, out);
}

/* The instruction that gave to others the bytes that this one takes back; -1: this one takes nothing back. */
static int opening_of(const ls_program *program, const ls_instr *instr) {
    if (!ls_traits(instr)->closes) return -1;
    for (int i = (int)(instr - program->instrs) - 1; i >= 0; i--) {
        const ls_instr *other = &program->instrs[i];
        if (ls_traits(other)->opens && other->channel == instr->channel && other->generation == instr->generation)
            return i;
    }
    return -1;
}

/* Lists the accesses of an instruction to this rank's own memory, and to borrowed blocks of other ranks. */
static void prepare_accesses(ls_executor *ex, const ls_instr *instr, ls_prepared *out) {
    out->accesses = LS_NEW_ARRAY(ex->memory, ls_device_access, ls_instr_accesses(instr));
    for (int k = 0; k < ls_instr_accesses(instr); k++) {
        const ls_instr_access access = ls_instr_access_at(instr, k);
        const ls_operand *o = access.operand;
        if (ls_operand_is_empty(o) || access.kind == LS_ACCESS_PUT) continue;
        out->accesses[out->n_accesses++] =
            (ls_device_access){.arena = ex->arena[ex->image->buffers[o->buffer].space],
                               .owner = ls_peer_rank(ex->image, o->peer, ls_executor_rank(ex)),
                               .range = ls_operand_range(ex->image, o, ls_executor_rank(ex)),
                               .writes = ls_access_writes(&access)};
    }
}

/* LS_UNSUPPORTED unless messages of the device reach the peer. */
static ls_status check_reached(const ls_executor *ex, int peer) {
    if (ex->remotes == NULL || ex->remotes[peer].words != NULL) return ls_ok();
    const char *why = ex->remotes[peer].why;
    return ls_error(LS_UNSUPPORTED, "the device of rank %d does not reach rank %d: %s", ls_executor_rank(ex), peer,
                    why != NULL ? why : "they share no memory");
}

static ls_device_count count_of(const ls_executor *ex, int program, const ls_instr *put) {
    const ls_operand *count = ls_instr_count(put);
    if (count == NULL) return (ls_device_count){0};
    const ls_range at = ls_operand_range(ex->image, count, ls_executor_rank(ex));
    return (ls_device_count){ex->arena[ex->image->buffers[count->buffer].space]->source + at.offset, put->counted,
                             ex->image->programs[program].channels[put->channel].name};
}

static ls_status prepare_instr(ls_executor *ex, int program, const ls_instr *instr, ls_prepared *out) {
    out->peer = ls_peer_rank(ex->image, instr->peer, ls_executor_rank(ex));
    if (instr->kind != LS_INSTR_KERNEL) LS_TRY(check_reached(ex, out->peer));
    if (instr->kind == LS_INSTR_PUT) {
        out->from = ls_operand_range(ex->image, &instr->in[0], ls_executor_rank(ex));
        out->to = address_of(ex, program, instr)->range;
        out->count = count_of(ex, program, instr);
    }
    out->opening = -1;
    if (ls_device_traits_of(ex->device)->judges) {
        prepare_accesses(ex, instr, out);
        out->opening = opening_of(&ex->image->programs[program], instr);
    }
    return instr->kind == LS_INSTR_KERNEL ? prepare_kernel(ex, program, instr, out) : ls_ok();
}

static ls_status prepare_program(ls_executor *ex, int index) {
    const ls_program *p = &ex->image->programs[index];
    ls_prepared_program *prepared = &ex->programs[index];
    prepared->instrs = LS_NEW_ARRAY(ex->memory, ls_prepared, p->n_instrs);
    prepared->cursor = ls_cursor_make(p, ex->memory);
    prepared->held = LS_NEW_ARRAY(ex->memory, double, p->queues + 1);
    prepared->awaited = LS_NEW_ARRAY(ex->memory, ls_awaited, p->queues + 1);
    prepared->unfinished = LS_NEW_ARRAY(ex->memory, int, p->queues + 1);
    prepared->events = LS_NEW_ARRAY(ex->memory, ls_event, 2 * p->queues + 2);
    for (int i = 0; i < p->n_instrs; i++) LS_TRY(prepare_instr(ex, index, &p->instrs[i], &prepared->instrs[i]));
    return ls_ok();
}

/* The part of an arena that this rank touches: all of it, or this rank's share of common memory. */
static size_t part_to_touch(const ls_executor *ex, int space, char **start) {
    const size_t bytes = ex->image->bytes[space];
    *start = ex->arena[space]->source;
    if (space != LS_COMMON || bytes == 0) return bytes;
    const ls_sharers sharers = ls_image_sharers(ex->image, ls_executor_rank(ex));
    const size_t each = bytes / (size_t)sharers.n, first = each * (size_t)sharers.place;
    *start += first;
    return sharers.place + 1 == sharers.n ? bytes - first : each;
}

/* Touches the host's arenas before their first use, unless the machine has less memory available than they need. */
static void touch_arenas(ls_executor *ex) {
    size_t bytes[LS_SPACES], all = 0;
    char *start[LS_SPACES];
    for (int s = 0; s < LS_SPACES; s++) all += bytes[s] = part_to_touch(ex, s, &start[s]);
    if (!ls_device_traits_of(ex->device)->host_memory || all > ls_machine_available()) return;
    for (int s = 0; s < LS_SPACES; s++) ls_touch(start[s], bytes[s], ex->pool, ex->comm, &ex->touched);
}

/* Called from any thread of the device. */
static void wake(void *context) { ls_comm_wake(context); }

static int most_queues(const ls_image *image) {
    int most = 1;
    for (int p = 0; p < image->n_programs; p++) most = (int)ls_max(most, image->programs[p].queues);
    return most;
}

/* --- messages of the device and arenas ---------------------------------------------------------------------------- */

/* Seconds that a device's first message to a rank may take, because it sets up the route between hosts. */
#define SECONDS_FOR_FIRST_MESSAGE 30

static void *words_of(void *comm, int rank, size_t *bytes) { return ls_comm_words(comm, rank, bytes); }

static ls_status exchange_bytes(void *comm, const void *mine, size_t bytes, void *all) {
    return ls_comm_exchange(comm, mine, bytes, all);
}

/* Collective. */
static ls_status connect_device(ls_executor *ex, size_t heap_bytes) {
    const ls_device_ranks ranks = {.rank = ls_executor_rank(ex),
                                   .ranks = ls_comm_size(ex->comm),
                                   .patience = SECONDS_FOR_FIRST_MESSAGE,
                                   .words = words_of,
                                   .exchange = exchange_bytes,
                                   .context = ex->comm};
    ex->remotes = LS_NEW_ARRAY(ex->memory, ls_device_remote, ranks.ranks);
    return ls_device_connect(ex->device, &ranks, heap_bytes, &ex->arena[LS_SYMMETRIC], ex->remotes);
}

/* Adopts the memory that this rank has in common with others of its host, in the segment of one of them. */
static ls_status adopt_common(ls_executor *ex, size_t bytes) {
    if (bytes == 0)
        return ls_device_allocate_host(ex->device, 0, &ex->arena[LS_COMMON]); /* there is no common memory */
    const int holder = ls_image_sharers(ex->image, ls_executor_rank(ex)).holder;
    char *memory = ls_comm_common(ex->comm, holder);
    if (memory == NULL)
        return ls_error(LS_UNSUPPORTED,
                        "rank %d has parameters in common with rank %d, whose memory cannot be addressed from here",
                        ls_executor_rank(ex), holder);
    return ls_device_adopt(ex->device, memory, bytes, &ex->arena[LS_COMMON]);
}

/* Makes all arenas, before any launch. The heap is the world's, or the device's own if it has messages. */
static ls_status make_arenas(ls_executor *ex) {
    const size_t *bytes = ex->image->bytes;
    LS_TRY(ls_device_allocate(ex->device, bytes[LS_PRIVATE], &ex->arena[LS_PRIVATE]));
    LS_TRY(ls_device_allocate_host(ex->device, bytes[LS_HOST], &ex->arena[LS_HOST]));
    LS_TRY(adopt_common(ex, bytes[LS_COMMON]));
    if (!ls_device_traits_of(ex->device)->messages)
        return ls_device_adopt(ex->device, ls_comm_heap(ex->comm), ls_comm_heap_bytes(ex->comm),
                               &ex->arena[LS_SYMMETRIC]);
    return connect_device(ex, bytes[LS_SYMMETRIC]);
}

static ls_status prepare_all(ls_executor *ex) {
    for (int p = 0; p < ex->image->n_programs; p++) LS_TRY(prepare_program(ex, p));
    return ls_executor_fill_tables(ex);
}

/*
 * Recordings refer to memory of peers, so all ranks, also those that fail, keep theirs until all recordings are made.
 * To make a recording or to load kernels may wait until everything launched on the same device has been executed, so no
 * rank runs a program before all ranks have done this.
 */
static ls_status record_all(ls_executor *ex, ls_status prepared) {
    const ls_device_traits *device = ls_device_traits_of(ex->device);
    if (!device->records && !device->loads) return prepared;
    LS_TRY(ls_comm_agree(ex->comm, prepared));
    return ls_comm_agree(ex->comm, ls_executor_record_programs(ex));
}

static ls_status set_up(ls_executor *ex, bool may_spin) {
    ls_device_traits device;
    LS_TRY(find_traits(ex->image, &device));
    const size_t heap = find_heap(ex->image->bytes[LS_SYMMETRIC], ls_comm_word_count(ex->comm), &device);
    if (heap > ls_comm_heap_bytes(ex->comm))
        return ls_error(LS_INVALID, "the programs of rank %d need a heap of %zu bytes; the world's has %zu",
                        ls_executor_rank(ex), heap, ls_comm_heap_bytes(ex->comm));
    ls_machine_unbind(ex->image->threads);
    LS_TRY(ls_pool_create(ex->image->threads, may_spin, &ex->pool));
    ex->queues = most_queues(ex->image);
    const ls_device_options options = {.rank = ls_executor_rank(ex),
                                       .queues = device.messages ? ex->queues : 2 * ex->queues,
                                       .machine_rank = ls_comm_machine_rank(ex->comm),
                                       .pool = ex->pool,
                                       .wake = wake,
                                       .context = ex->comm};
    LS_TRY(ls_device_open(ex->image->device, &options, &ex->device));
    LS_TRY(make_arenas(ex));
    touch_arenas(ex);
    LS_TRY(ls_executor_exchange(ex));
    return record_all(ex, prepare_all(ex));
}

ls_status ls_executor_create(const ls_image *image, ls_comm *comm, ls_executor **out) {
    ls_arena *memory = ls_arena_create();
    ls_executor *ex = LS_NEW(memory, ls_executor);
    ex->memory = memory;
    ex->image = image;
    ex->comm = comm;
    ex->programs = LS_NEW_ARRAY(memory, ls_prepared_program, image->n_programs);
    ex->stage = ls_arena_alloc(memory, LS_STAGE_BYTES);
    ex->last = LS_FIRST;
    ex->forms.arena = memory;
    ls_machine machine;
    ls_machine_detect(&machine);
    const ls_status status = set_up(ex, ls_comm_machine_ranks(comm) * image->threads <= machine.cores);
    if (status.code != LS_OK) {
        ls_executor_destroy(ex);
        return status;
    }
    ex->complete = true;
    *out = ex;
    return ls_ok();
}

/* Whether all puts are done. Waits for a while, because puts of a run that failed may still be under way. */
static bool puts_are_done(const ls_executor *ex) {
    const double began = ls_seconds();
    while (!ls_comm_idle(ex->comm)) {
        if (ls_seconds() - began > SECONDS_FOR_PUTS) return false;
        usleep(1000);
    }
    return true;
}

void ls_executor_fail(ls_executor *ex) { ex->failed = true; }

static void release_states(const ls_executor *ex) {
    for (int p = 0; p < ex->image->n_programs; p++) {
        for (int i = 0; i < ex->image->programs[p].n_instrs && ex->programs[p].instrs != NULL; i++) {
            const ls_prepared *prepared = &ex->programs[p].instrs[i];
            if (prepared->state != NULL && !prepared->borrowed && prepared->kernel->release != NULL)
                prepared->kernel->release(prepared->state);
        }
    }
}

void ls_executor_destroy(ls_executor *ex) {
    if (ex == NULL) return;
    /* A put to a lost rank may never be done, but may still read its source at any time, so the memory stays. */
    if (!puts_are_done(ex)) return;
    if (ex->failed && ex->arena[LS_SYMMETRIC] != NULL && ex->remotes != NULL)
        ls_device_leave(ex->device, ex->arena[LS_SYMMETRIC]);
    /* Launches of a run that failed may still use the states. To release the states, the device must still exist. */
    if (ex->device == NULL || ls_device_stop(ex->device)) release_states(ex);
    (ex->complete ? ls_device_close : ls_device_close_alone)(ex->device);
    ls_pool_destroy(ex->pool);
    ls_trace_destroy(ex->trace);
    ls_arena_destroy(ex->memory);
}
