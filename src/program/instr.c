#include "program/instr.h"

static ls_access_kind kind_of_output(const ls_instr *instr, int output) {
    if (instr->kind == LS_INSTR_PUT_SIGNAL) return LS_ACCESS_PUT;
    if (instr->kind != LS_INSTR_KERNEL) return LS_ACCESS_WRITE;
    return ls_kernel_reads_output(instr->kernel->id, instr->params, output) ? LS_ACCESS_UPDATE
                                                                            : LS_ACCESS_WRITE;
}

ls_instr_access ls_instr_access_at(const ls_instr *instr, int k) {
    if (k < instr->n_in) return (ls_instr_access){&instr->in[k], LS_ACCESS_READ, -1};
    const int output = k - instr->n_in;
    if (output < instr->n_out)
        return (ls_instr_access){&instr->out[output], kind_of_output(instr, output), output};
    return (ls_instr_access){instr->workspace, LS_ACCESS_WRITE, -1};
}
