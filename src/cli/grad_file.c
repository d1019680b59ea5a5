/* A file of gradients: each rank has a shard of the flat space of parameters, and rank 0 writes the pieces of all. */
#include "cli/grad_impl.h"

#include <stdlib.h>

ls_status ls_grad_file_plan(const ls_image *image, ls_st_plan **out) {
    ls_st_entry *entries = calloc((size_t)image->n_flats, sizeof *entries);
    if (entries == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate %d entries of a file", image->n_flats);
    int n = 0; /* those that are trained, which come first */
    for (int i = 0; i < image->n_flats && image->flats[i].trained; i++, n++) {
        const ls_flat *flat = &image->flats[i];
        entries[flat->number] =
            (ls_st_entry){.name = flat->name, .dtype = ls_st_dtype_of(image->accumulator), .ndim = flat->shape.ndim};
        for (int d = 0; d < flat->shape.ndim; d++) entries[flat->number].shape[d] = flat->shape.dim[d].size;
    }
    const ls_st_pair format = {"format", "pt"};
    const ls_status status = ls_st_plan_create(entries, n, &format, 1, out);
    free(entries);
    return status;
}

/* The gradients on their way into the file. */
typedef struct writing {
    const ls_rank *rank;
    ls_st_writer *writer; /* NULL: this rank does not write */
} writing;

static ls_status give_shard(void *context, size_t at, void *out, size_t bytes) {
    const writing *w = context;
    const size_t element = ls_dtype_bytes(w->rank->image->accumulator);
    const ls_operand from =
        ls_image_elements(w->rank->image, LS_BIND_SHARD, (int64_t)(at / element), (int64_t)(bytes / element));
    return ls_executor_read(w->rank->executor, &from, out);
}

/* Writes what elements of a rank's shard are of parameters, which lie there from `at` bytes on. */
static ls_status write_shard(void *context, int rank, size_t at, const void *data, size_t bytes) {
    const writing *w = context;
    const ls_image *image = w->rank->image;
    const ls_binding *shard = ls_image_find(image, LS_BIND_SHARD);
    const int64_t element = (int64_t)ls_dtype_bytes(image->accumulator);
    const int64_t first = (int64_t)at / element, past = first + (int64_t)bytes / element;
    for (int i = 0; i < image->n_flats; i++) {
        const ls_flat *flat = &image->flats[i];
        for (ls_flat_runs r = ls_flat_runs_of(image, shard, flat, rank, 0); ls_flat_next(&r);) {
            const int64_t begin = ls_max(r.run.part.at, first),
                          n = ls_min(r.run.part.at + r.run.part.count, past) - begin;
            if (n > 0)
                LS_TRY(ls_st_write(w->writer, flat->number, (r.run.whole + begin - r.run.part.at) * element,
                                   (const char *)data + (begin - first) * element, n * element));
        }
    }
    return ls_ok();
}

/* Bytes of this rank's shard. */
static size_t shard_bytes(const ls_rank *rank) {
    const ls_binding *shard = ls_image_find(rank->image, LS_BIND_SHARD);
    return shard != NULL ? (size_t)ls_view_bytes(&shard->operand.view) : 0;
}

ls_status ls_grad_file_write(const ls_rank *rank, const char *path, const ls_st_plan *plan) {
    writing w = {.rank = rank};
    ls_status status = rank->rank == 0 ? ls_st_join(path, plan, &w.writer) : ls_ok();
    LS_TRY(ls_comm_agree(rank->comm, status));
    const ls_comm_pieces pieces = {shard_bytes(rank), give_shard, write_shard, &w};
    status = ls_comm_gather(rank->comm, &pieces, false);
    if (w.writer == NULL) return status;
    if (status.code == LS_OK) return ls_st_finish(w.writer);
    ls_st_abandon(w.writer);
    return status;
}
