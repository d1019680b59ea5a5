/*
 * Checks that launches that access the same bytes are ordered. Each launch has a clock: for each queue, the highest
 * number that is known to have been executed before the launch starts. This follows from its events, from the order of
 * its queue, and from what the host had seen executed. Two launches that access the same bytes race, unless both only
 * read them or the clock of one includes the other. Only launches that the host has not seen executed are kept, because
 * all later launches come after the others.
 *
 * The result does not depend on how long launches take, so that a missing event is found in the first run.
 */
#include "device/device_impl.h"

#include <stdlib.h>
#include <string.h>

typedef struct entry {
    const char *name;
    ls_event event;
    const ls_device_access *accesses;
    int n_accesses;
    uint64_t *clock; /* by queue */
} entry;

struct ls_judge {
    int queues;
    uint64_t *seen; /* by queue: the highest number that the host has seen executed */
    entry *entries; /* launches that were not seen executed, in the order of launching */
    size_t n, capacity;
};

ls_judge *ls_judge_create(int queues) {
    ls_judge *judge = calloc(1, sizeof *judge);
    uint64_t *seen = calloc((size_t)queues, sizeof *seen);
    LS_ASSERT(judge != NULL && seen != NULL);
    judge->queues = queues;
    judge->seen = seen;
    return judge;
}

void ls_judge_destroy(ls_judge *judge) {
    if (judge == NULL) return;
    for (size_t i = 0; i < judge->n; i++) free(judge->entries[i].clock);
    free(judge->entries);
    free(judge->seen);
    free(judge);
}

/* Raises a clock to include all that another clock includes. */
static void raise_clock(const ls_judge *judge, uint64_t *clock, const uint64_t *other) {
    for (int q = 0; q < judge->queues; q++)
        if (other[q] > clock[q]) clock[q] = other[q];
}

/* Raises a clock to include the event, and the clock of the last launch that the event includes. */
static void raise_to_event(const ls_judge *judge, uint64_t *clock, ls_event event) {
    for (size_t i = judge->n; i-- > 0;) {
        const entry *e = &judge->entries[i];
        if (e->event.queue != event.queue || e->event.number > event.number) continue;
        raise_clock(judge, clock, e->clock);
        break;
    }
    if (event.number > clock[event.queue]) clock[event.queue] = event.number;
}

void ls_judge_see(ls_judge *judge, ls_event event) {
    if (event.number <= judge->seen[event.queue]) return;
    raise_to_event(judge, judge->seen, event);
    size_t kept = 0;
    for (size_t i = 0; i < judge->n; i++) {
        const entry e = judge->entries[i];
        if (e.event.number > judge->seen[e.event.queue])
            judge->entries[kept++] = e;
        else
            free(e.clock);
    }
    judge->n = kept;
}

static bool conflict(const ls_device_access *a, const ls_device_access *b) {
    return a->arena == b->arena && a->owner == b->owner && (a->writes || b->writes) &&
           ls_range_overlap(&a->range, &b->range);
}

static const char *verb(const ls_device_access *access) { return access->writes ? "writes" : "reads"; }

static ls_status compare(const entry *mine, const entry *other) {
    for (int i = 0; i < mine->n_accesses; i++) {
        for (int k = 0; k < other->n_accesses; k++) {
            const ls_device_access *a = &mine->accesses[i], *b = &other->accesses[k];
            if (!conflict(a, b)) continue;
            return ls_error(LS_INVALID,
                            "memory touched too early: %s (queue %d, number %llu) %s bytes %zu to %zu, of which %s "
                            "(queue %d, number %llu) %s some; expected one to come after the other",
                            mine->name, mine->event.queue, (unsigned long long)mine->event.number, verb(a),
                            a->range.offset, ls_range_end(&a->range), other->name, other->event.queue,
                            (unsigned long long)other->event.number, verb(b));
        }
    }
    return ls_ok();
}

ls_status ls_judge_launch(ls_judge *judge, const ls_device_work *work) {
    entry mine = {.name = work->name,
                  .event = work->event,
                  .accesses = work->accesses,
                  .n_accesses = work->n_accesses,
                  .clock = calloc((size_t)judge->queues, sizeof *mine.clock)};
    LS_ASSERT(mine.clock != NULL);
    raise_clock(judge, mine.clock, judge->seen);
    raise_to_event(judge, mine.clock, (ls_event){work->event.queue, work->event.number - 1});
    for (int i = 0; i < work->n_after; i++) raise_to_event(judge, mine.clock, work->after[i]);
    ls_status status = ls_ok();
    for (size_t i = 0; i < judge->n && status.code == LS_OK; i++) {
        const entry *other = &judge->entries[i];
        if (other->event.number > mine.clock[other->event.queue]) status = compare(&mine, other);
    }
    if (judge->n == judge->capacity) {
        judge->capacity = 2 * judge->capacity + 64;
        judge->entries = realloc(judge->entries, judge->capacity * sizeof *judge->entries);
        LS_ASSERT(judge->entries != NULL);
    }
    judge->entries[judge->n++] = mine;
    return status;
}

ls_status ls_judge_host(const ls_judge *judge, const ls_device_access *access) {
    const entry host = {.name = "the host", .accesses = access, .n_accesses = 1};
    for (size_t i = 0; i < judge->n; i++) LS_TRY(compare(&host, &judge->entries[i]));
    return ls_ok();
}
