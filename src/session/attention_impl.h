/*
 * Attention alone, shared by attention.c, where ranks run the user's function, and attention_calls.c, where attention
 * is a call.
 */
#ifndef LS_SESSION_ATTENTION_IMPL_H
#define LS_SESSION_ATTENTION_IMPL_H

#include "session/session.h"

#include <pthread.h>
#include <sys/types.h>

struct ls_shared_attention {
    ls_attention_options options;
    ls_attention_graph graph;
    ls_job job;
    int32_t bounds[2]; /* document bounds of `whole` */
    /* a mask term with one document, with which a program for calls that have documents is planned */
    ls_mask_term whole;
    ls_mask only_documents; /* a mask with only the term `whole` */
    ls_session *session;
    int backward; /* index of the program for the backward pass; -1: none */
    bool ran;
    ls_attention_work work; /* set, like input, while ls_shared_attention_run is active */
    const void *input;
    pthread_mutex_t lock; /* held during a call */
    bool called;          /* the ranks are threads that wait for calls, or starting them failed */
    ls_status started;    /* status of starting them */
    pid_t process;        /* the process that opened it; only this one has the threads */
};

#endif
