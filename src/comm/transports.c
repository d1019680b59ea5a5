/* The table of transports; which of them a world may use, and which one a pair of ranks takes. */
#include "comm/comm_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ls_transport *const transports[] = {
    &ls_transport_shm,
    &ls_transport_tcp,
};

/* The name of the transport that a boot may bring. */
static const char boots_own[] = "mpi";

const char *ls_transport_name(int index) {
    return index >= 0 && (size_t)index < LS_COUNT(transports) ? transports[index]->name : NULL;
}

/* ---- settings ---- */

static const char chaos_name[] = "chaos:";

/* Reads "SEED[:SECONDS[:" after "chaos:"; *rest: what follows, which may be "". False: the text has another form. */
static bool read_chaos(const char *text, ls_chaos_settings *out, const char **rest) {
    char *end;
    *out = (ls_chaos_settings){.on = true, .seed = strtoull(text, &end, 10)};
    *rest = end;
    if (end == text || *end == 0) return end != text;
    const char *seconds = end + 1;
    if (*end != ':') return false;
    out->delay = ls_real_of(seconds, &end);
    if (end == seconds || !(out->delay >= 0) || isinf(out->delay)) return false;
    *rest = end + (*end == ':');
    return *end == 0 || (*end == ':' && end[1] != 0);
}

static bool is_named(const char *list, const char *name) {
    const size_t n = strlen(name);
    for (const char *at = list; *at != 0; at += strcspn(at, ",")) {
        at += *at == ',';
        if (strncmp(at, name, n) == 0 && (at[n] == 0 || at[n] == ',')) return true;
    }
    return false;
}

/* The names that a setting may contain, by index; NULL past the end. */
static const char *name_at(size_t i) {
    if (i < LS_COUNT(transports)) return transports[i]->name;
    return i == LS_COUNT(transports) ? boots_own : NULL;
}

/* Reads a setting; *list: its list of names, "" for all. */
static ls_status read_setting(const char *setting, ls_chaos_settings *chaos, const char **list) {
    const bool wraps = strncmp(setting, chaos_name, strlen(chaos_name)) == 0;
    *list = setting;
    if (wraps && !read_chaos(setting + strlen(chaos_name), chaos, list))
        return ls_error(LS_USAGE, "transports '%s': expected chaos:SEED[:SECONDS[:TRANSPORTS]]", setting);
    char known[64] = "";
    size_t used = 0;
    int n = **list != 0, named = 0;
    for (const char *at = *list; *at != 0; at++) n += *at == ',';
    for (size_t i = 0; name_at(i) != NULL; i++) {
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", name_at(i));
        LS_ASSERT(used < sizeof known);
        named += is_named(*list, name_at(i));
    }
    if (named == n && (wraps || n > 0)) return ls_ok();
    return ls_error(LS_USAGE, "transports '%s': expected some of %s, each once, with commas between", *list, known);
}

ls_status ls_transports_check(const char *setting) {
    ls_chaos_settings chaos;
    const char *list;
    return read_setting(setting, &chaos, &list);
}

/* Adds the transports of a list of names, "" for all that are there. */
static ls_status add_named(const char *list, const ls_boot *boot, ls_selection *out) {
    for (size_t i = 0; name_at(i) != NULL; i++) {
        const ls_transport *one = i < LS_COUNT(transports) ? transports[i] : boot->transport;
        if (one != NULL && (*list == 0 || is_named(list, one->name))) out->transports[out->n++] = one;
        if (one == NULL && is_named(list, name_at(i)))
            return ls_error(LS_UNSUPPORTED, "transport %s is not there: expected an mpirun to start the ranks",
                            name_at(i));
    }
    return ls_ok();
}

ls_status ls_selection_read(const char *setting, const ls_boot *boot, ls_selection *out) {
    ls_selection selection = {.n = 0};
    const char *list = setting != NULL ? setting : getenv(LS_TRANSPORTS_VARIABLE);
    if (list == NULL || *list == 0)
        list = "";
    else
        LS_TRY(read_setting(list, &selection.chaos, &list));
    LS_TRY(add_named(list, boot, &selection));
    *out = selection;
    return ls_ok();
}

/* ---- choosing ---- */

ls_choice ls_selection_choose(const ls_selection *selection, const ls_boot *boot, int rank, int peer) {
    ls_choice best = {.index = -1};
    for (int i = 0; i < selection->n; i++) {
        const ls_peer_reach reach = selection->transports[i]->reach(boot, rank, peer);
        if (reach.put && (best.index < 0 || reach.seconds < best.reach.seconds)) best = (ls_choice){i, reach};
    }
    return best;
}

/*
 * Whether ranks in one block of this size can always load from each other. Checking neighbours suffices, because all
 * ranks of a host share memory.
 */
static bool loads_in_blocks(const ls_selection *selection, const ls_boot *boot, int block) {
    for (int r = 0; r + 1 < boot->ranks; r++)
        if (r / block == (r + 1) / block && !ls_selection_choose(selection, boot, r, r + 1).reach.load) return false;
    return true;
}

int ls_selection_block(const ls_selection *selection, const ls_boot *boot) {
    int block = boot->ranks;
    while (!loads_in_blocks(selection, boot, block)) block--;
    return block;
}

ls_status ls_selection_refuse(const ls_selection *selection, const ls_boot *boot, int rank, int peer) {
    char tried[128] = "";
    size_t used = 0;
    for (int i = 0; i < selection->n; i++)
        used += (size_t)snprintf(tried + used, sizeof tried - used, "%s%s", i > 0 ? ", " : "",
                                 selection->transports[i]->name);
    LS_ASSERT(used < sizeof tried);
    return ls_error(LS_UNSUPPORTED, "nothing connects rank %d on host %s with rank %d on host %s: tried %s", rank,
                    boot->host_names[rank], peer, boot->host_names[peer], tried);
}
