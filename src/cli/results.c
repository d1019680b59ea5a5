/* Results as JSON. */
#include "cli/cli_impl.h"
#include "eval/eval.h"
#include "format/format.h"

static void put_spread(ls_json_writer *w, const ls_spread_result *r) {
    ls_json_put_text(w, "strategy", r->strategy);
    ls_json_put_text(w, "mesh", r->mesh);
    ls_json_put_text(w, "layout", r->layout);
    ls_json_put_text(w, "isa", r->isa);
    ls_json_put_text(w, "device", r->device);
    ls_json_put_text(w, "kernels", r->kernels);
    ls_json_put_int(w, "bytes_sent_forward", r->bytes_sent_forward);
    ls_json_put_int(w, "bytes_sent_backward", r->bytes_sent_backward);
    ls_json_put_text(w, "transfers", r->transfers);
    ls_json_put_text(w, "shard", r->shard);
    ls_json_put_text(w, "sums", r->sums);
    ls_json_put_int(w, "bytes_read_forward", r->bytes_read_forward);
    ls_json_put_int(w, "bytes_read_backward", r->bytes_read_backward);
    ls_json_put_int(w, "predicted_bytes", r->predicted_bytes);
    ls_json_put_int(w, "recompute", r->recompute);
    ls_json_put_text(w, "offload", r->offload);
    ls_json_put_text(w, "tile", r->tile);
    ls_json_put_double(w, "seconds", r->seconds);
}

void ls_spread_result_json(const ls_spread_result *r, FILE *out) {
    if (r == NULL || out == NULL) return;
    ls_json_writer *w = ls_json_begin(0);
    put_spread(w, r);
    ls_json_end(w, out);
}

void ls_grad_result_json(const ls_grad_result *r, FILE *out) {
    if (r == NULL || out == NULL) return;
    ls_json_writer *w = ls_json_begin(0);
    ls_json_put_double(w, "loss", r->loss);
    ls_json_put_int(w, "tokens", r->tokens);
    put_spread(w, &r->spread);
    ls_json_end(w, out);
}

void ls_eval_result_json(const ls_eval_result *r, FILE *out) {
    if (r == NULL || out == NULL) return;
    ls_json_writer *w = ls_json_begin(0);
    ls_loss_table_put(&r->table, w);
    ls_json_put_int(w, "text_sequences", r->text_sequences);
    ls_json_put_int(w, "resident_bytes", r->resident_bytes);
    put_spread(w, &r->spread);
    ls_json_end(w, out);
}

void ls_train_result_json(const ls_train_result *r, FILE *out) {
    if (r == NULL || out == NULL) return;
    ls_json_writer *w = ls_json_begin(0);
    ls_json_put_int(w, "steps", r->steps);
    ls_json_put_int(w, "idle_steps", r->idle_steps);
    ls_json_put_bool(w, "interrupted", r->interrupted);
    ls_json_put_double(w, "first_loss", r->first_loss);
    ls_json_put_double(w, "last_loss", r->last_loss);
    ls_json_put_double(w, "eval_loss", r->eval_loss);
    ls_json_put_double(w, "unigram_loss", r->unigram_loss);
    ls_json_put_double(w, "tokens_per_second", r->tokens_per_second);
    ls_json_put_double(w, "wait_fraction", r->wait_fraction);
    ls_json_put_int(w, "predicted_bytes", r->predicted_bytes);
    ls_json_put_int(w, "measured_bytes", r->measured_bytes);
    ls_json_put_int(w, "one_rank_bytes", r->one_rank_bytes);
    ls_json_put_text(w, "strategy", r->strategy);
    ls_json_put_text(w, "mesh", r->mesh);
    ls_json_put_text(w, "reason", r->reason);
    ls_json_put_text(w, "checkpoint", r->checkpoint);
    if (r->best_step > 0) {
        ls_json_put_int(w, "best_step", r->best_step);
        ls_json_put_double(w, "best_loss", r->best_loss);
    }
    if (r->positions.n > 0) {
        ls_json_open_object(w, "positions");
        ls_loss_table_put(&r->positions, w);
        ls_json_close(w);
    }
    ls_json_put_text(w, "model", r->model);
    ls_json_end(w, out);
}

void ls_generate_result_json(const char *prompt, const char *text, const int32_t *ids, const ls_generate_result *r,
                             FILE *out) {
    if (r == NULL || out == NULL) return;
    ls_json_writer *w = ls_json_begin(0);
    if (prompt != NULL) ls_json_put_text(w, "prompt", prompt);
    ls_json_put_text(w, "text", text);
    ls_json_open_array(w, "ids");
    for (int64_t i = 0; ids != NULL && i < r->tokens; i++) ls_json_put_int(w, NULL, ids[i]);
    ls_json_close(w);
    ls_json_put_text(w, "finish", r->at_end ? "end" : "tokens");
    ls_json_put_int(w, "prompt_tokens", r->prompt_tokens);
    ls_json_put_int(w, "tokens", r->tokens);
    ls_json_put_double(w, "prefill_seconds", r->prefill_seconds);
    ls_json_put_double(w, "decode_seconds", r->decode_seconds);
    ls_json_put_int(w, "cache_bytes", r->cache_bytes);
    ls_json_put_int(w, "resident_bytes", r->resident_bytes);
    put_spread(w, &r->spread);
    ls_json_end(w, out);
}

void ls_about_json(const ls_about *a, FILE *out) {
    if (a == NULL || out == NULL) return;
    ls_json_writer *w = ls_json_begin(0);
    ls_json_put_text(w, "version", a->version);
    ls_json_put_text(w, "commit", a->commit);
    ls_json_put_text(w, "isa", a->isa);
    ls_json_put_text(w, "isas", a->isas);
    ls_json_put_text(w, "processor", a->processor);
    ls_json_put_int(w, "cores", a->cores);
    ls_json_put_int(w, "memory_bytes", a->memory_bytes);
    ls_json_put_text(w, "transports", a->transports);
    ls_json_put_text(w, "libraries", a->libraries);
    ls_json_put_text(w, "cuda", a->cuda);
    ls_json_put_text(w, "strategies", a->strategies);
    ls_json_put_int(w, "kernels", a->kernels);
    ls_json_end(w, out);
}

void ls_named_texts_json(const ls_named_text *list, int n, FILE *out) {
    if ((n > 0 && list == NULL) || out == NULL) return;
    ls_json_writer *w = ls_json_writer_create(0);
    ls_json_open_array(w, NULL);
    for (int i = 0; i < n; i++) {
        ls_json_open_object(w, NULL);
        ls_json_put_text(w, "name", list[i].name);
        ls_json_put_text(w, "summary", list[i].summary);
        ls_json_close(w);
    }
    ls_json_end(w, out);
}

void ls_data_build_result_json(const ls_data_build_result *r, FILE *out) {
    if (r == NULL || out == NULL) return;
    ls_json_writer *w = ls_json_begin(0);
    ls_json_put_int(w, "inputs", r->inputs);
    ls_json_put_int(w, "input_bytes", r->input_bytes);
    ls_json_put_int(w, "documents", r->documents);
    ls_json_put_int(w, "tokens", r->tokens);
    ls_json_put_int(w, "longest_document", r->longest);
    ls_json_put_int(w, "learnt", r->learnt);
    ls_json_put_int(w, "empty", r->empty);
    ls_json_put_int(w, "bad", r->bad);
    ls_json_open_object(w, "left_out");
    ls_json_put_int(w, "silent", r->left_out.silent);
    ls_json_put_int(w, "detail", r->left_out.detail);
    ls_json_put_int(w, "changed", r->left_out.changed);
    ls_json_put_int(w, "reduced", r->left_out.reduced);
    ls_json_put_int(w, "thinking", r->left_out.thinking);
    ls_json_put_int(w, "unwritten", r->left_out.unwritten);
    ls_json_put_int(w, "padding", r->left_out.padding);
    ls_json_put_int(w, "longer", r->left_out.longer);
    ls_json_put_int(w, "unlearnt", r->left_out.unlearnt);
    ls_json_put_int(w, "tokens", r->left_out.tokens);
    ls_json_close(w);
    ls_json_put_int(w, "shards", r->shards);
    ls_json_put_int(w, "resumed_shards", r->resumed);
    ls_json_put_text(w, "begin", r->begin);
    ls_json_put_text(w, "end", r->end);
    ls_json_put_double(w, "seconds", r->seconds);
    ls_json_end(w, out);
}
