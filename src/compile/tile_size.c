/* The number of tokens of a tile on a device. */
#include "compile/compile_impl.h"

#include <math.h>

/*
 * The size of a tile if the user does not give one. Beyond MOST_TILES tiles, shorter tiles save little, since tensors
 * that are not tiled take much more memory by then; and each tile adds to the gradients of all weights. With PLENTY
 * tokens in a tile these additions take little time beside the tile's products, so tiles are not made longer for them.
 */
enum { LEAST_TILE = 64, MOST_TILES = 24, PLENTY = 8192 };

int64_t ls_tile_choose(const ls_device_tiles *of, int64_t rows, double bytes) {
    const int64_t room = (int64_t)fmin(of->bytes / bytes, (double)of->most),
                  most = ls_max(LEAST_TILE, ls_max(ls_min(rows / MOST_TILES, PLENTY), room));
    return (int64_t)ls_round_up((size_t)ls_ceil_div(rows, ls_ceil_div(rows, most)), (size_t)of->unit);
}

ls_device_tiles ls_tiles_of(const ls_target *target) {
    const char *name;
    ls_device_traits device;
    const ls_status status = ls_device_choose(target->device, &name, &device);
    LS_ASSERT(status.code == LS_OK); /* ls_compile has checked it */
    return device.tiles;
}
