/* Connects the devices of ranks that send each other messages: the parts in which all ranks must agree. */
#include "device/device_impl.h"

#include <stdlib.h>

ls_status ls_device_agree(const ls_device_ranks *ranks, ls_status mine) {
    ls_status *all = calloc((size_t)ranks->ranks, sizeof *all);
    LS_ASSERT(all != NULL);
    ls_status status = ranks->exchange(ranks->context, &mine, sizeof mine, all);
    for (int r = 0; r < ranks->ranks && status.code == LS_OK; r++) status = all[r];
    free(all);
    return mine.code != LS_OK ? mine : status;
}

/* What a rank tells all others about itself. */
typedef struct introduction {
    ls_status status;
    ls_device_handle handle;
} introduction;

static ls_status reach_all(ls_device *device, const ls_device_ranks *ranks, const ls_device_meeting *meeting,
                           const introduction *all, ls_device_remote *out) {
    size_t bytes;
    uint64_t *own = NULL;
    for (int r = 0; r < ranks->ranks; r++) {
        void *words = ranks->words(ranks->context, r, &bytes);
        out[r] = (ls_device_remote){.why = "they share no memory"};
        if (words != NULL) LS_TRY(meeting->reach(device, &all[r].handle, words, bytes, &out[r]));
        if (r == ranks->rank) own = out[r].words;
    }
    for (int r = 0; r < ranks->ranks; r++) out[r].own = own;
    return ls_ok();
}

ls_status ls_device_meet(ls_device *device, const ls_device_ranks *ranks, const ls_device_meeting *meeting,
                         ls_device_arena *heap, ls_device_remote *out) {
    introduction *all = calloc((size_t)ranks->ranks, sizeof *all), mine = {.status = ls_ok()};
    LS_ASSERT(all != NULL); /* a rank that returned here would leave the others in the exchange */
    size_t bytes;
    void *words = ranks->words(ranks->context, ranks->rank, &bytes);
    mine.status = device->row->allocate(device, heap);
    if (mine.status.code == LS_OK) mine.status = meeting->share(device, heap, words, bytes, &mine.handle);
    ls_status status = ranks->exchange(ranks->context, &mine, sizeof mine, all);
    for (int r = 0; r < ranks->ranks && status.code == LS_OK; r++) status = all[r].status;
    if (mine.status.code != LS_OK) status = mine.status;
    if (status.code == LS_OK) status = ls_device_agree(ranks, reach_all(device, ranks, meeting, all, out));
    free(all);
    return status;
}
