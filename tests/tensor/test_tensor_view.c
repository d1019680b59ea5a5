/* Views: strides, slices, and the bytes that they cover, byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "tensor/tensor.h"

static void test_dtypes_and_shapes(void **state) {
    (void)state;
    assert_int_equal(ls_dtype_bytes(LS_F32), 4);
    assert_int_equal(ls_dtype_bytes(LS_F64), 8);
    assert_int_equal(ls_dtype_bytes(LS_BF16), 2);
    assert_int_equal(ls_dtype_bytes(LS_I32), 4);
    assert_string_equal(ls_dtype_name(LS_BF16), "bf16");
    assert_int_equal(ls_dtype_accumulator(LS_BF16), LS_F32);
    assert_int_equal(ls_dtype_accumulator(LS_F64), LS_F64);
    ls_shape shape = {3, {{2, LS_FACTOR_BATCH}, {16, LS_FACTOR_SEQUENCE}, {64, LS_FACTOR_NONE}}};
    ls_shape scalar = {0};
    char text[32], small[6];
    assert_int_equal(ls_shape_elements(&shape), 2048);
    assert_int_equal(ls_shape_elements(&scalar), 1);
    ls_shape_print(&shape, text, sizeof text);
    assert_string_equal(text, "[2,16,64]");
    ls_shape_print(&scalar, text, sizeof text);
    assert_string_equal(text, "[]");
    ls_shape_print(&shape, small, sizeof small);
    assert_string_equal(small, "[2,16");
}

static void test_dense_slice_rows(void **state) {
    (void)state;
    float data[24];
    ls_view view = ls_view_dense(data, LS_F32, 3, (int64_t[]){2, 3, 4});
    assert_true(ls_view_is_dense(&view));
    assert_int_equal(ls_view_elements(&view), 24);
    assert_int_equal(view.stride[0], 12);
    ls_view middle = ls_view_slice(view, 1, 1, 2);
    assert_ptr_equal(middle.data, data + 4);
    assert_int_equal(middle.size[1], 2);
    assert_false(ls_view_is_dense(&middle));
    ls_view last = ls_view_slice(view, 0, 1, 1);
    assert_true(ls_view_is_dense(&last));
    ls_view rows = ls_view_rows(view);
    assert_int_equal(rows.ndim, 2);
    assert_int_equal(rows.size[0], 6);
    assert_int_equal(rows.size[1], 4);
    rows = ls_view_rows(ls_view_dense(data, LS_F32, 1, (int64_t[]){7}));
    assert_int_equal(rows.size[0], 1);
    assert_int_equal(rows.size[1], 7);
    view.data = NULL;
    assert_null(ls_view_slice(view, 0, 1, 1).data);
}

/* Marks the bytes of a range and of a view's elements, and compares. */
static void check_range(const ls_view *view) {
    unsigned char by_range[4096] = {0}, by_element[4096] = {0};
    size_t element = ls_dtype_bytes(view->dtype);
    ls_range r = ls_view_range(view, 64);
    for (int64_t a = 0; a < r.count[2]; a++)
        for (int64_t b = 0; b < r.count[1]; b++)
            for (int64_t c = 0; c < r.count[0]; c++)
                for (size_t i = 0; i < r.length; i++)
                    by_range[r.offset + (size_t)(a * r.stride[2] + b * r.stride[1] + c * r.stride[0]) + i]++;
    int64_t size[4] = {1, 1, 1, 1}, stride[4] = {0};
    for (int d = 0; d < view->ndim; d++) {
        size[4 - view->ndim + d] = view->size[d];
        stride[4 - view->ndim + d] = view->stride[d];
    }
    for (int64_t a = 0; a < size[0]; a++)
        for (int64_t b = 0; b < size[1]; b++)
            for (int64_t c = 0; c < size[2]; c++)
                for (int64_t e = 0; e < size[3]; e++) {
                    int64_t at = a * stride[0] + b * stride[1] + c * stride[2] + e * stride[3];
                    for (size_t i = 0; i < element; i++) by_element[64 + (size_t)at * element + i]++;
                }
    assert_memory_equal(by_range, by_element, sizeof by_range);
}

static void test_alike(void **state) {
    (void)state;
    double data[24];
    const ls_view view = ls_view_dense(data, LS_F64, 3, (int64_t[]){2, 3, 4});
    ls_view other = ls_view_dense(NULL, LS_F64, 3, (int64_t[]){2, 3, 4});
    other.size[3] = 9; /* not one of its dimensions */
    assert_true(ls_view_same_form(&view, &other));
    other.stride[0] = 24;
    assert_false(ls_view_same_form(&view, &other));
    other = ls_view_slice(view, 1, 0, 2);
    assert_false(ls_view_same_form(&view, &other));
    other = ls_view_dense(data, LS_F32, 3, (int64_t[]){2, 3, 4});
    assert_false(ls_view_same_form(&view, &other));
    other = ls_view_dense(data, LS_F64, 2, (int64_t[]){2, 3});
    assert_false(ls_view_same_form(&view, &other));
}

static void test_range_covers_the_elements(void **state) {
    (void)state;
    static const ls_dtype dtypes[] = {LS_F32, LS_F64, LS_BF16};
    for (uint64_t i = 0; i < 3000; i++) {
        int64_t size[4];
        for (uint64_t d = 0; d < 4; d++) size[d] = 1 + (int64_t)ls_rng_below(1, 1, 4 * i + d, 4);
        int ndim = 1 + (int)(i % 4);
        ls_view view = ls_view_dense(NULL, dtypes[i % 3], ndim, size);
        for (int d = 0; d < ndim; d++) {
            int64_t count = (int64_t)ls_rng_below(1, 2, 4 * i + (uint64_t)d, (uint64_t)view.size[d] + 1);
            if (ls_rng_below(1, 3, 4 * i + (uint64_t)d, 2)) view = ls_view_slice(view, d, 0, count);
        }
        if (ndim == 4 && view.size[3] > 1 && view.stride[3] != 1) continue;
        check_range(&view);
    }
}

/* Equal bytes, written alike: a dense view is one length however many dimensions it has; heads cut from a row
 * too. */
static void test_ranges_are_merged(void **state) {
    (void)state;
    ls_view view = ls_view_dense(NULL, LS_F32, 4, (int64_t[]){2, 3, 4, 5});
    ls_range range = ls_view_range(&view, 8);
    assert_int_equal(range.offset, 8);
    assert_int_equal(range.length, 480);
    assert_int_equal(range.count[0] * range.count[1] * range.count[2], 1);
    ls_view heads = ls_view_slice(view, 2, 1, 2);
    range = ls_view_range(&heads, 0);
    assert_int_equal(range.length, 40);
    assert_int_equal(range.count[0], 6);
    assert_int_equal(range.stride[0], 80);
    assert_int_equal(range.count[1] * range.count[2], 1);
    ls_view none = ls_view_slice(view, 1, 0, 0);
    range = ls_view_range(&none, 0);
    assert_int_equal(range.length, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dtypes_and_shapes),
        cmocka_unit_test(test_dense_slice_rows),
        cmocka_unit_test(test_alike),
        cmocka_unit_test(test_range_covers_the_elements),
        cmocka_unit_test(test_ranges_are_merged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
