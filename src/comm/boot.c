/*
 * The table of boots; the boot of this process, if it was launched as a rank; and which ranks share a host. All boots
 * find the last in the same way: by what the ranks tell each other.
 */
#include "comm/comm_impl.h"
#include "comm/message_impl.h"
#include "comm/starter_impl.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* In the order in which they are tried; the last needs nothing in the environment. */
static const ls_boot_kind *const boots[] = {
    &ls_boot_mpi,
    &ls_boot_environment,
    &ls_boot_local,
};

/* The boot that LONGSPAN_BOOT names, else the first that knows the starter of this process, else the local one. */
static ls_status find_kind(const ls_boot_kind **out) {
    const char *wanted = getenv(LS_BOOT_VARIABLE);
    const ls_starter *starter = NULL;
    char names[128] = "";
    size_t used = 0;
    if (wanted == NULL) LS_TRY(ls_starter_find(&starter));
    for (size_t i = 0; i < LS_COUNT(boots); i++) {
        const bool found = boots[i]->found == NULL || boots[i]->found(starter);
        if (wanted == NULL ? found : strcmp(wanted, boots[i]->name) == 0) {
            *out = boots[i];
            return ls_ok();
        }
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", boots[i]->name);
        LS_ASSERT(used < sizeof names);
    }
    return ls_error(LS_USAGE, "%s=%s: expected one of %s", LS_BOOT_VARIABLE, wanted, names);
}

/* ---- hosts ---- */

/*
 * What ranks compare to find out whether they share a host. Ranks can share memory when the same kernel runs them
 * (boot_id), they see the same sockets (the network namespace, where abstract Unix sockets live), and they belong to
 * one user. If they are also in one PID namespace, they see each other in /proc.
 */
typedef struct identity {
    char name[LS_HOST_NAME];
    char kernel[40];
    uint64_t network, processes;
    uint32_t user;
    int32_t process;
    uint8_t drawn[LS_SHA256_BYTES]; /* drawn at random, for the key of the world */
    ls_processors processors;       /* that the rank may run on */
} identity;

_Static_assert(sizeof(identity) <= LS_GATHER_VALUE, "an identity is gathered as one value");

/* The number of a namespace of this process; 0: unknown. */
static uint64_t namespace_number(const char *path) {
    struct stat found;
    return stat(path, &found) == 0 ? (uint64_t)found.st_ino : 0;
}

static ls_status identify(identity *out) {
    identity me = {.name = ""};
    if (getrandom(me.drawn, sizeof me.drawn, 0) != sizeof me.drawn)
        return ls_error(LS_IO, "cannot draw a key for the ranks: getrandom: %s", strerror(errno));
    if (gethostname(me.name, sizeof me.name - 1) != 0) snprintf(me.name, sizeof me.name, "?");
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file != NULL) {
        if (fgets(me.kernel, sizeof me.kernel, file) == NULL) me.kernel[0] = 0;
        fclose(file);
    }
    me.network = namespace_number("/proc/self/ns/net");
    me.processes = namespace_number("/proc/self/ns/pid");
    me.process = (int32_t)getpid();
    me.user = (uint32_t)geteuid();
    ls_machine_processors(&me.processors);
    *out = me;
    return ls_ok();
}

/* Makes the key of the world from the key that its ranks know already and the bytes that each of them has drawn. */
static void mix_key(ls_boot *boot, const identity *all, int n) {
    ls_hmac mac;
    ls_hmac_begin(&mac, boot->key.bytes, sizeof boot->key.bytes);
    for (int i = 0; i < n; i++) ls_hmac_add(&mac, all[i].drawn, sizeof all[i].drawn);
    ls_hmac_end(&mac, boot->key.bytes);
}

/* Whether both ranks are bound to the same single core. */
static bool are_bound_alike(const identity *a, const identity *b) {
    return ls_processors_count(&a->processors) == 1 &&
           memcmp(&a->processors, &b->processors, sizeof a->processors) == 0;
}

static bool is_same_machine(const identity *a, const identity *b) {
    return strcmp(a->kernel, b->kernel) == 0 && a->network == b->network && strcmp(a->name, b->name) == 0 &&
           a->user == b->user;
}

/*
 * Numbers the machines of all ranks from 0 in the order of their first ranks, and notes the processes on this machine.
 */
static ls_status find_machines(ls_boot *boot) {
    identity me;
    LS_TRY(identify(&me));
    if (boot->rank < 0) {
        mix_key(boot, &me, 1);
        for (int r = 0; r < boot->ranks; r++) snprintf(boot->host_names[r], LS_HOST_NAME, "%s", me.name);
        return ls_ok();
    }
    identity *all = calloc((size_t)boot->ranks, sizeof *all);
    if (all == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate the names of %d hosts", boot->ranks);
    const ls_status status = boot->kind->gather(boot, boot->rank, &me, sizeof me, all);
    int machines = 0;
    if (status.code == LS_OK) mix_key(boot, all, boot->ranks);
    for (int r = 0; r < boot->ranks && status.code == LS_OK; r++) {
        int first = 0;
        all[r].name[sizeof all[r].name - 1] = all[r].kernel[sizeof all[r].kernel - 1] = 0; /* others wrote them */
        while (!is_same_machine(&all[first], &all[r])) first++;
        boot->hosts[r] = first == r ? machines++ : boot->hosts[first];
        snprintf(boot->host_names[r], LS_HOST_NAME, "%s", all[r].name);
        if (!is_same_machine(&all[r], &me)) continue;
        ls_machine_add_processors(&all[r].processors);
        if (me.processes == all[r].processes) boot->processes[r] = all[r].process;
        boot->core_ranks += are_bound_alike(&me, &all[r]);
    }
    free(all);
    return status;
}

/* Reads the pretended host of each rank from a number of hosts or a list. */
static bool read_pretended(const char *text, int ranks, int *out) {
    char *end;
    const long hosts = strtol(text, &end, 10);
    if (end == text || hosts < 0) return false;
    if (*end == 0) {
        for (int r = 0; r < ranks; r++) out[r] = (int)((int64_t)r * hosts / ranks);
        return hosts >= 1 && hosts <= ranks;
    }
    for (int r = 0; r < ranks; r++) {
        const long host = strtol(text, &end, 10);
        if (end == text || host < 0 || host >= ranks || *end != (r < ranks - 1 ? ',' : 0)) return false;
        out[r] = (int)host;
        text = end + 1;
    }
    return true;
}

/*
 * With pretended hosts, ranks of one machine stay on one host, and see each other's processes, only if they pretend to
 * be on the same host.
 */
static ls_status pretend(ls_boot *boot) {
    const char *setting = getenv(LS_HOSTS_VARIABLE);
    if (setting == NULL || boot->ranks == 1) return ls_ok();
    int *pretended = calloc((size_t)boot->ranks, sizeof *pretended);
    if (pretended == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate the hosts of %d ranks", boot->ranks);
    const bool good = read_pretended(setting, boot->ranks, pretended);
    for (int r = 0; r < boot->ranks && good; r++) {
        char name[LS_HOST_NAME];
        snprintf(name, sizeof name, "%.40s (pretended %d)", boot->host_names[r], pretended[r]);
        memcpy(boot->host_names[r], name, sizeof name);
        boot->hosts[r] = boot->hosts[r] * boot->ranks + pretended[r];
        if (boot->rank >= 0 && pretended[r] != pretended[boot->rank]) boot->processes[r] = 0;
    }
    free(pretended);
    if (good) return ls_ok();
    return ls_error(LS_INVALID,
                    "%s=%s: expected a number of hosts from 1 to %d, or the host of each of %d ranks: 0,0,1",
                    LS_HOSTS_VARIABLE, setting, boot->ranks, boot->ranks);
}

ls_status ls_boot_find_hosts(ls_boot *boot) {
    boot->hosts = calloc((size_t)boot->ranks, sizeof *boot->hosts);
    boot->host_names = calloc((size_t)boot->ranks, sizeof *boot->host_names);
    boot->processes = calloc((size_t)boot->ranks, sizeof *boot->processes);
    boot->said = calloc((size_t)boot->ranks, sizeof *boot->said);
    if (boot->hosts == NULL || boot->host_names == NULL || boot->processes == NULL || boot->said == NULL)
        return ls_error(LS_NO_MEMORY, "cannot allocate the hosts of %d ranks", boot->ranks);
    LS_TRY(find_machines(boot));
    boot->machine_ranks = boot->machine_rank = 0;
    for (int r = 0; r < boot->ranks; r++) {
        const bool here = boot->rank < 0 || boot->hosts[r] == boot->hosts[boot->rank];
        boot->machine_ranks += here;
        boot->machine_rank += here && r < boot->rank;
    }
    return pretend(boot);
}

void ls_boot_forget_hosts(ls_boot *boot) {
    free(boot->hosts);
    free(boot->host_names);
    free(boot->processes);
    free(boot->said);
    boot->said = NULL;
    boot->hosts = NULL;
    boot->host_names = NULL;
    boot->processes = NULL;
}

/* ---- the boot of this process ---- */

static ls_boot launched;
static ls_status launched_status;
static pthread_once_t launched_once = PTHREAD_ONCE_INIT;
static _Atomic bool stays_alone;

/* Runs at exit: a failure after the work of this process is reported by the notice alone. */
static void close_launched(void) {
    atomic_store(&launched.closing, true);
    launched.kind->close(&launched);
    const ls_status late = ls_notice_aborted(launched.notice);
    if (launched.rank == 0 && !atomic_load(&launched.failed) && late.code != LS_OK)
        fprintf(stderr, "longspan: %s\n", late.text);
}

static void open_launched(void) {
    launched.kind = &ls_boot_local;
    if (atomic_load(&stays_alone)) return;
    launched_status = find_kind(&launched.kind);
    if (launched_status.code != LS_OK || launched.kind == &ls_boot_local) return;
    char *before = ls_shared_files(NULL);
    launched_status = launched.kind->open(&launched);
    launched.files = before != NULL ? ls_shared_files(before) : NULL;
    free(before);
    if (launched_status.code != LS_OK) return;
    (void)atexit(close_launched);
    launched_status = ls_boot_find_hosts(&launched);
    if (launched_status.code == LS_OK) launched_status = ls_launcher_watch(&launched);
}

void ls_launched_stay_alone(void) { atomic_store(&stays_alone, true); }

void ls_launched_foresee(int *rank, int *ranks) {
    const char *wanted = getenv(LS_BOOT_VARIABLE);
    const ls_starter *starter = NULL;
    *rank = *ranks = 0;
    if (wanted != NULL && strcmp(wanted, ls_boot_local.name) == 0) return;
    if (ls_starter_find(&starter).code != LS_OK || starter == NULL) return;
    if (ls_starter_read(starter, rank, ranks).code != LS_OK) *rank = *ranks = 0;
}

ls_status ls_launched_find(ls_launched *out) {
    pthread_once(&launched_once, open_launched);
    if (launched_status.code != LS_OK) return launched_status;
    *out = (ls_launched){.rank = launched.rank,
                         .ranks = launched.ranks,
                         .machine_ranks = launched.machine_ranks,
                         .boot = launched.kind->name,
                         .core_ranks = launched.core_ranks,
                         .at_interrupt = ls_launcher_at_interrupt()};
    return ls_ok();
}

ls_status ls_launched_gather(const char *what, const void *mine, size_t bytes, void *all) {
    LS_ASSERT(bytes <= LS_GATHER_VALUE && launched.ranks > 0);
    return ls_boot_gather(&launched, what, mine, bytes, all);
}

void ls_launched_abort(const char *why) {
    atomic_store(&launched.failed, true);
    (void)ls_notice_abort(launched.notice, why);
}
void ls_launched_request_stop(void) { atomic_store(&launched.notice->stop, true); }
void ls_launched_be_silent(void) { launched.silent = true; }
bool ls_launched_speaks(void) { return !launched.silent && ls_boot_speaks(&launched); }
bool ls_launched_stop_requested(void) { return atomic_load(&launched.notice->stop); }

/* ---- the boot of a world ---- */

static ls_status open_local(int ranks, ls_boot **out) {
    ls_boot *boot = calloc(1, sizeof *boot);
    if (boot == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate %zu bytes for a world", sizeof *boot);
    *boot = (ls_boot){.kind = &ls_boot_local, .rank = -1, .ranks = ranks};
    ls_status status = boot->kind->open(boot);
    if (status.code != LS_OK) {
        free(boot);
        return status;
    }
    status = ls_boot_find_hosts(boot);
    if (status.code == LS_OK)
        *out = boot;
    else
        ls_boot_return(boot);
    return status;
}

ls_status ls_boot_take(int ranks, bool local, ls_boot **out) {
    if (local) return open_local(ranks, out);
    ls_launched job;
    LS_TRY(ls_launched_find(&job));
    if (job.ranks == 0) return open_local(ranks, out);
    if (ranks != job.ranks)
        return ls_error(LS_INVALID, "%d ranks; expected %d, which is what this process was launched as one of", ranks,
                        job.ranks);
    *out = &launched;
    return ls_ok();
}

void ls_boot_return(ls_boot *boot) {
    if (boot == &launched) return;
    ls_boot_forget_hosts(boot);
    boot->kind->close(boot);
    free(boot);
}

/*
 * The texts of failures are gathered only if there are any, because what all ranks send each other grows with the
 * square of their number.
 */
ls_status ls_boot_agree(ls_boot *boot, ls_status mine) {
    if (boot->rank < 0) return mine;
    const size_t ranks = (size_t)boot->ranks;
    const int32_t mine_code = mine.code;
    ls_status *all = NULL, agreed = boot->kind->gather(boot, boot->rank, &mine_code, sizeof mine_code, boot->said);
    bool failed = false;
    for (size_t r = 0; r < ranks && agreed.code == LS_OK; r++) failed |= boot->said[r] != LS_OK; /* any number */
    if (failed && (all = calloc(ranks, sizeof *all)) == NULL)
        agreed = ls_error(LS_NO_MEMORY, "cannot allocate what %d ranks say", boot->ranks);
    if (all != NULL) agreed = boot->kind->gather(boot, boot->rank, &mine, sizeof mine, all);
    for (int r = 0; all != NULL && r < boot->ranks && agreed.code == LS_OK; r++)
        if (all[r].code != LS_OK) agreed = ls_error_in(ls_status_sound(all[r]), "rank %d", r);
    free(all);
    return agreed;
}

ls_status ls_hosts_find(int ranks, ls_hosts *out) {
    ls_launched job;
    LS_TRY(ls_launched_find(&job));
    /* Without launched ranks and pretended hosts all pairs of ranks are alike, so it is enough to look at two ranks. */
    const bool alike = job.ranks == 0 && getenv(LS_HOSTS_VARIABLE) == NULL;
    ls_boot *boot;
    LS_TRY(ls_boot_take(alike ? (int)ls_min(ranks, 2) : ranks, false, &boot));
    ls_selection selection;
    const ls_status status = ls_selection_read(NULL, boot, &selection);
    if (status.code == LS_OK) {
        const int block = ls_selection_block(&selection, boot);
        *out = (ls_hosts){.machine_ranks = alike ? ranks : boot->machine_ranks,
                          .block = alike && block == boot->ranks ? ranks : block};
    }
    ls_boot_return(boot);
    return status;
}
