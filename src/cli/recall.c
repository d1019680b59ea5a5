/* longspan recall */
#include "cli/cli_impl.h"

#include "eval/eval.h"

#include <stdlib.h>

typedef struct recall_flags {
    cli_common common;
    ls_option_list data, lengths;
    ls_recall_options options;
} recall_flags;

#define AT(field) offsetof(recall_flags, options.field)
static const ls_option options[] = {
    CLI_MODEL(AT(model)),
    CLI_CHECKPOINT(AT(checkpoint)),
    CLI_LIST(
        "lengths", "N", offsetof(recall_flags, lengths),
        "lengths of the texts in tokens, one for each column; a quarter, a half and all of the model's positions (at most "
        "8192) when left out"),
    CLI_INT("depths", "N", "5", 1, LS_RECALL_DEPTHS, AT(depths),
            "number of places of the key, evenly from begin to end of the text"),
    CLI_INT("samples", "N", "5", 1, 1 << 20, AT(samples), "texts of each length and depth"),
    CLI_LIST("data", "PATH", offsetof(recall_flags, data),
             "texts to hide the key in, as of train; a few repeated sentences when left out"),
    CLI_CHOICE("dtype", "TYPE", "f32|bf16", "f32", AT(dtype), "element type"),
    CLI_INT("seed", "N", "0", 0, CLI_ANY, AT(seed), "of the keys, and of random weights if the model has none"),
    CLI_TEXT("out", "DIR", AT(out), "folder for recall.json and recall.svg; they are not written when left out"),
};
#undef AT

static ls_status read_lengths(const ls_option_list *words, ls_recall_options *o) {
    if (words->count > LS_RECALL_LENGTHS)
        return ls_error(LS_USAGE, "%d --lengths; expected 1 to %d", words->count, LS_RECALL_LENGTHS);
    for (int i = 0; i < words->count; i++) {
        char *end;
        o->lengths[i] = strtoll(words->items[i], &end, 10);
        if (*end != 0 || o->lengths[i] < 1 || o->lengths[i] > 1 << 30)
            return ls_error(LS_USAGE, "--lengths is '%s'; expected integers from 1 to %d", words->items[i], 1 << 30);
    }
    o->n_lengths = words->count;
    return ls_ok();
}

static ls_status run(void *context) {
    recall_flags *flags = context;
    ls_recall_options *o = &flags->options;
    LS_TRY(read_lengths(&flags->lengths, o));
    o->data = flags->data.items;
    o->n_data = flags->data.count;
    o->spread = cli_spread_of(&flags->common);
    o->rope = flags->common.rope;
    o->adapter = flags->common.adapter;
    o->form = flags->common.form;
    ls_recall_result result;
    LS_TRY(ls_recall(o, &result));
    if (flags->common.json) {
        ls_recall_result_json(&result, stdout);
        return ls_ok();
    }
    ls_recall_print(&result, stdout);
    if (o->out != NULL) printf("grid   %s/recall.svg\ntable  %s/recall.json\n", o->out, o->out);
    return ls_ok();
}

const cli_command cli_recall = {
    .name = "recall",
    .summary = "whether a model finds a pass key again, by depth and length of the text",
    .usage = "--model PATH [--checkpoint DIR] [--lengths N...] [--data PATH...] [options]",
    .about =
        "Puts a sentence with a pass key of five digits at some depth of a text, and asks for the key at the end of the text. A key is right "
        "when each of its tokens is the likeliest one after the text and the tokens before it, so that greedy generation would write the "
        "key. Where few keys are right, the loss of their tokens shows more.",
    .opens = true,
    .reads = true,
    .spreads = true,
    .runs = true,
    CLI_OWN(options, run, recall_flags),
};
