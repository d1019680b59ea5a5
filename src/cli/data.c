/* longspan data */
#include "cli/cli_impl.h"

#include <string.h>

typedef struct data_flags {
    cli_common common;
    const char *what;
    ls_option_list paths;
    ls_data_build_job build;
    ls_data_inspect_job inspect;
    const char *tokenizer;
    int64_t seed;
} data_flags;

#define BUILD(field) offsetof(data_flags, build.field)
#define INSPECT(field) offsetof(data_flags, inspect.field)
/* The first N_SHARED rows belong to build and inspect, the next N_BUILD to build, the rest to inspect. */
enum { N_SHARED = 2, N_BUILD = 5 };
static const ls_option options[] = {
    CLI_TEXT("what", "WHAT", offsetof(data_flags, what), "build or inspect (required); the word may stand alone"),
    CLI_TEXT("tokenizer", "DIR", offsetof(data_flags, tokenizer),
             "folder with a tokenizer.json, such as that of a model; bytes when left out"),
    CLI_TEXT("out", "DIR", BUILD(out), "build: folder for the shards"),
    CLI_INT("shard-tokens", "N", NULL, 1, CLI_ANY, BUILD(shard_tokens),
            "build: a shard ends with the document that brings it to N tokens; 2^26 when left out"),
    CLI_INT(
        "longest", "N", NULL, 2, CLI_ANY, BUILD(longest),
        "build: most tokens of a document, without the token after it (--too-long says what becomes of a longer one); any number when left out"),
    CLI_INT("threads", "T", NULL, 1, 1024, BUILD(threads),
            "build: number of threads; the number of cores when left out"),
    CLI_FLAG("resume", BUILD(resume), "build: continue an unfinished build in --out"),
    CLI_FLAG("verify", INSPECT(verify), "inspect: check the checksums and every token"),
    CLI_INT("documents", "N", NULL, 1, CLI_ANY, INSPECT(documents),
            "inspect: how many documents to show; 3 when left out"),
    CLI_FLAG("order", INSPECT(order),
             "inspect: show which parts of which documents each step of a training reads; takes text too"),
    CLI_INT("seq", "N", NULL, 1, 0x1p30, INSPECT(seq), "inspect --order: as of train; 1024 when left out"),
    CLI_INT("batch", "N", NULL, 1, 0x1p24, INSPECT(batch), "inspect --order: as of train; 1 when left out"),
    CLI_INT("steps", "N", NULL, 1, CLI_ANY, INSPECT(steps), "inspect --order: how many steps to show; 1 when left out"),
    CLI_INT("from", "N", NULL, 0, 0x1p40, INSPECT(from), "inspect --order: how many steps to skip first"),
    CLI_INT("seed", "N", NULL, 0, CLI_ANY, offsetof(data_flags, seed), "inspect --order: as of train"),
    CLI_CHOICE("pack", "NAME", "auto|join|best|stream|pairs", NULL, INSPECT(pack),
               "inspect --order: as of train; auto when left out"),
    CLI_FLAG("group-by-length", INSPECT(group_by_length), "inspect --order: as of train"),
};
#undef BUILD
#undef INSPECT

static ls_status refuse_others(const data_flags *flags, int from, int to) {
    for (int i = from; i < to; i++)
        if (flags->common.given[i])
            return ls_error(LS_USAGE, "--%s is no flag of data %s", options[i].name, flags->what);
    return ls_ok();
}

/* Flags that say how texts become documents. */
static ls_status refuse_form(const data_flags *flags) {
    const size_t begin = offsetof(data_flags, common.form), end = begin + sizeof flags->common.form;
    ls_option table[CLI_MOST_OPTIONS];
    const int n = cli_options_of(&cli_data, table);
    for (int i = 0; i < n; i++)
        if (flags->common.given[i] && table[i].offset >= begin && table[i].offset < end)
            return ls_error(LS_USAGE, "data inspect reads no texts without --order; leave out --%s", table[i].name);
    return ls_ok();
}

static ls_status run_build(data_flags *flags) {
    ls_data_build_job *job = &flags->build;
    ls_data_build_result r;
    LS_TRY(refuse_others(flags, N_SHARED + N_BUILD, CLI_COUNT(options)));
    job->paths = flags->paths.items;
    job->n_paths = flags->paths.count;
    job->tokenizer = flags->tokenizer;
    job->form = flags->common.form;
    LS_TRY(ls_run_data_build(job, &r));
    if (flags->common.json) {
        ls_data_build_result_json(&r, stdout);
        return ls_ok();
    }
    char bytes[LS_BYTES_TEXT], time[LS_SECONDS_TEXT];
    printf("%lld documents · %lld tokens · longest document %lld · %lld shards\n", (long long)r.documents,
           (long long)r.tokens, (long long)r.longest, (long long)r.shards);
    printf("around each document: %s before, %s after\n", r.begin, r.end);
    printf("from %lld files of %s in %s", (long long)r.inputs, ls_bytes_text((double)r.input_bytes, bytes),
           ls_seconds_text(r.seconds, time));
    if (r.resumed > 0) printf(" · %lld shards were there already", (long long)r.resumed);
    if (r.empty > 0) printf(" · %lld records empty", (long long)r.empty);
    if (r.bad > 0) printf(" · %lld records left out", (long long)r.bad);
    printf("\nwrote %s\n", job->out);
    return ls_ok();
}

static ls_status run_inspect(data_flags *flags) {
    ls_data_inspect_job *job = &flags->inspect;
    LS_TRY(refuse_others(flags, N_SHARED, N_SHARED + N_BUILD));
    job->paths = flags->paths.items;
    job->n_paths = flags->paths.count;
    job->tokenizer = flags->tokenizer;
    job->form = flags->common.form;
    if (!job->order) LS_TRY(refuse_form(flags));
    job->seed = (uint64_t)flags->seed;
    job->json = flags->common.json;
    return ls_run_data_inspect(job, stdout);
}

static ls_status run(void *context) {
    data_flags *flags = context;
    if (flags->what != NULL && strcmp(flags->what, "build") == 0) return run_build(flags);
    if (flags->what != NULL && strcmp(flags->what, "inspect") == 0) return run_inspect(flags);
    return ls_error(LS_USAGE, "data %s; expected build or inspect", flags->what != NULL ? flags->what : "nothing");
}

const cli_command cli_data = {
    .name = "data",
    .summary = "text to token shards, and what is in them",
    .usage = "build --out DIR [--tokenizer DIR] PATH... | inspect DIR... [options]",
    .about =
        "build: converts text files (a document each), JSONL (a document per line) and JSON (a document per item of its array), plain or compressed "
        "(.gz, .zst), to files of token ids that train maps into memory: DIR/shard-000000.tokens and so on, and DIR/shards.json. The corpus is "
        "never in memory as a whole. --resume continues a build that was killed; the result has the same bytes, however often it was "
        "continued and for any number of threads.\n"
        "Of records with prompt and completion the completion is learnt, of messages those of the assistant, of segments and ids what their labels say; the labels of all other tokens are "
        "ignored. The chat template (Jinja, rendered as the library transformers does) gets the messages and the record's tools, documents and "
        "chat_template_kwargs. Learnt is the text in its generation blocks. A template without them is rendered before and after each answer, and "
        "the text that is added is learnt; an answer that is written differently once the conversation continues (without its thinking) is not learnt. "
        "Special tokens that the template writes are tokens; in the contents of messages they are plain text.\n"
        "inspect: prints counts, lengths and first documents of shards.",
    .reads = true,
    CLI_OWN(options, run, data_flags),
    .takes_word = 1,
    .words_at = offsetof(data_flags, paths),
};
