/* device, for this folder alone: the interface of a kind of device. */
#ifndef LS_DEVICE_IMPL_H
#define LS_DEVICE_IMPL_H

#include "device/device.h"

typedef struct ls_device_row ls_device_row;

enum {
    LS_DEVICE_ARENAS = 160
}; /* most arenas of a device; an executor has one for each space, a bench one for each call that it times */

/* A work that was launched while recording, and copies of what it points to. */
typedef struct ls_recorded {
    ls_device_work work;
    ls_device_message message; /* if the work has one */
    ls_event *after;
} ls_recorded;

struct ls_device_recording {
    ls_device_recording *earlier;
    ls_recorded *list;
    size_t n, capacity;
    ls_event *after; /* room for the events of any work of the list */
    int most_after;
    size_t bytes; /* of the device's memory that the recording takes, as far as known */
    void *state;  /* the row's */
};

struct ls_device {
    const ls_device_row *row;
    ls_device_options options;
    ls_device_traits traits;
    ls_device_arena arenas[LS_DEVICE_ARENAS];
    int n_arenas;
    ls_device_recording *recordings; /* all that were made, the last one first */
    bool recording;                  /* the last recording is being made */
    bool alone;                      /* other ranks may not close their devices */
    bool stopped, stays;             /* the device was stopped; its launches may wait for ever */
    void *state;                     /* the row's */
};

/* A kind of device. The functions are those of device.h; NULL: there is nothing to do. */
struct ls_device_row {
    const char *name;
    ls_device_traits traits;
    const char *settings; /* the settings allowed behind "NAME:", for messages; NULL: none */
    /* Called in a separate process, unless this process has used the driver. NULL: the host's processor. */
    ls_status (*describe)(const char *settings, ls_device_facts *out);
    bool (*is_used)(void); /* whether this process has used the driver; in rows with `describe` */
    /* Called whenever the device is chosen, for what must be done before there are ranks. NULL: nothing. */
    ls_status (*prepare_process)(void);
    /* settings: the text after "NAME:", or "". May change the device's traits. */
    ls_status (*open)(ls_device *device, const char *settings);
    bool (*stop)(ls_device *device);  /* ls_device_stop, once */
    void (*close)(ls_device *device); /* after stop. Frees the arenas and sets n_arenas to 0, or does neither */
    /* Sets base and source of an arena of this size, in memory of the device, or of the host if arena->host. */
    ls_status (*allocate)(ls_device *device, ls_device_arena *arena);
    ls_status (*adopt)(ls_device *device, ls_device_arena *arena);
    void (*free)(ls_device *device, ls_device_arena *arena);
    bool (*account)(ls_device *device, size_t *unused, size_t *total);
    ls_status (*read)(ls_device *device, const ls_device_arena *arena, const ls_range *from, void *out);
    ls_status (*write)(ls_device *device, const ls_device_arena *arena, const ls_range *to, const void *from);
    ls_status (*clear)(ls_device *device, const ls_device_arena *arena, const ls_range *range);
    /* Memory of a caller. All are NULL if the device has no such memory. */
    ls_status (*follow)(ls_device *device, void *stream);
    ls_status (*knows)(ls_device *device, const void *address);
    ls_status (*copy)(ls_device *device, const ls_device_arena *arena, const ls_device_rows *rows);
    ls_status (*finish)(ls_device *device);
    /* ls_device_connect: sets base and source of the heap's arena. ls_device_agree tells other ranks of a failure. */
    ls_status (*connect)(ls_device *device, const ls_device_ranks *ranks, ls_device_arena *heap, ls_device_remote *out);
    ls_status (*launch)(ls_device *device, const ls_device_work *work);
    ls_status (*release)(ls_device *device, ls_event hold);
    ls_status (*happened)(ls_device *device, ls_event event, bool *out); /* NULL: every event has happened */
    ls_status (*await)(ls_device *device, ls_event event);
    ls_status (*join)(ls_device *device);
    bool (*has_room)(ls_device *device, int queue);                /* NULL: always */
    bool (*is_large)(const ls_device *device, const ls_range *to); /* NULL: no message is */
    /* record: called when the recording's list of works is complete. Both NULL: replay launches each work again. */
    ls_status (*record)(ls_device *device, ls_device_recording *recording);
    ls_status (*replay)(ls_device *device, ls_device_recording *recording, uint64_t shift, uint64_t times);
};

extern const ls_device_row ls_device_cpu;
extern const ls_device_row ls_device_delayed;
extern const ls_device_row ls_device_cuda;

/*
 * connect.c. Collective: LS_OK if `mine` is LS_OK on all ranks; else `mine`, or if that is LS_OK the status of the
 * first rank that failed.
 */
LS_MUST_USE ls_status ls_device_agree(const ls_device_ranks *ranks, ls_status mine);
/*
 * Collective. Makes the heap by the row's `allocate`. `share` writes what peers must know of this rank into a handle;
 * `reach` finds from the handle of a peer the addresses for messages to it, if messages can reach it. It is not called
 * for ranks whose words this process cannot address; no message reaches them.
 */
typedef struct ls_device_handle {
    char bytes[120];
} ls_device_handle;
typedef struct ls_device_meeting {
    ls_status (*share)(ls_device *device, const ls_device_arena *heap, void *words, size_t bytes,
                       ls_device_handle *out);
    ls_status (*reach)(ls_device *device, const ls_device_handle *handle, void *words, size_t bytes,
                       ls_device_remote *out);
} ls_device_meeting;
LS_MUST_USE ls_status ls_device_meet(ls_device *device, const ls_device_ranks *ranks, const ls_device_meeting *meeting,
                                     ls_device_arena *heap, ls_device_remote *out);

/* recording.c: frees all recordings. */
void ls_recordings_free(ls_device *device);

/*
 * judge.c: checks that launches that access the same bytes are ordered. Used under a lock.
 *   launch   LS_INVALID names the launch and an earlier one with which it races
 *   see      notes that the host knows that the event has happened
 *   host     LS_INVALID names a launch that accesses the same bytes and that the host has not seen executed
 */
typedef struct ls_judge ls_judge;
ls_judge *ls_judge_create(int queues);
void ls_judge_destroy(ls_judge *judge); /* NULL is allowed */
LS_MUST_USE ls_status ls_judge_launch(ls_judge *judge, const ls_device_work *work);
void ls_judge_see(ls_judge *judge, ls_event event);
LS_MUST_USE ls_status ls_judge_host(const ls_judge *judge, const ls_device_access *access);

/* memory.c: read, write and clear for arenas that the host can address at `source`. */
ls_status ls_device_host_read(ls_device *device, const ls_device_arena *arena, const ls_range *from, void *out);
ls_status ls_device_host_write(ls_device *device, const ls_device_arena *arena, const ls_range *to, const void *from);
ls_status ls_device_host_clear(ls_device *device, const ls_device_arena *arena, const ls_range *range);

#endif
