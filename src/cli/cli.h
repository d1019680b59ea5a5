/*
 * The command line: one file and one row per command.
 */
#ifndef LS_CLI_H
#define LS_CLI_H

#include "base/base.h"
#include "cli/commands.h"

#include <stddef.h>

#define CLI_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define CLI_MOST_OPTIONS 96

/* What commands take beside options of their own; the first member of every struct of flags. */
typedef struct cli_common {
    bool json;
    bool help; /* seen by main before the flags are read */
    bool given
        [CLI_MOST_OPTIONS]; /* by row of cli_options_of, which begins with the command's own: on the command line */
    ls_spread spread;       /* of commands that plan ranks */
    ls_rope_change rope;  /* of commands that open a model */
    ls_text_form form;    /* of commands that read texts */
    const char *ranks_as; /* of commands that run them */
} cli_common;

typedef struct cli_command {
    const char *name;
    const char *summary;      /* one line */
    const char *usage;        /* behind "longspan NAME " */
    const char *about;        /* paragraphs for --help and the manual; NULL: none */
    const ls_option *options; /* its own; NULL: none */
    int n_options;
    bool spreads; /* takes the options that say how a job is spread over ranks */
    bool runs;    /* and those of ranks that run */
    bool opens;   /* takes the options that change a model's rotary positions */
    bool reads;   /* takes the options that say how texts become documents */
    ls_status (*run)(void *flags);
    size_t flags_bytes;
    int takes_word; /* how many words that are no flags may come before the flags: they go to the first options of the table */
    size_t
        words_at; /* of an ls_option_list in the flags, for the words that belong to no flag; 0: there may be none */
} cli_command;

/* What every row with options of its own has: their table, what to call, and the struct of flags that both are about. */
#define CLI_OWN(table, function, flags) \
    .options = table, .n_options = CLI_COUNT(table), .run = function, .flags_bytes = sizeof(flags)

extern const cli_command cli_train, cli_data, cli_attention, cli_grad, cli_generate, cli_eval, cli_recall,
    cli_tokenize, cli_explain, cli_plan, cli_bench, cli_checkpoint, cli_version, cli_help;

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

/* --- rows of a table of options: each says what its kind needs, and nothing twice ---------------------------------------------- */

#define CLI_ANY 0x1p62 /* a number may be as large as it likes */

#define CLI_FLAG(called, at, text) \
    { .name = called, .type = LS_OPTION_FLAG, .offset = at, .help = text }
#define CLI_WORDS(kind, needed, called, value, at, text) \
    { .name = called, .type = kind, .metavar = value, .required = needed, .offset = at, .help = text }
#define CLI_TEXT(...) CLI_WORDS(LS_OPTION_TEXT, false, __VA_ARGS__)
#define CLI_REQUIRED_TEXT(...) CLI_WORDS(LS_OPTION_TEXT, true, __VA_ARGS__)
#define CLI_LIST(...) CLI_WORDS(LS_OPTION_LIST, false, __VA_ARGS__)
#define CLI_REQUIRED_LIST(...) CLI_WORDS(LS_OPTION_LIST, true, __VA_ARGS__)
#define CLI_CHOICE(called, value, among, otherwise, at, text)                                               \
    {                                                                                                       \
        .name = called, .type = LS_OPTION_CHOICE, .metavar = value, .choices = among, .initial = otherwise, \
        .offset = at, .help = text                                                                          \
    }
#define CLI_NUMBER(kind, called, value, otherwise, from, to, at, text)                                   \
    {                                                                                                    \
        .name = called, .type = kind, .metavar = value, .initial = otherwise, .least = from, .most = to, \
        .offset = at, .help = text                                                                       \
    }
#define CLI_INT(...) CLI_NUMBER(LS_OPTION_INT, __VA_ARGS__)
#define CLI_FLOAT(...) CLI_NUMBER(LS_OPTION_FLOAT, __VA_ARGS__)
#define CLI_BYTES(...) CLI_NUMBER(LS_OPTION_BYTES, __VA_ARGS__)

/* The rows of a model, and of what trained it. */
#define CLI_MODEL(at)                      \
    CLI_REQUIRED_TEXT("model", "PATH", at, \
                      "config.json, or a directory with one and, if trained, *.safetensors")
#define CLI_CHECKPOINT(at)            \
    CLI_TEXT("checkpoint", "DIR", at, \
             "a checkpoint, or the --out of a training run; the model's own weights when left out")
/* What is read, where a command reads texts or shards. */
#define CLI_DATA_HELP                                                                                      \
    "files, folders or patterns: text (a document each), JSONL or JSON (a document per record), plain or " \
    "compressed (.gz, .zst); or token shards (longspan data build)"
/* How documents come into the sequences that a command reads. */
#define CLI_PACK(at)                                                                                 \
    CLI_CHOICE(                                                                                      \
        "pack", "NAME", "join|best|stream", "join", at,                                              \
        "how documents come into sequences: joined, so that they see each other; or apart, each at " \
        "positions from 0, by best fit or in their order. One longer than a sequence is cut; its pieces, too, begin at 0")

/* --- pieces that commands share (shared.c) ------------------------------------------------------------------------------------ */

/* All rows of a command, its own first. Returns how many there are; out has the first CLI_MOST_OPTIONS of them. */
int cli_options_of(const cli_command *command, ls_option out[CLI_MOST_OPTIONS]);

/* The spread as the library takes it. */
ls_spread cli_spread_of(const cli_common *flags);
/*
 * Puts the words that belong to no flag behind all others, in their order; returns how many. argv's own pointers are moved, nothing else.
 */
int cli_part_words(const ls_option *table, int rows, int argc, const char **argv);
/* "ring 2 · zigzag" in one line on standard output: what was chosen, time, bytes. */
void cli_print_spread(const ls_spread_result *result);

#endif
