/*
 * Shared by tests of comm and launch: runs a function on every rank of a new world, and assertions as statuses that
 * work in a rank (a rank may be a child process, where cmocka's assertions do not work).
 */
#ifndef TESTS_WORLD_H
#define TESTS_WORLD_H

#include "run/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* In a rank: fails with the condition's text. */
#define RANK_CHECK(condition)                                                                               \
    do {                                                                                                    \
        if (!(condition)) return ls_error(LS_INVALID, "%s:%d: not so: %s", __FILE__, __LINE__, #condition); \
    } while (0)

static inline ls_world_options small_world(int ranks) {
    return (ls_world_options){.ranks = ranks,
                              .heap_bytes = 1 << 16,
                              .words = 64,
                              .may_spin = ranks <= 2,
                              .wait_timeout = 20.0,
                              .unguarded = true};
}

/* The world's launch result. */
static inline ls_status run_world_on(const char *transport, const ls_world_options *options, bool as_threads,
                                     ls_rank_main rank_main, void *context) {
    ls_world *world;
    LS_TRY(ls_world_create(transport, options, &world));
    const ls_status status = ls_launch(world, options->ranks, as_threads, rank_main, context);
    ls_world_destroy(world);
    return status;
}

static inline ls_status run_world(const ls_world_options *options, bool as_threads, ls_rank_main rank_main,
                                  void *context) {
    return run_world_on(NULL, options, as_threads, rank_main, context);
}

static inline void assert_ok(ls_status status) {
    if (status.code != LS_OK) fail_msg("%s: %s", ls_code_name(status.code), status.text);
}

static inline void assert_fails(ls_status status, ls_code code, const char *part_of_text) {
    if (status.code != code || !strstr(status.text, part_of_text))
        fail_msg("got %s '%s'; expected %s with '%s'", ls_code_name(status.code), status.text, ls_code_name(code),
                 part_of_text);
}

static inline void sleep_seconds(double seconds) {
    struct timespec time = {(time_t)seconds, 0};
    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    nanosleep(&time, NULL);
}

#endif
