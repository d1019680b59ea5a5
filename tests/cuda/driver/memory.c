/*
 * The fake driver's memory. That of a device is mapped twice: at the addresses that it has given out nobody can access
 * it while nothing is executed; streams that copy use the other mapping. Pinned memory is mapped a second time, for the
 * device, where the system can.
 */
#include "fake.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef enum region_kind { DEVICE_MEMORY, PINNED, REGISTERED } region_kind;

typedef struct region region;
struct region {
    region *next;
    region_kind kind;
    struct CUctx_st *context;
    char *host;   /* the host's addresses; of memory of a device: the mapping for copies */
    char *device; /* the device's */
    size_t bytes;
};
static region *regions; /* under the lock */
static int executing;   /* closures under way */

static region *find(fake_side side, uintptr_t at, size_t bytes) {
    for (region *r = regions; r != NULL; r = r->next) {
        const uintptr_t first = (uintptr_t)(side == SIDE_DEVICE ? r->device : r->host);
        if (side == SIDE_HOST && r->kind == DEVICE_MEMORY) continue;
        if (at >= first && at + bytes <= first + r->bytes) return r;
    }
    return NULL;
}

void *fake_find(fake_side side, uintptr_t at, size_t bytes) {
    const region *r = find(side, at, bytes);
    if (r == NULL) return NULL;
    /* Pages that were pinned stay where a stream finds them, also when their owner has unmapped them. */
    char *const found = r->kind == REGISTERED ? r->device : r->host;
    return found + (at - (uintptr_t)(side == SIDE_DEVICE ? r->device : r->host));
}

int fake_regions(void) {
    int n = 0;
    for (const region *r = regions; r != NULL; r = r->next) n++;
    return n;
}

static void protect_all(int protection) {
    for (const region *r = regions; r != NULL; r = r->next)
        if (r->kind == DEVICE_MEMORY) (void)mprotect(r->device, r->bytes, protection);
}

void fake_open_memory(void) {
    if (executing++ == 0) protect_all(PROT_READ | PROT_WRITE);
}
void fake_close_memory(void) {
    if (--executing == 0) protect_all(PROT_NONE);
}

/* --- making and freeing ------------------------------------------------------------------------------------------- */

static void *map(int file, size_t bytes, int protection) {
    void *memory = mmap(NULL, bytes, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (memory == MAP_FAILED) fake_abort("memory cannot be mapped");
    return memory;
}

/* Both mappings of a file. */
static region *map_both(region_kind kind, int file, size_t bytes) {
    region *r = calloc(1, sizeof *r);
    if (r == NULL) fake_abort("memory cannot be made");
    *r = (region){.kind = kind, .bytes = bytes, .host = map(file, bytes, PROT_READ | PROT_WRITE)};
    r->device = map(file, bytes, kind == DEVICE_MEMORY ? PROT_NONE : PROT_READ | PROT_WRITE);
    return r;
}

/* New memory. It is not zeroed. */
static region *make(region_kind kind, size_t bytes) {
    const int file = memfd_create("fake-cuda", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)bytes) != 0) fake_abort("memory cannot be made");
    region *r = map_both(kind, file, bytes);
    close(file);
    memset(r->host, 0xa5, bytes);
    return r;
}

/* Under the lock, when the device is idle. */
static void add(region *r, struct CUctx_st *context) {
    r->context = context;
    r->next = regions;
    regions = r;
    if (r->kind != DEVICE_MEMORY) return;
    context->allocated += r->bytes;
    if (executing > 0) (void)mprotect(r->device, r->bytes, PROT_READ | PROT_WRITE); /* another device executes */
}

/* Removes the region that begins there; false: there is none. */
static bool drop(region_kind kind, const char *at, const char *who) {
    pthread_mutex_lock(&fake.lock);
    region **place = &regions;
    while (*place != NULL &&
           ((*place)->kind != kind || (kind == DEVICE_MEMORY ? (*place)->device : (*place)->host) != at))
        place = &(*place)->next;
    region *r = *place;
    if (r != NULL) {
        fake_wait_idle(r->context, who);
        place = &regions; /* others may have changed it meanwhile */
        while (*place != r) place = &(*place)->next;
        *place = r->next;
        if (kind == DEVICE_MEMORY) r->context->allocated -= r->bytes;
        if (r->device != r->host) (void)munmap(r->device, r->bytes);
        if (kind != REGISTERED) (void)munmap(r->host, r->bytes);
    }
    pthread_mutex_unlock(&fake.lock);
    free(r);
    return r != NULL;
}

unsigned cuMemGetInfo_v2(size_t *unused, size_t *total) {
    struct CUctx_st *context;
    unsigned result = fake_begin("cuMemGetInfo_v2");
    if (result == 0) result = fake_context(&context);
    if (result != 0) return result;
    pthread_mutex_lock(&fake.lock);
    *total = (size_t)fake.settings.memory;
    *unused = *total - context->allocated;
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

unsigned cuMemAlloc_v2(ls_cuda_address *address, size_t bytes) {
    struct CUctx_st *context;
    unsigned result = fake_begin_at_once("cuMemAlloc_v2");
    if (result == 0) result = fake_context(&context);
    if (result == 0 && bytes == 0) result = INVALID_VALUE;
    if (result != 0) return result;
    pthread_mutex_lock(&fake.lock);
    fake_wait_idle(context, "cuMemAlloc_v2");
    if (bytes > (size_t)fake.settings.memory - context->allocated) {
        result = LS_CUDA_OUT_OF_MEMORY;
    } else {
        region *r = make(DEVICE_MEMORY, bytes);
        add(r, context);
        *address = (uintptr_t)r->device;
    }
    pthread_mutex_unlock(&fake.lock);
    return result;
}

void *fake_share(int file, size_t bytes) {
    struct CUctx_st *context;
    if (fake_context(&context) != 0) fake_abort("memory is shared without a context");
    region *r = map_both(DEVICE_MEMORY, file, bytes);
    pthread_mutex_lock(&fake.lock);
    fake_wait_idle(context, "memory is shared");
    add(r, context);
    pthread_mutex_unlock(&fake.lock);
    return r->device;
}

void *fake_device_memory(uintptr_t at, size_t bytes) {
    pthread_mutex_lock(&fake.lock);
    void *found = fake_find(SIDE_DEVICE, at, bytes);
    pthread_mutex_unlock(&fake.lock);
    return found;
}

unsigned cuPointerGetAttribute(void *value, unsigned attribute, ls_cuda_address address) {
    const unsigned result = fake_begin("cuPointerGetAttribute");
    if (result != 0 || attribute != LS_CUDA_MEMORY_KIND) return result != 0 ? result : INVALID_VALUE;
    pthread_mutex_lock(&fake.lock);
    const region *r = find(SIDE_DEVICE, address, 1);
    if (r != NULL) *(unsigned *)value = r->kind == DEVICE_MEMORY ? LS_CUDA_MEMORY_DEVICE : LS_CUDA_MEMORY_HOST;
    pthread_mutex_unlock(&fake.lock);
    return r != NULL ? 0 : INVALID_VALUE;
}

/* Of all processes, only this one has the memory. */
unsigned cuIpcGetMemHandle(struct CUipcMemHandle_st *handle, ls_cuda_address address) {
    const unsigned result = fake_begin("cuIpcGetMemHandle");
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &address, sizeof address);
    return result;
}

unsigned cuIpcOpenMemHandle_v2(ls_cuda_address *address, struct CUipcMemHandle_st handle, unsigned flags) {
    (void)address, (void)handle, (void)flags;
    const unsigned result = fake_begin("cuIpcOpenMemHandle_v2");
    return result != 0 ? result : INVALID_VALUE;
}

unsigned cuIpcCloseMemHandle(ls_cuda_address address) {
    (void)address;
    const unsigned result = fake_begin("cuIpcCloseMemHandle");
    return result != 0 ? result : INVALID_VALUE;
}

unsigned cuMemFree_v2(ls_cuda_address address) {
    const unsigned result = fake_begin_at_once("cuMemFree_v2");
    return drop(DEVICE_MEMORY, (char *)(uintptr_t)address, "cuMemFree_v2") ? result : INVALID_VALUE;
}

static unsigned begin_pinning(const char *function, size_t bytes, unsigned flags, struct CUctx_st **context) {
    const unsigned result = fake_begin_at_once(function);
    if (result != 0) return result;
    if (bytes == 0 || flags != (LS_CUDA_HOST_PORTABLE | LS_CUDA_HOST_MAPPED)) return INVALID_VALUE;
    return fake_context(context);
}

unsigned cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
    struct CUctx_st *context;
    const unsigned result = begin_pinning("cuMemHostAlloc", bytes, flags, &context);
    if (result != 0) return result;
    pthread_mutex_lock(&fake.lock);
    fake_wait_idle(context, "cuMemHostAlloc");
    region *r = make(PINNED, bytes);
    add(r, context);
    pthread_mutex_unlock(&fake.lock);
    *memory = r->host;
    return 0;
}

unsigned cuMemFreeHost(void *memory) {
    const unsigned result = fake_begin_at_once("cuMemFreeHost");
    return drop(PINNED, memory, "cuMemFreeHost") ? result : INVALID_VALUE;
}

unsigned cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags) {
    struct CUctx_st *context;
    const unsigned result = begin_pinning("cuMemHostRegister_v2", bytes, flags, &context);
    if (result != 0) return result;
    region *r = calloc(1, sizeof *r);
    if (r == NULL) fake_abort("memory cannot be made");
    void *again = mremap(memory, 0, bytes, MREMAP_MAYMOVE); /* of shared memory: another mapping of it */
    *r = (region){.kind = REGISTERED, .host = memory, .device = again == MAP_FAILED ? memory : again, .bytes = bytes};
    pthread_mutex_lock(&fake.lock);
    fake_wait_idle(context, "cuMemHostRegister_v2");
    add(r, context);
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

unsigned cuMemHostUnregister(void *memory) {
    const unsigned result = fake_begin_at_once("cuMemHostUnregister");
    return drop(REGISTERED, memory, "cuMemHostUnregister") ? result : INVALID_VALUE;
}

unsigned cuMemHostGetDevicePointer_v2(ls_cuda_address *address, void *memory, unsigned flags) {
    unsigned result = fake_begin("cuMemHostGetDevicePointer_v2");
    if (result != 0 || flags != 0) return result != 0 ? result : INVALID_VALUE;
    pthread_mutex_lock(&fake.lock);
    const region *r = find(SIDE_HOST, (uintptr_t)memory, 1);
    if (r != NULL) *address = (uintptr_t)r->device + ((uintptr_t)memory - (uintptr_t)r->host);
    pthread_mutex_unlock(&fake.lock);
    return r != NULL ? 0 : INVALID_VALUE;
}
