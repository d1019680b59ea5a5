/*
 * Everything that decides a result must be equal in the processes of all launched ranks: options, inputs, the
 * instruction set. Each process makes a list of names and values, in the same order, which is compared with the list of
 * rank 0:
 *
 *     ls_alike *alike;
 *     LS_TRY(ls_alike_begin(&alike));
 *     ls_alike_add(alike, "--lr", "%.17g", lr);
 *     ls_alike_add_folder(alike, "--model", folder);
 *     LS_TRY(ls_alike_end(alike, status));
 *
 * If this process starts the ranks, there is nothing to compare: *out is NULL, and all calls then do nothing.
 */
#ifndef LS_SESSION_ALIKE_H
#define LS_SESSION_ALIKE_H

#include "base/base.h"
#include "model/model.h"

typedef struct ls_alike ls_alike;

LS_MUST_USE ls_status ls_alike_begin(ls_alike **out);

/* Adds a value; it may be long. */
void ls_alike_add(ls_alike *alike, const char *name, const char *format, ...) LS_PRINTF(3, 4);
/* Adds a text that may be NULL: an option that was not given. */
void ls_alike_add_text(ls_alike *alike, const char *name, const char *text);
/* Adds what identifies a number of bytes: their count and a hash. */
void ls_alike_add_bytes(ls_alike *alike, const char *name, const void *data, size_t bytes);
/* Adds the text that a model was read from, under the name "a config.json". */
void ls_alike_add_model(ls_alike *alike, const ls_model *model);
/*
 * Adds what identifies the files of a folder from which a model, a tokenizer or a checkpoint is read
 * (ls_file_identify), as "NAME FILE". folder NULL: there is none.
 */
void ls_alike_add_folder(ls_alike *alike, const char *name, const char *folder);
/* Adds a value with a remedy, which ends the message if the values differ: "LONGSPAN_ISA=... limits it". */
void ls_alike_add_with_remedy(ls_alike *alike, const char *name, const char *value, const char *remedy);

/*
 * Ends and frees the list. Collective among the processes. mine: the status of making the list; if it is a failure in
 * one of the processes, all get that failure (ls_home_agree). LS_USAGE, the same in all, names the first value that
 * differs from rank 0's, with both values and the rank.
 */
LS_MUST_USE ls_status ls_alike_end(ls_alike *alike, ls_status mine);

#endif
