/*
 * NFC, NFD, NFKC, NFKD. A table of bits says which characters a normal form leaves unchanged whatever their neighbours
 * are; only the stretches with other characters are normalized.
 */
#include "base/base.h"
#include "text/characters.h"
#include "text/steps_impl.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { CODES = 0x110000, LONGEST = 32 /* parts of one character; the largest decomposition has 18 */ };

typedef struct form {
    utf8proc_option_t options; /* of the decomposition */
    bool composes;
    /* A bit for each character: a starter that stays as it is and does not compose with the character before it. */
    uint8_t plain[CODES / 8];
} form;

static bool is_plain(const form *f, uint32_t code) { return f->plain[code / 8] >> code % 8 & 1; }
static void mark(form *f, int32_t code) { f->plain[code / 8] &= (uint8_t) ~(1 << code % 8); }

static int combining_class(int32_t code) {
    const int found = utf8proc_get_property(code)->combining_class;
    return found != 0 && ls_is_after_unicode_9((uint32_t)code) ? 0 : found;
}

static int decompose(utf8proc_option_t options, int32_t code, int32_t out[LONGEST]) {
    int last = 0;
    const ssize_t n = utf8proc_decompose_char(code, out, LONGEST, options, &last);
    LS_ASSERT(n >= 1 && n <= LONGEST);
    if ((n == 1 && out[0] == code) || !ls_is_after_unicode_9((uint32_t)code)) return (int)n;
    out[0] = code;
    return 1;
}

static size_t compose(int32_t *code, size_t n) {
    const ssize_t kept = utf8proc_normalize_utf32(code, (ssize_t)n, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    LS_ASSERT(kept >= 0 && (size_t)kept <= n); /* composition works in place */
    return (size_t)kept;
}

static ls_status read_form(utf8proc_option_t options, bool composes, void **state) {
    form *f = *state = malloc(sizeof *f);
    if (!f) return ls_no_memory(0);
    f->options = options;
    f->composes = composes;
    memset(f->plain, 0xff, sizeof f->plain);
    for (int32_t code = 0x80; code < CODES; code++) {
        int32_t parts[LONGEST];
        if (code == 0xd800) code = 0xe000;
        if (combining_class(code) != 0) mark(f, code);
        int n = decompose(UTF8PROC_DECOMPOSE, code, parts);
        if (composes && n > 1) mark(f, parts[n - 1]); /* a composition absorbs it */
        n = decompose(options, code, parts);
        if (composes) n = (int)compose(parts, (size_t)n);
        if (n != 1 || parts[0] != code) mark(f, code);
    }
    return ls_ok();
}

/* ---- a stretch of text ---- */

/* Sorts the marks between two starters by combining class; marks of one class keep their order. */
static bool order_marks(int32_t *code, size_t n) {
    size_t place[257] = {0};
    int32_t *copy = malloc(n * sizeof *copy);
    if (!copy) return false;
    memcpy(copy, code, n * sizeof *copy);
    for (size_t i = 0; i < n; i++) place[combining_class(code[i]) + 1]++;
    for (int i = 1; i < 257; i++) place[i] += place[i - 1];
    for (size_t i = 0; i < n; i++) code[place[combining_class(copy[i])]++] = copy[i];
    free(copy);
    return true;
}

static bool order_all(int32_t *code, size_t n) {
    for (size_t start = 0, end; start < n; start = end) {
        for (end = start; end < n && combining_class(code[end]) != 0;) end++;
        if (end - start > 1 && !order_marks(code + start, end - start)) return false;
        if (end == start) end++;
    }
    return true;
}

static bool normalize_stretch(const form *f, const char *text, size_t bytes, ls_token_list *codes, ls_text *out) {
    codes->count = 0;
    int length;
    for (size_t at = 0; at < bytes; at += (size_t)length) {
        uint32_t code = 0;
        length = ls_utf8_decode(text + at, bytes - at, &code);
        if (!ls_token_list_reserve(codes, LONGEST)) return false;
        codes->count += (size_t)decompose(f->options, (int32_t)code, codes->id + codes->count);
    }
    if (!order_all(codes->id, codes->count)) return false;
    if (f->composes) codes->count = compose(codes->id, codes->count);
    if (!ls_text_reserve(out, 4 * codes->count)) return false;
    for (size_t i = 0; i < codes->count; i++)
        out->count += (size_t)ls_utf8_encode((uint32_t)codes->id[i], out->byte + out->count);
    return true;
}

static ls_cut cut(const void *state, ls_boundary *boundary) {
    return is_plain(state, boundary->left) && is_plain(state, boundary->right) ? LS_CUT_SAME : LS_CUT_UNKNOWN;
}

/*
 * The place of the next character that is plain or not, as `plain` says; `bytes` when there is none. *previous: the
 * place of the character before it, if any was passed.
 */
static size_t next_other(const form *f, const char *text, size_t bytes, size_t at, bool plain, size_t *previous) {
    int length;
    for (; at < bytes; at += (size_t)length) {
        uint32_t code = (unsigned char)text[at];
        length = code < 0x80 ? 1 : ls_utf8_decode(text + at, bytes - at, &code);
        if (is_plain(f, code) == plain) return at;
        *previous = at;
    }
    return bytes;
}

static ls_status normalize(const void *state, ls_match_scratch *scratch, size_t most, ls_text_piece *piece,
                           ls_text *out) {
    const form *f = state;
    const char *text = piece->text;
    const size_t bytes = piece->bytes;
    ls_token_list codes = {0};
    bool room = true, changed = false;
    (void)scratch, (void)most;
    for (size_t done = 0; room;) {
        size_t start = done, unused;
        const size_t at = next_other(f, text, bytes, done, false, &start);
        if (at == bytes && !changed) return ls_ok(); /* as it was */
        changed = true;
        if (at == bytes)
            start = bytes;
        else if (!f->composes)
            start = at;
        room = ls_text_append(out, text + done, start - done);
        if (at == bytes || !room) break;
        done = next_other(f, text, bytes, at, true, &unused);
        room = normalize_stretch(f, text + start, done - start, &codes, out);
    }
    free(codes.id);
    if (!room) return ls_no_memory(bytes);
    piece->text = out->byte;
    piece->bytes = out->count;
    return ls_ok();
}

static ls_status read_nfc(ls_json_value step, void **state) {
    return (void)step, read_form(UTF8PROC_DECOMPOSE, true, state);
}
static ls_status read_nfd(ls_json_value step, void **state) {
    return (void)step, read_form(UTF8PROC_DECOMPOSE, false, state);
}
static ls_status read_nfkc(ls_json_value step, void **state) {
    return (void)step, read_form(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, true, state);
}
static ls_status read_nfkd(ls_json_value step, void **state) {
    return (void)step, read_form(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, false, state);
}

const ls_step_kind ls_step_nfc = {.type = "NFC", .read = read_nfc, .free = free, .normalize = normalize, .cut = cut};
const ls_step_kind ls_step_nfd = {.type = "NFD", .read = read_nfd, .free = free, .normalize = normalize, .cut = cut};
const ls_step_kind ls_step_nfkc = {.type = "NFKC", .read = read_nfkc, .free = free, .normalize = normalize, .cut = cut};
const ls_step_kind ls_step_nfkd = {.type = "NFKD", .read = read_nfkd, .free = free, .normalize = normalize, .cut = cut};
