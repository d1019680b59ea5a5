/* The heads of messages on the host: what a message is, and whether two ranks are doing the same thing. */
#include "comm/message_impl.h"

#include "comm/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ls_message_head ls_message_head_of(uint64_t number, uint64_t bytes, const char *what) {
    ls_message_head head = {.number = number, .bytes = bytes, .kind = ls_hash_bytes(what, strlen(what))};
    const size_t length = ls_min(strlen(what), sizeof head.what - 1);
    memcpy(head.what, what, length);
    return head;
}

/* "exchange, step 12 (24 bytes)"; the head may come from another process, so its text need not end. */
static void print(const ls_message_head *head, char *out, size_t room) {
    snprintf(out, room, "%.*s (%llu bytes)", LS_MESSAGE_WHAT - 1, head->what, (unsigned long long)head->bytes);
}

ls_status ls_message_check(const ls_message_head *mine, int rank, const ls_message_head *theirs, int peer) {
    if (mine->number == theirs->number && mine->bytes == theirs->bytes && mine->kind == theirs->kind) return ls_ok();
    char here[LS_MESSAGE_WHAT + 40], there[LS_MESSAGE_WHAT + 40] = "something else";
    print(mine, here, sizeof here);
    if (mine->number == theirs->number) print(theirs, there, sizeof there); /* else it is an older head */
    return ls_error(LS_INVALID, "rank %d is at \"%s\", rank %d at \"%s\"; expected the same on all ranks", rank, here,
                    peer, there);
}

ls_status ls_status_sound(ls_status status) {
    const int most = (int)sizeof status.text - 1;
    const int code = (int)status.code;
    if (code == LS_OK) return ls_ok();
    if (code > LS_OK && code <= LS_FAULT) return ls_error(status.code, "%.*s", most, status.text);
    return ls_error(LS_FAULT, "%.*s (its code is %d; expected 0 to %d)", most, status.text, code, LS_FAULT);
}

/* ---- between launched ranks ---- */

/* A head together with the bytes of a small value; most values are small. */
typedef struct envelope {
    ls_message_head head;
    char value[32];
} envelope;

static ls_status open_envelopes(const ls_boot *boot, const envelope *mine, const envelope *all, char *values) {
    const size_t bytes = mine->head.bytes;
    for (int r = 0; r < boot->ranks; r++) LS_TRY(ls_message_check(&mine->head, boot->rank, &all[r].head, r));
    for (int r = 0; r < boot->ranks && bytes <= sizeof mine->value; r++)
        memcpy(values + (size_t)r * bytes, all[r].value, bytes);
    return ls_ok();
}

ls_status ls_boot_gather(ls_boot *boot, const char *what, const void *mine, size_t bytes, void *all) {
    envelope said = {.head = ls_message_head_of(0, bytes, what)}, *heard = calloc((size_t)boot->ranks, sizeof *heard);
    if (heard == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate what %d ranks say", boot->ranks);
    if (bytes <= sizeof said.value) memcpy(said.value, mine, bytes);
    ls_status status = boot->kind->gather(boot, boot->rank, &said, sizeof said, heard);
    if (status.code == LS_OK) status = open_envelopes(boot, &said, heard, all);
    free(heard);
    LS_TRY(status);
    return bytes <= sizeof said.value ? ls_ok() : boot->kind->gather(boot, boot->rank, mine, bytes, all);
}
