/*
 * The parts of a segment: how many words and bytes the host collectives need of a rank, and the form of the whole
 * segment.
 */
#include "comm/comm_impl.h"
#include "comm/message_impl.h"

#include <unistd.h>

enum {
    SMALLEST_SLICE = 64,     /* bytes that a rank can always exchange at once, however many ranks there are */
    SMALLEST_INBOX = 1 << 17 /* so that large results of few ranks are sent in large pieces */
};

int ls_host_rounds(int ranks) {
    int rounds = 0;
    while ((ranks - 1) >> rounds > 0) rounds++;
    return rounds;
}

size_t ls_host_inbox_bytes(int ranks) {
    const size_t exchange = (size_t)ranks * (sizeof(ls_message_head) + SMALLEST_SLICE);
    const size_t reduce = (size_t)(ls_host_rounds(ranks) + 1) * LS_INBOX_VALUE;
    const size_t most = exchange > reduce ? exchange : reduce;
    return most > SMALLEST_INBOX ? most : SMALLEST_INBOX;
}

/*
 * The heap begins on its own page, because a page is placed (NUMA) where the rank that first touches it runs. So does
 * common memory, which several ranks touch.
 */
ls_segment_form ls_segment_lay_out(const ls_world_options *options, int rank) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), line = sizeof(ls_rank_line);
    ls_segment_form form = {.words = line, .n_words = options->words + ls_host_rounds(options->ranks)};
    form.heap = ls_round_up(form.words + (size_t)form.n_words * sizeof(uint64_t), page);
    form.inbox = form.heap + ls_round_up(ls_heap_bytes_of(options, rank), line);
    form.common = ls_round_up(form.inbox + 2 * ls_host_inbox_bytes(options->ranks), page);
    form.bytes = form.common + ls_round_up(ls_common_bytes_of(options, rank), page);
    return form;
}
