/* The parameters and masters of an executor: fills them from a source, and finds a number that is not finite. */
#include "weights/weights_impl.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
    READ_COUNT = 1 << 15, /* elements that one task reads as f64: 256 KiB, which fit a second-level cache */
    /* Elements that one task converts. The number is large, because only whole pages of the file can be released. */
    CONVERT_COUNT = 1 << 18,
    /* Elements that are converted on the stack. A write to a GPU takes about 20 microseconds, however small it is. */
    STORE_COUNT = 1 << 14
};

/* ---- filling ---- */

/* Which tensors a chunk fills; of each, the elements that this rank holds. */
enum { PARAMETERS = 1, FROZEN = 2, KEPT = 4, MASTERS = 8, VALUES = PARAMETERS | FROZEN | KEPT, ALL = VALUES | MASTERS };
static const char *const filled[] = {LS_BIND_PARAMETERS, LS_BIND_FROZEN, LS_BIND_KEPT, LS_BIND_MASTER};

typedef struct chunk {
    const ls_flat *flat;
    int64_t start, count; /* element range within this rank's part of the parameter */
    int what;
} chunk;

/* The elements to fill. */
typedef struct extent {
    int64_t start, end; /* in the flat space */
    int what;
} extent;

typedef struct filling {
    ls_executor *executor;
    const ls_weight_source *source;
    const chunk *chunks;
    char *room; /* room_bytes for each thread: for READ_COUNT numbers as f64, or CONVERT_COUNT elements */
    size_t room_bytes;
    atomic_bool failed;
    pthread_mutex_t lock; /* protects status */
    ls_status status;     /* the first error */
} filling;

void ls_weights_from_f32(const float *x, int64_t n, ls_dtype dtype, void *to) {
    if (ls_dtype_is_block(dtype)) ls_blocks_encode(dtype, x, n / ls_dtype_values(dtype), to);
    for (int64_t i = 0; i < n && !ls_dtype_is_block(dtype); i++) {
        if (dtype == LS_F64)
            ((double *)to)[i] = (double)x[i];
        else if (dtype == LS_F32)
            ((float *)to)[i] = x[i];
        else
            ((ls_bf16 *)to)[i] = ls_bf16_from_f32(x[i]);
    }
}

static void narrow_to_blocks(const double *x, int64_t n, ls_dtype dtype, char *to) {
    float numbers[LS_BLOCK_MOST_VALUES];
    const int64_t values = ls_dtype_values(dtype);
    for (int64_t at = 0; at < n; at += values, to += ls_dtype_bytes(dtype)) {
        for (int64_t i = 0; i < values; i++) numbers[i] = (float)x[at + i];
        ls_blocks_encode(dtype, numbers, 1, to);
    }
}

void ls_weights_narrow(const double *x, int64_t n, ls_dtype dtype, void *to) {
    if (ls_dtype_is_block(dtype)) {
        narrow_to_blocks(x, n, dtype, to);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        if (dtype == LS_F64)
            ((double *)to)[i] = x[i];
        else if (dtype == LS_F32)
            ((float *)to)[i] = (float)x[i];
        else
            ((ls_bf16 *)to)[i] = ls_bf16_from_f32((float)x[i]);
    }
}

/* Writes elements at .. at + n - 1 of a bound tensor. */
static ls_status store(ls_executor *executor, const char *name, int64_t at, const double *x, int64_t n) {
    double elements[STORE_COUNT];
    for (int64_t first = 0, count; first < n; first += count) {
        const ls_operand one = ls_image_elements(ls_executor_image(executor), name, at + first, 1);
        const int64_t values = ls_dtype_values(one.view.dtype);
        count = ls_min(STORE_COUNT / values, n - first);
        const ls_operand to = ls_image_elements(ls_executor_image(executor), name, at + first, count);
        ls_weights_narrow(x + first * values, count * values, to.view.dtype, elements);
        LS_TRY(ls_executor_write(executor, &to, elements));
    }
    return ls_ok();
}

/* Processes elements [start, start + count) of the flat space, which lie from element `at` on in a bound tensor. */
typedef ls_status (*fill_part)(void *context, const char *name, int64_t at, int64_t start, int64_t count);

/* Calls `fill` for the parts of a chunk that this rank holds. */
static ls_status each_part(const ls_executor *executor, const chunk *c, fill_part fill, void *context) {
    const ls_image *image = ls_executor_image(executor);
    const int64_t start = c->flat->start + c->start;
    for (size_t i = 0; i < LS_COUNT(filled); i++) {
        const ls_binding *binding = ls_image_find(image, filled[i]);
        for (int p = 0; p < image->n_pieces && binding != NULL && c->what & 1 << i; p++) {
            const ls_flat_piece piece = ls_image_held(image, binding, p, ls_executor_rank(executor));
            const ls_flat_piece part = ls_piece_within(&piece, start, c->count);
            if (part.count > 0) LS_TRY(fill(context, filled[i], part.at, part.start, part.count));
        }
    }
    return ls_ok();
}

/* A chunk of numbers that is stored. */
typedef struct numbers {
    ls_executor *executor;
    const chunk *chunk;
    const double *values;
} numbers;

static ls_status store_part(void *context, const char *name, int64_t at, int64_t start, int64_t count) {
    const numbers *n = context;
    const ls_flat *flat = n->chunk->flat;
    const int64_t first = (start - flat->start - n->chunk->start) * ls_dtype_values(flat->dtype);
    return store(n->executor, name, at, n->values + first, count);
}

static ls_status store_chunk(ls_executor *executor, const chunk *c, const double *values) {
    return each_part(executor, c, store_part, &(numbers){executor, c, values});
}

/*
 * The index in the whole parameter of element `at` of this rank's part; reduces *n to the number of elements that
 * follow contiguously.
 */
static int64_t whole_of(const ls_executor *executor, const ls_flat *flat, int64_t at, int64_t *n) {
    int64_t follow;
    const int64_t whole = ls_flat_whole(ls_executor_image(executor), flat, ls_executor_rank(executor), at, &follow);
    *n = ls_min(*n, follow);
    return whole;
}

ls_status ls_weights_store(ls_executor *executor, const ls_flat *flat, const double *values) {
    for (int64_t at = 0, n; at < flat->count; at += n) {
        n = flat->count - at;
        const int64_t whole = whole_of(executor, flat, at, &n);
        LS_TRY(store_chunk(executor, &(chunk){flat, at, n, ALL}, values + whole * ls_dtype_values(flat->dtype)));
    }
    return ls_ok();
}

static void record_error(filling *f, ls_status status) {
    pthread_mutex_lock(&f->lock);
    if (f->status.code == LS_OK) f->status = status;
    pthread_mutex_unlock(&f->lock);
    atomic_store(&f->failed, true);
}

static ls_status read_chunk(const filling *f, const chunk *c, double *x) {
    const int64_t values = ls_dtype_values(c->flat->dtype);
    for (int64_t done = 0, n; done < c->count; done += n) {
        n = c->count - done;
        const int64_t whole = whole_of(f->executor, c->flat, c->start + done, &n);
        LS_TRY(f->source->read(f->source->context, c->flat, whole * values, n * values, x + done * values));
    }
    return store_chunk(f->executor, c, x);
}

/* A chunk that is converted from the source's type to that of each tensor. */
typedef struct conversion {
    const filling *filling;
    const chunk *chunk;
    void *room;
} conversion;

static ls_status convert_part(void *context, const char *name, int64_t at, int64_t start, int64_t count) {
    const conversion *c = context;
    const filling *f = c->filling;
    const ls_flat *flat = c->chunk->flat;
    const ls_operand to = ls_image_elements(ls_executor_image(f->executor), name, at, count);
    char *room = c->room;
    const int64_t values = ls_dtype_values(flat->dtype);
    for (int64_t done = 0, n; done < count; done += n) {
        n = count - done;
        const int64_t whole = whole_of(f->executor, flat, start - flat->start + done, &n);
        LS_TRY(f->source->convert(f->source->context, flat, whole * values, n * values, to.view.dtype,
                                  room + (size_t)done * ls_dtype_bytes(to.view.dtype)));
    }
    return ls_executor_write(f->executor, &to, room);
}

static ls_status convert_chunk(const filling *f, const chunk *c, void *room) {
    return each_part(f->executor, c, convert_part, &(conversion){f, c, room});
}

static void fill_chunk(void *context, int i, int thread) {
    filling *f = context;
    const chunk *c = &f->chunks[i];
    if (atomic_load(&f->failed)) return;
    void *room = f->room + (size_t)thread * f->room_bytes;
    const ls_status status = f->source->convert != NULL ? convert_chunk(f, c, room) : read_chunk(f, c, room);
    if (status.code != LS_OK) record_error(f, status);
}

/* Cuts an extent into chunks of at most `most` numbers, and returns the number of chunks. chunks NULL: only counts. */
static int cut_extent(const ls_image *image, const extent *e, int64_t most, chunk *chunks) {
    int n = 0;
    for (int i = 0; i < image->n_flats; i++) {
        const ls_flat *flat = &image->flats[i];
        const int64_t end = ls_min(e->end - flat->start, flat->count), each = most / ls_dtype_values(flat->dtype);
        for (int64_t start = ls_max(e->start - flat->start, 0); start < end; start += each, n++)
            if (chunks != NULL) chunks[n] = (chunk){flat, start, ls_min(each, end - start), e->what};
    }
    return n;
}

static int cut_extents(const ls_image *image, const extent *extents, int n_extents, int64_t most, chunk *chunks) {
    int n = 0;
    for (int e = 0; e < n_extents; e++) n += cut_extent(image, &extents[e], most, chunks != NULL ? chunks + n : NULL);
    return n;
}

static ls_status fill(ls_executor *executor, const ls_weight_source *source, const extent *extents, int n_extents) {
    const ls_image *image = ls_executor_image(executor);
    const bool direct = source->convert != NULL;
    const int64_t most = direct ? CONVERT_COUNT : READ_COUNT;
    const int n = cut_extents(image, extents, n_extents, most, NULL);
    if (n == 0) return ls_ok();
    const size_t room_bytes = (size_t)most * (direct ? ls_dtype_bytes(image->accumulator) : sizeof(double));
    const size_t bytes = (size_t)ls_pool_threads(ls_executor_pool(executor)) * room_bytes;
    chunk *chunks = malloc(sizeof *chunks * (size_t)n);
    char *room = malloc(bytes);
    filling f = {.executor = executor,
                 .source = source,
                 .chunks = chunks,
                 .room = room,
                 .room_bytes = room_bytes,
                 .status = ls_ok()};
    if (chunks != NULL && room != NULL) {
        (void)cut_extents(image, extents, n_extents, most, chunks);
        pthread_mutex_init(&f.lock, NULL);
        ls_pool_run(ls_executor_pool(executor), n, fill_chunk, &f);
        pthread_mutex_destroy(&f.lock);
    } else {
        f.status = ls_error(LS_NO_MEMORY, "no memory to read weights: %zu bytes", bytes);
    }
    free(chunks);
    free(room);
    return f.status;
}

ls_status ls_weights_fill(ls_executor *executor, const ls_weight_source *source) {
    return fill(executor, source, &(extent){0, INT64_MAX, ALL}, 1);
}

/* ---- filling together ---- */

/*
 * Ranks that have the same parts of parameters each read a share of them. This is for a tensor of which every rank
 * holds all values, or has all values in common memory with the other ranks of its host.
 */
typedef struct sharing {
    ls_executor *executor;
    const ls_binding *values;
    int what;         /* one of VALUES */
    int ranks, place; /* number of ranks that share the reading, and this rank's place among them */
    int64_t elements; /* number of values */
    bool common;      /* the values lie in common memory */
    int holder;       /* with common memory: the first rank of this host that shares it */
} sharing;

static const ls_team *sharers(const ls_executor *executor) { return &ls_executor_image(executor)->owners; }

/* Whether tensor i of `filled` has values on this rank, and the rank has all of them. */
static bool find_sharing(ls_executor *executor, int i, sharing *out) {
    const ls_image *image = ls_executor_image(executor);
    const ls_binding *values = ls_image_find(image, filled[i]);
    *out = (sharing){.executor = executor,
                     .values = values,
                     .what = 1 << i,
                     .ranks = ls_team_size(&image->owners),
                     .place = ls_team_place(&image->owners, ls_executor_rank(executor))};
    if (values == NULL || values->sharded || !(VALUES & out->what)) return false;
    out->elements = ls_view_elements(&values->operand.view);
    out->common = image->buffers[values->operand.buffer].space == LS_COMMON;
    out->holder = out->common ? ls_image_sharers(image, ls_executor_rank(executor)).holder : -1;
    return true;
}

/* Whether some rank fills memory that another one of the ranks does not share. */
static bool needs_exchange(const sharing *s) {
    return !s->common || ls_executor_image(s->executor)->sharers < s->ranks;
}

/* The first element of the share of the rank at that place; place may be equal to `ranks`. */
static int64_t share_start(const sharing *s, int place) {
    return s->elements / s->ranks * place + ls_min(s->elements % s->ranks, place);
}

/* Which tensors this rank holds in pieces. */
static int held_in_pieces(const ls_image *image) {
    int what = 0;
    for (size_t i = 0; i < LS_COUNT(filled); i++) {
        const ls_binding *binding = ls_image_find(image, filled[i]);
        if (binding != NULL && binding->sharded) what |= 1 << i;
    }
    return what;
}

/* Fills this rank's share of the values that are exchanged, all masters that it holds, and its shards. */
static ls_status fill_own(ls_executor *executor, const ls_weight_source *source) {
    const ls_image *image = ls_executor_image(executor);
    const int most = image->n_pieces + (int)LS_COUNT(filled), sharded = held_in_pieces(image);
    extent *own = malloc(sizeof *own * (size_t)most);
    if (own == NULL) return ls_error(LS_NO_MEMORY, "no memory for %d parts of parameters", most);
    int n = 0;
    for (int i = 0; i < (int)LS_COUNT(filled); i++) {
        const ls_binding *binding = ls_image_find(image, filled[i]);
        sharing s;
        if (find_sharing(executor, i, &s)) {
            const int64_t base = ls_binding_base(image, s.values);
            own[n++] = (extent){base + share_start(&s, s.place), base + share_start(&s, s.place + 1), s.what};
        } else if (binding != NULL && !binding->sharded) {
            own[n++] = (extent){0, INT64_MAX, 1 << i};
        }
    }
    for (int p = 0; p < image->n_pieces && sharded != 0; p++) {
        const ls_flat_piece piece = ls_image_piece(image, p, ls_executor_rank(executor));
        own[n++] = (extent){piece.start, piece.start + piece.count, sharded};
    }
    const ls_status status = fill(executor, source, own, n);
    free(own);
    return status;
}

static size_t element_bytes(const sharing *s) { return ls_dtype_bytes(s->values->operand.view.dtype); }

/* Some bytes of the share of the rank at that place. */
static ls_operand part_of_share(const sharing *s, int place, size_t at, size_t bytes) {
    return ls_operand_slice(s->values->operand, 0, share_start(s, place) + (int64_t)(at / element_bytes(s)),
                            (int64_t)(bytes / element_bytes(s)));
}

static ls_status give_share(void *context, size_t at, void *out, size_t bytes) {
    const sharing *s = context;
    const ls_operand from = part_of_share(s, s->place, at, bytes);
    return ls_executor_read(s->executor, &from, out);
}

/*
 * Whether this rank writes the share of `rank` into common memory. On each host to which `rank` does not belong, one
 * rank does.
 */
static bool lacks(const sharing *s, int rank) {
    const ls_image *image = ls_executor_image(s->executor);
    return ls_executor_rank(s->executor) == s->holder && ls_image_sharers(image, rank).holder != s->holder;
}

static ls_status take_share(void *context, int rank, size_t at, const void *data, size_t bytes) {
    const sharing *s = context;
    const ls_team *team = sharers(s->executor);
    const int me = ls_executor_rank(s->executor), place = ls_team_place(team, rank);
    const ls_operand to = part_of_share(s, place, at, bytes);
    const bool other = rank != me && ls_team_member(team, me, place - s->place) == rank;
    if (!other || (s->common && !lacks(s, rank))) return ls_ok();
    return ls_executor_write(s->executor, &to, data);
}

static ls_status exchange_shares(sharing *s, ls_comm *comm) {
    const size_t bytes = element_bytes(s) * (size_t)(share_start(s, s->place + 1) - share_start(s, s->place));
    return ls_comm_gather(comm, &(ls_comm_pieces){bytes, give_share, take_share, s, element_bytes(s)}, true);
}

/* Tells rank 0 what is kept in blocks, and the error of rounding to them; rank 0 logs it. Collective. */
static ls_status say_blocks(const ls_executor *executor, ls_comm *comm, const ls_weight_source *source) {
    const ls_image *image = ls_executor_image(executor);
    ls_weights_rounding sums = {0};
    ls_dtype type = LS_DTYPES;
    int matrices = 0, others = 0;
    for (int f = 0; f < image->n_flats; f++) {
        const ls_flat *flat = &image->flats[f];
        const bool blocks = ls_dtype_is_block(flat->dtype);
        if (blocks) type = flat->dtype;
        matrices += blocks;
        others += !blocks && flat->borrowed && flat->shape.ndim == 2;
    }
    if (matrices == 0) return ls_ok();
    if (source->rounding != NULL) sums = source->rounding(source->context);
    double error = sums.numbers > 0 ? sqrt(sums.change / fmax(sums.squares, 1e-300)) : 0;
    LS_TRY(ls_comm_max_f64(comm, &error, 1));
    if (ls_comm_rank(comm) != 0) return ls_ok();
    ls_log("base: %d matrices in %s, %.4g bytes a number; %d matrices in %s", matrices, ls_dtype_name(type),
           (double)ls_dtype_bytes(type) / (double)ls_dtype_values(type), others, ls_dtype_name(image->dtype));
    if (error > 0)
        ls_log(
            "base: numbers that its files hold otherwise are rounded to %s, which changes them by %.3g %% (root mean "
            "square, of the rank with most)",
            ls_dtype_name(type), 100 * error);
    return ls_ok();
}

ls_status ls_weights_fill_shared(ls_executor *executor, ls_comm *comm, const ls_weight_source *source,
                                 ls_weights_figures *figures) {
    const bool alone = ls_team_size(sharers(executor)) == 1; /* no other rank has the same parts */
    if (source->left_out != NULL && ls_comm_rank(comm) == 0)
        ls_log("of the weights, %s are left out: the model does not have them", source->left_out);
    LS_TRY(ls_comm_agree(comm, alone ? ls_weights_fill(executor, source) : fill_own(executor, source)));
    LS_TRY(say_blocks(executor, comm, source));
    const double began = ls_seconds();
    bool exchanged = false;
    for (int i = 0; i < (int)LS_COUNT(filled) && !alone; i++) {
        sharing s;
        if (!find_sharing(executor, i, &s) || !needs_exchange(&s)) continue;
        LS_TRY(exchange_shares(&s, comm));
        exchanged = true;
    }
    if (exchanged) LS_TRY(ls_comm_barrier(comm)); /* the holder has written what others read in common memory */
    if (figures == NULL) return ls_ok();
    *figures = (ls_weights_figures){.exchange = exchanged ? ls_seconds() - began : 0,
                                    .bytes = source->bytes_read != NULL ? source->bytes_read(source->context) : 0};
    return ls_ok();
}

/* ---- numbers that are not finite ---- */

/* Element i of an array of any type, as a number. */
static double number_at(const void *elements, ls_dtype dtype, int64_t i) {
    float decoded[LS_BLOCK_MOST_VALUES];
    const int64_t values = ls_dtype_values(dtype);
    if (values == 1) return ls_number_at(elements, dtype, i);
    ls_blocks_decode(dtype, (const char *)elements + (size_t)(i / values) * ls_dtype_bytes(dtype), 1, decoded);
    return (double)decoded[i % values];
}

/* LS_INVALID names the first number that is not finite in a part of a parameter. */
static ls_status check_finite(const ls_executor *executor, const ls_flat *flat, const ls_flat_piece *part,
                              const char *what) {
    const ls_image *image = ls_executor_image(executor);
    double elements[STORE_COUNT];
    const int64_t each = ls_dtype_values(flat->dtype), most = STORE_COUNT / each;
    for (int64_t first = 0; first < part->count; first += most) {
        const int64_t n = ls_min(most, part->count - first);
        const ls_binding *values = ls_image_find(image, ls_flat_values(image, flat));
        const ls_operand from = ls_operand_slice(values->operand, 0, part->at + first, n);
        LS_TRY(ls_executor_read(executor, &from, elements));
        for (int64_t i = 0; i < n * each; i++) {
            const double number = number_at(elements, flat->dtype, i);
            if (!isfinite(number)) {
                int64_t n_one = 1;
                const int64_t whole = whole_of(executor, flat, part->start - flat->start + first + i / each, &n_one);
                const long long element = whole * each + i % each;
                return ls_error(LS_INVALID, "%s not finite: element %lld of tensor %s is %g", what, element, flat->name,
                                isnan(number) ? NAN : number);
            }
        }
    }
    return ls_ok();
}

/* LS_INVALID names the first element that is not finite among those that this rank holds. */
static ls_status check_held(const ls_executor *executor, const char *what) {
    const ls_image *image = ls_executor_image(executor);
    for (int i = 0; i < image->n_flats; i++) {
        const ls_flat *flat = &image->flats[i];
        const ls_binding *parameters = ls_image_find(image, ls_flat_values(image, flat));
        for (int p = 0; p < image->n_pieces; p++) {
            const ls_flat_piece piece = ls_image_held(image, parameters, p, ls_executor_rank(executor));
            const ls_flat_piece part = ls_piece_within(&piece, flat->start, flat->count);
            LS_TRY(check_finite(executor, flat, &part, what));
        }
    }
    return ls_ok();
}

ls_status ls_weights_not_finite(const ls_executor *executor, ls_comm *comm, const char *what) {
    const ls_image *image = ls_executor_image(executor);
    LS_TRY(ls_comm_agree(comm, check_held(executor, what)));
    return ls_error(LS_INVALID, "%s not finite, though every weight is: an intermediate result exceeds the range of %s",
                    what, ls_dtype_name(image->dtype));
}
