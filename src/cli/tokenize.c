/* longspan tokenize */
#include "cli/cli.h"

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
    CLI_TEXT("text", "TEXT", AT(text), "a text instead of files; with --decode, its ids"),
    CLI_FLAG("whole", AT(whole),
             "a file is one text, not each of its lines; with --decode, no newlines between texts"),
    CLI_FLAG("special", AT(special),
             "with the tokens that the tokenizer's files put around a text (a begin of text, as a rule)"),
    CLI_FLAG("decode", AT(decode), "the other way: lines of ids to text"),
    CLI_FLAG("skip-special", AT(skip_special), "of --decode: without special tokens"),
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
        "Each line of the files (of standard input, when there are none; - is standard input) is a text, and its ids are a line of the output: "
        "[1, 2, 3], or with --json {\"ids\": [1, 2, 3]}. With --decode each line is such an array or object, and its text is the output, or "
        "with --json {\"text\": \"...\"}. Words of the text that are special tokens become those. The ids are those of the Python package tokenizers.",
    CLI_OWN(options, run, tokenize_flags),
    .words_at = offsetof(tokenize_flags, paths),
};
