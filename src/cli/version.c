/* longspan version: this build, and the machine that it runs on. */
#include "cli/cli_impl.h"

#include "kernel/kernel.h"
#include "ls_version.h"

#include <link.h>
#include <stdio.h>
#include <string.h>

typedef struct text_list {
    char *text;
    size_t room;
} text_list;

static void append(text_list *list, const char *word, size_t length) {
    const size_t used = strlen(list->text);
    snprintf(list->text + used, list->room - used, "%s%.*s", used > 0 ? ", " : "", (int)length, word);
}

/* Adds a shared library if users may have different versions of it. */
static int add_library(struct dl_phdr_info *info, size_t size, void *context) {
    static const char *const ours[] = {"libdnnl", "libjansson", "libzstd"};
    (void)size;
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *name = slash != NULL ? slash + 1 : info->dlpi_name;
    for (size_t i = 0; i < LS_COUNT(ours); i++) {
        if (strncmp(name, ours[i], strlen(ours[i])) == 0) append(context, name, strlen(name));
    }
    return 0;
}

/* Lists the instruction sets within `limit` for which this build has kernels; `ref` (plain C) is not one of them. */
static void list_isas(ls_isa limit, text_list *out) {
    for (int i = 0; i < LS_ISA_COUNT; i++) {
        const ls_isa_row *row = &ls_isas[i];
        const ls_kernel *kernel = ls_kernel_at(0);
        for (int k = 0; kernel != NULL && kernel->needs != row->features; k++) kernel = ls_kernel_at(k);
        if (i != LS_ISA_REF && kernel != NULL && ls_isa_allows(limit, row->features))
            append(out, row->name, strlen(row->name));
    }
}

ls_status ls_about_get(ls_about *out) {
    LS_NEED(out, "out");
    ls_isa best = LS_ISA_REF;
    LS_TRY(ls_isa_limit(&best));
    ls_machine machine;
    ls_machine_detect(&machine);
    ls_about a = {.cores = machine.cores, .memory_bytes = (int64_t)machine.memory_bytes};
    snprintf(a.version, sizeof a.version, "%s", LS_VERSION);
    snprintf(a.commit, sizeof a.commit, "%s", LS_COMMIT);
    snprintf(a.isa, sizeof a.isa, "%s", ls_isa_name(best));
    list_isas(best, &(text_list){a.isas, sizeof a.isas});
    snprintf(a.processor, sizeof a.processor, "%s", machine.name);
    text_list transports = {a.transports, sizeof a.transports}, strategies = {a.strategies, sizeof a.strategies};
    for (int i = 0; ls_transport_name(i) != NULL; i++)
        append(&transports, ls_transport_name(i), strlen(ls_transport_name(i)));
    for (int i = 0; ls_strategy_name(i) != NULL; i++)
        append(&strategies, ls_strategy_name(i), strlen(ls_strategy_name(i)));
    text_list libraries = {a.libraries, sizeof a.libraries};
    dl_iterate_phdr(add_library, &libraries);
    const ls_status cuda = ls_kernel_libraries_text(a.cuda);
    if (cuda.code != LS_OK) snprintf(a.cuda, sizeof a.cuda, "%s", cuda.text);
    while (ls_kernel_at((int)a.kernels) != NULL) a.kernels++;
    *out = a;
    return ls_ok();
}

/* --- the command -------------------------------------------------------------------------------------------------- */

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
           about.memory_bytes > 0 ? ls_bytes_text((double)about.memory_bytes, memory) : "memory of unknown size");
    printf("isa         %s (of %s)\n", about.isa, about.isas);
    printf("strategies  %s\n", about.strategies);
    printf("transports  %s\n", about.transports);
    printf("libraries   %s\n", about.libraries);
    printf("cuda        %s\n", about.cuda);
    printf("kernels     %lld\n", (long long)about.kernels);
    return ls_ok();
}

const cli_command cli_version = {
    .name = "version",
    .summary = "what this build is: commit, instruction set, transports, libraries",
    .usage = "[--json]",
    .tells = true,
    .run = run,
    .flags_bytes = sizeof(version_flags),
};
