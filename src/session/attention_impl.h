/* Attention alone, for attention.c, where ranks run the user's function, and attention_calls.c, where it is called. */
#ifndef LS_SESSION_ATTENTION_IMPL_H
#define LS_SESSION_ATTENTION_IMPL_H

#include "session/session.h"

#include <pthread.h>
#include <sys/types.h>

struct ls_shared_attention {
    ls_attention_options options;
    ls_attention_graph graph;
    ls_job job;
    int32_t bounds[2];      /* of `whole` */
    ls_mask_term whole;     /* one document: what a program for documents of each call is planned with */
    ls_mask only_documents; /* of `whole` */
    ls_session *session;
    int backward; /* that program; -1: there is none */
    bool ran;
    ls_attention_work work; /* set while ls_shared_attention_run is active, as is input */
    const void *input;
    pthread_mutex_t lock; /* held during a call */
    bool called;          /* the ranks are threads that wait for calls, or did not start */
    ls_status started;    /* how that went */
    pid_t process;        /* that opened it: no other has its threads */
};

#endif
