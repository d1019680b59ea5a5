/*
 * Numbers that Python's json writes and jansson refuses, in a copy of the text that it takes. Integers of more than 64 bits become real numbers:
 * a tokenizer_config.json often says of model_max_length that it is 10^30. NaN and infinities become strings of a NUL and their name, which
 * stand for no text and no number: a config.json may hold them in fields that nobody asks for.
 */
#include "format/format_impl.h"
#include "format/json.h"

#include <stdlib.h>
#include <string.h>

/* The end of a string that begins at `at`, behind its quote. */
static size_t end_of_string(const char *text, size_t bytes, size_t at) {
    for (at++; at < bytes && text[at] != '"'; at++)
        if (text[at] == '\\') at++;
    return at < bytes ? at + 1 : bytes;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Whether the digits from..to are too many for 64 bits. */
static bool is_wide(const char *text, size_t from, size_t to) {
    static const char most[] = "9223372036854775807", least[] = "9223372036854775808";
    const size_t room = sizeof most - 1;
    if (to - from != room) return to - from > room;
    const bool negative = from > 0 && text[from - 1] == '-';
    return memcmp(text + from, negative ? least : most, room) > 0;
}

static size_t end_of_number(const char *text, size_t bytes, size_t at) {
    while (at < bytes && (is_digit(text[at]) || memchr("+-.eE", text[at], 5) != NULL)) at++;
    return at;
}

static const char *const not_finite[] = {"-Infinity", "Infinity", "NaN"};

bool ls_json_is_rewritten(const char *string, size_t bytes) {
    if (bytes == 0 || string[0] != 0) return false;
    for (size_t i = 0; i < LS_COUNT(not_finite); i++)
        if (strlen(not_finite[i]) == bytes - 1 && memcmp(string + 1, not_finite[i], bytes - 1) == 0)
            return true;
    return false;
}

/* The length of such a word that begins here; 0: none does. */
static size_t word_at(const char *text, size_t bytes) {
    for (size_t i = 0; i < LS_COUNT(not_finite); i++) {
        const size_t n = strlen(not_finite[i]);
        if (bytes >= n && memcmp(text, not_finite[i], n) == 0) return n;
    }
    return 0;
}

static size_t put(char *out, const char *text, size_t bytes) {
    memcpy(out, text, bytes);
    return bytes;
}

/* One string, number, word or other character from text[at]; returns where the next one begins. */
static size_t rewrite_one(const char *text, size_t bytes, size_t at, char *made, size_t *used) {
    const bool number = is_digit(text[at]);
    const size_t word = word_at(text + at, bytes - at);
    const size_t end = word > 0          ? at + word
                       : text[at] == '"' ? end_of_string(text, bytes, at)
                       : number          ? end_of_number(text, bytes, at)
                                         : at + 1;
    if (word > 0) *used += put(made + *used, "\"\\u0000", 7);
    *used += put(made + *used, text + at, end - at);
    if (word > 0) *used += put(made + *used, "\"", 1);
    size_t digits = at;
    while (digits < end && is_digit(text[digits])) digits++;
    if (number && digits == end && is_wide(text, at, end)) *used += put(made + *used, "e0", 2);
    return end;
}

ls_status ls_json_rewrite_numbers(const char *name, const char *text, size_t bytes, char **out,
                                  size_t *out_bytes) {
    size_t used = 0, words = 0;
    for (size_t at = 0; at < bytes; at++) words += text[at] == 'N' || text[at] == 'I';
    char *made =
        malloc(bytes + 8 * words + bytes / 8 + 2); /* two more for each number of 19 digits at least */
    if (made == NULL) return ls_error(LS_NO_MEMORY, "no memory to read %s", name);
    for (size_t at = 0; at < bytes;) at = rewrite_one(text, bytes, at, made, &used);
    *out = made;
    *out_bytes = used;
    return ls_ok();
}

int64_t ls_json_values(const char *text, size_t bytes) {
    int64_t values = 1;
    for (size_t at = 0; at < bytes;) {
        const char c = text[at];
        values += c == ',' || c == '[' || c == '{';
        at = c == '"' ? end_of_string(text, bytes, at) : at + 1;
    }
    return values;
}
