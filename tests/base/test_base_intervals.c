/* Sets of intervals: additions, removals and queries in random order give what a plain list gives. */
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MEMBERS = 300, LINE = 1000, STEPS = 20000 };

static uint64_t draws;
static int draw_below(int n) { return (int)ls_rng_below(13, 4, draws++, (uint64_t)n); }

static void test_as_a_plain_list(void **state) {
    (void)state;
    ls_arena *arena = ls_arena_create();
    ls_interval *all = LS_NEW_ARRAY(arena, ls_interval, MEMBERS);
    bool *in = LS_NEW_ARRAY(arena, bool, MEMBERS);
    ls_intervals set = {0};
    ls_interval_list found = {.arena = arena};
    for (int step = 0; step < STEPS; step++) {
        const int i = draw_below(MEMBERS);
        if (in[i]) {
            ls_intervals_remove(&set, &all[i]);
        } else {
            all[i].from = (size_t)draw_below(LINE);
            all[i].past = all[i].from + 1 + (size_t)draw_below(draw_below(10) == 0 ? LINE : 20);
            ls_intervals_add(&set, &all[i]);
        }
        in[i] = !in[i];
        const size_t from = (size_t)draw_below(LINE), past = from + 1 + (size_t)draw_below(50);
        int expected = 0;
        for (int k = 0; k < MEMBERS; k++) expected += in[k] && all[k].from < past && from < all[k].past;
        ls_intervals_find(&set, from, past, &found);
        assert_int_equal(found.n, expected);
        for (int k = 0; k < found.n; k++) {
            assert_true(in[found.item[k] - all] && found.item[k]->from < past && from < found.item[k]->past);
            if (k > 0) assert_true(found.item[k - 1]->from <= found.item[k]->from);
        }
    }
    ls_arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_a_plain_list)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
