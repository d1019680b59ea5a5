/* longspan data build. */
#include "data/build.h"
#include "job/job_impl.h"
#include "longspan/data.h"

#include <string.h>

#define SHARD_TOKENS ((int64_t)1 << 26)

static ls_status build(const ls_data_build_job *job, const ls_tokenizer *tokenizer,
                       ls_data_build_result *result) {
    ls_machine machine;
    ls_machine_detect(&machine);
    const ls_build_options options = {.paths = job->paths,
                                      .n_paths = job->n_paths,
                                      .out = job->out,
                                      .tokenizer = tokenizer,
                                      .folder = job->tokenizer,
                                      .form = job->form,
                                      .shard_tokens =
                                          job->shard_tokens > 0 ? job->shard_tokens : SHARD_TOKENS,
                                      .threads = job->threads > 0 ? (int)job->threads : machine.cores,
                                      .resume = job->resume};
    ls_build_summary s;
    LS_TRY(ls_shards_build(&options, &s));
    *result = (ls_data_build_result){.inputs = s.inputs,
                                     .input_bytes = s.input_bytes,
                                     .documents = s.documents,
                                     .tokens = s.tokens,
                                     .longest = s.longest,
                                     .empty = s.empty,
                                     .bad = s.bad,
                                     .shards = s.shards,
                                     .resumed = s.resumed,
                                     .seconds = s.seconds};
    memcpy(result->begin, s.begin, sizeof result->begin);
    memcpy(result->end, s.end, sizeof result->end);
    return ls_ok();
}

ls_status ls_run_data_build(const ls_data_build_job *job, ls_data_build_result *result) {
    if (job->n_paths < 1)
        return ls_error(LS_USAGE, "no files given; expected files or folders of text or JSONL");
    if (job->out == NULL) return ls_error(LS_USAGE, "--out is missing; expected a directory");
    ls_tokenizer *tokenizer = NULL;
    LS_TRY(ls_tokenizer_open(job->tokenizer, &tokenizer));
    ls_tokenizer_tell(tokenizer, 0);
    const ls_status status = build(job, tokenizer, result);
    ls_tokenizer_close(tokenizer);
    return status;
}

void ls_data_build_result_json(const ls_data_build_result *r, FILE *out) {
    ls_json_writer *w = ls_json_begin(0);
    ls_json_put_int(w, "inputs", r->inputs);
    ls_json_put_int(w, "input_bytes", r->input_bytes);
    ls_json_put_int(w, "documents", r->documents);
    ls_json_put_int(w, "tokens", r->tokens);
    ls_json_put_int(w, "longest_document", r->longest);
    ls_json_put_int(w, "empty", r->empty);
    ls_json_put_int(w, "bad", r->bad);
    ls_json_put_int(w, "shards", r->shards);
    ls_json_put_int(w, "resumed_shards", r->resumed);
    ls_json_put_text(w, "begin", r->begin);
    ls_json_put_text(w, "end", r->end);
    ls_json_put_double(w, "seconds", r->seconds);
    ls_json_end(w, out);
}
