/* The device cpu: the processor of the host. A launch is a call, so everything has happened when it returns. */
#include "device/device_impl.h"

static ls_status allocate(ls_device *device, ls_device_arena *arena) {
    (void)device;
    void *memory;
    LS_TRY(ls_memory_map(arena->bytes, &memory));
    arena->base = arena->source = memory;
    return ls_ok();
}

static void free_arena(ls_device *device, ls_device_arena *arena) {
    (void)device;
    ls_memory_unmap(arena->base, arena->bytes);
}

static ls_status launch(ls_device *device, const ls_device_work *work) {
    work->run(work->context, device->options.pool);
    return ls_ok();
}

const ls_device_row ls_device_cpu = {
    .name = "cpu",
    .traits = {.at_once = true, .host_memory = true, .host_addresses = true, .tiles = LS_TILES_OF_HOST},
    .allocate = allocate,
    .free = free_arena,
    .read = ls_device_host_read,
    .write = ls_device_host_write,
    .clear = ls_device_host_clear,
    .launch = launch,
};
