/*
 * The table of commands, and main: it finds the command, parses its flags, runs it, and turns its status into an exit
 * code.
 */
#include "cli/cli_impl.h"

#include "base/base.h"
#include "comm/comm.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define ROW(command) &cli_##command
static const cli_command *const commands[] = {CLI_COMMANDS(ROW)};

const cli_command *cli_command_at(int i) { return i >= 0 && i < (int)CLI_COUNT(commands) ? commands[i] : NULL; }

ls_status cli_find(const char *name, const cli_command **out) {
    const char *nearest = NULL;
    int least = 3;
    for (size_t i = 0; i < CLI_COUNT(commands); i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            *out = commands[i];
            return ls_ok();
        }
        const int distance = ls_edit_distance(name, strlen(name), commands[i]->name);
        if (distance < least) {
            least = distance;
            nearest = commands[i]->name;
        }
    }
    if (nearest != NULL) return ls_error(LS_USAGE, "unknown command '%s'; did you mean %s?", name, nearest);
    return ls_error(LS_USAGE, "unknown command '%s'; 'longspan help' lists the known ones", name);
}

void cli_print_commands(FILE *out) {
    fputs("longspan trains language models on sequences shared by many ranks\n\n"
          "usage: longspan COMMAND [options]\n\n",
          out);
    for (size_t i = 0; i < CLI_COUNT(commands); i++)
        fprintf(out, "  %-10s  %s\n", commands[i]->name, commands[i]->summary);
    fputs("\n'longspan COMMAND --help' shows its options. Exit code 0: done, 1: failed, 2: wrong usage.\n", out);
}

/* Prints paragraphs with lines of at most 100 characters. */
static void print_wrapped(const char *text, FILE *out) {
    enum { WIDTH = 100 };
    for (int column = 0; *text != 0;) {
        if (*text == '\n') {
            fputc('\n', out);
            column = 0;
            text++;
            continue;
        }
        text += strspn(text, " ");
        const int length = (int)strcspn(text, " \n");
        if (column > 0 && column + 1 + length > WIDTH) {
            fputc('\n', out);
            column = 0;
        }
        column += fprintf(out, "%s%.*s", column > 0 ? " " : "", length, text);
        text += length;
    }
    fputc('\n', out);
}

void cli_print_help(const cli_command *c, FILE *out) {
    fprintf(out, "longspan %s: %s\n\nusage: longspan %s %s\n\n", c->name, c->summary, c->name, c->usage);
    if (c->about != NULL) {
        print_wrapped(c->about, out);
        fputc('\n', out);
    }
    ls_option options[CLI_MOST_OPTIONS];
    ls_options_help(options, cli_options_of(c, options), out);
}

static int exit_code(ls_code code) { return code == LS_OK ? 0 : code == LS_USAGE ? 2 : 1; }

static bool asks_for_help(int argc, char *const *argv) {
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
    }
    return false;
}

/* Parses the flags, and collects the words between them if the command takes words. */
static ls_status parse(const cli_command *c, const ls_option *options, int n_options, int argc, char *const *argv,
                       cli_common *flags) {
    if (c->words_at == 0) return ls_options_parse(options, n_options, argc, argv, flags, flags->given);
    const char **order = (const char **)(uintptr_t)argv;
    const int words = cli_part_words(options, n_options, argc, order);
    *(ls_option_list *)(void *)((char *)flags + c->words_at) =
        (ls_option_list){.items = order + argc - words, .count = words};
    return ls_options_parse(options, n_options, argc - words, argv, flags, flags->given);
}

/*
 * A command that runs no ranks does not connect to other ranks, so it works in any environment. The environment only
 * decides which one of several launched processes does the work.
 */
static ls_status run_alone(const cli_command *c, cli_common *flags) {
    int rank, ranks;
    ls_launched_stay_alone();
    ls_launched_foresee(&rank, &ranks);
    if (rank == 0 || c->tells) return c->run(flags);
    ls_log("rank %d of %d leaves '%s' to rank 0", rank, ranks, c->name);
    return ls_ok();
}

/*
 * Runs the command. If another program launched this process as one rank of several, all ranks run the commands that
 * have ranks, and only rank 0 runs the others. Only home prints.
 */
static ls_status run_once(const cli_command *c, cli_common *flags) {
    int launched;
    if (!c->spreads || (c->needs_ranks != NULL && !c->needs_ranks(flags))) return run_alone(c, flags);
    LS_TRY(ls_home_find(&launched));
    if (!ls_is_home() && freopen("/dev/null", "w", stdout) == NULL) return ls_error(LS_IO, "cannot open /dev/null");
    LS_TRY(cli_options_alike(c, flags));
    return c->run(flags);
}

static ls_status run_command(const cli_command *c, int argc, char *const *argv) {
    ls_option options[CLI_MOST_OPTIONS];
    const int n_options = cli_options_of(c, options);
    if (n_options > CLI_MOST_OPTIONS)
        return ls_error(LS_UNSUPPORTED, "command %s has %d options; main knows %d", c->name, n_options,
                        CLI_MOST_OPTIONS);
    if (!c->spreads) ls_launched_stay_alone();
    if (asks_for_help(argc, argv)) {
        cli_print_help(c, stdout);
        return ls_ok();
    }
    cli_common *flags = calloc(1, c->flags_bytes);
    if (flags == NULL) return ls_error(LS_NO_MEMORY, "no memory for the flags of %s", c->name);
    ls_arena *arena = ls_arena_create();
    int words = 0;
    while (words < c->takes_word && words < argc && argv[words][0] != '-') words++;
    int n_own = argc - words;
    char *const *own = argv + words;
    ls_status status = cli_config_words(c, options, n_options, arena, &n_own, &own);
    if (status.code == LS_OK) status = parse(c, options, n_options, n_own, own, flags);
    if (status.code == LS_OK && c->configures) cli_note_given(n_own, own, arena, flags);
    if (status.code != LS_OK && c->needs_ranks != NULL) ls_launched_stay_alone();
    for (int i = 0; i < words && status.code == LS_OK; i++)
        *(const char **)(void *)((char *)flags + options[i].offset) = argv[i];
    if (status.code == LS_OK && flags->spread.isa != NULL) status = ls_limit_isa(flags->spread.isa);
    if (status.code == LS_OK && flags->transport != NULL) status = ls_limit_transports(flags->transport);
    if (status.code == LS_OK) status = run_once(c, flags);
    ls_arena_destroy(arena);
    free(flags);
    return status;
}

/* LS_IO if the output could not be written (a full disk, a closed pipe). */
static ls_status flush(void) {
    return fflush(stdout) == 0 && !ferror(stdout) ? ls_ok() : ls_error(LS_IO, "cannot write to standard output");
}

static const char *alias_of(const char *word) {
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) return "help";
    return strcmp(word, "--version") == 0 ? "version" : word;
}

int main(int argc, char **argv) {
    signal(SIGXFSZ, SIG_IGN); /* a write beyond the file size limit then fails with an error that names the file */
    /* When a mapped file has become shorter, the process ends with a line that names the file. */
    ls_mapped_watch(NULL, NULL);
    if (argc < 2) {
        cli_print_commands(stderr);
        return 2;
    }
    const cli_command *command;
    ls_status status = cli_find(alias_of(argv[1]), &command);
    if (status.code == LS_OK)
        status = run_command(command, argc - 2, argv + 2);
    else
        ls_launched_stay_alone();
    if (status.code == LS_OK) status = flush();
    signal(SIGPIPE, SIG_IGN); /* a closed standard error must not change the exit code */
    /* All ranks agree on failures other than the loss of a rank, so home prints those. */
    if (status.code != LS_OK && (status.code == LS_PEER ? ls_home_speaks() : ls_is_home()))
        fprintf(stderr, "longspan: %s\n", status.text);
    /* After an interruption all ranks stop together, and some may yet have to learn of it from the others. */
    if (status.code != LS_OK && status.code != LS_INTERRUPTED) ls_home_leave(status);
    return exit_code(status.code);
}
