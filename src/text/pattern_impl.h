/*
 * text: patterns of a tokenizer.json: a plain text, or a regular expression. The files' dialect is Oniguruma's;
 * it is rewritten for PCRE2 (pattern_dialect.c), and what the two do not share is refused by name.
 *
 * Classes (\p{...}, \w, \d, \s) have the characters that they have in the reference library.
 */
#ifndef LS_TEXT_PATTERN_IMPL_H
#define LS_TEXT_PATTERN_IMPL_H

#include "text/text_impl.h"

typedef struct ls_pattern ls_pattern; /* read-only: for any number of threads */

/* Reads a field like "pattern": {"Regex": "..."} or {"String": "..."}. */
LS_MUST_USE ls_status ls_pattern_read(ls_json_value object, const char *key, ls_pattern **out);
/* A regular expression of ours; `where` is named by errors. */
LS_MUST_USE ls_status ls_pattern_compile(ls_json_value where, const char *regex, ls_pattern **out);
/* The text, where it is a plain one; NULL for an expression. */
const char *ls_pattern_text(const ls_pattern *pattern);
void ls_pattern_free(ls_pattern *pattern); /* NULL is allowed */

/* One thread's memory for matching. */
typedef struct ls_match_scratch ls_match_scratch;
LS_MUST_USE ls_match_scratch *ls_match_scratch_create(void); /* NULL: no memory */
void ls_match_scratch_destroy(ls_match_scratch *scratch);

/*
 * The matches in a text, one after the other; an empty one right after a match is none.
 *
 *     ls_matches m = {pattern, scratch, text, bytes, .last_end = SIZE_MAX};
 *     while (ls_matches_next(&m, &status) && m.found) ...
 */
typedef struct ls_matches {
    const ls_pattern *pattern;
    ls_match_scratch *scratch;
    const char *text; /* UTF-8 */
    size_t bytes;
    size_t from, last_end;
    size_t start, end; /* of the match, when found */
    bool found;
} ls_matches;

/* False: *status says why. No status is returned, because one is half a kilobyte, and there is a match per word. */
LS_MUST_USE bool ls_matches_next(ls_matches *matches, ls_status *status);

/* The same expression in PCRE2's words; LS_UNSUPPORTED names what has none (pattern_dialect.c). */
LS_MUST_USE ls_status ls_pattern_translate(ls_json_value where, const char *regex, ls_text *out);

#endif
