/*
 * The command line: one file and one row per command. Public headers only.
 */
#ifndef LS_CLI_H
#define LS_CLI_H

#include "longspan/longspan.h"

#include <stddef.h>

#define CLI_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define CLI_MOST_OPTIONS 64

/* What every command takes; the first member of its struct of flags. */
typedef struct cli_common {
    bool json;
    bool help;                    /* seen by main before the flags are read */
    bool given[CLI_MOST_OPTIONS]; /* by row: on the command line */
} cli_common;

/* How a job is spread, as flags. */
typedef struct cli_spread {
    ls_spread spread;
    const char *ranks_as;
} cli_spread;

typedef struct cli_command {
    const char *name;
    const char *summary; /* one line */
    const char *usage;   /* behind "longspan NAME " */
    const char *about;   /* paragraphs for --help and the manual; NULL: none */
    const ls_option *options;
    int n_options;
    ls_status (*run)(void *flags);
    size_t flags_bytes;
    bool takes_word; /* one word that is no flag, before the flags: goes to the first option of the table */
} cli_command;

extern const cli_command cli_train, cli_attention, cli_grad, cli_generate, cli_explain, cli_plan, cli_bench,
    cli_version, cli_help;

/* The visible table, NULL past the end (main.c). */
const cli_command *cli_command_at(int index);
/* LS_USAGE error with the nearest name when there is none. */
LS_MUST_USE ls_status cli_find(const char *name, const cli_command **out);

/* The page of --help. */
void cli_print_help(const cli_command *command, FILE *out);
/* All commands, one line each. */
void cli_print_commands(FILE *out);
/* The manual page, in roff (manual.c). */
void cli_print_manual(FILE *out);

/* --- rows and pieces that commands share (shared.c) -------------------------------------------------------------------------- */

#define CLI_JSON_TEXT "the result as JSON on standard output"
#define CLI_COMMON_ROWS(flags)                                                                               \
    {.name = "json", .type = LS_OPTION_FLAG, .offset = offsetof(flags, common.json), .help = CLI_JSON_TEXT}, \
    {                                                                                                        \
        .name = "help", .type = LS_OPTION_FLAG, .offset = offsetof(flags, common.help), .help = "this page"  \
    }

#define CLI_SPREAD_AT(flags, field) (offsetof(flags, spread) + offsetof(cli_spread, field))
#define CLI_SPREAD_ROWS(flags)                                                                                   \
    {.name = "ranks",                                                                                            \
     .type = LS_OPTION_INT,                                                                                      \
     .metavar = "R",                                                                                             \
     .least = 1,                                                                                                 \
     .most = 1024,                                                                                               \
     .offset = CLI_SPREAD_AT(flags, spread.ranks),                                                               \
     .help = "local processes that share the work; the mesh's product when left out, else 1"},                   \
        {.name = "threads",                                                                                      \
         .type = LS_OPTION_INT,                                                                                  \
         .metavar = "T",                                                                                         \
         .least = 1,                                                                                             \
         .most = 1024,                                                                                           \
         .offset = CLI_SPREAD_AT(flags, spread.threads),                                                         \
         .help = "of each rank; cores divided by ranks when left out"},                                          \
        {.name = "strategy",                                                                                     \
         .type = LS_OPTION_TEXT,                                                                                 \
         .metavar = "NAME",                                                                                      \
         .offset = CLI_SPREAD_AT(flags, spread.strategy),                                                        \
         .help = "of attention: auto, local, ring, ulysses or usp; chosen when left out"},                       \
        {.name = "mesh",                                                                                         \
         .type = LS_OPTION_TEXT,                                                                                 \
         .metavar = "dp=A,ring=R,ulysses=U",                                                                     \
         .offset = CLI_SPREAD_AT(flags, spread.mesh),                                                            \
         .help = "any part of it; dp is 1 and the rest chosen when left out"},                                   \
        {.name = "layout",                                                                                       \
         .type = LS_OPTION_TEXT,                                                                                 \
         .metavar = "NAME",                                                                                      \
         .offset = CLI_SPREAD_AT(flags, spread.layout),                                                          \
         .help = "which positions a rank holds: auto, contiguous, zigzag or striped; chosen when left out"},     \
        {.name = "transfers",                                                                                    \
         .type = LS_OPTION_CHOICE,                                                                               \
         .metavar = "WAY",                                                                                       \
         .choices = "auto|put|in-place",                                                                         \
         .offset = CLI_SPREAD_AT(flags, spread.transfers),                                                       \
         .help = "how attention gets at other ranks' blocks: they are sent, or read where they lie"},            \
        {.name = "memory",                                                                                       \
         .type = LS_OPTION_BYTES,                                                                                \
         .metavar = "BYTES",                                                                                     \
         .least = 1,                                                                                             \
         .most = 0x1p62,                                                                                         \
         .offset = CLI_SPREAD_AT(flags, spread.memory),                                                          \
         .help = "that a rank may map; results are made again and tiles cut until it fits"},                     \
        {.name = "recompute",                                                                                    \
         .type = LS_OPTION_TEXT,                                                                                 \
         .metavar = "WHAT",                                                                                      \
         .offset = CLI_SPREAD_AT(flags, spread.recompute),                                                       \
         .help =                                                                                                 \
             "auto (as --memory demands), none, all, or how many results are made again in the backward pass"},  \
        {.name = "tile",                                                                                         \
         .type = LS_OPTION_CHOICE,                                                                               \
         .metavar = "WHAT",                                                                                      \
         .choices = "auto|none|loss|all",                                                                        \
         .offset = CLI_SPREAD_AT(flags, spread.tile),                                                            \
         .help =                                                                                                 \
             "what is run for some tokens at a time; auto: the loss, and all where --memory demands it"},        \
        {.name = "tile-rows",                                                                                    \
         .type = LS_OPTION_INT,                                                                                  \
         .metavar = "N",                                                                                         \
         .least = 1,                                                                                             \
         .most = 0x1p40,                                                                                         \
         .offset = CLI_SPREAD_AT(flags, spread.tile_rows),                                                       \
         .help = "tokens of a tile; as many as take about 96 MiB when left out"},                                \
    {                                                                                                            \
        .name = "isa", .type = LS_OPTION_TEXT, .metavar = "NAME",                                                \
        .offset = CLI_SPREAD_AT(flags, spread.isa),                                                              \
        .help =                                                                                                  \
            "kernels for no more than ref, base, avx2, avx512 or avx512bf16; the processor's best when left out" \
    }

/* For commands that run ranks. */
#define CLI_RUN_ROWS(flags)                                                                              \
    {.name = "ranks-as",                                                                                 \
     .type = LS_OPTION_CHOICE,                                                                           \
     .metavar = "KIND",                                                                                  \
     .choices = "processes|threads",                                                                     \
     .initial = "processes",                                                                             \
     .offset = CLI_SPREAD_AT(flags, ranks_as),                                                           \
     .help = "what a rank is"},                                                                          \
    {                                                                                                    \
        .name = "wait-timeout", .type = LS_OPTION_FLOAT, .metavar = "S", .least = 0.001, .most = 0x1p62, \
        .offset = CLI_SPREAD_AT(flags, spread.wait_timeout),                                             \
        .help = "seconds that a rank may stand still before the others give up; 600 when left out"       \
    }

#define CLI_DTYPE_ROW(flags, field, types, otherwise)                                         \
    {                                                                                         \
        .name = "dtype", .type = LS_OPTION_CHOICE, .metavar = "TYPE", .choices = types,       \
        .offset = offsetof(flags, field), .help = "element type; " otherwise " when left out" \
    }

/* The spread as the library takes it. */
ls_spread cli_spread_of(const cli_spread *flags);
/* "ring 2 · zigzag" in one line on standard output: what was chosen, time, bytes. */
void cli_print_spread(const ls_spread_result *result);

#endif
