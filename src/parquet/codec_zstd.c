/* Zstandard, by libzstd. */
#include "parquet/parquet_impl.h"

#if LS_HAVE_ZSTD
#include <zstd.h>

static const char *decompress(const uint8_t *in, size_t n, uint8_t *out, size_t room) {
    const size_t made = ZSTD_decompress(out, room, in, n);
    if (ZSTD_isError(made)) return ZSTD_getErrorName(made);
    return made == room ? NULL : "its size is another than the page's";
}
#else
#define decompress NULL
#endif

const parquet_codec parquet_zstd = {"zstd", "libzstd-dev", decompress};
