#include "workers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"

enum { WORKERS = 8 };

test_part test_part_asked_for(bool *asked) {
    test_part p = {0, 1};
    const char *text = getenv("LS_TEST_PART");
    *asked = text != NULL;
    if (*asked) assert_int_equal(sscanf(text, "%d/%d", &p.index, &p.parts), 2);
    assert_true(p.index >= 0 && p.index < p.parts);
    return p;
}

void run_workers(test_part part, void (*work)(test_part part, const void *input, void *account), const void *input,
                 size_t bytes, void (*add)(void *sum, const void *account), void *sum) {
    ls_machine machine;
    ls_machine_detect(&machine);
    const int workers = (int)ls_min(machine.cores, WORKERS);
    char *accounts = mmap(NULL, bytes * WORKERS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(accounts != MAP_FAILED);
    pid_t worker[WORKERS];
    (void)fflush(NULL);
    for (int w = 0; w < workers; w++) {
        worker[w] = fork();
        assert_true(worker[w] >= 0);
        if (worker[w] > 0) continue;
        const test_part own = {part.index * workers + w, part.parts * workers};
        work(own, input, accounts + bytes * (size_t)w);
        (void)fflush(NULL);
        _exit(0);
    }
    int failed = 0;
    for (int w = 0; w < workers; w++) {
        int status;
        assert_int_equal(waitpid(worker[w], &status, 0), worker[w]);
        failed += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
        add(sum, accounts + bytes * (size_t)w);
    }
    (void)munmap(accounts, bytes * WORKERS);
    assert_int_equal(failed, 0);
}
