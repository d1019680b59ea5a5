/* zstd: any number of frames, one after the other. */
#include "data/source_impl.h"

#if LS_HAVE_ZSTD
#include <zstd.h>
#include <zstd_errors.h>

static void *create(void) { return ZSTD_createDStream(); }

static const char *decode(void *state, ls_codec_step *step) {
    ZSTD_inBuffer in = {step->in, step->in_bytes, 0};
    ZSTD_outBuffer out = {step->out, step->room, 0};
    const size_t left = ZSTD_decompressStream(state, &out, &in);
    step->in += in.pos;
    step->in_bytes -= in.pos;
    step->out += out.pos;
    step->room -= out.pos;
    step->between = left == 0;
    if (!ZSTD_isError(left)) return NULL;
    return ZSTD_getErrorCode(left) == ZSTD_error_frameParameter_windowTooLarge
               ? "its window is more than 128 MiB; compress it without --long"
               : ZSTD_getErrorName(left);
}

static void destroy(void *state) { ZSTD_freeDStream(state); }
#else
#define create NULL
#define decode NULL
#define destroy NULL
#endif

const ls_codec ls_codec_zstd = {".zst", "zstd", "frame", {0x28, 0xb5, 0x2f, 0xfd}, 4, "libzstd-dev",
                                create, decode, destroy};
