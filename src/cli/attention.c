/* longspan attention */
#include "cli/cli.h"

typedef struct attention_flags {
    cli_common common;
    ls_attention_job job;
} attention_flags;

#define AT(field) offsetof(attention_flags, job.field)
static const ls_option options[] = {
    CLI_REQUIRED_TEXT("q", "FILE", AT(q), "queries [B,S,Hq,D], f4 or f8 .npy"),
    CLI_REQUIRED_TEXT("k", "FILE", AT(k), "keys [B,S,Hkv,D]; Hq is a multiple of Hkv"),
    CLI_REQUIRED_TEXT("v", "FILE", AT(v), "values, like the keys"),
    CLI_TEXT("do", "FILE", AT(grad_o), "gradient of the output, like the queries; asks for the gradients"),
    CLI_TEXT("sink", "FILE", AT(sink),
             "a further logit for each query head [Hq], seen by all its queries, of value 0"),
    CLI_REQUIRED_TEXT("mask", "MASK", AT(mask), "see above"),
    CLI_FLOAT("scale", "X", NULL, 1e-30, CLI_ANY, AT(scale), "of q·k; 1/sqrt(D) when left out"),
    CLI_FLOAT("softcap", "X", NULL, 1e-30, CLI_ANY, AT(softcap),
              "a logit becomes X·tanh(logit/X), as in Gemma 2; not when left out"),
    CLI_CHOICE("dtype", "TYPE", "f32|f64|bf16", NULL, AT(dtype),
               "element type; that of the queries when left out"),
    CLI_REQUIRED_TEXT("out", "DIR", AT(out),
                      "for o.npy, lse.npy and, with --do, dq.npy dk.npy dv.npy (and dsink.npy, with --sink)"),
};
#undef AT

static ls_status run(void *context) {
    attention_flags *flags = context;
    ls_spread_result result;
    flags->job.spread = cli_spread_of(&flags->common);
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
    .spreads = true,
    .runs = true,
    CLI_OWN(options, run, attention_flags),
};
