/* The builder: buffers, kernel calls, transfers. Every instruction of every program is made here. */
#include "compile/compile_impl.h"
#include "program/program.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void ls_build_fail(ls_builder *b, ls_status status) {
    if (b->status.code == LS_OK) b->status = status;
}

int ls_build_buffer(ls_builder *b, ls_space space, ls_buffer_kind kind, size_t bytes, const char *name) {
    ls_image *image = b->image;
    ls_buffer *buffer = LS_PUSH(image->arena, image->buffers, image->n_buffers, image->buffer_capacity);
    *buffer = (ls_buffer){.name = name,
                          .space = space,
                          .kind = kind,
                          .bytes = bytes,
                          .program = ls_build_program(b),
                          .first = -1,
                          .last = -1,
                          .flat = -1};
    return image->n_buffers - 1;
}

static int64_t elements(int ndim, const int64_t *size) {
    int64_t n = 1;
    for (int i = 0; i < ndim; i++) n *= size[i];
    return n;
}

ls_operand ls_build_private(ls_builder *b, ls_buffer_kind kind, const char *name, ls_dtype dtype, int ndim,
                            const int64_t *size) {
    const size_t bytes = (size_t)elements(ndim, size) * ls_dtype_bytes(dtype);
    return ls_operand_dense(ls_build_buffer(b, LS_PRIVATE, kind, bytes, name), 0, dtype, ndim, size);
}

ls_operand ls_build_symmetric(ls_builder *b, ls_buffer_kind kind, const char *name, int64_t capacity, ls_dtype dtype,
                              int ndim, const int64_t *size) {
    LS_ASSERT(elements(ndim, size) <= capacity);
    const int buffer = ls_build_buffer(b, LS_SYMMETRIC, kind, (size_t)capacity * ls_dtype_bytes(dtype), name);
    return ls_operand_dense(buffer, 0, dtype, ndim, size);
}

static const ls_operand no_operand = {.buffer = -1};

static ls_operand *keep(ls_builder *b, const ls_operand *operands, int n) {
    return n > 0 ? ls_arena_copy(b->image->arena, operands, sizeof *operands * (size_t)n) : NULL;
}

static ls_instr *push(ls_builder *b, ls_instr_kind kind, ls_queue queue, const char *op) {
    ls_program *p = b->program;
    ls_instr *instr = LS_PUSH(b->scratch, p->instrs, p->n_instrs, p->instr_capacity);
    instr->kind = kind;
    instr->queue = (int)queue;
    p->queues = (int)ls_max(p->queues, instr->queue + 1);
    instr->op = op;
    instr->workspace = &no_operand;
    instr->channel = -1;
    return instr;
}

/* A buffer for the workspace that the kernel needs in this call. */
static const ls_operand *workspace_of(ls_builder *b, const ls_kernel *kernel, const ls_kernel_request *request,
                                      size_t params_bytes) {
    const size_t bytes = ls_workspace_bytes(b, kernel, request, params_bytes);
    if (bytes == 0) return &no_operand;
    const int64_t size = (int64_t)ls_ceil_div((int64_t)bytes, 4);
    const ls_operand made = ls_build_private(b, LS_BUFFER_WORKSPACE, "workspace", LS_F32, 1, &size);
    return keep(b, &made, 1);
}

/* The call as the kernel will get it, but without data. */
static ls_kernel_call shapes_of(const ls_builder *b, const ls_kernel_build *k) {
    ls_kernel_call call = {.n_in = k->n_in, .n_out = k->n_out, .threads = b->target->threads};
    for (int i = 0; i < k->n_in; i++) call.in[i] = k->in[i].view;
    for (int i = 0; i < k->n_out; i++) call.out[i] = k->out[i].view;
    if (k->params_bytes > 0) call.params = ls_arena_copy(b->image->arena, k->params, k->params_bytes);
    return call;
}

void ls_build_kernel(ls_builder *b, const ls_kernel_build *k) {
    if (b->status.code != LS_OK) return;
    const ls_kernel_call call = shapes_of(b, k);
    const ls_kernel_request request = {.id = k->kernel,
                                       .dtype = k->dtype,
                                       .device = b->image->kernels,
                                       .isa = b->target->isa,
                                       .call = &call,
                                       .choices = &b->image->choices};
    const ls_kernel *kernel;
    const ls_status status = ls_kernel_find(&request, &kernel);
    if (status.code != LS_OK) {
        ls_build_fail(b, status);
        return;
    }
    ls_instr *instr = push(b, LS_INSTR_KERNEL, k->queue, k->op);
    instr->kernel = kernel;
    const double each = ls_contracts[k->kernel].flops;
    instr->flops = each > 0 ? each * (double)ls_view_elements(&k->in[0].view) : k->flops;
    instr->rows = k->rows;
    instr->params = call.params;
    instr->n_in = k->n_in;
    instr->n_out = k->n_out;
    instr->in = keep(b, k->in, k->n_in);
    instr->out = keep(b, k->out, k->n_out);
    instr->workspace = workspace_of(b, kernel, &request, k->params_bytes);
}

static void build_unary(ls_builder *b, ls_queue queue, ls_kernel_id kernel, ls_dtype dtype, ls_operand from,
                        ls_operand to) {
    ls_build_kernel(b, &(ls_kernel_build){.queue = queue,
                                          .op = ls_contracts[kernel].name,
                                          .kernel = kernel,
                                          .dtype = dtype,
                                          .n_in = 1,
                                          .n_out = 1,
                                          .in = {from},
                                          .out = {to}});
}

void ls_build_copy(ls_builder *b, ls_operand from, ls_operand to) {
    build_unary(b, LS_COMPUTE, LS_KERNEL_COPY, from.view.dtype, from, to);
}

void ls_build_cast(ls_builder *b, ls_operand from, ls_operand to) {
    build_unary(b, LS_COMPUTE, from.view.dtype == to.view.dtype ? LS_KERNEL_COPY : LS_KERNEL_CAST, from.view.dtype,
                from, to);
}

void ls_build_accumulate(ls_builder *b, ls_operand from, ls_operand to) {
    build_unary(b, LS_COMPUTE, LS_KERNEL_ACCUMULATE, from.view.dtype, from, to);
}

void ls_build_offload(ls_builder *b, ls_operand from, ls_operand to) {
    build_unary(b, LS_LINK, LS_KERNEL_OFFLOAD, from.view.dtype, from, to);
}

void ls_build_fetch(ls_builder *b, ls_operand from, ls_operand to) {
    build_unary(b, LS_LINK, LS_KERNEL_FETCH, from.view.dtype, from, to);
}

void ls_build_add_rows(ls_builder *b, ls_operand rows, int64_t n, ls_operand to) {
    const int64_t count = ls_view_elements(&rows.view) / n;
    LS_ASSERT(rows.displacement == 0 && ls_view_is_dense(&rows.view));
    ls_build_kernel(b, &(ls_kernel_build){.op = "add_rows",
                                          .kernel = LS_KERNEL_ADD_ROWS,
                                          .dtype = rows.view.dtype,
                                          .flops = (double)((n - 1) * count),
                                          .n_in = 1,
                                          .in = {ls_operand_dense(rows.buffer, rows.offset, rows.view.dtype, 2,
                                                                  (int64_t[]){n, count})},
                                          .n_out = 1,
                                          .out = {to}});
}

void ls_build_fill(ls_builder *b, ls_operand to) {
    ls_build_kernel(
        b, &(ls_kernel_build){.op = "fill", .kernel = LS_KERNEL_FILL, .dtype = to.view.dtype, .n_out = 1, .out = {to}});
}

/* --- transfers ---------------------------------------------------------------------------------------------------- */

int ls_build_channel(ls_builder *b, const char *format, ...) {
    char name[96];
    va_list args;
    va_start(args, format);
    ls_vprint(name, sizeof name, format, args);
    va_end(args);
    ls_program *p = b->program;
    const uint64_t hash = ls_hash_bytes(name, strlen(name));
    for (int c = ls_index_first(&b->channels.names, hash); c >= 0; c = ls_index_next(&b->channels.names, c))
        if (strcmp(p->channels[c].name, name) == 0 && b->channels.words[c].common >= b->channels.common) return c;
    ls_index_add(&b->channels.names, hash);
    ls_channel *channel = LS_PUSH(b->image->arena, p->channels, p->n_channels, p->channel_capacity);
    channel->name = ls_arena_strdup(b->image->arena, name);
    LS_PUSH(b->scratch, b->channels.words, b->channels.n, b->channels.capacity)->common = b->channels.common;
    return p->n_channels - 1;
}

/* Signals are put on the compute queue, since what they report happens there; puts and waits on the copy queue. */
static ls_instr *push_word(ls_builder *b, ls_instr_kind kind, int channel, ls_peer peer, uint64_t generation,
                           ls_epoch epoch) {
    const ls_instr_traits *traits = &ls_instr_traits_of[kind];
    ls_instr *instr = push(b, kind, traits->sets && !traits->moves ? LS_COMPUTE : LS_COPY, traits->name);
    instr->channel = channel;
    instr->peer = peer;
    instr->generation = generation;
    instr->epoch = epoch;
    return instr;
}

static ls_channel_calls *calls_of(const ls_builder *b, ls_instr_kind kind, int channel) {
    struct ls_channel_words *words = &b->channels.words[channel];
    return ls_instr_traits_of[kind].free ? &words->free : &words->data;
}

/* An instruction that sets the channel's word; NULL: its subject is empty, and only its epoch is recorded. */
static ls_instr *set_word(ls_builder *b, ls_instr_kind kind, int channel, ls_peer peer, const ls_operand *subject) {
    ls_channel_calls *calls = calls_of(b, kind, channel);
    b->channels.epoch.step++;
    *LS_PUSH(b->scratch, calls->set, calls->n_set, calls->capacity) = b->channels.epoch;
    return ls_operand_is_empty(subject) ? NULL : push_word(b, kind, channel, peer, ++calls->sets, b->channels.epoch);
}

/*
 * An instruction that awaits the channel's word. All ranks of a channel make the same calls in the same order, so the
 * epoch in which the peer sets this word is that of this rank's own call.
 */
static ls_instr *await_word(ls_builder *b, ls_instr_kind kind, int channel, ls_peer peer, const ls_operand *subject) {
    ls_channel_calls *calls = calls_of(b, kind, channel);
    LS_ASSERT(calls->n_awaited < calls->n_set);
    const ls_epoch epoch = calls->set[calls->n_awaited++];
    return ls_operand_is_empty(subject) ? NULL : push_word(b, kind, channel, peer, ++calls->awaits, epoch);
}

/* Gives the instruction its only operand, the subject of the transfer. */
static void tell_in(ls_builder *b, ls_instr *instr, ls_operand operand) {
    if (instr == NULL) return;
    instr->n_in = 1;
    instr->in = keep(b, &operand, 1);
}

static size_t row_bytes(const ls_operand *rows) {
    LS_ASSERT(ls_view_is_dense(&rows->view) && rows->view.ndim > 0);
    return ls_view_bytes(&rows->view) / (size_t)rows->view.size[0];
}

static void tell_out(ls_builder *b, ls_instr *instr, ls_operand operand) {
    if (instr == NULL) return;
    instr->n_out = 1;
    instr->out = keep(b, &operand, 1);
}

void ls_build_grant(ls_builder *b, int channel, ls_peer sender, ls_operand slot) {
    tell_out(b, set_word(b, LS_INSTR_GRANT, channel, sender, &slot), slot);
}

void ls_build_send(ls_builder *b, int channel, ls_peer receiver, ls_operand from, ls_operand to) {
    LS_ASSERT(ls_view_elements(&from.view) == ls_view_elements(&to.view) && from.view.dtype == to.view.dtype);
    (void)await_word(b, LS_INSTR_ACQUIRE, channel, receiver, &to);
    ls_instr *put = set_word(b, LS_INSTR_PUT, channel, receiver, &to);
    tell_in(b, put, from);
    tell_out(b, put, to);
}

void ls_build_receive(ls_builder *b, int channel, ls_peer sender, ls_operand slot) {
    tell_out(b, await_word(b, LS_INSTR_RECEIVE, channel, sender, &slot), slot);
}

void ls_build_send_rows(ls_builder *b, int channel, ls_peer receiver, ls_operand from, ls_operand to, ls_operand count,
                        double likely) {
    LS_ASSERT(ls_view_same_form(&from.view, &to.view) && from.view.dtype == to.view.dtype);
    (void)await_word(b, LS_INSTR_ACQUIRE, channel, receiver, &to);
    ls_instr *put = set_word(b, LS_INSTR_PUT, channel, receiver, &to);
    tell_out(b, put, to);
    if (put == NULL) return;
    put->n_in = 2;
    put->in = keep(b, (const ls_operand[]){from, count}, 2);
    put->counted = row_bytes(&to);
    put->likely = likely * (double)put->counted;
}

void ls_build_receive_rows(ls_builder *b, int channel, ls_peer sender, ls_operand slot) {
    ls_instr *receive = await_word(b, LS_INSTR_RECEIVE, channel, sender, &slot);
    tell_out(b, receive, slot);
    if (receive != NULL) receive->counted = row_bytes(&slot);
}

void ls_build_grant_at(ls_builder *b, int channel, ls_peer sender, ls_operand slot, ls_epoch granted) {
    ls_channel_calls *calls = calls_of(b, LS_INSTR_GRANT, channel);
    if (!ls_operand_is_empty(&slot))
        tell_out(b, push_word(b, LS_INSTR_GRANT, channel, sender, ++calls->sets, granted), slot);
}

void ls_build_send_at(ls_builder *b, int channel, ls_peer receiver, ls_operand from, ls_operand to, ls_epoch granted,
                      ls_epoch sent) {
    if (ls_operand_is_empty(&from)) return;
    ls_channel_calls *free = calls_of(b, LS_INSTR_ACQUIRE, channel), *data = calls_of(b, LS_INSTR_PUT, channel);
    (void)push_word(b, LS_INSTR_ACQUIRE, channel, receiver, ++free->awaits, granted);
    ls_instr *put = push_word(b, LS_INSTR_PUT, channel, receiver, ++data->sets, sent);
    tell_in(b, put, from);
    tell_out(b, put, to);
}

void ls_build_receive_at(ls_builder *b, int channel, ls_peer sender, ls_operand slot, ls_epoch sent, double behind) {
    ls_channel_calls *calls = calls_of(b, LS_INSTR_RECEIVE, channel);
    if (ls_operand_is_empty(&slot)) return;
    ls_instr *instr = push_word(b, LS_INSTR_RECEIVE, channel, sender, ++calls->awaits, sent);
    instr->timed = true;
    instr->behind = behind;
    tell_out(b, instr, slot);
}

void ls_build_lease(ls_builder *b, int channel, ls_peer reader, ls_operand block) {
    tell_in(b, set_word(b, LS_INSTR_LEASE, channel, reader, &block), block);
}

void ls_build_borrow(ls_builder *b, int channel, ls_operand block) {
    tell_out(b, await_word(b, LS_INSTR_BORROW, channel, block.peer, &block), block);
}

void ls_build_return(ls_builder *b, int channel, ls_operand block) {
    tell_out(b, set_word(b, LS_INSTR_RETURN, channel, block.peer, &block), block);
}

void ls_build_reclaim(ls_builder *b, int channel, ls_peer reader, ls_operand block) {
    tell_in(b, await_word(b, LS_INSTR_RECLAIM, channel, reader, &block), block);
}

/* --- a program ---------------------------------------------------------------------------------------------------- */

void ls_build_begin_program(ls_builder *b, ls_program *program) {
    b->program = program;
    b->scratch = ls_arena_create();
    b->channels = (ls_channels){.names.arena = b->scratch, .common = true};
    program->queues = LS_COPY + 1; /* and LS_LINK, once something is put on it */
    program->first_word = b->image->words;
}

/* Moves the channels that ranks of all stages have to the front. */
static void sort_channels(const ls_builder *b) {
    ls_program *p = b->program;
    int *place = LS_NEW_ARRAY(b->scratch, int, b->channels.n + 1), n = 0;
    ls_channel *sorted = LS_NEW_ARRAY(b->image->arena, ls_channel, p->n_channels + 1);
    for (int common = 1; common >= 0; common--) {
        for (int c = 0; c < b->channels.n; c++) {
            if (b->channels.words[c].common != common) continue;
            sorted[n] = p->channels[c];
            place[c] = n++;
        }
        if (common) p->n_common = n;
    }
    p->channels = sorted;
    for (int i = 0; i < p->n_instrs; i++)
        if (p->instrs[i].channel >= 0) p->instrs[i].channel = place[p->instrs[i].channel];
}

static void end_channels(const ls_builder *b) {
    for (int c = 0; c < b->channels.n; c++) {
        const ls_channel_calls *data = &b->channels.words[c].data, *free = &b->channels.words[c].free;
        LS_ASSERT(data->n_set == data->n_awaited && free->n_set == free->n_awaited);
        /* Each end sets one of the channel's words and awaits the other, once for each use. */
        LS_ASSERT(data->sets == free->awaits && free->sets == data->awaits);
        b->program->channels[c].uses[LS_SIDE_SENDS] = data->sets;
        b->program->channels[c].uses[LS_SIDE_RECEIVES] = data->awaits;
    }
    sort_channels(b);
    b->image->words += 2 * b->program->n_common;
}

void ls_build_end_words(ls_builder *b) {
    for (int p = 0; p < b->image->n_programs; p++) {
        ls_program *program = &b->image->programs[p];
        program->own_word = b->image->words;
        b->image->words += 2 * (program->n_channels - program->n_common);
    }
}

void ls_build_end_program(ls_builder *b) {
    ls_program *p = b->program;
    if (b->status.code == LS_OK) end_channels(b);
    p->instrs = ls_arena_copy(b->image->arena, p->instrs, sizeof *p->instrs * (size_t)p->n_instrs);
    p->instr_capacity = (size_t)p->n_instrs;
    ls_arena_destroy(b->scratch);
    b->scratch = NULL;
    b->channels = (ls_channels){0};
}
