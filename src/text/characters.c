#include "text/characters.h"
#include "base/base.h"
#include "text/character_tables.h"

#include <utf8proc.h>

static bool is_in(const ls_code_range *range, size_t n, uint32_t code) {
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (code > range[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && code >= range[low].first;
}

bool ls_is_space(uint32_t code) {
    return code == ' ' || (code >= 9 && code <= 13) || code == 0x85 || code == 0xa0 || code == 0x1680 ||
           (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 || code == 0x202f ||
           code == 0x205f || code == 0x3000;
}

bool ls_is_number(uint32_t code) { return is_in(numbers, LS_COUNT(numbers), code); }
bool ls_is_word(uint32_t code) { return is_in(words, LS_COUNT(words), code); }
bool ls_is_punctuation(uint32_t code) { return is_in(punctuation, LS_COUNT(punctuation), code); }

void ls_lower_case(uint32_t code, uint32_t out[2]) {
    size_t low = 0, high = LS_COUNT(lower);
    out[0] = code == 0x130 ? 'i' : code;
    out[1] = code == 0x130 ? 0x307 : 0;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (code > lower[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < LS_COUNT(lower) && code >= lower[low].first &&
        (code - lower[low].first) % (uint32_t)lower[low].step == 0)
        out[0] = code + (uint32_t)lower[low].distance;
}

const char *ls_category(uint32_t code) { return utf8proc_category_string((utf8proc_int32_t)code); }

int ls_utf8_encode(uint32_t code, char out[4]) {
    return (int)utf8proc_encode_char((utf8proc_int32_t)code, (utf8proc_uint8_t *)out);
}
