/* Bindings, pieces, cost and the frame of a program. */
#include "program/program.h"

#include <string.h>

void ls_image_destroy(ls_image *image) {
    if (image != NULL) ls_arena_destroy(image->arena);
}

const ls_binding *ls_image_find(const ls_image *image, const char *name) {
    for (int i = 0; i < image->n_bindings; i++) {
        if (strcmp(image->bindings[i].name, name) == 0) return &image->bindings[i];
    }
    return NULL;
}

const char *ls_micro_name(const char *name, int micro, char out[LS_MICRO_NAME]) {
    ls_print(out, LS_MICRO_NAME, micro > 0 ? "%s of micro-batch %d" : "%s", name, micro);
    return out;
}

const ls_binding *ls_image_find_micro(const ls_image *image, const char *name, int64_t micro_batch, int slice) {
    char own[LS_MICRO_NAME];
    const int micro = (int)(micro_batch % image->micro_batches);
    return ls_image_find(image, ls_micro_name(name, micro * image->slices + slice, own));
}

ls_operand ls_image_elements(const ls_image *image, const char *name, int64_t start, int64_t count) {
    const ls_binding *binding = ls_image_find(image, name);
    return binding == NULL ? (ls_operand){.buffer = -1} : ls_operand_elements(binding->operand, start, count);
}

ls_flat_piece ls_image_piece(const ls_image *image, int k, int rank) {
    ls_flat_piece piece = image->pieces[k];
    piece.start += ls_team_place(&image->owners, rank) * piece.count;
    return piece;
}

ls_flat_piece ls_piece_within(const ls_flat_piece *piece, int64_t start, int64_t count) {
    const int64_t from = ls_max(start, piece->start);
    const int64_t to = ls_min(start + count, piece->start + piece->count);
    if (from >= to) return (ls_flat_piece){0, 0, 0};
    return (ls_flat_piece){from, to - from, piece->at + from - piece->start};
}

int64_t ls_binding_base(const ls_image *image, const ls_binding *binding) {
    const ls_flat_piece *first = &image->pieces[binding->first];
    return binding->past == 0 ? 0 : binding->sharded ? first->at : first->start;
}

const char *ls_flat_values(const ls_image *image, const ls_flat *flat) {
    return flat->dtype != image->dtype ? LS_BIND_KEPT : flat->trained ? LS_BIND_PARAMETERS : LS_BIND_FROZEN;
}

ls_flat_piece ls_image_held(const ls_image *image, const ls_binding *binding, int k, int rank) {
    if (k < binding->first || k >= binding->past) return (ls_flat_piece){0, 0, 0};
    ls_flat_piece piece = ls_image_piece(image, k, rank);
    if (binding->sharded) {
        piece.at -= ls_binding_base(image, binding);
        return piece;
    }
    const ls_flat_piece *first = &image->pieces[k];
    return (ls_flat_piece){first->start, first->count * ls_team_size(&image->owners),
                           first->start - ls_binding_base(image, binding)};
}

ls_operand ls_image_part(const ls_image *image, const char *name, const ls_flat_piece *part) {
    const ls_binding *binding = ls_image_find(image, name);
    if (binding == NULL) return (ls_operand){.buffer = -1};
    const int64_t at = (binding->sharded ? part->at : part->start) - ls_binding_base(image, binding);
    return ls_operand_slice(binding->operand, 0, at, part->count);
}

/* The name of the bound tensor in which the values of bucket k lie. */
static const char *values_of_bucket(const ls_image *image, int k) {
    return k >= image->n_typed_pieces     ? LS_BIND_KEPT
           : k >= image->n_trained_pieces ? LS_BIND_FROZEN
                                          : LS_BIND_PARAMETERS;
}

ls_operand ls_image_master(const ls_image *image, const ls_flat_piece *part) {
    const bool apart = image->dtype != image->accumulator && part->start < image->trained_elements;
    int k = image->n_pieces - 1;
    while (k > 0 && part->start < image->pieces[k].start) k--;
    const ls_operand master = ls_image_part(image, apart ? LS_BIND_MASTER : values_of_bucket(image, k), part);
    LS_ASSERT(master.buffer >= 0);
    return master;
}

static double bytes_in_place(const ls_instr *instr) {
    double bytes = 0;
    for (int k = 0; k < ls_instr_operands(instr) && instr->kind == LS_INSTR_KERNEL; k++) {
        const ls_instr_access access = ls_instr_access_at(instr, k);
        const ls_operand *o = access.operand;
        if (access.kind != LS_ACCESS_READ || o->buffer < 0 || ls_peer_is_self(o->peer)) continue;
        const ls_range range = ls_view_range(&o->view, 0);
        bytes += (double)ls_range_bytes(&range);
    }
    return bytes;
}

ls_program_cost ls_program_measure(const ls_image *image, int program) {
    const ls_program *p = &image->programs[program];
    ls_program_cost cost = {0};
    for (int i = 0; i < p->n_instrs; i++) {
        const ls_instr *instr = &p->instrs[i];
        cost.flops += instr->flops;
        cost.kernels += instr->kind == LS_INSTR_KERNEL;
        cost.bytes_read += bytes_in_place(instr);
        if (instr->kind == LS_INSTR_PUT && !ls_peer_is_self(instr->peer)) {
            const ls_range range = ls_view_range(&instr->in[0].view, 0);
            cost.bytes_sent += (double)ls_range_bytes(&range);
            cost.transfers += ls_view_elements(&instr->in[0].view) > 0;
        }
    }
    return cost;
}

/* FNV-1a, 64 bits. */
static uint64_t mix(uint64_t hash, const void *data, size_t bytes) {
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ p[i]) * 0x100000001b3u;
    return hash;
}

static uint64_t mix_int(uint64_t hash, uint64_t value) { return mix(hash, &value, sizeof value); }

static uint64_t mix_layout(uint64_t hash, const ls_layout *layout) {
    hash = mix_int(hash, (uint64_t)layout->S);
    for (int p = 0; p < layout->P; p++) {
        const ls_layout_run *runs;
        const int n = ls_layout_runs(layout, p, &runs);
        hash = mix_int(hash, (uint64_t)n);
        for (int i = 0; i < n; i++) {
            hash = mix_int(hash, (uint64_t)runs[i].first);
            hash = mix_int(hash, (uint64_t)runs[i].count);
            hash = mix_int(hash, (uint64_t)runs[i].step);
        }
    }
    return hash;
}

uint64_t ls_image_frame(const ls_image *image) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (int a = 0; a < image->mesh.n; a++) hash = mix_int(hash, (uint64_t)image->mesh.along[a].size);
    hash = mix_int(hash, image->dtype);
    hash = mix_int(hash, image->in_place);
    hash = mix_int(hash, image->layout.kind);
    hash = mix_layout(hash, &image->layout);
    hash = mix_int(hash, (uint64_t)image->whole_elements);
    for (int p = 0; p < image->n_programs; p++) {
        hash = mix(hash, image->programs[p].name, strlen(image->programs[p].name));
        hash = mix_int(hash, (uint64_t)image->programs[p].first_word);
    }
    return hash;
}

const ls_space_text ls_space_texts[LS_SPACES] = {[LS_PRIVATE] = {"private", "private memory"},
                                                 [LS_SYMMETRIC] = {"symmetric", "symmetric heap"},
                                                 [LS_HOST] = {"host", "host memory"},
                                                 [LS_COMMON] = {"common", "common memory of a host"}};

size_t ls_image_common_share(const ls_image *image) {
    return image->bytes[LS_COMMON] == 0 ? 0 : (size_t)ls_ceil_div((int64_t)image->bytes[LS_COMMON], image->sharers);
}

size_t ls_image_mapped(const ls_image *image) {
    return image->bytes[LS_PRIVATE] + image->bytes[LS_SYMMETRIC] + (image->host_apart ? 0 : image->bytes[LS_HOST]) +
           ls_image_common_share(image);
}

const char *ls_queue_name(int queue) {
    static const char *const names[LS_QUEUES] = {"compute", "copy", "link"};
    return queue >= 0 && queue < LS_QUEUES ? names[queue] : "?";
}

const char *ls_buffer_kind_name(ls_buffer_kind kind) {
    static const char *const names[LS_BUFFER_KINDS] = {"input",  "table",      "parameter", "gradient", "optimizer",
                                                       "output", "activation", "slot",      "workspace"};
    return names[kind];
}
