/*
 * comm, for this folder alone: a world, which combines a boot (boot_impl.h) with transports (transport_impl.h), and
 * what the files of this folder share.
 */
#ifndef LS_COMM_IMPL_H
#define LS_COMM_IMPL_H

#include "comm/comm.h"
#include "comm/transport_impl.h"

/* A range of address space; base NULL: none. */
typedef struct ls_mapping {
    char *base;
    size_t bytes;
} ls_mapping;

/* ---- the boot of a world (boot.c) ---- */

/* The boot that this process was launched with; a local boot if there is none or if `local` is set. */
ls_status ls_boot_take(int ranks, bool local, ls_boot **out);
void ls_boot_return(ls_boot *boot);
/*
 * Collective: sets the world's key, and boot->hosts to boot->machine_rank, from what the ranks gather, which is not
 * trusted. To be freed by forget_hosts, also after a failure.
 */
ls_status ls_boot_find_hosts(ls_boot *boot);
void ls_boot_forget_hosts(ls_boot *boot);
/*
 * Collective among launched ranks: the status of the first rank whose `mine` is a failure, with the rank before its
 * text. For a local boot: `mine`.
 */
ls_status ls_boot_agree(ls_boot *boot, ls_status mine);

/*
 * launcher.c: watches the launcher and the other ranks' processes from now on; what a user should know about the
 * launcher.
 */
ls_status ls_launcher_watch(ls_boot *boot);
/*
 * The paths of the files in /dev/shm that this process has mapped and that are not in the list `without` (NULL: none),
 * one a line. The caller frees it; NULL: no memory.
 */
char *ls_shared_files(const char *without);
const char *ls_launcher_at_interrupt(void);
/*
 * How many ancestors of this process, counted from the nearest, have the variable until one does not; whether a process
 * is an ancestor of this one.
 */
int ls_launcher_distance(const char *variable);
bool ls_process_is_ancestor(int process);

/* boot_local.c: records that a rank was stopped or continued, as the launcher of a local boot's ranks knows. */
void ls_boot_set_stopped(ls_boot *boot, int rank, bool stopped);

/* ---- which transports a world may use (transports.c) ---- */

enum { LS_TRANSPORTS = 4 }; /* at most: those of the table and the transport that the boot brings */

/* The settings of chaos. */
typedef struct ls_chaos_settings {
    bool on;
    uint64_t seed;
    double delay; /* seconds from a put to its signal, at least */
} ls_chaos_settings;

typedef struct ls_selection {
    const ls_transport *transports[LS_TRANSPORTS];
    int n;
    ls_chaos_settings chaos; /* wraps them all */
} ls_selection;

/* The transport of a pair of ranks, by its index in the selection; -1: none reaches. */
typedef struct ls_choice {
    int index;
    ls_peer_reach reach;
} ls_choice;

/* Reads a setting as ls_world_create takes it; the boot may bring a transport of its own. */
ls_status ls_selection_read(const char *setting, const ls_boot *boot, ls_selection *out);
/* The best transport for two ranks: of those that can put, the fastest. */
ls_choice ls_selection_choose(const ls_selection *selection, const ls_boot *boot, int rank, int peer);
/* ls_hosts.block: 1 when no two ranks can load. */
int ls_selection_block(const ls_selection *selection, const ls_boot *boot);
/* The error for two ranks that no transport connects. */
ls_status ls_selection_refuse(const ls_selection *selection, const ls_boot *boot, int rank, int peer);

/* ---- a world ---- */

typedef struct ls_home_pipe ls_home_pipe; /* home.c: from a forked rank 0 to its launcher */

struct ls_world {
    ls_boot *boot; /* owned if it is local; else it belongs to the process */
    ls_world_options options;
    ls_selection selection;
    bool used[LS_TRANSPORTS]; /* [transport of the selection] whether a pair of ranks of the world uses it */
    ls_mapping memory;        /* the segments of all ranks with a local boot; else this rank's segment */
    char **segments;          /* [ranks] NULL: not in the memory of this process */
    bool loads;               /* a rank of this process loads from another rank */
    ls_home_pipe *home;       /* NULL: rank 0 is in the process that gets the results */
};

/* windows.c: what peers may send to a rank. create returns NULL when there is no memory. */
typedef struct ls_windows ls_windows;
ls_windows *ls_windows_create(const ls_world *world, int rank);
void ls_windows_destroy(ls_windows *windows);                          /* NULL is allowed */
ls_status ls_windows_expect(ls_windows *windows, const ls_window *of); /* as ls_comm_expect, but not collective */
/* Records a word that the rank sets at a peer. To be called before it is set. */
void ls_windows_note_set(ls_windows *windows, int word, uint64_t generation);

/* An open transport of a rank. */
typedef struct ls_link {
    const ls_transport *transport;
    void *state;
} ls_link;

/* State of the check, by a rank that sleeps, that its peer makes progress. */
typedef struct ls_watch {
    int peer;           /* the peer that the rank sleeps for; -1: none yet */
    int end;            /* the last rank of the chain of waits: peer waits for rank x, which waits for ... */
    uint64_t own_ticks; /* of this rank */
    uint64_t ticks;     /* the sum over all ranks of the chain */
    double checked;     /* ls_seconds() of the last check */
    double still;       /* seconds without progress */
} ls_watch;

struct ls_comm {
    ls_world *world;
    ls_endpoint end;
    char **segments; /* [ranks] of the endpoint */
    ls_rank_line *line;
    _Atomic uint64_t *words;
    char *heap;
    ls_windows *windows;
    ls_link *routes; /* [ranks] to each peer */
    ls_link links[LS_TRANSPORTS];
    int n_links;
    uint64_t collectives;      /* host collectives so far */
    char doing[LS_COMM_DOING]; /* ls_comm_doing */
    uint64_t puts; /* puts so far, which is the ticket of the last one, even while the transport's put runs */
    ls_watch watch;
    bool was_left;     /* ls_comm_was_left */
    bool ends_at_stop; /* ls_comm_end_at_stop */
};

static inline size_t ls_heap_bytes_of(const ls_world_options *options, int rank) {
    return options->memory != NULL ? options->memory[rank].heap : options->heap_bytes;
}
static inline size_t ls_common_bytes_of(const ls_world_options *options, int rank) {
    return options->memory != NULL ? options->memory[rank].common : 0;
}

/*
 * form.c: the form of a rank's segment, by the options. segment.c: maps the segments into world->memory and
 * world->segments.
 */
ls_segment_form ls_segment_lay_out(const ls_world_options *options, int rank);
ls_status ls_segments_map(ls_world *world);
void ls_segments_unmap(ls_world *world);

/* chaos.c: puts chaos between the rank and its links: comm->links becomes one, and all routes lead to it. */
ls_status ls_chaos_wrap(const ls_chaos_settings *settings, ls_comm *comm);

/*
 * form.c: the rounds of a host collective, each of which has a signal word; and the bytes of one half of the inbox.
 * These grow with the number of ranks, because every rank receives every rank's part of an exchange: at least 64 bytes
 * of it at a time, with a head, and more if there are few ranks.
 */
int ls_host_rounds(int ranks);
size_t ls_host_inbox_bytes(int ranks);

/*
 * comm.c, without checks: puts, and sets put->ticket; sets a word of a peer; advances messages as ls_transport.progress
 * does.
 */
void ls_comm_send(ls_comm *comm, ls_put *put);
void ls_comm_send_signal(ls_comm *comm, int peer, int word, uint64_t generation);
double ls_comm_progress(ls_comm *comm);

/* mapping.c: new zeroed address space; memory is allocated when it is touched. LS_NO_MEMORY errors name the bytes. */
ls_status ls_map_shared(size_t bytes, ls_mapping *out);
ls_status ls_map_private(size_t bytes, ls_mapping *out);
/* Shared memory that other processes can map, with *fd, which the caller closes; and the mapping in those processes. */
ls_status ls_map_passable(size_t bytes, ls_mapping *out, int *fd);
ls_status ls_map_passed(int fd, size_t bytes, ls_mapping *out);
void ls_unmap(ls_mapping *mapping);
/* Whether the system gives shared memory huge pages on request; folder: like /sys/kernel/mm/transparent_hugepage. */
bool ls_shared_gets_huge_pages(const char *folder);

/* wait.c: ls_comm_wait for any word, including those of the host collectives. */
ls_status ls_wait_word(ls_comm *comm, int word, uint64_t generation, int peer, const char *what);

#endif
