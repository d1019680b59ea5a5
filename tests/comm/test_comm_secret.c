/* Where the key of a job comes from: a variable, a file that only its owner reads, the user's own file, or nothing. */
#include "comm/rendezvous_impl.h"
#include "support/world.h"

#include <stdlib.h>
#include <sys/stat.h>

static const char text[] = "a secret of the ranks";
static char folder[64], path[128];

static int set_up(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/longspan-test-XXXXXX");
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(path, sizeof path, "%s/secret", folder);
    unsetenv(LS_SECRET_VARIABLE);
    unsetenv(LS_SECRET_FILE_VARIABLE);
    return setenv("XDG_CACHE_HOME", folder, 1);
}

static int tear_down(void **state) {
    (void)state;
    char own[128];
    (void)unlink(path);
    snprintf(own, sizeof own, "%s/longspan/secret", folder);
    (void)unlink(own);
    snprintf(own, sizeof own, "%s/longspan", folder);
    (void)rmdir(own);
    return rmdir(folder);
}

static ls_rendezvous_point point_of(int rank, bool all_here) {
    return (ls_rendezvous_point){
        .rank = rank, .ranks = 2, .host = "127.0.0.1", .all_here = all_here, .port = 1, .seconds = 0.2};
}

static void write_secret(const char *what, mode_t mode) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(what, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static bool are_alike(const ls_rendezvous_point *a, const ls_rendezvous_point *b) {
    return memcmp(&a->key, &b->key, sizeof a->key) == 0;
}

static void test_a_variable(void **state) {
    (void)state;
    ls_rendezvous_point a = point_of(0, false), b = point_of(1, false), other_job = a, other = a, none = a;
    setenv(LS_SECRET_VARIABLE, text, 1);
    assert_ok(ls_secret_find("job", &a));
    assert_ok(ls_secret_find("job", &b));
    assert_ok(ls_secret_find("another job", &other_job));
    setenv(LS_SECRET_VARIABLE, "another secret of ranks", 1);
    assert_ok(ls_secret_find("job", &other));
    unsetenv(LS_SECRET_VARIABLE);
    assert_ok(ls_secret_find("job", &none));
    assert_true(a.has_secret && are_alike(&a, &b));
    assert_false(are_alike(&a, &other_job) || are_alike(&a, &other) || are_alike(&a, &none));
    assert_false(none.has_secret);
    setenv(LS_SECRET_VARIABLE, "123456789012345", 1);
    assert_fails(ls_secret_find("job", &a), LS_USAGE, "LONGSPAN_SECRET has 15 characters; expected 16 or more");
    setenv(LS_SECRET_FILE_VARIABLE, path, 1);
    assert_fails(ls_secret_find("job", &a), LS_USAGE, "expected one of them");
}

static void test_a_file_of_its_owner(void **state) {
    (void)state;
    ls_rendezvous_point a = point_of(0, false), b = point_of(1, false);
    setenv(LS_SECRET_FILE_VARIABLE, path, 1);
    write_secret(text, 0600);
    assert_ok(ls_secret_find("job", &a));
    setenv(LS_SECRET_VARIABLE, text, 1);
    unsetenv(LS_SECRET_FILE_VARIABLE);
    assert_ok(ls_secret_find("job", &b));
    assert_true(are_alike(&a, &b));
    unsetenv(LS_SECRET_VARIABLE);
    setenv(LS_SECRET_FILE_VARIABLE, path, 1);

    const mode_t modes[] = {0644, 0640, 0620, 0602};
    for (size_t i = 0; i < LS_COUNT(modes); i++) {
        assert_int_equal(chmod(path, modes[i]), 0);
        assert_fails(ls_secret_find("job", &a), LS_INVALID, "expected a file of user");
    }
    write_secret("too short", 0600);
    assert_fails(ls_secret_find("job", &a), LS_INVALID, "has 9 bytes; expected 16 to 4096");
    char link[128];
    snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(symlink(path, link), 0);
    setenv(LS_SECRET_FILE_VARIABLE, link, 1);
    assert_fails(ls_secret_find("job", &a), LS_INVALID, "link: open: ");
    assert_int_equal(unlink(link), 0);
    setenv(LS_SECRET_FILE_VARIABLE, folder, 1);
    assert_fails(ls_secret_find("job", &a), LS_INVALID, "expected a file of user");
}

static void test_rank_0_makes_the_file(void **state) {
    (void)state;
    ls_rendezvous_point a = point_of(0, false), b = point_of(1, false);
    struct stat made;
    setenv(LS_SECRET_FILE_VARIABLE, path, 1);
    assert_fails(ls_secret_find("job", &b), LS_INVALID, "is not there after 0.2 s; expected rank 0 to make it");
    assert_ok(ls_secret_find("job", &a));
    assert_ok(ls_secret_find("job", &b));
    assert_true(a.has_secret && are_alike(&a, &b));
    assert_int_equal(stat(path, &made), 0);
    assert_int_equal(made.st_mode & 0777, 0600);
    assert_int_equal(made.st_size, 32);
}

static void test_the_users_own_file(void **state) {
    (void)state;
    ls_rendezvous_point a = point_of(1, true), b = point_of(0, true), none = point_of(0, true);
    assert_ok(ls_secret_find("job", &a));
    assert_ok(ls_secret_find("job", &b));
    assert_true(a.has_secret && are_alike(&a, &b));
    setenv("XDG_CACHE_HOME", "/proc/nothing", 1); /* where nobody can make a folder */
    assert_ok(ls_secret_find("job", &none));
    assert_false(none.has_secret || are_alike(&a, &none));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_variable, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_file_of_its_owner, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rank_0_makes_the_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_users_own_file, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
