/* What is said of devices without opening them, names that are none, and arenas that come and go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "device/device.h"
#include "support/fake_cuda.h"
#include "support/world.h"

static ls_status open_on(const char *name, const char *settings, ls_device **out) {
    use_fake_cuda(settings);
    return ls_device_open(name, &(ls_device_options){.queues = 1}, out);
}

/* What it is like is said before the process has used the driver, and after; where ranks are forked, only before. */
static void test_facts(void **state) {
    (void)state;
    ls_device_facts facts;
    ls_device *device;
    use_fake_cuda("devices=3,memory=1000000");
    assert_ok(ls_device_describe("cuda", &facts));
    assert_string_equal(facts.model, "Fake 0");
    assert_int_equal(facts.units, 3);
    assert_int_equal(facts.memory, 1000000);
    assert_true(facts.processors > 0 && facts.cache > 0);
    assert_ok(open_on("cuda:2", "devices=3", &device)); /* this process had not initialised the driver */
    assert_ok(ls_device_describe("cuda:2", &facts));
    assert_string_equal(facts.model, "Fake 2");
    assert_int_equal(facts.units, 1);
    assert_fails(ls_device_describe("cuda:3", &facts), LS_INVALID, "cuda:3");
    ls_device_close(device);
    assert_ok(ls_device_describe("cpu", &facts));
    assert_int_equal(facts.model[0], 0);
}

static const char *const wrong_names[][2] = {
    {"cuda:", "device 'cuda:': expected cuda or cuda:N"},
    {"cuda:x", "device 'cuda:x': expected cuda[:N][:ROUTE]"},
    {"cpu:1", "device 'cpu:1': expected cpu alone"},
    {"cpu:", "device 'cpu:': expected cpu alone"},
    {"gpu", "there is no device 'gpu'"},
};

static void test_wrong_names(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(wrong_names); i++) {
        ls_device_facts facts;
        use_fake_cuda("");
        assert_fails(ls_device_describe(wrong_names[i][0], &facts), LS_INVALID, wrong_names[i][1]);
    }
}

/* Arenas come and go; the driver's account knows them. */
static void test_freed_arenas(void **state) {
    (void)state;
    ls_device *device;
    const ls_device_arena *arena[3], *again;
    size_t before, unused, total;
    assert_ok(open_on("cuda:0", "memory=1000000", &device));
    assert_true(ls_device_account(device, &before, &total) && total == 1000000);
    for (int i = 0; i < 3; i++) assert_ok(ls_device_allocate(device, 1000, &arena[i]));
    assert_true(ls_device_account(device, &unused, &total) && before - unused == 3000);
    ls_device_free(device, arena[1]);
    assert_true(ls_device_account(device, &unused, &total) && before - unused == 2000);
    assert_ok(ls_device_allocate(device, 500, &again));
    assert_ptr_equal(again, arena[1]); /* its room */
    ls_device_free(device, arena[2]);
    ls_device_close(device);
    assert_int_equal(fake_cuda_left(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts), /* first: before the driver is initialised */
        cmocka_unit_test(test_wrong_names),
        cmocka_unit_test(test_freed_arenas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
