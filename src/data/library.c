/* The public call that builds shards (longspan/data.h): defaults, and Ctrl-C. */
#include "data/data.h"
#include "longspan/data.h"

#include <signal.h>
#include <string.h>

#define SHARD_TOKENS ((int64_t)1 << 26)
enum { MOST_THREADS = 1024 };

/*
 * The first Ctrl-C ends the build after the current batch, and a message says how to resume; a second one ends it at
 * once.
 */
static volatile sig_atomic_t stopped;
static void stop(int number) {
    (void)number;
    stopped = 1;
}

static const int signals[] = {SIGINT, SIGTERM};
static void take_signals(struct sigaction before[LS_COUNT(signals)]) {
    const struct sigaction ours = {.sa_handler = stop, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    stopped = 0;
    for (size_t i = 0; i < LS_COUNT(signals); i++) (void)sigaction(signals[i], &ours, &before[i]);
}

static void return_signals(const struct sigaction before[LS_COUNT(signals)]) {
    for (size_t i = 0; i < LS_COUNT(signals); i++) (void)sigaction(signals[i], &before[i], NULL);
}

static ls_status build(const ls_data_build_job *job, const ls_tokenizer *tokenizer, ls_data_build_result *result) {
    ls_machine machine;
    ls_machine_detect(&machine);
    const ls_build_options options = {.paths = job->paths,
                                      .n_paths = job->n_paths,
                                      .out = job->out,
                                      .tokenizer = tokenizer,
                                      .folder = job->tokenizer,
                                      .form = job->form,
                                      .longest = job->longest,
                                      .shard_tokens = job->shard_tokens > 0 ? job->shard_tokens : SHARD_TOKENS,
                                      .threads = job->threads > 0 ? (int)job->threads : machine.cores,
                                      .resume = job->resume,
                                      .stop = &stopped};
    ls_build_summary s;
    struct sigaction before[LS_COUNT(signals)];
    take_signals(before);
    const ls_status status = ls_shards_build(&options, &s);
    return_signals(before);
    LS_TRY(status);
    *result = (ls_data_build_result){.inputs = s.inputs,
                                     .input_bytes = s.input_bytes,
                                     .documents = s.documents,
                                     .tokens = s.tokens,
                                     .longest = s.longest,
                                     .learnt = s.learnt,
                                     .empty = s.empty,
                                     .bad = s.bad,
                                     .left_out = s.left_out,
                                     .shards = s.shards,
                                     .resumed = s.resumed,
                                     .seconds = s.seconds};
    memcpy(result->begin, s.begin, sizeof result->begin);
    memcpy(result->end, s.end, sizeof result->end);
    return ls_ok();
}

ls_status ls_run_data_build(const ls_data_build_job *job, ls_data_build_result *result) {
    LS_NEED(job, "job");
    LS_NEED(result, "result");
    LS_TRY(ls_check_texts("paths", job->paths, job->n_paths));
    if (job->n_paths < 1) return ls_error(LS_USAGE, "no files given; expected files or folders of text or JSONL");
    if (job->out == NULL) return ls_error(LS_USAGE, "--out is missing; expected a folder");
    if (job->shard_tokens < 0)
        return ls_error(LS_USAGE, "--shard-tokens %lld; expected 1 or more", (long long)job->shard_tokens);
    if (job->threads < 0 || job->threads > MOST_THREADS)
        return ls_error(LS_USAGE, "--threads %lld; expected 1 to %d", (long long)job->threads, MOST_THREADS);
    ls_tokenizer *tokenizer = NULL;
    LS_TRY(ls_tokenizer_open(job->tokenizer, &tokenizer));
    ls_tokenizer_log(tokenizer, 0);
    const ls_status status = build(job, tokenizer, result);
    ls_tokenizer_close(tokenizer);
    return status;
}
