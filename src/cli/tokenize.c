/* longspan tokenize: text to ids, and ids to text, line by line. */
#include "cli/cli_impl.h"

#include "base/base.h"
#include "format/format.h"
#include "longspan/data.h"
#include "text/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BYTES = 64 << 20 }; /* limit of a text, and of a line of ids */

typedef struct tokenizing {
    const ls_tokenize_job *job;
    ls_tokenizer *tokenizer;
    FILE *out;
    ls_text in, text;
    ls_token_list ids;
} tokenizing;

/* ---- reading ---- */

/* Appends a byte; false when there is no memory. */
static bool append_byte(ls_text *text, int byte) {
    if (text->count == text->capacity) {
        const size_t capacity = text->capacity > 0 ? 2 * text->capacity : 4096;
        char *grown = realloc(text->byte, capacity);
        if (grown == NULL) return false;
        text->byte = grown;
        text->capacity = capacity;
    }
    text->byte[text->count++] = (char)byte;
    return true;
}

/* Reads the next line, or with `whole` the rest of the file, into t->in; *found is false after the last. */
static ls_status read_text(tokenizing *t, FILE *file, bool whole, bool *found) {
    int byte;
    t->in.count = 0;
    *found = false;
    while ((byte = getc_unlocked(file)) != EOF) {
        *found = true;
        if (byte == '\n' && !whole) return ls_ok();
        if (t->in.count == MOST_BYTES)
            return ls_error(LS_INVALID, "a %s of more than %d MiB (longspan data build takes longer ones)",
                            whole ? "text" : "line", MOST_BYTES >> 20);
        if (!append_byte(&t->in, byte)) return ls_error(LS_NO_MEMORY, "no memory for %zu bytes of text", t->in.count);
    }
    return ferror(file) ? ls_error(LS_IO, "cannot be read: %s", strerror(errno)) : ls_ok();
}

/* ---- text to ids ---- */

static void print_ids(FILE *out, const int32_t *ids, size_t n, bool *first) {
    for (size_t i = 0; i < n; i++, *first = false) fprintf(out, *first ? "%d" : ", %d", (int)ids[i]);
}

static ls_status encode(tokenizing *t, const char *text, size_t bytes) {
    const ls_token_frame frame = ls_tokenizer_frame(t->tokenizer);
    const bool special = t->job->special;
    bool first = true;
    t->ids.count = 0;
    LS_TRY(ls_tokenizer_encode(t->tokenizer, text, bytes, &t->ids));
    fputs(t->job->json ? "{\"ids\": [" : "[", t->out);
    print_ids(t->out, frame.before, special ? frame.n_before : 0, &first);
    print_ids(t->out, t->ids.id, t->ids.count, &first);
    print_ids(t->out, frame.after, special ? frame.n_after : 0, &first);
    fputs(t->job->json ? "]}\n" : "]\n", t->out);
    return ls_ok();
}

/* ---- ids to text ---- */

static ls_status read_ids(const tokenizing *t, ls_json_value root, ls_token_list *ids) {
    ls_json_value list = root;
    if (!ls_json_is_array(root)) LS_TRY(ls_json_array(root, "ids", &list));
    const size_t n = ls_json_count(list);
    *ids = (ls_token_list){malloc((n + 1) * sizeof *ids->id), 0, n + 1};
    if (ids->id == NULL) return ls_error(LS_NO_MEMORY, "no memory for %zu ids", n);
    for (size_t i = 0; i < n; i++) {
        int64_t id;
        LS_TRY(ls_json_as_int(ls_json_item(list, i), 0, ls_tokenizer_vocabulary(t->tokenizer) - 1, &id));
        if (t->job->skip_special && ls_tokenizer_is_special(t->tokenizer, (int32_t)id)) continue;
        ids->id[ids->count++] = (int32_t)id;
    }
    return ls_ok();
}

static ls_status print_object(tokenizing *t) {
    ls_json_writer *w = ls_json_begin(0);
    ls_json_put_bytes(w, "text", t->text.count > 0 ? t->text.byte : "", t->text.count);
    ls_json_end(w, t->out);
    return ls_ok();
}

/* Writes the text unchanged to a file or a pipe, and only its printable characters to a terminal. */
static ls_status write_text(const tokenizing *t) {
    if (!isatty(fileno(t->out))) {
        fwrite(t->text.byte, 1, t->text.count, t->out);
        return ls_ok();
    }
    const size_t room = 3 * t->text.count + 1;
    char *shown = malloc(room);
    if (shown == NULL) return ls_error(LS_NO_MEMORY, "no memory to show %zu bytes of text", t->text.count);
    fwrite(shown, 1, ls_utf8_printable(t->text.byte, t->text.count, shown, room), t->out);
    free(shown);
    return ls_ok();
}

static ls_status decode(tokenizing *t, const char *line, size_t bytes) {
    ls_json *document;
    LS_TRY(ls_json_parse("ids", line, bytes, &document));
    ls_token_list ids = {0};
    ls_status status = read_ids(t, ls_json_root(document), &ids);
    ls_json_free(document);
    t->text.count = 0;
    if (status.code == LS_OK) status = ls_tokenizer_decode(t->tokenizer, ids.id, ids.count, &t->text);
    free(ids.id);
    LS_TRY(status);
    if (t->job->json) return print_object(t);
    LS_TRY(write_text(t));
    if (!t->job->whole) fputc('\n', t->out);
    return ls_ok();
}

/* ---- files ---- */

static ls_status convert(tokenizing *t, const char *text, size_t bytes) {
    return t->job->decode ? decode(t, text, bytes) : encode(t, text, bytes);
}

static ls_status run_file(tokenizing *t, FILE *file, const char *name) {
    const bool whole = t->job->whole && !t->job->decode;
    bool found = true;
    for (int64_t line = 1; !ferror(t->out); line++) {
        LS_PATH where = NULL;
        LS_TRY(whole ? ls_path_print(&where, "%s", name)
                     : ls_path_print(&where, "%s, line %lld", name, (long long)line));
        LS_TRY(ls_error_in(read_text(t, file, whole, &found), "%s", where));
        if (!found && !(whole && line == 1)) return ls_ok();
        LS_TRY(ls_error_in(convert(t, t->in.byte, t->in.count), "%s", where));
    }
    return ls_ok();
}

static ls_status run_path(tokenizing *t, const char *path) {
    if (strcmp(path, "-") == 0) return run_file(t, stdin, "standard input");
    FILE *file = fopen(path, "rb");
    if (file == NULL) return ls_error(LS_IO, "%s: cannot be opened: %s", path, strerror(errno));
    const ls_status status = run_file(t, file, path);
    fclose(file);
    return status;
}

static ls_status run_all(tokenizing *t) {
    const ls_tokenize_job *job = t->job;
    if (job->text != NULL) return ls_error_in(convert(t, job->text, strlen(job->text)), "--text");
    if (job->n_paths == 0) return run_path(t, "-");
    for (int i = 0; i < job->n_paths; i++) LS_TRY(run_path(t, job->paths[i]));
    return ls_ok();
}

/* path: a folder, or the tokenizer.json in it. */
static ls_status open_tokenizer(const char *path, ls_tokenizer **out) {
    static const char name[] = "tokenizer.json";
    LS_PATH folder = NULL;
    const size_t length = path != NULL ? strlen(path) : 0, rest = sizeof name - 1;
    if (length < rest || strcmp(path + length - rest, name) != 0 || (length > rest && path[length - rest - 1] != '/') ||
        ls_file_is_folder(path))
        return ls_tokenizer_open(path, out);
    LS_TRY(ls_path_print(&folder, "%.*s.", (int)(length - rest), path));
    return ls_tokenizer_open(folder, out);
}

ls_status ls_run_tokenize(const ls_tokenize_job *job, FILE *out) {
    LS_NEED(job, "job");
    LS_NEED(out, "out");
    LS_TRY(ls_check_texts("paths", job->paths, job->n_paths));
    if (job->text != NULL && job->n_paths > 0)
        return ls_error(LS_USAGE, "--text and files are given; expected one of them");
    if (job->decode && job->special)
        return ls_error(LS_USAGE, "--special adds ids to a text; with --decode expected --skip-special or neither");
    if (!job->decode && job->skip_special)
        return ls_error(LS_USAGE, "--skip-special is given without --decode; expected both");
    tokenizing t = {.job = job, .out = out};
    LS_TRY(open_tokenizer(job->tokenizer, &t.tokenizer));
    ls_tokenizer_log(t.tokenizer, 0);
    const ls_status status = run_all(&t);
    ls_tokenizer_close(t.tokenizer);
    free(t.in.byte);
    free(t.text.byte);
    free(t.ids.id);
    return status;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

typedef struct tokenize_flags {
    cli_common common;
    ls_option_list paths;
    ls_tokenize_job job;
} tokenize_flags;

#define AT(field) offsetof(tokenize_flags, job.field)
static const ls_option options[] = {
    CLI_TEXT(
        "tokenizer", "PATH", AT(tokenizer),
        "a model's folder, or another with a tokenizer.json or with vocab.json and merges.txt; bytes when left out"),
    CLI_TEXT("text", "TEXT", AT(text), "a text instead of files; with --decode, a line of ids"),
    CLI_FLAG("whole", AT(whole),
             "each file is one text, not each of its lines; with --decode, print no newlines between texts"),
    CLI_FLAG("special", AT(special),
             "add the tokens that the tokenizer's files put around a text (usually a begin of text)"),
    CLI_FLAG("decode", AT(decode), "convert lines of ids to text"),
    CLI_FLAG("skip-special", AT(skip_special), "with --decode: leave special tokens out"),
};
#undef AT

static ls_status run(void *context) {
    tokenize_flags *flags = context;
    flags->job.paths = flags->paths.items;
    flags->job.n_paths = flags->paths.count;
    flags->job.json = flags->common.json;
    return ls_run_tokenize(&flags->job, stdout);
}

const cli_command cli_tokenize = {
    .name = "tokenize",
    .summary = "text to token ids, and back",
    .usage = "[--tokenizer PATH] [FILE...] [--text TEXT] [--decode] [options]",
    .about =
        "Each line of the files is a text (without files, or for -, each line of standard input), and its ids are a line of the output: "
        "[1, 2, 3], or with --json {\"ids\": [1, 2, 3]}. With --decode each line is such an array or object, and the output is its text, or "
        "with --json {\"text\": \"...\"}. Special tokens in the text are recognised. The ids are those of the Python package tokenizers.",
    CLI_OWN(options, run, tokenize_flags),
    .words_at = offsetof(tokenize_flags, paths),
};
