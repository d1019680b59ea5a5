/* What ranks read of each other in place, and where such data must lie. */
#include "compile/attention/attention.h"

bool ls_ring_reads(const ls_image *image) { return (image->in_place & ls_mesh_block_axes(&image->mesh)) != 0; }
bool ls_block_reads(const ls_image *image) { return (image->in_place & ls_mesh_head_axes(&image->mesh)) != 0; }

ls_operand ls_exchange_room(ls_builder *b, const char *name, ls_dtype dtype, int ndim, const int64_t *size,
                            int64_t capacity) {
    if (ls_block_reads(b->image)) return ls_build_symmetric(b, LS_BUFFER_ACTIVATION, name, capacity, dtype, ndim, size);
    return ls_build_private(b, LS_BUFFER_ACTIVATION, name, dtype, ndim, size);
}
