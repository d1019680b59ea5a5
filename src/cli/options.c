/* The options that several commands take, the words between flags, and the lines about a spread that commands print. */
#include "cli/cli_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(cli_common, field)
#define SPREAD(field) AT(spread.field)

static const ls_option spread_rows[] = {
    CLI_INT("ranks", "R", NULL, 1, INT32_MAX, SPREAD(ranks),
            "number of ranks (local processes) that share the work; when left out, the product of --mesh, else 1"),
    CLI_INT("threads", "T", NULL, 1, 1024, SPREAD(threads),
            "threads of each rank; cores divided by ranks when left out"),
    CLI_TEXT(
        "strategy", "NAME", SPREAD(strategy),
        "strategy of attention: auto, local, ring, ulysses, usp, gather, tokenring, decode, double-ring, burst or rsa; "
        "or by kind of layer, KIND=NAME,..., where full and window are attention without a window and with one, "
        "recurrence linear recurrences (maps, owners or heads), rnn recurrent cells (chain or heads); chosen when left "
        "out"),
    CLI_TEXT("mesh", "pp=P,dp=A,outer=O,ring=R,ulysses=U,tp=T", SPREAD(mesh),
             "sizes of mesh axes; of those left out pp, dp and tp are 1, and the others are chosen"),
    CLI_TEXT(
        "pipeline", "SCHEDULE", SPREAD(pipeline),
        "order in which stages (pp) take the micro-batches of --accumulate: 1f1b, interleaved:N (N parts of the model "
        "for each stage) or zero-bubble; what is predicted to be fastest when left out"),
    CLI_INT(
        "slices", "N", NULL, 1, 0x1p20, SPREAD(slices),
        "parts of each sequence that go through the stages (pp) like micro-batches, where attention is causal; 1 when left out"),
    CLI_TEXT(
        "layout", "NAME", SPREAD(layout),
        "which positions a rank holds: auto, contiguous, zigzag, striped, documents or balanced; chosen when left out"),
    CLI_CHOICE("transfers", "WAY", "auto|put|in-place", NULL, SPREAD(transfers),
               "how attention gets the blocks of other ranks: they are sent (put), or read where they lie (in-place)"),
    CLI_CHOICE(
        "shard", "WHAT", "auto|none|optimizer|gradients|parameters", NULL, SPREAD(shard),
        "what is cut over all ranks: nothing, the optimiser's state, the gradients too, the parameters too; auto: "
        "the optimiser's state, and more if --memory demands it"),
    CLI_CHOICE("sums", "ORDER", "fast|canonical", NULL, SPREAD(sums),
               "order of sums; canonical: the same bits for any number of ranks, and slower; fast when left out"),
    CLI_FLAG("measure", SPREAD(measure), "run the best few ways to spread the work, and take the fastest"),
    CLI_BYTES(
        "memory", "BYTES", NULL, 1, CLI_ANY, SPREAD(memory),
        "memory that a rank may map, of the device where it has its own; results are recomputed or offloaded and tiles used until it fits"),
    CLI_TEXT(
        "recompute", "WHAT", SPREAD(recompute),
        "results that are recomputed in the backward pass: auto (as many as --memory demands), none, all, or a number"),
    CLI_TEXT(
        "offload", "WHAT", SPREAD(offload),
        "what waits in memory of the host: none, optimizer (what it keeps), results (of the forward pass), a number of "
        "results, both (optimizer+12), all; auto: as much as --memory demands, on a device with memory of its own"),
    CLI_CHOICE("tile", "WHAT", "auto|none|loss|all", NULL, SPREAD(tile),
               "ops that run tile by tile; auto: the loss, and all ops if --memory demands it"),
    CLI_INT("tile-rows", "N", NULL, 1, 0x1p40, SPREAD(tile_rows),
            "tokens of a tile; as many as suit the device when left out"),
    CLI_TEXT("device", "NAME", SPREAD(device),
             "what computes: cpu, cuda or cuda:N (the GPU with that number), or these with :launched (without CUDA "
             "graphs); cpu when left out"),
    CLI_TEXT(
        "kernels", "CONTRACT/TYPE=ROW", SPREAD(kernels),
        "kernels that are taken first where several fit, as attention/bf16=own (instead of cudnn), apart by spaces; "
        "what `longspan bench machine` found to be faster, else those of libraries, when left out"),
    CLI_TEXT(
        "isa", "NAME", SPREAD(isa),
        "instruction set that limits the kernels: ref, base, avx2, avx512, avx512bf16 or amx; the processor's best when left out"),
};

static const ls_option run_rows[] = {
    CLI_CHOICE("ranks-as", "KIND", "processes|threads", "processes", AT(ranks_as), "what a rank is"),
    CLI_TEXT("transport", "NAME", AT(transport),
             "what connects the ranks: shm, tcp or mpi (under an mpirun), or several with commas, of which each pair "
             "takes the fastest; LONGSPAN_TRANSPORTS, else all, when left out"),
    CLI_FLOAT("wait-timeout", "S", NULL, 0.001, CLI_ANY, SPREAD(wait_timeout),
              "seconds that a rank may make no progress before the others give up; 600 when left out"),
};

static const ls_option rope_rows[] = {
    CLI_TEXT(
        "rope-scaling", "TYPE:FACTOR", AT(rope.scaling),
        "stretch rotary positions for a longer context: linear:2, dynamic:4, yarn:4, llama3:8, default (no stretching), "
        "or the value of rope_scaling as JSON; a third part, as in yarn:4:32768, is the length that the model was trained with "
        "(that of config.json when left out). Saved models have a config.json with this scaling"),
    CLI_FLOAT("rope-theta", "X", NULL, 1, 1e30, AT(rope.theta),
              "base of rotary positions, instead of rope_theta in config.json"),
    CLI_TEXT(
        "adapter", "DIR", AT(adapter.folder),
        "folder of an adapter of the model: adapter_config.json and adapter_model.safetensors, as peft writes them"),
    CLI_CHOICE(
        "base", "TYPE", "bf16|fp8|int8|nf4", NULL, AT(adapter.base),
        "type in which the model's matrices are kept that no gradient changes: 2, 1.06, 1.06 or 0.56 bytes a number; others are rounded as they are "
        "read; that of the model's files when left out"),
};

#define FORM(field) AT(form.field)
static const ls_option form_rows[] = {
    CLI_CHOICE(
        "format", "KIND", "auto|text|jsonl|json|parquet", NULL, FORM(format),
        "format of the files; by their names when left out: .jsonl, .ndjson, .json and .parquet hold records, all others text"),
    CLI_TEXT(
        "field", "NAME", FORM(field),
        "field of a JSON record that has its text (meta.text: the field text of the object meta); text when left out"),
    CLI_TEXT(
        "records", "KIND", FORM(records),
        "what a JSON record is: text, messages (role and content of each), completion (prompt and completion, each a text or messages), sharegpt "
        "(conversations), alpaca (instruction, input, output), segments (text and label of each), ids (input_ids, labels) or teacher (the same with a teacher's words); text when left out"),
    CLI_TEXT(
        "template", "NAME", FORM(chat),
        "chat template for messages: a file, the name of a template of the tokenizer, or one of chatml, llama3, llama3.1, llama2, "
        "mistral, mistral-v3, gemma and gemma3; the tokenizer's own when left out"),
    CLI_TEXT("system", "TEXT", FORM(system),
             "system message of conversations that begin without one, '' for an empty text; that of the template when "
             "left out"),
    CLI_TEXT("today", "DATE", FORM(today),
             "date (2025-07-09) for chat templates that write a date; today when left out"),
    CLI_TEXT(
        "begin", "TOKEN", FORM(begin),
        "token before each document: auto (what the tokenizer's files put before a text, if anything), none or a token"),
    CLI_TEXT("end", "TOKEN", FORM(end),
             "token after each document: auto (the tokenizer's end of document), none or a token"),
    CLI_BYTES("longest-record", "BYTES", NULL, 0x1p24, 0x1p40, FORM(longest_record),
              "largest size of a line, or of a text that cannot be cut; 1G when left out"),
    CLI_CHOICE(
        "too-long", "WHAT", "auto|drop|cut|split", NULL, FORM(too_long),
        "what becomes of a document that is longer than --seq (data build: --longest): drop it, cut it (its beginning is kept) or split it into "
        "sequences, of which a conversation's later ones lack the question; auto when left out: conversations and completions are cut, texts split"),
    CLI_CHOICE("encoding", "NAME", "utf-8|latin-1", NULL, FORM(encoding),
               "how characters are stored in the files; utf-8 when left out"),
    CLI_FLAG("skip-bad", FORM(skip_bad), "leave out records that cannot be read, and count them, instead of failing"),
};
#undef FORM

static const ls_option config_rows[] = {
    CLI_TEXT(
        "config", "FILE", AT(config),
        "settings from a file: JSON, or YAML (.yaml, .yml), with the names of these options as keys, a list for several words, true for an "
        "option without a value; or the run.json of an earlier training. Options that are given as well overrule it"),
};

static const ls_option common_rows[] = {
    CLI_FLAG("json", AT(json), "print the result as JSON"),
    CLI_FLAG("help", AT(help), "print this page"),
};
#undef SPREAD
#undef AT

/* Appends rows after the first n, as far as there is room. Returns the total number of rows. */
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
    if (c->configures) n = append(out, n, config_rows, CLI_COUNT(config_rows));
    return append(out, n, common_rows, CLI_COUNT(common_rows));
}

/* Options that may differ between ranks, and why. All others must be the same. */
static const struct {
    const char *name, *why;
} free_options[] = {
    {"threads", "left out it is that of rank 0; the session compares what is used"},
    {"device", "each rank may have a GPU of its own, cuda:N; the session compares the kinds"},
};

static bool is_free(const char *name) {
    for (size_t i = 0; i < CLI_COUNT(free_options); i++)
        if (strcmp(name, free_options[i].name) == 0) return true;
    return false;
}

/*
 * Writes the value of an option as it could be given: for a list, its words with spaces between them; for a flag,
 * "given". If the option was not given and has no default, writes "left out".
 */
static void print_value(const ls_option *option, bool given, const cli_common *flags, FILE *out) {
    const void *at = (const char *)flags + option->offset;
    const ls_option_list *list = at;
    if (option->type == LS_OPTION_FLAG) given = *(const bool *)at;
    if (!given && option->initial == NULL)
        fputs("left out", out);
    else if (option->type == LS_OPTION_FLAG)
        fputs("given", out);
    else if (option->type == LS_OPTION_FLOAT)
        fprintf(out, "%.15g", *(const double *)at);
    else if (option->type == LS_OPTION_INT || option->type == LS_OPTION_BYTES)
        fprintf(out, "%lld", (long long)*(const int64_t *)at);
    else if (option->type == LS_OPTION_LIST)
        for (int i = 0; i < list->count; i++) fprintf(out, "%s%s", i > 0 ? " " : "", list->items[i]);
    else
        fputs(*(const char *const *)at, out);
}

static ls_status add_option(ls_alike *alike, const ls_option *row, bool given, const cli_common *flags) {
    char *value = NULL, flag[64];
    size_t length;
    FILE *text = open_memstream(&value, &length);
    if (text == NULL) return ls_error(LS_NO_MEMORY, "no memory for the value of --%s", row->name);
    print_value(row, given, flags, text);
    const bool whole = fclose(text) == 0;
    snprintf(flag, sizeof flag, "--%s", row->name);
    if (whole) ls_alike_add(alike, flag, "%s", value);
    free(value);
    return whole ? ls_ok() : ls_error(LS_NO_MEMORY, "no memory for the value of --%s", row->name);
}

ls_status cli_options_alike(const cli_command *c, const cli_common *flags) {
    ls_alike *alike;
    ls_option table[CLI_MOST_OPTIONS];
    const int n = cli_options_of(c, table);
    ls_status status = ls_ok();
    LS_TRY(ls_alike_begin(&alike));
    ls_alike_add(alike, "command", "%s", c->name);
    for (int i = 0; i < n && alike != NULL && status.code == LS_OK; i++)
        if (!is_free(table[i].name)) status = add_option(alike, &table[i], flags->given[i], flags);
    return ls_alike_end(alike, status);
}

/* The number of words after the flag argv[at] that are its values. */
static int count_values(const ls_option *table, int rows, int argc, const char *const *argv, int at) {
    const char *name = argv[at] + 2;
    int row = 0, n = 0;
    while (row < rows && strcmp(table[row].name, name) != 0) row++;
    if (row == rows || table[row].type == LS_OPTION_FLAG) return 0; /* unknown flags and --name=value have none */
    const int most = table[row].type == LS_OPTION_LIST ? argc : 1;
    while (n < most && at + 1 + n < argc && strncmp(argv[at + 1 + n], "--", 2) != 0) n++;
    return n;
}

int cli_part_words(const ls_option *table, int rows, int argc, const char **argv) {
    int words = 0;
    for (int at = 0; at + words < argc;) {
        if (strncmp(argv[at], "--", 2) == 0) {
            at += 1 + count_values(table, rows, argc - words, argv, at);
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
    printf("%s · %s · %s · %s · shard %s\n", r->strategy, r->mesh, r->layout, r->isa, r->shard);
    printf("%s · sent by a rank: %s forward, %s backward · memory of a rank: %s\n", ls_seconds_text(r->seconds, time),
           ls_bytes_text((double)r->bytes_sent_forward, forward),
           ls_bytes_text((double)r->bytes_sent_backward, backward), ls_bytes_text((double)r->predicted_bytes, memory));
    if (read)
        printf("read in place by a rank: %s forward, %s backward\n",
               ls_bytes_text((double)r->bytes_read_forward, forward),
               ls_bytes_text((double)r->bytes_read_backward, backward));
}
