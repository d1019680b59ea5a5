/* The fake driver's devices and contexts, its settings, and the failures that they ask for. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

fake_state fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .used = true};

/* A thread's context. Not _Thread_local: the thread sanitizer fails at such of libraries that are loaded at run time.
 */
static pthread_key_t current;
static pthread_once_t current_once = PTHREAD_ONCE_INIT;
static void make_current(void) {
    if (pthread_key_create(&current, NULL) != 0) fake_abort("no key for threads");
}

void fake_abort(const char *what) {
    fprintf(stderr, "fake CUDA driver: %s\n", what);
    abort();
}

/* --- settings ----------------------------------------------------------------------------------------------------- */

static bool read_number(const char *setting, const char *name, long *out) {
    const size_t n = strlen(name);
    if (strncmp(setting, name, n) != 0 || setting[n] != '=') return false;
    *out = strtol(setting + n + 1, NULL, 10);
    return true;
}

static void read_setting(const char *setting, fake_settings *s) {
    long devices = s->devices, version = s->version, words = s->words, peers = s->peers;
    char lost[8] = "";
    const bool known = read_number(setting, "devices", &devices) || read_number(setting, "version", &version) ||
                       read_number(setting, "words", &words) || read_number(setting, "peers", &peers) ||
                       read_number(setting, "memory", &s->memory) || read_number(setting, "seed", &s->seed) ||
                       read_number(setting, "depth", &s->depth) || read_number(setting, "ways", &s->ways) ||
                       read_number(setting, "copies", &s->copies) || read_number(setting, "patience", &s->patience);
    s->devices = (int)devices;
    s->version = (int)version;
    s->words = (int)words;
    s->peers = (int)peers;
    if (known) return;
    if (sscanf(setting, "%63[^=]=%ld:%u:%7s", s->failing, &s->failing_call, &s->error, lost) < 3)
        fake_abort("a setting of FAKE_CUDA is wrong");
    s->loses = strcmp(lost, "lost") == 0 || strcmp(s->failing, "execute") == 0;
}

static void read_settings(void) {
    fake.settings = (fake_settings){.devices = 2,
                                    .version = 13000,
                                    .words = 1,
                                    .peers = 1,
                                    .connections = 8,
                                    .memory = 1L << 40,
                                    .depth = 2048,
                                    .patience = 20};
    const char *connections = getenv("CUDA_DEVICE_MAX_CONNECTIONS"), *loading = getenv("CUDA_MODULE_LOADING"),
               *copies = getenv("CUDA_DEVICE_MAX_COPY_CONNECTIONS");
    if (connections != NULL) fake.settings.connections = atoi(connections);
    if (copies != NULL && atoi(copies) < fake.settings.connections) fake.settings.connections = atoi(copies);
    fake.settings.lazy = loading == NULL || strcmp(loading, "EAGER") != 0;
    char text[sizeof fake.text], *rest = text;
    memcpy(text, fake.text, sizeof text);
    for (const char *setting; (setting = strsep(&rest, ",")) != NULL;)
        if (setting[0] != 0) read_setting(setting, &fake.settings);
    fake.calls = 0;
    fake.lost = 0;
    fake.loaded = fake.used = false;
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

unsigned fake_count(const char *function) {
    if (fake.process != getpid()) return NOT_INITIALIZED; /* forked: so says the real one */
    if (fake.lost != 0) return fake.lost;
    if (strcmp(function, fake.settings.failing) != 0 || ++fake.calls != fake.settings.failing_call) return 0;
    if (fake.settings.loses) fake.lost = fake.settings.error;
    pthread_cond_broadcast(&fake.changed);
    return fake.settings.error;
}

unsigned fake_begin(const char *function) {
    pthread_mutex_lock(&fake.lock);
    const unsigned result = fake_count(function);
    pthread_mutex_unlock(&fake.lock);
    return result;
}

unsigned fake_begin_at_once(const char *function) {
    pthread_mutex_lock(&fake.lock);
    unsigned result = fake_count(function);
    if (result == 0) result = fake_forbidden();
    pthread_mutex_unlock(&fake.lock);
    return result;
}

typedef struct error_row {
    unsigned error;
    const char *name, *text;
} error_row;
static const error_row errors[] = {
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {LS_CUDA_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {LS_CUDA_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no device"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid context"},
    {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "not while a stream captures"},
    {CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "a capture that was spoiled"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"}};

static const error_row *find_error(unsigned error) {
    for (size_t i = 0; i < LS_COUNT(errors); i++)
        if (errors[i].error == error) return &errors[i];
    return NULL;
}

unsigned cuGetErrorName(unsigned result, const char **name) {
    const error_row *row = find_error(result);
    if (row == NULL) return INVALID_VALUE;
    *name = row->name;
    return 0;
}

unsigned cuGetErrorString(unsigned result, const char **text) {
    const error_row *row = find_error(result);
    if (row == NULL) return INVALID_VALUE;
    *text = row->text;
    return 0;
}

/* --- devices and contexts ----------------------------------------------------------------------------------------- */

unsigned cuInit(unsigned flags) {
    (void)flags;
    pthread_mutex_lock(&fake.lock);
    if (fake.process == 0) fake.process = getpid();
    bool retained = false;
    const char *text = getenv("FAKE_CUDA");
    if (text == NULL) text = "";
    for (int i = 0; i < MOST_DEVICES; i++) retained |= fake.contexts[i].retained > 0;
    if (!retained && (fake.used || strcmp(text, fake.text) != 0)) { /* else another rank has read them just now */
        snprintf(fake.text, sizeof fake.text, "%s", text);
        read_settings();
    }
    unsigned result = fake_count("cuInit");
    if (result == 0 && fake.settings.devices == 0) result = LS_CUDA_NO_DEVICE;
    pthread_mutex_unlock(&fake.lock);
    return result;
}

/* May be called before cuInit. */
unsigned cuDriverGetVersion(int *version) {
    long n = 13000;
    const char *settings = getenv("FAKE_CUDA");
    if (settings != NULL) (void)read_number(settings, "version", &n);
    *version = (int)n;
    return 0;
}

unsigned cuDeviceGetCount(int *count) {
    const unsigned result = fake_begin("cuDeviceGetCount");
    if (result == 0) *count = fake.settings.devices;
    return result;
}

/* A handle is no ordinal. */
enum { FIRST_HANDLE = 40 };

unsigned cuDeviceGet(int *device, int ordinal) {
    const unsigned result = fake_begin("cuDeviceGet");
    if (result != 0) return result;
    if (ordinal < 0 || ordinal >= fake.settings.devices) return INVALID_DEVICE;
    *device = FIRST_HANDLE + ordinal;
    return 0;
}

unsigned cuDeviceGetName(char *name, int room, int device) {
    const unsigned result = fake_begin("cuDeviceGetName");
    if (result == 0) snprintf(name, (size_t)room, "Fake %d", device - FIRST_HANDLE);
    return result;
}

unsigned cuDeviceGetUuid_v2(struct CUuuid_st *uuid, int device) {
    const unsigned result = fake_begin("cuDeviceGetUuid_v2");
    if (result != 0) return result;
    if (device < FIRST_HANDLE || device >= FIRST_HANDLE + MOST_DEVICES) return INVALID_DEVICE;
    memset(uuid, device, sizeof *uuid);
    return 0;
}

unsigned cuDeviceGetAttribute(int *value, unsigned attribute, int device) {
    const unsigned result = fake_begin("cuDeviceGetAttribute");
    if (result != 0) return result;
    if (device < FIRST_HANDLE || device >= FIRST_HANDLE + MOST_DEVICES) return INVALID_DEVICE;
    *value = 0;
    if (attribute == LS_CUDA_64_BIT_STREAM_WORDS) *value = fake.settings.words;
    if (attribute == LS_CUDA_PROCESSORS) *value = 1;
    if (attribute == LS_CUDA_CACHE_BYTES) *value = 1 << 16;
    return 0;
}

unsigned cuDeviceTotalMem_v2(size_t *bytes, int device) {
    const unsigned result = fake_begin("cuDeviceTotalMem_v2");
    if (result == 0) *bytes = (size_t)fake.settings.memory;
    return result != 0 || device >= FIRST_HANDLE ? result : INVALID_DEVICE;
}

unsigned cuDevicePrimaryCtxRetain(ls_cuda_context *context, int device) {
    const unsigned result = fake_begin("cuDevicePrimaryCtxRetain");
    if (result != 0) return result;
    if (device < FIRST_HANDLE || device >= FIRST_HANDLE + MOST_DEVICES) return INVALID_DEVICE;
    struct CUctx_st *c = &fake.contexts[device - FIRST_HANDLE];
    pthread_mutex_lock(&fake.lock);
    c->ordinal = device - FIRST_HANDLE;
    if (c->retained++ == 0) c->life = ++fake.lives;
    fake.used = true;
    pthread_mutex_unlock(&fake.lock);
    *context = c;
    return 0;
}

unsigned cuDevicePrimaryCtxRelease_v2(int device) {
    const unsigned result = fake_begin("cuDevicePrimaryCtxRelease_v2");
    if (device < FIRST_HANDLE || device >= FIRST_HANDLE + MOST_DEVICES) return INVALID_DEVICE;
    pthread_mutex_lock(&fake.lock);
    struct CUctx_st *c = &fake.contexts[device - FIRST_HANDLE];
    if (--c->retained == 0) c->peers = 0;
    pthread_mutex_unlock(&fake.lock);
    return result;
}

unsigned cuCtxSetCurrent(ls_cuda_context context) {
    const unsigned result = fake_begin("cuCtxSetCurrent");
    pthread_once(&current_once, make_current);
    if (result == 0) (void)pthread_setspecific(current, context);
    return result;
}

unsigned fake_context(struct CUctx_st **out) {
    pthread_once(&current_once, make_current);
    struct CUctx_st *context = pthread_getspecific(current);
    pthread_mutex_lock(&fake.lock);
    const bool retained = context != NULL && context->retained > 0;
    pthread_mutex_unlock(&fake.lock);
    if (!retained) return INVALID_CONTEXT;
    *out = context;
    return 0;
}

unsigned cuDeviceCanAccessPeer(int *able, int device, int peer) {
    const unsigned result = fake_begin("cuDeviceCanAccessPeer");
    *able = device != peer && fake.settings.peers;
    return result;
}

/* Each context once, as in the real driver. */
unsigned cuCtxEnablePeerAccess(ls_cuda_context peer, unsigned flags) {
    struct CUctx_st *own;
    unsigned result = fake_begin("cuCtxEnablePeerAccess");
    if (result == 0) result = fake_context(&own);
    if (result != 0 || flags != 0 || peer == own) return result != 0 ? result : INVALID_VALUE;
    pthread_mutex_lock(&fake.lock);
    const bool already = own->peers >> peer->ordinal & 1;
    own->peers |= 1u << peer->ordinal;
    pthread_mutex_unlock(&fake.lock);
    return already ? LS_CUDA_PEER_ACCESS_ALREADY_ENABLED : 0;
}

unsigned cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    const unsigned result = fake_begin("cuCtxGetStreamPriorityRange");
    *least = 0;
    *greatest = -5;
    return result;
}

long fake_context_life(void) {
    struct CUctx_st *context;
    return fake_context(&context) == 0 ? context->life : 0;
}

int fake_left(void) {
    pthread_mutex_lock(&fake.lock);
    int left = fake_regions();
    for (int i = 0; i < MOST_DEVICES; i++)
        left += fake.contexts[i].retained + fake.contexts[i].streams + fake.contexts[i].graphs;
    pthread_mutex_unlock(&fake.lock);
    return left;
}
