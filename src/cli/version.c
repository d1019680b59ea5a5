/* longspan version */
#include "cli/cli.h"

typedef struct version_flags {
    cli_common common;
} version_flags;

static ls_status run(void *context) {
    const version_flags *flags = context;
    ls_about about;
    LS_TRY(ls_about_get(&about));
    if (flags->common.json) {
        ls_about_json(&about, stdout);
        return ls_ok();
    }
    char memory[LS_BYTES_TEXT];
    printf("longspan %s (%s)\n", about.version, about.commit);
    printf("processor   %s, %lld cores, %s\n", about.processor, (long long)about.cores,
           ls_bytes_text((double)about.memory_bytes, memory));
    printf("isa         %s (of %s)\n", about.isa, about.isas);
    printf("strategies  %s\n", about.strategies);
    printf("transports  %s\n", about.transports);
    printf("libraries   %s\n", about.libraries);
    printf("kernels     %lld\n", (long long)about.kernels);
    return ls_ok();
}

const cli_command cli_version = {
    .name = "version",
    .summary = "what this build is: commit, instruction set, transports, libraries",
    .usage = "[--json]",
    .run = run,
    .flags_bytes = sizeof(version_flags),
};
