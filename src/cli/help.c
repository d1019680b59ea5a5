/*
 * longspan help: the list of commands, the page of one command, and the manual page, which is made from the same
 * tables.
 */
#include "cli/cli_impl.h"

#include <stdlib.h>
#include <string.h>

/* --- the manual page ---------------------------------------------------------------------------------------------- */

/* Prints text in roff: backslashes, leading dots and hyphens are escaped, and a newline begins a paragraph. */
static void print_text(const char *text, FILE *out) {
    bool fresh = true;
    for (const char *c = text; *c != 0; c++) {
        if (*c == '\n') {
            fputs("\n.PP\n", out);
            fresh = true;
            continue;
        }
        if (fresh && (*c == '.' || *c == '\'')) fputs("\\&", out);
        fresh = false;
        if (*c == '\\')
            fputs("\\e", out);
        else if (*c == '-')
            fputs("\\-", out);
        else
            fputc(*c, out);
    }
    fputc('\n', out);
}

/* Prints the options as --help does, in columns. */
static void print_options(const cli_command *c, FILE *out) {
    char *page = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&page, &bytes);
    if (memory == NULL) return;
    ls_option options[CLI_MOST_OPTIONS];
    ls_options_help(options, cli_options_of(c, options), memory);
    if (fclose(memory) == 0) {
        fputs(".PP\n.nf\n", out);
        char *rest = NULL;
        for (char *line = strtok_r(page, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
            print_text(line, out);
        fputs(".fi\n", out);
    }
    free(page);
}

void cli_print_manual(FILE *out) {
    fputs(".TH LONGSPAN 1\n.SH NAME\nlongspan \\- train language models on sequences shared by many ranks\n"
          ".SH SYNOPSIS\n.B longspan\n.I command\n[options]\n.SH COMMANDS\n",
          out);
    for (int i = 0; cli_command_at(i) != NULL; i++) {
        const cli_command *c = cli_command_at(i);
        fprintf(out, ".SS longspan %s\n", c->name);
        print_text(c->summary, out);
        fputs(".PP\n", out);
        fprintf(out, ".B longspan %s\n", c->name);
        print_text(c->usage, out);
        if (c->about != NULL) {
            fputs(".PP\n", out);
            print_text(c->about, out);
        }
        print_options(c, out);
    }
    fputs(
        ".SH LAUNCHERS\n"
        "A command starts its ranks itself, unless it is one of several processes that mpirun, srun or torchrun started: "
        "then each is one rank.\n.PP\n.nf\n"
        "  mpirun \\-n 4 longspan train ...\n.fi\n"
        "Ranks of one host share memory; others send by TCP, or by the MPI of that mpirun where lib/longspan has a "
        "plug\\-in for it.\n",
        out);
    fputs(".SH EXIT STATUS\n0 done, 1 failed, 2 wrong usage.\n", out);
}

/* --- the command -------------------------------------------------------------------------------------------------- */

typedef struct help_flags {
    cli_common common;
    const char *command;
    bool man;
} help_flags;

static const ls_option options[] = {
    CLI_TEXT("command", "NAME", offsetof(help_flags, command),
             "the command whose page to print; the name may stand alone"),
    CLI_FLAG("man", offsetof(help_flags, man), "print all pages as one manual page in roff"),
};

static void print_json(void) {
    enum { MOST = 64 };
    ls_named_text list[MOST];
    int n = 0;
    for (const cli_command *c = cli_command_at(0); c != NULL && n < MOST; c = cli_command_at(n))
        list[n++] = (ls_named_text){c->name, c->summary};
    ls_named_texts_json(list, n, stdout);
}

static ls_status run(void *context) {
    const help_flags *flags = context;
    const cli_command *command = NULL;
    if (flags->command != NULL) LS_TRY(cli_find(flags->command, &command));
    if (flags->man)
        cli_print_manual(stdout);
    else if (command != NULL)
        cli_print_help(command, stdout);
    else if (flags->common.json)
        print_json();
    else
        cli_print_commands(stdout);
    return ls_ok();
}

const cli_command cli_help = {
    .name = "help",
    .summary = "list all commands, or print the page of one",
    .usage = "[COMMAND] [--man] [--json]",
    .tells = true,
    CLI_OWN(options, run, help_flags),
    .takes_word = 1,
};
