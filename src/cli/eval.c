/* longspan eval */
#include "cli/cli_impl.h"

#include "eval/eval.h"

typedef struct eval_flags {
    cli_common common;
    ls_option_list data;
    ls_eval_options options;
} eval_flags;

#define AT(field) offsetof(eval_flags, options.field)
static const ls_option options[] = {
    CLI_MODEL(AT(model)),
    CLI_CHECKPOINT(AT(checkpoint)),
    CLI_REQUIRED_LIST("data", "PATH", offsetof(eval_flags, data), CLI_DATA_HELP),
    CLI_PACK(AT(pack)),
    CLI_INT("seq", "N", "1024", 1, 1 << 30, AT(seq), "tokens of a sequence (N + 1 are read)"),
    CLI_INT("batch", "N", "1", 1, 1 << 24, AT(batch), "sequences of a forward pass, over all dp ranks"),
    CLI_INT("sequences", "N", NULL, 1, CLI_ANY, AT(sequences),
            "how many sequences to evaluate, spread evenly over the text; all when left out"),
    CLI_CHOICE("dtype", "TYPE", "f32|bf16", "f32", AT(dtype), "element type"),
    CLI_INT("seed", "N", "0", 0, CLI_ANY, AT(seed), "of random weights, if the model has none"),
    CLI_TEXT("out", "DIR", AT(out),
             "folder for eval.json and loss_by_position.svg; they are not written when left out"),
};
#undef AT

static void print_result(const ls_eval_result *r, const char *out) {
    char time[LS_SECONDS_TEXT], predicted[LS_BYTES_TEXT], resident[LS_BYTES_TEXT];
    ls_loss_table_print(&r->table, stdout);
    printf("\nloss %.4f nats · perplexity %.5g · %lld tokens in %lld of %lld sequences\n", r->table.all.loss,
           r->perplexity, (long long)r->table.all.tokens, (long long)r->table.sequences, (long long)r->text_sequences);
    printf("%s · %s · %s · %s · %s, %.0f tokens/s\n", r->spread.strategy, r->spread.mesh, r->spread.layout,
           r->spread.isa, ls_seconds_text(r->spread.seconds, time),
           (double)r->table.all.tokens / (r->spread.seconds > 1e-9 ? r->spread.seconds : 1e-9));
    printf("memory of a rank: %s predicted, %s measured\n", ls_bytes_text((double)r->spread.predicted_bytes, predicted),
           ls_bytes_text((double)r->resident_bytes, resident));
    if (out != NULL) printf("curve  %s/loss_by_position.svg\ntable  %s/eval.json\n", out, out);
}

static ls_status run(void *context) {
    eval_flags *flags = context;
    ls_eval_options *o = &flags->options;
    o->data = flags->data.items;
    o->n_data = flags->data.count;
    o->spread = cli_spread_of(&flags->common);
    o->rope = flags->common.rope;
    o->adapter = flags->common.adapter;
    o->form = flags->common.form;
    ls_eval_result result;
    LS_TRY(ls_evaluate(o, &result));
    if (flags->common.json)
        ls_eval_result_json(&result, stdout);
    else
        print_result(&result, o->out);
    return ls_ok();
}

const cli_command cli_eval = {
    .name = "eval",
    .summary = "loss of a model on a text, by position in the document",
    .usage = "--model PATH [--checkpoint DIR] --data PATH... [--seq N] [options]",
    .about =
        "Runs forward passes over the sequences of the text. Prints the mean loss, the perplexity, and a table of the loss by the number of "
        "tokens of the same document before a token in its sequence: it shows how much the model gains from a longer context. The bins double "
        "in size, and are joined where they have too few tokens for a mean within 0.05 nats. The errors are standard errors of the means, with "
        "sequences as the sample. Ignored labels (prompts, messages of users) are left out. With --pack best or stream no document sees "
        "another, as in a training with that option.",
    .opens = true,
    .reads = true,
    .spreads = true,
    .runs = true,
    CLI_OWN(options, run, eval_flags),
};
