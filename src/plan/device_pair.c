/* Times messages between two ranks of a device that has messages. */
#include "plan/plan_impl.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIDES = 2, FIRST = 0, SECOND = 1 };
/* Words of a rank: one that its peer sets, and one that it sets itself. */
enum { WORD_PEER, WORD_OWN, WORDS };
/* A trip has two launches on a queue. */
enum { MOST_TRIPS = LS_TIMED_LAUNCHES / 2 };
#define SECONDS_FOR_FIRST_MESSAGES 10

typedef struct side {
    ls_timed_place place;
    bool open;
    const ls_device_arena *heap; /* what is sent, followed by the place for what arrives */
    void *words;
    ls_device_remote self, other; /* the addresses of this heap for messages, and of the other rank's */
    int index;
} side;

struct ls_device_pair {
    size_t most, words_bytes;
    side side[SIDES];
    void *pinned;                /* memory of the host, only for side FIRST */
    const ls_device_arena *host; /* the same memory as an arena of the device */
    uint64_t generation;         /* the last generation of any word */
    ls_pair_trip trip;           /* the trip that was timed last, */
    size_t bytes;                /* with this number of bytes, */
    int trips;                   /* and this number of trips at once; 0: none yet */
};

/* --- opening ------------------------------------------------------------------------------------------------------ */

/* Maps pages that nothing else uses. */
static ls_status map_shared(size_t bytes, void **out) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return ls_error(LS_NO_MEMORY, "no memory for %zu bytes that a device shares", bytes);
    *out = memory;
    return ls_ok();
}

static ls_status open_side(const ls_device_pair *pair, const ls_host_of *of, int unit, side *s) {
    LS_TRY(ls_timed_place_open(of, unit, NULL, &s->place));
    s->open = true;
    if (!ls_device_traits_of(s->place.device)->messages)
        return ls_error(LS_UNSUPPORTED, "device %s executes no messages between ranks; expected one that does",
                        of->name);
    return map_shared(pair->words_bytes, &s->words);
}

/* What the two sides need to connect, each in a thread of its own. */
typedef struct meeting {
    ls_device_pair *pair;
    pthread_barrier_t barrier;
    const void *said[SIDES];
} meeting;
typedef struct member {
    meeting *meeting;
    int index;
    ls_status status;
} member;

static void *words_of(void *context, int rank, size_t *bytes) {
    *bytes = WORDS * sizeof(uint64_t);
    return ((member *)context)->meeting->pair->side[rank].words;
}

static ls_status exchange(void *context, const void *mine, size_t bytes, void *all) {
    const member *m = context;
    m->meeting->said[m->index] = mine;
    (void)pthread_barrier_wait(&m->meeting->barrier);
    for (int i = 0; i < SIDES; i++) memcpy((char *)all + (size_t)i * bytes, m->meeting->said[i], bytes);
    (void)pthread_barrier_wait(&m->meeting->barrier);
    return ls_ok();
}

static void *connect_side(void *context) {
    member *m = context;
    side *s = &m->meeting->pair->side[m->index];
    ls_device_remote remotes[SIDES];
    const ls_device_ranks ranks = {.rank = m->index,
                                   .ranks = SIDES,
                                   .patience = SECONDS_FOR_FIRST_MESSAGES,
                                   .words = words_of,
                                   .exchange = exchange,
                                   .context = m};
    m->status = ls_device_connect(s->place.device, &ranks, 2 * m->meeting->pair->most, &s->heap, remotes);
    if (m->status.code != LS_OK) return NULL;
    s->index = m->index;
    s->self = remotes[m->index];
    s->other = remotes[1 - m->index];
    if (s->other.words == NULL)
        m->status = ls_error(LS_UNSUPPORTED, "the GPUs %d and %d of this machine do not reach each other: %s", m->index,
                             1 - m->index, s->other.why != NULL ? s->other.why : "no reason is known");
    return NULL;
}

static ls_status connect_sides(ls_device_pair *pair) {
    meeting m = {.pair = pair};
    member members[SIDES] = {{&m, FIRST, ls_ok()}, {&m, SECOND, ls_ok()}};
    pthread_t second;
    (void)pthread_barrier_init(&m.barrier, NULL, SIDES);
    const bool started = pthread_create(&second, NULL, connect_side, &members[SECOND]) == 0;
    if (started) {
        (void)connect_side(&members[FIRST]);
        (void)pthread_join(second, NULL);
    }
    (void)pthread_barrier_destroy(&m.barrier);
    if (!started) return ls_error(LS_NO_MEMORY, "no thread for the second of two ranks that are timed");
    LS_TRY(members[FIRST].status);
    return members[SECOND].status;
}

static ls_status open_pair(ls_device_pair *pair, const ls_host_of *of, const int units[SIDES]) {
    for (int i = 0; i < SIDES; i++) LS_TRY(open_side(pair, of, units[i], &pair->side[i]));
    LS_TRY(connect_sides(pair));
    LS_TRY(map_shared(pair->most, &pair->pinned));
    return ls_device_adopt(pair->side[FIRST].place.device, pair->pinned, pair->most, &pair->host);
}

ls_status ls_device_pair_open(const ls_host_of *of, const int units[SIDES], size_t most, ls_device_pair **out) {
    ls_device_pair *pair = calloc(1, sizeof *pair);
    LS_ASSERT(pair != NULL);
    pair->most = most;
    pair->words_bytes = (size_t)sysconf(_SC_PAGESIZE);
    const ls_status status = open_pair(pair, of, units);
    if (status.code != LS_OK)
        ls_device_pair_close(pair);
    else
        *out = pair;
    return status;
}

void ls_device_pair_close(ls_device_pair *pair) {
    if (pair == NULL) return;
    for (int i = 0; i < SIDES; i++)
        if (pair->side[i].open) ls_timed_place_close(&pair->side[i].place);
    for (int i = 0; i < SIDES; i++)
        if (pair->side[i].words != NULL) (void)munmap(pair->side[i].words, pair->words_bytes);
    if (pair->pinned != NULL) (void)munmap(pair->pinned, pair->most);
    free(pair);
}

/* --- trips -------------------------------------------------------------------------------------------------------- */

static ls_status launch(side *s, const char *name, const ls_device_message *message) {
    return ls_timed_place_launch(&s->place, (ls_device_work){.name = name, .message = message});
}

static ls_status put(side *s, size_t most, size_t bytes, uint64_t generation) {
    const ls_device_message message = {.source = bytes > 0 ? s->heap->source : NULL,
                                       .target = s->other.heap,
                                       .from = ls_range_flat(0, bytes),
                                       .to = ls_range_flat(most, bytes),
                                       .word = s->other.words + WORD_PEER,
                                       .generation = generation,
                                       .peer = 1 - s->index,
                                       .carries = bytes > 0};
    return launch(s, "put", &message);
}

static ls_status await_peer(side *s, size_t bytes, uint64_t generation) {
    const ls_device_message message = {.word = s->other.own + WORD_PEER,
                                       .generation = generation,
                                       .awaits = true,
                                       .peer = 1 - s->index,
                                       .carries = bytes > 0};
    return launch(s, "wait", &message);
}

/* Sends a copy from side FIRST that sets a word of its own. The message has source and target. */
static ls_status copy(ls_device_pair *pair, ls_device_message message, size_t bytes) {
    side *s = &pair->side[FIRST];
    message.from = message.to = ls_range_flat(0, bytes);
    message.word = s->self.words + WORD_OWN;
    message.peer = s->index;
    message.generation = ++pair->generation;
    return launch(s, "copy", &message);
}

static ls_status launch_trip(ls_device_pair *pair, ls_pair_trip trip, size_t bytes) {
    side *first = &pair->side[FIRST], *second = &pair->side[SECOND];
    const ls_device_message copies[] = {
        [LS_TRIP_COPY] = {.source = first->heap->source, .target = first->self.heap + pair->most},
        [LS_TRIP_TO_HOST] = {.source = first->heap->source, .target = pair->host->base},
        [LS_TRIP_FROM_HOST] = {.source = pair->host->base, .target = first->self.heap},
    };
    if (copies[trip].source != NULL) return copy(pair, copies[trip], bytes);
    const uint64_t generation = ++pair->generation;
    LS_TRY(put(first, pair->most, bytes, generation));
    LS_TRY(await_peer(second, bytes, generation));
    if (trip == LS_TRIP_PUT) return ls_ok();
    LS_TRY(put(second, pair->most, bytes, generation));
    return await_peer(first, bytes, generation);
}

/*
 * *seconds: time of n trips together. If the device has holds, they are launched behind a hold, after one more trip,
 * which is not timed.
 */
static ls_status time_trips(ls_device_pair *pair, ls_pair_trip trip, size_t bytes, int n, double *seconds) {
    ls_timed_place *first = &pair->side[FIRST].place;
    ls_event hold = {0, 0};
    uint64_t lead[SIDES];
    LS_TRY(ls_timed_place_hold(first, &hold));
    if (hold.number > 0) LS_TRY(launch_trip(pair, trip, bytes));
    for (int i = 0; i < SIDES; i++) lead[i] = pair->side[i].place.launched;
    double start = ls_seconds();
    for (int i = 0; i < n; i++) LS_TRY(launch_trip(pair, trip, bytes));
    if (hold.number > 0) {
        LS_TRY(ls_timed_place_release(first, hold));
        for (int i = 0; i < SIDES; i++) LS_TRY(ls_timed_place_await_launch(&pair->side[i].place, lead[i]));
        start = ls_seconds();
    }
    for (int i = 0; i < SIDES; i++) LS_TRY(ls_timed_place_await(&pair->side[i].place));
    *seconds = ls_seconds() - start;
    return ls_ok();
}

ls_status ls_device_pair_time(ls_device_pair *pair, ls_pair_trip trip, size_t bytes, double *seconds) {
    LS_ASSERT(bytes <= pair->most);
    double all;
    if (pair->trips == 0 || pair->trip != trip || pair->bytes != bytes) {
        for (int i = 0; i < 2; i++) LS_TRY(time_trips(pair, trip, bytes, 1, &all)); /* the first trip warms up */
        pair->trip = trip;
        pair->bytes = bytes;
        pair->trips = (int)ls_min(MOST_TRIPS, ls_timed_launches(all));
    }
    LS_TRY(time_trips(pair, trip, bytes, pair->trips, &all));
    *seconds = all / pair->trips;
    return ls_ok();
}
