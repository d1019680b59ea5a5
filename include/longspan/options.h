/*
 * Options: one table per command feeds the parser, --help, and the manual. A row says the flag's name, what it
 * takes, its limits, its default, where the value goes, and one line of help.
 */
#ifndef LONGSPAN_OPTIONS_H
#define LONGSPAN_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "longspan/linkage.h"
#include "longspan/status.h"

LS_PUBLIC_BEGIN

typedef enum ls_option_type {
    LS_OPTION_FLAG,   /* bool; takes no value */
    LS_OPTION_INT,    /* int64_t */
    LS_OPTION_BYTES,  /* int64_t; suffixes K M G T (powers of 1024), optionally followed by iB or B */
    LS_OPTION_FLOAT,  /* double; must be finite */
    LS_OPTION_TEXT,   /* const char *, borrowed from argv */
    LS_OPTION_CHOICE, /* const char *; one of `choices` */
    LS_OPTION_LIST,   /* ls_option_list; one or more words up to the next flag */
} ls_option_type;

typedef struct ls_option_list {
    const char *const *items; /* borrowed from argv */
    int count;
} ls_option_list;

typedef struct ls_option {
    const char *name; /* without the dashes, e.g. "weight-decay" */
    ls_option_type type;
    const char *metavar; /* e.g. "N"; NULL for a flag */
    const char *initial; /* default as text, parsed like a value; NULL: leaves the target as it is */
    const char *choices; /* "f32|bf16" for LS_OPTION_CHOICE */
    double least, most;  /* inclusive limits for INT, BYTES, FLOAT; both 0: none */
    bool required;
    size_t offset; /* of the target in the caller's struct: offsetof(...) */
    const char *help;
} ls_option;

/*
 * Parses argv[0..argc) (without program and command names) into `target`. Accepts --name value and
 * --name=value. Every mistake is an LS_USAGE error that names the flag, the value and what was expected; an unknown
 * flag suggests the nearest known one. A flag given twice is an error. --help is the caller's business.
 * given: may be NULL; else given[i] tells whether row i was set on the command line.
 */
LS_MUST_USE ls_status ls_options_parse(const ls_option *table, int rows, int argc, char *const *argv,
                                       void *target, bool *given);

/* The table as text for --help: two columns, wrapped at 100 characters, defaults and limits shown. */
void ls_options_help(const ls_option *table, int rows, FILE *out);

/*
 * Edits (insert, drop, replace a character) that turn the first a_length characters of a into b, for suggestions. Names beyond
 * 40 characters count as far.
 */
int ls_edit_distance(const char *a, size_t a_length, const char *b);

LS_PUBLIC_END

#endif
