/* The benches of `longspan bench`: one function each, a row of the table in bench.c. */
#ifndef LS_BENCH_IMPL_H
#define LS_BENCH_IMPL_H

#include "job/job_impl.h"

LS_MUST_USE ls_status ls_run_bench_attention(const ls_bench_job *job, FILE *out); /* bench_attention.c */

#endif
