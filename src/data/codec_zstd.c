/* zstd: any number of frames, one after the other. */
#include "data/source_impl.h"

#if LS_HAVE_ZSTD
#include <stdlib.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

enum { MOST_HEADER = 18 }; /* bytes of a frame's header (RFC 8878, section 3.1.1.1, with the magic number) */

/*
 * The frame that is being decoded. libzstd compares its size with that in its header only if the last block is not
 * empty.
 */
typedef struct zstd {
    ZSTD_DStream *stream;
    unsigned char header[MOST_HEADER];
    size_t header_bytes;
    unsigned long long bytes; /* decompressed bytes */
} zstd;

static void destroy(void *state) {
    zstd *z = state;
    if (z == NULL) return;
    ZSTD_freeDStream(z->stream);
    free(z);
}

static void *create(void) {
    zstd *z = calloc(1, sizeof *z);
    if (z == NULL) return NULL;
    z->stream = ZSTD_createDStream();
    if (z->stream != NULL) return z;
    free(z);
    return NULL;
}

static void keep_header(zstd *z, const unsigned char *in, size_t n) {
    const size_t room = MOST_HEADER - z->header_bytes, kept = n < room ? n : room;
    memcpy(z->header + z->header_bytes, in, kept);
    z->header_bytes += kept;
}

/* Called at the end of a frame. */
static bool has_stated_size(const zstd *z) {
    const unsigned long long stated = ZSTD_getFrameContentSize(z->header, z->header_bytes);
    return stated == ZSTD_CONTENTSIZE_UNKNOWN || stated == z->bytes;
}

static const char *decode(void *state, ls_codec_step *step) {
    zstd *z = state;
    ZSTD_inBuffer in = {step->in, step->in_bytes, 0};
    ZSTD_outBuffer out = {step->out, step->room, 0};
    const size_t left = ZSTD_decompressStream(z->stream, &out, &in);
    keep_header(z, step->in, in.pos);
    z->bytes += out.pos;
    step->in += in.pos;
    step->in_bytes -= in.pos;
    step->out += out.pos;
    step->room -= out.pos;
    step->between = left == 0;
    if (ZSTD_getErrorCode(left) == ZSTD_error_frameParameter_windowTooLarge)
        return "its window is more than 128 MiB; compress it without --long";
    if (ZSTD_isError(left)) return ZSTD_getErrorName(left);
    if (left > 0) return NULL;
    const bool right = has_stated_size(z);
    z->header_bytes = 0;
    z->bytes = 0;
    return right ? NULL : "a frame has another size than its header states";
}
#else
#define create NULL
#define decode NULL
#define destroy NULL
#endif

const ls_codec ls_codec_zstd = {".zst", "zstd", "frame", {0x28, 0xb5, 0x2f, 0xfd}, 4, "libzstd-dev",
                                create, decode, destroy};
