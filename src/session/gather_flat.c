/*
 * Gathers tensors of the flat space as parameters. Each rank first tells which elements of which parameters it has, and
 * in which order: the stages of a pipeline have different parts of the flat space, and no rank knows the parts of
 * others. How an axis of features cuts parameters is known to every rank, so elements are numbered within the rank's
 * part (program/parts.h).
 */
#include "session/gather.h"

#include <stdlib.h>
#include <string.h>

/* Elements that are contiguous both in a rank's part of a parameter and in the tensor. */
typedef struct held_piece {
    int64_t flat; /* index of the parameter */
    int64_t from; /* index of the first element within the rank's part */
    int64_t count;
    int64_t at; /* index of the first element in the tensor */
} held_piece;

/* The pieces of a rank, in the order in which it sends them. */
typedef struct held_pieces {
    held_piece *list;
    size_t n;
} held_pieces;

typedef struct gathering {
    const ls_rank *rank;
    const ls_binding *binding; /* NULL: this rank has nothing */
    ls_dtype dtype;
    held_pieces mine, *of; /* of: by rank; NULL if no rank receives them */
    ls_flat_write write;
    void *context;
} gathering;

/* --- what this rank has ------------------------------------------------------------------------------------------- */

static ls_status add_piece(held_pieces *p, const held_piece *piece) {
    held_piece *more = realloc(p->list, sizeof *more * (p->n + 1));
    if (more == NULL) return ls_error(LS_NO_MEMORY, "no memory for the places of %zu parts of parameters", p->n + 1);
    p->list = more;
    p->list[p->n++] = *piece;
    return ls_ok();
}

/* Whether this rank sends its elements: of ranks that have the same ones, the first does. */
static bool gives(const gathering *g) {
    const ls_mesh *mesh = &g->rank->image->mesh;
    return g->binding != NULL &&
           (g->binding->sharded || ls_mesh_index(mesh, ls_mesh_shard_axes(mesh), g->rank->rank) == 0);
}

/* only NULL: all parameters. */
static ls_status list_pieces(gathering *g, const ls_flat *only) {
    const ls_image *image = g->rank->image;
    for (int f = 0; f < image->n_flats && gives(g); f++) {
        const ls_flat *flat = &image->flats[f];
        if (only != NULL && only != flat) continue;
        for (ls_flat_runs r = ls_flat_runs_of(image, g->binding, flat, g->rank->rank, 0); ls_flat_next_part(&r);)
            LS_TRY(add_piece(&g->mine, &(held_piece){f, r.run.whole, r.run.part.count, r.run.part.at}));
    }
    return ls_ok();
}

static ls_status give_places(void *context, size_t at, void *out, size_t bytes) {
    const gathering *g = context;
    memcpy(out, (const char *)g->mine.list + at, bytes);
    return ls_ok();
}

static ls_status take_places(void *context, int rank, size_t at, const void *data, size_t bytes) {
    const gathering *g = context;
    held_pieces *of = &g->of[rank];
    char *more = realloc(of->list, at + bytes);
    if (more == NULL) return ls_error(LS_NO_MEMORY, "no memory for the places of rank %d's parameters", rank);
    memcpy(more + at, data, bytes);
    of->list = (held_piece *)more;
    of->n = (at + bytes) / sizeof(held_piece);
    return ls_ok();
}

/* --- the elements ------------------------------------------------------------------------------------------------- */

/*
 * Called for what lies at elements [first, first + n) of those that a rank sends: elements [from, from + some) of one
 * of its pieces, after `done` of the n elements.
 */
typedef ls_status (*piece_use)(const gathering *g, int rank, const held_piece *piece, int64_t from, int64_t some,
                               void *elements);
static ls_status walk(const gathering *g, int rank, const held_pieces *pieces, int64_t first, int64_t n, char *elements,
                      piece_use use) {
    int64_t before = 0, done = 0;
    for (size_t p = 0; p < pieces->n && done < n; before += pieces->list[p++].count) {
        const held_piece *piece = &pieces->list[p];
        const int64_t from = first + done - before, some = ls_min(piece->count - from, n - done);
        if (some <= 0) continue;
        LS_TRY(use(g, rank, piece, from, some, elements + (size_t)done * ls_dtype_bytes(g->dtype)));
        done += some;
    }
    return ls_ok();
}

static ls_status read_piece(const gathering *g, int rank, const held_piece *piece, int64_t from, int64_t some,
                            void *elements) {
    (void)rank;
    const ls_operand here = ls_operand_elements(g->binding->operand, piece->at + from, some);
    return ls_executor_read(g->rank->executor, &here, elements);
}

static ls_status write_piece(const gathering *g, int rank, const held_piece *piece, int64_t from, int64_t some,
                             void *elements) {
    const ls_image *image = g->rank->image;
    const ls_flat *flat = &image->flats[piece->flat];
    for (int64_t done = 0, n; done < some; done += n) {
        const ls_flat_run run = ls_flat_run_of(image, flat, rank, piece->from + from + done, some - done);
        n = run.part.count;
        LS_TRY(
            g->write(g->context, flat, run.whole, (const char *)elements + (size_t)done * ls_dtype_bytes(g->dtype), n));
    }
    return ls_ok();
}

static ls_status give_elements(void *context, size_t at, void *out, size_t bytes) {
    const gathering *g = context;
    const int64_t element = (int64_t)ls_dtype_bytes(g->dtype);
    return walk(g, g->rank->rank, &g->mine, (int64_t)at / element, (int64_t)bytes / element, out, read_piece);
}

static ls_status take_elements(void *context, int rank, size_t at, const void *data, size_t bytes) {
    const gathering *g = context;
    const int64_t element = (int64_t)ls_dtype_bytes(g->dtype);
    return walk(g, rank, &g->of[rank], (int64_t)at / element, (int64_t)bytes / element, (char *)(uintptr_t)data,
                write_piece);
}

/* --- both --------------------------------------------------------------------------------------------------------- */

static ls_status begin(gathering *g, const ls_flat *only) {
    if (g->write != NULL) g->of = calloc((size_t)g->rank->ranks, sizeof *g->of);
    if (g->write != NULL && g->of == NULL)
        return ls_error(LS_NO_MEMORY, "no memory for the places of parameters on %d ranks", g->rank->ranks);
    return list_pieces(g, only);
}

static ls_status gather(gathering *g, bool everywhere) {
    ls_comm *comm = g->rank->comm;
    const bool takes = g->write != NULL;
    int64_t elements = 0;
    for (size_t p = 0; p < g->mine.n; p++) elements += g->mine.list[p].count;
    const ls_comm_pieces places = {sizeof(held_piece) * g->mine.n, give_places, takes ? take_places : NULL, g, 0};
    const ls_comm_pieces values = {ls_dtype_bytes(g->dtype) * (size_t)elements, give_elements,
                                   takes ? take_elements : NULL, g, ls_dtype_bytes(g->dtype)};
    LS_TRY(ls_comm_agree(comm, ls_comm_gather(comm, &places, everywhere)));
    return ls_comm_gather(comm, &values, everywhere);
}

ls_status ls_rank_gather_flat(const ls_rank *rank, const char *name, ls_dtype dtype, const ls_flat *only,
                              bool everywhere, ls_flat_write write, void *context) {
    gathering g = {.rank = rank,
                   .binding = ls_image_find(rank->image, name),
                   .dtype = dtype,
                   .write = everywhere || rank->rank == 0 ? write : NULL,
                   .context = context};
    ls_status status = ls_comm_agree(rank->comm, begin(&g, only));
    if (status.code == LS_OK) status = gather(&g, everywhere);
    for (int r = 0; r < rank->ranks && g.of != NULL; r++) free(g.of[r].list);
    free(g.of);
    free(g.mine.list);
    return status;
}
