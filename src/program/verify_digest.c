/* What a proof says to those of other classes, in few numbers (verify_local.h). */
#include <string.h>

#include "program/verify_local_impl.h"

static void mix(uint64_t *hash, const void *data, size_t bytes) {
    const uint64_t key[] = {*hash, ls_hash_bytes(data, bytes)};
    *hash = ls_hash_bytes(key, sizeof key);
}

static void mix_int(uint64_t *hash, uint64_t value) { mix(hash, &value, sizeof value); }
static void mix_text(uint64_t *hash, const char *text) { mix(hash, text, strlen(text)); }

/* What must be the same in every class. */
static uint64_t hash_of_frame(const ls_class_proof *proof) {
    uint64_t hash = 0;
    mix_int(&hash, (uint64_t)proof->words);
    mix_int(&hash, proof->heap_bytes);
    mix(&hash, proof->phases, sizeof *proof->phases * (size_t)proof->n_phases);
    for (int t = 0; t < proof->n_teams; t++) {
        mix(&hash, proof->teams[t].digit, sizeof proof->teams[t].digit[0] * (size_t)proof->teams[t].digits);
        mix_int(&hash, proof->teams[t].by_digit);
    }
    for (int p = 0; p < proof->n_programs; p++) {
        const ls_program_ends *ends = &proof->programs[p];
        mix_text(&hash, ends->name);
        mix_int(&hash, ends->order);
        for (int c = 0; c < ends->n_channels; c++) {
            mix_text(&hash, ends->channel[c]);
            mix_int(&hash, ends->uses[c]);
        }
    }
    return hash;
}

/* A use of a channel between two ranks, as one of them knows it. */
static uint64_t hash_of_end(int program, int channel, int team, int sender, int receiver, uint64_t said) {
    const uint64_t key[] = {(uint64_t)program, (uint64_t)channel,  (uint64_t)team,
                            (uint64_t)sender,  (uint64_t)receiver, said};
    return ls_hash_bytes(key, sizeof key);
}

static void add_rank(const ls_class_proof *proof, int rank, ls_proof_digest *digest) {
    for (int p = 0; p < proof->n_programs; p++) {
        for (int c = 0; c < proof->programs[p].n_channels; c++) {
            const ls_channel_end *end = &proof->programs[p].ends[c];
            if (end->has_to) {
                const int to = ls_team_member(&proof->teams[end->to.team], rank, end->to.shift);
                digest->sent += hash_of_end(p, c, end->to.team, rank, to, end->sent);
            }
            if (end->has_from) {
                const int from = ls_team_member(&proof->teams[end->from.team], rank, end->from.shift);
                digest->received += hash_of_end(p, c, end->from.team, from, rank, end->received);
            }
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
