/* The memory of the interpreter: one hash per unit. */
#include "run/interpret_impl.h"

#include <stdlib.h>

uint64_t ls_hash_mix(uint64_t hash, uint64_t value) {
    const uint64_t x = (hash ^ value) * 0x9fb21c651e98df25u;
    return x ^ (x >> 32);
}

static size_t gcd(size_t a, size_t b) {
    while (b != 0) {
        const size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static size_t unit_of_operand(const ls_image *image, int rank, const ls_operand *o, size_t unit) {
    if (o->buffer < 0 || ls_view_elements(&o->view) == 0) return unit;
    const ls_range range = ls_operand_range(image, o, rank);
    unit = gcd(gcd(unit, range.offset), range.length);
    for (int d = 0; d < LS_RANGE_DIMS; d++) unit = gcd(unit, range.count[d] > 1 ? (size_t)llabs(range.stride[d]) : 0);
    return unit;
}

size_t ls_hashes_unit(const ls_image *const *images, int ranks) {
    size_t unit = 0;
    for (int r = 0; r < ranks; r++) {
        const ls_image *image = images[r];
        for (int i = 0; i < image->n_buffers; i++)
            unit = gcd(gcd(unit, image->buffers[i].offset), image->buffers[i].bytes);
        for (int p = 0; p < image->n_programs; p++) {
            for (int i = 0; i < image->programs[p].n_instrs; i++) {
                const ls_instr *instr = &image->programs[p].instrs[i];
                unit = gcd(unit, instr->counted);
                for (int k = 0; k < ls_instr_accesses(instr); k++)
                    unit = unit_of_operand(image, r, ls_instr_access_at(instr, k).operand, unit);
            }
        }
    }
    return unit > 0 ? unit : 1;
}

void ls_hashes_create(ls_hashes *store, const ls_image *image, int rank, size_t unit, ls_arena *arena) {
    *store = (ls_hashes){.image = image, .rank = rank, .unit = unit};
    for (int s = 0; s < LS_SPACES; s++) {
        store->n[s] = (size_t)ls_ceil_div((int64_t)image->bytes[s], (int64_t)unit);
        store->value[s] = LS_NEW_ARRAY(arena, uint64_t, store->n[s] + 1);
    }
}

ls_units ls_hashes_units_of(const ls_hashes *store, ls_space space, const ls_range *range, ls_arena *arena) {
    ls_units units = {.space = space, .at = LS_NEW_ARRAY(arena, uint32_t, ls_range_bytes(range) / store->unit)};
    const size_t length = range->length / store->unit;
    for (int64_t a = 0; a < range->count[2]; a++) {
        for (int64_t b = 0; b < range->count[1]; b++) {
            for (int64_t c = 0; c < range->count[0]; c++) {
                const int64_t bytes =
                    (int64_t)range->offset + a * range->stride[2] + b * range->stride[1] + c * range->stride[0];
                for (size_t i = 0; i < length; i++) {
                    const size_t at = (size_t)bytes / store->unit + i;
                    if (bytes < 0 || at >= store->n[units.space])
                        units.outside = true;
                    else
                        units.at[units.n++] = (uint32_t)at;
                }
            }
        }
    }
    return units;
}

ls_units ls_hashes_units(const ls_hashes *store, const ls_operand *operand, ls_arena *arena) {
    if (operand->buffer < 0 || ls_view_elements(&operand->view) == 0) return (ls_units){0};
    const ls_range range = ls_operand_range(store->image, operand, store->rank);
    return ls_hashes_units_of(store, store->image->buffers[operand->buffer].space, &range, arena);
}

/* A buffer's units: *first and, returned, how many of them the memory has; a wrong image may lay a buffer beyond it. */
static size_t units_of_buffer(const ls_hashes *store, const ls_buffer *b, size_t *first) {
    *first = b->offset / store->unit;
    const size_t n = store->n[b->space];
    return *first < n ? ls_min(b->bytes / store->unit, n - *first) : 0;
}

/* Writes values as the host would: different ones for every rank, buffer, unit and run. */
static void write_as_host(ls_hashes *store, int buffer, uint64_t run) {
    const ls_buffer *b = &store->image->buffers[buffer];
    const uint64_t seed = ls_hash_mix(ls_hash_mix((uint64_t)store->rank + 1, (uint64_t)buffer + 1), run + 1);
    size_t first;
    const size_t n = units_of_buffer(store, b, &first);
    for (size_t i = 0; i < n; i++) store->value[b->space][first + i] = ls_hash_mix(seed, i + 1);
}

void ls_hashes_reset(ls_hashes *store) {
    for (int s = 0; s < LS_SPACES; s++) {
        for (size_t i = 0; i < store->n[s]; i++) store->value[s][i] = LS_POISON;
    }
    for (int i = 0; i < store->image->n_buffers; i++) {
        if (store->image->buffers[i].program < 0) write_as_host(store, i, 0);
    }
}

void ls_hashes_set_inputs(ls_hashes *store, uint64_t run) {
    for (int i = 0; i < store->image->n_buffers; i++) {
        const ls_buffer *b = &store->image->buffers[i];
        if (b->program < 0 && b->kind == LS_BUFFER_INPUT) write_as_host(store, i, run);
    }
}

uint64_t ls_hashes_read(const ls_hashes *store, const ls_units *units, uint64_t hash, bool *poison) {
    const uint64_t *value = store->value[units->space];
    bool found = false;
    for (int i = 0; i < units->n; i++) {
        found |= value[units->at[i]] == LS_POISON;
        hash = ls_hash_mix(hash, value[units->at[i]]) + 0x9e3779b97f4a7c15u;
    }
    *poison |= found;
    return hash | 1;
}

void ls_hashes_write(ls_hashes *store, const ls_units *units, uint64_t hash) {
    uint64_t *value = store->value[units->space];
    for (int i = 0; i < units->n; i++) value[units->at[i]] = ls_hash_mix(hash, (uint64_t)i + 1) & ~(1ull << 63);
}

void ls_hashes_poison(ls_hashes *store, const ls_units *units) {
    for (int i = 0; i < units->n; i++) store->value[units->space][units->at[i]] = LS_POISON;
}

void ls_hashes_leave_out(ls_hashes *store, const ls_units *units, int first) {
    for (int i = first; i < units->n; i++) store->value[units->space][units->at[i]] = LS_NO_ROW;
}

uint64_t ls_hashes_left(const ls_hashes *store) {
    uint64_t hash = 1;
    for (int i = 0; i < store->image->n_buffers; i++) {
        const ls_buffer *b = &store->image->buffers[i];
        size_t first;
        const size_t n = units_of_buffer(store, b, &first);
        for (size_t k = 0; k < n && b->program < 0; k++)
            hash = ls_hash_mix(hash, store->value[b->space][first + k]) + 0x9e3779b97f4a7c15u;
    }
    return hash;
}
