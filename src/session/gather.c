/*
 * Gathers whole tensors. A rank's part is dense: it holds some of the sequences, and of each of them the tokens that
 * the layout assigns. Any piece of a rank's bytes is therefore a few rows of the whole array, and any rank can compute
 * which ones.
 */
#include "session/gather.h"

typedef struct gathering {
    const ls_rank *rank;
    const ls_binding *binding;
    int tokens;  /* the dimension that is cut along the sequence, or into slices; -1: none */
    int64_t row; /* bytes of one token, or without such a dimension, of all dimensions that are not cut */
    /* rows of tokens (or of `row` bytes) that a rank has: the product of the dimensions outside of `tokens` */
    int64_t outer;
    ls_rows_write write;
    void *context;
} gathering;

/* --- whose part counts -------------------------------------------------------------------------------------------- */

bool ls_rank_contributes(const ls_rank *rank, const ls_binding *binding) {
    ls_axes differ = binding->partial | binding->alone;
    for (int i = 0; i < binding->shape.ndim; i++) differ |= binding->cut[i];
    return !binding->elsewhere && ls_mesh_index(&rank->image->mesh, ~differ, rank->rank) == 0;
}

/* --- where a part lies -------------------------------------------------------------------------------------------- */

static gathering gathering_of(const ls_rank *rank, const ls_binding *binding) {
    gathering g = {.rank = rank, .binding = binding, .tokens = -1, .outer = 1};
    const ls_view *local = &binding->operand.view;
    int inside = 0; /* the first dimension within a row */
    for (int i = 0; i < binding->shape.ndim; i++) {
        const bool sliced = rank->image->slices > 1 && binding->shape.dim[i].factor == LS_FACTOR_SEQUENCE;
        if (!binding->cut[i] && !sliced) continue;
        const bool batch = binding->shape.dim[i].factor == LS_FACTOR_BATCH;
        /* sequences are outermost, and only one dimension is cut along tokens */
        LS_ASSERT(batch ? i == 0 : g.tokens < 0);
        if (!batch) g.tokens = i;
        inside = i + 1;
    }
    g.row = (int64_t)ls_dtype_bytes(local->dtype);
    for (int i = inside; i < binding->shape.ndim; i++) g.row *= local->size[i];
    for (int i = 0; i < inside; i++) g.outer *= i == g.tokens ? 1 : local->size[i];
    return g;
}

/* The row of the whole array at which a rank's rows begin, where the tokens together count as one row. */
static int64_t first_outer(const gathering *g, int rank) {
    if (!g->binding->cut[0] || g->tokens == 0) return 0;
    return g->outer * ls_mesh_index(&g->rank->image->mesh, g->binding->cut[0], rank);
}

/*
 * Writes the first rows of `bytes` bytes of a rank's part, which begin at byte `at` of the part. *written becomes the
 * number of bytes in these rows.
 */
static ls_status write_some(const gathering *g, int rank, int64_t at, const char *data, int64_t bytes,
                            int64_t *written) {
    static const ls_layout_run alone = {0, 1, 1};
    const ls_layout *layout = &g->rank->image->layout;
    const int place = ls_mesh_sequence_index(&g->rank->image->mesh, rank);
    const ls_layout_run *run = &alone;
    const bool cut = g->tokens >= 0;
    const int64_t held = cut ? ls_layout_count(layout, place) : 1, all = cut ? ls_image_tokens(g->rank->image) : 1;
    const int64_t before = cut ? g->binding->slice * layout->S : 0; /* tokens of the earlier slices */
    const int64_t outer = at / (held * g->row) + first_outer(g, rank), skip = at % g->row;
    int64_t token = at / g->row % held;
    if (cut) (void)ls_layout_runs(layout, place, &run);
    for (; token >= run->count; run++) token -= run->count;
    const int64_t begin = (outer * all + before + run->first + token * run->step) * g->row + skip;
    const int64_t in_run = (run->count - token) * g->row - skip;
    ls_range rows = ls_range_flat((size_t)begin, (size_t)ls_min(bytes, run->step == 1 ? in_run : g->row - skip));
    if (run->step != 1 && skip == 0 && bytes >= g->row) {
        rows.count[0] = ls_min(bytes, in_run) / g->row;
        rows.stride[0] = run->step * g->row;
    }
    *written = (int64_t)ls_range_bytes(&rows);
    return g->write(g->context, &rows, data);
}

/* --- gathering ---------------------------------------------------------------------------------------------------- */

static ls_status give_part(void *context, size_t at, void *out, size_t bytes) {
    const gathering *g = context;
    const size_t element = ls_dtype_bytes(g->binding->operand.view.dtype);
    const ls_operand from =
        ls_operand_elements(g->binding->operand, (int64_t)(at / element), (int64_t)(bytes / element));
    return ls_executor_read(g->rank->executor, &from, out);
}

static ls_status take_part(void *context, int rank, size_t at, const void *data, size_t bytes) {
    const gathering *g = context;
    for (int64_t done = 0, more; done < (int64_t)bytes; done += more)
        LS_TRY(write_some(g, rank, (int64_t)at + done, (const char *)data + done, (int64_t)bytes - done, &more));
    return ls_ok();
}

ls_status ls_rank_gather(const ls_rank *rank, const ls_binding *binding, bool everywhere, ls_rows_write write,
                         void *context) {
    gathering g = gathering_of(rank, binding);
    g.write = write;
    g.context = context;
    const ls_view *local = &binding->operand.view;
    const size_t bytes = ls_dtype_bytes(local->dtype) * (size_t)ls_view_elements(local);
    return ls_comm_gather(rank->comm,
                          &(ls_comm_pieces){.bytes = ls_rank_contributes(rank, binding) ? bytes : 0,
                                            .give = give_part,
                                            .take = write != NULL ? take_part : NULL,
                                            .context = &g},
                          everywhere);
}

/* --- whole arrays ------------------------------------------------------------------------------------------------- */

/* Context of the two writers. */
typedef struct whole_array {
    ls_comm *comm;
    void *data;
} whole_array;

static ls_status write_here(void *context, const ls_range *rows, const void *data) {
    const whole_array *whole = context;
    const ls_range all = ls_range_flat(0, ls_range_bytes(rows));
    ls_range_copy(whole->data, rows, data, &all);
    return ls_ok();
}

static ls_status write_home(void *context, const ls_range *rows, const void *data) {
    const whole_array *whole = context;
    return ls_comm_send_rows_home(whole->comm, whole->data, rows, data);
}

ls_status ls_rank_gather_tensor(const ls_rank *rank, const ls_binding *binding, bool everywhere, void *whole) {
    whole_array to = {rank->comm, whole};
    return ls_rank_gather(rank, binding, everywhere, whole != NULL ? write_here : NULL, &to);
}

ls_status ls_rank_gather_tensor_home(const ls_rank *rank, const ls_binding *binding, void *whole) {
    whole_array to = {rank->comm, whole};
    return ls_rank_gather(rank, binding, false, write_home, &to);
}

/* --- micro-batches ------------------------------------------------------------------------------------------------ */

/* whole: needed on rank 0 only; if `home`, it is memory of the caller of ls_session_run. */
static ls_status gather_slices(const ls_rank *rank, const char *name, int64_t micro_batch, bool home, void *whole) {
    for (int s = 0; s < rank->image->slices; s++) {
        const ls_binding *slice = ls_image_find_micro(rank->image, name, micro_batch, s);
        if (slice == NULL) return ls_error(LS_INVALID, "\"%s\" is not among what the host fetches", name);
        LS_TRY(home ? ls_rank_gather_tensor_home(rank, slice, whole)
                    : ls_rank_gather_tensor(rank, slice, false, whole));
    }
    return ls_ok();
}

ls_status ls_rank_gather_micro(const ls_rank *rank, const char *name, int64_t micro_batch, void *whole) {
    return gather_slices(rank, name, micro_batch, false, whole);
}

ls_status ls_rank_gather_micro_home(const ls_rank *rank, const char *name, int64_t micro_batch, void *whole) {
    return gather_slices(rank, name, micro_batch, true, whole);
}

ls_status ls_rank_scatter_micro(const ls_rank *rank, const char *name, int64_t micro_batch, const void *whole) {
    for (int s = 0; s < rank->image->slices; s++) {
        const ls_binding *slice = ls_image_find_micro(rank->image, name, micro_batch, s);
        if (slice != NULL) LS_TRY(ls_executor_scatter(rank->executor, slice, whole));
    }
    return ls_ok();
}
