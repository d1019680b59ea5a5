#include "base/base.h"

#include <string.h>

enum { WIDTH = 100, TEXT_COLUMN = 30 };

/* Characters, not bytes, of UTF-8 text. */
static int width_of(const char *text, size_t bytes) {
    int width = 0;
    for (size_t i = 0; i < bytes; i++) width += ((unsigned char)text[i] & 0xc0) != 0x80;
    return width;
}

/* Writes text from TEXT_COLUMN on, broken at spaces; `column` is where the line stands now. */
static void print_wrapped(FILE *out, int column, const char *text) {
    bool first = true;
    while (*text) {
        text += strspn(text, " ");
        const size_t word = strcspn(text, " ");
        if (word == 0) break;
        const int width = width_of(text, word);
        if (column < TEXT_COLUMN || first) {
            fprintf(out, "%*s", TEXT_COLUMN - column, "");
            column = TEXT_COLUMN;
        } else if (column + 1 + width > WIDTH) {
            fprintf(out, "\n%*s", TEXT_COLUMN, "");
            column = TEXT_COLUMN;
        } else {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", (int)word, text);
        column += width;
        text += word;
        first = false;
    }
    fputc('\n', out);
}

/* What stands in brackets behind the help: choices, limits, default, required. */
static void describe(const ls_option *option, char *out, size_t bytes) {
    const char *separator = " (";
    size_t used = 0;
    out[0] = 0;
    if (option->type == LS_OPTION_CHOICE) {
        used += (size_t)snprintf(out + used, bytes - used, "%s%s", separator,
                                 option->choices ? option->choices : "");
        separator = "; ";
    }
    if (option->least != 0 || option->most != 0) {
        if (option->most >= 0x1p62)
            used += (size_t)snprintf(out + used, bytes - used, "%s%.15g or more", separator, option->least);
        else
            used += (size_t)snprintf(out + used, bytes - used, "%s%.15g to %.15g", separator, option->least,
                                     option->most);
        separator = "; ";
    }
    if (option->required)
        used += (size_t)snprintf(out + used, bytes - used, "%srequired", separator);
    else if (option->initial)
        used += (size_t)snprintf(out + used, bytes - used, "%sdefault %s", separator, option->initial);
    if (used) snprintf(out + used, bytes - used, ")");
}

void ls_options_help(const ls_option *table, int rows, FILE *out) {
    for (int i = 0; table != NULL && out != NULL && i < rows; i++) {
        const ls_option *option = &table[i];
        if (option->name == NULL) continue;
        const char *more = option->type == LS_OPTION_LIST ? "…" : "";
        char left[120], facts[200], text[600];
        snprintf(left, sizeof left, "  --%s%s%s%s", option->name, option->metavar ? " " : "",
                 option->metavar ? option->metavar : "", more);
        describe(option, facts, sizeof facts);
        snprintf(text, sizeof text, "%s%s", option->help ? option->help : "", facts);
        fputs(left, out);
        int column = width_of(left, strlen(left));
        if (column + 2 > TEXT_COLUMN) {
            fputc('\n', out);
            column = 0;
        }
        print_wrapped(out, column, text);
    }
}
