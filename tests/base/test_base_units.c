/* Bytes and seconds as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/base.h"

static void test_bytes(void **state) {
    (void)state;
    char text[LS_BYTES_TEXT];
    assert_string_equal(ls_bytes_text(0, text), "0 B");
    assert_string_equal(ls_bytes_text(1023, text), "1023 B");
    assert_string_equal(ls_bytes_text(1024, text), "1.0 KiB");
    assert_string_equal(ls_bytes_text(2.5 * 1024 * 1024 * 1024, text), "2.5 GiB");
    assert_string_equal(ls_bytes_text(3e15, text), "2728.5 TiB");
}

static void test_seconds(void **state) {
    (void)state;
    char text[LS_SECONDS_TEXT];
    assert_string_equal(ls_seconds_text(0, text), "0.000 µs");
    assert_string_equal(ls_seconds_text(2.5e-5, text), "25.00 µs");
    assert_string_equal(ls_seconds_text(0.0042612, text), "4.261 ms");
    assert_string_equal(ls_seconds_text(59, text), "59.00 s");
    assert_string_equal(ls_seconds_text(5400, text), "90.00 min");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes), cmocka_unit_test(test_seconds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
