#include "text/characters.h"

#include <utf8proc.h>

bool ls_is_space(uint32_t code) {
    return code == ' ' || (code >= 9 && code <= 13) || code == 0x85 || code == 0xa0 || code == 0x1680 ||
           (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 || code == 0x202f ||
           code == 0x205f || code == 0x3000;
}

static bool within(uint32_t code, utf8proc_category_t first, utf8proc_category_t last) {
    const utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)code);
    return category >= first && category <= last;
}

bool ls_is_number(uint32_t code) { return within(code, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO); }

bool ls_is_word(uint32_t code) {
    /* LU to NL in utf8proc's order: letters, marks, ND, NL; the last four are letters in circles and squares */
    return within(code, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_NL) ||
           within(code, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PC) || code == 0x200c || code == 0x200d ||
           (code >= 0x24b6 && code <= 0x24e9) || (code >= 0x1f130 && code <= 0x1f149) ||
           (code >= 0x1f150 && code <= 0x1f169) || (code >= 0x1f170 && code <= 0x1f189);
}

void ls_lower_case(uint32_t code, uint32_t out[2]) {
    out[0] = code == 0x130 ? 'i' : (uint32_t)utf8proc_tolower((utf8proc_int32_t)code);
    out[1] = code == 0x130 ? 0x307 : 0;
}

const char *ls_category(uint32_t code) { return utf8proc_category_string((utf8proc_int32_t)code); }

int ls_utf8_encode(uint32_t code, char out[4]) {
    return (int)utf8proc_encode_char((utf8proc_int32_t)code, (utf8proc_uint8_t *)out);
}
