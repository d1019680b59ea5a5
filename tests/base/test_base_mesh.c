/* The mesh of ranks: numbers, neighbours, and every mistake in its text form. */
#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_numbering(void **state) {
    (void)state;
    for (int dp = 1; dp <= 3; dp++)
        for (int ring = 1; ring <= 4; ring++)
            for (int ulysses = 1; ulysses <= 4; ulysses++) {
                const ls_mesh mesh = ls_mesh_make(dp, ring, ulysses);
                assert_int_equal(ls_mesh_ranks(&mesh), dp * ring * ulysses);
                assert_int_equal(ls_mesh_sequence_ranks(&mesh), ring * ulysses);
                int rank = 0;
                for (int d = 0; d < dp; d++)
                    for (int r = 0; r < ring; r++)
                        for (int u = 0; u < ulysses; u++, rank++) {
                            assert_int_equal(ls_mesh_coordinate(&mesh, rank, LS_AXIS_DP), d);
                            assert_int_equal(ls_mesh_coordinate(&mesh, rank, LS_AXIS_RING), r);
                            assert_int_equal(ls_mesh_coordinate(&mesh, rank, LS_AXIS_ULYSSES), u);
                            assert_int_equal(ls_mesh_sequence_index(&mesh, rank), r * ulysses + u);
                        }
            }
}

static void test_neighbours(void **state) {
    (void)state;
    const ls_mesh mesh = ls_mesh_make(2, 3, 4);
    for (int rank = 0; rank < 24; rank++)
        for (int axis = 0; axis < LS_AXES; axis++)
            for (int c = 0; c < mesh.size[axis]; c++) {
                const int other = ls_mesh_neighbour(&mesh, rank, (ls_axis)axis, c);
                for (int a = 0; a < LS_AXES; a++)
                    assert_int_equal(ls_mesh_coordinate(&mesh, other, (ls_axis)a),
                                     a == axis ? c : ls_mesh_coordinate(&mesh, rank, (ls_axis)a));
            }
}

static void test_parse(void **state) {
    (void)state;
    const struct {
        const char *text;
        int size[LS_AXES];
    } good[] = {{"dp=2,ring=3,ulysses=4", {2, 3, 4}}, {"ulysses=4,dp=1", {1, 0, 4}}, {"ring=100000", {0, 100000, 0}}};
    for (size_t i = 0; i < LS_COUNT(good); i++) {
        ls_mesh mesh;
        assert_int_equal(ls_mesh_parse(good[i].text, &mesh).code, LS_OK);
        assert_memory_equal(mesh.size, good[i].size, sizeof mesh.size);
    }
    const struct {
        const char *text, *says;
    } bad[] = {
        {"", "expected dp=A"},
        {"ring", "'ring'"},
        {"tp=2", "'tp'"},
        {"ring=2,ring=2", "twice"},
        {"ring=0", "'0'"},
        {"ring=2147483648", "1 to 2147483647"},
        {"ring=-1", "'-1'"},
        {"ring=2x", "'2x'"},
        {"ring=", "''"},
        {"ring=2,", "no '='"},
        {"rin=2", "'rin'"},
        {"rings=2", "'rings'"},
        {"ring= 2", "' 2'"},
        {"ring=99999999999999999999", "99999999999999999999"},
        {"dp=2;ring=2", "'2;ring=2'"},
        {"dp=65536,ring=65536", "more than 2147483647 ranks"},
    };
    for (size_t i = 0; i < LS_COUNT(bad); i++) {
        ls_mesh mesh = ls_mesh_make(7, 7, 7);
        const ls_status status = ls_mesh_parse(bad[i].text, &mesh);
        assert_int_equal(status.code, LS_USAGE);
        if (!strstr(status.text, bad[i].says)) fail_msg("\"%s\" does not say \"%s\"", status.text, bad[i].says);
        assert_int_equal(mesh.size[0], 7);
    }
}

static void test_print(void **state) {
    (void)state;
    char text[64];
    ls_mesh mesh = ls_mesh_make(2, 4, 2);
    ls_mesh_print(&mesh, text, sizeof text);
    assert_string_equal(text, "dp 2 · ring 4 · ulysses 2");
    mesh = ls_mesh_make(1, 4, 1);
    ls_mesh_print(&mesh, text, sizeof text);
    assert_string_equal(text, "ring 4");
    mesh = ls_mesh_make(1, 1, 1);
    ls_mesh_print(&mesh, text, sizeof text);
    assert_string_equal(text, "1 rank");
    mesh = ls_mesh_make(2, 4, 2);
    ls_mesh_print(&mesh, text, 8); /* cut, never overrun */
    assert_true(strlen(text) < 8);
    for (int axis = 0; axis < LS_AXES; axis++)
        assert_string_equal(ls_axis_name((ls_axis)axis), ((const char *[]){"dp", "ring", "ulysses"})[axis]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbering),
        cmocka_unit_test(test_neighbours),
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_print),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
