#include "cuda/routes/remote.h"

#include "device/cuda/driver.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MOST_SECONDS = 20, MOST_DELAY_MICROSECONDS = 300 };

void remote_abort(const char *library, const char *what) {
    fprintf(stderr, "fake %s: %s\n", library, what);
    abort();
}

static void nap(long microseconds) {
    const struct timespec time = {0, microseconds * 1000};
    nanosleep(&time, NULL);
}

/* --- settings ----------------------------------------------------------------------------------------------------- */

static void read_setting(const char *setting, remote_settings *s) {
    struct {
        const char *name;
        long *value;
    } const rows[] = {{"version=", &s->version}, {"seed=", &s->seed},   {"puts=", &s->puts},
                      {"signals=", &s->signals}, {"early=", &s->early}, {"windows=", &s->windows}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const size_t n = strlen(rows[i].name);
        if (strncmp(setting, rows[i].name, n) != 0) continue;
        *rows[i].value = strtol(setting + n, NULL, 10);
        return;
    }
    char how[8] = "";
    if (sscanf(setting, "%63[^=]=%ld:%7s", s->failing, &s->failing_call, how) < 2)
        remote_abort("library", "a setting is wrong");
    s->dies = strcmp(how, "dies") == 0;
}

remote_settings remote_read_settings(const char *variable, long version) {
    remote_settings s = {.version = version, .puts = 1, .signals = 1, .windows = 1};
    const char *given = getenv(variable);
    char text[256], *rest = text;
    snprintf(text, sizeof text, "%s", given != NULL ? given : "");
    for (const char *setting; (setting = strsep(&rest, ",")) != NULL;)
        if (setting[0] != 0) read_setting(setting, &s);
    return s;
}

bool remote_fails(remote_settings *s, const char *call) {
    if (strcmp(s->failing, call) != 0 || __atomic_sub_fetch(&s->failing_call, 1, __ATOMIC_RELAXED) != 0) return false;
    if (s->dies) (void)raise(SIGKILL);
    return true;
}

/* --- ranks -------------------------------------------------------------------------------------------------------- */

/* In memory that all ranks share. */
typedef struct shared {
    int arrived, turn; /* of barriers */
    struct {
        pid_t process;
        int file;
    } given[REMOTE_RANKS];
} shared;

typedef struct transfer transfer;
struct transfer {
    transfer *next;
    remote_transfer what;
    char *bytes;
    double due;
};

struct remote_world {
    const char *library;
    shared *shared;
    int rank, ranks;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    transfer *first, **end; /* on their way */
    int unsent[REMOTE_RANKS];
    long draws;
    bool leaving;
    pthread_t thread;
};

int remote_rank(const remote_world *w) { return w->rank; }
int remote_ranks(const remote_world *w) { return w->ranks; }

void remote_make_id(char id[REMOTE_ID_BYTES]) {
    const int file = memfd_create("fake-ranks", 0);
    if (file < 0 || ftruncate(file, sizeof(shared)) != 0) remote_abort("library", "memory cannot be made");
    snprintf(id, REMOTE_ID_BYTES, "%d %d", (int)getpid(), file);
}

static int open_file(int process, int file) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", process, file);
    return open(path, O_RDWR | O_CLOEXEC);
}

static void *map_file(const char *library, int process, int file, size_t bytes) {
    const int opened = open_file(process, file);
    void *memory = opened < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, opened, 0);
    if (memory == MAP_FAILED) remote_abort(library, "memory of another rank cannot be mapped");
    close(opened);
    return memory;
}

static void *deliver(void *argument);

remote_world *remote_join(const char *library, const char *id, int rank, int ranks) {
    remote_world *w = calloc(1, sizeof *w);
    int process, file;
    if (w == NULL || ranks > REMOTE_RANKS || sscanf(id, "%d %d", &process, &file) != 2)
        remote_abort(library, "a wrong id, or too many ranks");
    *w = (remote_world){.library = library, .rank = rank, .ranks = ranks, .end = &w->first};
    w->shared = map_file(library, process, file, sizeof(shared));
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    if (pthread_create(&w->thread, NULL, deliver, w) != 0) remote_abort(library, "no thread");
    remote_barrier(w);
    return w;
}

void remote_barrier(remote_world *w) {
    const int turn = __atomic_load_n(&w->shared->turn, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&w->shared->arrived, 1, __ATOMIC_ACQ_REL) == w->ranks) {
        __atomic_store_n(&w->shared->arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&w->shared->turn, turn + 1, __ATOMIC_RELEASE);
        return;
    }
    for (long naps = 0; __atomic_load_n(&w->shared->turn, __ATOMIC_ACQUIRE) == turn; naps++) {
        if (naps > MOST_SECONDS * 10000L) remote_abort(w->library, "a rank waits for others that do not come");
        nap(100);
    }
}

void remote_leave(remote_world *w) {
    pthread_mutex_lock(&w->lock);
    w->leaving = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    munmap(w->shared, sizeof *w->shared);
    free(w);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

static void *function_of(void *library, const char *name) {
    void *found = library != NULL ? dlsym(library, name) : NULL;
    if (found == NULL) remote_abort("library", "the fake driver is not there");
    return found;
}

const remote_driver *remote_find_driver(void) {
    static remote_driver driver;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const char *const names[] = {"fake_stream_run", "fake_share", "fake_device_memory", "cuStreamBatchMemOp_v2",
                                        "cuMemFree_v2"};
    pthread_mutex_lock(&lock);
    if (driver.run == NULL) {
        void *library = dlopen(getenv("LONGSPAN_CUDA_DRIVER"), RTLD_NOW), *found[5];
        for (int i = 0; i < 5; i++) found[i] = function_of(library, names[i]);
        memcpy(&driver, found, sizeof driver);
    }
    pthread_mutex_unlock(&lock);
    return &driver;
}

unsigned remote_await(void *stream, uintptr_t at, uint64_t value) {
    ls_cuda_word_op wait = {
        .waitValue = {.operation = LS_CUDA_WAIT_WORD, .address = at, .value64 = value, .flags = LS_CUDA_WAIT_GEQ}};
    return remote_find_driver()->words(stream, 1, &wait, 0);
}

void remote_allocate(size_t bytes, remote_memory *out) {
    *out = (remote_memory){.bytes = bytes, .file = memfd_create("fake-remote", MFD_CLOEXEC)};
    if (out->file < 0 || ftruncate(out->file, (off_t)bytes) != 0) remote_abort("library", "memory cannot be made");
    out->own = remote_find_driver()->share(out->file, bytes);
}

void remote_exchange(remote_world *w, remote_memory *m) {
    w->shared->given[w->rank].process = getpid();
    w->shared->given[w->rank].file = m->file;
    remote_barrier(w);
    for (int r = 0; r < w->ranks; r++)
        m->plain[r] = map_file(w->library, w->shared->given[r].process, w->shared->given[r].file, m->bytes);
    remote_barrier(w);
}

/* After all has arrived that this rank has sent, and all others are here. */
void remote_unmap(remote_world *w, remote_memory *m) {
    pthread_mutex_lock(&w->lock);
    while (w->first != NULL) pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
    for (int r = 0; r < w->ranks; r++) munmap(m->plain[r], m->bytes);
}

void remote_free(remote_world *w, remote_memory *m) {
    if (w != NULL) remote_unmap(w, m);
    (void)remote_find_driver()->free((uintptr_t)m->own);
    close(m->file);
}

/* --- sending ------------------------------------------------------------------------------------------------------ */

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void set_word(const remote_transfer *p) {
    if (p->word == NULL || p->settings->signals == 0) return;
    if (p->adds)
        __atomic_add_fetch(p->word, p->value, __ATOMIC_RELEASE);
    else
        __atomic_store_n(p->word, p->value, __ATOMIC_RELEASE);
}

/* Without the lock. */
static void arrive(const transfer *p) {
    if (p->what.settings->early) set_word(&p->what);
    if (p->what.settings->early) nap(50000);
    if (p->bytes != NULL && p->what.settings->puts) memcpy(p->what.to, p->bytes, p->what.bytes);
    if (!p->what.settings->early) set_word(&p->what);
}

/* Whether an earlier one has to arrive before it. */
static bool is_held(const remote_world *w, const transfer *p) {
    for (const transfer *other = w->first; other != p; other = other->next)
        if (p->what.ordered && other->what.peer == p->what.peer) return true;
    return false;
}

/* One that is due, or NULL. Under the lock. */
static transfer **find_due(remote_world *w) {
    const double now = seconds();
    for (transfer **place = &w->first; *place != NULL; place = &(*place)->next)
        if ((*place)->due <= now && !is_held(w, *place)) return place;
    return NULL;
}

/* The transfer stays in the list until it has arrived: quiet waits for that. */
static void remove_transfer(remote_world *w, const transfer *p) {
    transfer **place = &w->first;
    while (*place != p) place = &(*place)->next;
    *place = p->next;
    if (w->end == &p->next) w->end = place;
    pthread_cond_broadcast(&w->changed);
}

static void *deliver(void *argument) {
    remote_world *w = argument;
    pthread_mutex_lock(&w->lock);
    while (!w->leaving || w->first != NULL) {
        transfer **place = find_due(w);
        if (place != NULL) {
            transfer *p = *place;
            pthread_mutex_unlock(&w->lock);
            arrive(p);
            pthread_mutex_lock(&w->lock);
            remove_transfer(w, p);
            free(p->bytes);
            free(p);
        } else if (w->first != NULL) {
            pthread_mutex_unlock(&w->lock);
            nap(20);
            pthread_mutex_lock(&w->lock);
        } else {
            pthread_cond_wait(&w->changed, &w->lock);
        }
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* On the stream: reads the source, and lets the transfer go. */
static void start_transfer(void *context) {
    transfer *p = context;
    remote_world *w = p->what.world;
    if (p->what.from != NULL) {
        p->bytes = malloc(p->what.bytes + 1);
        if (p->bytes == NULL) remote_abort(w->library, "no memory");
        memcpy(p->bytes, p->what.from, p->what.bytes);
    }
    pthread_mutex_lock(&w->lock);
    const uint64_t random =
        (uint64_t)(++w->draws + 7919 * p->what.settings->seed + 104729 * w->rank) * 0x9e3779b97f4a7c15u;
    p->due = seconds() + 1e-6 * (double)((random >> 33) % MOST_DELAY_MICROSECONDS);
    w->unsent[p->what.peer]--;
    *w->end = p;
    w->end = &p->next;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

void remote_send(void *stream, const remote_transfer *what) {
    const remote_driver *driver = remote_find_driver();
    transfer *p = calloc(1, sizeof *p);
    if (p == NULL) remote_abort(what->world->library, "no memory");
    p->what = *what;
    if (what->from != NULL) {
        p->what.from = driver->find((uintptr_t)what->from, what->bytes);
        if (p->what.from == NULL) remote_abort(what->world->library, "a source that is no memory of the device");
    }
    pthread_mutex_lock(&what->world->lock);
    what->world->unsent[what->peer]++;
    pthread_mutex_unlock(&what->world->lock);
    driver->run(stream, start_transfer, NULL, p);
}

int remote_unsent(remote_world *w, int peer) {
    pthread_mutex_lock(&w->lock);
    const int n = w->unsent[peer];
    pthread_mutex_unlock(&w->lock);
    return n;
}

static void wait_quiet(void *context) {
    remote_world *w = context;
    pthread_mutex_lock(&w->lock);
    while (w->first != NULL) pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

void remote_quiet(void *stream, remote_world *w) { remote_find_driver()->run(stream, wait_quiet, NULL, w); }
