/*
 * Options of a command line. One table per command is the source of the parser, --help and the manual page. A row has
 * the option's name, the type of its value, limits, a default, the place of the value in the caller's struct, and one
 * line of help.
 */
#ifndef LS_BASE_OPTIONS_H
#define LS_BASE_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "longspan/status.h"

typedef enum ls_option_type {
    LS_OPTION_FLAG,   /* bool; takes no value */
    LS_OPTION_INT,    /* int64_t */
    LS_OPTION_BYTES,  /* int64_t; suffixes K M G T (powers of 1024), optionally followed by iB or B */
    LS_OPTION_FLOAT,  /* double; must be finite */
    LS_OPTION_TEXT,   /* const char *, borrowed from argv */
    LS_OPTION_CHOICE, /* const char *; one of `choices` */
    LS_OPTION_LIST,   /* ls_option_list; one or more words, up to the next that begins with -- */
} ls_option_type;

typedef struct ls_option_list {
    const char *const *items; /* borrowed from argv */
    int count;
} ls_option_list;

typedef struct ls_option {
    const char *name; /* without the dashes, e.g. "weight-decay" */
    ls_option_type type;
    const char *metavar; /* the name of the value in --help, e.g. "N"; NULL for LS_OPTION_FLAG */
    const char *initial; /* the default as text, parsed like a value; NULL: the target stays as it is */
    const char *choices; /* "f32|bf16" for LS_OPTION_CHOICE */
    double least, most;  /* inclusive limits for INT, BYTES, FLOAT; both 0: no limits */
    bool required;
    size_t offset; /* of the value in the caller's struct: offsetof(...) */
    const char *help;
} ls_option;

/*
 * Parses argv[0..argc), without the names of program and command, into the struct at `target`. Accepts --name value and
 * --name=value. Every mistake, including an option that is given twice, is an LS_USAGE error that names the option, the
 * value and what was expected; the error for an unknown option suggests a known one. The caller handles --help.
 * `given`: NULL, or an array in which given[i] says whether option i is on the command line.
 */
LS_MUST_USE ls_status ls_options_parse(const ls_option *table, int rows, int argc, char *const *argv, void *target,
                                       bool *given);

/* Makes the same checks for a part of a command line: required options may be missing. Sets nothing. */
LS_MUST_USE ls_status ls_options_check(const ls_option *table, int rows, int argc, char *const *argv);

/* Prints the table for --help: two columns, wrapped at 100 characters, with defaults and limits. */
void ls_options_help(const ls_option *table, int rows, FILE *out);

/*
 * The number of edits (insert, delete or replace a character) that turn the first a_length characters of a into b, for
 * suggestions. The result is 40 when a name is NULL or longer than 40 characters.
 */
int ls_edit_distance(const char *a, size_t a_length, const char *b);

#endif
