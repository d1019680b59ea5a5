/*
 * For clang-tidy (lint.sh), which sees one file at a time: what it cannot know of functions in others. An error is
 * never LS_OK, so what a function sets on success alone is not read after one.
 */
#include "format/json.h"
#include "longspan/status.h"

void ls_analysis_reads(const char *format, ...) LS_PRINTF(1, 2);
#define ls_error(error, ...) (ls_analysis_reads(__VA_ARGS__), (ls_status){.code = (error)})
#define ls_json_error(value, ...) (ls_analysis_reads(__VA_ARGS__), (void)(value), (ls_status){.code = LS_INVALID})
