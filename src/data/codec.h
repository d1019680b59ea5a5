/* Compressed files: a row for each format, which says how such a file is named, how it begins, and how it is decoded. */
#ifndef LS_DATA_CODEC_H
#define LS_DATA_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One step of decoding takes from the front of `in` and puts at the front of `out`; both shrink. */
typedef struct ls_codec_step {
    const unsigned char *in;
    size_t in_bytes;
    char *out;
    size_t room;
    bool between; /* the file may end here: nothing was begun, or what was begun is complete */
} ls_codec_step;

typedef struct ls_codec {
    const char *suffix, *name;
    const char *part;       /* what a file is made of */
    unsigned char magic[4]; /* how a file begins */
    size_t magic_bytes;
    const char *package;   /* Debian's, for a build without it */
    void *(*create)(void); /* NULL: this build has it not. Returns NULL without memory */
    const char *(*decode)(void *state,
                          ls_codec_step *step); /* returns why the bytes cannot be decoded; NULL: they can */
    void (*destroy)(void *state);               /* NULL is allowed */
} ls_codec;

extern const ls_codec ls_codec_zstd, ls_codec_gzip;

/* By the end of a name, whose length without it is *stem; NULL: none, and *stem is the whole. */
const ls_codec *ls_codec_of_name(const char *name, size_t *stem);
/* By the first bytes of a file; NULL: none. */
const ls_codec *ls_codec_of_bytes(const unsigned char *bytes, size_t n);

#endif
