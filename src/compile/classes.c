/* Classes: ranks with identical programs share an image, which is proved once. */
#include "compile/compile_impl.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* --- which ranks are in one class --------------------------------------------------------------------------------- */

/* Whether ranks along these axes all have equally large parts of a tensor that is placed so. */
static bool are_even(const ls_mesh *mesh, ls_axes axes, const ls_dim_units *units, const ls_placements *placed) {
    bool even = true;
    for (int d = 0; d < LS_MAX_DIMS; d++) {
        const int parts = placed->cut[d] & axes ? ls_mesh_size(mesh, placed->cut[d]) : 1;
        for (int s = 0; s < units[d].n; s++) even &= units[d].segment[s].units % parts == 0;
    }
    return even;
}

/*
 * Whether ranks along axes of heads and features (tp) all have equally large parts of every tensor, as it is made and
 * as each node needs it: of a partial sum, the ranks may need parts of the tokens.
 */
static bool has_even_parts(const ls_graph *g, const ls_mesh *mesh, const ls_sharding *sharding) {
    const ls_axes features = ls_mesh_axes(mesh, LS_AXIS_FEATURE);
    bool even = true;
    for (int t = 1; t < g->n_tensors && features != 0; t++)
        even &= are_even(mesh, features, &sharding->units[t * LS_MAX_DIMS], &sharding->tensor[t]);
    for (int n = 0; n < g->n_nodes && features != 0; n++)
        for (int i = 0; i < g->nodes[n].n_in; i++)
            even &= are_even(mesh, features, &sharding->units[g->nodes[n].in[i].id * LS_MAX_DIMS],
                             &sharding->wanted[n * LS_NODE_INPUTS + i]);
    return even;
}

/*
 * Which ranks are in one class: whether ranks of a block, replicas, and ranks along tp differ in more than their place.
 */
static ls_status compare(const ls_job *job, const ls_target *target, ls_arena *arena, ls_classes *out) {
    const ls_mesh *mesh = &target->mesh;
    const ls_axes heads = ls_mesh_head_axes(mesh);
    ls_layout layout;
    ls_job compiled;
    ls_sharding sharding;
    LS_TRY(ls_graph_status(job->graph));
    LS_TRY(ls_compile_layout(job, target, arena, &layout));
    LS_TRY(ls_spread_job(job, target, arena, &compiled, &sharding));
    const ls_graph *g = compiled.graph;
    bool alike = ls_layout_is_even(&layout) && !ls_is_redistributed(g, &sharding, ls_mesh_shard_axes(mesh));
    for (int n = 0; n < g->n_nodes; n++) {
        const ls_lowering *lowering = ls_lowering_of(g->nodes[n].op);
        const ls_axes by_lowering =
            lowering->tells_apart == NULL ? 0 : lowering->tells_apart(g, &g->nodes[n], mesh, &sharding);
        alike &= ((sharding.first_only[n] | by_lowering) & heads) == 0;
        out->apart |= (sharding.first_only[n] & ls_mesh_axes(mesh, LS_AXIS_BATCH)) != 0 ||
                      (by_lowering & ls_mesh_axes(mesh, LS_AXIS_FEATURE)) != 0;
    }
    out->apart |= !has_even_parts(g, mesh, &sharding);
    if (alike && !out->apart) out->members = ls_mesh_size(mesh, heads);
    return ls_ok();
}

static int classes_of_stage(const ls_classes *classes) {
    return ls_mesh_sequence_ranks(&classes->mesh) / classes->members;
}

/*
 * Programs name peers by a team and a distance in the team. If an offset differs between ranks (a rank's own part of
 * the parameters, its heads), the operand computes it from the rank's place in a team. Replicas hold the same positions
 * of different sequences. Ranks along tp hold the same positions, with different parts of the parameters. The ranks of
 * a block hold different positions, but attend to the positions of the whole block.
 */
ls_status ls_classes_find(const ls_job *job, const ls_target *target, ls_classes *out) {
    ls_classes found = {.mesh = target->mesh, .members = 1};
    if (ls_mesh_ranks(&target->mesh) > 1) {
        ls_arena *arena = ls_arena_create();
        const ls_status status = compare(job, target, arena, &found);
        ls_arena_destroy(arena);
        LS_TRY(status);
    }
    found.n = found.apart ? ls_mesh_ranks(&found.mesh) : ls_mesh_stages(&found.mesh) * classes_of_stage(&found);
    *out = found;
    return ls_ok();
}

int ls_class_of(const ls_classes *classes, int rank) {
    if (classes->apart) return rank;
    return ls_mesh_stage(&classes->mesh, rank) * classes_of_stage(classes) +
           ls_mesh_sequence_index(&classes->mesh, rank) / classes->members;
}

int ls_class_first(const ls_classes *classes, int class) {
    if (classes->apart) return class;
    const ls_team stages = ls_mesh_team(&classes->mesh, ls_mesh_axes(&classes->mesh, LS_AXIS_STAGE));
    const int of_stage = classes_of_stage(classes);
    return ls_team_member(&stages, ls_mesh_sequence_rank(&classes->mesh, class % of_stage * classes->members),
                          class / of_stage);
}

static ls_status compile_class(const ls_job *job, const ls_target *target, const ls_classes *classes, int class,
                               ls_image **out) {
    ls_target first = *target;
    first.rank = ls_class_first(classes, class);
    return ls_compile(job, &first, out);
}

/* --- images that are kept ----------------------------------------------------------------------------------------- */

ls_status ls_compile_class_of(const ls_job *job, const ls_target *target, int rank, ls_images *images) {
    if (images->of_class == NULL) {
        LS_TRY(ls_classes_find(job, target, &images->classes));
        images->of_class = calloc((size_t)images->classes.n, sizeof(ls_image *));
        if (images->of_class == NULL)
            return ls_error(LS_NO_MEMORY, "no memory for the programs of %d classes of ranks", images->classes.n);
    }
    const int class = ls_class_of(&images->classes, rank);
    if (images->of_class[class] != NULL) return ls_ok();
    return compile_class(job, target, &images->classes, class, &images->of_class[class]);
}

ls_status ls_compile_classes(const ls_job *job, const ls_target *target, ls_images *images) {
    for (int rank = 0; rank < ls_mesh_ranks(&target->mesh); rank++)
        LS_TRY(ls_compile_class_of(job, target, rank, images));
    return ls_ok();
}

const ls_image *ls_images_of(const ls_images *images, int rank) {
    return images->of_class[ls_class_of(&images->classes, rank)];
}

void ls_images_destroy(ls_images *images) {
    for (int c = 0; c < images->classes.n && images->of_class != NULL; c++) ls_image_destroy(images->of_class[c]);
    free(images->of_class);
    *images = (ls_images){0};
}

/* --- images that are freed after the proof ------------------------------------------------------------------------ */

/* Lists the class of each rank. */
static int *list_classes(const ls_classes *classes, ls_arena *arena) {
    const int ranks = ls_mesh_ranks(&classes->mesh);
    int *class_of = LS_NEW_ARRAY(arena, int, ranks);
    for (int r = 0; r < ranks; r++) class_of[r] = ls_class_of(classes, r);
    return class_of;
}

/* The most images that are compiled at once on a machine with many cores; each takes working memory of the compiler. */
enum { MOST_AT_ONCE = 8 };

/* All classes; each is compiled and proved by some thread. */
typedef struct class_proofs {
    const ls_job *job;
    const ls_target *target;
    ls_classes classes;
    ls_class_visit visit;
    void *context;
    pthread_mutex_t visiting;
    struct class_proved {
        ls_arena *arena; /* holds the proof */
        ls_class_proof *proof;
        ls_status status;
    } * of_class;    /* [classes] */
    ls_image *first; /* of class 0 */
    _Atomic bool failed;
} class_proofs;

/* An ls_pool_task. Classes after one that failed are skipped; those before it have already begun. */
static void prove_one(void *context, int class, int thread) {
    (void)thread;
    class_proofs *all = context;
    struct class_proved *mine = &all->of_class[class];
    ls_image *image;
    if (atomic_load(&all->failed)) return;
    mine->arena = ls_arena_create();
    mine->status = compile_class(all->job, all->target, &all->classes, class, &image);
    if (mine->status.code == LS_OK) {
        mine->status = ls_prove_class(image, ls_class_first(&all->classes, class), mine->arena, &mine->proof);
        pthread_mutex_lock(&all->visiting);
        all->visit(all->context, class, image);
        pthread_mutex_unlock(&all->visiting);
        if (class == 0)
            all->first = image;
        else
            ls_image_destroy(image);
    }
    if (mine->status.code != LS_OK) atomic_store(&all->failed, true);
}

/* The error of the first class that failed; else compares the proofs of all classes. */
static ls_status prove_between(const class_proofs *all) {
    ls_arena *arena = ls_arena_create();
    const int n = all->classes.n;
    const ls_class_proof **proofs = LS_NEW_ARRAY(arena, const ls_class_proof *, n);
    ls_status status = ls_ok();
    for (int c = 0; c < n; c++) {
        if (status.code == LS_OK) status = all->of_class[c].status;
        proofs[c] = all->of_class[c].proof;
    }
    if (status.code == LS_OK)
        status = ls_prove_between(proofs, n, list_classes(&all->classes, arena), ls_mesh_ranks(&all->classes.mesh));
    ls_arena_destroy(arena);
    return status;
}

ls_status ls_compile_proved(const ls_job *job, const ls_target *target, ls_class_visit visit, void *context,
                            ls_image **out) {
    ls_machine machine;
    ls_pool *pool;
    class_proofs all = {
        .job = job, .target = target, .visit = visit, .context = context, .visiting = PTHREAD_MUTEX_INITIALIZER};
    LS_TRY(ls_classes_find(job, target, &all.classes));
    ls_machine_detect(&machine);
    LS_TRY(ls_pool_create((int)ls_min(machine.cores, ls_min(all.classes.n, MOST_AT_ONCE)), false, &pool));
    ls_arena *arena = ls_arena_create();
    all.of_class = LS_NEW_ARRAY(arena, struct class_proved, all.classes.n);
    ls_pool_run(pool, all.classes.n, prove_one, &all);
    ls_pool_destroy(pool);
    const ls_status status = prove_between(&all);
    for (int c = 0; c < all.classes.n; c++)
        if (all.of_class[c].arena != NULL) ls_arena_destroy(all.of_class[c].arena);
    ls_arena_destroy(arena);
    if (status.code == LS_OK)
        *out = all.first;
    else
        ls_image_destroy(all.first);
    return status;
}

/* --- one rank's share --------------------------------------------------------------------------------------------- */

static ls_status digest_class(const ls_image *image, const ls_classes *classes, int class, ls_proof_digest *digest) {
    ls_arena *arena = ls_arena_create();
    ls_class_proof *proof;
    const ls_status status = ls_prove_class(image, ls_class_first(classes, class), arena, &proof);
    if (status.code == LS_OK)
        *digest = ls_class_proof_digest(proof, class, list_classes(classes, arena), ls_mesh_ranks(&classes->mesh));
    ls_arena_destroy(arena);
    return status;
}

ls_status ls_compile_share(const ls_job *job, const ls_target *target, int rank, ls_proof_digest *digest,
                           ls_image **out) {
    ls_classes classes;
    LS_TRY(ls_classes_find(job, target, &classes));
    const int class = ls_class_of(&classes, rank);
    ls_image *image;
    LS_TRY(compile_class(job, target, &classes, class, &image));
    *digest = (ls_proof_digest){0};
    if (rank == ls_class_first(&classes, class)) {
        const ls_status proved = digest_class(image, &classes, class, digest);
        if (proved.code != LS_OK) {
            ls_image_destroy(image);
            return proved;
        }
    }
    *out = image;
    return ls_ok();
}
