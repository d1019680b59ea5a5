/* A folder has one holder at a time, and the lock of a dead holder blocks nobody. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "support/scratch.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

static const char *new_folder(void **state, const char *name) {
    const char *folder = scratch_path(state, name);
    assert_ok(ls_file_make_folders(folder));
    return folder;
}

static char *lock_file(const char *folder) {
    char *path = NULL;
    assert_ok(ls_path_join(folder, "longspan.lock", &path));
    return path;
}

/*
 * A process that takes the lock, starts another one that lives `after` milliseconds longer, says so, and waits to be
 * killed.
 */
static pid_t holder_in(const char *folder, int after) {
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        ls_lock *lock;
        if (ls_lock_take(folder, &lock).code != LS_OK) _exit(1);
        const pid_t parent = getpid(); /* asked for by the other, it might be dead */
        if (after > 0 && fork() == 0) {
            close(ends[1]);
            while (getppid() == parent) usleep(1000);
            usleep((useconds_t)after * 1000);
            _exit(0);
        }
        if (write(ends[1], "x", 1) != 1) _exit(1);
        for (;;) pause();
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    return child;
}

static void end_by_force(pid_t process) {
    assert_int_equal(kill(process, SIGKILL), 0);
    assert_int_equal(waitpid(process, NULL, 0), process);
}

static void one_at_a_time(void **state) {
    const char *folder = new_folder(state, "one");
    LS_PATH path = lock_file(folder);
    ls_lock *first, *second;
    char process[32], host[65] = "";
    (void)gethostname(host, sizeof host - 1);
    snprintf(process, sizeof process, "process %d ", (int)getpid());
    assert_ok(ls_lock_take(folder, &first));
    assert_error(ls_lock_take(folder, &second), LS_USAGE, process, host);
    assert_true(ls_lock_is_valid(first));
    ls_lock_release(first);
    assert_false(ls_file_exists(path));
    assert_ok(ls_lock_take(folder, &second));
    ls_lock_release(second);
    assert_error(ls_lock_take(scratch_path(state, "nowhere"), &second), LS_IO, "nowhere/longspan.lock", "");
}

static void another_process(void **state) {
    const char *folder = new_folder(state, "other");
    LS_PATH path = lock_file(folder);
    ls_lock *lock;
    char process[32];
    const pid_t holder = holder_in(folder, 0);
    snprintf(process, sizeof process, "process %d ", (int)holder);
    assert_error(ls_lock_take(folder, &lock), LS_USAGE, process, path);
    end_by_force(holder);
    assert_true(ls_file_exists(path)); /* what is left of it is no hindrance */
    assert_ok(ls_lock_take(folder, &lock));
    ls_lock_release(lock);
    assert_false(ls_file_exists(path));
}

/* A launcher is killed and its ranks end a moment later: nobody starts beside them, and nobody is refused. */
static void what_a_holder_leaves_running(void **state) {
    const char *folder = new_folder(state, "ranks");
    ls_lock *lock;
    const pid_t holder = holder_in(folder, 400);
    end_by_force(holder);
    const double began = ls_seconds();
    assert_ok(ls_lock_take(folder, &lock));
    assert_true(ls_seconds() - began > 0.2);
    ls_lock_release(lock);
}

/*
 * Files of holders on a machine that was started again, and elsewhere: on a file system of this machine the kernel
 * knows better.
 */
static void stale_files(void **state) {
    static const char *const texts[] = {
        "",
        "{",
        "[1]",
        "{\"process\": 1, \"host\": \"elsewhere\", \"boot\": \"1\", \"started\": 7, \"since\": \"then\"}",
        "{\"process\": -4}",
        "{\"process\": 1}"};
    const char *folder = new_folder(state, "stale");
    LS_PATH path = lock_file(folder);
    ls_lock *lock;
    for (size_t i = 0; i < LS_COUNT(texts); i++) {
        assert_ok(ls_file_write(path, texts[i], strlen(texts[i])));
        assert_ok(ls_lock_take(folder, &lock));
        ls_lock_release(lock);
    }
    assert_int_equal(unlink(path), -1);
    assert_int_equal(symlink("nowhere", path), 0); /* nothing is written where a link leads */
    assert_error(ls_lock_take(folder, &lock), LS_IO, path, "");
}

/* All ask at once, and whoever has it keeps it until all have been answered. */
static void of_many_one(void **state) {
    enum { MANY = 12 };
    const char *folder = new_folder(state, "many");
    pid_t process[MANY];
    int start[2], answered[2], end[2], got = 0;
    char byte = 0;
    assert_int_equal(pipe(start) | pipe(answered) | pipe(end), 0);
    for (int i = 0; i < MANY; i++) {
        process[i] = fork();
        assert_true(process[i] >= 0);
        if (process[i] > 0) continue;
        ls_lock *lock;
        close(start[1]);
        close(end[1]);
        if (read(start[0], &byte, 1) != 0) _exit(9);
        const ls_code code = ls_lock_take(folder, &lock).code;
        if (write(answered[1], &byte, 1) != 1 || read(end[0], &byte, 1) != 0) _exit(9);
        _exit(code == LS_OK ? 0 : code == LS_USAGE ? 1 : 2);
    }
    close(start[0]);
    close(start[1]);
    for (int i = 0; i < MANY; i++) assert_int_equal(read(answered[0], &byte, 1), 1);
    close(end[1]);
    for (int i = 0; i < MANY; i++) {
        int result;
        assert_int_equal(waitpid(process[i], &result, 0), process[i]);
        assert_in_range(WEXITSTATUS(result), 0, 1);
        got += WEXITSTATUS(result) == 0;
    }
    assert_int_equal(got, 1);
    close(answered[0]);
    close(answered[1]);
    close(end[0]);
}

static void a_folder_in_its_place(void **state) {
    const char *folder = new_folder(state, "place"), *moved = scratch_path(state, "moved");
    LS_PATH path = lock_file(folder);
    ls_lock *lock, *other;
    assert_ok(ls_lock_take(folder, &lock));
    assert_int_equal(rename(folder, moved), 0);
    assert_false(ls_lock_is_valid(lock));
    new_folder(state, "place");
    assert_ok(ls_lock_take(folder, &other));
    ls_lock_release(lock);
    assert_true(ls_lock_is_valid(other)); /* another's file is left alone */
    ls_lock_release(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_at_a_time),
        cmocka_unit_test(another_process),
        cmocka_unit_test(what_a_holder_leaves_running),
        cmocka_unit_test(stale_files),
        cmocka_unit_test(of_many_one),
        cmocka_unit_test(a_folder_in_its_place),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
