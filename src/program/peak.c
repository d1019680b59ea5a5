#include "program/peak.h"

#include <stdlib.h>

bool ls_buffer_is_live(const ls_buffer *b, int program, int instr) {
    return b->program < 0 || (b->program == program && b->first >= 0 && b->first <= instr && instr <= b->last);
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

/* Replaces *peak by the peak of one program if that is higher. always: bytes that are live throughout. */
static void raise_peak(const ls_image *image, ls_space space, int program, size_t always, ls_peak *peak) {
    const int n = image->programs[program].n_instrs;
    ls_arena *arena = ls_arena_create();
    int64_t *change = LS_NEW_ARRAY(arena, int64_t, n + 1); /* change of live bytes before each instruction */
    for (int i = 0; i < image->n_buffers; i++) {
        const ls_buffer *b = &image->buffers[i];
        if (b->space != space || b->program != program || b->first < 0) continue;
        change[b->first] += (int64_t)b->bytes;
        change[b->last + 1] -= (int64_t)b->bytes;
    }
    int64_t live = (int64_t)always;
    for (int i = 0; i < n; i++) {
        live += change[i];
        if ((size_t)live > peak->bytes) *peak = (ls_peak){.program = program, .instr = i, .bytes = (size_t)live};
    }
    ls_arena_destroy(arena);
}

ls_peak ls_image_peak(const ls_image *image, ls_space space) {
    ls_peak peak = {.program = -1, .instr = -1};
    const size_t always = live_bytes(image, space, -1, -1, NULL);
    peak.bytes = always;
    for (int p = 0; p < image->n_programs; p++) raise_peak(image, space, p, always, &peak);
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
