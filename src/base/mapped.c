/*
 * The files that this process has mapped, by their addresses, and its end when a byte of one cannot be brought: a file that became shorter, or a
 * disk that fails, is a SIGBUS to whoever reads the mapping. A signal handler reads the table at any moment, so entries are never freed, only emptied
 * and used again, and nothing waits for a lock (which a process that is forked meanwhile would find taken for ever).
 */
#include "base/base.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EMPTY, BEING_CHANGED, FILLED };

typedef struct entry {
    _Atomic int state;
    const uint8_t *data;
    size_t bytes;
    char *path;
    struct entry *next;
} entry;

/* Of the process, as its signal handlers are. */
static struct {
    _Atomic(entry *) first;
    bool watched;
    ls_mapped_fault *tell;
    void *context;
    struct sigaction before;
} mapped;

static bool take(entry *e, int from) {
    return atomic_compare_exchange_strong(&e->state, &from, BEING_CHANGED);
}

/* One that is BEING_CHANGED, and in the table. */
static entry *find_room(void) {
    for (entry *e = atomic_load(&mapped.first); e != NULL; e = e->next)
        if (take(e, EMPTY)) return e;
    entry *made = malloc(sizeof *made);
    if (made == NULL) return NULL;
    *made = (entry){.state = BEING_CHANGED, .next = atomic_load(&mapped.first)};
    while (!atomic_compare_exchange_weak(&mapped.first, &made->next, made)) continue;
    return made;
}

bool ls_mapped_add(const void *data, size_t bytes, const char *path) {
    char *copy = strdup(path);
    entry *e = copy != NULL ? find_room() : NULL;
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
        if (atomic_load(&e->state) != FILLED || e->data != data || !take(e, FILLED)) continue;
        free(e->path);
        atomic_store(&e->state, EMPTY);
        return;
    }
}

/* --- in the signal handler: nothing here allocates or locks -------------------------------------------------------------------- */

typedef struct line {
    char text[sizeof((ls_status){0}.text)];
    size_t length;
} line;

static void put(line *to, const char *text) {
    while (*text != 0 && to->length + 1 < sizeof to->text) to->text[to->length++] = *text++;
    to->text[to->length] = 0;
}

static void put_number(line *to, uint64_t number) {
    char digits[24];
    size_t at = sizeof digits - 1;
    digits[at] = 0;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    put(to, digits + at);
}

static void describe(const entry *e, const uint8_t *at, line *out) {
    struct stat now;
    put(out, e->path);
    if (stat(e->path, &now) == 0 && (size_t)now.st_size < e->bytes) {
        put(out, ": it was cut from ");
        put_number(out, e->bytes);
        put(out, " to ");
        put_number(out, (uint64_t)now.st_size);
        put(out, " bytes while it was read");
        return;
    }
    put(out, ": byte ");
    put_number(out, (uint64_t)(at - e->data));
    put(out, " cannot be read: the disk failed, or the file was cut and replaced");
}

static void tell_on_standard_error(void *context, const char *text) {
    line whole = {.length = 0};
    (void)context;
    put(&whole, "longspan: ");
    put(&whole, text);
    whole.text[whole.length++] = '\n'; /* in place of the 0 at its end */
    if (write(STDERR_FILENO, whole.text, whole.length) < 0) return;
}

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)context;
    const uint8_t *at = info->si_addr;
    for (const entry *e = atomic_load(&mapped.first); e != NULL && info->si_code > 0; e = e->next) {
        if (atomic_load(&e->state) != FILLED || at < e->data || at >= e->data + e->bytes) continue;
        line text = {.length = 0};
        describe(e, at, &text);
        mapped.tell(mapped.context, text.text);
        _exit(1);
    }
    /* None of ours: the instruction is tried again, and whoever was there before hears of it. */
    sigaction(SIGBUS, &mapped.before, NULL);
    if (info->si_code <= 0) raise(number);
}

void ls_mapped_watch(ls_mapped_fault *tell, void *context) {
    mapped.tell = tell != NULL ? tell : tell_on_standard_error;
    mapped.context = context;
    if (mapped.watched) return;
    mapped.watched = true;
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &mapped.before);
}
