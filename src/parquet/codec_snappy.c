/* Snappy, by libsnappy. */
#include "parquet/parquet_impl.h"

#if LS_HAVE_SNAPPY
#include <snappy-c.h>

static const char *decompress(const uint8_t *in, size_t n, uint8_t *out, size_t room) {
    size_t stated = 0;
    if (snappy_uncompressed_length((const char *)in, n, &stated) != SNAPPY_OK || stated != room)
        return "its size is another than the page's";
    return snappy_uncompress((const char *)in, n, (char *)out, &stated) == SNAPPY_OK && stated == room
               ? NULL
               : "its bytes are damaged";
}
#else
#define decompress NULL
#endif

const parquet_codec parquet_snappy = {"Snappy", "libsnappy-dev", decompress};
