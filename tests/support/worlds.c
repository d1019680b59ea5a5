#include "support/worlds.h"

#include <stdlib.h>

ls_status world_of_images(ls_image *const *images, int ranks, const char *transports, double timeout, ls_world **out) {
    LS_ASSERT(ranks > 0);
    ls_rank_needs *needs = malloc((size_t)ranks * sizeof *needs);
    for (int r = 0; r < ranks; r++) needs[r] = ls_needs_of(images[r]);
    const ls_status status = ls_world_for(images[0], needs, transports, false, timeout, out);
    free(needs);
    return status;
}

ls_status world_of_job(const ls_job *job, const ls_target *target, const char *transports, double timeout,
                       ls_world **out) {
    const int ranks = ls_mesh_ranks(&target->mesh);
    ls_images images = {.of_class = NULL};
    ls_image **of_rank = malloc((size_t)ranks * sizeof *of_rank);
    ls_status status = ls_compile_classes(job, target, &images);
    if (status.code == LS_OK) {
        for (int r = 0; r < ranks; r++) of_rank[r] = images.of_class[ls_class_of(&images.classes, r)];
        status = world_of_images(of_rank, ranks, transports, timeout, out);
    }
    ls_images_destroy(&images);
    free(of_rank);
    return status;
}
