/* A host's rates: the cost of attention by head size, and the file that keeps the rates. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "plan/plan.h"
#include "plan/plan_impl.h"
#include "support/fake_cuda.h"
#include "support/scratch.h"

static const ls_core_rates core = {
    .attention = {{2.5e-12, 1e-9, 3e-8, 1e-10}, {2e-12, 5e-10, 5e-8, 0}}, .matmul = 9e11, .recurrence = {5e11, 4e11}};

static const ls_host_of ref = {.isa = LS_ISA_REF};
static const ls_row_rates no_rows = {.n = 0};

/* Seconds of a pair of a head of D: 4 D or 10 D flops, and its own. */
static void test_attention_rate(void **state) {
    (void)state;
    for (int D = 16; D <= 256; D *= 2) {
        assert_float_equal(4.0 * D / ls_attention_rate(&core, LS_FORWARD, D) * 1e9, (4.0 * D * 2.5e-12 + 1e-9) * 1e9,
                           1e-6);
        assert_float_equal(10.0 * D / ls_attention_rate(&core, LS_BACKWARD, D) * 1e9, (10.0 * D * 2e-12 + 0.5e-9) * 1e9,
                           1e-6);
    }
    const ls_core_rates two = ls_core_rates_of(&core, 2);
    for (int direction = 0; direction < LS_DIRECTIONS; direction++)
        assert_float_equal(ls_attention_rate(&two, direction, 64) / ls_attention_rate(&core, direction, 64), 2, 1e-6);
    ls_core_rates slower = core; /* each doubling of the cores of a call costs as much as the first */
    slower.split = 0.1;
    assert_float_equal(ls_core_rates_of(&slower, 1).matmul / core.matmul, 1, 1e-9);
    assert_float_equal(ls_core_rates_of(&slower, 2).recurrence[LS_BACKWARD] / core.recurrence[LS_BACKWARD], 2 / 1.1,
                       1e-9);
    assert_float_equal(ls_core_rates_of(&slower, 0.5).matmul / core.matmul, 0.5, 1e-9);
    assert_float_equal(ls_core_rates_of(&slower, 2).matmul / core.matmul, 2 / 1.1, 1e-9);
    assert_float_equal(ls_core_rates_of(&slower, 8).matmul / core.matmul, 8 / 1.331, 1e-9);
    const ls_host nominal = ls_host_nominal(LS_DEVICE_CPU, LS_ISA_AVX512);
    for (int direction = 0; direction < LS_DIRECTIONS; direction++)
        assert_float_equal(ls_attention_rate(&nominal.type[LS_F32], direction, 16), 1.4e11, 1);
}

/* A call of n queries, Hq heads of D, half of which see all t keys: the sum of the four terms. */
static void test_attention_seconds(void **state) {
    (void)state;
    enum { N = 40, T = 70, HQ = 6, HKV = 3, D = 32 };
    const int64_t q[] = {1, N, HQ, D}, kv[] = {1, T, HKV, D};
    static const ls_kernel kernel = {.id = LS_KERNEL_ATTENTION}, other = {.id = LS_KERNEL_COPY};
    const double flops = 4.0 * D * N * T * HQ / 2, bytes = 2.0 * (N * HQ * D + 2 * T * HKV * D);
    ls_operand in[] = {ls_operand_dense(0, 0, LS_BF16, 4, q), ls_operand_dense(1, 0, LS_BF16, 4, kv),
                       ls_operand_dense(2, 0, LS_BF16, 4, kv)};
    const ls_instr instr = {
        .kind = LS_INSTR_KERNEL, .kernel = &kernel, .flops = flops, .rows = N * HQ / 2, .n_in = LS_COUNT(in), .in = in};
    ls_rates rates = {.core = core, .overhead = 1e-6};
    rates.core.bytes[LS_KERNEL_COPY] = (ls_byte_cost){1e-11, 1e-10};
    const double expected = 1e-6 + flops * 2.5e-12 + N * T * HQ / 2 * 1e-9 + (N * HQ * 3e-8 + bytes * 1e-10) / 2;
    assert_float_equal(ls_instr_seconds(&instr, INFINITY, &rates) / expected, 1, 1e-9);
    const int64_t none[] = {1, N, 0, D}; /* a rank without heads */
    ls_instr idle = instr;
    idle.flops = idle.rows = 0;
    in[0] = ls_operand_dense(0, 0, LS_BF16, 4, none);
    assert_float_equal(ls_instr_seconds(&idle, INFINITY, &rates) * 1e6, 1, 1e-9);
    in[0] = ls_operand_dense(0, 0, LS_BF16, 4, q);
    ls_instr copy = instr;
    copy.kernel = &other;
    copy.out = in;
    copy.flops = 0;
    assert_float_equal(ls_instr_seconds(&copy, INFINITY, &rates) / (1e-6 + bytes * 1e-10), 1, 1e-9);
    assert_float_equal(ls_instr_seconds(&copy, 0, &rates) / (1e-6 + bytes * 1e-11), 1, 1e-9);
    assert_float_equal(ls_instr_seconds(&copy, bytes / 4, &rates) / (1e-6 + bytes * (0.75e-11 + 0.25e-10)), 1, 1e-9);
    static const ls_kernel matmul = {.id = LS_KERNEL_MATMUL};
    ls_instr product = {.kind = LS_INSTR_KERNEL, .kernel = &matmul, .flops = flops, .n_in = LS_COUNT(in), .in = in};
    rates.core.bytes[LS_KERNEL_ADD].far = 1e-9; /* bytes from memory cost time, bytes in a cache do not */
    assert_float_equal(ls_instr_seconds(&product, 0, &rates) / (1e-6 + flops / 9e11), 1, 1e-9);
    assert_float_equal(ls_instr_seconds(&product, 1000, &rates) / (1e-6 + flops / 9e11 + 1e-6), 1, 1e-9);
    static const ls_kernel recurrence = {.id = LS_KERNEL_LINEAR_RECURRENCE_MAP},
                           gradient = {.id = LS_KERNEL_LINEAR_RECURRENCE_GRAD};
    product.kernel = &recurrence;
    assert_float_equal(ls_instr_seconds(&product, 0, &rates) / (1e-6 + flops / 5e11), 1, 1e-9);
    product.kernel = &gradient;
    assert_float_equal(ls_instr_seconds(&product, 0, &rates) / (1e-6 + flops / 4e11), 1, 1e-9);
    ls_instr put = {.kind = LS_INSTR_PUT, .n_in = 1, .in = in, .n_out = 1, .out = in};
    rates.put = (ls_byte_cost){1e-10, 3e-10};
    const double sent = ls_operand_bytes(&in[0]);
    assert_float_equal(ls_instr_seconds(&put, INFINITY, &rates) / (sent * 3e-10), 1, 1e-9);
    assert_float_equal(ls_instr_seconds(&put, 0, &rates) / (sent * 1e-10), 1, 1e-9);
}

/*
 * A copy or a put of several pieces takes longer by a piece's cost for each; of one piece, or by any other kernel, it
 * does not.
 */
static void test_pieces(void **state) {
    (void)state;
    enum { ROWS = 30, WIDE = 16 };
    static const ls_kernel copy = {.id = LS_KERNEL_COPY}, add = {.id = LS_KERNEL_ADD};
    const int64_t size[] = {ROWS, WIDE};
    ls_operand from = ls_operand_dense(0, 0, LS_F32, 2, size), to = ls_operand_dense(1, 0, LS_F32, 2, size);
    ls_instr instr = {.kind = LS_INSTR_KERNEL, .kernel = &copy, .n_in = 1, .in = &from, .n_out = 1, .out = &to};
    const ls_rates rates = {.core = core, .piece = 1e-8};
    assert_float_equal(ls_operand_pieces(&from), 1, 0);
    assert_float_equal(ls_instr_seconds(&instr, 0, &rates) * 1e9, 0, 1e-9);
    from.view.stride[0] = 3 * WIDE;
    assert_float_equal(ls_operand_pieces(&from), ROWS, 0);
    assert_float_equal(ls_instr_seconds(&instr, 0, &rates) * 1e9, 10.0 * ROWS, 1e-6);
    instr.kernel = &add;
    assert_float_equal(ls_instr_seconds(&instr, 0, &rates) * 1e9, 0, 1e-9);
    instr.kind = LS_INSTR_PUT;
    assert_float_equal(ls_instr_seconds(&instr, 0, &rates) * 1e9, 10.0 * ROWS, 1e-6);
}

/*
 * Two ranks of 4 threads on 8 cores share the memory; one alone has what its own cores can draw; 16 threads share the
 * cores, too.
 */
static void test_shared_memory(void **state) {
    (void)state;
    ls_host host = ls_host_nominal(LS_DEVICE_CPU, LS_ISA_AVX2);
    host.memory = 4e9; /* a core of 8 that are busy */
    host.memory_alone = 10e9;
    host.cache = 1e6;
    host.put = (ls_byte_cost){1e-10, 1e-9};
    host.type[LS_F32].bytes[LS_KERNEL_ADD] = (ls_byte_cost){0.5e-10, 2.5e-10};
    const ls_rates all = ls_rates_beside(&host, LS_F32, 4, 8, 8), one = ls_rates_beside(&host, LS_F32, 1, 1, 8),
                   half = ls_rates_beside(&host, LS_F32, 4, 4, 8), many = ls_rates_beside(&host, LS_F32, 8, 16, 8);
    assert_float_equal(all.core.bytes[LS_KERNEL_ADD].far * 4e10, 2.5, 1e-6);
    assert_float_equal(half.core.bytes[LS_KERNEL_ADD].far * 4e10, 1.25, 1e-6); /* 4 draw all of 32 GB/s */
    assert_float_equal(one.core.bytes[LS_KERNEL_ADD].far * 1e10, 1, 1e-6);     /* one 10 GB/s */
    assert_float_equal(many.core.bytes[LS_KERNEL_ADD].far * 4e10, 2.5, 1e-6);  /* 8 threads with half a core each */
    assert_float_equal(one.core.bytes[LS_KERNEL_ADD].near * 1e10, 0.5, 1e-6);
    assert_float_equal(one.put.far * 1e10, 4, 1e-6);
    assert_float_equal(all.cache * 1e-6, 4, 1e-6);
    assert_float_equal(one.cache * 1e-6, 8, 1e-6);
    host.type[LS_F32].bytes[LS_KERNEL_ADD].near = 2e-10; /* its instructions bound it: no faster than in a cache */
    assert_float_equal(ls_rates_beside(&host, LS_F32, 1, 1, 8).core.bytes[LS_KERNEL_ADD].far * 1e10, 2, 1e-6);
}

/* Every kernel of the table can be called as its row says, and takes no less time from memory than from a cache. */
static void test_measured_streams(void **state) {
    (void)state;
    static const ls_dtype types[] = {LS_F32, LS_BF16, LS_F64};
    int measured = 0;
    ls_pool *pool;
    ls_timed_place place;
    assert_ok(ls_pool_create(2, false, &pool));
    assert_ok(ls_timed_place_open(&(ls_host_of){.isa = LS_ISA_BASE}, 0, pool, &place));
    for (size_t t = 0; t < LS_COUNT(types); t++) {
        ls_arena *arena = ls_arena_create();
        ls_byte_cost cost[LS_KERNEL_IDS];
        assert_ok(ls_measure_streams(arena, &place, types[t], 0x1p14, 0, cost));
        for (int i = 0; i < LS_KERNEL_IDS; i++) {
            if (ls_measured_as((ls_kernel_id)i) != (ls_kernel_id)i) continue;
            measured++;
            assert_true(cost[i].near > 0 && cost[i].near <= cost[i].far && cost[i].far < 1e-5);
        }
        ls_arena_destroy(arena);
    }
    ls_timed_place_close(&place);
    ls_pool_destroy(pool);
    assert_int_equal(measured, 3 * 28);
    assert_int_equal(ls_measured_as(LS_KERNEL_SUM), LS_KERNEL_ADD); /* it has no sample */
}

/* Measured costs are possible for a machine. */
static void test_measured(void **state) {
    (void)state;
    ls_arena *arena = ls_arena_create();
    ls_attention_cost cost[LS_DIRECTIONS];
    ls_timed_place place;
    assert_ok(ls_timed_place_open(&(ls_host_of){.isa = LS_ISA_BASE}, 0, NULL, &place));
    assert_ok(ls_measure_attention(arena, &place, LS_F64, cost)); /* the shortest calls */
    ls_timed_place_close(&place);
    for (int direction = 0; direction < LS_DIRECTIONS; direction++) {
        assert_true(cost[direction].flop > 1e-14 && cost[direction].flop < 1e-7);
        assert_true(cost[direction].pair >= 0 && cost[direction].pair < 1e-4);
        assert_true(cost[direction].row >= 0 && cost[direction].row < 1e-2);
        assert_true(cost[direction].byte >= 0 && cost[direction].byte < 1e-5);
    }
    ls_arena_destroy(arena);
}

static void test_file(void **state) {
    setenv("XDG_CACHE_HOME", *state, 1);
    ls_host host = ls_host_nominal(LS_DEVICE_CPU, LS_ISA_REF), found;
    assert_false(ls_host_load(&ref, &found, NULL));
    assert_memory_equal(&found, &host, sizeof host);
    for (int t = 0; t < 3; t++) {
        ls_core_rates *to = &host.type[(ls_dtype[]){LS_F32, LS_F64, LS_BF16}[t]];
        memcpy(to->attention, core.attention, sizeof to->attention);
        to->matmul = core.matmul;
    }
    host.overhead = 1e-7;
    host.piece = 1e-9;
    host.cache = 1e6;
    host.type[LS_F32].split = 0.25;
    host.put.far = 1e-8;
    host.type[LS_BF16].bytes[LS_KERNEL_ADAMW].near = 1e-12;
    assert_ok(ls_host_save(&ref, &host, &no_rows));
    assert_true(ls_host_load(&ref, &found, NULL));
    assert_memory_equal(&found, &host, sizeof host);
}

/* Of rows that are there and were measured, the fastest; one by itself is no choice. */
static void test_choice_of_rows(void **state) {
    (void)state;
    use_emulated_kernels();
    const ls_host_of gpu = {.device = LS_DEVICE_CUDA, .isa = LS_ISA_REF};
    const ls_row_rates rows = {.n = 9,
                               .rate = {{LS_KERNEL_ATTENTION, LS_F32, "own", 2e13},
                                        {LS_KERNEL_ATTENTION, LS_BF16, "own", 2e14},
                                        {LS_KERNEL_ATTENTION, LS_BF16, "cudnn", 5e14},
                                        {LS_KERNEL_ATTENTION_GRAD, LS_BF16, "own", 2e14},
                                        {LS_KERNEL_ATTENTION_GRAD, LS_BF16, "unknown", 5e14},
                                        {LS_KERNEL_MATMUL, LS_F32, "cublaslt", 4e13},
                                        {LS_KERNEL_MATMUL, LS_F32, "own", 5e13},
                                        {LS_KERNEL_MATMUL, LS_BF16, "cublaslt", 6e14},
                                        {LS_KERNEL_MATMUL, LS_BF16, "own", 3e14}}};
    const ls_kernel_choices choices = ls_row_choices(&gpu, &rows);
    char text[LS_KERNEL_CHOICES_ROOM];
    ls_kernel_choices_text(&choices, text);
    assert_string_equal(text, "attention/bf16=cudnn matmul/f32=own matmul/bf16=cublaslt");
    assert_int_equal(ls_row_choices(&ref, &no_rows).n, 0);
}

/* Sets the character behind the first place of this text in the file. */
static void change_file(const char *path, const char *behind, char to) {
    char text[1 << 15];
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    const size_t bytes = fread(text, 1, sizeof text - 1, file);
    assert_true(bytes < sizeof text - 1); /* all of it */
    text[bytes] = 0;
    char *at = strstr(text, behind);
    assert_non_null(at);
    at[strlen(behind)] = to;
    rewind(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

/* Kernels of another version have other rates; a file of the time before a kernel was measured lacks its rates. */
static void test_file_of_other_kernels(void **state) {
    setenv("XDG_CACHE_HOME", *state, 1);
    LS_PATH path = NULL;
    ls_host host = ls_host_nominal(LS_DEVICE_CPU, LS_ISA_REF), found;
    const ls_host nominal = host;
    host.overhead = 1e-7;
    assert_ok(ls_host_path(&ref, &path));
    static const struct {
        const char *behind;
        char to;
    } changes[] = {{"\"version\": \"", '9'}, {"\"con", 'w'} /* conv */};
    for (size_t i = 0; i < LS_COUNT(changes); i++) {
        assert_ok(ls_host_save(&ref, &host, &no_rows));
        assert_true(ls_host_load(&ref, &found, NULL));
        assert_memory_equal(&found, &host, sizeof host);
        change_file(path, changes[i].behind, changes[i].to);
        assert_false(ls_host_load(&ref, &found, NULL));
        assert_memory_equal(&found, &nominal, sizeof nominal);
    }
}

/* A choice is kept for each contract and type of a file; a file with more than there may be is refused. */
static void test_rows_of_file(void **state) {
    setenv("XDG_CACHE_HOME", *state, 1);
    ls_host host = ls_host_nominal(LS_DEVICE_CPU, LS_ISA_REF), found;
    ls_row_rates rows = {.n = 0}, kept;
    host.overhead = 1e-7;
    while (rows.n <= LS_KERNEL_CHOICES) {
        rows.rate[rows.n] = (ls_row_rate){(ls_kernel_id)(LS_KERNEL_NONE + 1 + rows.n), LS_F32, "own", 1e9};
        rows.n++;
        assert_ok(ls_host_save(&ref, &host, &rows));
        const bool valid = rows.n <= LS_KERNEL_CHOICES;
        assert_int_equal(ls_host_load(&ref, &found, &kept), valid);
        assert_int_equal(kept.n, valid ? rows.n : 0);
    }
}

/* The fuzzer's valid file has all rates of today, so that a changed file is read to its end. */
static void test_file_of_the_corpus(void **state) {
    setenv("XDG_CACHE_HOME", *state, 1);
    LS_PATH path = NULL;
    char text[1 << 15];
    ls_host found;
    ls_row_rates rows;
    assert_ok(ls_host_path(&ref, &path));
    FILE *from = fopen(FUZZ_CORPUS "/host_rates/good", "r"), *to = fopen(path, "w");
    assert_non_null(from);
    assert_non_null(to);
    const size_t bytes = fread(text, 1, sizeof text, from);
    assert_true(bytes < sizeof text);
    assert_int_equal(fwrite(text, 1, bytes, to), bytes);
    assert_int_equal(fclose(from), 0);
    assert_int_equal(fclose(to), 0);
    assert_true(ls_host_load(&ref, &found, &rows));
    assert_int_equal(rows.n, 3);
}

/* A file of an older format, or one written by hand: nominal rates are used. */
static void test_wrong_file(void **state) {
    setenv("XDG_CACHE_HOME", *state, 1);
    LS_PATH path = NULL;
    assert_ok(ls_host_path(&ref, &path));
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("{\"f32\": {\"attention\": 1e9, \"attention_grad\": 1e9, \"matmul\": 1e9}}", file);
    assert_int_equal(fclose(file), 0);
    ls_host found;
    const ls_host nominal = ls_host_nominal(LS_DEVICE_CPU, LS_ISA_REF);
    assert_false(ls_host_load(&ref, &found, NULL));
    assert_memory_equal(&found, &nominal, sizeof nominal);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention_rate),   cmocka_unit_test(test_attention_seconds),
        cmocka_unit_test(test_measured),         cmocka_unit_test(test_file),
        cmocka_unit_test(test_wrong_file),       cmocka_unit_test(test_file_of_the_corpus),
        cmocka_unit_test(test_shared_memory),    cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_measured_streams), cmocka_unit_test(test_file_of_other_kernels),
        cmocka_unit_test(test_choice_of_rows),   cmocka_unit_test(test_rows_of_file),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
