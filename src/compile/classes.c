/* Classes: ranks whose programs are the same share an image, and are proved once. */
#include "compile/compile.h"

#include <stdlib.h>

/*
 * A class is an index along the sequence: ranks that differ only along dp hold the same positions of different
 * sequences, and programs name peers by a team and a distance in it. Where an offset differs (a rank's own part of the
 * parameters), the operand computes it from the rank's place in a team. Because dp is the outermost axis, rank c is the
 * first rank of class c.
 */
int ls_class_count(const ls_mesh *mesh) { return ls_mesh_sequence_ranks(mesh); }

int ls_class_of(const ls_mesh *mesh, int rank) { return ls_mesh_sequence_index(mesh, rank); }

static ls_status compile_class(const ls_job *job, const ls_target *target, int class, ls_image **out) {
    ls_target first = *target; /* the first rank of the class */
    first.rank = class;
    return ls_compile(job, &first, out);
}

/* --- images that are held ----------------------------------------------------------------------------------------- */

ls_status ls_compile_class_of(const ls_job *job, const ls_target *target, int rank, ls_images *images) {
    if (images->of_class == NULL) {
        const int classes = ls_class_count(&target->mesh);
        ls_image **of_class = calloc((size_t)classes, sizeof *of_class);
        if (of_class == NULL)
            return ls_error(LS_NO_MEMORY, "no memory for the programs of %d classes of ranks", classes);
        images->mesh = target->mesh;
        images->classes = classes;
        images->of_class = of_class;
    }
    const int class = ls_class_of(&images->mesh, rank);
    if (images->of_class[class] != NULL) return ls_ok();
    return compile_class(job, target, class, &images->of_class[class]);
}

ls_status ls_compile_classes(const ls_job *job, const ls_target *target, ls_images *images) {
    for (int c = 0; c < ls_class_count(&target->mesh); c++) LS_TRY(ls_compile_class_of(job, target, c, images));
    return ls_ok();
}

const ls_image *ls_images_of(const ls_images *images, int rank) {
    return images->of_class[ls_class_of(&images->mesh, rank)];
}

void ls_images_destroy(ls_images *images) {
    for (int c = 0; c < images->classes; c++) ls_image_destroy(images->of_class[c]);
    free(images->of_class);
    *images = (ls_images){0};
}

/* --- images that are let go --------------------------------------------------------------------------------------- */

static ls_status prove_classes(const ls_job *job, const ls_target *target, ls_arena *arena, ls_class_visit visit,
                               void *context, ls_image **first) {
    const int ranks = ls_mesh_ranks(&target->mesh), classes = ls_class_count(&target->mesh);
    ls_class_proof **proofs = LS_NEW_ARRAY(arena, ls_class_proof *, classes);
    int *class_of = LS_NEW_ARRAY(arena, int, ranks);
    for (int r = 0; r < ranks; r++) class_of[r] = ls_class_of(&target->mesh, r);
    for (int c = 0; c < classes; c++) {
        ls_image *image;
        LS_TRY(compile_class(job, target, c, &image));
        const ls_status status = ls_prove_class(image, c, arena, &proofs[c]);
        visit(context, c, image);
        if (c == 0)
            *first = image;
        else
            ls_image_destroy(image);
        LS_TRY(status);
    }
    return ls_prove_between((const ls_class_proof *const *)proofs, classes, class_of, ranks);
}

ls_status ls_compile_proved(const ls_job *job, const ls_target *target, ls_class_visit visit, void *context,
                            ls_image **out) {
    ls_arena *arena = ls_arena_create();
    ls_image *first = NULL;
    const ls_status status = prove_classes(job, target, arena, visit, context, &first);
    ls_arena_destroy(arena);
    if (status.code == LS_OK)
        *out = first;
    else
        ls_image_destroy(first);
    return status;
}
