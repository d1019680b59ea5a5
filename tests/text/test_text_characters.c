/*
 * Every character in every class, pre-tokenizer and normalizer gives what the reference library gives, by the
 * checksums that tests/reference/make_characters.py stored.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "support/scratch.h"

#include "text/steps_impl.h"
#include "text/text.h"

enum { BLOCK = 0x1000, LOW = 0x20000, BLOCKS = LOW / BLOCK + 1, STRINGS = 2000, CHARACTERS = 12 };

/* CRC-32, four bits at a time; a sum of no bytes is 0. */
static uint32_t add_bytes(uint32_t sum, const void *data, size_t bytes) {
    static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                       0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                       0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    const unsigned char *p = data;
    sum = ~sum;
    for (size_t i = 0; i < bytes; i++) {
        sum = table[(sum ^ p[i]) & 15] ^ sum >> 4;
        sum = table[(sum ^ p[i] >> 4) & 15] ^ sum >> 4;
    }
    return ~sum;
}

static uint32_t add_number(uint32_t sum, uint32_t number) {
    const unsigned char bytes[] = {(unsigned char)number, (unsigned char)(number >> 8), (unsigned char)(number >> 16),
                                   (unsigned char)(number >> 24)};
    return add_bytes(sum, bytes, sizeof bytes);
}

static void append(ls_text *text, uint32_t code) {
    assert_true(ls_text_reserve(text, 4));
    text->count += (size_t)ls_utf8_encode(code, text->byte + text->count);
}

static uint32_t first_of(int block) { return (uint32_t)block * BLOCK; }
static uint32_t end_of(int block) { return block == BLOCKS - 1 ? 0x110000 : first_of(block + 1); }

/* The characters of a block as one text. */
static void block_text(int block, ls_text *out) {
    out->count = 0;
    for (uint32_t code = first_of(block); code < end_of(block); code++)
        if (code < 0xd800 || code >= 0xe000) append(out, code);
}

/* The next random string, as the script draws it. */
static void random_text(uint64_t *state, ls_text *out) {
    static const uint32_t kinds[8][2] = {{0, 0x80},        {0x20, 0x40},       {0x300, 0x70},   {0x80, 0x2f80},
                                         {0xa000, 0x3000}, {0x10000, 0x10000}, {0x1100, 0x100}, {0x900, 0x400}};
    out->count = 0;
    for (int i = 0; i < CHARACTERS; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        const uint32_t *kind = kinds[*state >> 33 & 7];
        append(out, kind[0] + (uint32_t)((*state >> 36) % kind[1]));
    }
}

/* ---- places in a text, in characters ---- */

typedef struct counting {
    const char *text;
    size_t at;
    uint32_t characters, sum;
} counting;

static uint32_t characters_to(counting *c, size_t byte) {
    for (; c->at < byte; c->at++) c->characters += (c->text[c->at] & 0xc0) != 0x80;
    return c->characters;
}

static void add_place(counting *c, size_t start, size_t end) {
    c->sum = add_number(c->sum, characters_to(c, start));
    c->sum = add_number(c->sum, characters_to(c, end));
}

/* ---- what is compared ---- */

typedef struct checking {
    const char *name;
    const char *sums; /* what is left of the line's */
    ls_match_scratch *scratch;
    ls_text text;
} checking;

static void expect_sum(checking *c, int block, uint32_t sum) {
    char *end;
    const uint32_t expected = (uint32_t)strtoul(c->sums, &end, 16);
    assert_true(end > c->sums);
    c->sums = end;
    if (sum == expected) return;
    if (block == BLOCKS) fail_msg("%s: random strings become something else", c->name);
    fail_msg("%s: a character from U+%04X to U+%04X is not as in the reference", c->name, first_of(block),
             end_of(block) - 1);
}

static void check_class(checking *c, ls_json_value line) {
    ls_pattern *pattern = NULL;
    ls_text regex = {0};
    assert_true(ls_text_append(&regex, c->name, strlen(c->name)) && ls_text_append(&regex, "+", 2));
    assert_ok(ls_pattern_compile(line, regex.byte, &pattern));
    for (int block = 0; block < BLOCKS; block++) {
        ls_status status;
        block_text(block, &c->text);
        counting places = {
            .text = c->text.byte,
        };
        ls_matches m = {pattern, c->scratch, c->text.byte, c->text.count, .last_end = SIZE_MAX};
        while (ls_matches_next(&m, &status) && m.found) add_place(&places, m.start, m.end);
        expect_sum(c, block, places.sum);
    }
    ls_pattern_free(pattern);
    free(regex.byte);
}

static bool add_word(void *context, const char *text, size_t bytes) {
    counting *places = context;
    const size_t start = (size_t)(text - places->text);
    add_place(places, start, start + bytes);
    return true;
}

static uint32_t add_words(checking *c, const ls_steps *steps, uint32_t sum) {
    counting places = {.text = c->text.byte, .sum = sum};
    ls_text unused[1] = {{0}};
    ls_split_chain chain = {
        .steps = steps, .buffer = unused, .scratch = c->scratch, .word = add_word, .context = &places};
    assert_true(ls_split_next(&chain, (ls_text_piece){c->text.byte, c->text.count, true, false}));
    return places.sum;
}

static void check_pre_tokenizer(checking *c, ls_json_value line) {
    ls_steps steps = {0};
    uint32_t sum = 0;
    uint64_t state = 1;
    assert_ok(ls_pre_tokenizers_read(line, &steps));
    for (int block = 0; block < BLOCKS; block++) {
        block_text(block, &c->text);
        expect_sum(c, block, add_words(c, &steps, 0));
    }
    for (int i = 0; i < STRINGS; i++) {
        random_text(&state, &c->text);
        sum = add_words(c, &steps, sum);
    }
    expect_sum(c, BLOCKS, sum);
    ls_steps_free(&steps);
}

static uint32_t add_normal(checking *c, const ls_steps *steps, ls_text buffer[2], uint32_t sum) {
    ls_text_piece piece = {c->text.byte, c->text.count, true, false};
    ls_allowance allowance = {.most = ls_most_bytes(piece.bytes)};
    assert_ok(ls_normalize(steps, c->scratch, &allowance, buffer, &piece));
    return add_bytes(add_bytes(sum, piece.text, piece.bytes), "\xff", 1);
}

static uint32_t normal_block(checking *c, const ls_steps *steps, ls_text buffer[2], int block) {
    uint32_t sum = 0;
    for (uint32_t code = first_of(block); code < end_of(block); code++) {
        if (code >= 0xd800 && code < 0xe000) continue;
        c->text.count = 0;
        append(&c->text, code);
        sum = add_normal(c, steps, buffer, sum);
        c->text.count = 0;
        append(&c->text, 'a');
        append(&c->text, 0x345);
        append(&c->text, code);
        sum = add_normal(c, steps, buffer, sum);
    }
    return sum;
}

static void check_normalizer(checking *c, ls_json_value line) {
    ls_steps steps = {0};
    ls_text buffer[2] = {{0}};
    uint32_t sum = 0;
    uint64_t state = 1;
    assert_ok(ls_normalizers_read(line, &steps));
    for (int block = 0; block < BLOCKS; block++) expect_sum(c, block, normal_block(c, &steps, buffer, block));
    for (int i = 0; i < STRINGS; i++) {
        random_text(&state, &c->text);
        sum = add_normal(c, &steps, buffer, sum);
    }
    expect_sum(c, BLOCKS, sum);
    free(buffer[0].byte);
    free(buffer[1].byte);
    ls_steps_free(&steps);
}

static const struct {
    const char *field;
    void (*check)(checking *c, ls_json_value line);
} kinds[] = {{"class", check_class}, {"pre_tokenizer", check_pre_tokenizer}, {"normalizer", check_normalizer}};

static void check_line(checking *c, ls_json_value line) {
    assert_ok(ls_json_text(line, "sums", &c->sums));
    for (size_t i = 0; i < LS_COUNT(kinds); i++) {
        const ls_json_value value = ls_json_field(line, kinds[i].field);
        if (!value.json) continue;
        const ls_json_value type = ls_json_field(value, "type");
        assert_ok(ls_json_as_text(type.json ? type : value, &c->name));
        kinds[i].check(c, line);
    }
}

static void every_character_is_as_in_the_reference(void **state) {
    (void)state;
    char *all, *at;
    size_t bytes, lines = 0;
    checking c = {.scratch = ls_match_scratch_create()};
    assert_ok(ls_file_read(LS_TEST_REFERENCE "/characters.jsonl", 1 << 20, &all, &bytes));
    for (at = all; *at; lines++) {
        ls_json *line;
        char *end = strchr(at, '\n');
        assert_ok(ls_json_parse("characters.jsonl", at, (size_t)(end - at), &line));
        check_line(&c, ls_json_root(line));
        ls_json_free(line);
        at = end + 1;
    }
    assert_true(lines > 200);
    ls_match_scratch_destroy(c.scratch);
    free(c.text.byte);
    free(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_character_is_as_in_the_reference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
