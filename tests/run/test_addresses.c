/*
 * Addresses that the two ends of a channel exchange: heaps may be laid out differently, and programs that do
 * not fit together are refused by name.
 */
#include "run/interpret.h"
#include "support/meshes.h"
#include "support/step_digest.h"
#include "support/world.h"
#include "support/worlds.h"

static const ls_image *const *images_of(const image_set *set) { return (const ls_image *const *)set->image; }

static const struct {
    int dp, ring, ulysses;
    const char *strategy;
    int layers;
    bool in_place;
} cases[] = {{1, 2, 1, "ring", 1, false},      {1, 3, 1, "ring", 2, true},    {1, 1, 3, "ulysses", 1, false},
             {1, 1, 2, "ulysses", 1, true},    {1, 2, 2, "usp", 1, true},     {2, 2, 1, "ring", 1, false},
             {1, 3, 1, "tokenring", 1, false}, {1, 2, 1, "decode", 1, false}, {1, 3, 1, "gather", 1, false},
             {1, 3, 1, "burst", 1, false},     {1, 3, 1, "rsa", 1, false},    {1, 3, 1, "rsa", 1, true},
             {1, 8, 1, "ring", 2, false}}; /* the last has more uses of a channel than one note tells */

static image_set images_for(size_t i) {
    return images_of_kind(mesh_of(cases[i].dp, cases[i].ring, cases[i].ulysses), cases[i].strategy, LS_LAYOUT_ZIGZAG,
                          26, cases[i].layers, true, cases[i].in_place);
}

static void test_heaps_need_not_be_alike(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        image_set set = images_for(i);
        uint64_t alike, moved, late;
        print_message("%s%s\n", cases[i].strategy, cases[i].in_place ? " in place" : "");
        assert_ok(step_digest(&set, NULL, &alike));
        ls_interpreter *first = ls_interpreter_create(images_of(&set), set.ranks);
        const ls_interpreter_result right = ls_interpreter_run(first, 0);
        move_heaps(&set);
        assert_ok(ls_verify(images_of(&set), set.ranks));
        assert_ok(ls_verify_local(images_of(&set), set.ranks));
        ls_interpreter *second = ls_interpreter_create(images_of(&set), set.ranks);
        const ls_interpreter_result same = ls_interpreter_run(second, 1);
        assert_true(ls_interpreter_same(&right, &same));
        ls_interpreter_destroy(first);
        ls_interpreter_destroy(second);
        assert_ok(step_digest(&set, NULL, &moved));
        assert_ok(step_digest(&set, "chaos:7", &late));
        if (moved != alike || late != alike) fail_msg("%s: other bits in other heaps", cases[i].strategy);
        free_images(&set);
    }
}

/* --- refused -------------------------------------------------------------------------------------------- */

static ls_instr *first_of(image_set *set, int rank, ls_instr_kind kind) {
    ls_program *p = &set->image[rank]->programs[0];
    for (int i = 0; i < p->n_instrs; i++)
        if (p->instrs[i].kind == kind) return &p->instrs[i];
    fail_msg("no such instruction");
    return NULL;
}

static void receive_less(image_set *set) { first_of(set, 1, LS_INSTR_RECEIVE)->out[0].view.size[1]--; }
static void receive_in_pieces(image_set *set) { first_of(set, 1, LS_INSTR_RECEIVE)->out[0].view.stride[1] *= 2; }
static void receive_another_type(image_set *set) { first_of(set, 1, LS_INSTR_RECEIVE)->out[0].view.dtype = LS_I32; }
static void lease_less(image_set *set) { first_of(set, 1, LS_INSTR_LEASE)->in[0].view.size[1]--; }
static void put_less_often(image_set *set) {
    const ls_instr *last = first_of(set, 0, LS_INSTR_PUT);
    set->image[0]->programs[0].channels[last->channel].uses[LS_SIDE_SENDS]--;
}
static void receive_nothing(image_set *set) { first_of(set, 1, LS_INSTR_RECEIVE)->generation = 99; }

static const struct {
    const char *name;
    bool in_place;
    void (*edit)(image_set *set);
    const char *says[3];
} refusals[] = {
    {"fewer bytes", false, receive_less, {"channel \"ring.", "rank 1 receives", "rank 0 puts"}},
    {"other pieces", false, receive_in_pieces, {"channel \"ring.", "pieces", "rank 0 puts"}},
    {"another type", false, receive_another_type, {"use 1", "of i32", "of f32"}},
    {"a smaller block", true, lease_less, {"channel \"ring.", "rank 1 leases", "rank 0 borrows"}},
    {"fewer uses", false, put_less_often, {"channel \"ring.", "rank 1 has", "rank 0 has"}},
    {"one end only", false, receive_nothing, {"channel \"ring.", "use 1", "rank 1 lacks an end"}},
};

static void test_differences_are_named(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(refusals); i++) {
        image_set set = images_of_kind(mesh_of(1, 2, 1), "ring", LS_LAYOUT_ZIGZAG, 26, 2, false, refusals[i].in_place);
        refusals[i].edit(&set);
        uint64_t digest;
        const ls_status status = step_digest(&set, NULL, &digest);
        print_message("%s: %s\n", refusals[i].name, status.text);
        for (size_t k = 0; k < LS_COUNT(refusals[i].says); k++) assert_fails(status, LS_INVALID, refusals[i].says[k]);
        free_images(&set);
    }
}

static ls_status create_executor(ls_comm *comm, void *context) {
    const image_set *set = context;
    ls_executor *executor;
    LS_TRY(ls_executor_create(set->image[ls_comm_rank(comm)], comm, &executor));
    ls_executor_destroy(executor);
    return ls_ok();
}

static void test_a_heap_of_the_world_is_too_small(void **state) {
    (void)state;
    image_set set = images_of_kind(mesh_of(1, 2, 1), "ring", LS_LAYOUT_ZIGZAG, 26, 2, false, false);
    ls_world *world;
    assert_ok(world_of_images(set.image, set.ranks, NULL, 20, &world));
    set.image[1]->bytes[LS_SYMMETRIC] += 1 << 20;
    const ls_status status = ls_launch(world, set.ranks, true, create_executor, &set);
    assert_fails(status, LS_INVALID, "rank 1");
    assert_fails(status, LS_INVALID, "need a heap");
    assert_fails(status, LS_INVALID, "the world's");
    ls_world_destroy(world);
    free_images(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heaps_need_not_be_alike),
        cmocka_unit_test(test_differences_are_named),
        cmocka_unit_test(test_a_heap_of_the_world_is_too_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
