/*
 * What is left out of records or not learnt: adds it up, collects names of members that nothing reads, and logs the
 * table.
 */
#include "data/left_out_impl.h"

#include "base/base.h"

#include <string.h>

/* ---- members that nothing reads ---- */

void ls_unread_add(ls_unread *unread, const char *prefix, const char *name) {
    char whole[sizeof unread->name[0]];
    if (unread->n == LS_UNREAD_MOST) return;
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    for (int i = 0; i < unread->n; i++)
        if (strcmp(unread->name[i], whole) == 0) return;
    memcpy(unread->name[unread->n++], whole, sizeof whole);
}

void ls_unread_find(ls_unread *unread, ls_json_value object, const char *const *read) {
    void *cursor = NULL;
    const char *key;
    ls_json_value value;
    while (ls_json_next(object, &cursor, &key, &value)) {
        const char *const *known = read;
        while (*known != NULL && strcmp(*known, key) != 0) known++;
        if (*known == NULL) ls_unread_add(unread, "", key);
    }
}

/* ---- the table ---- */

static const struct {
    const char *name; /* in shards.json, build.jsonl and results */
    size_t at;        /* offset in ls_left_out */
    const char *text;
} rows[] = {
#define ROW(field) "left_out_" #field, offsetof(ls_left_out, field)
    {ROW(silent), "answers that are not learnt: their weight is 0, their train false, or they are in the prompt"},
    {ROW(detail), "characters of answers that are not learnt, as their train_detail says"},
    {ROW(changed), "answers that are not learnt: the template writes them otherwise later on"},
    {ROW(reduced), "answers learnt without what the template adds to a last message"},
    {ROW(thinking), "characters of reasoning that the template does not write"},
    {ROW(unwritten), "characters of contents that the template does not write"},
    {ROW(padding), "tokens of padding: their attention_mask is 0"},
    {ROW(longer), "documents that are too long"},
    {ROW(unlearnt), "of these: left out as a whole"},
    {ROW(tokens), "of these: tokens left out"},
#undef ROW
};

int64_t *ls_left_out_field(ls_left_out *left_out, size_t i, const char **name) {
    if (i >= LS_COUNT(rows)) return NULL;
    *name = rows[i].name;
    return (int64_t *)(void *)((char *)left_out + rows[i].at);
}

void ls_left_out_add(ls_left_out *to, const ls_left_out *more) {
    ls_left_out copy = *more;
    const char *name;
    int64_t *field;
    for (size_t i = 0; (field = ls_left_out_field(to, i, &name)) != NULL; i++)
        *field += *ls_left_out_field(&copy, i, &name);
}

static void log_row(const char *text, int64_t n) {
    if (n > 0) ls_log("  %12lld  %s", (long long)n, text);
}

void ls_document_counts_log(const ls_document_counts *counts) {
    ls_log("what is kept:");
    ls_log("  %12lld  documents", (long long)counts->documents);
    ls_log("  %12lld  tokens", (long long)counts->tokens);
    ls_log("  %12lld  tokens that are learnt (%.1f %%)", (long long)counts->learnt,
           100.0 * (double)counts->learnt / (double)ls_max(counts->tokens, 1));
}

void ls_left_out_log(const ls_document_counts *counts, const char *too_long) {
    ls_left_out left_out = counts->left_out;
    const char *name;
    const int64_t *field;
    log_row("records that are empty", counts->empty);
    log_row("records that cannot be read", counts->bad);
    log_row("files that are no text", counts->binary);
    for (size_t i = 0; (field = ls_left_out_field(&left_out, i, &name)) != NULL; i++)
        log_row(rows[i].at == offsetof(ls_left_out, longer) ? too_long : rows[i].text, *field);
}
