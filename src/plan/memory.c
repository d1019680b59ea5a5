/*
 * Whether a job fits in the allowed memory: a rank's memory by kind of buffer. All answers come from compiled programs,
 * so they are as exact as the programs.
 */
#include "plan/plan_impl.h"

#include <stdio.h>
#include <string.h>

ls_memory_account ls_memory_account_of(const ls_image *image) {
    ls_memory_account account = {.mapped = ls_image_mapped(image)};
    for (int s = 0; s < LS_SPACES; s++) {
        account.peak[s] = ls_image_peak(image, (ls_space)s);
        if ((s == LS_HOST && image->host_apart) || s == LS_COMMON) continue;
        account.unused += image->bytes[s] - account.peak[s].bytes;
        for (int k = 0; k < LS_BUFFER_KINDS; k++) account.kind_bytes[k] += account.peak[s].kind_bytes[k];
    }
    account.kind_bytes[LS_BUFFER_PARAMETER] += ls_image_common_share(image);
    return account;
}

/* "layers.0.gate_proj 21.5 MiB, ..." */
static void name_largest(const ls_image *image, ls_space space, const ls_peak *peak, char *out, size_t room) {
    enum { NAMED = 4 };
    int largest[NAMED];
    const int n = ls_image_largest(image, space, peak, largest, NAMED);
    out[0] = 0;
    for (int i = 0; i < n; i++) {
        const ls_buffer *b = &image->buffers[largest[i]];
        char bytes[LS_BYTES_TEXT];
        const size_t used = strlen(out);
        snprintf(out + used, room - used, "%s%.40s %s", i > 0 ? ", " : "", b->name,
                 ls_bytes_text((double)b->bytes, bytes));
    }
}

ls_status ls_memory_check(const ls_image *image, int64_t allowed, const char *limit) {
    const ls_memory_account account = ls_memory_account_of(image);
    if ((int64_t)account.mapped <= allowed) return ls_ok();
    const ls_space space = image->bytes[LS_SYMMETRIC] > image->bytes[LS_PRIVATE] ? LS_SYMMETRIC : LS_PRIVATE;
    const ls_peak *peak = &account.peak[space];
    char needed[LS_BYTES_TEXT], given[LS_BYTES_TEXT], largest[256], where[96] = "";
    name_largest(image, space, peak, largest, sizeof largest);
    if (peak->program >= 0)
        snprintf(where, sizeof where, " in program %s at %d, %s", image->programs[peak->program].name, peak->instr,
                 image->programs[peak->program].instrs[peak->instr].op);
    return ls_error(LS_NO_MEMORY, "a rank needs %zu bytes (%s), but %s allows %lld (%s), even with %s; its peak%s: %s",
                    account.mapped, ls_bytes_text((double)account.mapped, needed), limit, (long long)allowed,
                    ls_bytes_text((double)allowed, given),
                    image->host_apart ? "recompute, offload and tiles" : "recompute and tiles", where, largest);
}

size_t ls_plan_least(const ls_plan_request *request, const ls_image *image) {
    const bool state = !request->host_apart || request->offload_state == 0;
    size_t bytes = 0;
    for (int i = 0; i < image->n_buffers; i++) {
        const ls_buffer *b = &image->buffers[i];
        const bool here = b->space == LS_PRIVATE || b->space == LS_SYMMETRIC;
        const bool is = b->kind == LS_BUFFER_PARAMETER || b->kind == LS_BUFFER_GRADIENT ||
                        (b->kind == LS_BUFFER_OPTIMIZER && state);
        if (here && is && b->program < 0) bytes += b->bytes;
    }
    return bytes;
}

static int features_of(const ls_mesh *mesh) { return ls_mesh_size(mesh, ls_mesh_axes(mesh, LS_AXIS_FEATURE)); }

size_t ls_plan_found_least(const ls_plan_found *found, const ls_mesh *mesh, int mode) {
    const bool known = ls_mesh_stages(mesh) == 1 && found->least[mode].features == features_of(mesh);
    return known ? found->least[mode].bytes : 0;
}

void ls_plan_note_least(ls_plan_found *found, const ls_mesh *mesh, int mode, size_t least) {
    if (ls_mesh_stages(mesh) > 1) return;
    found->least[mode].features = features_of(mesh);
    found->least[mode].bytes = least;
}

ls_status ls_compile_alone(const ls_job *job, const ls_target *target, ls_image **out) {
    ls_target alone = *target;
    alone.rank = 0;
    alone.mesh = (ls_mesh){0};
    alone.strategy = "local";
    alone.window_strategy = alone.recurrence_way = alone.rnn_way = NULL;
    alone.layout = LS_LAYOUT_CONTIGUOUS;
    alone.slices = 1;
    alone.canonical = false; /* one rank has the sequences of all replicas */
    return ls_compile(job, &alone, out);
}
