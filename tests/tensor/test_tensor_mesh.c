/* The mesh of ranks: axes by kind, numbers, teams, meshes of so many ranks, and every mistake in its text form. */
#include "tensor/tensor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/meshes.h"

static void check_text(const ls_mesh *mesh, ls_axes axes, const char *expected) {
    char text[80];
    ls_mesh_text(mesh, axes, text, sizeof text);
    assert_string_equal(text, expected);
}

static void test_table(void **state) {
    (void)state;
    static const struct {
        const char *name;
        ls_factor factor;
        bool exchanges_heads;
    } expected[] = {{"pp", LS_FACTOR_NONE, false},         {"dp", LS_FACTOR_BATCH, false},
                    {"outer", LS_FACTOR_SEQUENCE, false},  {"ring", LS_FACTOR_SEQUENCE, false},
                    {"ulysses", LS_FACTOR_SEQUENCE, true}, {"tp", LS_FACTOR_NONE, false}};
    for (int i = 0; i < (int)LS_COUNT(expected); i++) {
        const ls_axis *axis = ls_axis_at(i);
        assert_string_equal(axis->name, expected[i].name);
        assert_int_equal(ls_axis_factor(axis), expected[i].factor);
        assert_int_equal(axis->exchanges_heads, expected[i].exchanges_heads);
        assert_true(axis->divides[0] != 0);
    }
    assert_null(ls_axis_at(LS_COUNT(expected)));
    assert_null(ls_axis_at(-1));
}

/* Axes of one rank are in no set of a kind. */
static void test_kinds(void **state) {
    (void)state;
    const ls_mesh mesh = mesh_of_two_rings(2, 3, 1, 4);
    check_text(&mesh, LS_ALL_AXES, "dp=2,far=3,near=1,ulysses=4");
    check_text(&mesh, ls_mesh_axes(&mesh, LS_AXIS_BATCH), "dp=2");
    check_text(&mesh, ls_mesh_axes(&mesh, LS_AXIS_SEQUENCE), "far=3,ulysses=4");
    check_text(&mesh, ls_mesh_axes_of_factor(&mesh, LS_FACTOR_SEQUENCE), "far=3,ulysses=4");
    check_text(&mesh, ls_mesh_axes_of_factor(&mesh, LS_FACTOR_BATCH), "dp=2");
    check_text(&mesh, ls_mesh_axes_of_factor(&mesh, LS_FACTOR_NONE), "");
    check_text(&mesh, ls_mesh_head_axes(&mesh), "ulysses=4");
    check_text(&mesh, ls_mesh_block_axes(&mesh), "far=3");
    check_text(&mesh, ls_mesh_shard_axes(&mesh), "dp=2,far=3,near=1,ulysses=4");
    ls_mesh features;
    assert_int_equal(ls_mesh_parse("tp=2,ring=3", &features).code, LS_OK);
    check_text(&features, ls_mesh_axes(&features, LS_AXIS_FEATURE), "tp=2");
    check_text(&features, ls_mesh_shard_axes(&features), "ring=3");
    assert_int_equal(ls_mesh_size(&mesh, 0), 1);
    assert_int_equal(ls_mesh_inner_size(&mesh, 0), 1);
    assert_int_equal(ls_mesh_inner_size(&mesh, ls_mesh_block_axes(&mesh)), 3);
    assert_int_equal(ls_mesh_inner_size(&mesh, LS_ALL_AXES), 4);
    assert_int_equal(ls_mesh_size(&mesh, ls_mesh_axes(&mesh, LS_AXIS_SEQUENCE)), 12);
    const ls_mesh alone = {0};
    assert_int_equal(ls_mesh_ranks(&alone), 1);
    assert_int_equal(ls_mesh_sequence_index(&alone, 0), 0);
    assert_int_equal(ls_mesh_axes(&alone, LS_AXIS_SEQUENCE), 0);
}

static void test_numbering(void **state) {
    (void)state;
    for (int dp = 1; dp <= 3; dp++)
        for (int far = 1; far <= 3; far++)
            for (int near = 1; near <= 2; near++)
                for (int ulysses = 1; ulysses <= 4; ulysses++) {
                    const ls_mesh mesh = mesh_of_two_rings(dp, far, near, ulysses);
                    const ls_axes blocks = ls_mesh_block_axes(&mesh), heads = ls_mesh_head_axes(&mesh);
                    assert_int_equal(ls_mesh_ranks(&mesh), dp * far * near * ulysses);
                    assert_int_equal(ls_mesh_sequence_ranks(&mesh), far * near * ulysses);
                    assert_int_equal(ls_mesh_replicas(&mesh), dp);
                    for (int rank = 0; rank < ls_mesh_ranks(&mesh); rank++) {
                        const int index = rank % (far * near * ulysses);
                        assert_int_equal(ls_mesh_replica(&mesh, rank), rank / (far * near * ulysses));
                        assert_int_equal(ls_mesh_index(&mesh, blocks, rank), index / ulysses);
                        assert_int_equal(ls_mesh_index(&mesh, heads, rank), rank % ulysses);
                        assert_int_equal(ls_mesh_sequence_index(&mesh, rank), index);
                        assert_int_equal(ls_mesh_sequence_rank(&mesh, index), index);
                    }
                }
}

/* A batch axis may also lie inside those of the sequence: nothing follows from the order but the numbers of ranks. */
static void test_any_order(void **state) {
    (void)state;
    const ls_mesh usual = mesh_of(2, 3, 1);
    const ls_mesh mesh = {.n = 2, .along = {usual.along[1], usual.along[0]}};
    check_text(&mesh, LS_ALL_AXES, "ring=3,dp=2");
    for (int rank = 0; rank < 6; rank++) {
        assert_int_equal(ls_mesh_replica(&mesh, rank), rank % 2);
        assert_int_equal(ls_mesh_sequence_index(&mesh, rank), rank / 2);
        assert_int_equal(ls_mesh_sequence_rank(&mesh, rank / 2), rank / 2 * 2);
    }
}

/* The members of a team differ along its axes alone, and its places count the outer axis slowest. */
static void test_teams(void **state) {
    (void)state;
    const ls_mesh mesh = mesh_of_two_rings(2, 3, 2, 2);
    for (ls_axes axes = 0; axes < ls_axis_bit(mesh.n); axes++) {
        const ls_team team = ls_mesh_team(&mesh, axes);
        const int size = ls_team_size(&team);
        assert_int_equal(size, ls_mesh_size(&mesh, axes));
        for (int rank = 0; rank < ls_mesh_ranks(&mesh); rank++) {
            assert_int_equal(ls_team_place(&team, rank), ls_mesh_index(&mesh, axes, rank));
            for (int shift = -size; shift <= size; shift++) {
                const int member = ls_team_member(&team, rank, shift);
                assert_int_equal(ls_mesh_index(&mesh, ~axes, member), ls_mesh_index(&mesh, ~axes, rank));
                assert_int_equal(ls_team_place(&team, member), (ls_team_place(&team, rank) + shift + size) % size);
            }
        }
    }
    const ls_team rings = ls_mesh_team(&mesh, ls_mesh_block_axes(&mesh)), all = ls_mesh_team(&mesh, LS_ALL_AXES);
    assert_int_equal(rings.digits, 2);
    assert_int_equal(ls_team_member(&rings, 0, 1), 2); /* the next along near */
    assert_int_equal(ls_team_member(&rings, 0, 2), 4); /* the next along far */
    assert_false(ls_team_equal(&rings, &all));
    assert_true(ls_team_equal(&rings, &rings));
}

/* By digit, a distance has digits as a place has, each goes its own way round, and every member is at one distance. */
static void test_teams_by_digit(void **state) {
    (void)state;
    const ls_mesh mesh = mesh_of(2, 3, 12);
    const ls_team block = ls_mesh_team(&mesh, ls_mesh_head_axes(&mesh));
    ls_team split, outer;
    for (int inner = 1; inner <= 12; inner++) {
        assert_int_equal(ls_team_split(&block, inner, &split, &outer), 12 % inner == 0);
        if (12 % inner != 0) continue;
        assert_int_equal(ls_team_size(&outer), 12 / inner);
        assert_int_equal(ls_team_equal(&split, &block), false);
        for (int rank = 0; rank < ls_mesh_ranks(&mesh); rank++) {
            const int place = ls_team_place(&split, rank);
            assert_int_equal(place, ls_team_place(&block, rank));
            assert_int_equal(ls_team_place(&outer, rank), place / inner);
            unsigned met = 0;
            for (int shift = 0; shift < 12; shift++) {
                const int member = ls_team_member(&split, rank, shift), there = ls_team_place(&split, member);
                assert_int_equal(there, ls_team_place_at(&split, rank, shift));
                assert_int_equal(there % inner, (place + shift) % inner);
                assert_int_equal(there / inner, ls_team_place_at(&outer, rank, shift / inner));
                assert_int_equal(ls_team_member(&split, member, ls_team_back(&split, shift)), rank);
                assert_int_equal(ls_team_member(&split, member, -shift), rank);
                assert_int_equal(
                    ls_team_member(&block, ls_team_member(&block, rank, shift), ls_team_back(&block, shift)), rank);
                met |= 1U << there;
            }
            assert_int_equal(met, (1U << 12) - 1);
        }
    }
    const ls_team apart = ls_mesh_team(&mesh, ls_mesh_axes(&mesh, LS_AXIS_BATCH) | ls_mesh_head_axes(&mesh));
    assert_true(ls_team_split(&apart, 12, &split, &outer)); /* between the digits of both axes */
    assert_int_equal(split.digits, 2);
    assert_int_equal(ls_team_place(&outer, 71), 1);
    assert_false(ls_team_split(&apart, 8, &split, &outer));
}

static void test_comparisons(void **state) {
    (void)state;
    const ls_mesh mesh = mesh_of(2, 3, 1), other = mesh_of(2, 1, 3);
    assert_true(ls_mesh_equal(&mesh, &mesh));
    assert_false(ls_mesh_equal(&mesh, &other));
    ls_mesh wanted;
    assert_int_equal(ls_mesh_parse("ring=3,dp=2", &wanted).code, LS_OK);
    assert_true(ls_mesh_allows(&wanted, &mesh));
    assert_false(ls_mesh_allows(&wanted, &other));
    assert_true(ls_mesh_allows(&mesh, &wanted)); /* what is not listed has one rank */
    assert_true(ls_mesh_lists(&wanted, ls_axis_at(3)));
    assert_false(ls_mesh_lists(&wanted, ls_axis_at(4)));
    ls_mesh wider = mesh;
    ls_mesh_widen(&wider, LS_AXIS_SEQUENCE, 2);
    check_text(&wider, LS_ALL_AXES, "dp=2,ring=6,ulysses=1");
}

/* --- meshes of so many ranks -------------------------------------------------------------------------------------- */

enum { VISITED = 300 };

static ls_status write_down(void *context, const ls_mesh *mesh) {
    char *text = context, one[64];
    const size_t used = strlen(text);
    ls_mesh_text(mesh, LS_ALL_AXES, one, sizeof one);
    snprintf(text + used, VISITED - used, "%s ", one);
    return ls_ok();
}

static ls_status refuse_second(void *context, const ls_mesh *mesh) {
    (void)mesh;
    return ++*(int *)context == 2 ? ls_error(LS_INVALID, "the second") : ls_ok();
}

static void test_visits(void **state) {
    (void)state;
    static const struct {
        const char *given; /* NULL: nothing */
        int ranks;
        const char *expected;
        bool features;
    } cases[] = {
        {NULL, 1, "dp=1,ring=1,ulysses=1,tp=1 ", false},
        {NULL, 4,
         "dp=1,ring=4,ulysses=1,tp=1 dp=1,ring=2,ulysses=2,tp=1 dp=1,ring=1,ulysses=4,tp=1 "
         "dp=1,outer=2,ring=2,ulysses=1,tp=1 ",
         false},
        {"outer=2", 4, "dp=1,outer=2,ring=2,ulysses=1,tp=1 dp=1,outer=2,ring=1,ulysses=2,tp=1 ", false},
        {"outer=1", 2, "dp=1,outer=1,ring=2,ulysses=1,tp=1 dp=1,outer=1,ring=1,ulysses=2,tp=1 ", false},
        {"dp=2", 4, "dp=2,ring=2,ulysses=1,tp=1 dp=2,ring=1,ulysses=2,tp=1 ", false},
        {"ulysses=2", 6, "dp=1,ring=3,ulysses=2,tp=1 ", false},
        {"dp=2", 12,
         "dp=2,ring=6,ulysses=1,tp=1 dp=2,ring=3,ulysses=2,tp=1 dp=2,ring=2,ulysses=3,tp=1 "
         "dp=2,ring=1,ulysses=6,tp=1 dp=2,outer=2,ring=3,ulysses=1,tp=1 dp=2,outer=3,ring=2,ulysses=1,tp=1 ",
         false},
        {"ring=3", 6, "dp=1,ring=3,ulysses=2,tp=1 ", false},
        {"ring=2,ulysses=3", 6, "dp=1,ring=2,ulysses=3,tp=1 ", false},
        {"ring=2,ulysses=2", 6, "", false},
        {"ring=2,ulysses=2", 8, "", false},
        {"dp=3", 4, "", false},
        {"pp=2", 4, "pp=2,dp=1,ring=2,ulysses=1,tp=1 pp=2,dp=1,ring=1,ulysses=2,tp=1 ", false},
        {"tp=2", 4, "dp=1,ring=2,ulysses=1,tp=2 dp=1,ring=1,ulysses=2,tp=2 ", false},
        {"ring=1", 4, "dp=1,ring=1,ulysses=4,tp=1 dp=1,ring=1,ulysses=2,tp=2 dp=1,ring=1,ulysses=1,tp=4 ", true},
        {"tp=4", 4, "dp=1,ring=1,ulysses=1,tp=4 ", true},
    };
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        ls_mesh given = {0};
        char text[VISITED] = "";
        if (cases[i].given != NULL) assert_int_equal(ls_mesh_parse(cases[i].given, &given).code, LS_OK);
        assert_int_equal(ls_meshes_visit(&given, cases[i].features, cases[i].ranks, write_down, text).code, LS_OK);
        assert_string_equal(text, cases[i].expected);
    }
    int visits = 0;
    assert_int_equal(ls_meshes_visit(&(ls_mesh){0}, false, 4, refuse_second, &visits).code, LS_INVALID);
    assert_int_equal(visits, 2);
}

/* --- as text ------------------------------------------------------------------------------------------------------ */

static void test_parse(void **state) {
    (void)state;
    static const struct {
        const char *text, *listed;
    } good[] = {{"dp=2,ring=3,ulysses=4", "dp=2,ring=3,ulysses=4"},
                {"ulysses=4,dp=1", "dp=1,ulysses=4"},
                {"ring=100000", "ring=100000"}};
    for (size_t i = 0; i < LS_COUNT(good); i++) {
        ls_mesh mesh;
        assert_int_equal(ls_mesh_parse(good[i].text, &mesh).code, LS_OK);
        check_text(&mesh, LS_ALL_AXES, good[i].listed);
    }
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"", "expected AXIS=RANKS, where AXIS is pp, dp, outer, ring, ulysses or tp"},
        {"ring", "'ring'"},
        {"ep=2", "mesh axis 'ep' is unknown; expected pp, dp, outer, ring, ulysses or tp"},
        {"ring=2,ring=2", "mesh axis 'ring' is given twice"},
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
        ls_mesh mesh = mesh_of(7, 7, 7);
        const ls_status status = ls_mesh_parse(bad[i].text, &mesh);
        assert_int_equal(status.code, LS_USAGE);
        if (!strstr(status.text, bad[i].says)) fail_msg("\"%s\" does not say \"%s\"", status.text, bad[i].says);
        assert_int_equal(ls_mesh_ranks(&mesh), 343);
    }
}

static void test_print(void **state) {
    (void)state;
    char text[64];
    ls_mesh mesh = mesh_of(2, 4, 2);
    ls_mesh_print(&mesh, text, sizeof text);
    assert_string_equal(text, "dp 2 · ring 4 · ulysses 2");
    ls_mesh_print(&mesh, text, 8); /* cut, never overrun */
    assert_true(strlen(text) < 8);
    ls_mesh_text(&mesh, LS_ALL_AXES, text, 8);
    assert_true(strlen(text) < 8);
    mesh = mesh_of_outer(1, 2, 3, 1);
    ls_mesh_print(&mesh, text, sizeof text);
    assert_string_equal(text, "outer 2 · ring 3");
    mesh = mesh_of(1, 4, 1);
    ls_mesh_print(&mesh, text, sizeof text);
    assert_string_equal(text, "ring 4");
    mesh = mesh_of(1, 1, 1);
    ls_mesh_print(&mesh, text, sizeof text);
    assert_string_equal(text, "1 rank");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),       cmocka_unit_test(test_kinds),  cmocka_unit_test(test_numbering),
        cmocka_unit_test(test_any_order),   cmocka_unit_test(test_teams),  cmocka_unit_test(test_teams_by_digit),
        cmocka_unit_test(test_comparisons), cmocka_unit_test(test_visits), cmocka_unit_test(test_parse),
        cmocka_unit_test(test_print),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
