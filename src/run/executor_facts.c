/* Facts about an executor. */
#include "run/executor_impl.h"

ls_run_times ls_executor_times(const ls_executor *ex) { return ex->times; }
ls_touched ls_executor_touched(const ls_executor *ex) { return ex->touched; }
bool ls_executor_replays(const ls_executor *ex) { return ls_device_traits_of(ex->device)->records; }
bool ls_executor_account(const ls_executor *ex, size_t *unused, size_t *total) {
    return ls_device_account(ex->device, unused, total);
}
int ls_executor_rank(const ls_executor *ex) { return ls_comm_rank(ex->comm); }
ls_pool *ls_executor_pool(const ls_executor *ex) { return ex->pool; }
const ls_image *ls_executor_image(const ls_executor *ex) { return ex->image; }
