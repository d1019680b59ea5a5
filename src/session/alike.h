/*
 * What decides a result must be alike in the processes of all launched ranks: options, inputs, the instruction set. A
 * list of names and values is made in each, in the same order, and compared with that of rank 0:
 *
 *     ls_alike *alike;
 *     LS_TRY(ls_alike_begin(&alike));
 *     ls_alike_add(alike, "--lr", "%.17g", lr);
 *     ls_alike_add_folder(alike, "--model", folder);
 *     LS_TRY(ls_alike_end(alike, status));
 *
 * Where this process starts the ranks there is nothing to compare: *out is NULL, with which all calls do nothing.
 */
#ifndef LS_SESSION_ALIKE_H
#define LS_SESSION_ALIKE_H

#include "base/base.h"
#include "model/model.h"

typedef struct ls_alike ls_alike;

LS_MUST_USE ls_status ls_alike_begin(ls_alike **out);

/* Adds a value; it may be long. */
void ls_alike_add(ls_alike *alike, const char *name, const char *format, ...) LS_PRINTF(3, 4);
/* Adds a text that may be missing (NULL): an option that was left out. */
void ls_alike_add_text(ls_alike *alike, const char *name, const char *text);
/* Adds what identifies some bytes: their number and a hash. */
void ls_alike_add_bytes(ls_alike *alike, const char *name, const void *data, size_t bytes);
/* Adds the text that a model was read from, under the name "a config.json". */
void ls_alike_add_model(ls_alike *alike, const ls_model *model);
/*
 * Adds what identifies the files of a folder that a model, a tokenizer or a checkpoint is read from (ls_file_identify),
 * as "NAME FILE". folder NULL: there is none.
 */
void ls_alike_add_folder(ls_alike *alike, const char *name, const char *folder);
/* A value with what helps where it differs, which ends the message: "LONGSPAN_ISA=... limits it". */
void ls_alike_add_with_remedy(ls_alike *alike, const char *name, const char *value, const char *remedy);

/*
 * Ends and frees the list. Collective among the processes. mine: how making the list went; when it failed in one of
 * them, all get that failure (ls_home_agree). LS_USAGE, the same in all, names the first value that differs from rank
 * 0's, with both values and the rank.
 */
LS_MUST_USE ls_status ls_alike_end(ls_alike *alike, ls_status mine);

#endif
