/*
 * The plug-in of kernels for CUDA, of which the emulated one takes the place: its kernels are found by device, and a
 * file that is none, or that is missing, is refused by name. A process loads it once, so each case is one.
 */
#include "kernel/kernel.h"
#include "support/world.h"

#include "cuda/fake/load.h"

#include <libgen.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* The folder of this program. */
static const char *folder(void) {
    static char path[LS_PATH_ROOM];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    assert_true(n > 0);
    path[n] = 0;
    return dirname(path);
}

static ls_status find(const char *plugin, ls_kernel_id id, ls_dtype dtype, const ls_kernel **out) {
    if (plugin != NULL)
        setenv("LONGSPAN_CUDA_KERNELS", plugin, 1);
    else
        unsetenv("LONGSPAN_CUDA_KERNELS");
    return ls_kernel_find(&(ls_kernel_request){.id = id, .dtype = dtype, .device = LS_DEVICE_CUDA, .isa = LS_ISA_REF},
                          out);
}

static bool finds_kernels(void) {
    char path[LS_PATH_ROOM];
    const ls_kernel *norm = NULL, *none = NULL;
    snprintf(path, sizeof path, "%s/emulated-cuda.so", folder());
    const ls_status status = find(path, LS_KERNEL_RMSNORM, LS_BF16, &norm);
    if (status.code != LS_OK) printf("%s\n", status.text);
    return status.code == LS_OK && norm->device == LS_DEVICE_CUDA && norm->launch != NULL && norm->run == NULL &&
           strcmp(ls_kernel_name(norm), "rmsnorm") == 0 &&
           strstr(find(path, LS_KERNEL_RMSNORM, LS_F64, &none).text, "no kernel rmsnorm for f64 on device cuda") &&
           none == NULL;
}

/* How many rows of the same name are behind one; all but the last may refuse. -1: something else is behind it. */
static int rows_behind(const ls_kernel_request *request, const ls_kernel *row) {
    int n = 0;
    for (const ls_kernel *next; (next = ls_kernel_next(request, row)) != NULL; n++) {
        if (!row->refuses || strcmp(ls_kernel_row(next), ls_kernel_row(row)) != 0) return -1;
        row = next;
    }
    return row->refuses ? -1 : n;
}

/* Of several kernels for one contract and type each name once, the one that is taken first. */
static bool lists_rows(void) {
    char path[LS_PATH_ROOM];
    const ls_kernel *rows[LS_KERNEL_ROWS], *taken = NULL;
    int n = 0;
    snprintf(path, sizeof path, "%s/emulated-cuda.so", folder());
    bool is = find(path, LS_KERNEL_ATTENTION, LS_BF16, &taken).code == LS_OK;
    ls_kernel_request request = {
        .id = LS_KERNEL_ATTENTION, .dtype = LS_BF16, .device = LS_DEVICE_CUDA, .isa = LS_ISA_REF};
    is = is && ls_kernel_find_rows(&request, rows, &n).code == LS_OK && n == 2 && rows[0] == taken &&
         strcmp(ls_kernel_row(rows[0]), "cudnn") == 0 && strcmp(ls_kernel_row(rows[1]), "own") == 0;
    is = is && rows_behind(&request, rows[1]) == 2; /* on tensor cores of any GPU, and plain */
    request.id = LS_KERNEL_MATMUL;
    is = is && ls_kernel_find_rows(&request, rows, &n).code == LS_OK && n == 2 &&
         strcmp(ls_kernel_row(rows[0]), "cublaslt") == 0 && strcmp(ls_kernel_row(rows[1]), "own") == 0;
    request.id = LS_KERNEL_ADD;
    return is && ls_kernel_find_rows(&request, rows, &n).code == LS_OK && n == 1;
}

static bool refuses(const char *plugin, const char *expected) {
    const ls_kernel *none = NULL;
    const ls_status status = find(plugin, LS_KERNEL_RMSNORM, LS_BF16, &none);
    const bool is = status.code == LS_UNSUPPORTED && strstr(status.text, expected) != NULL && none == NULL;
    if (!is) printf("%s; expected %s\n", status.text, expected);
    return is;
}

/* An older cuDNN does not do; what the libraries are is one line. */
static bool demands_libraries(void) {
    char path[LS_PATH_ROOM], text[LS_KERNEL_LIBRARIES_ROOM];
    fake_library *const cublaslt = fake_load(LS_TEST_FAKES "libcublasLt.so.13", "fake_cublaslt"),
                        *const cudnn = fake_load(LS_TEST_FAKES "libcudnn.so.9", "fake_cudnn");
    snprintf(path, sizeof path, "%s/emulated-cuda.so", folder());
    setenv("LONGSPAN_CUDA_LIBRARIES", "required", 1);
    cudnn->failing = "an older version";
    cudnn->fails_at = 1;
    const bool is = refuses(path, "LONGSPAN_CUDA_LIBRARIES=required, and there is no cuDNN: " LS_TEST_FAKES
                                  "libcudnn.so.9 is version 90900; expected 91000 or later");
    const ls_kernel *norm;
    return is && cublaslt != NULL && find(path, LS_KERNEL_RMSNORM, LS_BF16, &norm).code == LS_OK &&
           ls_kernel_libraries_text(text).code == LS_OK &&
           strcmp(text, "cuBLASLt 130100 (" LS_TEST_FAKES "libcublasLt.so.13), cuDNN 92800 (" LS_TEST_FAKES
                        "libcudnn.so.9)") == 0;
}

static bool leaves_libraries_out(void) {
    char path[LS_PATH_ROOM], text[LS_KERNEL_LIBRARIES_ROOM];
    const ls_kernel *norm = NULL;
    snprintf(path, sizeof path, "%s/emulated-cuda.so", folder());
    setenv("LONGSPAN_CUDA_LIBRARIES", "none", 1);
    return find(path, LS_KERNEL_RMSNORM, LS_BF16, &norm).code == LS_OK && norm != NULL &&
           ls_kernel_libraries_text(text).code == LS_OK &&
           strcmp(text, "no cuBLASLt (LONGSPAN_CUDA_LIBRARIES=none leaves it out), no cuDNN "
                        "(LONGSPAN_CUDA_LIBRARIES=none leaves it out)") == 0;
}

static bool refuses_another_setting(void) {
    char path[LS_PATH_ROOM];
    const ls_kernel *norm = NULL;
    snprintf(path, sizeof path, "%s/emulated-cuda.so", folder());
    setenv("LONGSPAN_CUDA_LIBRARIES", "some", 1);
    return find(path, LS_KERNEL_RMSNORM, LS_BF16, &norm).code == LS_USAGE && norm == NULL;
}

static bool refuses_what_is_missing(void) { return refuses("/nowhere/cuda.so", "/nowhere/cuda.so"); }

/* This build's own library is a shared object, and no plug-in. */
static bool refuses_what_is_none(void) {
    char path[LS_PATH_ROOM];
    snprintf(path, sizeof path, "%s/../liblongspan.so", folder());
    return refuses(path, "belongs to another version of Longspan");
}

static void run(bool (*passes)(void)) {
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        const bool is = passes();
        fflush(NULL);
        _exit(is ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_the_plug_in_has_kernels(void **state) {
    (void)state;
    run(finds_kernels);
    run(lists_rows);
}

static void test_libraries(void **state) {
    (void)state;
    run(demands_libraries);
    run(leaves_libraries_out);
    run(refuses_another_setting);
}

static void test_other_files_are_refused(void **state) {
    (void)state;
    run(refuses_what_is_missing);
    run(refuses_what_is_none);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_plug_in_has_kernels), cmocka_unit_test(test_libraries),
                                       cmocka_unit_test(test_other_files_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
