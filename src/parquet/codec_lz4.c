/* Blocks of LZ4 (LZ4_RAW), by liblz4. */
#include "parquet/parquet_impl.h"

#if LS_HAVE_LZ4
#include <lz4.h>

static const char *decompress(const uint8_t *in, size_t n, uint8_t *out, size_t room) {
    if (n > INT32_MAX || room > INT32_MAX) return "it is longer than 2 GiB";
    return LZ4_decompress_safe((const char *)in, (char *)out, (int)n, (int)room) == (int)room ? NULL
                                                                                              : "its bytes are damaged";
}
#else
#define decompress NULL
#endif

const parquet_codec parquet_lz4 = {"LZ4", "liblz4-dev", decompress};
