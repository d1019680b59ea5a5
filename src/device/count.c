/* Messages with a number of rows that is known only when they are executed. */
#include "device/device.h"

#include <string.h>

ls_status ls_device_count_rows(const ls_device_count *count, int peer, ls_range *from, ls_range *to) {
    if (count->at == NULL) return ls_ok();
    int32_t n;
    memcpy(&n, count->at, sizeof n);
    const size_t room = to->length / count->row;
    if (n < 0 || (size_t)n > room)
        return ls_error(LS_INVALID,
                        "channel \"%s\": %d rows are to go to rank %d; expected 0 to %zu, for which there is room",
                        count->channel, n, peer, room);
    *from = ls_range_first(from, (size_t)n * count->row);
    *to = ls_range_first(to, (size_t)n * count->row);
    return ls_ok();
}
