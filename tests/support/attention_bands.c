#include "attention_bands.h"
#include "attention_oracle.h"

#include <stdlib.h>

#include "program/program.h"

static ls_status compare(const ls_instr *instr, const int32_t *spans, const int32_t *kpos) {
    const ls_attention_band *band = &((const ls_attention_params *)instr->params)->band;
    const int64_t *size = instr->in[3].view.size, keys = instr->in[4].view.size[0];
    for (int64_t row = 0; row < size[0] * size[1]; row++) {
        for (int64_t j = 0; j < keys; j++) {
            const int64_t i = row % size[1];
            const bool told = band->low <= j - i && j - i <= band->high;
            if (told != spans_show(spans + row * size[2], size[2], kpos[j]))
                return ls_error(LS_FAULT,
                                "%s of %lld queries and %lld keys: told that j - i is from %lld to %lld, "
                                "which is wrong of query %lld and key %lld",
                                instr->op, (long long)size[1], (long long)keys, (long long)band->low,
                                (long long)band->high, (long long)i, (long long)j);
        }
    }
    return ls_ok();
}

static ls_status check_call(const ls_executor *executor, const ls_instr *instr) {
    int32_t *const spans = malloc(ls_view_bytes(&instr->in[3].view)), *const kpos =
                                                                          malloc(ls_view_bytes(&instr->in[4].view));
    ls_status status = ls_executor_read(executor, &instr->in[3], spans);
    if (status.code == LS_OK) status = ls_executor_read(executor, &instr->in[4], kpos);
    if (status.code == LS_OK) status = compare(instr, spans, kpos);
    free(spans);
    free(kpos);
    return status;
}

static bool is_told(const ls_instr *instr) {
    if (instr->kind != LS_INSTR_KERNEL) return false;
    const ls_kernel_id id = instr->kernel->id;
    return (id == LS_KERNEL_ATTENTION || id == LS_KERNEL_ATTENTION_GRAD) &&
           ((const ls_attention_params *)instr->params)->band.known;
}

ls_status attention_bands_check(const ls_executor *executor) {
    const ls_image *image = ls_executor_image(executor);
    for (int p = 0; p < image->n_programs; p++)
        for (int i = 0; i < image->programs[p].n_instrs; i++)
            if (is_told(&image->programs[p].instrs[i])) LS_TRY(check_call(executor, &image->programs[p].instrs[i]));
    return ls_ok();
}
