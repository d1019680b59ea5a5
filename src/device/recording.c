/* Launches, and recordings: copies of launches and of what they point to, which can be launched many times. */
#include "device/device_impl.h"

#include <stdlib.h>
#include <string.h>

ls_status ls_device_record_begin(ls_device *device) {
    LS_ASSERT((device->traits.records || device->traits.loads) && !device->recording);
    ls_device_recording *recording = calloc(1, sizeof *recording);
    if (recording == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate a recording of launches");
    recording->earlier = device->recordings;
    device->recordings = recording;
    device->recording = true;
    return ls_ok();
}

static void note(ls_device *device, const ls_device_work *work) {
    ls_device_recording *r = device->recordings;
    if (r->n == r->capacity) {
        r->capacity = 2 * r->capacity + 64;
        r->list = realloc(r->list, r->capacity * sizeof *r->list);
        LS_ASSERT(r->list != NULL);
    }
    ls_recorded *mine = &r->list[r->n++];
    *mine = (ls_recorded){.work = *work, .after = calloc((size_t)work->n_after + 1, sizeof *mine->after)};
    LS_ASSERT(mine->after != NULL);
    if (work->n_after > 0) memcpy(mine->after, work->after, sizeof *work->after * (size_t)work->n_after);
    if (work->message != NULL) mine->message = *work->message;
    if (work->n_after > r->most_after) r->most_after = work->n_after;
}

ls_status ls_device_launch(ls_device *device, const ls_device_work *work) {
    LS_ASSERT(work->event.queue >= 0 && work->event.queue < device->options.queues);
    const ls_device_traits *can = &device->traits;
    LS_ASSERT(work->message != NULL  ? can->messages
              : work->submit != NULL ? can->submits
              : work->run != NULL    ? !can->submits
                                     : can->holds);
    if (!device->recording) return device->row->launch(device, work);
    note(device, work);
    return ls_ok();
}

ls_status ls_device_record_end(ls_device *device, ls_device_recording **out) {
    ls_device_recording *r = device->recordings;
    device->recording = false;
    r->after = calloc((size_t)r->most_after + 1, sizeof *r->after);
    if (r->after == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate a recording of launches");
    for (size_t i = 0; i < r->n; i++) { /* from now on the list does not move */
        ls_recorded *mine = &r->list[i];
        mine->work.after = mine->after;
        if (mine->work.message != NULL) mine->work.message = &mine->message;
    }
    if (device->row->record != NULL) LS_TRY(device->row->record(device, r));
    *out = device->traits.records ? r : NULL;
    return ls_ok();
}

size_t ls_device_recording_bytes(const ls_device_recording *recording) { return recording->bytes; }

ls_status ls_device_replay(ls_device *device, ls_device_recording *r, uint64_t shift, uint64_t times) {
    if (device->row->replay != NULL) return device->row->replay(device, r, shift, times);
    for (size_t i = 0; i < r->n; i++) {
        ls_device_work work = r->list[i].work;
        ls_device_message message = r->list[i].message;
        work.event.number += shift;
        work.after = r->after;
        for (int k = 0; k < work.n_after; k++)
            r->after[k] = (ls_event){r->list[i].after[k].queue, r->list[i].after[k].number + shift};
        message.generation += times * message.rise;
        if (work.message != NULL) work.message = &message;
        LS_TRY(ls_device_launch(device, &work));
    }
    return ls_ok();
}

void ls_recordings_free(ls_device *device) {
    for (ls_device_recording *r = device->recordings, *earlier; r != NULL; r = earlier) {
        earlier = r->earlier;
        for (size_t i = 0; i < r->n; i++) free(r->list[i].after);
        free(r->after);
        free(r->list);
        free(r);
    }
}
