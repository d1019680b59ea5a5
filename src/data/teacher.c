/*
 * A teacher's likeliest words: read from records, and found by the token for whose place they are. Only learnt tokens
 * have words, so the words of a token come after the words of all learnt tokens before it.
 */
#include "data/documents_impl.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

ls_status ls_teacher_words_append(ls_teacher_words *words, const int32_t *ids, const float *logprobs, int64_t n) {
    if (n == 0) return ls_ok();
    if (words->n + n > words->capacity) {
        const int64_t wanted = ls_max(2 * words->capacity, words->n + n + 1024);
        int32_t *more_ids = realloc(words->ids, (size_t)wanted * sizeof *more_ids);
        if (more_ids != NULL) words->ids = more_ids;
        float *more = realloc(words->logprobs, (size_t)wanted * sizeof *more);
        if (more != NULL) words->logprobs = more;
        if (more_ids == NULL || more == NULL)
            return ls_error(LS_NO_MEMORY, "no memory for %lld words of a teacher", (long long)wanted);
        words->capacity = wanted;
    }
    memcpy(words->ids + words->n, ids, (size_t)n * sizeof *ids);
    memcpy(words->logprobs + words->n, logprobs, (size_t)n * sizeof *logprobs);
    words->n += n;
    return ls_ok();
}

void ls_teacher_words_free(ls_teacher_words *words) {
    free(words->ids);
    free(words->logprobs);
    *words = (ls_teacher_words){0};
}

/* ---- reading records ---- */

/* The probabilities of all words must not add up to more than 1, apart from rounding of the log-probabilities. */
#define MOST_PROBABILITY (1 + 1e-3)

static ls_status find_list(ls_json_value record, const char *name, size_t n, ls_json_value *out) {
    LS_TRY(ls_json_array(record, name, out));
    if (ls_json_count(*out) == n) return ls_ok();
    return ls_error(LS_INVALID, "%s: %s has %zu items, expected %zu, as input_ids has", record.file, name,
                    ls_json_count(*out), n);
}

ls_status ls_teacher_begin(ls_json_value record, size_t n, ls_teacher_lists *lists) {
    LS_TRY(find_list(record, "teacher_ids", n, &lists->ids));
    LS_TRY(find_list(record, "teacher_logprobs", n, &lists->logprobs));
    return ls_json_double_or(record, "teacher_temperature", 1, 1e-3, 1e3, &lists->words->temperature);
}

/* The words for the first learnt token decide how many there are. */
static ls_status check_count(ls_json_value list, int *k) {
    const size_t n = ls_json_count(list);
    LS_TRY(ls_json_as_array(list));
    if (n == 0 || n > LS_MOST_TEACHER)
        return ls_json_error(list, "1 to %d words, as the token is learnt", LS_MOST_TEACHER);
    if (*k == 0) *k = (int)n;
    if (n == (size_t)*k) return ls_ok();
    return ls_json_error(list, "%d words, as for the learnt tokens before", *k);
}

static ls_status read_id(const ls_teacher_lists *lists, ls_json_value list, size_t i, int32_t *ids) {
    const ls_json_plain plain = ls_json_item_plain(list, i);
    if (plain.kind != LS_JSON_INT || plain.integer < LS_LABEL_IGNORED || plain.integer >= lists->vocabulary ||
        (plain.integer < 0 && plain.integer != LS_LABEL_IGNORED))
        return ls_json_error(ls_json_item(list, i), "an id below %d, or %d for no word", lists->vocabulary,
                             LS_LABEL_IGNORED);
    ids[i] = (int32_t)plain.integer;
    for (size_t before = 0; before < i && ids[i] != LS_LABEL_IGNORED; before++)
        if (ids[before] == ids[i]) return ls_json_error(ls_json_item(list, i), "each word once");
    return ls_ok();
}

static ls_status read_logprob(ls_json_value list, size_t i, float *out) {
    const ls_json_plain plain = ls_json_item_plain(list, i);
    const double value = plain.kind == LS_JSON_INT ? (double)plain.integer : plain.real;
    const bool number = plain.kind == LS_JSON_INT || plain.kind == LS_JSON_REAL;
    if (!number || !(value <= 0) || !isfinite((float)value))
        return ls_json_error(ls_json_item(list, i), "a finite log-probability, 0 at most");
    *out = (float)value;
    return ls_ok();
}

ls_status ls_teacher_append(const ls_teacher_lists *lists, size_t i) {
    const ls_json_value words = ls_json_item(lists->ids, i), logs = ls_json_item(lists->logprobs, i);
    int32_t ids[LS_MOST_TEACHER];
    float logprobs[LS_MOST_TEACHER] = {0};
    double sum = 0;
    LS_TRY(check_count(words, &lists->words->k));
    LS_TRY(check_count(logs, &lists->words->k));
    const size_t k = (size_t)lists->words->k;
    for (size_t j = 0; j < k; j++) {
        LS_TRY(read_id(lists, words, j, ids));
        if (ids[j] == LS_LABEL_IGNORED) continue;
        LS_TRY(read_logprob(logs, j, &logprobs[j]));
        sum += exp((double)logprobs[j]);
    }
    if (sum > MOST_PROBABILITY)
        return ls_json_error(logs, "probabilities that add up to 1 at most, and not to %.4f", sum);
    return ls_teacher_words_append(lists->words, ids, logprobs, (int64_t)k);
}

/* ---- words by token ---- */

ls_status ls_teacher_count(ls_corpus *c) {
    const int64_t blocks = ls_ceil_div(c->store.count, 64);
    int64_t learnt = 0;
    c->before = malloc(((size_t)blocks + 1) * sizeof *c->before);
    if (c->before == NULL)
        return ls_error(LS_NO_MEMORY, "no memory for %lld tokens of a teacher", (long long)c->store.count);
    for (int64_t i = 0; i < blocks; i++) {
        c->before[i] = learnt;
        learnt += __builtin_popcountll(c->learnt[i]);
    }
    LS_ASSERT(learnt * c->teacher.k == c->teacher.n);
    return ls_ok();
}

void ls_teacher_words_of(const ls_corpus_part *part, int64_t at, int32_t *ids, float *logprobs) {
    const ls_teacher_words *words = part->teacher;
    if (at < 0 || !ls_mark_at(part->learnt, at)) {
        for (int i = 0; i < words->k; i++) ids[i] = LS_LABEL_IGNORED;
        memset(logprobs, 0, (size_t)words->k * sizeof *logprobs);
        return;
    }
    const uint64_t earlier = part->learnt[at / 64] & (((uint64_t)1 << at % 64) - 1);
    const int64_t from = (part->before[at / 64] + __builtin_popcountll(earlier)) * words->k;
    memcpy(ids, words->ids + from, (size_t)words->k * sizeof *ids);
    memcpy(logprobs, words->logprobs + from, (size_t)words->k * sizeof *logprobs);
}
