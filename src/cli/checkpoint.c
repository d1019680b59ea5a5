/* longspan checkpoint */
#include "cli/cli.h"

#include <string.h>

typedef struct checkpoint_flags {
    cli_common common;
    const char *action;
    ls_export_job job;
} checkpoint_flags;

#define AT(field) offsetof(checkpoint_flags, field)
static const ls_option options[] = {
    CLI_TEXT("action", "NAME", AT(action),
             "inspect, verify or export; the word behind checkpoint says the same"),
    CLI_TEXT("checkpoint", "PATH", AT(job.checkpoint),
             "a checkpoint, or the --out of a training run (its newest one); the second word says the same"),
    CLI_TEXT("out", "DIR", AT(job.out), "export: the folder to write; new, or one that was exported"),
    CLI_TEXT(
        "model", "PATH", AT(job.model),
        "export: whose tokenizer files are carried over; the model that the run was started from when left out"),
    CLI_CHOICE("dtype", "TYPE", "f32|bf16|f16", NULL, AT(job.dtype),
               "export: of the weights; what config.json says when left out, else f32"),
    CLI_BYTES("shard-size", "BYTES", "5000000000", 1, CLI_ANY, AT(job.shard_bytes),
              "export: most bytes of weights in one file; more are spread over several, with an index"),
};
#undef AT

static ls_status inspect(const checkpoint_flags *flags) {
    return ls_checkpoint_print(flags->job.checkpoint, flags->common.json, stdout);
}

static ls_status verify(const checkpoint_flags *flags) {
    return ls_checkpoint_print_verdict(flags->job.checkpoint, flags->common.json, stdout);
}

static ls_status export(const checkpoint_flags *flags) {
    return ls_run_export(&flags->job, flags->common.json, stdout);
}

enum { FIRST_OF_EXPORT = 2 }; /* in options */

static const struct {
    const char *name;
    ls_status (*run)(const checkpoint_flags *flags);
    bool exports;
} actions[] = {{"inspect", inspect, false}, {"verify", verify, false}, {"export", export, true}};

static ls_status run(void *context) {
    const checkpoint_flags *flags = context;
    for (size_t i = 0; i < CLI_COUNT(actions); i++) {
        if (flags->action == NULL || strcmp(flags->action, actions[i].name) != 0) continue;
        for (size_t k = FIRST_OF_EXPORT; k < CLI_COUNT(options) && !actions[i].exports; k++)
            if (flags->common.given[k])
                return ls_error(LS_USAGE, "--%s is for export, not for %s", options[k].name, flags->action);
        if (flags->job.checkpoint == NULL)
            return ls_error(LS_USAGE,
                            "checkpoint %s: which? Expected a checkpoint, or the --out of a training run",
                            flags->action);
        return actions[i].run(flags);
    }
    return ls_error(LS_USAGE, "checkpoint: '%s' is unknown, expected inspect, verify or export",
                    flags->action == NULL ? "" : flags->action);
}

const cli_command cli_checkpoint = {
    .name = "checkpoint",
    .summary = "what is in a checkpoint, and whether it is whole; a folder for other programs",
    .usage = "inspect|verify|export PATH [--out DIR] [options]",
    .about =
        "inspect: step, loss, model, the spread of its run, files and tensors.\n"
        "verify: reads every byte, compares it with its hash and says which file is bad; exit code 1 then.\n"
        "export: writes a folder that Hugging Face tools load as it is: config.json with all its fields, generation_config.json, the tokenizer's "
        "files, and the weights as model.safetensors, or in several files with an index. Streams, whatever the model's size. The folder "
        "gets its name once it is whole; an earlier export of that name stays until then.",
    CLI_OWN(options, run, checkpoint_flags),
    .takes_word = 2,
};
