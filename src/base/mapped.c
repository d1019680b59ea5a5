/*
 * The signal handler may read the table at any moment, so entries are never freed: an entry is emptied and used again.
 * There is no lock, because a process that is forked while a lock is held would wait for ever.
 */
#include "base/base.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EMPTY, BEING_CHANGED, FILLED };

/* All fields are atomic, because a thread that searches for an entry reads entries that others may be changing. */
typedef struct entry {
    _Atomic int state;
    _Atomic(const uint8_t *) data;
    _Atomic size_t bytes;
    _Atomic(char *) path;
    struct entry *next;
} entry;

/* One table per process, because a process has one handler per signal. */
static struct {
    _Atomic(entry *) first;
    bool watched;
    ls_mapped_fault *report;
    void *context;
    struct sigaction previous;
} mapped;

/* Moves an entry from a state to BEING_CHANGED; false when it is in another state. */
static bool claim(entry *e, int from) { return atomic_compare_exchange_strong(&e->state, &from, BEING_CHANGED); }

/* An entry of the table in state BEING_CHANGED: an empty one, or a new one. NULL: no memory. */
static entry *claim_empty_entry(void) {
    for (entry *e = atomic_load(&mapped.first); e != NULL; e = e->next)
        if (claim(e, EMPTY)) return e;
    entry *made = malloc(sizeof *made);
    if (made == NULL) return NULL;
    *made = (entry){.state = BEING_CHANGED, .next = atomic_load(&mapped.first)};
    while (!atomic_compare_exchange_weak(&mapped.first, &made->next, made)) continue;
    return made;
}

bool ls_mapped_add(const void *data, size_t bytes, const char *path) {
    char *copy = strdup(path);
    entry *e = copy != NULL ? claim_empty_entry() : NULL;
    if (e == NULL) {
        free(copy);
        return false;
    }
    e->data = data;
    e->bytes = bytes;
    e->path = copy;
    atomic_store(&e->state, FILLED);
    return true;
}

void ls_mapped_remove(const void *data) {
    for (entry *e = atomic_load(&mapped.first); e != NULL; e = e->next) {
        if (atomic_load(&e->state) != FILLED || e->data != data || !claim(e, FILLED)) continue;
        free(e->path);
        atomic_store(&e->state, EMPTY);
        return;
    }
}

/* ---- in the signal handler: nothing below allocates or locks, except ls_mapped_watch ---- */

typedef struct line {
    char text[sizeof((ls_status){0}.text)];
    size_t length;
} line;

static void append(line *to, const char *text) {
    while (*text != 0 && to->length + 1 < sizeof to->text) to->text[to->length++] = *text++;
    to->text[to->length] = 0;
}

static void append_number(line *to, uint64_t number) {
    char digits[24];
    size_t at = sizeof digits - 1;
    digits[at] = 0;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    append(to, digits + at);
}

static void describe(const entry *e, const uint8_t *at, line *out) {
    struct stat now;
    append(out, e->path);
    if (stat(e->path, &now) == 0 && (size_t)now.st_size < e->bytes) {
        append(out, ": it was cut from ");
        append_number(out, e->bytes);
        append(out, " to ");
        append_number(out, (uint64_t)now.st_size);
        append(out, " bytes while it was read");
        return;
    }
    append(out, ": byte ");
    append_number(out, (uint64_t)(at - e->data));
    append(out, " cannot be read: the disk failed, or the file was cut and replaced");
}

static void print_on_stderr(void *context, const char *text) {
    line whole = {.length = 0};
    (void)context;
    append(&whole, "longspan: ");
    append(&whole, text);
    whole.text[whole.length++] = '\n'; /* replaces the terminating 0 */
    if (write(STDERR_FILENO, whole.text, whole.length) < 0) return;
}

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)context;
    const uint8_t *at = info->si_addr;
    for (const entry *e = atomic_load(&mapped.first); e != NULL && info->si_code > 0; e = e->next) {
        if (atomic_load(&e->state) != FILLED || at < e->data || at >= e->data + e->bytes) continue;
        line text = {.length = 0};
        describe(e, at, &text);
        mapped.report(mapped.context, text.text);
        _exit(1);
    }
    /*
     * The address belongs to no file in the table. The previous handler is installed again: on return the instruction
     * faults again and reaches that handler.
     */
    sigaction(SIGBUS, &mapped.previous, NULL);
    if (info->si_code <= 0) raise(number);
}

void ls_mapped_watch(ls_mapped_fault *report, void *context) {
    mapped.report = report != NULL ? report : print_on_stderr;
    mapped.context = context;
    if (mapped.watched) return;
    mapped.watched = true;
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &mapped.previous);
}
