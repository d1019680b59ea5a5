#include "program/peak.h"

#include <stdlib.h>

bool ls_buffer_is_live(const ls_buffer *b, int program, int instr) {
    return b->program < 0 ||
           (b->program == program && b->first >= 0 && b->first <= instr && instr <= b->last);
}

static size_t live_bytes(const ls_image *image, ls_space space, int program, int instr, size_t *by_kind) {
    size_t sum = 0;
    for (int i = 0; i < image->n_buffers; i++) {
        const ls_buffer *b = &image->buffers[i];
        if (b->space != space || !ls_buffer_is_live(b, program, instr)) continue;
        sum += b->bytes;
        if (by_kind != NULL) by_kind[b->kind] += b->bytes;
    }
    return sum;
}

ls_peak ls_image_peak(const ls_image *image, ls_space space) {
    ls_peak peak = {.program = -1, .instr = -1};
    peak.bytes = live_bytes(image, space, -1, -1, NULL);
    for (int i = 0; i < image->n_buffers; i++) { /* live bytes only rise where a buffer's life begins */
        const ls_buffer *b = &image->buffers[i];
        if (b->space != space || b->program < 0 || b->first < 0) continue;
        const size_t bytes = live_bytes(image, space, b->program, b->first, NULL);
        const bool earlier =
            b->program < peak.program || (b->program == peak.program && b->first < peak.instr);
        if (bytes < peak.bytes || (bytes == peak.bytes && !earlier)) continue;
        peak = (ls_peak){.program = b->program, .instr = b->first, .bytes = bytes};
    }
    (void)live_bytes(image, space, peak.program, peak.instr, peak.kind_bytes);
    return peak;
}

int ls_image_largest(const ls_image *image, ls_space space, const ls_peak *peak, int *out, int n) {
    int found = 0;
    for (int i = 0; i < image->n_buffers; i++) {
        const ls_buffer *b = &image->buffers[i];
        if (b->space != space || !ls_buffer_is_live(b, peak->program, peak->instr)) continue;
        int at = found < n ? found++ : n;
        for (; at > 0 && image->buffers[out[at - 1]].bytes < b->bytes; at--) {
            if (at < n) out[at] = out[at - 1];
        }
        if (at < n) out[at] = i;
    }
    return found;
}
