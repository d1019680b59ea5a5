/* longspan attention */
#include "cli/cli.h"

typedef struct attention_flags {
    cli_common common;
    cli_spread spread;
    ls_attention_job job;
} attention_flags;

#define AT(field) offsetof(attention_flags, job.field)
static const ls_option options[] = {
    {.name = "q",
     .type = LS_OPTION_TEXT,
     .metavar = "FILE",
     .required = true,
     .offset = AT(q),
     .help = "queries [B,S,Hq,D], f4 or f8 .npy"},
    {.name = "k",
     .type = LS_OPTION_TEXT,
     .metavar = "FILE",
     .required = true,
     .offset = AT(k),
     .help = "keys [B,S,Hkv,D]; Hq is a multiple of Hkv"},
    {.name = "v",
     .type = LS_OPTION_TEXT,
     .metavar = "FILE",
     .required = true,
     .offset = AT(v),
     .help = "values, like the keys"},
    {.name = "do",
     .type = LS_OPTION_TEXT,
     .metavar = "FILE",
     .offset = AT(grad_o),
     .help = "gradient of the output, like the queries; asks for the gradients"},
    {.name = "sink",
     .type = LS_OPTION_TEXT,
     .metavar = "FILE",
     .offset = AT(sink),
     .help = "a further logit for each query head [Hq], seen by all its queries, of value 0"},
    {.name = "mask",
     .type = LS_OPTION_TEXT,
     .metavar = "MASK",
     .required = true,
     .offset = AT(mask),
     .help = "see above"},
    {.name = "scale",
     .type = LS_OPTION_FLOAT,
     .metavar = "X",
     .least = 1e-30,
     .most = 0x1p62,
     .offset = AT(scale),
     .help = "of q·k; 1/sqrt(D) when left out"},
    {.name = "softcap",
     .type = LS_OPTION_FLOAT,
     .metavar = "X",
     .least = 1e-30,
     .most = 0x1p62,
     .offset = AT(softcap),
     .help = "a logit becomes X·tanh(logit/X), as in Gemma 2; not when left out"},
    CLI_DTYPE_ROW(attention_flags, job.dtype, "f32|f64|bf16", "that of the queries"),
    {.name = "out",
     .type = LS_OPTION_TEXT,
     .metavar = "DIR",
     .required = true,
     .offset = AT(out),
     .help = "for o.npy, lse.npy and, with --do, dq.npy dk.npy dv.npy (and dsink.npy, with --sink)"},
    CLI_SPREAD_ROWS(attention_flags),
    CLI_RUN_ROWS(attention_flags),
    CLI_COMMON_ROWS(attention_flags),
};
#undef AT

static ls_status run(void *context) {
    attention_flags *flags = context;
    ls_spread_result result;
    flags->job.spread = cli_spread_of(&flags->spread);
    LS_TRY(ls_run_attention(&flags->job, &result));
    if (flags->common.json) {
        ls_spread_result_json(&result, stdout);
        return ls_ok();
    }
    cli_print_spread(&result);
    const bool gradients = flags->job.grad_o != NULL;
    printf("wrote %s/{o,lse%s%s}.npy\n", flags->job.out, gradients ? ",dq,dk,dv" : "",
           gradients && flags->job.sink != NULL ? ",dsink" : "");
    return ls_ok();
}

const cli_command cli_attention = {
    .name = "attention",
    .summary = "distributed attention on arrays, and its gradients",
    .usage = "--q FILE --k FILE --v FILE [--do FILE] --mask MASK --out DIR [options]",
    .about =
        "Reads .npy arrays, spreads them over the ranks, and writes the results in the caller's order: o [B,S,Hq,D], lse [B,Hq,S] "
        "(natural logarithm; -inf, and output 0, for a query that sees nothing), dq, dk, dv. With --sink s, each query of head h has exp(s[h]) in its "
        "softmax's denominator beside what it sees, and in its lse; dsink [Hq] is the gradient.\n"
        "MASK: full; causal; window:W (a query sees itself and the W-1 before it); window:W:N (and the first N tokens, for all "
        "later ones); prefix:N (causal, and the first N are seen by all); documents:FILE.npy (ascending cumulative lengths from 0 "
        "to S); joined by + for the intersection.",
    .options = options,
    .n_options = CLI_COUNT(options),
    .run = run,
    .flags_bytes = sizeof(attention_flags),
};
