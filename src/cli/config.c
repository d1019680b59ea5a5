/*
 * Settings from a file (--config): a JSON or YAML document whose members are named as the options of a command line,
 * with - or _. The document stands for words before those of the command line. A run.json can serve as such a file,
 * because it records the options that its training was given.
 */
#include "cli/cli_impl.h"

#include "base/base.h"

#include <stdio.h>
#include <string.h>

typedef struct settings {
    const char *file;
    const ls_option *table;
    int rows;
    int argc;
    char *const *argv; /* of the command line */
    ls_arena *arena;
    const char **words; /* the words that the file stands for */
    int n_words, n_taken;
    size_t word_capacity;
    ls_json_buffer overruled, others; /* names of settings, for the log */
} settings;

/* --- the command line --------------------------------------------------------------------------------------------- */

static bool is_option(const char *word, const char *name) {
    const size_t n = strlen(name);
    return strncmp(word, "--", 2) == 0 && strncmp(word + 2, name, n) == 0 && (word[2 + n] == 0 || word[2 + n] == '=');
}

/* The index of the option's word; argc: it is not on the command line. */
static int place_of(int argc, char *const *argv, const char *name) {
    int i = 0;
    while (i < argc && !is_option(argv[i], name)) i++;
    return i;
}

static const ls_option *row_of(const ls_option *table, int rows, const char *name) {
    int i = 0;
    while (i < rows && strcmp(table[i].name, name) != 0) i++;
    return i < rows ? &table[i] : NULL;
}

/* Whether an option concerns only one run of a command, not what the command computes. */
static bool is_of_one_run(const char *name) {
    static const char *const names[] = {"config", "out", "resume", "replan", "restart", "json", "help", "trace"};
    for (size_t i = 0; i < CLI_COUNT(names); i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

/* --- members as words --------------------------------------------------------------------------------------------- */

static void add_word(settings *s, const char *word) {
    *LS_PUSH(s->arena, s->words, s->n_words, s->word_capacity) = word;
}

/* A real number with the fewest digits that give the same bits. */
static const char *real_text(ls_arena *arena, double value) {
    char text[40];
    char *end;
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (ls_real_of(text, &end) == value) break;
    }
    return ls_arena_strdup(arena, text);
}

/* A scalar as a word of a command line; NULL: the value is not a scalar. */
static const char *text_of(const settings *s, ls_json_value value) {
    const ls_json_plain plain = ls_json_plain_of(value);
    return plain.kind == LS_JSON_INT    ? ls_arena_printf(s->arena, "%lld", (long long)plain.integer)
           : plain.kind == LS_JSON_REAL ? real_text(s->arena, plain.real)
           : plain.kind == LS_JSON_TEXT ? ls_arena_strdup(s->arena, plain.text)
                                        : NULL;
}

static ls_status add_flag(settings *s, const char *name, ls_json_value value) {
    const ls_json_plain plain = ls_json_plain_of(value);
    if (plain.kind != LS_JSON_BOOL) return ls_json_error(value, "true or false: --%s takes no value", name);
    if (plain.truth) add_word(s, ls_arena_printf(s->arena, "--%s", name));
    return ls_ok();
}

static ls_status add_list(settings *s, const char *name, ls_json_value value) {
    const bool several = ls_json_is_array(value);
    const size_t n = several ? ls_json_count(value) : 1;
    if (n > 0) add_word(s, ls_arena_printf(s->arena, "--%s", name));
    for (size_t i = 0; i < n; i++) {
        const ls_json_value item = several ? ls_json_item(value, i) : value;
        const char *text = text_of(s, item);
        if (text == NULL || strncmp(text, "--", 2) == 0)
            return ls_json_error(item, "texts or numbers that begin with no --, for --%s", name);
        add_word(s, text);
    }
    return ls_ok();
}

static ls_status add_value(settings *s, const char *name, ls_json_value value) {
    const char *text = text_of(s, value);
    if (text == NULL) return ls_json_error(value, "a text or a number for --%s", name);
    add_word(s, ls_arena_printf(s->arena, "--%s=%s", name, text));
    return ls_ok();
}

static ls_status note(ls_json_buffer *names, const char *name) {
    return ls_json_buffer_print(names, "%s%s", names->n > 0 ? ", " : "", name);
}

/* Whether it is an option of train. A command that only plans a training leaves such options out, and logs that. */
static bool is_of_training(const char *name) {
    ls_option table[CLI_MOST_OPTIONS];
    return row_of(table, cli_options_of(&cli_train, table), name) != NULL;
}

static ls_status add_member(settings *s, const char *key, ls_json_value value) {
    char *name = ls_arena_strdup(s->arena, key);
    for (char *c = name; *c != 0; c++)
        if (*c == '_') *c = '-';
    const ls_option *row = row_of(s->table, s->rows, name);
    if (row == NULL && is_of_training(name)) return note(&s->others, name);
    if (row == NULL || strcmp(name, "config") == 0) {
        char *const word = ls_arena_printf(s->arena, "--%s", row == NULL ? name : "config in a file of settings");
        return ls_error_in(ls_options_check(s->table, s->rows, 1, &word), "%s", s->file);
    }
    if (ls_json_plain_of(value).kind == LS_JSON_NULL) return ls_ok();
    if (place_of(s->argc, s->argv, name) < s->argc) return note(&s->overruled, name);
    s->n_taken++;
    return row->type == LS_OPTION_FLAG   ? add_flag(s, name, value)
           : row->type == LS_OPTION_LIST ? add_list(s, name, value)
                                         : add_value(s, name, value);
}

static ls_status add_members(settings *s, ls_json_value object) {
    void *cursor = NULL;
    const char *key;
    ls_json_value value;
    LS_TRY(ls_json_as_object(object));
    while (ls_json_next(object, &cursor, &key, &value)) LS_TRY(add_member(s, key, value));
    return ls_error_in(ls_options_check(s->table, s->rows, s->n_words, (char *const *)(uintptr_t)s->words), "%s",
                       s->file);
}

/* --- the file ----------------------------------------------------------------------------------------------------- */

static bool is_yaml(const char *file) {
    const char *dot = strrchr(file, '.');
    return dot != NULL && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

static ls_status find_options(ls_json_value root, ls_json_value *out) {
    *out = root;
    if (!ls_json_has(root, "version") || !ls_json_has(root, "settings")) return ls_ok();
    return ls_error_in(ls_json_object(root, "options", out),
                       "a run.json keeps the options of the command line that started its training");
}

static void log_taken(const settings *s) {
    ls_log("settings of %s: %d%s%.*s%s%.*s", s->file, s->n_taken, s->overruled.n > 0 ? "; given by flags: " : "",
           (int)s->overruled.n, s->overruled.n > 0 ? s->overruled.at : "",
           s->others.n > 0 ? "; left out, as they are of train alone: " : "", (int)s->others.n,
           s->others.n > 0 ? s->others.at : "");
}

static ls_status read_file(settings *s) {
    enum { MOST_BYTES = 1 << 26 };
    ls_json *document = NULL;
    ls_json_value options;
    LS_TRY(is_yaml(s->file) ? ls_yaml_read(s->file, MOST_BYTES, &document)
                            : ls_json_read(s->file, MOST_BYTES, &document));
    ls_status status = find_options(ls_json_root(document), &options);
    if (status.code == LS_OK) status = add_members(s, options);
    if (status.code == LS_OK) log_taken(s);
    ls_json_buffer_free(&s->overruled);
    ls_json_buffer_free(&s->others);
    ls_json_free(document);
    return status;
}

ls_status cli_config_words(const cli_command *c, const ls_option *table, int rows, ls_arena *arena, int *argc,
                           char *const **argv) {
    const int at = c->configures ? place_of(*argc, *argv, "config") : *argc;
    if (at == *argc) return ls_ok();
    const char *inside = strchr((*argv)[at], '=');
    const char *file = inside != NULL ? inside + 1 : at + 1 < *argc ? (*argv)[at + 1] : "";
    if (*file == 0 || strncmp(file, "--", 2) == 0) return ls_ok(); /* the parser refuses it */
    settings s = {.file = file, .table = table, .rows = rows, .argc = *argc, .argv = *argv, .arena = arena};
    LS_TRY(read_file(&s));
    for (int i = 0; i < *argc; i++) add_word(&s, (*argv)[i]);
    *argc = s.n_words;
    *argv = (char *const *)(uintptr_t)s.words;
    return ls_ok();
}

/* --- for run.json ------------------------------------------------------------------------------------------------- */

void cli_note_given(int argc, char *const *argv, ls_arena *arena, cli_common *flags) {
    size_t capacity = 0;
    for (int at = 0; at < argc;) {
        const char *word = argv[at] + 2, *inside = strchr(word, '=');
        const int first = ++at;
        while (at < argc && strncmp(argv[at], "--", 2) != 0) at++;
        const char **values = LS_NEW_ARRAY(arena, const char *, at - first + 1);
        int n = 0;
        if (inside != NULL) values[n++] = inside + 1;
        for (int i = first; i < at; i++) values[n++] = argv[i];
        const char *name =
            inside != NULL ? ls_arena_printf(arena, "%.*s", (int)(inside - word), word) : ls_arena_strdup(arena, word);
        if (is_of_one_run(name)) continue;
        *LS_PUSH(arena, flags->as_given, flags->n_as_given, capacity) =
            (ls_given_option){.name = name, .values = values, .n = n};
    }
}
