/*
 * A teacher's output for a text: the likeliest words for the place of each learnt token, written sequence by sequence,
 * as records that `longspan train --records teacher` reads.
 */
#include "eval/eval_impl.h"
#include "format/format.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ls_teacher_file {
    const ls_teacher_options *of;
    char *part; /* path of the temporary file; NULL: none */
    FILE *out;
    int64_t next, unlearnt; /* index of the next one of `some` sequences; number of passages left out */
    int32_t *tokens, *labels;
    ls_data_piece *pieces; /* pieces of one sequence */
    ls_json_buffer line;
    ls_status status;
};

static ls_status open_part(ls_teacher_file *f) {
    const size_t n = (size_t)f->of->S;
    f->tokens = malloc(sizeof *f->tokens * n);
    f->labels = malloc(sizeof *f->labels * n);
    f->pieces = malloc(sizeof *f->pieces * (n + 1));
    if (f->tokens == NULL || f->labels == NULL || f->pieces == NULL)
        return ls_error(LS_NO_MEMORY, "no memory for a sequence of %zu tokens", n);
    LS_TRY(ls_path_print(&f->part, "%s.part", f->of->path));
    f->out = fopen(f->part, "we");
    if (f->out != NULL) return ls_ok();
    const ls_status failed = ls_error(LS_IO, "%s: cannot be made: %s", f->part, strerror(errno));
    ls_path_free(&f->part);
    return failed;
}

ls_status ls_teacher_file_create(const ls_teacher_options *options, ls_teacher_file **out) {
    ls_teacher_file *f = calloc(1, sizeof *f);
    if (f == NULL) return ls_error(LS_NO_MEMORY, "no memory for %s", options->path);
    *f = (ls_teacher_file){.of = options, .status = ls_ok()};
    const ls_status status = open_part(f);
    if (status.code == LS_OK)
        *out = f;
    else
        ls_teacher_file_destroy(f);
    return status;
}

void ls_teacher_file_destroy(ls_teacher_file *f) {
    if (f == NULL) return;
    if (f->out != NULL) (void)fclose(f->out);
    if (f->part != NULL) (void)unlink(f->part);
    ls_path_free(&f->part);
    free(f->tokens);
    free(f->labels);
    free(f->pieces);
    ls_json_buffer_free(&f->line);
    free(f);
}

/* ---- records ---- */

/*
 * A passage of a document. Its tokens are those of the piece and, if it is learnt, the last label, which is the token
 * that follows the piece.
 */
typedef struct passage {
    const ls_data_piece *piece;
    const int32_t *tokens, *labels; /* [piece->length] */
    int64_t n;                      /* number of tokens in the record */
} passage;

static int32_t token_at(const passage *p, int64_t i) {
    return i < p->piece->length ? p->tokens[i] : p->labels[p->piece->length - 1];
}

/* The first token is never predicted. */
static bool is_learnt(const passage *p, int64_t i) { return i > 0 && p->labels[i - 1] != LS_LABEL_IGNORED; }

static ls_status add_ids(ls_json_buffer *line, const passage *p) {
    LS_TRY(ls_json_buffer_print(line, ", \"input_ids\": ["));
    for (int64_t i = 0; i < p->n; i++) LS_TRY(ls_json_buffer_print(line, i > 0 ? ", %d" : "%d", token_at(p, i)));
    LS_TRY(ls_json_buffer_print(line, "], \"labels\": ["));
    for (int64_t i = 0; i < p->n; i++)
        LS_TRY(ls_json_buffer_print(line, i > 0 ? ", %d" : "%d", is_learnt(p, i) ? token_at(p, i) : LS_LABEL_IGNORED));
    return ls_json_buffer_print(line, "]");
}

/* Nine digits are enough to read back the same f32. */
static ls_status add_word(ls_json_buffer *line, const ls_sample *sample, bool id, int64_t at) {
    return id ? ls_json_buffer_print(line, "%d", sample->teacher_ids[at])
              : ls_json_buffer_print(line, "%.9g", (double)sample->teacher_logprobs[at]);
}

/* Writes one list for each token, of ids or of log-probabilities; the list is empty if the token is not learnt. */
static ls_status add_words(ls_json_buffer *line, const passage *p, const ls_sample *sample, int words, bool ids) {
    LS_TRY(ls_json_buffer_print(line, ", \"%s\": [", ids ? "teacher_ids" : "teacher_logprobs"));
    for (int64_t i = 0; i < p->n; i++) {
        const int64_t from = (p->piece->place + i - 1) * words;
        LS_TRY(ls_json_buffer_print(line, i > 0 ? ", [" : "["));
        for (int64_t k = 0; k < words && is_learnt(p, i); k++) {
            if (k > 0) LS_TRY(ls_json_buffer_print(line, ", "));
            LS_TRY(add_word(line, sample, ids, from + k));
        }
        LS_TRY(ls_json_buffer_print(line, "]"));
    }
    return ls_json_buffer_print(line, "]");
}

static ls_status add_piece(ls_teacher_file *f, const ls_data_piece *piece, const ls_sample *sample) {
    const int64_t at = piece->place;
    const bool ends = sample->labels[at + piece->length - 1] != LS_LABEL_IGNORED;
    const passage p = {piece, f->tokens + at, sample->labels + at, piece->length + ends};
    int64_t learnt = 0;
    for (int64_t i = 0; i < p.n; i++) learnt += is_learnt(&p, i);
    f->unlearnt += learnt == 0;
    if (learnt == 0) return ls_ok();
    ls_json_buffer *line = &f->line;
    line->n = 0;
    LS_TRY(ls_json_buffer_print(line, "{\"document\": %lld, \"offset\": %lld, \"teacher_temperature\": %.17g",
                                (long long)piece->document, (long long)piece->offset, f->of->temperature));
    LS_TRY(add_ids(line, &p));
    LS_TRY(add_words(line, &p, sample, f->of->words, true));
    LS_TRY(add_words(line, &p, sample, f->of->words, false));
    LS_TRY(ls_json_buffer_print(line, "}\n"));
    if (fwrite(line->at, 1, line->n, f->out) == line->n) return ls_ok();
    return ls_error(LS_IO, "%s: cannot be written: %s", f->part, strerror(errno));
}

static ls_status add_sequence(ls_teacher_file *f, const ls_sample *sample) {
    const int64_t index = ls_part_start(ls_data_summarise(f->of->data)->windows, f->of->some, f->next++);
    ls_sample whole = {.tokens = f->tokens, .labels = f->labels};
    int64_t n = 0;
    LS_TRY(ls_data_read(f->of->data, index, NULL, &whole));
    LS_TRY(ls_data_pieces(f->of->data, index, f->pieces, &n));
    for (int64_t k = 0; k < n; k++) LS_TRY(add_piece(f, &f->pieces[k], sample));
    return ls_ok();
}

void ls_teacher_file_add(ls_teacher_file *f, const ls_sample *sample) {
    if (f->status.code == LS_OK) f->status = add_sequence(f, sample);
}

ls_status ls_teacher_file_finish(ls_teacher_file *f) {
    LS_TRY(f->status);
    FILE *out = f->out;
    f->out = NULL;
    if (fclose(out) != 0) return ls_error(LS_IO, "%s: cannot be written: %s", f->part, strerror(errno));
    LS_TRY(ls_file_sync(f->part));
    LS_TRY(ls_file_rename(f->part, f->of->path));
    ls_path_free(&f->part);
    if (f->unlearnt > 0) ls_log("%lld passages of documents have nothing to learn: left out", (long long)f->unlearnt);
    return ls_ok();
}
