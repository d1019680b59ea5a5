/*
 * Channels with a count that is known when a program runs: rows to each other rank, none to all that there is room for.
 * What arrives, over all transports and devices; more rows than there is room for, an error by name; bytes within the
 * plan; and edits of what is counted, which both verifiers reject.
 */
#include "compile/compile_impl.h"
#include "program/verify.h"
#include "program/verify_local.h"
#include "run/interpret.h"
#include "support/emission.h"
#include "support/fake_cuda.h"
#include "support/step_digest.h"
#include "support/world.h"
#include "support/worlds.h"

#include <stdlib.h>

enum { ROUNDS = 2, ROOM = 5, WIDTH = 3, BLOCK = ROOM * WIDTH, MOST_RANKS = 8, SLOTS = ROUNDS * (MOST_RANKS - 1) };

/* How many rows a rank sends to the one `shift` places further, in a round. */
typedef struct routing {
    const char *name;
    int (*rows)(int ranks, int rank, int shift, int round);
} routing;

static int all_to_one(int ranks, int rank, int shift, int round) {
    return (rank + shift) % ranks == round % ranks ? ROOM : 0;
}
static int none(int ranks, int rank, int shift, int round) {
    return (void)ranks, (void)rank, (void)shift, (void)round, 0;
}
static int full(int ranks, int rank, int shift, int round) {
    return (void)ranks, (void)rank, (void)shift, (void)round, ROOM;
}
static int any(int ranks, int rank, int shift, int round) {
    return (int)ls_rng_below(17, (uint64_t)ranks * 100 + (uint64_t)rank, (uint64_t)shift * 10 + (uint64_t)round,
                             ROOM + 1);
}
static int too_many(int ranks, int rank, int shift, int round) {
    return (void)ranks, rank == 1 && shift == 1 && round == 1 ? ROOM + 1 : 1;
}
static int less_than_none(int ranks, int rank, int shift, int round) {
    return (void)ranks, rank == 0 && shift == 1 && round == 0 ? -1 : 1;
}

static const routing routings[] = {{"all to one", all_to_one}, {"none", none}, {"all", full}, {"random", any}};

static double value(int rank, int64_t i) { return (double)(1 + (rank * 7 + i * 3) % 101); }

/* --- the programs ------------------------------------------------------------------------------------------------- */

static ls_operand block_at(ls_operand all, int i) {
    const ls_operand flat = ls_operand_elements(all, (int64_t)i * BLOCK, BLOCK);
    return ls_operand_dense(flat.buffer, flat.offset, LS_F64, 2, (int64_t[]){ROOM, WIDTH});
}

static void emit(ls_builder *b, int ranks, ls_operand in, ls_operand counts, ls_operand out) {
    const int team = ls_build_team_of(b, LS_ALL_AXES);
    const int64_t size[] = {ROOM, WIDTH}, one = 1;
    for (int round = 0; round < ROUNDS; round++) {
        ls_operand slot[MOST_RANKS];
        for (int j = 1; j < ranks; j++) {
            slot[j] = ls_build_symmetric(b, LS_BUFFER_SLOT, "rows", BLOCK, LS_F64, 2, size);
            ls_build_grant(b, ls_build_channel(b, "rows.%d", j), ls_build_peer(b, team, -j), slot[j]);
        }
        for (int j = 1; j < ranks; j++) {
            const int at = round * (ranks - 1) + j - 1;
            const ls_operand number = ls_build_private(b, LS_BUFFER_ACTIVATION, "number", LS_I32, 1, &one);
            ls_build_copy(b, ls_operand_elements(counts, at, 1), number);
            ls_build_send_rows(b, ls_build_channel(b, "rows.%d", j), ls_build_peer(b, team, j), block_at(in, at),
                               slot[j], number, 1);
        }
        for (int j = 1; j < ranks; j++) {
            ls_build_receive_rows(b, ls_build_channel(b, "rows.%d", j), ls_build_peer(b, team, -j), slot[j]);
            ls_build_copy(b, slot[j], block_at(out, round * (ranks - 1) + j - 1));
        }
    }
}

static ls_image *image_of(int ranks, int rank) {
    const int64_t blocks = (int64_t)ROUNDS * (ranks - 1);
    emission e;
    emission_begin(&e, ranks, rank);
    const ls_operand in = emission_bind(&e, "in", LS_BUFFER_INPUT, LS_F64, blocks * BLOCK),
                     counts = emission_bind(&e, "counts", LS_BUFFER_INPUT, LS_I32, blocks),
                     out = emission_bind(&e, "out", LS_BUFFER_OUTPUT, LS_F64, blocks * BLOCK);
    emission_program(&e);
    emit(&e.builder, ranks, in, counts, out);
    emission_declare(&e, in, LS_EFFECT_READ);
    emission_declare(&e, counts, LS_EFFECT_READ);
    emission_declare(&e, out, LS_EFFECT_MAKE);
    return emission_end(&e);
}

typedef struct images {
    int ranks;
    ls_image *of[MOST_RANKS];
} images;

static images make_images(int ranks) {
    images all = {.ranks = ranks};
    for (int r = 0; r < ranks; r++) all.of[r] = image_of(ranks, r);
    return all;
}

static void free_all(images *all) {
    for (int r = 0; r < all->ranks; r++) ls_image_destroy(all->of[r]);
}

static ls_status verify_play(const images *all) { return ls_verify((const ls_image *const *)all->of, all->ranks); }
static ls_status verify_local(const images *all) {
    return ls_verify_local((const ls_image *const *)all->of, all->ranks);
}

/* --- what arrives ------------------------------------------------------------------------------------------------- */

typedef struct run_of {
    const routing *routing;
    const images *all;
    bool counts_bytes; /* puts are made by the rank's thread */
} run_of;

static ls_status check_rows(const run_of *run, int rank, const double *out) {
    const int ranks = run->all->ranks;
    for (int round = 0; round < ROUNDS; round++) {
        for (int j = 1; j < ranks; j++) {
            const int sender = (rank - j + ranks) % ranks, at = (round * (ranks - 1) + j - 1) * BLOCK;
            const int n = run->routing->rows(ranks, sender, j, round) * WIDTH;
            for (int i = 0; i < n; i++) RANK_CHECK(out[at + i] == value(sender, at + i));
        }
    }
    return ls_ok();
}

static ls_status exchange_rows(const run_of *run, ls_executor *executor) {
    const int rank = ls_executor_rank(executor), ranks = run->all->ranks, blocks = ROUNDS * (ranks - 1);
    const ls_image *image = run->all->of[rank];
    double data[SLOTS * BLOCK], sent = 0;
    int32_t counts[SLOTS];
    for (int i = 0; i < blocks * BLOCK; i++) data[i] = value(rank, i);
    for (int i = 0; i < blocks; i++) {
        counts[i] = run->routing->rows(ranks, rank, i % (ranks - 1) + 1, i / (ranks - 1));
        sent += (double)counts[i] * WIDTH * sizeof *data;
    }
    LS_TRY(ls_executor_write(executor, &ls_image_find(image, "in")->operand, data));
    LS_TRY(ls_executor_write(executor, &ls_image_find(image, "counts")->operand, counts));
    LS_TRY(ls_executor_run(executor, 0));
    LS_TRY(ls_executor_read(executor, &ls_image_find(image, "out")->operand, data));
    LS_TRY(check_rows(run, rank, data));
    const double did = ls_executor_times(executor).sent;
    RANK_CHECK(did == (run->counts_bytes ? sent : 0) && did <= ls_program_measure(image, 0).bytes_sent);
    return ls_ok();
}

static ls_status rank_main(ls_comm *comm, void *context) {
    const run_of *run = context;
    ls_executor *executor;
    LS_TRY(ls_executor_create(run->all->of[ls_comm_rank(comm)], comm, &executor));
    const ls_status status = exchange_rows(run, executor);
    ls_executor_destroy(executor);
    return status;
}

static ls_status launch(const images *all, const routing *how, const char *transport, const char *device) {
    ls_world *world;
    if (device != NULL) setenv("LONGSPAN_DEVICE", device, 1);
    assert_ok(world_of_images((ls_image *const *)all->of, all->ranks, transport, 20, &world));
    run_of run = {how, all,
                  device == NULL || (strstr(device, "messages") == NULL && strstr(device, "recorded") == NULL &&
                                     strstr(device, "cuda") == NULL)};
    const ls_status status = ls_launch(world, all->ranks, true, rank_main, &run);
    ls_world_destroy(world);
    if (device != NULL) unsetenv("LONGSPAN_DEVICE");
    return status;
}

static void test_rows_arrive(void **state) {
    (void)state;
    static const char *const transports[] = {NULL, "tcp", "chaos:3", "chaos:4:0:tcp"};
    for (int ranks = 2; ranks <= MOST_RANKS; ranks++) {
        images all = make_images(ranks);
        assert_ok(verify_local(&all));
        assert_ok(verify_play(&all));
        for (size_t k = 0; k < LS_COUNT(routings); k++)
            for (size_t t = 0; t < LS_COUNT(transports); t++)
                assert_ok(launch(&all, &routings[k], transports[t], NULL));
        free_all(&all);
    }
}

static void test_rows_arrive_on_devices(void **state) {
    (void)state;
    static const char *const devices[] = {"delayed:1", "delayed:2:awaited", "delayed:3:messages", "delayed:4:recorded"};
    images all = make_images(3);
    for (size_t k = 0; k < LS_COUNT(routings); k++)
        for (size_t d = 0; d < LS_COUNT(devices); d++) assert_ok(launch(&all, &routings[k], NULL, devices[d]));
    free_all(&all);
}

/* By the driver for tests: copies of all rows that there is room for. */
static void test_rows_arrive_by_copy_engines(void **state) {
    (void)state;
    images all = make_images(3);
    image_set set = {.ranks = all.ranks};
    for (int r = 0; r < all.ranks; r++) set.image[r] = all.of[r];
    put_kernels_on_streams(&set);
    for (size_t k = 0; k < LS_COUNT(routings); k++) {
        use_fake_cuda("seed=1");
        assert_ok(launch(&all, &routings[k], NULL, "cuda:0"));
        assert_int_equal(fake_cuda_left(), 0);
    }
    free_all(&all);
}

static void test_more_than_there_is_room_for(void **state) {
    (void)state;
    static const routing wrong[] = {{"too many", too_many}, {"less than none", less_than_none}};
    static const char *const texts[] = {
        "channel \"rows.1\": 6 rows are to go to rank 2; expected 0 to 5, for which there is room",
        "channel \"rows.1\": -1 rows are to go to rank 1; expected 0 to 5, for which there is room"};
    static const char *const devices[] = {NULL, "delayed:3:messages"};
    images all = make_images(3);
    for (size_t k = 0; k < LS_COUNT(wrong); k++)
        for (size_t d = 0; d < LS_COUNT(devices); d++)
            assert_fails(launch(&all, &wrong[k], NULL, devices[d]), LS_INVALID, texts[k]);
    free_all(&all);
}

/* --- edits -------------------------------------------------------------------------------------------------------- */

static ls_instr *find(ls_program *p, ls_instr_kind kind) {
    for (int i = 0; i < p->n_instrs; i++)
        if (p->instrs[i].kind == kind) return &p->instrs[i];
    fail();
    return NULL;
}

static void put_uncounted(ls_program *p) {
    ls_instr *put = find(p, LS_INSTR_PUT);
    put->counted = 0;
    put->n_in = 1; /* all of it is put, and the receive expects so many rows */
}
static void put_without_rows(ls_program *p) { find(p, LS_INSTR_PUT)->counted = 0; }
static void put_without_count(ls_program *p) { find(p, LS_INSTR_PUT)->in[1].buffer = -1; }
static void receive_uncounted(ls_program *p) { find(p, LS_INSTR_RECEIVE)->counted = 0; }
static void other_rows_put(ls_program *p) { find(p, LS_INSTR_PUT)->counted = sizeof(double); }
static void other_rows_received(ls_program *p) { find(p, LS_INSTR_RECEIVE)->counted = sizeof(double); }
static void uneven_rows(ls_program *p) { find(p, LS_INSTR_PUT)->counted = 7 * sizeof(double); }
static void counted_grant(ls_program *p) { find(p, LS_INSTR_GRANT)->counted = WIDTH * sizeof(double); }
static void two_counts(ls_program *p) { find(p, LS_INSTR_PUT)->in[1].view.size[0] = 2; }
static void count_of_another_type(ls_program *p) { find(p, LS_INSTR_PUT)->in[1].view.dtype = LS_F32; }

/* The number of other rows, where the host has written it. */
static void another_count(ls_program *p) {
    ls_instr *put = find(p, LS_INSTR_PUT);
    for (int i = 0; i < p->n_instrs; i++) {
        const ls_instr *instr = &p->instrs[i];
        if (instr->kind != LS_INSTR_KERNEL || instr->n_in == 0 || instr->out[0].buffer == put->in[1].buffer) continue;
        if (instr->in[0].view.dtype != LS_I32) continue;
        put->in[1].buffer = instr->in[0].buffer;
        put->in[1].offset = instr->in[0].offset;
        return;
    }
    fail();
}

/* The number may not have been made yet. */
static void count_too_early(ls_program *p) {
    ls_instr *put = find(p, LS_INSTR_PUT);
    assert_true(put->n_after > 0);
    put->n_after = 0;
}

/* Where the slot has room for fewer rows than are put. */
static void less_room(ls_program *p) {
    find(p, LS_INSTR_RECEIVE)->out[0].view.size[0] = ROOM - 1;
    find(p, LS_INSTR_GRANT)->out[0].view.size[0] = ROOM - 1;
}
static void less_room_at_the_put(ls_program *p) { find(p, LS_INSTR_PUT)->out[0].view.size[0] = ROOM - 1; }

static void test_edits_are_rejected(void **state) {
    (void)state;
    static const struct {
        const char *name;
        void (*edit)(ls_program *p);
    } edits[] = {{"put uncounted", put_uncounted},
                 {"put without rows", put_without_rows},
                 {"put without count", put_without_count},
                 {"receive uncounted", receive_uncounted},
                 {"other rows put", other_rows_put},
                 {"other rows received", other_rows_received},
                 {"uneven rows", uneven_rows},
                 {"counted grant", counted_grant},
                 {"two counts", two_counts},
                 {"count of another type", count_of_another_type},
                 {"another count", another_count},
                 {"count too early", count_too_early},
                 {"less room", less_room},
                 {"less room at the put", less_room_at_the_put}};
    for (size_t i = 0; i < LS_COUNT(edits); i++) {
        images all = make_images(3);
        edits[i].edit(all.of[1]->programs);
        if (verify_local(&all).code == LS_OK) fail_msg("%s: accepted by the local proof", edits[i].name);
        if (verify_play(&all).code == LS_OK) fail_msg("%s: accepted by the play", edits[i].name);
        free_all(&all);
    }
}

/* Whatever is late: the same values. And another number of rows is another value. */
static void test_interpreted(void **state) {
    (void)state;
    images all = make_images(3);
    const ls_image *const *of = (const ls_image *const *)all.of;
    ls_interpreter *right = ls_interpreter_create(of, all.ranks), *other = ls_interpreter_create(of, all.ranks);
    const ls_interpreter_result first = ls_interpreter_run(right, 0);
    for (uint64_t seed = 1; seed < 20; seed++) {
        const ls_interpreter_result again = ls_interpreter_run(other, seed);
        assert_true(ls_interpreter_same(&first, &again));
    }
    ls_interpreter_destroy(other);
    another_count(all.of[1]->programs);
    other = ls_interpreter_create(of, all.ranks);
    const ls_interpreter_result edited = ls_interpreter_run(other, 0);
    assert_false(ls_interpreter_same(&first, &edited));
    ls_interpreter_destroy(other);
    ls_interpreter_destroy(right);
    free_all(&all);
}

/* As a rank of a job that somebody else started: what arrives by its transports. */
static int be_launched(void) {
    ls_launched job;
    assert_ok(ls_launched_find(&job));
    images all = make_images(job.ranks);
    for (size_t k = 0; k < LS_COUNT(routings); k++) {
        const ls_status status = launch(&all, &routings[k], NULL, NULL);
        if (job.rank == 0 || status.code != LS_OK)
            printf("%s: %s\n", routings[k].name, status.code == LS_OK ? "ok" : status.text);
        if (status.code != LS_OK) return 1;
    }
    free_all(&all);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "launched") == 0) return be_launched();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_arrive),
        cmocka_unit_test(test_rows_arrive_on_devices),
        cmocka_unit_test(test_rows_arrive_by_copy_engines),
        cmocka_unit_test(test_more_than_there_is_room_for),
        cmocka_unit_test(test_edits_are_rejected),
        cmocka_unit_test(test_interpreted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
