/*
 * Integers of more than 64 bits, which Python writes as they are: a tokenizer_config.json often says of model_max_length that it is 10^30. They
 * become real numbers, in a copy of the text; where one is asked for as an integer it is refused by name.
 */
#include "format/format_impl.h"

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

ls_status ls_json_wide_as_real(const char *name, const char *text, size_t bytes, char **out,
                               size_t *out_bytes) {
    /* Two characters more for each number of 19 digits at least. */
    char *made = malloc(bytes + bytes / 8 + 2);
    size_t used = 0;
    if (made == NULL) return ls_error(LS_NO_MEMORY, "no memory to read %s", name);
    for (size_t at = 0; at < bytes;) {
        const bool number = is_digit(text[at]);
        const size_t end = text[at] == '"' ? end_of_string(text, bytes, at)
                           : number        ? end_of_number(text, bytes, at)
                                           : at + 1;
        memcpy(made + used, text + at, end - at);
        used += end - at;
        size_t digits = at;
        while (digits < end && is_digit(text[digits])) digits++;
        if (number && digits == end && is_wide(text, at, end)) {
            made[used++] = 'e';
            made[used++] = '0';
        }
        at = end;
    }
    *out = made;
    *out_bytes = used;
    return ls_ok();
}
