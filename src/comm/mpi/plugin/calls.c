/* Single messages and bodies: making them, leaving them for the thread that moves them, and handing them to MPI. */
#include "comm/mpi/plugin/mpi_impl.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GIGABYTE = 1 << 30 }; /* counts that do not fit into an int are cut into such pieces */

bool ls_mpi_succeeded(ls_mpi *m, int result, const char *call) {
    if (result == MPI_SUCCESS) return true;
    char text[MPI_MAX_ERROR_STRING] = "?", why[MPI_MAX_ERROR_STRING + 128];
    int length;
    (void)MPI_Error_string(result, text, &length);
    snprintf(why, sizeof why, "rank %d: %s: %s", m->boot->rank, call, text);
    (void)ls_notice_abort(&m->notice, why);
    return false;
}

ls_mpi_sending *ls_mpi_message_to(int peer, ls_mpi_kind kind, size_t bytes) {
    LS_ASSERT(bytes <= LS_MPI_INLINE);
    ls_mpi_sending *s = malloc(sizeof *s);
    LS_ASSERT(s != NULL);
    memset(s, 0, offsetof(ls_mpi_sending, message.payload));
    s->peer = peer;
    s->message_request = s->body_request = MPI_REQUEST_NULL;
    s->message.kind = kind;
    s->message.word = -1;
    s->message.bytes = bytes;
    return s;
}

void ls_mpi_post_later(ls_mpi *m, ls_mpi_sending *s) {
    pthread_mutex_lock(&m->list);
    s->next = m->posted;
    m->posted = s;
    pthread_mutex_unlock(&m->list);
}

/* A range as MPI sees it from the range's offset: `count` elements of a type, which is freed unless it is MPI_BYTE. */
typedef struct layout {
    MPI_Datatype type;
    int count;
} layout;

/* The type of any number of bytes in one piece. */
static MPI_Datatype flat_type(size_t bytes) {
    MPI_Datatype gigabyte, type;
    MPI_Type_contiguous(GIGABYTE, MPI_BYTE, &gigabyte);
    const int whole = (int)(bytes / GIGABYTE), rest = (int)(bytes % GIGABYTE);
    const MPI_Datatype types[] = {gigabyte, MPI_BYTE};
    const MPI_Aint places[] = {0, (MPI_Aint)whole * GIGABYTE};
    MPI_Type_create_struct(2, (const int[]){whole, rest}, places, types, &type);
    MPI_Type_free(&gigabyte);
    return type;
}

static layout layout_of(const ls_range *range) {
    if (ls_range_is_flat(range) && range->length <= GIGABYTE) return (layout){MPI_BYTE, (int)range->length};
    MPI_Datatype type = flat_type(range->length);
    for (int d = 0; d < LS_RANGE_DIMS; d++) {
        if (range->count[d] == 1) continue;
        MPI_Datatype piece = type;
        MPI_Type_create_hvector((int)range->count[d], 1, (MPI_Aint)range->stride[d], piece, &type);
        MPI_Type_free(&piece);
    }
    MPI_Type_commit(&type);
    return (layout){type, 1};
}

static void free_layout(layout *l) {
    if (l->type != MPI_BYTE) MPI_Type_free(&l->type);
}

void ls_mpi_send(ls_mpi *m, ls_mpi_sending *s) {
    const int bytes = (int)(offsetof(ls_mpi_message, payload) + s->message.bytes);
    int result = MPI_Isend(&s->message, bytes, MPI_BYTE, s->peer, LS_MPI_TAG, m->messages, &s->message_request);
    if (!ls_mpi_succeeded(m, result, "MPI_Isend") || s->source == NULL) return;
    layout l = layout_of(&s->from);
    const char *source = (const char *)s->source + s->from.offset;
    result = MPI_Isend(source, l.count, l.type, s->peer, LS_MPI_TAG, m->bodies, &s->body_request);
    (void)ls_mpi_succeeded(m, result, "MPI_Isend");
    free_layout(&l);
}

void ls_mpi_receive_body(ls_mpi *m, int peer, const ls_mpi_message *message, void *heap) {
    ls_mpi_receiving *r = calloc(1, sizeof *r);
    LS_ASSERT(r != NULL);
    *r = (ls_mpi_receiving){.next = m->receiving,
                            .peer = peer,
                            .word = message->word,
                            .generation = message->generation,
                            .request = MPI_REQUEST_NULL};
    layout l = layout_of(&message->to);
    char *target = (char *)heap + message->to.offset;
    const int result = MPI_Irecv(target, l.count, l.type, peer, LS_MPI_TAG, m->bodies, &r->request);
    const bool posted = ls_mpi_succeeded(m, result, "MPI_Irecv");
    free_layout(&l);
    if (posted)
        m->receiving = r;
    else
        free(r); /* the job is aborted, and the body will not be received */
}
