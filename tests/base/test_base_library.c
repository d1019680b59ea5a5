/*
 * Where libraries of others are found that the dynamic linker does not know: in a Python's packages, in a toolkit, as
 * VIRTUAL_ENV, PATH, HOME and CUDA_HOME name them. The folders are looked for once in a process, so each case is one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/scratch.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define FILE_NAME "libls-nowhere-else.so.7"

/* Names of cases are within a folder of their own. */
typedef struct test_case {
    const char *variable, *value;  /* of the environment; NULL: none is set */
    const char *library;           /* the folder that it lies in */
    const char *python, *links_to; /* a program, and what it is a link to; NULL: it is a file */
    const char *mark;              /* another file; NULL: none */
    bool missing;                  /* it must not be found */
} test_case;

static const test_case cases[] = {
    {"VIRTUAL_ENV", "env", "env/lib/python3.11/site-packages/nvidia/cudnn/lib", NULL, NULL, NULL, false},
    {"VIRTUAL_ENV", "an [odd*] name", "an [odd*] name/lib/python3.9/site-packages/nvidia/cu13/lib", NULL, NULL, NULL,
     false},
    {"PATH", "conda/bin", "conda/lib/python3.12/site-packages/nvidia/nccl/lib", "conda/bin/python3", NULL, NULL, false},
    {"PATH", "conda/bin", "conda/lib", "conda/bin/python3", NULL, NULL, false},
    {"PATH", "debian/bin", "debian/lib/python3/dist-packages/nvidia/cudnn/lib", "debian/bin/python3", NULL, NULL,
     false},
    {"PATH", "shims", "versions/3.11.7/lib/python3.11/site-packages/nvidia/cudnn/lib", "shims/python3", NULL, NULL,
     false},
    {"PATH", "bin", "real/lib/python3.11/site-packages/nvidia/cudnn/lib", "bin/python3", "real/bin/python3.11", NULL,
     false},
    {"PATH", "env/bin", "real/lib/python3.11/site-packages/nvidia/cudnn/lib", "env/bin/python3", "real/bin/python3.11",
     "env/pyvenv.cfg", true},
    {"PATH", "env/bin", "env/lib/python3.11/site-packages/nvidia/cudnn/lib", "env/bin/python3", "real/bin/python3.11",
     "env/pyvenv.cfg", false},
    {"HOME", "user", "user/.local/lib/python3.11/site-packages/nvidia/cudnn/lib", NULL, NULL, NULL, false},
    {"CUDA_HOME", "toolkit", "toolkit/lib64", NULL, NULL, NULL, false},
    {"CUDA_PATH", "toolkit", "toolkit/lib", NULL, NULL, NULL, false},
    {NULL, NULL, "toolkit/lib64", NULL, NULL, NULL, true},
};

/* Makes the folders on the way to a file. */
static void make_folders(const char *path) {
    char part[LS_PATH_ROOM];
    for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        (void)mkdir(part, 0777);
    }
}

static bool make_file(const char *path, const char *text) {
    make_folders(path);
    FILE *file = fopen(path, "w");
    return file != NULL && fputs(text, file) >= 0 && fclose(file) == 0 && chmod(path, 0777) == 0;
}

/* The folder, with what the case has in it; it becomes the process's own. */
static bool make(const test_case *c, const char *folder) {
    char path[LS_PATH_ROOM], target[LS_PATH_ROOM];
    if (mkdir(folder, 0777) != 0 || chdir(folder) != 0) return false;
    snprintf(path, sizeof path, "%s/" FILE_NAME, c->library);
    make_folders(path);
    bool is = symlink(LS_TEST_FAKES "libcublasLt.so.13", path) == 0;
    if (c->python != NULL && c->links_to != NULL) {
        snprintf(target, sizeof target, "%s/%s", folder, c->links_to);
        make_folders(c->python);
        is = is && make_file(c->links_to, "") && symlink(target, c->python) == 0;
    } else if (c->python != NULL) {
        is = is && make_file(c->python, "");
    }
    return is && (c->mark == NULL || make_file(c->mark, ""));
}

static bool passes(const test_case *c, const char *folder) {
    char value[LS_PATH_ROOM], expected[2 * LS_PATH_ROOM], path[LS_PATH_ROOM] = "";
    void *handle = NULL;
    setenv("PATH", "/nowhere", 1);
    setenv("HOME", "/nowhere", 1);
    unsetenv("VIRTUAL_ENV");
    unsetenv("CUDA_HOME");
    unsetenv("CUDA_PATH");
    snprintf(value, sizeof value, "%s/%s", folder, c->value);
    if (c->variable != NULL) setenv(c->variable, value, 1);
    if (!make(c, folder)) return false;
    const ls_status status = ls_library_open(FILE_NAME, &handle, path);
    snprintf(expected, sizeof expected, "%s/%s/" FILE_NAME, folder, c->library);
    const bool is = c->missing ? status.code == LS_UNSUPPORTED && strstr(status.text, FILE_NAME) != NULL
                               : status.code == LS_OK && handle != NULL && strcmp(path, expected) == 0;
    if (!is) printf("%s=%s: '%s' %s; expected %s\n", c->variable, c->value, status.text, path, expected);
    return is;
}

static bool tells_what_is_broken(const test_case *c, const char *folder) {
    (void)c;
    char file[LS_PATH_ROOM];
    void *handle = NULL;
    snprintf(file, sizeof file, "%s/lib/" FILE_NAME, folder);
    setenv("CUDA_HOME", folder, 1);
    const bool made = make_file(file, "no library");
    const ls_status status = ls_library_open(FILE_NAME, &handle, NULL);
    const bool is = made && status.code == LS_UNSUPPORTED && strstr(status.text, file) != NULL;
    if (!is) printf("'%s'; expected %s\n", status.text, file);
    return is;
}

/* A link in CUDA_HOME/FOLDER to a library that stands in for one of NVIDIA's. */
static bool link_library(const char *folder, const char *in, const char *library) {
    char path[LS_PATH_ROOM];
    snprintf(path, sizeof path, "%s/%s/" FILE_NAME, folder, in);
    make_folders(path);
    return symlink(library, path) == 0;
}

/* cuBLASLt's number is larger than cuDNN's: it is taken from either folder, and then it is the one that is loaded. */
static bool takes_the_newest(const test_case *c, const char *folder) {
    static const char newer[] = LS_TEST_FAKES "libcublasLt.so.13", older[] = LS_TEST_FAKES "libcudnn.so.9";
    static const char *const names[] = {"libls-nowhere-at-all.so.8", FILE_NAME, NULL};
    const bool first = c != NULL;
    char expected[LS_PATH_ROOM], path[LS_PATH_ROOM] = "";
    void *handle = NULL, *again = NULL;
    setenv("CUDA_HOME", folder, 1);
    snprintf(expected, sizeof expected, "%s/%s/" FILE_NAME, folder, first ? "lib64" : "lib");
    bool is =
        link_library(folder, "lib64", first ? newer : older) && link_library(folder, "lib", first ? older : newer);
    const ls_status status = ls_library_open_newest(names, "fake_version", &handle, path);
    is = is && status.code == LS_OK && strcmp(path, expected) == 0 && dlopen(older, RTLD_NOW | RTLD_NOLOAD) == NULL;
    if (!is) printf("'%s' %s; expected %s\n", status.text, path, expected);
    static const char *const loaded[] = {FILE_NAME, "libcublasLt.so.13", NULL};
    return is && ls_library_open_newest(loaded, "fake_version", &again, NULL).code == LS_OK && again == handle;
}

/* A file that cannot be loaded, or has no such function, is none of several. */
static bool takes_what_has_a_version(const test_case *c, const char *folder) {
    (void)c;
    static const char *const names[] = {FILE_NAME, NULL};
    char file[LS_PATH_ROOM], path[LS_PATH_ROOM] = "";
    void *handle = NULL;
    setenv("CUDA_HOME", folder, 1);
    snprintf(file, sizeof file, "%s/lib64/" FILE_NAME, folder);
    const bool made = make_file(file, "no library") && link_library(folder, "lib", LS_TEST_FAKES "libcudnn.so.9");
    const ls_status status = ls_library_open_newest(names, "fake_version", &handle, path);
    return made && status.code == LS_OK && strstr(path, "/lib/" FILE_NAME) != NULL &&
           ls_library_open_newest((const char *const[]){"libls-none.so.1", "libls-none.so.2", NULL}, "fake_version",
                                  &handle, path)
                   .code == LS_UNSUPPORTED;
}

static void in_a_process(bool (*test)(const test_case *c, const char *folder), const test_case *c, const char *folder) {
    int status;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        const bool is = test(c, folder);
        fflush(NULL);
        _exit(is ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_places(void **state) {
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        char name[32];
        snprintf(name, sizeof name, "case%zu", i);
        in_a_process(passes, &cases[i], scratch_path(state, name));
    }
}

static void test_newest(void **state) {
    in_a_process(takes_the_newest, NULL, scratch_path(state, "newer-behind"));
    in_a_process(takes_the_newest, cases, scratch_path(state, "newer-before"));
    in_a_process(takes_what_has_a_version, NULL, scratch_path(state, "without"));
}

static void test_what_cannot_be_loaded(void **state) {
    in_a_process(tells_what_is_broken, NULL, scratch_path(state, "broken"));
    void *handle = NULL;
    assert_non_null(
        strstr(ls_library_open("/nowhere/lib.so", &handle, NULL).text, "it cannot be loaded: /nowhere/lib.so"));
    char path[LS_PATH_ROOM];
    assert_int_equal(ls_library_open("libm.so.6", &handle, path).code, LS_OK);
    assert_true(path[0] == '/' && strstr(path, "libm.so.6") != NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_places), cmocka_unit_test(test_newest),
                                       cmocka_unit_test(test_what_cannot_be_loaded)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
