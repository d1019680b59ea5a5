#include "mutate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "edits.h"
#include "program/program.h"
#include "subject.h"

static void count(const char *verifier, ls_status status, bool wrong, const edit *e, mutation_counts *counts) {
    const bool rejected = status.code != LS_OK;
    counts->wrong_rejected += wrong && rejected;
    counts->wrong_accepted += wrong && !rejected;
    counts->harmless_rejected += !wrong && rejected;
    counts->harmless_accepted += !wrong && !rejected;
    counts->harmless_unordered += !wrong && rejected && strstr(status.text, "are not ordered") != NULL;
    if (wrong && !rejected)
        printf("%s accepted what is wrong: edit %llu, %s\n", verifier, (unsigned long long)e->seed, e->what);
    if (!wrong && rejected && getenv("LONGSPAN_TEST_VERBOSE") != NULL)
        printf("%s rejected what is harmless: %s: %s\n", verifier, e->what, status.text);
}

static void judge(const subject *s, const edit *e, int seeds, mutation_verdicts *verdicts) {
    ls_interpreter_result how = {0};
    uint64_t seed = 0;
    const ls_status play = ls_verify(subject_images(s), s->set.ranks);
    const ls_status local = ls_verify_local(subject_images(s), s->set.ranks);
    const bool wrong = subject_is_wrong(s, e->seed * 64, seeds, &how, &seed);
    if (wrong && (play.code == LS_OK || local.code == LS_OK))
        printf("seed %llu: hung %d, poison %d, outside %d\n", (unsigned long long)seed, how.hung, how.poison,
               how.outside);
    count("the play", play, wrong, e, &verdicts->play);
    count("the local verifier", local, wrong, e, &verdicts->local);
}

static void print_counts(const char *name, const char *verifier, const mutation_counts *c) {
    printf("%-12s %-5s wrong: %5d rejected, %d accepted; harmless: %4d rejected (%d for order), %4d accepted\n", name,
           verifier, c->wrong_rejected, c->wrong_accepted, c->harmless_rejected, c->harmless_unordered,
           c->harmless_accepted);
}

static void print_verdicts(const char *name, const mutation_verdicts *v) {
    const mutation_counts *c = &v->play;
    if (c->wrong_rejected + c->wrong_accepted + c->harmless_rejected + c->harmless_accepted == 0) return;
    print_counts(name, "play", &v->play);
    print_counts(name, "local", &v->local);
}

static void add_counts(mutation_counts *sum, const mutation_counts *c) {
    sum->wrong_rejected += c->wrong_rejected;
    sum->wrong_accepted += c->wrong_accepted;
    sum->harmless_rejected += c->harmless_rejected;
    sum->harmless_accepted += c->harmless_accepted;
    sum->harmless_unordered += c->harmless_unordered;
}

static void need_rejected(const mutation_counts *c, int edits) {
    assert_true(c->wrong_rejected > edits / 2);
    assert_int_equal(c->wrong_accepted, 0);
}

mutation_verdicts judge_mutations_of(const image_set *sets, int n, uint64_t first, int edits, int seeds) {
    subject *subjects = calloc((size_t)n, sizeof *subjects);
    for (int i = 0; i < n; i++) subject_make(&subjects[i], &sets[i]);
    mutation_verdicts verdicts[EDIT_KINDS + 1];
    memset(verdicts, 0, sizeof verdicts);
    uint64_t seed = first;
    for (int done = 0; done < edits; seed++) {
        subject *s = &subjects[seed % n];
        edit e = {.set = &s->set, .seed = seed};
        const int kind = edit_draw(&e, EDIT_KINDS);
        e.rank = edit_draw(&e, s->set.ranks);
        e.image = s->set.image[e.rank];
        e.index = edit_draw(&e, e.image->n_programs);
        e.program = &e.image->programs[e.index];
        if (edit_kinds[kind].apply(&e)) {
            judge(s, &e, seeds, &verdicts[kind]);
            done++;
        }
        subject_restore(s);
    }
    for (int k = 0; k < EDIT_KINDS; k++) {
        print_verdicts(edit_kinds[k].name, &verdicts[k]);
        add_counts(&verdicts[EDIT_KINDS].play, &verdicts[k].play);
        add_counts(&verdicts[EDIT_KINDS].local, &verdicts[k].local);
    }
    print_verdicts("all", &verdicts[EDIT_KINDS]);
    for (int i = 0; i < n; i++) subject_free(&subjects[i]);
    free(subjects);
    need_rejected(&verdicts[EDIT_KINDS].play, edits);
    need_rejected(&verdicts[EDIT_KINDS].local, edits);
    return verdicts[EDIT_KINDS];
}
