/* The table of transports; which of them a world may use, and which a pair of ranks takes. */
#include "comm/comm_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ls_transport *const transports[] = {
    &ls_transport_shm,
    &ls_transport_tcp,
};

const char *ls_transport_name(int index) {
    return index >= 0 && (size_t)index < LS_COUNT(transports) ? transports[index]->name : NULL;
}

/* ---- settings ---- */

static const char chaos_name[] = "chaos:";

/* Reads "SEED[:SECONDS[:" after "chaos:"; *rest: what follows it, perhaps "". False: the text is something else. */
static bool read_chaos(const char *text, ls_chaos_settings *out, const char **rest) {
    char *end;
    *out = (ls_chaos_settings){.on = true, .seed = strtoull(text, &end, 10)};
    *rest = end;
    if (end == text || *end == 0) return end != text;
    const char *seconds = end + 1;
    if (*end != ':') return false;
    out->delay = strtod(seconds, &end);
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

static int names_in(const char *list) {
    int n = 1;
    for (const char *at = list; *at != 0; at++) n += *at == ',';
    return n;
}

/* Adds the transports of a list of names, "" for all. */
static ls_status add_named(const char *list, const ls_boot *boot, ls_selection *out) {
    char known[128] = "";
    for (size_t i = 0; i <= LS_COUNT(transports); i++) {
        const ls_transport *one = i < LS_COUNT(transports) ? transports[i] : boot->transport;
        if (one == NULL) continue;
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", known[0] != 0 ? ", " : "", one->name);
        if (*list == 0 || is_named(list, one->name)) out->transports[out->n++] = one;
    }
    if (*list == 0 || out->n == names_in(list)) return ls_ok();
    return ls_error(LS_USAGE, "transports '%s': expected some of %s, each once, with commas between", list, known);
}

ls_status ls_selection_read(const char *setting, const ls_boot *boot, ls_selection *out) {
    ls_selection selection = {.n = 0};
    const char *list = setting != NULL ? setting : getenv(LS_TRANSPORTS_VARIABLE);
    if (list == NULL) list = "";
    if (strncmp(list, chaos_name, strlen(chaos_name)) == 0 &&
        !read_chaos(list + strlen(chaos_name), &selection.chaos, &list))
        return ls_error(LS_USAGE, "transports '%s': expected chaos:SEED[:SECONDS[:TRANSPORTS]]",
                        setting != NULL ? setting : getenv(LS_TRANSPORTS_VARIABLE));
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

/* Whether ranks that are in one block of this size always load. Neighbours suffice: hosts share memory as a whole. */
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
    for (int i = 0; i < selection->n; i++)
        snprintf(tried + strlen(tried), sizeof tried - strlen(tried), "%s%s", i > 0 ? ", " : "",
                 selection->transports[i]->name);
    return ls_error(LS_UNSUPPORTED, "nothing connects rank %d on host %s with rank %d on host %s: tried %s", rank,
                    boot->host_names[rank], peer, boot->host_names[peer], tried);
}
