/* The messages of all collectives are granted, sent and received, or read in place, here. */
#include "compile/redistribute/redistribute.h"

ls_messages ls_messages_make(ls_builder *b, int n) {
    return (ls_messages){n, LS_NEW_ARRAY(b->scratch, ls_message_pair, n + 1)};
}

ls_messages ls_stage_messages(ls_builder *b, const char *label, const ls_stages *stages, int stage) {
    const ls_stage *s = &stages->stage[stage];
    ls_messages m = ls_messages_make(b, s->ranks - 1);
    int before = 0; /* channels that earlier stages use */
    for (int i = 0; i < stage; i++) before += stages->stage[i].ranks - 1;
    for (int j = 1; j < s->ranks; j++)
        m.pair[j - 1] = (ls_message_pair){.channel = ls_build_channel(b, "%s.%d", label, before + j),
                                          .receiver = ls_build_peer(b, s->team, j),
                                          .sender = ls_build_peer(b, s->team, -j)};
    return m;
}

void ls_messages_grant(ls_builder *b, const ls_messages *m) {
    for (int i = 0; i < m->n; i++) ls_build_grant(b, m->pair[i].channel, m->pair[i].sender, m->pair[i].land);
}

void ls_messages_send(ls_builder *b, const ls_messages *m) {
    for (int i = 0; i < m->n; i++)
        ls_build_send(b, m->pair[i].channel, m->pair[i].receiver, m->pair[i].from, m->pair[i].to);
}

void ls_messages_receive(ls_builder *b, const ls_messages *m) {
    for (int i = 0; i < m->n; i++) ls_build_receive(b, m->pair[i].channel, m->pair[i].sender, m->pair[i].land);
}

void ls_messages_lease(ls_builder *b, const ls_messages *m) {
    for (int i = 0; i < m->n; i++) ls_build_lease(b, m->pair[i].channel, m->pair[i].receiver, m->pair[i].from);
}

void ls_messages_fetch(ls_builder *b, const ls_messages *m) {
    for (int i = 0; i < m->n; i++) {
        const ls_message_pair *pair = &m->pair[i];
        ls_build_borrow(b, pair->channel, pair->there);
        ls_build_copy(b, pair->there, pair->land);
        ls_build_return(b, pair->channel, pair->there);
    }
}

void ls_messages_reclaim(ls_builder *b, const ls_messages *m) {
    for (int i = 0; i < m->n; i++) ls_build_reclaim(b, m->pair[i].channel, m->pair[i].receiver, m->pair[i].from);
}
