#include "program/instr.h"

const ls_instr_traits ls_instr_traits_of[LS_INSTR_KINDS] = {
    [LS_INSTR_KERNEL] = {.name = "kernel", .moves = true},
    [LS_INSTR_GRANT] = {.name = "grant", .sets = true, .free = true, .opens = true, .subject = LS_SUBJECT_OUT},
    [LS_INSTR_ACQUIRE] = {.name = "acquire", .awaits = true, .free = true, .awaited = LS_INSTR_GRANT},
    [LS_INSTR_PUT] = {.name = "put", .moves = true, .sets = true, .subject = LS_SUBJECT_IN},
    [LS_INSTR_RECEIVE] =
        {.name = "receive", .awaits = true, .closes = true, .subject = LS_SUBJECT_OUT, .awaited = LS_INSTR_PUT},
    [LS_INSTR_LEASE] = {.name = "lease", .sets = true, .opens = true, .subject = LS_SUBJECT_IN},
    [LS_INSTR_BORROW] =
        {.name = "borrow", .awaits = true, .in_place = true, .subject = LS_SUBJECT_OUT, .awaited = LS_INSTR_LEASE},
    [LS_INSTR_RETURN] = {.name = "return", .sets = true, .free = true, .in_place = true, .subject = LS_SUBJECT_OUT},
    [LS_INSTR_RECLAIM] = {.name = "reclaim",
                          .awaits = true,
                          .free = true,
                          .closes = true,
                          .subject = LS_SUBJECT_IN,
                          .awaited = LS_INSTR_RETURN},
};

static ls_access_kind kind_of_output(const ls_instr *instr, int output) {
    if (instr->kind == LS_INSTR_PUT) return LS_ACCESS_PUT;
    if (instr->kind != LS_INSTR_KERNEL) return LS_ACCESS_WRITE;
    return ls_kernel_reads_output(instr->kernel->id, instr->params, output) ? LS_ACCESS_UPDATE : LS_ACCESS_WRITE;
}

ls_instr_access ls_instr_access_at(const ls_instr *instr, int k) {
    if (k < instr->n_in) return (ls_instr_access){&instr->in[k], LS_ACCESS_READ, -1};
    const int output = k - instr->n_in;
    if (output < instr->n_out) return (ls_instr_access){&instr->out[output], kind_of_output(instr, output), output};
    return (ls_instr_access){instr->workspace, LS_ACCESS_WRITE, -1};
}
