/* Transfers of the interpreter: as late, cut up and out of order as the contract of comm/comm.h allows. */
#include "run/interpret_impl.h"

#include <string.h>

static ls_put_under_way *new_put(ls_interpreter *in, int rank) {
    ls_put_under_way *p = in->free_puts;
    if (p != NULL)
        in->free_puts = p->next;
    else
        p = LS_NEW(in->arena, ls_put_under_way);
    *p = (ls_put_under_way){0};
    ls_put_under_way **last = &in->rank[rank].puts;
    while (*last != NULL) last = &(*last)->next;
    *last = p;
    return p;
}

static void cut_up(ls_interpreter *in, ls_put_under_way *p) {
    const int units = (int)ls_min(p->from->n, p->to->n),
              most = 1 + (int)ls_interpreter_draw(in, LS_MOST_PIECES);
    for (int at = 0; at < units; p->n++) {
        const bool last = p->n + 1 == most;
        const int end = last ? units : at + 1 + (int)ls_interpreter_draw(in, (uint64_t)(units - at));
        const int place = (int)ls_interpreter_draw(in, (uint64_t)p->n + 1); /* shuffles as it goes */
        memcpy(p->piece[p->n], p->piece[place], sizeof p->piece[0]);
        p->piece[place][0] = at;
        p->piece[place][1] = end;
        at = end;
    }
}

void ls_network_send(ls_interpreter *in, int rank, int queue, const ls_instr *instr,
                     const ls_interpreted *units) {
    ls_interpreted_rank *r = &in->rank[rank];
    ls_put_under_way *p = new_put(in, rank);
    p->peer = instr->peer;
    p->queue = queue;
    p->word = ls_interpreted_word(ls_interpreted_program(r), instr);
    p->generation = ls_interpreted_generation(r, instr);
    if (instr->kind != LS_INSTR_PUT_SIGNAL) return;
    p->from = &units->in[0];
    p->to = &units->out[0];
    p->read = ls_interpreter_read_index(in, rank, instr->number);
    cut_up(in, p);
    ls_hashes_poison(&in->rank[p->peer].store, p->to);
}

static void deliver_piece(ls_interpreter *in, int rank, ls_put_under_way *p) {
    const int *piece = p->piece[p->delivered++];
    const uint64_t *source = in->rank[rank].store.value[p->from->space];
    uint64_t *target = in->rank[p->peer].store.value[p->to->space];
    for (int i = piece[0]; i < piece[1]; i++) {
        const uint64_t value = source[p->from->at[i]];
        in->outcome.poison |= value == LS_POISON;
        p->sum += ls_hash_mix(value, (uint64_t)i + 1);
        target[p->to->at[i]] = value;
    }
    if (p->delivered == p->n) in->reads[p->read] = p->sum | 1;
}

static bool is_behind(const ls_interpreted_rank *r, const ls_put_under_way *p) {
    for (const ls_put_under_way *e = r->puts; e != p; e = e->next) {
        if (e->word == p->word && e->peer == p->peer) return true;
    }
    return false;
}

/* A piece of some put arrives, or its signal. */
bool ls_network_move(ls_interpreter *in, int rank) {
    ls_interpreted_rank *r = &in->rank[rank];
    ls_put_under_way **link = &r->puts;
    if (*link == NULL) return false;
    for (uint64_t steps = ls_interpreter_draw(in, 32); steps > 0; steps--)
        link = (*link)->next != NULL ? &(*link)->next : &r->puts;
    ls_put_under_way *p = *link;
    if (p->delivered < p->n) {
        deliver_piece(in, rank, p);
        return true;
    }
    if (is_behind(r, p)) { /* the first of its word may go */
        link = &r->puts;
        while ((*link)->word != p->word || (*link)->peer != p->peer) link = &(*link)->next;
        p = *link;
        while (p->delivered < p->n) deliver_piece(in, rank, p);
    }
    in->rank[p->peer].words[p->word] = p->generation;
    *link = p->next;
    p->next = in->free_puts;
    in->free_puts = p;
    return true;
}

/* The payloads of this queue's puts arrive. */
void ls_network_quiet(ls_interpreter *in, int rank, int queue) {
    for (ls_put_under_way *p = in->rank[rank].puts; p != NULL; p = p->next) {
        while (p->queue == queue && p->delivered < p->n) deliver_piece(in, rank, p);
    }
}

void ls_network_clear(ls_interpreter *in, int rank) {
    ls_interpreted_rank *r = &in->rank[rank];
    while (r->puts != NULL) {
        ls_put_under_way *p = r->puts;
        r->puts = p->next;
        p->next = in->free_puts;
        in->free_puts = p;
    }
}
