#include "program/name.h"

#include <string.h>

/* The finaliser of MurmurHash3. */
static uint64_t scramble(uint64_t x) {
    x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdu;
    x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53u;
    return x ^ (x >> 33);
}

static uint64_t mix(uint64_t hash, uint64_t value) { return scramble(hash * 31 + value + 0x9e3779b97f4a7c15u); }

static uint64_t mix_shape(uint64_t hash, const ls_range *range) {
    hash = mix(hash, range->length);
    for (int d = 0; d < LS_RANGE_DIMS; d++)
        hash = mix(mix(hash, (uint64_t)range->count[d]), (uint64_t)range->stride[d]);
    return hash;
}

int ls_write_key(int number, int output) { return number * (LS_KERNEL_OUTPUTS + 1) + output; }

uint64_t ls_name_begin(const ls_view *read) {
    uint64_t hash = mix(read->dtype, (uint64_t)read->ndim);
    for (int d = 0; d < read->ndim; d++) hash = mix(mix(hash, (uint64_t)read->size[d]), (uint64_t)read->stride[d]);
    return hash | 1;
}

/* Parts are even and a begun name is odd, so a name is never 0. */
uint64_t ls_name_part(int key, const ls_range *written, const ls_range *read) {
    return mix(mix_shape((uint64_t)key, written), read->offset - written->offset) << 1;
}

uint64_t ls_name_entry(size_t behind) { return mix(0x656e747279u, behind) << 1; }

uint64_t ls_name_transfer(const char *channel, uint64_t generation, size_t bytes) {
    uint64_t hash = mix(generation, bytes);
    for (const char *c = channel; *c != 0; c++) hash = mix(hash, (unsigned char)*c);
    return hash | 1;
}

uint64_t ls_name_in_place(const ls_view *read, uint64_t transfer, size_t behind) {
    return mix(mix(ls_name_begin(read), transfer), behind) | 1;
}

bool ls_range_covers(const ls_range *whole, const ls_range *part) {
    if (ls_range_is_flat(whole)) /* the same result, faster */
        return whole->offset <= part->offset && ls_range_end(part) <= whole->offset + whole->length;
    if (memcmp(whole, part, sizeof *whole) == 0) return true;
    return ls_range_bytes(whole) == ls_range_end(whole) - whole->offset && whole->offset <= part->offset &&
           ls_range_end(part) <= ls_range_end(whole);
}
