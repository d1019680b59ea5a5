/* longspan help */
#include "cli/cli.h"

typedef struct help_flags {
    cli_common common;
    const char *command;
    bool man;
} help_flags;

static const ls_option options[] = {
    CLI_TEXT("command", "NAME", offsetof(help_flags, command),
             "the page of this command; the name may stand alone"),
    CLI_FLAG("man", offsetof(help_flags, man), "everything as a manual page in roff"),
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
    .summary = "all commands, or one of them",
    .usage = "[COMMAND] [--man] [--json]",
    CLI_OWN(options, run, help_flags),
    .takes_word = 1,
};
