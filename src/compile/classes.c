/* Classes: ranks whose programs are the same share an image. */
#include "compile/compile.h"

#include <stdlib.h>

/*
 * A class is an index along the sequence: ranks that differ only along dp hold the same positions of different sequences, and programs name
 * peers by their number within a team. Where an offset differs (a rank's own part of the parameters), the operand computes it from that number.
 * Because dp is the outermost axis, rank c is the first rank of class c.
 */
int ls_class_count(const ls_mesh *mesh) { return ls_mesh_sequence_ranks(mesh); }

int ls_class_of(const ls_mesh *mesh, int rank) { return ls_mesh_sequence_index(mesh, rank); }

ls_status ls_compile_classes(const ls_job *job, const ls_target *target, ls_images *out) {
    ls_images images = {.mesh = target->mesh, .classes = ls_class_count(&target->mesh)};
    images.of_class = calloc((size_t)images.classes, sizeof *images.of_class);
    if (images.of_class == NULL)
        return ls_error(LS_NO_MEMORY, "no memory for the programs of %d classes of ranks", images.classes);
    ls_status status = ls_ok();
    for (int c = 0; c < images.classes && status.code == LS_OK; c++) {
        ls_target first = *target; /* the first rank of the class */
        first.rank = c;
        status = ls_compile(job, &first, &images.of_class[c]);
    }
    if (status.code == LS_OK)
        *out = images;
    else
        ls_images_destroy(&images);
    return status;
}

const ls_image *ls_images_of(const ls_images *images, int rank) {
    return images->of_class[ls_class_of(&images->mesh, rank)];
}

void ls_images_destroy(ls_images *images) {
    for (int c = 0; c < images->classes; c++) ls_image_destroy(images->of_class[c]);
    free(images->of_class);
    *images = (ls_images){0};
}
