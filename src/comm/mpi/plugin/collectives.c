/* Collectives: ranks meet, and gather a value of each rank. */
#include "comm/mpi/plugin/mpi_impl.h"

#include <stdlib.h>
#include <string.h>

/* Advances messages; returns whether the request is complete. */
static bool advance(ls_mpi *m, MPI_Request *request) {
    int complete = 0;
    (void)ls_mpi_advance(m, false);
    pthread_mutex_lock(&m->library);
    if (!atomic_load(&m->silent))
        (void)ls_mpi_succeeded(m, MPI_Test(request, &complete, MPI_STATUS_IGNORE), "MPI_Test");
    pthread_mutex_unlock(&m->library);
    return complete;
}

/* Advances messages until the request is complete; false: the job was aborted, or `seconds` (0: no limit) are over. */
static bool await(ls_mpi *m, MPI_Request *request, double seconds, bool even_aborted) {
    const double started = ls_seconds();
    while (!advance(m, request)) {
        if (!even_aborted && ls_notice_aborted(&m->notice).code != LS_OK) return false;
        if (seconds > 0 && ls_seconds() - started > seconds) return false;
        ls_mpi_give_way(started);
    }
    return true;
}

bool ls_mpi_meet(ls_mpi *m, MPI_Comm where, double seconds, bool even_aborted) {
    MPI_Request request = MPI_REQUEST_NULL;
    bool good = false;
    pthread_mutex_lock(&m->library);
    if (!atomic_load(&m->silent)) good = ls_mpi_succeeded(m, MPI_Ibarrier(where, &request), "MPI_Ibarrier");
    pthread_mutex_unlock(&m->library);
    return good && await(m, &request, seconds, even_aborted);
}

/* Asks the ranks that have not come to the gather under way whether they are there. */
static ls_missing find_missing(ls_mpi *m, double waited) {
    ls_missing missing = LS_NOBODY_MISSING;
    pthread_mutex_lock(&m->library);
    for (int r = 0; r < m->boot->ranks; r++) {
        ls_mpi_peer *p = &m->peers[r];
        if (r == m->boot->rank || p->gathers >= m->came) continue;
        if (p->asked < 0) {
            p->asked = waited;
            ls_mpi_post_later(m, ls_mpi_message_to(r, LS_MPI_WHERE, 0));
        }
        ls_missing_add(&missing, r, waited - p->asked);
    }
    pthread_mutex_unlock(&m->library);
    return missing;
}

/* LS_PEER, and an abort with the same text, if a rank does not come; or LS_PEER with the text of an abort. */
static ls_status await_all(ls_mpi *m, MPI_Request *request) {
    const double started = ls_seconds();
    double waited = 0, asked = 0, looked = started;
    while (!advance(m, request)) {
        LS_TRY(ls_notice_aborted(&m->notice));
        if (waited - asked > LS_ASK_SECONDS) {
            const ls_missing missing = find_missing(m, waited);
            const ls_status status = ls_boot_check_missing(m->boot, &missing, waited, m->rendezvous_seconds);
            if (status.code != LS_OK) (void)ls_notice_abort(&m->notice, status.text);
            LS_TRY(status);
            asked = waited;
        }
        ls_mpi_give_way(started);
        const double now = ls_seconds();
        waited += ls_boot_counted(now - looked);
        looked = now;
    }
    return ls_ok();
}

/* Works on copies of the buffers, because an all-gather that was given up may still read and write them. */
ls_status ls_mpi_gather(ls_boot *boot, int rank, const void *mine, size_t bytes, void *all) {
    (void)rank;
    ls_mpi *m = boot->state;
    LS_TRY(ls_notice_aborted(&m->notice)); /* other ranks may still wait in a gather in which this rank failed */
    const size_t whole = bytes * (size_t)boot->ranks;
    char *copies = malloc(bytes + whole + 1);
    if (copies == NULL) return ls_error(LS_NO_MEMORY, "cannot allocate %zu bytes for an all-gather", bytes + whole);
    memcpy(copies, mine, bytes);
    MPI_Request request = MPI_REQUEST_NULL;
    bool good = false;
    pthread_mutex_lock(&m->library);
    m->came++;
    for (int r = 0; r < m->boot->ranks; r++) m->peers[r].asked = -1;
    if (!atomic_load(&m->silent)) {
        const int result =
            MPI_Iallgather(copies, (int)bytes, MPI_BYTE, copies + bytes, (int)bytes, MPI_BYTE, m->gathers, &request);
        good = ls_mpi_succeeded(m, result, "MPI_Iallgather");
    }
    pthread_mutex_unlock(&m->library);
    if (!good) {
        free(copies); /* nothing is on its way */
        const ls_status aborted = ls_notice_aborted(&m->notice);
        return aborted.code != LS_OK ? aborted : ls_error(LS_PEER, "the job has ended");
    }
    LS_TRY(await_all(m, &request));
    memcpy(all, copies + bytes, whole);
    free(copies);
    return ls_ok();
}
