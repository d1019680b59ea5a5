/* The table of devices; a device and its arenas from opening to closing; the calls of device.h. */
#include "device/device_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ls_device_row *const rows[] = {&ls_device_cpu, &ls_device_delayed, &ls_device_cuda};

const char *ls_device_name(int index) {
    return index >= 0 && (size_t)index < LS_COUNT(rows) ? rows[index]->name : NULL;
}

/* The row of "NAME" or "NAME:SETTINGS"; NULL: there is none. */
static const ls_device_row *find(const char *name) {
    const size_t length = strcspn(name, ":");
    for (size_t i = 0; i < LS_COUNT(rows); i++) {
        if (strlen(rows[i]->name) == length && strncmp(rows[i]->name, name, length) == 0) return rows[i];
    }
    return NULL;
}

static ls_status unknown_device(const char *name) {
    char known[128] = "";
    for (size_t i = 0; i < LS_COUNT(rows); i++) {
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", rows[i]->name);
    }
    return ls_error(LS_INVALID, "there is no device '%s'; expected one of %s, with its settings behind a colon", name,
                    known);
}

/* LS_INVALID: the name has settings though the device takes none, or a colon without settings. */
static ls_status check_settings(const ls_device_row *row, const char *name) {
    const char *colon = strchr(name, ':');
    if (colon == NULL || (row->settings != NULL && colon[1] != 0)) return ls_ok();
    if (row->settings == NULL) return ls_error(LS_INVALID, "device '%s': expected %s alone", name, row->name);
    return ls_error(LS_INVALID, "device '%s': expected %s or %s:%s", name, row->name, row->name, row->settings);
}

/* Finds the device's name and its row from a setting. */
static ls_status choose(const char *setting, const char **name, const ls_device_row **row) {
    if (setting == NULL) setting = getenv("LONGSPAN_DEVICE");
    if (setting == NULL) setting = ls_device_cpu.name;
    const ls_device_row *found = find(setting);
    if (found == NULL) return unknown_device(setting);
    LS_TRY(check_settings(found, setting));
    if (found->prepare_process != NULL) LS_TRY(found->prepare_process());
    *name = setting;
    *row = found;
    return ls_ok();
}

ls_status ls_device_choose(const char *setting, const char **name, ls_device_traits *traits) {
    const ls_device_row *row;
    LS_TRY(choose(setting, name, &row));
    *traits = row->traits;
    return ls_ok();
}

static const char *settings_of(const ls_device_row *row, const char *name) {
    const char *settings = name + strlen(row->name);
    return settings + (*settings == ':');
}

typedef struct question {
    const ls_device_row *row;
    const char *settings;
    ls_device_facts facts;
} question;

static ls_status answer(void *context) {
    question *q = context;
    return q->row->describe(q->settings, &q->facts);
}

ls_status ls_device_describe(const char *name, ls_device_facts *out) {
    question q = {0};
    LS_TRY(choose(name, &name, &q.row));
    q.settings = settings_of(q.row, name);
    if (q.row->describe != NULL) LS_TRY(q.row->is_used() ? answer(&q) : ls_apart(answer, &q, &q.facts, sizeof q.facts));
    *out = q.facts;
    return ls_ok();
}

ls_status ls_device_open(const char *name, const ls_device_options *options, ls_device **out) {
    const ls_device_row *row;
    LS_TRY(choose(name, &name, &row));
    ls_device *device = calloc(1, sizeof *device);
    if (device == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate %zu bytes for a device", sizeof *device);
    device->row = row;
    device->options = *options;
    device->traits = row->traits;
    const ls_status status = row->open != NULL ? row->open(device, settings_of(row, name)) : ls_ok();
    if (status.code != LS_OK) {
        free(device);
        return status;
    }
    *out = device;
    return ls_ok();
}

bool ls_device_stop(ls_device *device) {
    if (!device->stopped) device->stays = device->row->stop != NULL && !device->row->stop(device);
    device->stopped = true;
    return !device->stays;
}

void ls_device_close(ls_device *device) {
    if (device == NULL) return;
    if (!ls_device_stop(device))
        device->n_arenas = 0; /* its arenas and all that it holds stay */
    else if (device->row->close != NULL)
        device->row->close(device);
    ls_recordings_free(device);
    for (int i = 0; i < device->n_arenas; i++) {
        const ls_device_arena *arena = &device->arenas[i];
        if (!arena->adopted && !arena->left && !arena->freed) device->row->free(device, &device->arenas[i]);
    }
    free(device);
}

void ls_device_close_alone(ls_device *device) {
    if (device != NULL) device->alone = true;
    ls_device_close(device);
}

const ls_device_traits *ls_device_traits_of(const ls_device *device) { return &device->traits; }

/* --- memory ------------------------------------------------------------------------------------------------------- */

/* Room for another arena: that of one that was freed, or behind all. */
static ls_device_arena *find_room(ls_device *device) {
    int i = 0;
    while (i < device->n_arenas && !device->arenas[i].freed) i++;
    LS_ASSERT(i < LS_DEVICE_ARENAS);
    return &device->arenas[i];
}

static void note_arena(ls_device *device, const ls_device_arena *arena) {
    if (arena == &device->arenas[device->n_arenas]) device->n_arenas++;
}

static ls_status allocate(ls_device *device, ls_device_arena made, const ls_device_arena **out) {
    ls_device_arena *arena = find_room(device);
    LS_TRY(device->row->allocate(device, &made));
    *arena = made;
    note_arena(device, arena);
    *out = arena;
    return ls_ok();
}

ls_status ls_device_allocate(ls_device *device, size_t bytes, const ls_device_arena **out) {
    return allocate(device, (ls_device_arena){.bytes = bytes}, out);
}

ls_status ls_device_allocate_host(ls_device *device, size_t bytes, const ls_device_arena **out) {
    return allocate(device, (ls_device_arena){.bytes = bytes, .host = true}, out);
}

void ls_device_free(ls_device *device, const ls_device_arena *arena) {
    ls_device_arena *mine = &device->arenas[arena - device->arenas];
    LS_ASSERT(!arena->adopted && !arena->freed);
    device->row->free(device, mine);
    *mine = (ls_device_arena){.freed = true};
}

bool ls_device_account(ls_device *device, size_t *unused, size_t *total) {
    return device->row->account != NULL && device->row->account(device, unused, total);
}

ls_status ls_device_adopt(ls_device *device, void *memory, size_t bytes, const ls_device_arena **out) {
    ls_device_arena *arena = find_room(device),
                    made = {.base = memory, .source = memory, .bytes = bytes, .adopted = true};
    if (device->row->adopt != NULL) LS_TRY(device->row->adopt(device, &made));
    *arena = made;
    note_arena(device, arena);
    *out = arena;
    return ls_ok();
}

static void check_range(const ls_device_arena *arena, const ls_range *range) {
    LS_ASSERT(ls_range_bytes(range) == 0 || ls_range_end(range) <= arena->bytes);
}

ls_status ls_device_read(ls_device *device, const ls_device_arena *arena, const ls_range *from, void *out) {
    check_range(arena, from);
    return device->row->read(device, arena, from, out);
}

ls_status ls_device_write(ls_device *device, const ls_device_arena *arena, const ls_range *to, const void *from) {
    check_range(arena, to);
    return device->row->write(device, arena, to, from);
}

ls_status ls_device_clear(ls_device *device, const ls_device_arena *arena, const ls_range *range) {
    check_range(arena, range);
    return device->row->clear(device, arena, range);
}

/* --- memory of a caller ------------------------------------------------------------------------------------------- */

static ls_status check_caller(const ls_device *device) {
    if (device->row->follow != NULL) return ls_ok();
    return ls_error(LS_UNSUPPORTED, "arrays in memory of a GPU on device %s; expected the device cuda",
                    device->row->name);
}

ls_status ls_device_follow(ls_device *device, void *stream) {
    LS_TRY(check_caller(device));
    return device->row->follow(device, stream);
}

ls_status ls_device_knows(ls_device *device, const void *address) {
    LS_TRY(check_caller(device));
    return device->row->knows(device, address);
}

ls_status ls_device_copy(ls_device *device, const ls_device_arena *arena, const ls_device_rows *copy) {
    LS_TRY(check_caller(device));
    LS_ASSERT(copy->at + (copy->rows - 1) * copy->pitch + copy->width <= arena->bytes);
    return device->row->copy(device, arena, copy);
}

ls_status ls_device_finish(ls_device *device) {
    LS_TRY(check_caller(device));
    return device->row->finish(device);
}

ls_status ls_device_connect(ls_device *device, const ls_device_ranks *ranks, size_t heap_bytes,
                            const ls_device_arena **heap, ls_device_remote *out) {
    LS_ASSERT(device->traits.messages && device->n_arenas < LS_DEVICE_ARENAS);
    ls_device_arena *arena = &device->arenas[device->n_arenas];
    *arena = (ls_device_arena){.bytes = heap_bytes};
    const ls_status status = device->row->connect(device, ranks, arena, out);
    if (arena->base != NULL || status.code == LS_OK) device->n_arenas++; /* the arena is freed with the others */
    if (status.code == LS_OK) *heap = arena;
    return status;
}

void ls_device_leave(ls_device *device, const ls_device_arena *arena) {
    for (int i = 0; i < device->n_arenas; i++)
        if (&device->arenas[i] == arena) device->arenas[i].left = true;
}

/* --- queues ------------------------------------------------------------------------------------------------------- */

bool ls_device_has_room(ls_device *device, int queue) {
    return device->row->has_room == NULL || device->row->has_room(device, queue);
}

bool ls_device_is_large(const ls_device *device, const ls_range *to) {
    return device->row->is_large != NULL && device->row->is_large(device, to);
}

ls_status ls_device_release(ls_device *device, ls_event hold) { return device->row->release(device, hold); }

ls_status ls_device_happened(ls_device *device, ls_event event, bool *out) {
    *out = true;
    return device->row->happened != NULL ? device->row->happened(device, event, out) : ls_ok();
}

ls_status ls_device_await(ls_device *device, ls_event event) {
    return device->row->await != NULL ? device->row->await(device, event) : ls_ok();
}

ls_status ls_device_join(ls_device *device) { return device->row->join != NULL ? device->row->join(device) : ls_ok(); }
