/*
 * One status type for all of Longspan.
 *
 * A status is a small value without ownership: there is nothing to free, and it works when memory
 * has run out. The first function that detects an error writes the message, with the names and
 * values that a user needs to act; its callers return the status unchanged (LS_TRY).
 * The outputs of a function are set only when its status is LS_OK.
 */
#ifndef LONGSPAN_STATUS_H
#define LONGSPAN_STATUS_H

#include <stdbool.h>

#include "longspan/linkage.h"

LS_PUBLIC_BEGIN

typedef enum ls_code {
    LS_OK = 0,
    LS_USAGE,       /* the command line is wrong: exit code 2 */
    LS_INVALID,     /* an input (file, field, shape, argument) is wrong */
    LS_IO,          /* the operating system refused a file operation */
    LS_NO_MEMORY,   /* memory could not be allocated or mapped */
    LS_UNSUPPORTED, /* valid, but Longspan has no rule or kernel for it */
    LS_PEER,        /* another rank died or stopped responding */
    LS_INTERRUPTED, /* stopped on request; the work done so far is kept */
    LS_DIVERGED,    /* training produced a value that is not finite */
    LS_FAULT,       /* a device, or its driver, failed */
} ls_code;

/* text: one line, no trailing newline; empty when code is LS_OK. */
typedef struct ls_status {
    ls_code code;
    char text[508];
} ls_status;

#define LS_MUST_USE __attribute__((warn_unused_result))
#define LS_PRINTF(f, a) __attribute__((format(printf, f, a)))

static inline ls_status ls_ok(void) {
    ls_status s;
    s.code = LS_OK;
    s.text[0] = 0;
    return s;
}

/*
 * A status with a printf-style message. A message that is too long loses its middle, so that its end, the reason, is
 * kept.
 */
ls_status ls_error(ls_code code, const char *format, ...) LS_PRINTF(2, 3);

/* The same status with "format: " in front of its text; LS_OK stays LS_OK. */
ls_status ls_error_in(ls_status inner, const char *format, ...) LS_PRINTF(2, 3);

/* Short name of a code ("invalid", "io", ...), for logs and JSON. */
const char *ls_code_name(ls_code code);

/* Returns from the enclosing function if the call fails. */
#define LS_TRY(call)                                             \
    do {                                                         \
        ls_status ls_try_status_ = (call);                       \
        if (ls_try_status_.code != LS_OK) return ls_try_status_; \
    } while (0)

LS_PUBLIC_END

#endif
