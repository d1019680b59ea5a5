/*
 * text: the steps of a tokenizer.json. Each kind of step is a const row in a file step_*.c; the tables of
 * steps.c say which kinds a normalizer, pre-tokenizer, decoder or post-processor may be. A Sequence is no step
 * of its own: its members follow one another.
 */
#ifndef LS_TEXT_STEPS_IMPL_H
#define LS_TEXT_STEPS_IMPL_H

#include "text/pattern_impl.h"

/* A stretch of text on its way through the steps. */
typedef struct ls_text_piece {
    const char *text; /* UTF-8 */
    size_t bytes;
    bool first; /* it begins where the whole text begins */
    bool rest;  /* it goes on behind a cut: nothing is put before it */
} ls_text_piece;

/* What steps may make of a text: without a limit, some that each make it twice as long would fill any memory. */
static inline size_t ls_most_bytes(size_t bytes) { return 64 * bytes + (1 << 20); }

/* That of a text whose pieces are normalized one by one: what is put before each adds up. */
typedef struct ls_allowance {
    size_t most, made;
} ls_allowance;

/* Bytes of a text that is put before every piece of a text, or searched for at every place of it. */
#define LS_MOST_PATTERN 1024

/* Two characters side by side, and whether a step does the same when the text is cut between them. */
typedef struct ls_boundary {
    uint32_t left, right;
} ls_boundary;

typedef enum ls_cut {
    LS_CUT_UNKNOWN, /* it may not */
    LS_CUT_ON,      /* it does; what later steps do is for them to say */
    LS_CUT_APART,   /* of pre-tokenizers: a word ends there in any case */
} ls_cut;

/* Texts one after the other: text i is bytes end[i - 1] to end[i]. */
typedef struct ls_strings {
    ls_text all;
    size_t *end;
    size_t count, capacity;
} ls_strings;

LS_MUST_USE bool ls_strings_end(ls_strings *texts); /* what was appended to `all` since the last is a text */
void ls_strings_free(ls_strings *texts);

typedef struct ls_split_chain ls_split_chain;

typedef struct ls_step_kind {
    const char *type;
    /* The step's own state from its object; *state is NULL before. On error too, free gets what is in *state. */
    ls_status (*read)(ls_json_value step, void **state);
    void (*free)(void *state);
    /*
     * One of these. Normalizers: *piece becomes what `out`, an empty buffer, got, when it changes. Behind `most` bytes a step that makes
     * much of little may stop: they are refused.
     */
    ls_status (*normalize)(const void *state, ls_match_scratch *scratch, size_t most, ls_text_piece *piece,
                           ls_text *out);
    /* Pre-tokenizers: calls ls_split_next for each part, in order. False: chain->status says why. */
    bool (*split)(const void *state, ls_split_chain *chain, ls_text_piece piece);
    /* Decoders: the texts of tokens to other texts; `out` is empty. */
    ls_status (*decode)(const void *state, const ls_strings *in, ls_strings *out);
    /* Post-processors: put ids before and after those that are there. */
    ls_status (*frame)(const void *state, ls_token_list *before, ls_token_list *after);
    /* Normalizers and pre-tokenizers; NULL: not known. *boundary becomes what the step makes of the characters. */
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

/* Reads a field of the document, absent or null for none, into *out, which is zeroed; free it on error too. */
LS_MUST_USE ls_status ls_normalizers_read(ls_json_value document, ls_steps *out);
LS_MUST_USE ls_status ls_pre_tokenizers_read(ls_json_value document, ls_steps *out);
LS_MUST_USE ls_status ls_decoders_read(ls_json_value document, ls_steps *out);
LS_MUST_USE ls_status ls_post_processors_read(ls_json_value document, ls_steps *out);
void ls_steps_free(ls_steps *steps);

/*
 * Runs all normalizers; *piece is text of one of the buffers, or as it was. LS_INVALID when more is made of the text than is allowed.
 */
LS_MUST_USE ls_status ls_normalize(const ls_steps *steps, ls_match_scratch *scratch, ls_allowance *allowance,
                                   ls_text buffer[2], ls_text_piece *piece);
/* Runs all decoders: *texts becomes their output. Without any, a space is put between tokens. */
LS_MUST_USE ls_status ls_decode(const ls_steps *steps, ls_strings *texts);

bool ls_steps_may_cut(const ls_steps *steps); /* each of them says where */
ls_cut ls_steps_cut(const ls_steps *steps, ls_boundary *boundary);

/* The way through the pre-tokenizers, to the word at its end. */
struct ls_split_chain {
    const ls_steps *steps;
    size_t at;       /* the step to run next */
    ls_text *buffer; /* one per step, for those that change text */
    ls_match_scratch *scratch;
    bool (*word)(void *context, const char *text, size_t bytes); /* false: no memory */
    void *context;
    ls_status status; /* set where false is returned */
};

LS_MUST_USE bool ls_split_next(ls_split_chain *chain,
                               ls_text_piece piece);          /* an empty piece goes no further */
bool ls_split_no_memory(ls_split_chain *chain, size_t bytes); /* sets the status; false */

/* ---- what pre-tokenizers share (split.c) ---- */

/* What becomes of delimiters: a const table by name in split.c. */
typedef struct ls_behaviour ls_behaviour;
extern const ls_behaviour *const ls_behaviour_isolated,
    *const ls_behaviour_removed, *const ls_behaviour_contiguous, *const ls_behaviour_merged_with_next;
LS_MUST_USE ls_status ls_behaviour_read(ls_json_value object, const char *key, const ls_behaviour **out);

/* Cuts a piece at the matches of a pattern, or with `invert` at what is between them. */
LS_MUST_USE bool ls_split_pattern(ls_split_chain *chain, ls_text_piece piece, const ls_pattern *pattern,
                                  const ls_behaviour *behaviour, bool invert);
/* Cuts a piece at each character that `is` says is a delimiter. */
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
