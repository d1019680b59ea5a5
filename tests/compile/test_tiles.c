/*
 * How many tokens a tile has where nobody says it: on a processor as many as take about 96 MiB, on a GPU thousands, in
 * multiples that its multiprocessors share evenly.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile/compile_impl.h"

static ls_device_tiles tiles_of(const char *device) {
    const char *name;
    ls_device_traits traits;
    assert_int_equal(ls_device_choose(device, &name, &traits).code, LS_OK);
    return traits.tiles;
}

/* Bytes of a token: the feed-forward block of an 8B model, its logits of 128 K words in bf16 and in f32. */
enum { BLOCK = 6 * 2 * 14336, LOGITS = 4 * 128256, WIDE_LOGITS = 8 * 128256 };

static void test_of_a_gpu(void **state) {
    (void)state;
    const ls_device_tiles gpu = tiles_of("cuda");
    assert_int_equal(ls_tile_choose(&gpu, 65536, BLOCK), 8192);
    assert_int_equal(ls_tile_choose(&gpu, 65536, LOGITS), 13 * 256);      /* 1.5 GiB are 3,139 tokens */
    assert_int_equal(ls_tile_choose(&gpu, 65536, WIDE_LOGITS), 11 * 256); /* 25 tiles, as on a processor */
    assert_int_equal(ls_tile_choose(&gpu, 1 << 20, BLOCK), 8192);
    for (int64_t rows = 8193; rows < 40000; rows += 777) {
        const int64_t tile = ls_tile_choose(&gpu, rows, BLOCK);
        assert_true(tile % 256 == 0 && tile >= 4096 && tile <= 8192);
    }
    assert_true(ls_tile_choose(&gpu, 8192, BLOCK) >= 8192); /* one tile is none */
}

static void test_of_a_processor(void **state) {
    (void)state;
    const ls_device_tiles host = tiles_of("cpu");
    assert_int_equal(ls_tile_choose(&host, 65536, BLOCK), 2624); /* 25 tiles */
    assert_int_equal(ls_tile_choose(&host, 4096, BLOCK), 512);   /* 96 MiB are 585 tokens */
    assert_int_equal(ls_tile_choose(&host, 4096, 1 << 30), 176); /* 24 tiles at most */
    assert_int_equal(tiles_of("delayed:1").unit, host.unit);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_of_a_gpu), cmocka_unit_test(test_of_a_processor)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
