/* The manual page, from the same tables as --help. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

/* Text in roff: backslashes and leading dots are escaped, hyphens stay hyphens, newlines begin paragraphs. */
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

/* The table's own page as it is: its columns are what the reader wants. */
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
    fputs(".SH EXIT STATUS\n0 done, 1 failed, 2 wrong usage.\n", out);
}
