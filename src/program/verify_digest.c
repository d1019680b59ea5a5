/* A proof as a few numbers, which are compared with those of other classes (verify_local.h). */
#include <string.h>

#include "program/verify_local_impl.h"

static void mix(uint64_t *hash, const void *data, size_t bytes) {
    const uint64_t key[] = {*hash, ls_hash_bytes(data, bytes)};
    *hash = ls_hash_bytes(key, sizeof key);
}

static void mix_text(uint64_t *hash, const char *text) { mix(hash, text, strlen(text)); }

/* What must be the same in every class. */
static uint64_t hash_of_frame(const ls_class_proof *proof) {
    uint64_t hash = 0;
    mix(&hash, proof->phases, sizeof *proof->phases * (size_t)proof->n_phases);
    for (int p = 0; p < proof->n_programs; p++) mix_text(&hash, proof->programs[p].name);
    return hash;
}

/* A hash of all uses of a channel from one rank to another, as one of the two has them. */
static uint64_t hash_of_end(int program, int channel, const ls_program_ends *ends, int sender, int receiver,
                            const ls_channel_end *end) {
    const char *name = ends->channel[channel];
    const uint64_t key[] = {(uint64_t)program,
                            (uint64_t)channel,
                            (uint64_t)ends->word[channel],
                            ls_hash_bytes(name, strlen(name)),
                            (uint64_t)sender,
                            (uint64_t)receiver,
                            end->data,
                            end->free};
    return ls_hash_bytes(key, sizeof key);
}

static void add_rank(const ls_class_proof *proof, int rank, ls_proof_digest *digest) {
    for (int p = 0; p < proof->n_programs; p++) {
        const ls_program_ends *ends = &proof->programs[p];
        for (int e = 0; e < LS_SIDES * ends->n_channels; e++) {
            const int c = e / LS_SIDES;
            const bool sends = e % LS_SIDES == LS_SIDE_SENDS;
            const ls_channel_end *end = &ends->ends[c][e % LS_SIDES];
            if (!end->used) continue;
            const int peer = ls_team_member(&proof->teams[end->peer.team], rank, end->peer.shift);
            *(sends ? &digest->sent : &digest->received) +=
                hash_of_end(p, c, ends, sends ? rank : peer, sends ? peer : rank, end);
        }
    }
}

ls_proof_digest ls_class_proof_digest(const ls_class_proof *proof, int class, const int *class_of, int ranks) {
    ls_proof_digest digest = {.frame = hash_of_frame(proof)};
    for (int r = 0; r < ranks; r++)
        if (class_of[r] == class) add_rank(proof, r, &digest);
    return digest;
}

bool ls_proof_digests_agree(const ls_proof_digest *digests, int classes) {
    uint64_t sent = 0, received = 0;
    for (int c = 0; c < classes; c++) {
        if (digests[c].frame != digests[0].frame) return false;
        sent += digests[c].sent;
        received += digests[c].received;
    }
    return sent == received;
}
