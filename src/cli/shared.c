/* Pieces that several commands use. */
#include "cli/cli.h"

#include <string.h>

#define AT(field) offsetof(cli_common, field)
#define SPREAD(field) AT(spread.field)

static const ls_option spread_rows[] = {
    CLI_INT("ranks", "R", NULL, 1, 1024, SPREAD(ranks),
            "local processes that share the work; the mesh's product when left out, else 1"),
    CLI_INT("threads", "T", NULL, 1, 1024, SPREAD(threads),
            "of each rank; cores divided by ranks when left out"),
    CLI_TEXT(
        "strategy", "NAME", SPREAD(strategy),
        "of attention: auto, local, ring, ulysses, usp, gather, tokenring or decode; chosen when left out"),
    CLI_TEXT("mesh", "dp=A,ring=R,ulysses=U", SPREAD(mesh),
             "any part of it; dp is 1 and the rest chosen when left out"),
    CLI_TEXT(
        "layout", "NAME", SPREAD(layout),
        "which positions a rank holds: auto, contiguous, zigzag, striped, documents or balanced; chosen when left out"),
    CLI_CHOICE("transfers", "WAY", "auto|put|in-place", NULL, SPREAD(transfers),
               "how attention gets at other ranks' blocks: they are sent, or read where they lie"),
    CLI_FLAG("measure", SPREAD(measure),
             "the best few ways to spread the work are tried for real, and the fastest is taken"),
    CLI_BYTES("memory", "BYTES", NULL, 1, CLI_ANY, SPREAD(memory),
              "that a rank may map; results are made again and tiles cut until it fits"),
    CLI_TEXT(
        "recompute", "WHAT", SPREAD(recompute),
        "auto (as --memory demands), none, all, or how many results are made again in the backward pass"),
    CLI_CHOICE("tile", "WHAT", "auto|none|loss|all", NULL, SPREAD(tile),
               "what is run for some tokens at a time; auto: the loss, and all where --memory demands it"),
    CLI_INT("tile-rows", "N", NULL, 1, 0x1p40, SPREAD(tile_rows),
            "tokens of a tile; as many as take about 96 MiB when left out"),
    CLI_TEXT(
        "isa", "NAME", SPREAD(isa),
        "kernels for no more than ref, base, avx2, avx512, avx512bf16 or amx; the processor's best when left out"),
};

static const ls_option run_rows[] = {
    CLI_CHOICE("ranks-as", "KIND", "processes|threads", "processes", AT(ranks_as), "what a rank is"),
    CLI_FLOAT("wait-timeout", "S", NULL, 0.001, CLI_ANY, SPREAD(wait_timeout),
              "seconds that a rank may stand still before the others give up; 600 when left out"),
};

static const ls_option rope_rows[] = {
    CLI_TEXT(
        "rope-scaling", "TYPE:FACTOR", AT(rope.scaling),
        "stretch rotary positions to a longer context: linear:2, dynamic:4, yarn:4, llama3:8, default (not at all), "
        "or an object as JSON; a third part, as in yarn:4:32768, is the length that the model was trained with "
        "(config.json's when left out). What is saved has a config.json that says so"),
    CLI_FLOAT("rope-theta", "X", NULL, 1, 1e30, AT(rope.theta),
              "base of rotary positions instead of config.json's rope_theta"),
};

#define FORM(field) AT(form.field)
static const ls_option form_rows[] = {
    CLI_CHOICE(
        "format", "KIND", "auto|text|jsonl|json", NULL, FORM(format),
        "of the files; by their names when left out: .jsonl, .ndjson and .json hold records, all else is text"),
    CLI_TEXT("field", "NAME", FORM(field),
             "of a JSON record, where its text is (meta.text: inside of meta); text when left out"),
    CLI_TEXT(
        "records", "KIND", FORM(records),
        "what a JSON record is: text, completion (prompt and completion) or messages (role and content of each); text when left out"),
    CLI_TEXT(
        "template", "NAME", FORM(chat),
        "of messages: the chat template: a file, a name among the tokenizer's own, or one of chatml, llama3, llama3.1, llama2, "
        "mistral, mistral-v3, gemma and gemma3; the tokenizer's own when left out"),
    CLI_TEXT(
        "system", "TEXT", FORM(system),
        "of messages: what the system says where a conversation does not begin with it, '' for an empty text; what the template "
        "writes then when left out"),
    CLI_TEXT(
        "today", "DATE", FORM(today),
        "of messages: the day (2025-07-09) that templates with a date write; the day it is when left out"),
    CLI_TEXT(
        "begin", "TOKEN", FORM(begin),
        "put before each document: auto (what the tokenizer's files put before a text, if anything), none or a token"),
    CLI_TEXT("end", "TOKEN", FORM(end),
             "put behind each document: auto (the tokenizer's end of document), none or a token"),
    CLI_BYTES("longest-record", "BYTES", NULL, 0x1p24, 0x1p40, FORM(longest_record),
              "that a line, or a text that cannot be cut, may have; 1G when left out"),
    CLI_FLAG("skip-bad", FORM(skip_bad), "leave out and count what cannot be read, instead of ending"),
};
#undef FORM

static const ls_option common_rows[] = {
    CLI_FLAG("json", AT(json), "the result as JSON on standard output"),
    CLI_FLAG("help", AT(help), "this page"),
};
#undef SPREAD
#undef AT

/* Appends rows to the n that are there, as far as there is room. */
static int append(ls_option *out, int n, const ls_option *rows, int more) {
    for (int i = 0; i < more && n + i < CLI_MOST_OPTIONS; i++) out[n + i] = rows[i];
    return n + more;
}

int cli_options_of(const cli_command *c, ls_option out[CLI_MOST_OPTIONS]) {
    int n = append(out, 0, c->options, c->n_options);
    if (c->reads) n = append(out, n, form_rows, CLI_COUNT(form_rows));
    if (c->opens) n = append(out, n, rope_rows, CLI_COUNT(rope_rows));
    if (c->spreads) n = append(out, n, spread_rows, CLI_COUNT(spread_rows));
    if (c->runs) n = append(out, n, run_rows, CLI_COUNT(run_rows));
    return append(out, n, common_rows, CLI_COUNT(common_rows));
}

/* How many words behind argv[at], a flag, are its own. */
static int words_of(const ls_option *table, int rows, int argc, const char *const *argv, int at) {
    const char *name = argv[at] + 2;
    int row = 0, n = 0;
    while (row < rows && strcmp(table[row].name, name) != 0) row++;
    if (row == rows || table[row].type == LS_OPTION_FLAG) return 0; /* --name=value too */
    const int most = table[row].type == LS_OPTION_LIST ? argc : 1;
    while (n < most && at + 1 + n < argc && strncmp(argv[at + 1 + n], "--", 2) != 0) n++;
    return n;
}

int cli_part_words(const ls_option *table, int rows, int argc, const char **argv) {
    int words = 0;
    for (int at = 0; at + words < argc;) {
        if (strncmp(argv[at], "--", 2) == 0) {
            at += 1 + words_of(table, rows, argc - words, argv, at);
            continue;
        }
        const char *word = argv[at];
        memmove(argv + at, argv + at + 1, sizeof *argv * (size_t)(argc - at - 1));
        argv[argc - 1] = word;
        words++;
    }
    return words;
}

ls_spread cli_spread_of(const cli_common *flags) {
    ls_spread spread = flags->spread;
    spread.as_threads = flags->ranks_as != NULL && strcmp(flags->ranks_as, "threads") == 0;
    return spread;
}

void cli_print_spread(const ls_spread_result *r) {
    const bool read = r->bytes_read_forward + r->bytes_read_backward > 0;
    char time[LS_SECONDS_TEXT], forward[LS_BYTES_TEXT], backward[LS_BYTES_TEXT], memory[LS_BYTES_TEXT];
    printf("%s · %s · %s · %s\n", r->strategy, r->mesh, r->layout, r->isa);
    printf("%s · sent by a rank: %s forward, %s backward · memory of a rank: %s\n",
           ls_seconds_text(r->seconds, time), ls_bytes_text((double)r->bytes_sent_forward, forward),
           ls_bytes_text((double)r->bytes_sent_backward, backward),
           ls_bytes_text((double)r->predicted_bytes, memory));
    if (read)
        printf("read in place by a rank: %s forward, %s backward\n",
               ls_bytes_text((double)r->bytes_read_forward, forward),
               ls_bytes_text((double)r->bytes_read_backward, backward));
}
