/* Gzip, by zlib. */
#include "parquet/parquet_impl.h"

#if LS_HAVE_Z
#include <zlib.h>

static const char *decompress(const uint8_t *in, size_t n, uint8_t *out, size_t room) {
    enum { AUTO = 15 + 32 }; /* the largest window; headers of gzip and of zlib */
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)in, .avail_in = (uInt)n, .avail_out = (uInt)room};
    stream.next_out = out;
    if (n > INT32_MAX || room > INT32_MAX) return "it is longer than 2 GiB";
    if (inflateInit2(&stream, AUTO) != Z_OK) return "there is no memory for it";
    const int code = inflate(&stream, Z_FINISH);
    const bool whole = code == Z_STREAM_END && stream.avail_out == 0;
    (void)inflateEnd(&stream);
    return whole ? NULL : "its bytes are damaged, or its size is another than the page's";
}
#else
#define decompress NULL
#endif

const parquet_codec parquet_gzip = {"gzip", "zlib1g-dev", decompress};
