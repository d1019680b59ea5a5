/* Compares the channels between classes: the two ends of each channel must agree (verify_local.h). */
#include <stdlib.h>
#include <string.h>

#include "program/instr.h"
#include "program/verify_local_impl.h"

/* --- comparing -------------------------------------------------------------------------------------------- */

static ls_status differ(const ls_class_proof *a, const ls_class_proof *b, const char *what) {
    return ls_error(LS_INVALID, "program rejected: the programs of ranks %d and %d differ in %s", a->rank, b->rank,
                    what);
}

/* What must be the same in every class. */
static ls_status compare_frames(const ls_class_proof *a, const ls_class_proof *b) {
    if (a->n_programs != b->n_programs) return differ(a, b, "their number");
    if (a->n_phases != b->n_phases || memcmp(a->phases, b->phases, sizeof *a->phases * (size_t)a->n_phases) != 0)
        return differ(a, b, "their phase tables");
    for (int p = 0; p < a->n_programs; p++)
        if (strcmp(a->programs[p].name, b->programs[p].name) != 0) return differ(a, b, "their names");
    return ls_ok();
}

/* Whether each of the two ends has the other end's rank as its peer, for every rank of the class. */
static bool they_meet(const ls_class_proof *a, const ls_channel_end *x, const ls_class_proof *b,
                      const ls_channel_end *y) {
    const ls_team *team = &a->teams[x->peer.team];
    return y->used && ls_team_equal(team, &b->teams[y->peer.team]) &&
           y->peer.shift == ls_team_back(team, x->peer.shift);
}

/* Compares an end of a channel of one class with the other end in the class of its peer. */
static ls_status compare_ends(const ls_class_proof *a, const ls_class_proof *b, int program, int channel, int side) {
    const ls_program_ends *here = &a->programs[program], *there = &b->programs[program];
    const ls_channel_end *x = &here->ends[channel][side];
    const bool known = channel < there->n_channels && strcmp(here->channel[channel], there->channel[channel]) == 0;
    const ls_channel_end *y = known ? &there->ends[channel][LS_SIDES - 1 - side] : NULL;
    const char *what = !known || !they_meet(a, x, b, y)              ? "who is at the other end"
                       : here->word[channel] != there->word[channel] ? "their signal words"
                       : x->data != y->data                          ? "the form of what is transferred"
                       : x->free != y->free                          ? "when the words that say \"free\" are set"
                                                                     : NULL;
    if (what == NULL) return ls_ok();
    return ls_error(LS_INVALID, "program rejected: ranks %d and %d, %s: the two ends of \"%s\" differ in %s", a->rank,
                    b->rank, here->name, here->channel[channel], what);
}

/* The classes of all ranks that are this peer of some rank of a class. */
typedef struct reach {
    ls_peer peer;
    int *classes;
    int n;
} reach;

typedef struct comparing {
    const ls_class_proof *const *proofs;
    const int *class_of;
    int classes, ranks;
    int *first, *next; /* ranks of a class, linked; -1: no more */
    bool *met;         /* by class */
} comparing;

static reach find_reach(const comparing *c, int class, ls_peer peer, ls_arena *arena) {
    const ls_team *team = &c->proofs[class]->teams[peer.team];
    reach r = {.peer = peer, .classes = LS_NEW_ARRAY(arena, int, c->classes)};
    for (int rank = c->first[class]; rank >= 0; rank = c->next[rank]) {
        const int there = c->class_of[ls_team_member(team, rank, peer.shift)];
        if (c->met[there]) continue;
        c->met[there] = true;
        r.classes[r.n++] = there;
    }
    for (int i = 0; i < r.n; i++) c->met[r.classes[i]] = false;
    return r;
}

static ls_status compare_class(const comparing *c, int class, ls_arena *arena) {
    const ls_class_proof *proof = c->proofs[class];
    reach *reaches = NULL;
    int n = 0;
    size_t capacity = 0;
    for (int p = 0; p < proof->n_programs; p++) {
        for (int e = 0; e < LS_SIDES * proof->programs[p].n_channels; e++) {
            const ls_channel_end *end = &proof->programs[p].ends[e / LS_SIDES][e % LS_SIDES];
            if (!end->used) continue;
            int k = 0;
            while (k < n && !ls_peer_equal(reaches[k].peer, end->peer)) k++;
            if (k == n) *LS_PUSH(arena, reaches, n, capacity) = find_reach(c, class, end->peer, arena);
            for (int i = 0; i < reaches[k].n; i++)
                LS_TRY(compare_ends(proof, c->proofs[reaches[k].classes[i]], p, e / LS_SIDES, e % LS_SIDES));
        }
    }
    return ls_ok();
}

ls_status ls_prove_between(const ls_class_proof *const *proofs, int classes, const int *class_of, int ranks) {
    for (int k = 1; k < classes; k++) LS_TRY(compare_frames(proofs[0], proofs[k]));
    ls_arena *arena = ls_arena_create();
    comparing c = {.proofs = proofs,
                   .class_of = class_of,
                   .classes = classes,
                   .ranks = ranks,
                   .first = LS_NEW_ARRAY(arena, int, classes),
                   .next = LS_NEW_ARRAY(arena, int, ranks),
                   .met = LS_NEW_ARRAY(arena, bool, classes)};
    for (int k = 0; k < classes; k++) c.first[k] = -1;
    for (int rank = ranks - 1; rank >= 0; rank--) {
        c.next[rank] = c.first[class_of[rank]];
        c.first[class_of[rank]] = rank;
    }
    ls_status status = ls_ok();
    for (int k = 0; k < classes && status.code == LS_OK; k++) {
        ls_arena *scratch = ls_arena_create();
        status = compare_class(&c, k, scratch);
        ls_arena_destroy(scratch);
    }
    ls_arena_destroy(arena);
    return status;
}

/* --- images in this process ------------------------------------------------------------------------------- */

ls_status ls_verify_local(const ls_image *const *images, int ranks) {
    ls_arena *arena = ls_arena_create();
    int *class_of = LS_NEW_ARRAY(arena, int, ranks), classes = 0;
    ls_class_proof **proofs = LS_NEW_ARRAY(arena, ls_class_proof *, ranks);
    int *first = LS_NEW_ARRAY(arena, int, ranks); /* by class: its first rank */
    ls_status status = ls_ok();
    for (int r = 0; r < ranks && status.code == LS_OK; r++) {
        int k = 0;
        while (k < classes && images[first[k]] != images[r]) k++;
        class_of[r] = k;
        if (k < classes) continue;
        first[classes++] = r;
        status = ls_prove_class(images[r], r, arena, &proofs[k]);
    }
    if (status.code == LS_OK)
        status = ls_prove_between((const ls_class_proof *const *)proofs, classes, class_of, ranks);
    ls_arena_destroy(arena);
    return status;
}
