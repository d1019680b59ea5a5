/*
 * comm, for this folder alone: the interface of a boot.
 *
 * A boot knows which ranks there are, and lets them exchange small values before anything else connects them. Its
 * `rank` says how the ranks are started:
 *   - rank -1: a local boot. This process starts the ranks later (ls_launch), as processes that it forks or as
 *     threads. One ls_boot serves them all; a forked rank has its own copy of it.
 *   - any other rank: launched. Another program started the ranks, and this process is the rank of that number.
 *
 * This header, transport_impl.h, bell.c, missing.c and notice.c use nothing of this folder but each other and
 * sha256_impl.h, so that a plug-in can be built from them.
 */
#ifndef LS_COMM_BOOT_IMPL_H
#define LS_COMM_BOOT_IMPL_H

#include "base/base.h"
#include "comm/sha256_impl.h"

#include <stdatomic.h>

/*
 * What must reach all ranks. A local boot has one notice, in memory that launcher and ranks share. With any other boot
 * each process has its own notice, and a thread of the boot carries what is set in one of them to all others, within
 * LS_NOTICE_SECONDS, and at the latest when the boot is closed. A signal handler may therefore set `stop`.
 */
typedef struct ls_notice {
    _Atomic int abort_state; /* one of LS_ABORT_* */
    char abort_text[sizeof((ls_status){0}.text)];
    _Atomic bool stop;
    _Atomic bool first_lost;    /* set by the boot: rank 0's process has ended without saying why */
    _Atomic bool first_unheard; /* of a launched rank: rank 0 does not answer it */
    _Atomic bool warned;        /* of a launched rank: it has warned that it waits for a rank that does not answer */
} ls_notice;

enum { LS_ABORT_NONE, LS_ABORT_BEING_WRITTEN, LS_ABORT_SET };

#define LS_NOTICE_SECONDS 0.1

/* notice.c: sets the text of the abort unless one is set already. Returns whether this call set it. */
bool ls_notice_abort(ls_notice *notice, const char *why);
/* LS_PEER with the text of the abort if there is one, else LS_OK. */
ls_status ls_notice_aborted(const ls_notice *notice);

struct ls_transport;
struct ls_starter;
typedef struct ls_boot_kind ls_boot_kind;

enum { LS_HOST_NAME = 64, LS_ADDRESS = 64 };

/* The key that ranks prove to each other to have (greeting_impl.h). */
typedef struct ls_key {
    uint8_t bytes[LS_SHA256_BYTES];
} ls_key;

#define LS_SECRET_VARIABLE "LONGSPAN_SECRET"
#define LS_SECRET_FILE_VARIABLE "LONGSPAN_SECRET_FILE"

/*
 * An open boot. `open` of its kind sets the fields marked "set by open"; boot.c sets the rest, with gather where
 * needed.
 */
typedef struct ls_boot {
    const ls_boot_kind *kind;             /* open may replace it by another kind, that of a plug-in */
    int rank, ranks;                      /* set by open; local boots: by boot.c */
    ls_notice *notice;                    /* set by open; it lives until close */
    const struct ls_transport *transport; /* set by open: a transport that comes with the boot; NULL: none */
    char address[LS_ADDRESS];    /* set by open: numeric IP address at which other hosts reach this one; "": unknown */
    const _Atomic bool *stopped; /* set by open: [ranks] whether a rank is stopped; NULL: the starter does not say */
    const char *rank_variable; /* set by open: the environment variable by which the launcher tells a process its rank,
                                  if that launcher runs until all ranks have ended; NULL: it does not */
    bool ends_together; /* set by open: no process ends successfully before all have called close, so a process that is
                           gone before then has failed; false: the boot itself notices such failures */
    char *files;        /* files in /dev/shm that were mapped while it opened (ls_shared_files); NULL: none are known */
    _Atomic bool closing; /* close has been called */
    _Atomic bool failed;  /* ls_launched_abort was called: this process reports itself why it fails */
    bool silent;          /* ls_launched_be_silent */
    void *state;          /* set by open: the kind's own */
    bool has_secret;      /* set by open: strangers do not know the key that open sets */
    ls_key key; /* set by open: a key that the ranks know already, else zeros. boot.c then mixes in the bytes that all
                   ranks draw, and the result is the key of connections between ranks */

    int *hosts;                       /* [ranks] the host's number; ranks with equal numbers can share memory */
    char (*host_names)[LS_HOST_NAME]; /* [ranks] for messages */
    int *processes; /* [ranks] the process number of a launched rank if this process can see it in /proc; else 0 */
    int32_t *said;  /* [ranks] room of ls_boot_agree, where a rank without memory still takes part */
    int core_ranks; /* how many ranks, this one included, are bound to the same single core as this one; 0: this one has
                       several cores */
    int machine_ranks; /* ranks that share the memory of this machine, whether or not hosts are pretended */
    int machine_rank;  /* of a launched rank: its index among these */
} ls_boot;

/* ---- ranks that do not come to a gather (missing.c) ---- */

/*
 * The seconds within which all ranks must meet: LONGSPAN_RENDEZVOUS_SECONDS, else 120. LS_USAGE: the variable is not a
 * number of seconds.
 */
ls_status ls_boot_rendezvous_seconds(double *out);

/* Ranks that have not come to the gather under way. */
typedef struct ls_missing {
    int32_t rank;   /* the missing rank that has not answered for the longest time; -1: all have come */
    int32_t others; /* how many more are missing */
    double silent;  /* seconds since `rank` was asked whether it is there, without an answer; 0: it has answered */
} ls_missing;
#define LS_NOBODY_MISSING ((ls_missing){.rank = -1, .others = -1})
/* Adds a missing rank, which has not answered for `silent` seconds. */
void ls_missing_add(ls_missing *missing, int rank, double silent);
/*
 * Checks a gather in which this rank has waited for `waited` seconds; `seconds` are those of the rendezvous. LS_PEER
 * names a rank whose process has not answered for 30 s (or for `seconds`, if these are less), or that answers but has
 * not come to the gather within 15 times `seconds`.
 */
ls_status ls_boot_check_missing(const ls_boot *boot, const ls_missing *missing, double waited, double seconds);
/* Seconds between two questions about who is missing. */
#define LS_ASK_SECONDS 0.5
/*
 * How much of the time between two checks counts: at most 0.2 s, so that a process that was itself suspended does not
 * count that time against others.
 */
static inline double ls_boot_counted(double passed) { return passed < 0.2 ? passed : 0.2; }

/* ---- ranks that do not answer (missing.c) ---- */

/*
 * Called repeatedly by a rank that waits for a peer which has not answered, or has been stopped, for `silent` seconds
 * (0: it answers). Returns whether the rank gives up: after `limit` seconds (0: never), or after 2 s if the ranks are
 * asked to stop. Before that, after 7 s or half of the limit, launched ranks warn that they wait, once for each
 * silence. Rank 0 prints the warning; on a host that does not hear rank 0 (first_heard false), one rank of the host
 * prints it.
 */
bool ls_boot_gives_up(const ls_boot *boot, int rank, int peer, double silent, double limit, bool first_heard);
/* Prints "which has not answered for 7 s: ...", or what else is known about a silent peer. */
void ls_boot_print_silence(const ls_boot *boot, int peer, double silent, char *out, size_t room);
/* Whether this process reports for its host why the ranks fail. */
bool ls_boot_speaks(const ls_boot *boot);

/*
 * Whether a rank is known to be stopped (SIGSTOP): from its launcher, or from the system if this process can see the
 * rank's process.
 */
bool ls_boot_is_stopped(const ls_boot *boot, int rank);

/* A row of the table of boots (boot.c). */
struct ls_boot_kind {
    const char *name; /* as in messages: "environment" */
    /*
     * Whether this boot knows the starter of this process (starter NULL: it was not started as a rank). found NULL: a
     * local boot.
     */
    bool (*found)(const struct ls_starter *starter);
    /*
     * Called once in a process (for a local boot: once for each world). Blocks until all ranks have called it, up to a
     * deadline; errors name what was found in the environment, what was expected, and which ranks are missing.
     */
    ls_status (*open)(ls_boot *boot);
    /*
     * Collective: all[r] becomes `mine` of rank r, of the same size on all ranks, at most LS_GATHER_VALUE bytes. rank:
     * the caller. Called by one thread of the rank at a time, possibly while programs run. Returns LS_PEER with the
     * text of the notice if the world is aborted meanwhile.
     */
    ls_status (*gather)(ls_boot *boot, int rank, const void *mine, size_t bytes, void *all);
    /*
     * At the end of the process (a local boot: of the world). A launched rank whose process ends without this call, or
     * whose notice says that the world is aborted, makes the boot abort the world on all other ranks: "rank 3 ended
     * before its work was done".
     */
    void (*close)(ls_boot *boot);
};

extern const ls_boot_kind ls_boot_mpi;
extern const ls_boot_kind ls_boot_local;
extern const ls_boot_kind ls_boot_environment;

#endif
