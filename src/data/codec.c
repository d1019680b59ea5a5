#include "data/codec.h"
#include "base/base.h"

#include <string.h>

static const ls_codec *const codecs[] = {&ls_codec_zstd, &ls_codec_gzip};

const ls_codec *ls_codec_of_name(const char *name, size_t *stem) {
    const size_t length = strlen(name);
    *stem = length;
    for (size_t i = 0; i < LS_COUNT(codecs); i++) {
        const size_t n = strlen(codecs[i]->suffix);
        if (length <= n || strcmp(name + length - n, codecs[i]->suffix) != 0) continue;
        *stem = length - n;
        return codecs[i];
    }
    return NULL;
}

const ls_codec *ls_codec_of_bytes(const unsigned char *bytes, size_t n) {
    for (size_t i = 0; i < LS_COUNT(codecs); i++)
        if (n >= codecs[i]->magic_bytes && memcmp(bytes, codecs[i]->magic, codecs[i]->magic_bytes) == 0)
            return codecs[i];
    return NULL;
}
