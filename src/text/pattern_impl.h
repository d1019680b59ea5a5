/*
 * The patterns of a tokenizer.json: a plain text, or a regular expression in Oniguruma's dialect, which is rewritten
 * for PCRE2 (pattern_dialect.c). Constructs that do not mean the same in both are refused by name. The classes \p{...},
 * \w, \d and \s have the characters that they have in the reference library.
 */
#ifndef LS_TEXT_PATTERN_IMPL_H
#define LS_TEXT_PATTERN_IMPL_H

#include "text/text_impl.h"

typedef struct ls_pattern ls_pattern; /* read-only: any number of threads may use it */

/* Reads a field like "pattern": {"Regex": "..."} or {"String": "..."}. */
LS_MUST_USE ls_status ls_pattern_read(ls_json_value object, const char *key, ls_pattern **out);
/* Compiles a regular expression in the same dialect; errors name `where`. */
LS_MUST_USE ls_status ls_pattern_compile(ls_json_value where, const char *regex, ls_pattern **out);
/* The plain text of a pattern; NULL for a regular expression. */
const char *ls_pattern_text(const ls_pattern *pattern);
void ls_pattern_free(ls_pattern *pattern); /* NULL is allowed */

/* One thread's memory for matching. */
typedef struct ls_match_scratch ls_match_scratch;
LS_MUST_USE ls_match_scratch *ls_match_scratch_create(void); /* NULL: no memory */
void ls_match_scratch_destroy(ls_match_scratch *scratch);
/*
 * Begins a text. A step is an item of an expression, or a byte that an item passes over. More than `most_steps` steps
 * in all matches of the text together are LS_INVALID.
 */
void ls_match_scratch_begin(ls_match_scratch *scratch, uint64_t most_steps);
/* The steps that a text of `bytes` bytes may take: a second or two, plus some microseconds for each byte. */
static inline uint64_t ls_pattern_most_steps(size_t bytes) { return 100000000 + 1000 * (uint64_t)bytes; }

/*
 * Iterates over the matches in a text. An empty match directly after a match is skipped.
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

/* False: *status is the error. A status is half a kilobyte, too much to return for each word. */
LS_MUST_USE bool ls_matches_next(ls_matches *matches, ls_status *status);

/* Rewrites an expression for PCRE2 (pattern_dialect.c). LS_UNSUPPORTED names a construct that has no equivalent. */
LS_MUST_USE ls_status ls_pattern_translate(ls_json_value where, const char *regex, ls_text *out);

#endif
