/*
 * comm, for this folder alone: the interface of a boot.
 *
 * A boot knows which ranks there are, and lets them tell each other small values before anything else connects them.
 * Its `rank` says how ranks come to be:
 *   - rank -1: local. This process starts the ranks later (ls_launch), as processes that it forks or as threads. One
 *     ls_boot serves them all; a forked rank has its copy of it.
 *   - another: launched. Somebody else started the ranks, and this process is that one of them.
 *
 * This header, transport_impl.h, bell.c, missing.c and notice.c need nothing of this folder but each other and
 * sha256_impl.h, so that a plug-in can be built from them.
 */
#ifndef LS_COMM_BOOT_IMPL_H
#define LS_COMM_BOOT_IMPL_H

#include "base/base.h"
#include "comm/sha256_impl.h"

#include <stdatomic.h>

/*
 * What all ranks must hear of. A local boot has one notice, in memory that launcher and ranks share. With any other
 * boot each process has its own, and the boot carries what is set in one of them to all others within
 * LS_NOTICE_SECONDS, by a thread of its own, and at the latest when it is closed. A signal handler may therefore set
 * `stop`.
 */
typedef struct ls_notice {
    _Atomic int abort_state; /* one of LS_ABORT_* */
    char abort_text[sizeof((ls_status){0}.text)];
    _Atomic bool stop;
    _Atomic bool first_lost;    /* set by the boot: rank 0's process has ended without a word */
    _Atomic bool first_unheard; /* of a launched rank: rank 0 does not answer it */
    _Atomic bool warned;        /* of a launched rank: it has said that it waits for a rank that does not answer */
} ls_notice;

enum { LS_ABORT_NONE, LS_ABORT_BEING_WRITTEN, LS_ABORT_SET };

#define LS_NOTICE_SECONDS 0.1

/* notice.c: sets the text unless one is set already: the first counts. Returns whether it was set by this call. */
bool ls_notice_abort(ls_notice *notice, const char *why);
/* LS_PEER with the text of the abort when there is one, else LS_OK. */
ls_status ls_notice_aborted(const ls_notice *notice);

struct ls_transport;
struct ls_starter;
typedef struct ls_boot_kind ls_boot_kind;

enum { LS_HOST_NAME = 64, LS_ADDRESS = 64 };

/* What ranks prove to each other that they have (greeting_impl.h). */
typedef struct ls_key {
    uint8_t bytes[LS_SHA256_BYTES];
} ls_key;

#define LS_SECRET_VARIABLE "LONGSPAN_SECRET"
#define LS_SECRET_FILE_VARIABLE "LONGSPAN_SECRET_FILE"

/* An open boot. `open` of its kind sets what is marked so; boot.c fills in the rest, with gather where it must. */
typedef struct ls_boot {
    const ls_boot_kind *kind;             /* open may put a kind of its own here: that of a plug-in */
    int rank, ranks;                      /* set by open; local boots: by boot.c */
    ls_notice *notice;                    /* set by open; it lives until close */
    const struct ls_transport *transport; /* set by open: a transport that comes with the boot; NULL: none */
    char address[LS_ADDRESS];    /* set by open: numeric IP address at which other hosts reach this one; "": unknown */
    const _Atomic bool *stopped; /* set by open: [ranks] whether a rank is stopped; NULL: its starter does not say */
    const char *rank_variable;   /* set by open: what tells a process its rank, where who did so stays until all ranks
                                    have ended; NULL: nobody stays */
    bool ends_together;          /* set by open: no process ends well before all have called close, so that one that is
                                    gone before has failed; else the boot itself hears of that */
    _Atomic bool closing;        /* close was called */
    _Atomic bool failed;         /* ls_launched_abort was called: this process says why it fails */
    bool silent;                 /* ls_launched_be_silent */
    void *state;                 /* set by open: the kind's own */
    bool has_secret;             /* set by open: strangers do not know the key that it sets */
    ls_key key; /* set by open: what its ranks know already, else zeros. Then boot.c mixes with it what all ranks
                   draw, and it is the key of connections between them */

    int *hosts;                       /* [ranks] ranks of equal number can share memory */
    char (*host_names)[LS_HOST_NAME]; /* [ranks] for messages */
    int *processes;    /* [ranks] the process of a launched rank, where this one can see it in /proc; else 0 */
    int core_ranks;    /* that are bound to one core, the same as this one; 0: it has several */
    int machine_ranks; /* that share the memory of this machine, pretended hosts or not */
    int machine_rank;  /* of a launched rank: among these */
} ls_boot;

/* ---- who does not come (missing.c) ---- */

/* The seconds in which all ranks must meet: LONGSPAN_RENDEZVOUS_SECONDS, else 120. LS_USAGE. */
ls_status ls_boot_rendezvous_seconds(double *out);

/* Ranks that have not come to the gather under way. */
typedef struct ls_missing {
    int32_t rank;   /* of them: the one that has not answered for the longest time; -1: all have come */
    int32_t others; /* beside it */
    double silent;  /* seconds since it was asked whether it is there, without an answer; 0: it has answered */
} ls_missing;
#define LS_NOBODY_MISSING ((ls_missing){.rank = -1, .others = -1})
/* One more, which has not answered for so long. */
void ls_missing_add(ls_missing *missing, int rank, double silent);
/*
 * LS_PEER that names who does not come to a gather in which this rank has waited for so long: a process that has not
 * answered for 30 s (or the seconds of the rendezvous, if these are less), or that answers but has not come for 15
 * times these seconds.
 */
ls_status ls_boot_check_missing(const ls_boot *boot, const ls_missing *missing, double waited, double seconds);
/* Seconds between two questions for who is missing. */
#define LS_ASK_SECONDS 0.5
/* Of the time between two looks no more counts: a process that was suspended itself does not hold it against others. */
static inline double ls_boot_counted(double passed) { return passed < 0.2 ? passed : 0.2; }

/* ---- who does not answer (missing.c) ---- */

/*
 * For a rank that waits for a peer which has not answered, or has been stopped, for `silent` seconds (0: it answers),
 * to be called again and again. Whether it gives up: after `limit` seconds (0: never), or after 2 where the ranks are
 * asked to stop. A launched rank says before that it waits, after 7 s or half of the limit, once for each silence: rank
 * 0, and on hosts that do not hear rank 0 (`first_heard`) one of their ranks.
 */
bool ls_boot_gives_up(const ls_boot *boot, int rank, int peer, double silent, double limit, bool first_heard);
/* "which has not answered for 7 s: ...", or what else is known of a peer that is silent. */
void ls_boot_print_silence(const ls_boot *boot, int peer, double silent, char *out, size_t room);
/* Whether this process says for its host why the ranks fail. */
bool ls_boot_speaks(const ls_boot *boot);

/*
 * Whether a rank is known to be stopped (SIGSTOP): by its launcher, or by the system where the rank is a process that
 * this one can see.
 */
bool ls_boot_is_stopped(const ls_boot *boot, int rank);

/* A row of the table of boots (boot.c). */
struct ls_boot_kind {
    const char *name; /* of the boot, as in messages: "environment" */
    /* Whether this boot knows the starter of this process (NULL: nobody started it as a rank). NULL: a local boot. */
    bool (*found)(const struct ls_starter *starter);
    /*
     * Called once in a process (a local boot: once for each world). Blocks until all ranks have called it, with a
     * deadline; errors name what was found in the environment, what was expected, and which ranks are missing.
     */
    ls_status (*open)(ls_boot *boot);
    /*
     * Collective: all[r] becomes `mine` of rank r, of the same size on all ranks, at most LS_GATHER_VALUE bytes. rank:
     * the caller. Called by one thread of the rank at a time, also while programs run. Returns LS_PEER with the text of
     * the notice when the world is aborted meanwhile.
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
