/*
 * What the files of cli share: the form of a command's row, the options that several commands take, and reading and
 * writing arrays, token ids and masks.
 */
#ifndef LS_CLI_IMPL_H
#define LS_CLI_IMPL_H

#include "base/base.h"
#include "cli/cli.h"
#include "format/format.h"
#include "longspan/train.h"
#include "session/session.h"

#include <stddef.h>

#define CLI_COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define CLI_MOST_OPTIONS 96

/* The flags that several commands share; the first member of every struct of flags. */
typedef struct cli_common {
    bool json;
    bool help; /* handled by main before the flags are parsed */
    /*
     * Whether each option was on the command line, by its row of cli_options_of, in which the command's own options
     * come first.
     */
    bool given[CLI_MOST_OPTIONS];
    ls_spread spread;                 /* for commands that spread work over ranks */
    ls_rope_change rope;              /* for commands that open a model */
    ls_adapter_choice adapter;        /* the same */
    ls_text_form form;                /* for commands that read texts */
    const char *ranks_as, *transport; /* for commands that run ranks */
    const char *config;               /* for commands that configure */
    ls_given_option *as_given; /* for the same: the options given in the file and on the command line, for run.json */
    int n_as_given;
} cli_common;

typedef struct cli_command {
    const char *name;
    const char *summary;      /* one line */
    const char *usage;        /* what follows "longspan NAME " */
    const char *about;        /* paragraphs for --help and the manual; NULL: none */
    const ls_option *options; /* the command's own; NULL: none */
    int n_options;
    bool spreads; /* takes the options of spread_rows (options.c): how a job is spread over ranks */
    bool runs;    /* takes the options of run_rows: how ranks run */
    bool (*needs_ranks)(const void *flags); /* for commands that spread: whether ranks run; NULL: always */
    bool tells; /* only reports something about this program, so each of several launched processes runs it; false: only
                   one of them does */
    bool opens; /* takes the options of rope_rows: changes of a model's rotary positions, and its adapter */
    bool configures; /* takes --config: settings of train from a file */
    bool reads;      /* takes the options of form_rows: how texts become documents */
    ls_status (*run)(void *flags);
    size_t flags_bytes;
    int takes_word; /* how many words may come before the flags; they are the values of the first options of the table
                     */
    /*
     * The offset in the flags of an ls_option_list for all other words that are not flags; 0: such words are an error.
     */
    size_t words_at;
} cli_command;

/*
 * Members of the row of a command with its own options: the table of options, the function to run, and the struct of
 * flags.
 */
#define CLI_OWN(table, function, flags) \
    .options = table, .n_options = CLI_COUNT(table), .run = function, .flags_bytes = sizeof(flags)

/* All commands, in the order in which they are listed. The row of X is cli_X. */
#define CLI_COMMANDS(X)                                                                                            \
    X(train), X(data), X(eval), X(logprobs), X(recall), X(generate), X(grad), X(steps), X(attention), X(tokenize), \
        X(explain), X(plan), X(bench), X(checkpoint), X(version), X(help)
#define CLI_ROW(command) cli_##command
extern const cli_command CLI_COMMANDS(CLI_ROW);

/* Row `index` of the list; NULL past the end. */
const cli_command *cli_command_at(int index);
/* Finds a command by its name. LS_USAGE, with the nearest name, if there is none. */
LS_MUST_USE ls_status cli_find(const char *name, const cli_command **out);

/* Prints the page of --help. */
void cli_print_help(const cli_command *command, FILE *out);
/* Prints all commands, one line each. */
void cli_print_commands(FILE *out);
/* Prints the manual page in roff (help.c). */
void cli_print_manual(FILE *out);

/* --- rows of a table of options: one macro for each kind of option ------------------------------------------------ */

#define CLI_ANY 0x1p62 /* the largest value of a number without a limit */

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
#define CLI_NUMBER(kind, called, value, otherwise, from, to, at, text)                                                 \
    {                                                                                                                  \
        .name = called, .type = kind, .metavar = value, .initial = otherwise, .least = from, .most = to, .offset = at, \
        .help = text                                                                                                   \
    }
#define CLI_INT(...) CLI_NUMBER(LS_OPTION_INT, __VA_ARGS__)
#define CLI_FLOAT(...) CLI_NUMBER(LS_OPTION_FLOAT, __VA_ARGS__)
#define CLI_BYTES(...) CLI_NUMBER(LS_OPTION_BYTES, __VA_ARGS__)

/* The options of commands that open a trained model. */
#define CLI_MODEL(at)        \
    CLI_REQUIRED_TEXT(       \
        "model", "PATH", at, \
        "config.json, or graph.json of an imported model; or a folder with one and, if trained, *.safetensors")
#define CLI_LORA(at)                                                                                               \
    CLI_TEXT("lora", "r=N,alpha=X,target=WHAT", at,                                                                \
             "train a new low-rank adapter instead of the model's weights: r and alpha (8 when left out), target " \
             "(all-linear, or patterns of modules with + between: q_proj+v_proj), modules-to-save (modules that "  \
             "are trained whole), rslora, dora")
#define CLI_CHECKPOINT(at)            \
    CLI_TEXT("checkpoint", "DIR", at, \
             "a checkpoint, or the --out of a training run; the model's own weights when left out")
/* The optimiser of a training step. */
#define CLI_OPTIMIZER(at, text) CLI_CHOICE("optimizer", "NAME", "adamw|sgd|lion|muon", "adamw", at, text)
/* The average of the parameters that the optimiser updates. */
#define CLI_EMA(at)                                                                                                      \
    CLI_FLOAT(                                                                                                           \
        "ema", "DECAY", "0", 0, 0.9999999, at,                                                                           \
        "keep an exponential moving average of the trained weights, DECAY * average + (1 - DECAY) * weights after each " \
        "step, in f32: checkpoints, evaluations and the exported model have it in the place of the weights; 0: none")
/* The help of options for texts or shards. */
#define CLI_DATA_HELP                                                                                               \
    "files, folders or patterns: text (a document each), JSONL, JSON or Parquet (a document per record), plain or " \
    "compressed (.gz, .zst); or token shards (longspan data build)"
/* How documents are packed into the sequences that a command reads. */
#define CLI_PACK(at)                                                                                                      \
    CLI_CHOICE(                                                                                                           \
        "pack", "NAME", "auto|join|best|stream|pairs", "auto", at,                                                        \
        "how documents come into sequences: joined, so that they see each other; or apart, each at "                      \
        "positions from 0, by best fit or in their order. Pieces of one that is split, too, begin at 0. auto: pairs for " \
        "answers that are compared, best for conversations and completions, so that none lacks its beginning, else join")

/* --- options that commands share (options.c) ---------------------------------------------------------------------- */

/* Lists all options of a command, its own first. Returns their number; `out` gets the first CLI_MOST_OPTIONS. */
int cli_options_of(const cli_command *command, ls_option out[CLI_MOST_OPTIONS]);

/*
 * Settings from a file (config.c). If --config is among the words of a command that configures, *argv becomes a list in
 * the arena: first the words that the file stands for, without options that are also on the command line, then the
 * words of the command line. Logs how many settings were taken, and which were not. LS_USAGE, LS_INVALID: the error
 * names the file.
 */
LS_MUST_USE ls_status cli_config_words(const cli_command *command, const ls_option *table, int rows, ls_arena *arena,
                                       int *argc, char *const **argv);
/* Sets as_given, in the arena, to the options among words that have been parsed. */
void cli_note_given(int argc, char *const *argv, ls_arena *arena, cli_common *flags);

/* The spread for the library, from the flags. */
ls_spread cli_spread_of(const cli_common *flags);
/*
 * For launched ranks: compares the command and the options that each process was given with those of rank 0. LS_USAGE
 * names the first that differs. Collective.
 */
LS_MUST_USE ls_status cli_options_alike(const cli_command *command, const cli_common *flags);
/* Moves the words that belong to no flag to the end of argv, in their order, and returns their number. */
int cli_part_words(const ls_option *table, int rows, int argc, const char **argv);
/* Prints the chosen spread, with time and bytes, to standard output. */
void cli_print_spread(const ls_spread_result *result);

/* --- arrays, token ids and masks (arrays.c) ----------------------------------------------------------------------- */

/* A dense global array. */
typedef struct ls_array {
    ls_dtype dtype;
    int ndim;
    int64_t size[LS_MAX_DIMS];
    int64_t count; /* elements */
    size_t bytes;
    void *data;
} ls_array;

/* An array of zeros. */
LS_MUST_USE ls_status ls_array_make(ls_dtype dtype, int ndim, const int64_t *size, ls_array *out);
void ls_array_free(ls_array *array); /* NULL and a zeroed array are allowed */
/* Reads the numbers of an f4 or f8 file, rounded to dtype. path is for messages. */
LS_MUST_USE ls_status ls_array_from_npy(const char *path, const ls_npy *file, ls_dtype dtype, ls_array *out);
/* Reads an i4 or i8 file as i32. LS_INVALID names a value that does not fit. */
LS_MUST_USE ls_status ls_array_read_integers(const char *path, ls_array *out);
/* Writes folder/NAME.npy, as f8 if the array is f64, else as f4. */
LS_MUST_USE ls_status ls_array_write(const ls_array *array, const char *folder, const char *name);

void ls_sizes_print(int ndim, const int64_t *size, char *out, size_t bytes); /* "[2,16,64]" */

/* Parses "f32", "f64" or "bf16"; NULL means `initial`. LS_USAGE for other texts. */
LS_MUST_USE ls_status ls_job_dtype(const char *text, ls_dtype initial, ls_dtype *out);

/* --- masks -------------------------------------------------------------------------------------------------------- */

/* A mask from text, with the arrays that its `documents` terms point to. */
typedef struct ls_mask_text {
    ls_mask mask;
    ls_array ends[LS_MASK_TERMS];
    int n_ends;
} ls_mask_text;

/*
 * Parses terms that are joined by '+', such as "documents:FILE.npy", and checks them against a sequence of S tokens.
 * The caller frees *out whatever the status.
 */
LS_MUST_USE ls_status ls_mask_text_read(const char *text, int64_t S, ls_mask_text *out);
void ls_mask_text_free(ls_mask_text *mask);

/* --- token ids ---------------------------------------------------------------------------------------------------- */

/*
 * Reads token ids: i32[B,S], each in [0,V). LS_INVALID names row, column and value of an id that is not. The caller
 * frees *out whatever the status.
 */
LS_MUST_USE ls_status ls_tokens_read(const char *path, int64_t V, ls_array *out);
/*
 * Reads labels in the same way; -100 (ignored) is allowed. path NULL: the label of a token is the next token, and -100
 * at the end of each row. *valid becomes the number of labels that are not -100.
 */
LS_MUST_USE ls_status ls_labels_read(const char *path, int64_t V, const ls_array *tokens, ls_array *out,
                                     int64_t *valid);

#endif
