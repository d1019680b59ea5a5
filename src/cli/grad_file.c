/*
 * A file of gradients: each rank has a shard of the flat space of parameters, and rank 0 writes the pieces of all
 * ranks.
 */
#include "cli/grad_impl.h"

#include <stdlib.h>

ls_status ls_grad_file_plan(const ls_image *image, ls_st_plan **out) {
    ls_st_entry *entries = calloc((size_t)image->n_flats, sizeof *entries);
    if (entries == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate %d entries of a file", image->n_flats);
    int n = 0; /* the trained ones, which come first */
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

/* Gradients on their way into the file. */
typedef struct writing {
    ls_st_writer *writer; /* NULL: this rank does not write */
    size_t element;
} writing;

static ls_status write_elements(void *context, const ls_flat *flat, int64_t whole, const void *data, int64_t n) {
    const writing *w = context;
    const int64_t element = (int64_t)w->element;
    return ls_st_write(w->writer, flat->number, whole * element, data, n * element);
}

ls_status ls_grad_file_write(const ls_rank *rank, const char *path, const ls_st_plan *plan) {
    const ls_dtype dtype = rank->image->accumulator;
    writing w = {.element = ls_dtype_bytes(dtype)};
    ls_status status = rank->rank == 0 ? ls_st_join(path, plan, &w.writer) : ls_ok();
    LS_TRY(ls_comm_agree(rank->comm, status));
    status = ls_rank_gather_flat(rank, LS_BIND_SHARD, dtype, NULL, false, write_elements, &w);
    if (w.writer == NULL) return status;
    if (status.code == LS_OK) return ls_st_finish(w.writer);
    ls_st_abandon(w.writer);
    return status;
}
