/*
 * cache_write of every type: rows are written at their position, all others stay, and rows without a position are
 * left out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "support/kernel_call.h"

enum { B = 2, M = 3, K = 5, ROW = 6 }; /* heads of size 3, two of them */

/* Element types told apart by their bytes alone: row r holds the byte r + 1 over and over. */
static void write_rows(ls_dtype dtype) {
    const size_t row = ROW * ls_dtype_bytes(dtype);
    uint8_t x[B * M * ROW * 8], cache[B * K * ROW * 8];
    int32_t kpos[K] = {0, 3, 4, 9, 12};
    int32_t positions[B * M] = {9, 0, 5, 12, 3, 13};                   /* 5 and 13 are nobody's here */
    static const int expected[B * K] = {2, 0, 0, 1, 0, 0, 5, 0, 0, 4}; /* 0: as it was */
    memset(cache, 0xee, sizeof cache);
    for (int r = 0; r < B * M; r++) memset(x + (size_t)r * row, r + 1, row);
    run_kernel(
        "cache_write", dtype, LS_ISA_REF, 2,
        (ls_kernel_call){.n_in = 3,
                         .in = {VIEW(x, dtype, B, M, 2, 3), VIEW(positions, LS_I32, B, M), VIEW(kpos, LS_I32, K)},
                         .n_out = 1,
                         .out = {VIEW(cache, dtype, B, K, 2, 3)}});
    for (size_t i = 0; i < B * K * row; i++)
        assert_int_equal(cache[i], expected[i / row] != 0 ? expected[i / row] : 0xee);
}

static void rows_go_to_their_positions(void **state) {
    (void)state;
    write_rows(LS_F32);
    write_rows(LS_F64);
    write_rows(LS_BF16);
}

static void other_shapes_are_refused(void **state) {
    (void)state;
    float x[6] = {0}, cache[12];
    int32_t places[2] = {0, 1};
    const ls_kernel_call call = {
        .n_in = 3,
        .in = {VIEW(x, LS_F32, 1, 1, 2, 3), VIEW(places, LS_I32, 1, 1), VIEW(places, LS_I32, 2)},
        .n_out = 1,
        .out = {VIEW(cache, LS_F32, 1, 2, 3, 2)}};
    assert_int_equal(prepare_kernel("cache_write", LS_F32, LS_ISA_REF, call).code, LS_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_go_to_their_positions),
                                       cmocka_unit_test(other_shapes_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
