/* gzip: any number of members, one after the other, then any number of zeros, which tapes and some tools add. */
#include "data/source_impl.h"

#if LS_HAVE_Z
#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

typedef struct gzip {
    z_stream stream;
    bool inside;  /* decoding is within a member */
    bool decoded; /* at least one member was decoded */
} gzip;

enum { GZIP_WINDOW = 15 + 16 }; /* zlib: the largest window, in the gzip format */

static void *create(void) {
    gzip *g = calloc(1, sizeof *g);
    if (g != NULL && inflateInit2(&g->stream, GZIP_WINDOW) == Z_OK) return g;
    free(g);
    return NULL;
}

static void skip_zeros(const gzip *g, ls_codec_step *step) {
    while (g->decoded && step->in_bytes > 0 && *step->in == 0) {
        step->in++;
        step->in_bytes--;
    }
}

static uInt at_most_uint(size_t bytes) { return bytes < UINT_MAX ? (uInt)bytes : UINT_MAX; }

static const char *decode(void *state, ls_codec_step *step) {
    gzip *g = state;
    if (!g->inside) {
        skip_zeros(g, step);
        if (step->in_bytes == 0) return NULL;
        inflateReset(&g->stream);
        g->inside = true;
    }
    z_stream *z = &g->stream;
    z->next_in = (z_const Bytef *)(uintptr_t)step->in;
    z->avail_in = at_most_uint(step->in_bytes);
    z->next_out = (Bytef *)step->out;
    z->avail_out = at_most_uint(step->room);
    const int code = inflate(z, Z_NO_FLUSH);
    step->in_bytes -= (size_t)(z->next_in - step->in);
    step->in = z->next_in;
    step->room -= (size_t)((char *)z->next_out - step->out);
    step->out = (char *)z->next_out;
    g->inside = code != Z_STREAM_END;
    g->decoded = g->decoded || !g->inside;
    step->between = !g->inside;
    if (code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR)
        return NULL; /* Z_BUF_ERROR: more input or room is needed */
    return z->msg != NULL ? z->msg : "no memory";
}

static void destroy(void *state) {
    gzip *g = state;
    if (g != NULL) (void)inflateEnd(&g->stream);
    free(g);
}
#else
#define create NULL
#define decode NULL
#define destroy NULL
#endif

const ls_codec ls_codec_gzip = {".gz", "gzip", "member", {0x1f, 0x8b}, 2, "zlib1g-dev", create, decode, destroy};
