/*
 * The steps of a tokenizer.json. A kind of step is one const row in a file step_*.c; the tables of steps.c list the
 * kinds of normalizers, pre-tokenizers, decoders and post-processors. A Sequence is not a step: it is replaced by its
 * members.
 */
#ifndef LS_TEXT_STEPS_IMPL_H
#define LS_TEXT_STEPS_IMPL_H

#include "text/pattern_impl.h"

/* A part of a text that passes through the steps. */
typedef struct ls_text_piece {
    const char *text; /* UTF-8 */
    size_t bytes;
    bool first; /* it is at the beginning of the whole text */
    bool rest;  /* it follows a cut: steps do not put anything before it */
} ls_text_piece;

/*
 * The most bytes that steps may make of a text. Without a limit, a few steps that double a text would fill any memory.
 */
static inline size_t ls_most_bytes(size_t bytes) { return 64 * bytes + (1 << 20); }

/* The limit for a text whose pieces are normalized one by one: `made` is the sum over the pieces so far. */
typedef struct ls_allowance {
    size_t most, made;
} ls_allowance;

/* Longest text, in bytes, that a step may put before every piece, or search at every place of a text. */
#define LS_MOST_PATTERN 1024

/* The two characters at a place where a text may be cut. */
typedef struct ls_boundary {
    uint32_t left, right;
} ls_boundary;

/* Whether a step gives the same result when the text is cut at a boundary. */
typedef enum ls_cut {
    LS_CUT_UNKNOWN, /* not certain */
    LS_CUT_SAME,    /* the same; later steps decide the rest */
    LS_CUT_APART,   /* a pre-tokenizer always ends a word there */
} ls_cut;

/* A list of texts, stored one after the other: text i is the bytes from end[i - 1] to end[i]. */
typedef struct ls_strings {
    ls_text all;
    size_t *end;
    size_t count, capacity;
} ls_strings;

/* Ends the text that was appended to `all` since the last call */
LS_MUST_USE bool ls_strings_end(ls_strings *texts);
void ls_strings_free(ls_strings *texts);

typedef struct ls_split_chain ls_split_chain;

typedef struct ls_step_kind {
    const char *type;
    /*
     * Reads the step's object into *state, which is NULL before; NULL: the step has no state. After an error, free gets
     * *state too.
     */
    ls_status (*read)(ls_json_value step, void **state);
    void (*free)(void *state);
    /*
     * A row has one of the next four. Normalizers write a changed text into `out`, an empty buffer, and set *piece to
     * it. The caller treats more than `most` bytes as an error, so a step may stop there.
     */
    ls_status (*normalize)(const void *state, ls_match_scratch *scratch, size_t most, ls_text_piece *piece,
                           ls_text *out);
    /* Pre-tokenizers call ls_split_next for each part, in order. False: chain->status is the error. */
    bool (*split)(const void *state, ls_split_chain *chain, ls_text_piece piece);
    /* Decoders turn the texts of tokens into other texts; `out` is empty. */
    ls_status (*decode)(const void *state, const ls_strings *in, ls_strings *out);
    /* Post-processors add ids around a text, outside of those already in `before` and `after`. */
    ls_status (*frame)(const void *state, ls_token_list *before, ls_token_list *after);
    /* For normalizers and pre-tokenizers; NULL: never certain. *boundary becomes the characters after the step. */
    ls_cut (*cut)(const void *state, ls_boundary *boundary);
} ls_step_kind;

typedef struct ls_text_step {
    const ls_step_kind *kind;
    void *state;
} ls_text_step;

typedef struct ls_steps {
    ls_text_step *step;
    size_t count, capacity;
} ls_steps;

/*
 * Reads one field of the document, which may be absent or null, into *out, which is zeroed. Free it after an error too.
 */
LS_MUST_USE ls_status ls_normalizers_read(ls_json_value document, ls_steps *out);
LS_MUST_USE ls_status ls_pre_tokenizers_read(ls_json_value document, ls_steps *out);
LS_MUST_USE ls_status ls_decoders_read(ls_json_value document, ls_steps *out);
LS_MUST_USE ls_status ls_post_processors_read(ls_json_value document, ls_steps *out);
void ls_steps_free(ls_steps *steps);

/*
 * Runs all normalizers; *piece then is in one of the buffers, or unchanged. LS_INVALID when the text grows beyond the
 * allowance.
 */
LS_MUST_USE ls_status ls_normalize(const ls_steps *steps, ls_match_scratch *scratch, ls_allowance *allowance,
                                   ls_text buffer[2], ls_text_piece *piece);
/* Runs all decoders: *texts becomes their output. Without decoders, the tokens are joined with spaces. */
LS_MUST_USE ls_status ls_decode(const ls_steps *steps, ls_strings *texts);

bool ls_steps_may_cut(const ls_steps *steps); /* whether every step has a `cut` */
/* The result for all steps; *boundary becomes the characters after them. */
ls_cut ls_steps_cut(const ls_steps *steps, ls_boundary *boundary);

/* The state of splitting a piece by all pre-tokenizers, one after the other, into words. */
struct ls_split_chain {
    const ls_steps *steps;
    size_t at;       /* the step to run next */
    ls_text *buffer; /* one for each step, for steps that change the text */
    ls_match_scratch *scratch;
    bool (*word)(void *context, const char *text, size_t bytes); /* gets each word; false: no memory */
    void *context;
    ls_status status; /* the error after a function has returned false */
};

/* Passes a part to the next step; an empty part is dropped. */
LS_MUST_USE bool ls_split_next(ls_split_chain *chain, ls_text_piece piece);
bool ls_split_no_memory(ls_split_chain *chain, size_t bytes); /* sets the status and returns false */

/* ---- cutting at delimiters (step_split.c) ---- */

/* How delimiters are treated, by the names of the reference library: a const table in step_split.c. */
typedef struct ls_behaviour ls_behaviour;
extern const ls_behaviour *const ls_behaviour_isolated,
    *const ls_behaviour_removed, *const ls_behaviour_contiguous, *const ls_behaviour_merged_with_next;
LS_MUST_USE ls_status ls_behaviour_read(ls_json_value object, const char *key, const ls_behaviour **out);

/* Cuts a piece at the matches of a pattern; with `invert`, the delimiters are the texts between the matches. */
LS_MUST_USE bool ls_split_pattern(ls_split_chain *chain, ls_text_piece piece, const ls_pattern *pattern,
                                  const ls_behaviour *behaviour, bool invert);
/* Cuts a piece at each character for which `is` is true. */
LS_MUST_USE bool ls_split_characters(ls_split_chain *chain, ls_text_piece piece,
                                     bool (*is)(uint32_t code, const void *context), const void *context,
                                     const ls_behaviour *behaviour);

extern const ls_step_kind ls_step_nfc, ls_step_nfd, ls_step_nfkc, ls_step_nfkd, ls_step_lowercase;
extern const ls_step_kind ls_step_prepend;                          /* step_prepend.c */
extern const ls_step_kind ls_step_replace, ls_step_replace_decoder; /* step_replace.c */
extern const ls_step_kind ls_step_strip, ls_step_strip_decoder;     /* step_strip.c */
extern const ls_step_kind ls_step_split;                            /* step_split.c */
extern const ls_step_kind ls_step_byte_level, ls_step_byte_level_decoder,
    ls_step_byte_level_post;                                            /* step_byte_level.c */
extern const ls_step_kind ls_step_metaspace, ls_step_metaspace_decoder; /* step_metaspace.c */
extern const ls_step_kind ls_step_digits, ls_step_whitespace_split, ls_step_whitespace, ls_step_punctuation,
    ls_step_delimiter;                                         /* step_characters.c */
extern const ls_step_kind ls_step_byte_fallback, ls_step_fuse; /* step_byte_fallback.c */
extern const ls_step_kind ls_step_template;                    /* step_template.c */

#endif
