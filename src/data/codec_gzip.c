/* gzip: any number of members, one after the other, and zeros behind the last one, as tapes and some tools leave them. */
#include "data/codec.h"

#if LS_HAVE_Z
#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

typedef struct gzip {
    z_stream stream;
    bool inside;  /* of a member */
    bool decoded; /* at least one */
} gzip;

enum { GZIP_WINDOW = 15 + 16 }; /* zlib's way to say: gzip, any window */

static void *create(void) {
    gzip *g = calloc(1, sizeof *g);
    if (g != NULL && inflateInit2(&g->stream, GZIP_WINDOW) == Z_OK) return g;
    free(g);
    return NULL;
}

static void pass_zeros(const gzip *g, ls_codec_step *step) {
    while (g->decoded && step->in_bytes > 0 && *step->in == 0) {
        step->in++;
        step->in_bytes--;
    }
}

static uInt some(size_t bytes) { return bytes < UINT_MAX ? (uInt)bytes : UINT_MAX; }

static const char *decode(void *state, ls_codec_step *step) {
    gzip *g = state;
    if (!g->inside) {
        pass_zeros(g, step);
        if (step->in_bytes == 0) return NULL;
        inflateReset(&g->stream);
        g->inside = true;
    }
    z_stream *z = &g->stream;
    z->next_in = (z_const Bytef *)(uintptr_t)step->in;
    z->avail_in = some(step->in_bytes);
    z->next_out = (Bytef *)step->out;
    z->avail_out = some(step->room);
    const int code = inflate(z, Z_NO_FLUSH);
    step->in_bytes -= (size_t)(z->next_in - step->in);
    step->in = z->next_in;
    step->room -= (size_t)((char *)z->next_out - step->out);
    step->out = (char *)z->next_out;
    g->inside = code != Z_STREAM_END;
    g->decoded = g->decoded || !g->inside;
    step->between = !g->inside;
    if (code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR)
        return NULL; /* the last: it needs more */
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

const ls_codec ls_codec_gzip = {".gz",        "gzip", "member", {0x1f, 0x8b}, 2,
                                "zlib1g-dev", create, decode,   destroy};
