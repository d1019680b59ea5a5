/*
 * Lists of stages whose slots are permuted, as if turns of the timetable had come in another order: on one rank, in
 * what is said or also in where it stands, and on all ranks alike. The local verifier rejects each list of one rank; of
 * all lists both verifiers reject what the interpreter finds wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "program/program.h"
#include "support/edits.h"
#include "support/images.h"
#include "support/subject.h"

enum { SEEDS = 4 };

typedef struct slot_counts {
    int lists, wrong, hung, play, local,
        out_of_turn; /* play, local: rejected by it; out_of_turn: for the epochs alone */
} slot_counts;

static void judge(subject *s, bool one_rank, int seed, slot_counts *counts) {
    const ls_status play = ls_verify(subject_images(s), s->set.ranks),
                    local = ls_verify_local(subject_images(s), s->set.ranks);
    ls_interpreter_result how = {0};
    uint64_t which;
    const bool wrong = subject_is_wrong(s, (uint64_t)(seed * SEEDS), SEEDS, &how, &which);
    if (wrong && play.code == LS_OK) fail_msg("the play accepts a list that is wrong");
    if ((wrong || one_rank) && local.code == LS_OK) fail_msg("the local verifier accepts a list with permuted slots");
    counts->lists++;
    counts->wrong += wrong;
    counts->hung += wrong && how.hung;
    counts->play += play.code != LS_OK;
    counts->local += local.code != LS_OK;
    counts->out_of_turn += strstr(local.text, "after an await of no earlier epoch") != NULL;
    subject_restore(s);
}

static int slots_of(const image_set *set) {
    int most = 0;
    for (int r = 0; r < set->ranks; r++) {
        const ls_program *p = &set->image[r]->programs[set->image[r]->n_programs - 1];
        for (int i = 0; i < p->n_instrs; i++) most = (int)ls_max(most, p->instrs[i].epoch.slot);
    }
    return most;
}

/* Whether something of a rank's program, the last one, is said in the slot: by rank * (slots + 1) + slot. */
static bool *slots_used(const image_set *set, int slots) {
    if (set->ranks < 1 || slots < 0) abort();
    bool *used = calloc((size_t)set->ranks * ((size_t)slots + 1), sizeof *used);
    if (used == NULL) abort();
    for (int r = 0; r < set->ranks; r++) {
        const ls_program *p = &set->image[r]->programs[set->image[r]->n_programs - 1];
        for (int i = 0; i < p->n_instrs; i++)
            if (p->instrs[i].kind != LS_INSTR_KERNEL && p->instrs[i].epoch.slot >= 0)
                used[r * (slots + 1) + p->instrs[i].epoch.slot] = true;
    }
    return used;
}

/* Of each two slots of the last program, which is a step: on each rank that has both, and on all of these. */
static void exchange_all(const image_set *set, bool places, slot_counts *one, slot_counts *all) {
    subject s = {.programs = {NULL}};
    subject_make(&s, set);
    const int slots = slots_of(set), program = set->image[0]->n_programs - 1;
    bool *const used = slots_used(set, slots);
    for (int a = 0; a < slots; a++) {
        for (int b = a + 1; b <= slots; b++) {
            bool any = false;
            for (int pass = 0; pass < 2; pass++) {
                for (int r = 0; r < set->ranks; r++) {
                    const bool *const has = &used[r * (slots + 1)];
                    if (!has[a] || !has[b]) continue;
                    any |= edit_exchange_slots(&s.set.image[r]->programs[program], a, b, places);
                    if (pass == 0) judge(&s, true, a + b, one);
                }
            }
            if (any) judge(&s, false, a + b, all);
        }
    }
    free(used);
    subject_free(&s);
}

static void print_counts(const char *what, const slot_counts *c) {
    print_message("%s: %d lists, %d wrong (%d hang); rejected by the play %d, by the local verifier %d (%d for epochs "
                  "that do not rise)\n",
                  what, c->lists, c->wrong, c->hung, c->play, c->local, c->out_of_turn);
}

static void test_permuted_slots_are_rejected(void **state) {
    (void)state;
    static const struct {
        const char *mesh, *strategy, *pipeline;
    } jobs[] = {{"pp=2", "local", "1f1b"}, {"pp=2", "local", "interleaved:2"}, {"pp=3", "local", "zero-bubble"}};
    for (int places = 0; places < 2; places++) {
        slot_counts one = {0}, all = {0};
        for (size_t i = 0; i < LS_COUNT(jobs); i++) {
            const image_set set =
                images_of_stages(jobs[i].mesh, jobs[i].strategy, jobs[i].pipeline, &ls_shard_modes[LS_SHARD_NONE]);
            exchange_all(&set, places > 0, &one, &all);
        }
        print_counts(places ? "said and placed otherwise on one rank" : "said otherwise on one rank", &one);
        print_counts(places ? "on all ranks" : "said otherwise on all ranks", &all);
        assert_true(one.lists > 100 && all.lists > 50);
        if (places > 0) assert_true(one.hung > 0 && 2 * one.wrong > one.lists && one.play >= one.wrong);
        if (places == 0) assert_true(all.out_of_turn > 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_permuted_slots_are_rejected)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
