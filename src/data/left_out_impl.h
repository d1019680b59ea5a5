/* data: what of records is left out or not learnt, and the table that says so. */
#ifndef LS_DATA_LEFT_OUT_IMPL_H
#define LS_DATA_LEFT_OUT_IMPL_H

#include "format/format.h"
#include "longspan/data.h"

/* Names of members of records that nothing reads: the first of each, up to as many as there is room for. */
enum { LS_UNREAD_MOST = 16 };
typedef struct ls_unread {
    char name[LS_UNREAD_MOST][64];
    int n;
} ls_unread;
/* Adds `prefix` + `name`, unless it is there already. */
void ls_unread_add(ls_unread *unread, const char *prefix, const char *name);
/* Adds the members of an object whose names are none of `read`, a list that ends with NULL. */
void ls_unread_find(ls_unread *unread, ls_json_value object, const char *const *read);

typedef struct ls_document_counts {
    int64_t documents, tokens, learnt, longest; /* longest: tokens of the longest document */
    int64_t empty, bad;                         /* records left out */
    int64_t binary;                             /* files skipped */
    ls_left_out left_out;
} ls_document_counts;

/* Field i of the struct with its name in files; NULL past the last one. */
int64_t *ls_left_out_field(ls_left_out *left_out, size_t i, const char **name);
void ls_left_out_add(ls_left_out *to, const ls_left_out *more);
/* Logs how many documents, tokens and learnt tokens there are: the head of a table. */
void ls_document_counts_log(const ls_document_counts *counts);
/*
 * Logs its other rows: one for each reason for which something is left out or not learnt. too_long: the text of the row
 * about documents that are too long.
 */
void ls_left_out_log(const ls_document_counts *counts, const char *too_long);

#endif
