#include "program/account.h"

#include "program/instr.h"

#include <stdlib.h>
#include <string.h>

static double operand_bytes(const ls_operand *o) {
    if (o->buffer < 0 || ls_view_elements(&o->view) == 0) return 0;
    const ls_range range = ls_view_range(&o->view, 0);
    return (double)ls_range_bytes(&range);
}

double ls_instr_bytes(const ls_instr *instr) {
    double bytes = 0;
    for (int k = 0; k < ls_instr_operands(instr) && ls_traits(instr)->moves; k++)
        bytes += operand_bytes(ls_instr_access_at(instr, k).operand);
    return bytes;
}

static ls_op_account *row_of(ls_op_account *rows, int *n, const char *op) {
    for (int i = 0; i < *n; i++) {
        if (strcmp(rows[i].op, op) == 0) return &rows[i];
    }
    if (*n == LS_OP_ACCOUNTS) {
        rows[LS_OP_ACCOUNTS - 1].op = "others";
        return &rows[LS_OP_ACCOUNTS - 1];
    }
    rows[*n] = (ls_op_account){.op = op};
    return &rows[(*n)++];
}

static int by_work(const void *x, const void *y) {
    const ls_op_account *a = x, *b = y;
    if (a->flops != b->flops) return a->flops < b->flops ? 1 : -1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
    return strcmp(a->op, b->op);
}

int ls_program_ops(const ls_image *image, int program, ls_op_account out[LS_OP_ACCOUNTS]) {
    const ls_program *p = &image->programs[program];
    int n = 0;
    for (int i = 0; i < p->n_instrs; i++) {
        ls_op_account *row = row_of(out, &n, p->instrs[i].op);
        row->count++;
        row->flops += p->instrs[i].flops;
        row->bytes += ls_instr_bytes(&p->instrs[i]);
    }
    qsort(out, (size_t)n, sizeof *out, by_work);
    return n;
}

ls_program_account ls_program_account_of(const ls_image *image, int program) {
    const ls_program *p = &image->programs[program];
    ls_program_account account = {.joins = 0};
    for (int i = 0; i < p->n_instrs; i++) {
        const ls_instr *instr = &p->instrs[i];
        account.kinds[instr->kind]++;
        account.joins += instr->n_after > 0;
        for (int k = 0; k < ls_instr_operands(instr); k++)
            account.reads += ls_instr_access_at(instr, k).operand->value != 0;
    }
    for (int i = 0; i < image->n_buffers; i++)
        account.buffers += image->buffers[i].program == program && image->buffers[i].first >= 0;
    return account;
}
