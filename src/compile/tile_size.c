/* How many tokens a tile has on a device. */
#include "compile/compile_impl.h"

#include <math.h>

/*
 * Where the user has not said how many tokens a tile has: no more tiles than a few, for of what is whole there is much
 * more by then, and each tile adds to all weights' gradients. Of thousands of tokens that takes little beside the
 * tile's products, so longer tiles are not made for it.
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
    LS_ASSERT(status.code == LS_OK); /* ls_compile has asked */
    return device.tiles;
}
