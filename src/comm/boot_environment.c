/*
 * The boot of ranks that another program (torchrun, Slurm, an MPI launcher) has started with their numbers in the
 * environment. The ranks meet over TCP (rendezvous.c) at MASTER_ADDR and MASTER_PORT, which only torchrun sets. For the
 * other starters, host and port are derived from what they set, if that is enough.
 */
#include "comm/comm_impl.h"
#include "comm/rendezvous_impl.h"
#include "comm/starter_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_launched(const ls_starter *starter) { return starter != NULL; }

/* ---- where to meet ---- */

/* The first host of a list: "node[07-12,15],other" is node07. */
static void first_host(const char *list, char *out, size_t room) {
    const size_t plain = strcspn(list, "[,");
    const char *number = list[plain] == '[' ? list + plain + 1 : "";
    snprintf(out, room, "%.*s%.*s", (int)plain, list, (int)strcspn(number, "-,]"), number);
}

/* Whether the starter's variables say that all ranks are on one host. */
static bool are_all_here(const ls_starter *s, int ranks) {
    if (*ls_variable_text(s->local_ranks) != 0) return ls_variable_number(s->local_ranks, 1) == ranks;
    return ls_variable_number(s->nodes, 1) == 1;
}

static bool is_loopback(const char *host) { return strcmp(host, "localhost") == 0 || ls_socket_is_loopback(host); }

/*
 * Ranks that are all on one host meet at its loopback address, whatever MASTER_ADDR says, so that no other host can
 * connect.
 */
static ls_status find_host(const ls_starter *s, ls_rendezvous_point *point) {
    const char *master = ls_variable_text("MASTER_ADDR");
    if (strlen(master) >= sizeof point->host)
        return ls_error(LS_USAGE, "MASTER_ADDR has %zu characters; expected at most %zu", strlen(master),
                        sizeof point->host - 1);
    if (*master != 0)
        snprintf(point->host, sizeof point->host, "%s", master);
    else if (*ls_variable_text(s->hosts) != 0)
        first_host(ls_variable_text(s->hosts), point->host, sizeof point->host);
    else if (!are_all_here(s, point->ranks))
        return ls_error(LS_USAGE,
                        "rank %d of %d, which %s started, does not know the host of rank 0: MASTER_ADDR is not set",
                        point->rank, point->ranks, s->name);
    point->all_here = is_loopback(point->host) || are_all_here(s, point->ranks);
    if (point->all_here && !is_loopback(point->host)) snprintf(point->host, sizeof point->host, "127.0.0.1");
    return ls_ok();
}

/* The range from which a job takes its port if MASTER_PORT is not set: below the ephemeral ports of the system. */
enum { FIRST_PORT = 20000, PORTS = 10000 };

static ls_status find_port(const ls_starter *s, const char *job, ls_rendezvous_point *point) {
    const char *port = ls_variable_text("MASTER_PORT");
    point->port = ls_variable_number("MASTER_PORT", 1);
    if (*port != 0 && (point->port < 0 || point->port > 65535 - LS_RENDEZVOUS_PORTS))
        return ls_error(LS_USAGE, "MASTER_PORT=%s: expected a number from 1 to %d", port, 65535 - LS_RENDEZVOUS_PORTS);
    if (*port == 0 && *ls_variable_text(s->job) == 0)
        return ls_error(LS_USAGE,
                        "rank %d of %d, which %s started, does not know where to meet rank 0: MASTER_PORT is "
                        "not set",
                        point->rank, point->ranks, s->name);
    if (*port == 0) point->port = FIRST_PORT + (int)(ls_hash_bytes(job, strlen(job)) % PORTS);
    /* torchrun's own store listens at MASTER_PORT. */
    if (strcmp(ls_variable_text("TORCHELASTIC_USE_AGENT_STORE"), "True") == 0) point->port++;
    return ls_ok();
}

static ls_status find_point(const ls_starter *s, ls_rendezvous_point *out) {
    ls_rendezvous_point point = {.rank = 0};
    char job[512];
    LS_TRY(ls_starter_read(s, &point.rank, &point.ranks));
    snprintf(job, sizeof job, "%s/%s/%s/%d", s->name, ls_variable_text(s->job), ls_variable_text(s->step), point.ranks);
    LS_TRY(ls_boot_rendezvous_seconds(&point.seconds));
    LS_TRY(find_host(s, &point));
    LS_TRY(find_port(s, job, &point));
    LS_TRY(ls_secret_find(job, &point));
    *out = point;
    return ls_ok();
}

/* ---- the boot ---- */

static ls_status open_environment(ls_boot *boot) {
    const ls_starter *s;
    ls_rendezvous_point point;
    LS_TRY(ls_starter_find(&s));
    if (s == NULL)
        return ls_error(LS_USAGE, "%s=environment, but no variable says which rank this is", LS_BOOT_VARIABLE);
    LS_TRY(find_point(s, &point));
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
    boot->key = point.key;
    boot->has_secret = point.has_secret;
    /*
     * A starter that gives jobs names runs until they end; a script that sets only the other variables may end before.
     */
    boot->rank_variable = *ls_variable_text(s->job) != 0 ? s->rank : NULL;
    boot->state = met;
    return ls_error_in(ls_rendezvous_own_address(met, boot->address), "rank %d", point.rank);
}

static ls_status gather(ls_boot *boot, int rank, const void *mine, size_t bytes, void *all) {
    (void)rank;
    return ls_rendezvous_gather(boot->state, boot, mine, bytes, all);
}

/* The notice is not freed: transports of worlds that were never destroyed may still read it. */
static void close_environment(ls_boot *boot) { ls_rendezvous_close(boot->state); }

const ls_boot_kind ls_boot_environment = {
    .name = "environment",
    .found = is_launched,
    .open = open_environment,
    .gather = gather,
    .close = close_environment,
};
