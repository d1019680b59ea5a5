/* The codecs by their numbers in files. */
#include "parquet/parquet_impl.h"

static const parquet_codec lzo = {"LZO", NULL, NULL}, brotli = {"Brotli", NULL, NULL},
                           hadoop = {"LZ4 as Hadoop frames it", NULL, NULL}, none = {NULL, NULL, NULL};
static const parquet_codec *const codecs[] = {&none,   &parquet_snappy, &parquet_gzip, &lzo,
                                              &brotli, &hadoop,         &parquet_zstd, &parquet_lz4};

const parquet_codec *parquet_codec_of(int64_t number) {
    return number >= 0 && (size_t)number < LS_COUNT(codecs) ? codecs[number] : NULL;
}
