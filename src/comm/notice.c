/* The notice of a world: an abort, with its text, and a request to stop. */
#include "comm/boot_impl.h"

#include <stdio.h>
#include <unistd.h>

bool ls_notice_abort(ls_notice *notice, const char *why) {
    int state = LS_ABORT_NONE;
    if (atomic_compare_exchange_strong(&notice->abort_state, &state, LS_ABORT_BEING_WRITTEN)) {
        snprintf(notice->abort_text, sizeof notice->abort_text, "%s", why);
        atomic_store_explicit(&notice->abort_state, LS_ABORT_SET, memory_order_release);
        return true;
    }
    if (state == LS_ABORT_BEING_WRITTEN) {
        /*
         * Another rank is writing the text of its abort, which takes a microsecond. If that rank is killed meanwhile,
         * the text stays incomplete.
         */
        for (int i = 0; i < 100 && atomic_load(&notice->abort_state) != LS_ABORT_SET; i++) usleep(1000);
        atomic_store_explicit(&notice->abort_state, LS_ABORT_SET, memory_order_release);
    }
    return false;
}

ls_status ls_notice_aborted(const ls_notice *notice) {
    if (atomic_load_explicit(&notice->abort_state, memory_order_acquire) != LS_ABORT_SET) return ls_ok();
    return ls_error(LS_PEER, "%s", notice->abort_text);
}
