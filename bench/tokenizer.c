/*
 * Speed and results of a tokenizer.json on a text, for tests/reference/compare_tokenizers.py and for use alone. One
 * JSON object: the numbers of bytes and ids, and the seconds of the fastest encoding and decoding, on one thread.
 *
 *   build/bench/tokenizer FOLDER TEXT [ROUNDS, 3] [IDS]
 *
 * IDS: a file to which the ids are written (int32); the text decoded from them is written to IDS.txt.
 */
#include "base/base.h"
#include "format/format.h"
#include "text/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct run {
    ls_tokenizer *tokenizer;
    ls_file_map text;
    ls_token_list ids;
    ls_text back;
    double open, first, encode, decode; /* seconds */
} run;

static ls_status round_trip(run *r, int rounds) {
    ls_status status = ls_ok();
    for (int i = 0; i < rounds && status.code == LS_OK; i++) {
        const double start = ls_seconds();
        r->ids.count = 0;
        status = ls_tokenizer_encode(r->tokenizer, (const char *)r->text.data, r->text.bytes, &r->ids);
        const double seconds = ls_seconds() - start;
        if (i == 0) r->first = seconds;
        if (i == 0 || seconds < r->encode) r->encode = seconds;
    }
    if (status.code != LS_OK) return status;
    const double start = ls_seconds();
    status = ls_tokenizer_decode(r->tokenizer, r->ids.id, r->ids.count, &r->back);
    r->decode = ls_seconds() - start;
    return status;
}

static ls_status measure(run *r, int argc, char **argv) {
    const double start = ls_seconds();
    LS_TRY(ls_tokenizer_open(argv[1], &r->tokenizer));
    r->open = ls_seconds() - start;
    LS_TRY(ls_file_map_open(argv[2], &r->text));
    LS_TRY(round_trip(r, argc > 3 ? atoi(argv[3]) : 3));
    printf("{\"bytes\": %zu, \"ids\": %zu, \"open_seconds\": %.6f, \"first_seconds\": %.6f, \"encode_seconds\": %.6f, "
           "\"decode_seconds\": %.6f, \"megabytes_per_second\": %.2f}\n",
           r->text.bytes, r->ids.count, r->open, r->first, r->encode, r->decode,
           (double)r->text.bytes / 1e6 / r->encode);
    if (argc < 5) return ls_ok();
    LS_PATH path = NULL;
    LS_TRY(ls_path_print(&path, "%s.txt", argv[4]));
    LS_TRY(ls_file_write(argv[4], r->ids.id, r->ids.count * sizeof *r->ids.id));
    return ls_file_write(path, r->back.byte, r->back.count);
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: tokenizer FOLDER TEXT [ROUNDS] [IDS]\n");
        return 2;
    }
    run r = {0};
    const ls_status status = measure(&r, argc, argv);
    if (status.code != LS_OK) fprintf(stderr, "tokenizer: %s\n", status.text);
    ls_tokenizer_close(r.tokenizer);
    ls_file_map_close(&r.text);
    free(r.ids.id);
    free(r.back.byte);
    return status.code == LS_OK ? 0 : 1;
}
