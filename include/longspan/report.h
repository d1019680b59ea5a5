/*
 * Reports: results as JSON (one object on one line, with a newline) and as words. For programs that show what a job did. NULL in the
 * place of a result or of the file: nothing is written.
 */
#ifndef LONGSPAN_REPORT_H
#define LONGSPAN_REPORT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "longspan/eval.h"
#include "longspan/job.h"
#include "longspan/linkage.h"
#include "longspan/train.h"
#include "longspan/units.h"

LS_PUBLIC_BEGIN

/* This build on this machine. Texts of lists are separated by ", ". */
typedef struct ls_about {
    char version[32], commit[64];
    char isa[16];         /* the best that kernels are chosen for here */
    char isas[96];        /* all that this process may use, the best one last */
    char processor[64];   /* its own name */
    int64_t cores;        /* that this process may use */
    int64_t memory_bytes; /* that this process may use */
    char transports[64];
    char libraries[256]; /* shared ones in use, beside the C library's */
    char strategies[128];
    int64_t kernels; /* registered, all types and instruction sets */
} ls_about;
/* LS_USAGE error where the environment's LONGSPAN_ISA cannot be followed. */
LS_MUST_USE ls_status ls_about_get(ls_about *out);

void ls_about_json(const ls_about *about, FILE *out);
void ls_spread_result_json(const ls_spread_result *result, FILE *out);
void ls_grad_result_json(const ls_grad_result *result, FILE *out);
void ls_eval_result_json(const ls_eval_result *result, FILE *out);
void ls_train_result_json(const ls_train_result *result, FILE *out);
/* prompt (left out when NULL) and text as they are, bytes that are no UTF-8 replaced, result->tokens ids, and the figures. */
void ls_generate_result_json(const char *prompt, const char *text, const int32_t *ids,
                             const ls_generate_result *result, FILE *out);
/* [{"name": ..., "summary": ...}, ...]. */
typedef struct ls_named_text {
    const char *name, *summary;
} ls_named_text;
void ls_named_texts_json(const ls_named_text *list, int n, FILE *out);

LS_PUBLIC_END

#endif
