/* The parser of option tables: reading values, checking the table itself, unknown options, the command line, --help. */
#include "base/base.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 96 };

/* ---- one value ---- */

static bool has_limits(const ls_option *option) { return option->least != 0 || option->most != 0; }

/* An upper limit this large means that there is none. */
static bool has_most(const ls_option *option) { return option->most < 0x1p62; }

/* " from 1 to 1024" or " of at least 1", for messages; empty without limits. */
static void print_limits(const ls_option *option, char *out, size_t bytes) {
    out[0] = 0;
    if (!has_limits(option)) return;
    if (!has_most(option))
        ls_print(out, bytes, " of at least %.12g", option->least);
    else
        ls_print(out, bytes, " from %.12g to %.12g", option->least, option->most);
}

static ls_status wrong_value(const ls_option *option, const char *text, const char *expected) {
    char limits[80];
    print_limits(option, limits, sizeof limits);
    return ls_error(LS_USAGE, "--%s is '%s'; expected %s%s", option->name, text, expected, limits);
}

static bool within_limits(const ls_option *option, double value) {
    return !has_limits(option) || (value >= option->least && (value <= option->most || !has_most(option)));
}

/* Reads the integer at the start of text; *rest is the text after it. False when there is none or it overflows. */
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
    if (!read || *rest || !within_limits(option, (double)value)) return wrong_value(option, text, "an integer");
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
    const double value = ls_real_of(text, &end);
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

/* Reads a single value; target NULL only checks it. parse_option handles flags and lists. */
static ls_status parse_value(const ls_option *option, const char *text, void *target) {
    static ls_status (*const parsers[])(const ls_option *, const char *, void *) = {
        [LS_OPTION_INT] = parse_integer, [LS_OPTION_BYTES] = parse_bytes,   [LS_OPTION_FLOAT] = parse_float,
        [LS_OPTION_TEXT] = parse_text,   [LS_OPTION_CHOICE] = parse_choice,
    };
    LS_ASSERT(parsers[option->type] != NULL);
    return parsers[option->type](option, text, target);
}

/* ---- the table ---- */

static bool takes_value(ls_option_type type) { return type != LS_OPTION_FLAG && type != LS_OPTION_LIST; }

/* Asserts that the author of the table made no mistake in the row. */
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

/* ---- options that the table does not have ---- */

int ls_edit_distance(const char *a, size_t a_length, const char *b) {
    enum { LONGEST = 40 };
    if (a == NULL || b == NULL) return LONGEST;
    const size_t b_length = strlen(b);
    if (a_length > LONGEST || b_length > LONGEST) return LONGEST;
    int row[LONGEST + 1];
    for (size_t j = 0; j <= b_length; j++) row[j] = (int)j;
    for (size_t i = 1; i <= a_length; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= b_length; j++) {
            const int replace = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = (int)ls_min(replace, ls_min(row[j], row[j - 1]) + 1);
        }
    }
    return row[b_length];
}

/*
 * Options of other programs, written with -, and the option of Longspan that means the same. value: the text to suggest
 * after the option, when the foreign name implies a value.
 */
static const struct {
    const char *foreign, *option, *value;
} synonyms[] = {
    {"learning-rate", "lr", ""},
    {"max-lr", "lr", ""},
    {"max-steps", "steps", ""},
    {"max-iters", "steps", ""},
    {"train-iters", "steps", ""},
    {"iterations", "steps", ""},
    {"num-epochs", "epochs", ""},
    {"num-train-epochs", "epochs", ""},
    {"n-epochs", "epochs", ""},
    {"batch-size", "batch", ""},
    {"global-batch-size", "batch", ""},
    {"per-device-train-batch-size", "batch", ""},
    {"gradient-accumulation-steps", "accumulate", ""},
    {"grad-accum", "accumulate", ""},
    {"context-length", "seq", ""},
    {"context-size", "seq", ""},
    {"ctx-size", "seq", ""},
    {"block-size", "seq", ""},
    {"max-seq-len", "seq", ""},
    {"max-seq-length", "seq", ""},
    {"max-length", "seq", ""},
    {"seq-len", "seq", ""},
    {"seq-length", "seq", ""},
    {"sequence-length", "seq", ""},
    {"output", "out", ""},
    {"output-dir", "out", ""},
    {"save-dir", "out", ""},
    {"model-name-or-path", "model", ""},
    {"config", "model", ""},
    {"train-data", "data", ""},
    {"train-file", "data", ""},
    {"dataset", "data", ""},
    {"text", "data", ""},
    {"validation-file", "eval-data", ""},
    {"valid-data", "eval-data", ""},
    {"val-data", "eval-data", ""},
    {"eval-steps", "eval-every", ""},
    {"eval-interval", "eval-every", ""},
    {"save-steps", "save-every", ""},
    {"save-interval", "save-every", ""},
    {"save-total-limit", "keep", ""},
    {"load-best-model-at-end", "keep-best", ""},
    {"warmup-steps", "warmup", ""},
    {"lr-scheduler-type", "schedule", ""},
    {"lr-decay-style", "schedule", ""},
    {"adam-beta1", "beta1", ""},
    {"adam-beta2", "beta2", ""},
    {"adam-epsilon", "eps", ""},
    {"max-grad-norm", "clip", ""},
    {"grad-clip", "clip", ""},
    {"clip-grad", "clip", ""},
    {"bf16", "dtype", " bf16"},
    {"fp32", "dtype", " f32"},
    {"precision", "dtype", ""},
    {"resume-from-checkpoint", "resume", ""},
    {"nproc-per-node", "ranks", ""},
    {"nproc", "ranks", ""},
    {"world-size", "ranks", ""},
    {"num-threads", "threads", ""},
    {"max-new-tokens", "tokens", ""},
    {"max-tokens", "tokens", ""},
    {"n-predict", "tokens", ""},
    {"time-limit", "max-seconds", ""},
};

static bool has_option(const ls_option *table, int rows, const char *name) {
    for (int i = 0; i < rows; i++)
        if (strcmp(table[i].name, name) == 0) return true;
    return false;
}

/* Whether two names are equal; _ in the second one counts as -. */
static bool same_name(const char *known, const char *name, size_t length) {
    if (strlen(known) != length) return false;
    for (size_t i = 0; i < length; i++)
        if ((name[i] == '_' ? '-' : name[i]) != known[i]) return false;
    return true;
}

/* The error for an option that is not in the table, with a suggestion: a synonym, or the nearest name. */
static ls_status unknown_option(const ls_option *table, int rows, const char *name, size_t length) {
    for (size_t i = 0; i < LS_COUNT(synonyms); i++) {
        if (!same_name(synonyms[i].foreign, name, length) || !has_option(table, rows, synonyms[i].option)) continue;
        return ls_error(LS_USAGE, "unknown option --%.*s; did you mean --%s%s?", (int)length, name, synonyms[i].option,
                        synonyms[i].value);
    }
    enum { ALIKE = 3 }; /* from this many letters on, a name is alike to a longer one that begins with it */
    int best = -1, best_distance = (int)ls_max(2, (int64_t)length / 3) + 1;
    for (int i = 0; i < rows; i++) {
        const size_t both = (size_t)ls_min((int64_t)length, (int64_t)strlen(table[i].name));
        const bool begins = both >= ALIKE && strncmp(name, table[i].name, both) == 0;
        const int distance = begins ? 1 : ls_edit_distance(name, length, table[i].name);
        if (distance < best_distance) {
            best = i;
            best_distance = distance;
        }
    }
    if (best < 0) return ls_error(LS_USAGE, "unknown option --%.*s; --help lists the known ones", (int)length, name);
    return ls_error(LS_USAGE, "unknown option --%.*s; did you mean --%s?", (int)length, name, table[best].name);
}

/* ---- the command line ---- */

static bool is_flag_word(const char *word) { return strncmp(word, "--", 2) == 0; }

/* Reads the option at argv[*at] and moves *at past its words. base: the caller's struct; NULL only checks. */
static ls_status parse_option(const ls_option *option, const char *inline_value, int argc, char *const *argv, int *at,
                              char *base) {
    void *target = base ? base + option->offset : NULL;
    const int first = ++*at;
    if (option->type == LS_OPTION_FLAG) {
        if (inline_value)
            return ls_error(LS_USAGE, "--%s takes no value, but is given '%s'", option->name, inline_value);
        if (target) *(bool *)target = true;
        return ls_ok();
    }
    if (option->type == LS_OPTION_LIST) {
        if (inline_value) return ls_error(LS_USAGE, "--%s takes its words after a space, not after '='", option->name);
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

/* Reads all words. base: the caller's struct; NULL only checks. seen[i]: row i is on the command line. */
static ls_status parse_words(const ls_option *table, int rows, int argc, char *const *argv, char *base, bool *seen) {
    for (int i = 0; i < rows; i++) seen[i] = false;
    for (int at = 0; at < argc;) {
        const char *word = argv[at];
        if (!is_flag_word(word) || !word[2])
            return ls_error(LS_USAGE, "unexpected word '%s'; options look like --name value", word);
        const char *name = word + 2;
        const size_t length = strcspn(name, "=");
        const int row = find_row(table, rows, name, length);
        if (row < 0) return unknown_option(table, rows, name, length);
        if (seen[row]) return ls_error(LS_USAGE, "--%s is given twice", table[row].name);
        seen[row] = true;
        LS_TRY(parse_option(&table[row], name[length] ? name + length + 1 : NULL, argc, argv, &at, base));
    }
    return ls_ok();
}

ls_status ls_options_check(const ls_option *table, int rows, int argc, char *const *argv) {
    bool seen[MAX_ROWS];
    LS_TRY(check_table(table, rows));
    return parse_words(table, rows, argc, argv, NULL, seen);
}

ls_status ls_options_parse(const ls_option *table, int rows, int argc, char *const *argv, void *target, bool *given) {
    LS_TRY(check_table(table, rows));
    LS_NEED(target, "target");
    if (argc < 0) return ls_error(LS_INVALID, "%d words on the command line", argc);
    for (int i = 0; i < argc; i++) LS_NEED(argv != NULL ? argv[i] : NULL, "a word of argv");
    bool seen[MAX_ROWS];
    LS_TRY(parse_words(table, rows, argc, argv, NULL, seen));
    for (int i = 0; i < rows; i++)
        if (table[i].required && !seen[i])
            return ls_error(LS_USAGE, "--%s %s is required", table[i].name, table[i].metavar);

    /* Everything is checked: nothing below can fail, so target is set completely or not at all. */
    for (int i = 0; i < rows; i++)
        if (table[i].initial) LS_TRY(parse_value(&table[i], table[i].initial, (char *)target + table[i].offset));
    LS_TRY(parse_words(table, rows, argc, argv, target, seen));
    for (int i = 0; given && i < rows; i++) given[i] = seen[i];
    return ls_ok();
}

/* ---- --help ---- */

enum { WIDTH = 100, TEXT_COLUMN = 30 };

/* The number of characters in UTF-8 text. */
static int width_of(const char *text, size_t bytes) {
    int width = 0;
    for (size_t i = 0; i < bytes; i++) width += ((unsigned char)text[i] & 0xc0) != 0x80;
    return width;
}

/*
 * Prints text from TEXT_COLUMN on, wrapped at spaces, and a newline. `column`: the number of characters already on the
 * line.
 */
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

/* The text in brackets after the help: choices, limits, default, required. */
static void print_facts(const ls_option *option, char *out, size_t bytes) {
    const char *separator = " (";
    size_t used = 0;
    out[0] = 0;
    if (option->type == LS_OPTION_CHOICE) {
        used += (size_t)snprintf(out + used, bytes - used, "%s%s", separator, option->choices ? option->choices : "");
        separator = "; ";
    }
    if (option->least != 0 || option->most != 0) {
        if (option->most >= 0x1p62)
            used += (size_t)ls_print(out + used, bytes - used, "%s%.15g or more", separator, option->least);
        else
            used +=
                (size_t)ls_print(out + used, bytes - used, "%s%.15g to %.15g", separator, option->least, option->most);
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
        print_facts(option, facts, sizeof facts);
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
