/* A rank that only an unfinished put holds up sleeps until the deadline, and names the put. */
#include "comm/comm_impl.h"
#include "run/run.h"
#include "support/images.h"
#include "support/meshes.h"
#include "support/world.h"
#include "support/worlds.h"

static bool never_done(void *state, uint64_t ticket) {
    (void)state, (void)ticket;
    return false;
}

static ls_status run_micro(ls_comm *comm, void *context) {
    const image_set *set = context;
    ls_executor *ex;
    LS_TRY(ls_executor_create(set->image[ls_comm_rank(comm)], comm, &ex));
    ls_status status = ls_comm_barrier(comm);
    if (status.code == LS_OK) status = ls_executor_run(ex, ls_program_find(set->image[0], LS_PROGRAM_MICRO));
    ls_executor_destroy(ex);
    return status;
}

static void test_the_deadline_names_it(void **state) {
    (void)state;
    image_set set = images_of_network(mesh_of(1, 2, 1), "ring", LS_LAYOUT_ZIGZAG, 13, 1);
    for (int stuck = 0; stuck < 2; stuck++) {
        ls_transport transport = ls_transport_shm;
        ls_world *world;
        assert_ok(world_of_images(set.image, set.ranks, NULL, stuck ? 0.3 : 30, &world));
        if (stuck) transport.done = never_done;
        world->selection.transports[0] = &transport;
        const ls_status status = ls_launch(world, set.ranks, true, run_micro, &set);
        if (stuck)
            assert_fails(status, LS_PEER, "not done)");
        else
            assert_ok(status);
        ls_world_destroy(world);
    }
    free_images(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_deadline_names_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
