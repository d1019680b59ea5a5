/* The ends of a class's channels, as its proof records them (verify_local.h). */
#include "program/instr.h"
#include "program/verify_local_impl.h"

ls_class_proof *ls_class_proof_make(const ls_image *image, int rank, ls_arena *arena) {
    ls_class_proof *proof = LS_NEW(arena, ls_class_proof);
    *proof =
        (ls_class_proof){.rank = rank,
                         .teams = ls_arena_copy(arena, image->teams, sizeof *image->teams * (size_t)image->n_teams),
                         .n_teams = image->n_teams,
                         .programs = LS_NEW_ARRAY(arena, ls_program_ends, image->n_programs + 1),
                         .n_programs = image->n_programs,
                         .phases = ls_arena_copy(arena, image->phases, sizeof *image->phases * (size_t)image->n_phases),
                         .n_phases = image->n_phases};
    for (int p = 0; p < image->n_programs; p++) {
        const ls_program *program = &image->programs[p];
        ls_program_ends *ends = &proof->programs[p];
        ends->name = ls_arena_strdup(arena, program->name);
        ends->n_channels = program->n_channels;
        ends->channel = LS_NEW_ARRAY(arena, const char *, program->n_channels + 1);
        ends->word = LS_NEW_ARRAY(arena, int, program->n_channels + 1);
        ends->ends = ls_arena_alloc(arena, sizeof *ends->ends * ((size_t)program->n_channels + 1));
        for (int c = 0; c < program->n_channels; c++) {
            ends->channel[c] = ls_arena_strdup(arena, program->channels[c].name);
            ends->word[c] = ls_channel_word(program, c, false);
        }
    }
    return proof;
}

/* A hash of the form of a slot or block, which both ends know. Its offset is not included: one end tells the other. */
static uint64_t hash_of_form(const ls_operand *o, size_t counted) {
    if (ls_operand_is_empty(o)) return 1;
    const ls_range range = ls_view_range(&o->view, 0);
    const uint64_t key[] = {ls_hash_bytes(&range, sizeof range), o->view.dtype, counted};
    return ls_hash_bytes(key, sizeof key);
}

/* kind: of the instruction that sets the word. */
static void add(uint64_t *hash, ls_instr_kind kind, const ls_instr *instr, uint64_t form) {
    const uint64_t key[] = {*hash,
                            kind,
                            instr->transfer,
                            form,
                            (uint64_t)instr->epoch.slot,
                            (uint64_t)instr->epoch.node,
                            (uint64_t)instr->epoch.step};
    *hash = ls_hash_bytes(key, sizeof key);
}

/*
 * PUT and RECEIVE add what is transferred, LEASE and BORROW what is read. For the words "free", only the kind of
 * instruction that sets them and the epoch are added.
 */
void ls_channel_end_note(ls_channel_end *end, const ls_instr *instr) {
    const ls_instr_traits *t = ls_traits(instr);
    const ls_instr_kind kind = t->sets ? instr->kind : t->awaited;
    end->used = true;
    end->peer = instr->peer;
    if (t->free)
        add(&end->free, kind, instr, 0);
    else
        add(&end->data, kind, instr,
            hash_of_form(instr->kind == LS_INSTR_LEASE ? &instr->in[0] : &instr->out[0], instr->counted));
}
