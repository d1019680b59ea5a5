/* What the files of `longspan data` share. */
#ifndef LS_JOB_DATA_IMPL_H
#define LS_JOB_DATA_IMPL_H

#include "format/format.h"
#include "longspan/data.h"

/* Which stretches of which documents each step trains on (data_order.c). */
LS_MUST_USE ls_status ls_data_print_order(const ls_data_inspect_job *job, FILE *out);

#endif
