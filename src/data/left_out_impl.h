/* data: what is left out of records or not learnt, and the table that reports it. */
#ifndef LS_DATA_LEFT_OUT_IMPL_H
#define LS_DATA_LEFT_OUT_IMPL_H

#include "format/format.h"
#include "longspan/data.h"

/* Names of record members that nothing reads: the first ones that were found, as many as there is room for. */
enum { LS_UNREAD_MOST = 16 };
typedef struct ls_unread {
    char name[LS_UNREAD_MOST][64];
    int n;
} ls_unread;
/* Adds `prefix` + `name`, unless it was added before. */
void ls_unread_add(ls_unread *unread, const char *prefix, const char *name);
/* Adds the members of an object whose names are not in `read`, a list that ends with NULL. */
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
/* Logs the head of the table: the numbers of documents, tokens and learnt tokens. */
void ls_document_counts_log(const ls_document_counts *counts);
/*
 * Logs the other rows of the table: one for each reason why something is left out or not learnt. too_long: the text of
 * the row about documents that are too long.
 */
void ls_left_out_log(const ls_document_counts *counts, const char *too_long);

#endif
