/*
 * Collectives by themselves: programs that consist of one, proved for every rank, run on all of them, and compared with
 * sums and copies made here. Values are small whole numbers, so that no order of a sum changes them. What is sent is
 * what the collective must send.
 */
#include "compile/redistribute/redistribute.h"
#include "program/verify.h"
#include "program/verify_local.h"
#include "support/emission.h"
#include "support/meshes.h"
#include "support/world.h"
#include "support/worlds.h"

#include <stdlib.h>

enum { ROUNDS = 3, MOST = 16 * 1024 };

/* Elements of each round over all ranks, for each rank. */
static const int64_t pieces[ROUNDS] = {4, 9, 5};

static int64_t total_of(int ranks) {
    int64_t n = 0;
    for (int i = 0; i < ROUNDS; i++) n += pieces[i] * ranks;
    return n;
}

typedef struct under_test {
    const char *name;
    int64_t (*in_count)(int ranks, int rank), (*out_count)(int ranks, int rank);
    ls_effect on_out;
    void (*emit)(ls_builder *b, const ls_stages *stages, ls_operand in, ls_operand out);
    double (*expected)(int ranks, int rank, const ls_image *image, int64_t i);
    double (*moved)(int ranks, int rank); /* elements that a rank sends, or reads of others */
} under_test;

/* Element i of what the rank puts in. */
static double value(int rank, int64_t i) { return (double)(1 + (rank * 7 + i * 3) % 11); }

static double sum_of(int ranks, int64_t i) {
    double sum = 0;
    for (int r = 0; r < ranks; r++) sum += value(r, i);
    return sum;
}

static int64_t start_of(int ranks, int round) {
    int64_t at = 0;
    for (int i = 0; i < round; i++) at += pieces[i] * ranks;
    return at;
}

/* The round in which lies element *i of something that has so many of each; *i becomes its number in it. */
static int round_of(int ranks, int64_t *i) {
    int round = 0;
    for (; *i >= pieces[round] * ranks; round++) *i -= pieces[round] * ranks;
    return round;
}

static int64_t one_piece(int ranks, int rank) { return (void)ranks, (void)rank, total_of(1); }
static int64_t all_pieces(int ranks, int rank) { return (void)rank, total_of(ranks); }

/* Where the rank's piece of a round begins. */
static int64_t piece_of(const ls_image *image, int rank, int round) {
    return ls_team_place(&image->owners, rank) * pieces[round];
}

/* --- all-gather: one label for all rounds, the next under way while the last is read ------------------------------ */

static void emit_gather(ls_builder *b, const ls_stages *stages, ls_operand in, ls_operand out) {
    const int ranks = ls_mesh_ranks(&b->target->mesh);
    for (int i = 0; i < ROUNDS; i++) {
        const int64_t count = pieces[i] * ranks;
        const ls_operand all = ls_build_symmetric(b, LS_BUFFER_ACTIVATION, "all", count, in.view.dtype, 1, &count);
        ls_all_gather g = ls_all_gather_expect(b, "gather", stages, all, 0);
        ls_all_gather_begin(b, &g, ls_operand_slice(in, 0, start_of(1, i), pieces[i]));
        ls_all_gather_finish(b, &g);
        ls_build_copy(b, all, ls_operand_slice(out, 0, start_of(ranks, i), count));
    }
}

static double expect_gather(int ranks, int rank, const ls_image *image, int64_t i) {
    (void)rank;
    const int round = round_of(ranks, &i);
    for (int r = 0; r < ranks; r++) {
        const int64_t at = i - piece_of(image, r, round);
        if (at >= 0 && at < pieces[round]) return value(r, start_of(1, round) + at);
    }
    return -1;
}

static double move_pieces(int ranks, int rank) { return (void)rank, (double)((ranks - 1) * total_of(1)); }

/* --- reduce-scatter: several through two sets of slots, written or added ------------------------------------------ */

static void emit_scatter(ls_builder *b, const ls_stages *stages, ls_operand in, ls_operand out, bool adds) {
    const int ranks = ls_mesh_ranks(&b->target->mesh);
    ls_addends addends[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) addends[i] = (ls_addends){pieces[i] * ranks, 1};
    ls_reduce_scatter *r = ls_reduce_scatter_make(b, "sums", "slots", stages, in.view.dtype, ROUNDS, addends);
    ls_reduce_scatter_expect(b, r);
    for (int i = 0; i < ROUNDS; i++) {
        const ls_operand from = ls_operand_slice(in, 0, start_of(ranks, i), addends[i].count);
        ls_reduce_scatter_begin(b, r, &from, ls_operand_slice(out, 0, start_of(1, i), pieces[i]), adds);
    }
    ls_reduce_scatter_finish(b, r);
}

static void emit_scatter_written(ls_builder *b, const ls_stages *stages, ls_operand in, ls_operand out) {
    emit_scatter(b, stages, in, out, false);
}

static void emit_scatter_added(ls_builder *b, const ls_stages *stages, ls_operand in, ls_operand out) {
    emit_scatter(b, stages, in, out, true);
}

static double expect_scatter(int ranks, int rank, const ls_image *image, int64_t i) {
    const int round = round_of(1, &i);
    return sum_of(ranks, start_of(ranks, round) + piece_of(image, rank, round) + i);
}

/* --- all-reduce --------------------------------------------------------------------------------------------------- */

static void emit_reduce(ls_builder *b, const ls_stages *stages, ls_operand in, ls_operand out) {
    (void)stages;
    for (int i = 0; i < ROUNDS; i++) {
        ls_all_reduce r =
            ls_all_reduce_begin(b, ls_build_team_of(b, LS_ALL_AXES), ls_operand_slice(in, 0, start_of(1, i), pieces[i]),
                                ls_operand_slice(out, 0, start_of(1, i), pieces[i]), pieces[i]);
        ls_all_reduce_finish(b, &r);
    }
}

static double expect_reduce(int ranks, int rank, const ls_image *image, int64_t i) {
    return (void)rank, (void)image, sum_of(ranks, i);
}

/* Among all at once, or in stages of a few ranks each: 16 are 4 x 4, 18 are 6 x 3. */
static double move_by_stages(int ranks, int rank) {
    (void)rank;
    const int peers = ranks == 16 ? 6 : ranks == 18 ? 7 : ranks - 1;
    return (double)(peers * total_of(1));
}

/* --- all-to-all: rows cut unevenly become columns, of which neighbours share one ---------------------------------- */

enum { COLUMNS = 2 }; /* of each rank */

static int64_t rows_of(int rank) { return rank % 3 + 1; }

static int64_t rows_before(int rank) {
    int64_t n = 0;
    for (int r = 0; r < rank; r++) n += rows_of(r);
    return n;
}

static int64_t own_rows(int ranks, int rank) { return rows_of(rank) * (ranks + COLUMNS - 1); }
static int64_t own_columns(int ranks, int rank) { return (void)rank, rows_before(ranks) * COLUMNS; }

static ls_parts cut_of(ls_builder *b, int ranks, int64_t (*start)(int rank)) {
    ls_parts cut = {.start = LS_NEW_ARRAY(b->image->arena, int64_t, ranks),
                    .count = LS_NEW_ARRAY(b->image->arena, int64_t, ranks)};
    for (int r = 0; r < ranks; r++) {
        cut.start[r] = start != NULL ? start(r) : r;
        cut.count[r] = start != NULL ? rows_of(r) : COLUMNS;
        cut.most = ls_max(cut.most, cut.count[r]);
        cut.total = cut.most_total = cut.start[r] + cut.count[r];
    }
    return cut;
}

static void emit_recut(ls_builder *b, bool in_place, ls_operand in, ls_operand out) {
    const int ranks = ls_mesh_ranks(&b->target->mesh);
    const ls_parts rows = cut_of(b, ranks, rows_before), columns = cut_of(b, ranks, NULL);
    const ls_recut recut = {.label = "recut",
                            .team = ls_build_team_of(b, LS_ALL_AXES),
                            .from_dim = 0,
                            .to_dim = 1,
                            .from = &rows,
                            .to = &columns,
                            .in_place = in_place};
    const int64_t size[] = {rows.count[b->target->rank], columns.total};
    const ls_all_to_all x =
        ls_all_to_all_begin(b, &recut, ls_operand_dense(in.buffer, in.offset, in.view.dtype, 2, size));
    const ls_operand result = ls_all_to_all_finish(b, &x);
    ls_all_to_all_settle(b, &x);
    ls_build_copy(b, ls_operand_elements(result, 0, ls_view_elements(&result.view)), out);
}

static void emit_put(ls_builder *b, const ls_stages *stages, ls_operand in, ls_operand out) {
    (void)stages;
    emit_recut(b, false, in, out);
}

static void emit_in_place(ls_builder *b, const ls_stages *stages, ls_operand in, ls_operand out) {
    (void)stages;
    emit_recut(b, true, in, out);
}

static double expect_recut(int ranks, int rank, const ls_image *image, int64_t i) {
    (void)image;
    int owner = 0;
    while (i / COLUMNS >= rows_before(owner + 1)) owner++;
    return value(owner, (i / COLUMNS - rows_before(owner)) * (ranks + COLUMNS - 1) + rank + i % COLUMNS);
}

static double move_rows(int ranks, int rank) { return (double)(rows_of(rank) * COLUMNS * (ranks - 1)); }
static double move_columns(int ranks, int rank) { return (double)((rows_before(ranks) - rows_of(rank)) * COLUMNS); }

/* --- programs ----------------------------------------------------------------------------------------------------- */

static const under_test cases[] = {
    {"all-gather", one_piece, all_pieces, LS_EFFECT_MAKE, emit_gather, expect_gather, move_pieces},
    {"reduce-scatter", all_pieces, one_piece, LS_EFFECT_MAKE, emit_scatter_written, expect_scatter, move_pieces},
    {"reduce-scatter that adds", all_pieces, one_piece, LS_EFFECT_ADD, emit_scatter_added, expect_scatter, move_pieces},
    {"all-reduce", one_piece, one_piece, LS_EFFECT_MAKE, emit_reduce, expect_reduce, move_by_stages},
    {"all-to-all by puts", own_rows, own_columns, LS_EFFECT_MAKE, emit_put, expect_recut, move_rows},
    {"all-to-all in place", own_rows, own_columns, LS_EFFECT_MAKE, emit_in_place, expect_recut, move_columns},
};

/* The rank's image of one program, which is the collective. */
static ls_image *image_of(const under_test *test, int ranks, int rank) {
    emission e;
    emission_begin(&e, ranks, rank);
    const ls_operand in = emission_bind(&e, "in", LS_BUFFER_INPUT, LS_F64, test->in_count(ranks, rank)),
                     out = emission_bind(&e, "out", LS_BUFFER_OUTPUT, LS_F64, test->out_count(ranks, rank));
    emission_program(&e);
    const ls_team world = ls_mesh_team(&e.image->mesh, LS_ALL_AXES);
    const ls_stages stages = ls_stages_of(&e.builder, &world);
    e.image->owners = ls_stages_owners(&e.builder, &stages);
    test->emit(&e.builder, &stages, in, out);
    emission_declare(&e, in, LS_EFFECT_READ);
    emission_declare(&e, out, test->on_out);
    return emission_end(&e);
}

typedef struct run_of {
    const under_test *test;
    ls_image **image; /* by rank */
    int ranks;
} run_of;

static ls_status rank_main(ls_comm *comm, void *context) {
    const run_of *run = context;
    const int rank = ls_comm_rank(comm);
    const ls_image *image = run->image[rank];
    const int64_t n_in = run->test->in_count(run->ranks, rank), n_out = run->test->out_count(run->ranks, rank);
    double data[MOST];
    RANK_CHECK(n_in <= MOST && n_out <= MOST);
    ls_executor *executor;
    LS_TRY(ls_executor_create(image, comm, &executor));
    for (int64_t i = 0; i < n_in; i++) data[i] = value(rank, i);
    LS_TRY(ls_executor_write(executor, &ls_image_find(image, "in")->operand, data));
    LS_TRY(ls_executor_run(executor, 0));
    LS_TRY(ls_executor_read(executor, &ls_image_find(image, "out")->operand, data));
    for (int64_t i = 0; i < n_out; i++) {
        const double expected = run->test->expected(run->ranks, rank, image, i);
        if (data[i] != expected)
            return ls_error(LS_INVALID, "%s on %d ranks: element %lld of rank %d is %g; expected %g", run->test->name,
                            run->ranks, (long long)i, rank, data[i], expected);
    }
    ls_executor_destroy(executor);
    return ls_ok();
}

static void try(const under_test *test, int ranks) {
    ls_image **image = calloc((size_t)ranks, sizeof *image);
    for (int r = 0; r < ranks; r++) image[r] = image_of(test, ranks, r);
    assert_ok(ls_verify_local((const ls_image *const *)image, ranks));
    assert_ok(ls_verify((const ls_image *const *)image, ranks));
    for (int r = 0; r < ranks; r++) {
        const ls_program_cost cost = ls_program_measure(image[r], 0);
        const double moved = (cost.bytes_sent + cost.bytes_read) / sizeof(double), expected = test->moved(ranks, r);
        if (moved != expected)
            fail_msg("%s: rank %d of %d moves %g elements; expected %g", test->name, r, ranks, moved, expected);
    }
    static const char *const transports[] = {NULL, "chaos:3"};
    for (size_t t = 0; t < LS_COUNT(transports); t++) {
        ls_world *world;
        assert_ok(world_of_images(image, ranks, transports[t], 20, &world));
        run_of run = {test, image, ranks};
        assert_ok(ls_launch(world, ranks, true, rank_main, &run));
        ls_world_destroy(world);
    }
    for (int r = 0; r < ranks; r++) ls_image_destroy(image[r]);
    free(image);
}

static void test_collectives(void **state) {
    (void)state;
    static const int ranks[] = {1, 2, 3, 5, 16, 18};
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        for (size_t k = 0; k < LS_COUNT(ranks); k++) try(&cases[i], ranks[k]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_collectives)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
