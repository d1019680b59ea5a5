#include "subject.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "program/program.h"

/* A program's list as compiled, and its operands and edges between queues, one after the other. */
typedef struct kept_program {
    ls_instr *instrs;
    int n;
    ls_operand *operands;
    ls_after *after;
} kept_program;

static void *copy_of(const void *data, size_t bytes) {
    void *copy = malloc(bytes + 1);
    memcpy(copy, data, bytes);
    return copy;
}

/*
 * Copies the operands of a list of instructions to `all` (when save) or from it, and returns their number. `all` NULL:
 * only counts.
 */
static size_t move_operands(const ls_instr *instrs, int n, ls_operand *all, bool save) {
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < instrs[i].n_in + instrs[i].n_out; k++, at++) {
            ls_operand *o = k < instrs[i].n_in ? &instrs[i].in[k] : &instrs[i].out[k - instrs[i].n_in];
            if (all == NULL) continue;
            if (save)
                all[at] = *o;
            else
                *o = all[at];
        }
    }
    return at;
}

/* The same for what they come after. */
static size_t move_after(const ls_instr *instrs, int n, ls_after *all, bool save) {
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < instrs[i].n_after; k++, at++) {
            if (all == NULL) continue;
            if (save)
                all[at] = instrs[i].after[k];
            else
                instrs[i].after[k] = all[at];
        }
    }
    return at;
}

void subject_make(subject *s, const image_set *set) {
    const char *strategy = set->image[0]->strategy;
    s->set = *set;
    for (int r = 0; r < s->set.ranks; r++) {
        ls_image *image = s->set.image[r];
        s->programs[r] = calloc((size_t)image->n_programs, sizeof(kept_program));
        for (int p = 0; p < image->n_programs; p++) {
            kept_program *kept = &s->programs[r][p];
            kept->n = image->programs[p].n_instrs;
            kept->instrs = copy_of(image->programs[p].instrs, sizeof(ls_instr) * (size_t)kept->n);
            kept->operands = malloc(sizeof(ls_operand) * move_operands(kept->instrs, kept->n, NULL, true) + 1);
            (void)move_operands(kept->instrs, kept->n, kept->operands, true);
            kept->after = malloc(sizeof(ls_after) * move_after(kept->instrs, kept->n, NULL, true) + 1);
            (void)move_after(kept->instrs, kept->n, kept->after, true);
        }
        s->buffers[r] = copy_of(image->buffers, sizeof(ls_buffer) * (size_t)image->n_buffers);
    }
    const ls_status status = ls_verify(subject_images(s), s->set.ranks);
    if (status.code != LS_OK) fail_msg("%s, unedited: %s", strategy, status.text);
    const ls_status local = ls_verify_local(subject_images(s), s->set.ranks);
    if (local.code != LS_OK) fail_msg("%s, unedited, by the local verifier: %s", strategy, local.text);
    s->interpreter = ls_interpreter_create(subject_images(s), s->set.ranks);
    s->right = ls_interpreter_run(s->interpreter, 0);
    assert_true(ls_interpreter_same(&s->right, &s->right));
}

void subject_restore(subject *s) {
    for (int r = 0; r < s->set.ranks; r++) {
        ls_image *image = s->set.image[r];
        for (int p = 0; p < image->n_programs; p++) {
            const kept_program *kept = &s->programs[r][p];
            image->programs[p].n_instrs = kept->n;
            memcpy(image->programs[p].instrs, kept->instrs, sizeof(ls_instr) * (size_t)kept->n);
            (void)move_operands(kept->instrs, kept->n, kept->operands, false);
            (void)move_after(kept->instrs, kept->n, kept->after, false);
        }
        memcpy(image->buffers, s->buffers[r], sizeof(ls_buffer) * (size_t)image->n_buffers);
    }
}

void subject_free(subject *s) {
    ls_interpreter_destroy(s->interpreter);
    for (int r = 0; r < s->set.ranks; r++) {
        for (int p = 0; p < s->set.image[r]->n_programs; p++) {
            free(s->programs[r][p].instrs);
            free(s->programs[r][p].operands);
            free(s->programs[r][p].after);
        }
        free(s->programs[r]);
        free(s->buffers[r]);
    }
    free_images(&s->set);
}

bool subject_is_wrong(const subject *s, uint64_t first, int seeds, ls_interpreter_result *how, uint64_t *seed) {
    ls_interpreter *in = ls_interpreter_create(subject_images(s), s->set.ranks);
    bool same = true;
    for (int i = 0; i < seeds && same; i++) {
        *seed = first + (uint64_t)i;
        *how = ls_interpreter_run(in, *seed);
        same = ls_interpreter_same(&s->right, how);
    }
    how->reads = NULL;
    ls_interpreter_destroy(in);
    return !same;
}
