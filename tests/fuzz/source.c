/*
 * The records of any file follow one another in it, and reading that starts at one of them gives the same records from
 * there on. The first byte chooses what a record is: a line, a JSON value, or the whole file as one text.
 */
#include "data/source_impl.h"
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

typedef struct listing {
    ls_place at[MOST];
    int64_t bytes[MOST];
    int64_t n; /* number of records, of which the first MOST are listed */
} listing;

static void check_record(const ls_text_record *r, fuzz_bytes file, ls_input_kind kind) {
    LS_ASSERT(r->at.input == 0 && r->at.offset >= 0 && r->at.line >= 1);
    LS_ASSERT((size_t)r->at.offset + r->bytes <= file.n);
    if (r->bad) return;
    LS_ASSERT(memcmp(r->text, file.at + r->at.offset, r->bytes) == 0);
    LS_ASSERT(kind == LS_INPUT_VALUES || memchr(r->text, kind == LS_INPUT_LINES ? '\n' : 0, r->bytes) == NULL);
}

static void list(const ls_input *input, const ls_tokenizer *tokenizer, ls_place from, fuzz_bytes file, listing *out) {
    ls_source *source;
    const ls_text_record *records;
    size_t n;
    out->n = 0;
    LS_ASSERT(fuzz_done(ls_source_open(input, 1, tokenizer, from, 0, LS_UTF_8, &source)));
    while (fuzz_done(ls_source_next(source, &records, &n)) && n > 0) {
        for (size_t i = 0; i < n; i++) {
            check_record(&records[i], file, input->kind);
            if (out->n < MOST) {
                out->at[out->n] = records[i].at;
                out->bytes[out->n] = (int64_t)records[i].bytes;
            }
            out->n++;
        }
    }
    ls_source_close(source);
}

/* With the tokenizer "bytes", a text may be cut anywhere. */
static void check_cut(const ls_tokenizer *tokenizer, fuzz_bytes file, size_t wanted) {
    size_t at = 0;
    LS_ASSERT(fuzz_done(ls_text_cut(tokenizer, (const char *)file.at, file.n, wanted, &at)));
    LS_ASSERT(at < file.n || at == 0);
    LS_ASSERT(at == 0 || at == wanted);
}

static void run(const uint8_t *data, size_t bytes) {
    fuzz_bytes file = {data, bytes};
    const uint8_t choice = fuzz_choice(&file);
    fuzz_file named = fuzz_file_make(file.at, file.n);
    const char *const paths[] = {named.path};
    ls_input_list inputs;
    LS_ASSERT(fuzz_done(ls_inputs_find(paths, 1, choice & 128 ? "json" : choice & 1 ? "jsonl" : "text", &inputs)));
    const ls_input input = inputs.input[0];
    listing *all = calloc(2, sizeof *all), *rest = all + 1;
    ls_tokenizer *tokenizer;
    LS_ASSERT(all && fuzz_done(ls_tokenizer_open(NULL, &tokenizer)));
    list(&input, tokenizer, (ls_place){0, 0, 1}, file, all);
    if (all->n > 0) {
        const int64_t first = (choice >> 1 & 63) % ls_min(all->n, MOST);
        list(&input, tokenizer, all->at[first], file, rest);
        LS_ASSERT(rest->n == all->n - first);
        for (int64_t i = 0; i < ls_min(rest->n, MOST - first); i++)
            LS_ASSERT(memcmp(&rest->at[i], &all->at[first + i], sizeof *rest->at) == 0 &&
                      rest->bytes[i] == all->bytes[first + i]);
    }
    check_cut(tokenizer, file, choice);
    ls_tokenizer_close(tokenizer);
    free(all);
    ls_inputs_free(&inputs);
    fuzz_file_close(&named);
}

const fuzz_target fuzz_source = {.name = "source", .run = run};
