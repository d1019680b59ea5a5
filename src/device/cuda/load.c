/*
 * Loads kernels before anything waits, if the device makes no graphs: launches are captured into a graph that is never
 * launched, which loads what they need. If the device makes graphs, making them loads the kernels.
 */
#include "device/cuda/cuda_impl.h"

/* Without the messages, because the library of a route counts calls. */
static ls_status launch_kernels(const cuda *c, const ls_device_recording *recording) {
    for (size_t i = 0; i < recording->n; i++) {
        const ls_device_work *work = &recording->list[i].work;
        if (work->submit != NULL && work->message == NULL) LS_TRY(work->submit(work->context, c->copies));
    }
    return ls_ok();
}

/* Relaxed, as in graphs.c. */
static ls_status capture(const cuda *c, const ls_device_recording *recording) {
    const ls_cuda_driver *driver = &c->driver;
    ls_cuda_graph graph = NULL;
    LS_TRY(ls_cuda_check(driver, driver->cuStreamBeginCapture_v2(c->copies, LS_CUDA_CAPTURE_RELAXED),
                         "cuStreamBeginCapture_v2", "loading the kernels of a program on %s", c->name));
    const ls_status launched = launch_kernels(c, recording);
    const unsigned result = driver->cuStreamEndCapture(c->copies, &graph);
    if (result == LS_CUDA_SUCCESS) (void)driver->cuGraphDestroy(graph);
    if (launched.code != LS_OK) return launched;
    return ls_cuda_check(driver, result, "cuStreamEndCapture", "loading the kernels of a program on %s", c->name);
}

ls_status ls_cuda_load(cuda *c, const ls_device_recording *recording) {
    pthread_mutex_lock(&c->copy_lock);
    const ls_status status = capture(c, recording);
    pthread_mutex_unlock(&c->copy_lock);
    return status;
}
