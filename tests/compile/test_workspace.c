/*
 * The scratch of a call is enough for the kernel that is chosen, and for those that take the call where it refuses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile/compile_impl.h"

static size_t little(const ls_kernel_call *call) {
    (void)call;
    return 8;
}

static size_t much(const ls_kernel_call *call) {
    (void)call;
    return 1 << 24;
}

/* Attention of 4 tokens with a head of size 8. The reference kernel has scratch. */
static ls_kernel_call attention(void) {
    static const int64_t q[] = {1, 4, 1, 8}, lse[] = {1, 1, 4}, spans[] = {1, 4, 2}, kpos[] = {4};
    const ls_view x = ls_view_dense(NULL, LS_F32, 4, q);
    return (ls_kernel_call){
        .n_in = 5,
        .n_out = 2,
        .in = {x, x, x, ls_view_dense(NULL, LS_I32, 3, spans), ls_view_dense(NULL, LS_I32, 1, kpos)},
        .out = {x, ls_view_dense(NULL, LS_F32, 3, lse)},
        .threads = 1};
}

static size_t bytes_for(const ls_kernel *kernel, const ls_kernel_request *request) {
    ls_image image = {.arena = ls_arena_create()};
    ls_builder b = {.image = &image};
    const size_t bytes = ls_workspace_bytes(&b, kernel, request, 0);
    assert_int_equal(ls_workspace_bytes(&b, kernel, request, 0), bytes); /* as remembered */
    ls_arena_destroy(image.arena);
    return bytes;
}

static void test_enough_for_all(void **state) {
    (void)state;
    const ls_kernel_call call = attention();
    const ls_kernel_request request = {.id = LS_KERNEL_ATTENTION, .dtype = LS_F32, .isa = LS_ISA_REF, .call = &call};
    const ls_kernel *own;
    assert_int_equal(ls_kernel_find(&request, &own).code, LS_OK);
    const size_t bytes_of_own = own->workspace(&call);
    assert_true(bytes_of_own > little(&call) && bytes_of_own < much(&call));
    ls_kernel library = {.id = LS_KERNEL_ATTENTION, .dtype = LS_F32, .row = "library", .workspace = little};
    assert_int_equal(bytes_for(own, &request), bytes_of_own);
    assert_int_equal(bytes_for(&library, &request), little(&call));
    library.refuses = true;
    assert_int_equal(bytes_for(&library, &request), bytes_of_own);
    library.workspace = NULL;
    assert_int_equal(bytes_for(&library, &request), bytes_of_own);
    library.workspace = much;
    assert_int_equal(bytes_for(&library, &request), much(&call));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_enough_for_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
