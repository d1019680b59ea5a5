/* Bytes and seconds as text for people. */
#ifndef LONGSPAN_UNITS_H
#define LONGSPAN_UNITS_H

#include "longspan/linkage.h"

LS_PUBLIC_BEGIN

/* "512 B", "1.5 KiB", "2.0 GiB"; returns out, which may be NULL. */
#define LS_BYTES_TEXT 24
const char *ls_bytes_text(double bytes, char out[LS_BYTES_TEXT]);

/* "4.261 ms", "111.2 s", "35.20 min"; returns out, which may be NULL. */
#define LS_SECONDS_TEXT 24
const char *ls_seconds_text(double seconds, char out[LS_SECONDS_TEXT]);

LS_PUBLIC_END

#endif
