#include "base/options_impl.h"

#include "base/base.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 64 }; /* one bit each in a uint64_t */

/* ---- reading one value ---- */

static bool has_limits(const ls_option *option) { return option->least != 0 || option->most != 0; }

/* A number this large stands for none: whatever the type holds is allowed. */
static bool has_most(const ls_option *option) { return option->most < 0x1p62; }

/* " from 1 to 1024" or " of at least 1", for messages and help; empty without limits. */
static void print_limits(const ls_option *option, char *out, size_t bytes) {
    out[0] = 0;
    if (!has_limits(option)) return;
    if (!has_most(option))
        snprintf(out, bytes, " of at least %.12g", option->least);
    else
        snprintf(out, bytes, " from %.12g to %.12g", option->least, option->most);
}

static ls_status wrong_value(const ls_option *option, const char *text, const char *expected) {
    char limits[80];
    print_limits(option, limits, sizeof limits);
    return ls_error(LS_USAGE, "--%s is '%s'; expected %s%s", option->name, text, expected, limits);
}

static bool within_limits(const ls_option *option, double value) {
    return !has_limits(option) || (value >= option->least && (value <= option->most || !has_most(option)));
}

/* The integer at the start of text, and what follows it; false when there is none or it overflows. */
static bool read_integer(const char *text, int64_t *value, const char **rest) {
    const char *digits = text + (*text == '-' || *text == '+');
    if (*digits < '0' || *digits > '9') return false;
    char *end;
    errno = 0;
    const long long parsed = strtoll(text, &end, 10);
    *rest = end;
    *value = parsed;
    return errno == 0;
}

static ls_status parse_integer(const ls_option *option, const char *text, void *target) {
    int64_t value = 0;
    const char *rest = "";
    errno = 0;
    const bool read = read_integer(text, &value, &rest);
    if (!read && errno == ERANGE) return wrong_value(option, text, "an integer of 64 bits");
    if (!read || *rest || !within_limits(option, (double)value))
        return wrong_value(option, text, "an integer");
    if (target) *(int64_t *)target = value;
    return ls_ok();
}

static ls_status parse_bytes(const ls_option *option, const char *text, void *target) {
    const char *expected = "a number of bytes (suffixes K, M, G, T)";
    int64_t value = 0;
    const char *rest = "";
    if (!read_integer(text, &value, &rest) || value < 0) return wrong_value(option, text, expected);
    static const char suffixes[] = "KMGT";
    const char *suffix = *rest ? strchr(suffixes, *rest) : NULL;
    const int shift = suffix ? 10 * (int)(suffix - suffixes + 1) : 0;
    if (suffix) rest++;
    if (suffix && strcmp(rest, "iB") == 0) rest += 2;
    if (strcmp(rest, "B") == 0) rest++;
    if (*rest || value > INT64_MAX >> shift || !within_limits(option, (double)(value << shift)))
        return wrong_value(option, text, expected);
    if (target) *(int64_t *)target = value << shift;
    return ls_ok();
}

static ls_status parse_float(const ls_option *option, const char *text, void *target) {
    char *end = NULL;
    const double value = strtod(text, &end);
    const bool starts_well = *text && !strchr(" \t\n\v\f\r", *text);
    if (!starts_well || *end || !isfinite(value) || !within_limits(option, value))
        return wrong_value(option, text, "a finite number");
    if (target) *(double *)target = value;
    return ls_ok();
}

static ls_status parse_choice(const ls_option *option, const char *text, void *target) {
    const size_t length = strlen(text);
    for (const char *choice = option->choices; length > 0;) {
        const size_t n = strcspn(choice, "|");
        if (n == length && strncmp(choice, text, n) == 0) {
            if (target) *(const char **)target = text;
            return ls_ok();
        }
        if (!choice[n]) break;
        choice += n + 1;
    }
    return ls_error(LS_USAGE, "--%s is '%s'; expected one of %s", option->name, text, option->choices);
}

static ls_status parse_text(const ls_option *option, const char *text, void *target) {
    if (!*text) return ls_error(LS_USAGE, "--%s is empty; expected %s", option->name, option->metavar);
    if (target) *(const char **)target = text;
    return ls_ok();
}

/* Reads one value; target NULL only checks it. Flags and lists are handled where the words are. */
static ls_status parse_value(const ls_option *option, const char *text, void *target) {
    static ls_status (*const parsers[])(const ls_option *, const char *, void *) = {
        [LS_OPTION_INT] = parse_integer, [LS_OPTION_BYTES] = parse_bytes,   [LS_OPTION_FLOAT] = parse_float,
        [LS_OPTION_TEXT] = parse_text,   [LS_OPTION_CHOICE] = parse_choice,
    };
    return parsers[option->type](option, text, target);
}

/* ---- the table ---- */

static bool takes_value(ls_option_type type) { return type != LS_OPTION_FLAG && type != LS_OPTION_LIST; }

/* What its author may have wrong. */
static ls_status check_row(const ls_option *row, int i) {
    if (row->name == NULL) return ls_error(LS_INVALID, "row %d of the options has no name", i);
    if ((int)row->type < 0 || row->type > LS_OPTION_LIST)
        return ls_error(LS_INVALID, "option \"%s\" is of type %d; expected one of ls_option_type", row->name,
                        (int)row->type);
    if (row->type == LS_OPTION_CHOICE && row->choices == NULL)
        return ls_error(LS_INVALID, "option \"%s\" has no choices", row->name);
    if (row->type != LS_OPTION_FLAG && row->metavar == NULL)
        return ls_error(LS_INVALID, "option \"%s\" has no metavar", row->name);
    if (row->initial == NULL) return ls_ok();
    if (!takes_value(row->type))
        return ls_error(LS_INVALID, "option \"%s\" takes no single value, but has a default", row->name);
    return ls_error_in(parse_value(row, row->initial, NULL), "the default of an option");
}

static ls_status check_table(const ls_option *table, int rows) {
    if (rows < 0 || rows > MAX_ROWS)
        return ls_error(LS_INVALID, "a table of %d options; expected 0 to %d", rows, MAX_ROWS);
    if (rows > 0) LS_NEED(table, "table");
    for (int i = 0; i < rows; i++) LS_TRY(check_row(&table[i], i));
    return ls_ok();
}

/* ---- finding the row ---- */

static int find_row(const ls_option *table, int rows, const char *name, size_t length) {
    for (int i = 0; i < rows; i++)
        if (strlen(table[i].name) == length && strncmp(table[i].name, name, length) == 0) return i;
    return -1;
}

/* ---- the command line ---- */

static bool is_flag_word(const char *word) { return strncmp(word, "--", 2) == 0; }

/* Handles the option at argv[at], whose row is known, and moves *at behind its words. base NULL only checks. */
static ls_status parse_option(const ls_option *option, const char *inline_value, int argc, char *const *argv,
                              int *at, char *base) {
    void *target = base ? base + option->offset : NULL;
    const int first = ++*at;
    if (option->type == LS_OPTION_FLAG) {
        if (inline_value)
            return ls_error(LS_USAGE, "--%s takes no value, but is given '%s'", option->name, inline_value);
        if (target) *(bool *)target = true;
        return ls_ok();
    }
    if (option->type == LS_OPTION_LIST) {
        if (inline_value)
            return ls_error(LS_USAGE, "--%s takes its words after a space, not after '='", option->name);
        while (*at < argc && !is_flag_word(argv[*at])) ++*at;
        if (*at == first)
            return ls_error(LS_USAGE, "--%s needs at least one %s after it", option->name, option->metavar);
        if (target)
            *(ls_option_list *)target =
                (ls_option_list){.items = (const char *const *)(argv + first), .count = *at - first};
        return ls_ok();
    }
    if (inline_value) return parse_value(option, inline_value, target);
    if (first == argc || is_flag_word(argv[first]))
        return ls_error(LS_USAGE, "--%s needs a value: %s", option->name, option->metavar);
    ++*at;
    return parse_value(option, argv[first], target);
}

/* One walk over the words. base NULL only checks; `seen` gets one bit for each row that is given. */
static ls_status walk(const ls_option *table, int rows, int argc, char *const *argv, char *base,
                      uint64_t *seen) {
    *seen = 0;
    for (int at = 0; at < argc;) {
        const char *word = argv[at];
        if (!is_flag_word(word) || !word[2])
            return ls_error(LS_USAGE, "unexpected word '%s'; options look like --name value", word);
        const char *name = word + 2;
        const size_t length = strcspn(name, "=");
        const int row = find_row(table, rows, name, length);
        if (row < 0) return ls_option_unknown(table, rows, name, length);
        if (*seen >> row & 1) return ls_error(LS_USAGE, "--%s is given twice", table[row].name);
        *seen |= (uint64_t)1 << row;
        LS_TRY(parse_option(&table[row], name[length] ? name + length + 1 : NULL, argc, argv, &at, base));
    }
    return ls_ok();
}

ls_status ls_options_parse(const ls_option *table, int rows, int argc, char *const *argv, void *target,
                           bool *given) {
    LS_TRY(check_table(table, rows));
    LS_NEED(target, "target");
    if (argc < 0) return ls_error(LS_INVALID, "%d words on the command line", argc);
    for (int i = 0; i < argc; i++) LS_NEED(argv != NULL ? argv[i] : NULL, "a word of argv");
    uint64_t seen;
    LS_TRY(walk(table, rows, argc, argv, NULL, &seen));
    for (int i = 0; i < rows; i++)
        if (table[i].required && !(seen >> i & 1))
            return ls_error(LS_USAGE, "--%s %s is required", table[i].name, table[i].metavar);

    /* Nothing can fail from here on. */
    for (int i = 0; i < rows; i++)
        if (table[i].initial)
            LS_TRY(parse_value(&table[i], table[i].initial, (char *)target + table[i].offset));
    LS_TRY(walk(table, rows, argc, argv, target, &seen));
    for (int i = 0; given && i < rows; i++) given[i] = seen >> i & 1;
    return ls_ok();
}
