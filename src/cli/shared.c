/* Pieces that several commands use. */
#include "cli/cli.h"

#include <string.h>

ls_spread cli_spread_of(const cli_spread *flags) {
    ls_spread spread = flags->spread;
    spread.as_threads = flags->ranks_as != NULL && strcmp(flags->ranks_as, "threads") == 0;
    return spread;
}

void cli_print_spread(const ls_spread_result *r) {
    const bool read = r->bytes_read_forward + r->bytes_read_backward > 0;
    char time[LS_SECONDS_TEXT], forward[LS_BYTES_TEXT], backward[LS_BYTES_TEXT], memory[LS_BYTES_TEXT];
    printf("%s · %s · %s · %s\n", r->strategy, r->mesh, r->layout, r->isa);
    printf("%s · sent by a rank: %s forward, %s backward · memory of a rank: %s\n",
           ls_seconds_text(r->seconds, time), ls_bytes_text((double)r->bytes_sent_forward, forward),
           ls_bytes_text((double)r->bytes_sent_backward, backward),
           ls_bytes_text((double)r->predicted_bytes, memory));
    if (read)
        printf("read in place by a rank: %s forward, %s backward\n",
               ls_bytes_text((double)r->bytes_read_forward, forward),
               ls_bytes_text((double)r->bytes_read_backward, backward));
}
