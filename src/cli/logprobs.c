/* longspan logprobs: an evaluation that keeps the log-probability of each token. */
#include "cli/cli_impl.h"

#include "eval/eval.h"

#include <string.h>

typedef struct logprobs_flags {
    cli_common common;
    ls_option_list data;
    ls_eval_options options;
} logprobs_flags;

#define AT(field) offsetof(logprobs_flags, options.field)
static const ls_option options[] = {
    CLI_MODEL(AT(model)),
    CLI_CHECKPOINT(AT(checkpoint)),
    CLI_REQUIRED_LIST("data", "PATH", offsetof(logprobs_flags, data), CLI_DATA_HELP),
    CLI_REQUIRED_TEXT("out", "FILE", AT(logprobs), "JSON lines, one for each document"),
    CLI_INT(
        "top", "K", "0", 0, LS_MOST_TEACHER, AT(top),
        "write records for train --records teacher instead: the K likeliest words in the place of each learnt token"),
    CLI_FLOAT("temperature", "T", "1", 1e-3, 1e3, AT(temperature),
              "of the log-probabilities of --top: those of softmax(logits / T)"),
    CLI_INT("seq", "N", "1024", 1, 1 << 30, AT(seq), "tokens of a sequence, into which documents are packed apart"),
    CLI_INT("batch", "N", "1", 1, 1 << 24, AT(batch), "sequences of a forward pass, over all dp ranks"),
    CLI_CHOICE("dtype", "TYPE", "f32|bf16", "f32", AT(dtype), "element type"),
    CLI_INT("seed", "N", "0", 0, CLI_ANY, AT(seed), "of random weights, if the model has none"),
};
#undef AT

static ls_status run(void *context) {
    logprobs_flags *flags = context;
    ls_eval_options *o = &flags->options;
    o->data = flags->data.items;
    o->n_data = flags->data.count;
    o->spread = cli_spread_of(&flags->common);
    o->rope = flags->common.rope;
    o->adapter = flags->common.adapter;
    o->form = flags->common.form;
    const bool text = o->form.records == NULL || strcmp(o->form.records, "text") == 0;
    o->pack = text ? "best" : "auto"; /* both keep documents apart */
    ls_eval_result result;
    LS_TRY(ls_evaluate(o, &result));
    if (flags->common.json)
        ls_eval_result_json(&result, stdout);
    else
        printf("wrote %s: %lld tokens, mean log-probability %.4f\n", o->logprobs, (long long)result.table.all.tokens,
               -result.table.all.loss);
    return ls_ok();
}

const cli_command cli_logprobs = {
    .name = "logprobs",
    .summary = "log-probabilities of the tokens of records, document by document",
    .usage = "--model PATH --data PATH... --out FILE [--records KIND] [options]",
    .about =
        "Runs forward passes over documents that are packed into sequences, apart from each other, and writes a line of JSON for each, in the order of the records: "
        "document (its number, from 0), offset (0, or of a document that is longer than a sequence where the part begins), ids, places (in the document) and logprobs "
        "(natural) of the tokens that are learnt, and their sum. Records with a chosen and a rejected answer (--records preference) are two documents each, "
        "and chosen says which. With --top it writes what train --records teacher --loss distil reads: input_ids, labels, "
        "teacher_ids and teacher_logprobs, one line for each document or part of one, in the order in which they are packed. No logits are ever whole, but with --top on a mesh with tp.",
    .opens = true,
    .reads = true,
    .spreads = true,
    .runs = true,
    CLI_OWN(options, run, logprobs_flags),
};
