/* The executor runs programs in an order of the phase table, and names the two programs of any other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "run/run.h"
#include "support/images.h"
#include "support/meshes.h"
#include "support/worlds.h"

static ls_status run(ls_executor *ex, const char *name) {
    return ls_executor_run(ex, ls_program_find(ls_executor_image(ex), name));
}

static ls_status rank_main(ls_comm *comm, void *context) {
    const image_set *set = context;
    ls_executor *ex;
    LS_TRY(ls_executor_create(set->image[0], comm, &ex));
    static const struct {
        const char *name, *refused; /* NULL: it may run */
    } runs[] = {{"micro", NULL},
                {"micro", NULL},
                {"evaluate", "program \"evaluate\" may not run after \"micro\": the phase table does not have it"},
                {"step", NULL},
                {"evaluate", NULL},
                {"micro", NULL},
                {"step", NULL}};
    ls_status status = ls_ok();
    for (size_t i = 0; i < LS_COUNT(runs) && status.code == LS_OK; i++) {
        status = run(ex, runs[i].name);
        if (runs[i].refused == NULL) continue;
        status = status.code == LS_INVALID && strcmp(status.text, runs[i].refused) == 0
                     ? ls_ok()
                     : ls_error(LS_INVALID, "%s: \"%s\"", runs[i].name, status.text);
    }
    ls_executor_destroy(ex);
    return status;
}

static void only_orders_of_the_table_run(void **state) {
    (void)state;
    image_set set = images_of_network(mesh_of(1, 1, 1), "local", LS_LAYOUT_CONTIGUOUS, 13, 1);
    ls_world *world;
    ls_status status = world_of_images(set.image, set.ranks, NULL, 20, &world);
    assert_int_equal(status.code, LS_OK);
    status = ls_launch(world, 1, true, rank_main, &set);
    if (status.code != LS_OK) fail_msg("%s", status.text);
    ls_world_destroy(world);
    free_images(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(only_orders_of_the_table_run)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
