/* Settings of parameters: one row for all parameters that are updated alike. */
#include "compile/optimizer/optimizer.h"

int ls_update_group(ls_builder *b, const ls_tensor_info *parameter, int number) {
    ls_image *image = b->image;
    if (parameter->frozen || !ls_job_updates(b->job, LS_UPDATE_APPLY)) return -1;
    ls_update_settings wanted = {.rate = 1, .weight_decay = b->job->hyper.weight_decay};
    if (parameter->shape.ndim < 2) wanted.weight_decay = 0;
    if (b->job->own != NULL) wanted = b->job->own[number].update;
    for (int i = 0; i < image->n_settings; i++) {
        const ls_update_settings *known = &image->settings[i];
        if (known->rate == wanted.rate && known->weight_decay == wanted.weight_decay) return i;
    }
    image->settings[image->n_settings] = wanted;
    return image->n_settings++;
}
