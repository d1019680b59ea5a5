/*
 * A region: its nodes are lowered for one tile of tokens after the other. If sums are canonical, a tile is a chunk of
 * the sequence, and the sums to which the region adds are made chunk by chunk along a tree (chunks.c).
 */
#include "compile/pass.h"

/* A sum over tokens to which a region adds chunk by chunk. */
typedef struct tile_sum {
    ls_tensor storage;
    bool gradient;    /* of a parameter; else it is the loss, or a sum that does not outlive the program */
    bool loss;        /* the loss or a term of it: a sum over tokens in the forward pass */
    ls_operand place; /* where the sum lies while no region adds to it */
    ls_chunk_sum sum;
} tile_sum;

typedef struct tile_sums {
    tile_sum *list;
    int n;
    size_t capacity;
} tile_sums;

static void lower_tile(ls_builder *b, const ls_program_node *region, int64_t start, int64_t count, bool goes_on) {
    const ls_tiles *tiles = region->params;
    const ls_tile tile = {.start = start,
                          .count = count,
                          .most = tiles->most,
                          .inner = tiles->inner,
                          .n_inner = tiles->n_inner,
                          .goes_on = goes_on};
    b->tile = &tile;
    ls_lower_nodes(b, region + 1, region->n_body);
    b->tile = NULL;
    for (int i = 0; i < tiles->n_inner; i++) b->tensor[tiles->inner[i].id] = (ls_operand){.buffer = -1};
}

/* --- canonical sums: tiles are chunks ----------------------------------------------------------------------------- */

static const ls_tensor_info *storage_of(const ls_builder *b, ls_tensor t) {
    return ls_graph_tensor(b->job->graph, ls_graph_tensor(b->job->graph, t)->storage);
}

static bool is_known(const tile_sums *sums, ls_tensor storage) {
    bool known = false;
    for (int i = 0; i < sums->n; i++) known |= sums->list[i].storage.id == storage.id;
    return known;
}

/*
 * The sums to which the region adds. A gradient is summed at its own place, from where it is reduced; any other sum in
 * a new buffer, from which it is added to its place at the end.
 */
static tile_sums begin_sums(ls_builder *b, const ls_program_node *region) {
    const int chunks = ls_my_chunks(b).n;
    tile_sums sums = {0};
    for (int i = 1; i <= region->n_body; i++) {
        const ls_node *node = ls_graph_node(b, &region[i]);
        for (int o = 0; o < node->n_out; o++) {
            const ls_tensor_info *info = storage_of(b, node->out[o]);
            if (ls_has_token_rows(b->job->graph, info->storage) || is_known(&sums, info->storage)) continue;
            const bool gradient = info->role == LS_ROLE_ACCUMULATOR && info->of.id != 0,
                       loss = region[i].of < ls_forward_nodes(b->job->graph);
            const ls_operand place = ls_lower_tensor(b, info->storage);
            const ls_operand made = gradient ? place
                                             : ls_build_private(b, LS_BUFFER_ACTIVATION, "sum over tokens",
                                                                place.view.dtype, place.view.ndim, place.view.size);
            *LS_PUSH(b->image->arena, sums.list, sums.n, sums.capacity) = (tile_sum){
                info->storage, gradient, loss, place, ls_chunk_sum_begin(b, "sum over some chunks", made, 0, chunks)};
        }
    }
    return sums;
}

/* From here on the region adds to the addend of this chunk, which begins as zero. */
static void begin_chunk(ls_builder *b, const tile_sums *sums, int chunk) {
    for (int i = 0; i < sums->n; i++) {
        const tile_sum *s = &sums->list[i];
        b->tensor[s->storage.id] = ls_chunk_sum_addend(&s->sum, chunk);
        if (!s->gradient) ls_build_fill(b, b->tensor[s->storage.id]);
    }
}

static void end_chunk(ls_builder *b, const tile_sums *sums, int chunk) {
    for (int i = 0; i < sums->n; i++) {
        const tile_sum *s = &sums->list[i];
        const ls_operand addend = b->tensor[s->storage.id];
        if (s->loss) ls_totals_add_loss(b, addend);
        ls_chunk_sum_add(b, &s->sum, chunk, 0, addend.view.size[0]);
    }
}

static void end_sums(ls_builder *b, const tile_sums *sums) {
    for (int i = 0; i < sums->n; i++) {
        const tile_sum *s = &sums->list[i];
        b->tensor[s->storage.id] = s->place;
        if (!s->gradient) ls_build_accumulate(b, ls_chunk_sum_addend(&s->sum, 0), s->place);
    }
}

static void lower_chunks(ls_builder *b, const ls_program_node *region) {
    const ls_chunks chunks = ls_my_chunks(b);
    const int64_t begin = ls_chunk_start(b, chunks.first);
    const tile_sums sums = begin_sums(b, region);
    for (int i = 0; i < chunks.n; i++) {
        const int64_t start = ls_chunk_start(b, chunks.first + i), past = ls_chunk_start(b, chunks.first + i + 1);
        begin_chunk(b, &sums, i);
        lower_tile(b, region, start - begin, past - start, false);
        end_chunk(b, &sums, i);
    }
    end_sums(b, &sums);
}

/* ------------------------------------------------------------------------------------------------------------------ */

static void lower(ls_builder *b, const ls_program_node *region) {
    const ls_tiles *tiles = region->params;
    if (b->target->canonical) {
        lower_chunks(b, region);
        return;
    }
    for (int64_t i = 0; i < tiles->even; i++) {
        const int64_t start = ls_part_start(tiles->rows, tiles->even, i),
                      past = ls_part_start(tiles->rows, tiles->even, i + 1);
        lower_tile(b, region, start, past - start, i > 0);
    }
    for (int64_t start = 0; start < tiles->rows && tiles->even == 0; start += tiles->tile)
        lower_tile(b, region, start, ls_min(tiles->tile, tiles->rows - start), start > 0);
}

const ls_lowering ls_lowering_tiles = {.name = "tiles", .lower = lower};
