/* Which process is home, and what the processes of launched ranks tell each other outside of worlds. */
#include "session/home.h"

#include "comm/comm.h"

#include <stdlib.h>
#include <string.h>

/*
 * Who launched this process. A failure to find out is reported by ls_home_find, which every user of this file calls
 * first.
 */
static ls_launched launched(void) {
    ls_launched job;
    return ls_launched_find(&job).code == LS_OK ? job : (ls_launched){.ranks = 0};
}

ls_status ls_home_find(int *ranks) {
    ls_launched job;
    LS_TRY(ls_launched_find(&job));
    if (job.ranks > 0 && job.rank != 0) ls_log_silence();
    *ranks = job.ranks;
    return ls_ok();
}

bool ls_is_home(void) {
    const ls_launched job = launched();
    return job.ranks == 0 || job.rank == 0;
}

bool ls_home_starts_ranks(void) { return launched().ranks == 0; }

/* *all becomes [ranks, bytes], the value `mine` of each rank; the caller frees it. */
static ls_status gather(const char *what, const void *mine, size_t bytes, int ranks, void **all) {
    void *values = malloc(bytes * (size_t)ranks);
    if (values == NULL) return ls_error(LS_NO_MEMORY, "no memory for %zu bytes of %d ranks", bytes, ranks);
    const ls_status status = ls_launched_gather(what, mine, bytes, values);
    if (status.code == LS_OK)
        *all = values;
    else
        free(values);
    return status;
}

bool ls_home_speaks(void) { return launched().ranks == 0 || ls_launched_speaks(); }

void ls_home_log_launcher(void) {
    const ls_launched job = launched();
    if (job.ranks > 0 && job.at_interrupt != NULL) ls_log("%s", job.at_interrupt);
    if (job.core_ranks > 1)
        ls_log("warning: %d ranks are bound to one core, and take turns; Open MPI's mpirun binds no rank with "
               "--bind-to none",
               job.core_ranks);
}

/* Finds the cause among the failures of all ranks. Messages are exchanged only if there is a failure. */
static ls_status find_cause(const ls_status *mine, int ranks) {
    int32_t code = (int32_t)mine->code;
    void *all;
    LS_TRY(gather("whether all is well", &code, sizeof code, ranks, &all));
    bool failed = false;
    for (int r = 0; r < ranks; r++) failed |= ((const int32_t *)all)[r] != LS_OK;
    free(all);
    if (!failed) return ls_ok();
    LS_TRY(gather("why it failed", mine, sizeof *mine, ranks, &all));
    ls_status worst = ls_ok();
    for (int r = 0; r < ranks; r++) {
        const ls_status theirs = ls_status_sound(((const ls_status *)all)[r]);
        if (ls_severity(theirs.code) > ls_severity(worst.code)) worst = theirs;
    }
    free(all);
    return worst;
}

ls_status ls_home_agree(ls_status mine) {
    const int ranks = launched().ranks;
    if (ranks <= 1) return mine;
    /* A rank that lost another one cannot gather; the others learn of it because they lose a rank too. */
    if (mine.code == LS_PEER) return mine;
    const ls_status cause = find_cause(&mine, ranks);
    return mine.code != LS_OK && ls_severity(cause.code) < ls_severity(mine.code) ? mine : cause;
}

void ls_home_leave(ls_status failure) {
    if (launched().ranks == 0) return;
    const ls_status why = ls_error_in(failure, "rank %d", launched().rank);
    ls_launched_abort(why.text);
}

ls_status ls_home_tell(void *value, size_t bytes) {
    const int ranks = launched().ranks;
    for (size_t at = 0; at < bytes && ranks > 1; at += LS_GATHER_VALUE) {
        const size_t some = ls_min(bytes - at, (size_t)LS_GATHER_VALUE);
        void *all;
        LS_TRY(gather("what rank 0 tells", (char *)value + at, some, ranks, &all));
        memcpy((char *)value + at, all, some);
        free(all);
    }
    return ls_ok();
}
