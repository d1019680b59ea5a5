/*
 * The boot of ranks that somebody else has started with their numbers in the environment: torchrun, Slurm, or the
 * starters of MPI. They meet over TCP (rendezvous.c) at MASTER_ADDR and MASTER_PORT, which only torchrun sets; where
 * the others say as much, host and port follow from what they set.
 */
#include "comm/comm_impl.h"
#include "comm/rendezvous_impl.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The variables that a starter of processes sets; NULL: it has none such. */
typedef struct starter {
    const char *name;
    const char *rank, *ranks;
    const char *local_ranks; /* ranks on this host */
    const char *job, *step;  /* together they name a job */
    const char *hosts;       /* a list of hosts as Slurm writes it, the first being that of rank 0 */
} starter;

/* The first that fits counts. A starter of MPI may itself have been started by Slurm, once on each host. */
static const starter starters[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", NULL},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE", NULL,
     NULL},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "PMI_JOBID", "SLURM_STEP_ID", "SLURM_STEP_NODELIST"},
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", NULL, "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEP_NODELIST"},
};

/* The text of a variable; "" when it is not set. */
static const char *text_of(const char *variable) {
    const char *text = variable != NULL ? getenv(variable) : NULL;
    return text != NULL ? text : "";
}

/* A number from `least`; -1 when the variable is not set or something else. */
static int number_of(const char *variable, int least) {
    char *end;
    const char *text = text_of(variable);
    const long value = strtol(text, &end, 10);
    return end != text && *end == 0 && value >= least && value <= INT_MAX ? (int)value : -1;
}

/* A single rank is nobody's: it may start ranks itself. */
static const starter *find_starter(void) {
    for (size_t i = 0; i < LS_COUNT(starters); i++)
        if (*text_of(starters[i].rank) != 0 && number_of(starters[i].ranks, 0) != 1 && *text_of(starters[i].ranks) != 0)
            return &starters[i];
    return NULL;
}

static bool is_launched(void) { return find_starter() != NULL; }

/* ---- where to meet ---- */

/* The first host of a list: "node[07-12,15],other" is node07. */
static void first_host(const char *list, char *out, size_t room) {
    const size_t plain = strcspn(list, "[,");
    const char *number = list[plain] == '[' ? list + plain + 1 : "";
    snprintf(out, room, "%.*s%.*s", (int)plain, list, (int)strcspn(number, "-,]"), number);
}

static ls_status find_host(const starter *s, ls_rendezvous_point *point) {
    const char *master = text_of("MASTER_ADDR");
    if (*master != 0)
        snprintf(point->host, sizeof point->host, "%s", master);
    else if (number_of(s->local_ranks, 1) == point->ranks)
        snprintf(point->host, sizeof point->host, "127.0.0.1");
    else if (*text_of(s->hosts) != 0)
        first_host(text_of(s->hosts), point->host, sizeof point->host);
    else
        return ls_error(LS_USAGE,
                        "rank %d of %d, which %s started, does not know the host of rank 0: MASTER_ADDR is not "
                        "set",
                        point->rank, point->ranks, s->name);
    return ls_ok();
}

/* Ports that a job takes when nobody gives it one: below those that the system gives to whoever asks for any. */
enum { FIRST_PORT = 20000, PORTS = 10000 };

static ls_status find_port(const starter *s, ls_rendezvous_point *point) {
    const char *port = text_of("MASTER_PORT");
    point->port = number_of("MASTER_PORT", 1);
    if (*port != 0 && (point->port < 0 || point->port > 65535 - LS_RENDEZVOUS_PORTS))
        return ls_error(LS_USAGE, "MASTER_PORT=%s: expected a number from 1 to %d", port, 65535 - LS_RENDEZVOUS_PORTS);
    if (*port == 0 && *text_of(s->job) == 0)
        return ls_error(LS_USAGE,
                        "rank %d of %d, which %s started, does not know where to meet rank 0: MASTER_PORT is "
                        "not set",
                        point->rank, point->ranks, s->name);
    if (*port == 0) point->port = FIRST_PORT + (int)(point->job % PORTS);
    /* torchrun's own store listens at MASTER_PORT. */
    if (strcmp(text_of("TORCHELASTIC_USE_AGENT_STORE"), "True") == 0) point->port++;
    return ls_ok();
}

static ls_status find_point(ls_rendezvous_point *out) {
    const starter *s = find_starter();
    if (s == NULL)
        return ls_error(LS_USAGE, "%s=environment, but no variable says which rank this is", LS_BOOT_VARIABLE);
    ls_rendezvous_point point = {.rank = number_of(s->rank, 0), .ranks = number_of(s->ranks, 1)};
    if (point.rank < 0 || point.ranks < 0 || point.rank >= point.ranks)
        return ls_error(LS_USAGE, "%s=%s, %s=%s: expected a number of ranks, and one of them", s->rank,
                        text_of(s->rank), s->ranks, text_of(s->ranks));
    char job[512];
    const int n = snprintf(job, sizeof job, "%s/%s/%s/%d", s->name, text_of(s->job), text_of(s->step), point.ranks);
    point.job = ls_hash_bytes(job, ls_min((size_t)n, sizeof job - 1));
    LS_TRY(ls_boot_rendezvous_seconds(&point.seconds));
    LS_TRY(find_host(s, &point));
    LS_TRY(find_port(s, &point));
    *out = point;
    return ls_ok();
}

/* ---- the boot ---- */

static ls_status open_environment(ls_boot *boot) {
    ls_rendezvous_point point;
    LS_TRY(find_point(&point));
    ls_notice *notice = calloc(1, sizeof *notice);
    if (notice == NULL)
        return ls_error(LS_NO_MEMORY, "cannot allocate %zu bytes to meet the other ranks", sizeof *notice);
    ls_rendezvous *met = NULL;
    ls_status status = ls_rendezvous_open(&point, notice, &met);
    if (status.code != LS_OK) {
        free(notice);
        return status;
    }
    boot->rank = point.rank;
    boot->ranks = point.ranks;
    boot->notice = notice;
    /* Who gives jobs names stays until they end; a script that starts ranks with the other variables may not. */
    const starter *s = find_starter();
    boot->rank_variable = *text_of(s->job) != 0 ? s->rank : NULL;
    boot->state = met;
    return ls_error_in(ls_rendezvous_own_address(met, boot->address), "rank %d", point.rank);
}

static ls_status gather(ls_boot *boot, int rank, const void *mine, size_t bytes, void *all) {
    (void)rank;
    return ls_rendezvous_gather(boot->state, boot, mine, bytes, all);
}

/* The notice stays: transports of worlds that nobody destroyed may still look at it. */
static void close_environment(ls_boot *boot) { ls_rendezvous_close(boot->state); }

const ls_boot_kind ls_boot_environment = {
    .name = "environment",
    .found = is_launched,
    .open = open_environment,
    .gather = gather,
    .close = close_environment,
};
