/*
 * Calls of XLA's FFI for attention: what XLA passes (xla/ffi/api/c_api.h of jaxlib) to what the C library takes
 * (longspan/attention.h). Compiled at first use by jax_attention.py, which also registers the attentions that it has
 * opened; linked with neither library.
 *
 * Inputs: q, k, v [batch, tokens, heads, size], sink [heads] or [0], documents i32[batch, tokens] or [0]; for the
 * gradient then o, lse [batch, heads, tokens] and the gradient of o. Results: o, lse; or those of q, k, v and the sink.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xla/ffi/api/c_api.h"

typedef struct status {
    int code;
    char text[508];
} status; /* ls_status */

typedef status (*attention_call)(void *attention, const void *arrays);

typedef struct strided {
    void *data;
    int64_t batch, token, head;
} strided; /* ls_attention_strided */

typedef struct arrays {
    strided q, k, v, o;
    void *lse, *sink;
    int32_t *ends, *n_ends;
    int64_t room;
    strided grad_o, dq, dk, dv;
    void *dsink;
    bool on_device; /* false: XLA's buffers are the host's */
    void *stream;
} arrays; /* ls_attention_arrays */

/* --- open attentions ---------------------------------------------------------------------------------------------- */

/* Entries are added at the front while calls read the list, and stay: a compiled program of XLA may come back to them.
 */
typedef struct entry {
    const struct entry *next;
    size_t length;
    const char *name;
    void *attention;
    attention_call call[2]; /* forward, backward */
} entry;

static const entry *_Atomic entries;

/* One call at a time. Returns whether there was memory. */
bool longspan_add(const char *name, void *attention, attention_call forward, attention_call backward) {
    entry *e = malloc(sizeof *e);
    char *copy = strdup(name);
    if (e == NULL || copy == NULL) return false;
    *e = (entry){entries, strlen(copy), copy, attention, {forward, backward}};
    entries = e;
    return true;
}

static const entry *find(const XLA_FFI_ByteSpan *name) {
    const entry *e = entries;
    while (e != NULL && (e->length != name->len || memcmp(e->name, name->ptr, name->len) != 0)) e = e->next;
    return e;
}

/* --- what XLA passes ---------------------------------------------------------------------------------------------- */

static XLA_FFI_Error *failure(const XLA_FFI_CallFrame *frame, const char *text) {
    XLA_FFI_Error_Create_Args args = {.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE,
                                      .message = text,
                                      .errc = XLA_FFI_Error_Code_INVALID_ARGUMENT};
    return frame->api->XLA_FFI_Error_Create(&args);
}

static const XLA_FFI_Buffer *in(const XLA_FFI_CallFrame *frame, int i) { return frame->args.args[i]; }
static const XLA_FFI_Buffer *out(const XLA_FFI_CallFrame *frame, int i) { return frame->rets.rets[i]; }

static strided tokens(const XLA_FFI_Buffer *b) {
    const int64_t head = b->dims[3], token = b->dims[2] * head;
    return (strided){b->data, b->dims[1] * token, token, head};
}

static void *vector(const XLA_FFI_Buffer *b) { return b->dims[0] > 0 ? b->data : NULL; }

/* Whether the number has come before position i of the sequence: the tokens of a document then lie apart. */
static bool is_taken(const int32_t *ids, const int32_t *ends, int n, int32_t id) {
    for (int d = 0; d + 1 < n; d++)
        if (ids[ends[d]] == id) return true;
    return false;
}

/* Fills a->ends and a->n_ends, to be freed. Returns what is wrong, or NULL. */
static const char *read_documents(const XLA_FFI_Buffer *b, arrays *a) {
    if (b->rank != 2) return NULL;
    const int64_t B = b->dims[0], S = b->dims[1];
    a->room = S + 1;
    a->ends = malloc(sizeof *a->ends * (size_t)(B * a->room));
    a->n_ends = malloc(sizeof *a->n_ends * (size_t)B);
    if (a->ends == NULL || a->n_ends == NULL) return "attention: no memory for the bounds of documents";
    for (int64_t r = 0; r < B; r++) {
        const int32_t *ids = (const int32_t *)b->data + r * S;
        int32_t *ends = a->ends + r * a->room, n = 1;
        ends[0] = 0;
        for (int64_t i = 1; i < S; i++) {
            if (ids[i] == ids[i - 1]) continue;
            if (is_taken(ids, ends, n, ids[i]))
                return "attention: the tokens of a document lie apart; expected each document in one piece";
            ends[n++] = (int32_t)i;
        }
        ends[n++] = (int32_t)S;
        a->n_ends[r] = n;
    }
    return NULL;
}

static XLA_FFI_Error *call(const XLA_FFI_CallFrame *frame, bool backward) {
    const entry *e = frame->attrs.size == 1 ? find(frame->attrs.attrs[0]) : NULL;
    if (e == NULL)
        return failure(frame, "attention: the program was compiled by another process; trace it in this one");
    arrays a = {
        .q = tokens(in(frame, 0)), .k = tokens(in(frame, 1)), .v = tokens(in(frame, 2)), .sink = vector(in(frame, 3))};
    if (backward) {
        a.o = tokens(in(frame, 5));
        a.lse = in(frame, 6)->data;
        a.grad_o = tokens(in(frame, 7));
        a.dq = tokens(out(frame, 0));
        a.dk = tokens(out(frame, 1));
        a.dv = tokens(out(frame, 2));
        a.dsink = vector(out(frame, 3));
    } else {
        a.o = tokens(out(frame, 0));
        a.lse = out(frame, 1)->data;
    }
    const char *wrong = read_documents(in(frame, 4), &a);
    status s = {.code = 0};
    if (wrong == NULL) s = e->call[backward](e->attention, &a);
    free(a.ends);
    free(a.n_ends);
    if (wrong == NULL && s.code != 0) wrong = s.text;
    return wrong != NULL ? failure(frame, wrong) : NULL;
}

/* XLA asks first for which version of its interface this was compiled. */
static XLA_FFI_Error *handle(XLA_FFI_CallFrame *frame, bool backward) {
    XLA_FFI_Extension_Base *extension = frame->extension_start;
    if (extension == NULL || extension->type != XLA_FFI_Extension_Metadata) return call(frame, backward);
    XLA_FFI_Metadata *metadata = ((XLA_FFI_Metadata_Extension *)extension)->metadata;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = XLA_FFI_API_MINOR;
    return NULL;
}

XLA_FFI_Error *longspan_forward(XLA_FFI_CallFrame *frame) { return handle(frame, false); }
XLA_FFI_Error *longspan_backward(XLA_FFI_CallFrame *frame) { return handle(frame, true); }
