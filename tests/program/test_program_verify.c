/*
 * The verifier accepts the programs of every strategy, and rejects broken ones with a message that names the place.
 * The edits here are single and aimed; it must find each.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "program/program.h"
#include "support/images.h"
#include "support/meshes.h"

static ls_status verify(const image_set *set) { return ls_verify((const ls_image *const *)set->image, set->ranks); }

static void test_accepts(void **state) {
    (void)state;
    static const struct {
        int dp, ring, ulysses;
        const char *strategy;
    } meshes[] = {{1, 1, 1, "local"}, {1, 2, 1, "ring"},    {1, 3, 1, "ring"},    {1, 8, 1, "ring"},
                  {1, 16, 1, "ring"}, {1, 1, 2, "ulysses"}, {1, 1, 4, "ulysses"}, {1, 2, 2, "usp"},
                  {1, 4, 4, "usp"},   {2, 2, 2, "usp"},     {2, 2, 1, "ring"},    {4, 1, 1, "local"}};
    for (size_t k = 0; k < 2 * LS_COUNT(meshes); k++) {
        const size_t i = k / 2;
        image_set set = (k % 2 == 0 ? images_of_network : images_in_place)(
            mesh_of(meshes[i].dp, meshes[i].ring, meshes[i].ulysses), meshes[i].strategy, LS_LAYOUT_ZIGZAG, 37, 2);
        const ls_status status = verify(&set);
        if (status.code != LS_OK)
            fail_msg("%s %d×%d: %s", meshes[i].strategy, meshes[i].ulysses, meshes[i].ring, status.text);
        free_images(&set);
    }
}

/* The nth instruction of a kind in program micro of a rank. */
static ls_instr *nth(image_set *set, int rank, ls_instr_kind kind, int n) {
    ls_program *p = &set->image[rank]->programs[ls_program_find(set->image[rank], LS_PROGRAM_MICRO)];
    for (int i = 0; i < p->n_instrs; i++) {
        if (p->instrs[i].kind == kind && n-- == 0) return &p->instrs[i];
    }
    return NULL;
}

static void drop_nth(image_set *set, int rank, ls_instr_kind kind, int n) {
    ls_program *p = &set->image[rank]->programs[ls_program_find(set->image[rank], LS_PROGRAM_MICRO)];
    drop_instr(p, (int)(nth(set, rank, kind, n) - p->instrs));
}

static void drop_wait(image_set *set) { drop_nth(set, 1, LS_INSTR_ACQUIRE, 0); }
static void drop_signal(image_set *set) { drop_nth(set, 1, LS_INSTR_GRANT, 1); }
static void drop_put(image_set *set) { drop_nth(set, 0, LS_INSTR_PUT, 0); }
static void wrong_peer(image_set *set) { nth(set, 0, LS_INSTR_PUT, 0)->peer = (ls_peer){0}; }
static void wrong_generation(image_set *set) { nth(set, 1, LS_INSTR_GRANT, 0)->generation++; }
static void forget_order(image_set *set) {
    ls_program *p = &set->image[1]->programs[ls_program_find(set->image[1], LS_PROGRAM_MICRO)];
    for (int i = 0; i < p->n_instrs; i++) {
        if (p->instrs[i].kind == LS_INSTR_KERNEL && p->instrs[i].n_after > 0) {
            p->instrs[i].n_after = 0;
            return;
        }
    }
    fail_msg("no kernel waits for another queue");
}
/* The first thing that an instruction of rank 1 comes after: a put that is done. */
static ls_instr *first_after_put(image_set *set, int *k) {
    ls_program *p = &set->image[1]->programs[ls_program_find(set->image[1], LS_PROGRAM_MICRO)];
    for (int i = 0; i < p->n_instrs; i++) {
        for (*k = 0; *k < p->instrs[i].n_after; ++*k) {
            if (p->instrs[i].after[*k].done) return &p->instrs[i];
        }
    }
    fail_msg("nothing comes after a put");
    return NULL;
}
static void forget_put(image_set *set) {
    int k;
    ls_instr *instr = first_after_put(set, &k);
    set_after(instr, k, -1);
}
static void overwrite_when_executed(image_set *set) {
    int k;
    first_after_put(set, &k)->after[k].done = false;
}
static void shift_slot(image_set *set) { nth(set, 1, LS_INSTR_RECEIVE, 1)->out[0].offset += 64; }
static void early_reuse(image_set *set) {
    /* Two buffers that live at the same time, placed on each other. */
    for (int i = 0; i < set->image[0]->n_buffers; i++) {
        ls_buffer *a = &set->image[0]->buffers[i];
        if (a->kind != LS_BUFFER_SLOT) continue;
        for (int j = i + 1; j < set->image[0]->n_buffers; j++) {
            ls_buffer *b = &set->image[0]->buffers[j];
            if (b->kind != LS_BUFFER_SLOT || b->program != a->program || a->last < b->first || b->last < a->first)
                continue;
            for (int r = 0; r < set->ranks; r++) set->image[r]->buffers[j].offset = set->image[r]->buffers[i].offset;
            return;
        }
    }
    fail_msg("no two slots are live together");
}

/* The nth kernel of rank 0 that reads another rank's bytes, and that operand. */
static ls_instr *reader(image_set *set, int n, ls_operand **block) {
    ls_program *p = &set->image[0]->programs[ls_program_find(set->image[0], LS_PROGRAM_MICRO)];
    for (int i = 0; i < p->n_instrs; i++) {
        ls_instr *instr = &p->instrs[i];
        if (instr->kind != LS_INSTR_KERNEL) continue;
        for (int k = 0; k < instr->n_in; k++) {
            if (instr->in[k].buffer < 0 || ls_peer_is_self(instr->in[k].peer) || n-- > 0) continue;
            *block = &instr->in[k];
            return instr;
        }
    }
    fail_msg("nothing is read in place");
    return NULL;
}

static ls_operand *block_read(image_set *set) {
    ls_operand *block;
    (void)reader(set, 0, &block);
    return block;
}

static void read_another_rank(image_set *set) { block_read(set)->peer.shift = 3 - block_read(set)->peer.shift; }
static void read_further_on(image_set *set) { block_read(set)->offset += 16; }
static void read_private(image_set *set) {
    ls_operand *block = block_read(set);
    while (set->image[0]->buffers[block->buffer].space == LS_SYMMETRIC) block->buffer++;
}
static void read_at_once(image_set *set) { /* without the order after the wait on the other queue */
    ls_program *p = &set->image[0]->programs[ls_program_find(set->image[0], LS_PROGRAM_MICRO)];
    ls_operand *block;
    for (const ls_instr *instr = reader(set, 0, &block); instr >= p->instrs; instr--)
        p->instrs[instr - p->instrs].n_after = 0;
}
static void lease_other_bytes(image_set *set) { nth(set, 0, LS_INSTR_LEASE, 0)->in[0].offset += 16; }
static void lease_nothing(image_set *set) { drop_nth(set, 0, LS_INSTR_LEASE, 0); }
static void borrow_another_rank(image_set *set) {
    ls_operand *block = &nth(set, 0, LS_INSTR_BORROW, 0)->out[0];
    block->peer.shift = block->peer.shift % 3 + 1;
}
static void reclaim_for_acquire(image_set *set) { /* a word that is granted is awaited as if it were returned */
    ls_instr *acquire = nth(set, 1, LS_INSTR_ACQUIRE, 0);
    acquire->kind = LS_INSTR_RECLAIM;
    acquire->n_in = 1;
    acquire->in = nth(set, 1, LS_INSTR_RECEIVE, 0)->out;
}
/*
 * A part of a gradient in whose place its owner makes the part after next. The owner waits for keys and values, so only
 * the later part shows.
 */
static void give_back_too_early(image_set *set) {
    ls_program *p = &set->image[0]->programs[ls_program_find(set->image[0], LS_PROGRAM_MICRO)];
    for (int i = 0; i + 1 < p->n_instrs; i++) {
        ls_instr *read = &p->instrs[i], *back = read + 1;
        if (strcmp(read->op, "accumulate") != 0 || ls_peer_is_self(read->in[0].peer)) continue;
        if (strncmp(p->channels[back->channel].name, "ring.dv", 7) != 0) continue;
        const ls_instr first = *read;
        *read = *back;
        *back = first;
        return;
    }
    fail_msg("no part is read in place");
}
static void never_reclaim(image_set *set) { drop_nth(set, 0, LS_INSTR_RECLAIM, 0); }
/* The owner writes where others still read: a kernel's result is placed on the block. */
static void overwrite_leased(image_set *set) {
    ls_program *p = &set->image[0]->programs[ls_program_find(set->image[0], LS_PROGRAM_MICRO)];
    const ls_instr *leases = nth(set, 0, LS_INSTR_LEASE, 0);
    for (ls_instr *instr = &p->instrs[leases - p->instrs]; instr < p->instrs + p->n_instrs; instr++) {
        if (instr->kind != LS_INSTR_KERNEL) continue;
        instr->out[0].buffer = leases->in[0].buffer;
        instr->out[0].offset = 0;
        instr->out[0].view = leases->in[0].view;
        return;
    }
}

/* A kernel reads a buffer that is written later; the name says that nothing is there. */
static void read_the_unwritten(image_set *set) {
    const ls_image *image = set->image[0];
    const ls_program *p = &image->programs[ls_program_find(image, LS_PROGRAM_MICRO)];
    for (int i = 0; i < p->n_instrs; i++) {
        ls_operand *o = p->instrs[i].in;
        if (p->instrs[i].kind != LS_INSTR_KERNEL || image->buffers[o->buffer].program < 0) continue;
        for (int b = 0; b < image->n_buffers; b++) {
            const ls_buffer *later = &image->buffers[b];
            if (later->program != p - image->programs || later->first <= i || later->space != LS_PRIVATE ||
                later->bytes < o->offset + ls_view_bytes(&o->view))
                continue;
            o->buffer = b;
            o->value = ls_name_begin(&o->view);
            return;
        }
    }
    fail_msg("no buffer is written later");
}

/* An edit that the verifier must find, in programs that send blocks or read them in place, and words of the message. */
typedef struct broken {
    const char *name;
    image_set (*images)(ls_mesh mesh, const char *strategy, ls_layout_kind layout, int64_t S, int layers);
    void (*edit)(image_set *set);
    const char *says;
} broken;

static const broken edits[] = {
    {"a wait dropped", images_of_network, drop_wait, "rejected"},
    {"a slot-free signal dropped", images_of_network, drop_signal, "rejected"},
    {"a put dropped", images_of_network, drop_put, "rejected"},
    {"a put to the wrong rank", images_of_network, wrong_peer, "rejected"},
    {"a generation skipped", images_of_network, wrong_generation, "do not rise by one"},
    {"a queue that does not wait for the other", images_of_network, forget_order, "not ordered"},
    {"a grant awaited as a return", images_of_network, reclaim_for_acquire, "another kind of instruction"},
    {"a put of which nobody asks whether it is done", images_of_network, forget_put, "not ordered"},
    {"a source overwritten when its put has begun", images_of_network, overwrite_when_executed, "not ordered"},
    {"a receiver that says 64 bytes on", images_of_network, shift_slot, "rejected"},
    {"a read of what nobody has written", images_of_network, read_the_unwritten, "nothing has written there"},
    {"two slots in one place", images_of_network, early_reuse, "not ordered"},
    {"another rank's block", images_in_place, read_another_rank, "rejected"},
    {"a block 16 bytes on", images_in_place, read_further_on, "rejected"},
    {"private memory of another rank", images_in_place, read_private, "private memory of another rank"},
    {"a read without waiting", images_in_place, read_at_once, "rejected"},
    {"other bytes leased", images_in_place, lease_other_bytes, "rejected"},
    {"another rank's block borrowed", images_in_place, borrow_another_rank, "not its peer's"},
    {"nothing leased", images_in_place, lease_nothing, "rejected"},
    {"a block given back before it is read", images_in_place, give_back_too_early, "rejected"},
    {"an owner that never asks", images_in_place, never_reclaim, "may not have been awaited"},
    {"an owner that overwrites", images_in_place, overwrite_leased, "rejected"},
};

static void test_rejects(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(edits); i++) {
        image_set set = edits[i].images(mesh_of(1, 4, 1), "ring", LS_LAYOUT_ZIGZAG, 37, 2);
        edits[i].edit(&set);
        const ls_status status = verify(&set);
        print_message("%s: %s\n", edits[i].name, status.text);
        if (status.code == LS_OK) fail_msg("%s was not noticed", edits[i].name);
        assert_non_null(strstr(status.text, edits[i].says));
        assert_int_equal(ls_verify_local((const ls_image *const *)set.image, set.ranks).code, LS_INVALID);
        free_images(&set);
    }
}

/*
 * Another number of programs, another table, or a row without its program on one rank: refused with words, by both
 * verifiers.
 */
static void drop_program(ls_image *image) { image->n_programs--; }
static void drop_row(ls_image *image) { image->n_phases--; }
static void drop_program_and_rows(ls_image *image) {
    image->n_programs--;
    image->n_phases = 1;
}

static void test_ranks_run_the_same_programs(void **state) {
    (void)state;
    static void (*const drop[])(ls_image * image) = {drop_program, drop_row, drop_program_and_rows};
    for (size_t i = 0; i < LS_COUNT(drop); i++) {
        image_set set = images_of_network(mesh_of(1, 2, 1), "ring", LS_LAYOUT_ZIGZAG, 37, 1);
        drop[i](set.image[1]);
        const ls_status play = verify(&set), local = ls_verify_local((const ls_image *const *)set.image, set.ranks);
        print_message("%s\n%s\n", play.text, local.text);
        assert_int_equal(play.code, LS_INVALID);
        assert_int_equal(local.code, LS_INVALID);
        free_images(&set);
    }
}

/* Epochs on which both ends of every channel agree, on all ranks, but which do not rise along the lists. */
static ls_epoch fall(ls_epoch e) { return (ls_epoch){e.slot, 1000 - e.node, e.step}; }
static ls_epoch stand(ls_epoch e) { return (ls_epoch){.slot = e.slot}; }
static ls_epoch fall_in_a_node(ls_epoch e) { return (ls_epoch){e.slot, e.node, 1000 - e.step}; }

static void test_epochs_rise(void **state) {
    (void)state;
    static ls_epoch (*const orders[])(ls_epoch) = {fall, stand, fall_in_a_node};
    for (size_t e = 0; e < LS_COUNT(orders); e++) {
        image_set set = images_of_network(mesh_of(1, 3, 1), "ring", LS_LAYOUT_ZIGZAG, 37, 2);
        assert_int_equal(ls_verify_local((const ls_image *const *)set.image, set.ranks).code, LS_OK);
        for (int r = 0; r < set.ranks; r++) {
            for (int p = 0; p < set.image[r]->n_programs; p++) {
                ls_program *program = &set.image[r]->programs[p];
                for (int i = 0; i < program->n_instrs; i++)
                    program->instrs[i].epoch = orders[e](program->instrs[i].epoch);
            }
        }
        const ls_status local = ls_verify_local((const ls_image *const *)set.image, set.ranks);
        print_message("%s\n", local.text);
        assert_int_equal(local.code, LS_INVALID);
        assert_non_null(strstr(local.text, "after an await of no earlier epoch"));
        free_images(&set);
    }
}

static void test_frames_agree(void **state) {
    (void)state;
    image_set set = images_of_network(mesh_of(2, 2, 2), "usp", LS_LAYOUT_ZIGZAG, 37, 2);
    for (int r = 1; r < set.ranks; r++) assert_true(ls_image_frame(set.image[r]) == ls_image_frame(set.image[0]));
    free_images(&set);
}

static void test_placement_is_tight(void **state) {
    (void)state;
    image_set set = images_of_network(mesh_of(1, 2, 1), "ring", LS_LAYOUT_ZIGZAG, 256, 4);
    for (int s = 0; s < LS_SPACES; s++) {
        const size_t bytes = set.image[0]->bytes[s], least = set.image[0]->least[s];
        print_message("arena %d: %zu bytes placed, %zu is the lower bound\n", s, bytes, least);
        assert_true((double)bytes <= 1.03 * (double)least);
    }
    free_images(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepts),
        cmocka_unit_test(test_rejects),
        cmocka_unit_test(test_ranks_run_the_same_programs),
        cmocka_unit_test(test_epochs_rise),
        cmocka_unit_test(test_frames_agree),
        cmocka_unit_test(test_placement_is_tight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
