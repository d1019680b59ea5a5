/* The device "cuda[:N][:ROUTE][:launched]": one of NVIDIA's GPUs, used through its driver. Opening and closing it. */
#include "device/cuda/route.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* MOST_CONNECTIONS: the most streams of a context to which the driver can give separate connections to the hardware. */
enum { MOST_CONNECTIONS = 32, MOST_DEVICES = 256 };

/*
 * Streams of this process on each GPU, over all devices of the process, because these share a context. Under the lock.
 */
static struct {
    pthread_mutex_t lock;
    int streams[MOST_DEVICES];
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* --- the process -------------------------------------------------------------------------------------------------- */

/* The variables of the environment that the driver reads when it is initialised. */
static const char *const connections_names[] = {"CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_DEVICE_MAX_COPY_CONNECTIONS"};

static bool set_connections(void) {
    bool set = true;
    for (size_t i = 0; i < LS_COUNT(connections_names); i++)
        set = set && (getenv(connections_names[i]) != NULL || setenv(connections_names[i], "32", 0) == 0);
    return set;
}

/*
 * Sets these variables if they are not set. Another thread that reads the environment meanwhile may crash, so this is
 * done when the device is chosen, before there are ranks.
 */
static ls_status prepare_process(void) {
    pthread_mutex_lock(&process.lock);
    const bool set = set_connections();
    pthread_mutex_unlock(&process.lock);
    return set ? ls_ok()
               : ls_error(LS_NO_MEMORY, "the environment has no room for %s: %s", connections_names[0],
                          strerror(errno));
}

/*
 * Streams that share a connection to the hardware are executed in the order of their launches: one that waits for
 * another may block that other one for ever. *most: the number of streams of a GPU with connections of their own.
 */
static ls_status check_connections(int streams, int *most) {
    *most = MOST_CONNECTIONS;
    if (streams > MOST_CONNECTIONS)
        return ls_error(LS_UNSUPPORTED, "a CUDA device with %d streams that wait for each other; at most %d can",
                        streams, MOST_CONNECTIONS);
    for (size_t i = 0; i < LS_COUNT(connections_names); i++) {
        const char *text = getenv(connections_names[i]);
        char *end;
        const long connections = strtol(text != NULL ? text : "", &end, 10);
        if (text == NULL || end == text || *end != 0 || connections < streams || connections > MOST_CONNECTIONS)
            return ls_error(LS_INVALID,
                            "%s=%s: expected %d to %d for %d streams that wait for each other; 32 where it is unset",
                            connections_names[i], text != NULL ? text : "", streams, MOST_CONNECTIONS, streams);
        if (connections < *most) *most = (int)connections;
    }
    return ls_ok();
}

static int streams_of(const cuda *c) { return c->device->options.queues + 1; }

/* All devices of this process on one GPU (ranks that are threads) share its connections. */
static ls_status take_ways(cuda *c) {
    int most;
    LS_TRY(check_connections(streams_of(c), &most));
    pthread_mutex_lock(&process.lock);
    int *const taken = &process.streams[c->ordinal], others = *taken;
    c->has_ways = others + streams_of(c) <= most;
    if (c->has_ways) *taken += streams_of(c);
    pthread_mutex_unlock(&process.lock);
    if (c->has_ways) return ls_ok();
    return ls_error(
        LS_UNSUPPORTED,
        "cuda:%d: %d streams beside %d of other ranks in this process, which wait for each other; at most %d "
        "can: expected fewer ranks on this GPU, or a process for each",
        c->ordinal, streams_of(c), others, most);
}

static void give_ways_back(const cuda *c) {
    pthread_mutex_lock(&process.lock);
    if (c->has_ways) process.streams[c->ordinal] -= streams_of(c);
    pthread_mutex_unlock(&process.lock);
}

/* --- which device ------------------------------------------------------------------------------------------------- */

/* The settings. */
typedef struct wishes {
    int ordinal;                /* -1: any device */
    const ls_cuda_route *route; /* NULL: any route */
    bool launched;              /* the device makes no graphs */
} wishes;

/* Reads one setting: the number of a device, a route, or "launched"; each at most once and in this order. */
static bool read_setting(const char *word, wishes *w) {
    char *end;
    const long n = strtol(word, &end, 10);
    const ls_cuda_route *route = ls_cuda_find_route(word);
    if (w->launched) return false;
    w->launched = strcmp(word, "launched") == 0;
    if (w->launched) return true;
    if (w->route != NULL) return false;
    w->route = route;
    if (route != NULL) return true;
    if (word[0] < '0' || word[0] > '9' || *end != 0 || n > INT_MAX || w->ordinal >= 0) return false;
    w->ordinal = (int)n;
    return true;
}

static ls_status read_settings(const char *settings, wishes *out) {
    char words[64], *rest = words;
    bool fine = strlen(settings) < sizeof words;
    *out = (wishes){.ordinal = -1};
    if (settings[0] == 0) return ls_ok();
    snprintf(words, sizeof words, "%s", settings);
    for (const char *word; fine && (word = strsep(&rest, ":")) != NULL;) fine = read_setting(word, out);
    if (fine) return ls_ok();
    return ls_error(LS_INVALID,
                    "device 'cuda:%s': expected cuda[:N][:ROUTE][:launched]: the number of a device; one of driver, "
                    "nvshmem and nccl, for messages; launched, for kernels that are launched one by one",
                    settings);
}

/* *count: the number of devices. asked: wishes.ordinal; it must exist. */
static ls_status count_devices(const ls_cuda_driver *driver, int asked, int *count) {
    int devices;
    LS_TRY(ls_cuda_check(driver, driver->cuDeviceGetCount(&devices), "cuDeviceGetCount", "all devices"));
    if (devices == 0) return ls_error(LS_UNSUPPORTED, "the CUDA driver finds no device");
    if (devices > MOST_DEVICES)
        return ls_error(LS_UNSUPPORTED, "the CUDA driver finds %d devices; expected %d at most", devices, MOST_DEVICES);
    if (asked >= devices)
        return ls_error(LS_INVALID, "device 'cuda:%d': the driver finds %d, numbered from 0", asked, devices);
    *count = devices;
    return ls_ok();
}

/* Chooses the device that was asked for; if none was, the ranks of the machine take devices in turn. */
static ls_status choose(cuda *c, int asked) {
    int devices;
    LS_TRY(count_devices(&c->driver, asked, &devices));
    c->ordinal = asked >= 0 ? asked : c->device->options.machine_rank % devices;
    return ls_ok();
}

/* Finds the device's name for messages, and whether it can do what is needed. */
static ls_status describe(cuda *c) {
    const ls_cuda_driver *driver = &c->driver;
    char model[64];
    int able;
    LS_TRY(ls_cuda_check(driver, driver->cuDeviceGetName(model, sizeof model, c->handle), "cuDeviceGetName", "%s",
                         c->name));
    snprintf(c->name, sizeof c->name, "cuda:%d (%s)", c->ordinal, model);
    LS_TRY(ls_cuda_check(driver, driver->cuDeviceGetAttribute(&able, LS_CUDA_64_BIT_STREAM_WORDS, c->handle),
                         "cuDeviceGetAttribute", "%s", c->name));
    if (able) return ls_ok();
    return ls_error(LS_UNSUPPORTED, "%s: its streams cannot wait for words of 64 bits; expected a GPU that can",
                    c->name);
}

static ls_status find_context(cuda *c) {
    const ls_cuda_driver *driver = &c->driver;
    snprintf(c->name, sizeof c->name, "cuda:%d", c->ordinal);
    LS_TRY(ls_cuda_check(driver, driver->cuDeviceGet(&c->handle, c->ordinal), "cuDeviceGet", "%s", c->name));
    LS_TRY(describe(c));
    LS_TRY(ls_cuda_check(driver, driver->cuDevicePrimaryCtxRetain(&c->context, c->handle), "cuDevicePrimaryCtxRetain",
                         "%s", c->name));
    c->retained = true;
    return ls_cuda_enter(c);
}

/* --- streams and pinned memory ------------------------------------------------------------------------------------ */

static ls_status make_words(cuda *c) {
    const size_t bytes = (size_t)c->device->options.queues * sizeof *c->words;
    void *words;
    ls_cuda_address at;
    LS_TRY(ls_cuda_pin(c, bytes, &words));
    memset(words, 0, bytes);
    c->words = words;
    LS_TRY(ls_cuda_check(&c->driver, c->driver.cuMemHostGetDevicePointer_v2(&at, words, 0),
                         "cuMemHostGetDevicePointer_v2", "%zu bytes for %s", bytes, c->name));
    for (int q = 0; q < c->device->options.queues; q++) {
        c->queues[q].words = &c->words[q];
        c->queues[q].words_at = at + (size_t)q * sizeof *c->words;
    }
    return ls_ok();
}

static ls_status make_stream(const cuda *c, int priority, ls_cuda_stream *out) {
    return ls_cuda_check(&c->driver, c->driver.cuStreamCreateWithPriority(out, LS_CUDA_STREAM_NON_BLOCKING, priority),
                         "cuStreamCreateWithPriority", "priority %d on %s", priority, c->name);
}

/*
 * Queue 0 has the lowest priority: it computes, while launches on the others are short and other ranks wait for them.
 */
static ls_status make_streams(cuda *c) {
    int least, greatest;
    LS_TRY(ls_cuda_check(&c->driver, c->driver.cuCtxGetStreamPriorityRange(&least, &greatest),
                         "cuCtxGetStreamPriorityRange", "%s", c->name));
    LS_TRY(make_stream(c, greatest, &c->copies));
    for (int q = 0; q < c->device->options.queues; q++)
        LS_TRY(make_stream(c, q == 0 ? least : greatest, &c->queues[q].stream));
    return ls_ok();
}

/* --- facts of devices, without opening one ------------------------------------------------------------------------ */

static ls_status find_attribute(const ls_cuda_driver *driver, int handle, unsigned attribute, int *out) {
    return ls_cuda_check(driver, driver->cuDeviceGetAttribute(out, attribute, handle), "cuDeviceGetAttribute",
                         "attribute %u", attribute);
}

/* If any device may be used, describes the first one. */
static ls_status describe_device(const char *settings, ls_device_facts *out) {
    ls_cuda_driver driver;
    ls_device_facts facts = {.units = 1};
    wishes asked;
    int devices, handle, cache;
    size_t memory;
    LS_TRY(read_settings(settings, &asked));
    int most;
    LS_TRY(check_connections(1, &most)); /* before the driver is loaded, which reads the variables once */
    LS_TRY(ls_cuda_driver_load(&driver));
    LS_TRY(count_devices(&driver, asked.ordinal, &devices));
    if (asked.ordinal < 0) facts.units = devices;
    LS_TRY(ls_cuda_check(&driver, driver.cuDeviceGet(&handle, asked.ordinal < 0 ? 0 : asked.ordinal), "cuDeviceGet",
                         "%s", settings));
    LS_TRY(ls_cuda_check(&driver, driver.cuDeviceGetName(facts.model, sizeof facts.model, handle), "cuDeviceGetName",
                         "%s", settings));
    LS_TRY(find_attribute(&driver, handle, LS_CUDA_PROCESSORS, &facts.processors));
    LS_TRY(find_attribute(&driver, handle, LS_CUDA_CACHE_BYTES, &cache));
    LS_TRY(ls_cuda_check(&driver, driver.cuDeviceTotalMem_v2(&memory, handle), "cuDeviceTotalMem_v2", "%s", settings));
    facts.cache = cache;
    facts.memory = (int64_t)memory;
    *out = facts;
    return ls_ok();
}

/* --- opening and closing ------------------------------------------------------------------------------------------ */

/* Returns false if streams may wait for other ranks, after a failure. */
static bool stop_device(ls_device *device) {
    cuda *c = device->state;
    ls_cuda_let_go(c);
    ls_cuda_stop_watching(c);
    if (ls_cuda_may_wait(c)) return false;
    if (c->retained) {
        (void)c->driver.cuCtxSetCurrent(c->context); /* a lost device returns an error, and then frees nothing */
        ls_cuda_drain(c);
    }
    return true;
}

static void close_device(ls_device *device) {
    cuda *c = device->state;
    const int arenas = device->n_arenas;
    device->n_arenas = 0;
    for (ls_device_recording *r = device->recordings; r != NULL; r = r->earlier) ls_cuda_free_graphs(c, r);
    for (int q = 0; q < device->options.queues; q++)
        if (c->queues[q].stream != NULL) (void)c->driver.cuStreamDestroy_v2(c->queues[q].stream);
    if (c->copies != NULL) (void)c->driver.cuStreamDestroy_v2(c->copies);
    bool left = false;
    for (int i = 0; i < arenas; i++) {
        const ls_device_arena *arena = &device->arenas[i];
        const bool routed = c->symmetric != NULL && (uintptr_t)arena->base == c->symmetric->base;
        left |= arena->left;
        if (!arena->left && !routed) ls_cuda_free(c, arena);
    }
    if (!left && !device->alone) ls_cuda_close_route(c);
    if (!left) ls_cuda_close_opened(c); /* if memory was left, peers may still set words too */
    free(c->route_state);
    free(c->symmetric);
    if (c->stage != NULL) (void)c->driver.cuMemFreeHost(c->stage);
    if (c->words != NULL) (void)c->driver.cuMemFreeHost(c->words);
    give_ways_back(c);
    if (c->retained) (void)c->driver.cuDevicePrimaryCtxRelease_v2(c->handle);
    pthread_mutex_destroy(&c->copy_lock);
    pthread_mutex_destroy(&c->run_lock);
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->changed);
    free(c->queues);
    free(c);
}

static ls_status set_up(cuda *c, const char *settings) {
    void *stage;
    wishes asked;
    LS_TRY(read_settings(settings, &asked));
    c->asked = asked.route;
    c->device->traits.records = !asked.launched;
    int most;
    LS_TRY(check_connections(streams_of(c), &most));
    LS_TRY(ls_cuda_driver_load(&c->driver));
    LS_TRY(choose(c, asked.ordinal));
    LS_TRY(take_ways(c));
    LS_TRY(find_context(c));
    LS_TRY(make_words(c));
    LS_TRY(ls_cuda_pin(c, CUDA_STAGE_BYTES, &stage));
    c->stage = stage;
    LS_TRY(make_streams(c));
    return ls_cuda_watch(c);
}

static ls_status open_device(ls_device *device, const char *settings) {
    cuda *c = calloc(1, sizeof *c);
    cuda_queue *queues = calloc((size_t)device->options.queues, sizeof *queues);
    LS_ASSERT(c != NULL && queues != NULL);
    c->device = device;
    c->queues = queues;
    c->failed = ls_ok();
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_init(&c->copy_lock, NULL);
    pthread_mutex_init(&c->run_lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    device->state = c;
    const ls_status status = set_up(c, settings);
    if (status.code != LS_OK && stop_device(device)) close_device(device);
    return status;
}

static void free_arena(ls_device *device, ls_device_arena *arena) {
    const cuda *c = device->state;
    if (ls_cuda_enter(c).code == LS_OK) ls_cuda_free(c, arena);
}

static bool account(ls_device *device, size_t *unused, size_t *total) {
    const cuda *c = device->state;
    return ls_cuda_enter(c).code == LS_OK && c->driver.cuMemGetInfo_v2(unused, total) == LS_CUDA_SUCCESS;
}

const ls_device_row ls_device_cuda = {
    .name = "cuda",
    .settings =
        "N, the number of a device; both also with :ROUTE (driver, nvshmem or nccl, for messages) and :launched",
    .describe = describe_device,
    .is_used = ls_cuda_driver_is_used,
    .traits = {.holds = true,
               .messages = true,
               .records = true,
               .loads = true,
               .submits = true,
               /*
                * Products are computed in tiles of up to 256 rows, by over a hundred multiprocessors. A call of
                * attention has all heads for up to 16,384 tokens with 32 heads of 128, because a single head of few
                * tokens has fewer blocks than there are multiprocessors.
                */
               .tiles = {256, 8192, 1.5 * (1 << 30), 256 << 20}},
    .prepare_process = prepare_process,
    .open = open_device,
    .stop = stop_device,
    .close = close_device,
    .allocate = ls_cuda_allocate,
    .adopt = ls_cuda_adopt,
    .free = free_arena,
    .account = account,
    .read = ls_cuda_read,
    .write = ls_cuda_write,
    .clear = ls_cuda_clear,
    .follow = ls_cuda_follow,
    .knows = ls_cuda_knows,
    .copy = ls_cuda_copy,
    .finish = ls_cuda_finish,
    .connect = ls_cuda_connect,
    .launch = ls_cuda_launch,
    .release = ls_cuda_release,
    .happened = ls_cuda_happened,
    .await = ls_cuda_await,
    .join = ls_cuda_join,
    .has_room = ls_cuda_has_room,
    .record = ls_cuda_record,
    .replay = ls_cuda_replay,
    .is_large = ls_cuda_is_large,
};
