/* The inbox of host collectives: how many words and bytes of a rank they need. */
#include "comm/comm_impl.h"
#include "comm/message_impl.h"

enum {
    SMALLEST_SLICE = 64,     /* bytes that a rank can exchange at once, whatever the number of ranks */
    SMALLEST_INBOX = 1 << 17 /* so that large results of few ranks go in large pieces */
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
