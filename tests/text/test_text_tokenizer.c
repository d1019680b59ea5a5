/* UTF-8 and tokenizers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/scratch.h"

#include "text/text.h"

static int encode_utf8(uint32_t c, char *out) {
    if (c < 0x80) return out[0] = (char)c, 1;
    int n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)((0xf0 << (4 - n) & 0xff) | c);
    return n;
}

static void decodes_every_character(void **state) {
    (void)state;
    for (uint32_t code = 0; code < 0x120000; code++) {
        char text[4];
        uint32_t back = 0xffffffff;
        int n = encode_utf8(code, text);
        bool valid = code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
        int got = ls_utf8_decode(text, (size_t)n, &back);
        if (got != (valid ? n : 0) || back != (valid ? code : 0xffffffff)) fail_msg("U+%04X: length %d", code, got);
        for (int cut = 0; cut < n; cut++)
            if (ls_utf8_decode(text, (size_t)cut, NULL) != 0) fail_msg("U+%04X cut to %d is taken", code, cut);
    }
}

static void refuses_what_is_not_utf8(void **state) {
    (void)state;
    static const char *const bad[] = {"\x80",
                                      "\xbf",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xc3(",
                                      "\xe0\x80\x80",
                                      "\xe0\x9f\xbf",
                                      "\xed\xa0\x80",
                                      "\xe2\x82(",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xff",
                                      "\xfe"};
    for (size_t i = 0; i < LS_COUNT(bad); i++) {
        char text[16] = "ab";
        strcat(text, bad[i]);
        assert_int_equal(ls_utf8_decode(bad[i], strlen(bad[i]), NULL), 0);
        assert_int_equal(ls_utf8_valid_prefix(text, strlen(text)), 2);
    }
    assert_int_equal(ls_utf8_valid_prefix("a\xc3\xa9\0z", 5), 5);
    assert_int_equal(ls_utf8_valid_prefix("", 0), 0);
}

static void makes_text_printable(void **state) {
    (void)state;
    char out[32];
    assert_int_equal(ls_utf8_printable("a\x1b[2J\n\t\xc3\xa9\xff", 10, out, sizeof out), 14);
    assert_string_equal(out, "a\xef\xbf\xbd[2J\n\t\xc3\xa9\xef\xbf\xbd");
    assert_int_equal(ls_utf8_printable("\xc2\x9b\xe2\x80\xae", 5, out, sizeof out), 6); /* C1, right-to-left */
    for (size_t room = 1; room < 7; room++) {                                           /* never half a character */
        size_t n = ls_utf8_printable("\xc3\xa9\xc3\xa9\xc3\xa9", 6, out, room);
        assert_int_equal(n, (room - 1) / 2 * 2);
        assert_int_equal(strlen(out), n);
    }
}

static ls_tokenizer *open_bytes(void) {
    ls_tokenizer *tokenizer = NULL;
    assert_ok(ls_tokenizer_open(NULL, &tokenizer));
    return tokenizer;
}

static void bytes_round_trip(void **state) {
    (void)state;
    ls_tokenizer *t = open_bytes();
    assert_string_equal(ls_tokenizer_name(t), "bytes");
    assert_int_equal(ls_tokenizer_vocabulary(t), 256);
    assert_int_equal(ls_tokenizer_end_of_document(t), 0);
    assert_true(ls_tokenizer_piece(t) >= 1);
    char all[256];
    for (int i = 0; i < 256; i++) all[i] = (char)i;
    ls_token_list tokens = {0};
    ls_text text = {0};
    assert_ok(ls_tokenizer_encode(t, NULL, 0, &tokens));
    for (int round = 0; round < 20; round++) { /* appends */
        assert_ok(ls_tokenizer_encode(t, all, sizeof all, &tokens));
        assert_int_equal(tokens.count, 256 * (round + 1));
        for (int i = 0; i < 256; i++) assert_int_equal(tokens.id[256 * round + i], i);
        assert_ok(ls_tokenizer_decode(t, tokens.id + 256 * round, 256, &text));
        assert_memory_equal(text.byte + 256 * round, all, 256);
    }
    assert_int_equal(text.count, 256 * 20);
    const int32_t bad[] = {1, 256}, negative[] = {-1};
    assert_error(ls_tokenizer_decode(t, bad, 2, &text), LS_INVALID, "token 1 is id 256", "0 to 255");
    assert_error(ls_tokenizer_decode(t, negative, 1, &text), LS_INVALID, "token 0 is id -1", "bytes");
    assert_int_equal(text.count, 256 * 20);
    free(tokens.id);
    free(text.byte);
    ls_tokenizer_close(t);
    ls_tokenizer_close(NULL);
}

/*
 * A folder without any file of a tokenizer means bytes to a model, and to --tokenizer where its model is one on bytes.
 */
static void bytes_are_never_a_surprise(void **state) {
    ls_tokenizer *t = NULL, *bytes = open_bytes();
    assert_error(ls_tokenizer_open(*state, &t), LS_INVALID, "no tokenizer in", "tokenizer.json");
    scratch_text(state, "config.json", "{\"vocab_size\": 32000}");
    assert_error(ls_tokenizer_open(*state, &t), LS_INVALID, "no tokenizer in", "256 to 512");
    assert_ok(ls_tokenizer_open_model(*state, &t));
    assert_null(ls_tokenizer_file(t));
    assert_true(ls_tokenizer_fingerprint(t) == ls_tokenizer_fingerprint(bytes));
    ls_tokenizer_close(t);
    scratch_text(state, "config.json", "{\"vocab_size\": 257}");
    assert_ok(ls_tokenizer_open(*state, &t));
    assert_string_equal(ls_tokenizer_name(t), "bytes");
    ls_tokenizer_close(t);
    ls_tokenizer_close(bytes);
}

static void a_vocabulary_is_not_ignored(void **state) {
    ls_tokenizer *t = NULL;
    const char *path = scratch_text(state, "tokenizer.model", "?");
    assert_error(ls_tokenizer_open(*state, &t), LS_UNSUPPORTED, path, "tokenizer.json");
    assert_error(ls_tokenizer_open_model(*state, &t), LS_UNSUPPORTED, path, "tokenizer.json");
    path = scratch_text(state, "tokenizer.json", "{}");
    assert_error(ls_tokenizer_open(*state, &t), LS_INVALID, path, "model is missing");
    assert_error(ls_tokenizer_open(path, &t), LS_IO, path, "not a folder");
    assert_null(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decodes_every_character),    cmocka_unit_test(refuses_what_is_not_utf8),
        cmocka_unit_test(makes_text_printable),       cmocka_unit_test(bytes_round_trip),
        cmocka_unit_test(bytes_are_never_a_surprise), cmocka_unit_test(a_vocabulary_is_not_ignored),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
