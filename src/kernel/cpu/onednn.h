/*
 * One matrix product by oneDNN, run by the calling thread alone: oneDNN's own threads never start. It picks its
 * instruction set (AMX included) by itself. The only file that sees the library's header is common_onednn.c.
 */
#ifndef LS_KERNEL_CPU_ONEDNN_H
#define LS_KERNEL_CPU_ONEDNN_H

#include <stddef.h>
#include <stdint.h>

#include "kernel/cpu/matmul_impl.h"

typedef struct ls_onednn ls_onednn;

/* Whether oneDNN can do the product on this machine, and the scratch bytes that it wants. LS_UNSUPPORTED otherwise. */
LS_MUST_USE ls_status ls_onednn_scratch(const ls_cpu_product *product, size_t *bytes);

/* Generates the code. One object is for one thread at a time; objects of equal products share their code. */
LS_MUST_USE ls_status ls_onednn_create(const ls_cpu_product *product, ls_onednn **out);
void ls_onednn_destroy(ls_onednn *product); /* NULL is allowed */

typedef struct ls_onednn_data {
    const void *a, *b, *bias;
    void *c, *scratch;
} ls_onednn_data;

/* Sizes were checked at creation: it cannot fail. */
void ls_onednn_run(ls_onednn *product, const ls_onednn_data *data);

#endif
